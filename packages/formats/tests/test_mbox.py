"""Mail archives: what the author of each mail wrote, its thread, and no names; any cut of a file gives the same."""

import base64
import gzip
import json
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gristmill.stages.contract import Piece
from gristmill_formats import mbox
from gristmill_formats.mail import LONGEST_HEADER

FROM = b"From miller at mill.org  Mon Nov  9 21:54:11 1999\n"
FIRST = (
    FROM + b"From: Miller <miller@mill.org>\nSubject: =?iso-8859-1?Q?The_M=FChle?=\nMessage-ID: <1@mill.org>\n"
    b"Date: Mon, 9 Nov 1999 21:54:11 +0000\n\nThe wheel turns.\n>From the river.\n\nFrom here on it is quiet.\n"
    b"\n-- \nMiller, +44 20 7946 0018\n\n"
)
REPLY = (
    FROM + b"Subject: Re: AW: The wheel\nMessage-ID: <2@mill.org>\nReferences: <1@mill.org>\n <x@y>\n"
    b"Content-Type: text/plain; charset=utf-8\nContent-Transfer-Encoding: quoted-printable\n\n"
    b"On Mon, Nov 9, 1999 at 9:54 PM,\nMiller <miller@mill.org> wrote:\n> The wheel turns.\n\n> More.\n\nIt squeaks=\n"
    b" a lot: =C3=A9.\n\nLook at this:\n\n  a = 1\n_______________________________________________\nList mailing "
    b"list\nhttps://list.org\n\n"
)


def mail(headers, body):
    return FROM + headers + b"\n" + body + b"\n\n"


def rows(tmp_path, data, name="a.mbox", start=0, stop=None, **config):
    (tmp_path / "a").write_bytes(data)
    return list(mbox.read(Piece(str(tmp_path / "a"), name, start, stop), mbox.Config(**config)))


def test_a_mail_is_what_its_author_wrote(tmp_path):
    """Signatures, quotations with their announcement and footers of lists go; `From` in the text begins no mail."""
    first, reply = rows(tmp_path, gzip.compress(FIRST + REPLY))
    assert (first.title, first.text) == ("The Mühle", "The wheel turns.\nFrom the river.\n\nFrom here on it is quiet.")
    assert (reply.title, reply.text) == ("The wheel", "It squeaks a lot: é.\n\nLook at this:\n\n  a = 1")
    assert json.loads(first.meta)["post"] == json.loads(first.meta)["thread"] == json.loads(reply.meta)["thread"]
    assert "mill" not in first.meta + reply.meta
    assert "Miller" in rows(tmp_path, FIRST, authors=True)[0].meta
    assert "> The wheel turns." in rows(tmp_path, REPLY, quotes=True)[0].text


def test_mails_without_a_common_mail_are_not_one_thread(tmp_path):
    """Some refer to `<yes>`, which is no mail."""
    found = rows(tmp_path, b"".join(mail(b"References: <yes>\nMessage-ID: <%d@a>\n" % n, b"x") for n in range(2)))
    assert len({json.loads(row.meta)["thread"] for row in found}) == 2


ALTERNATIVE = b"Content-Type: multipart/alternative; boundary=b\n"
PLAIN = b"--b\nContent-Type: text/plain; charset=koi8-r\n\n\xf0\xd2\xc9\xd7\xc5\xd4\n"
HTML = b"--b\nContent-Type: text/html\nContent-Transfer-Encoding: base64\n\n" + base64.b64encode(b"<p>Hi</p>") + b"\n"
ATTACHED = b'--b\nContent-Type: text/plain\nContent-Disposition: attachment; filename="a.txt"\n\nnot read\n'


@pytest.mark.parametrize(
    ("data", "text", "html"),
    [
        (mail(ALTERNATIVE, HTML + PLAIN + b"--b--"), "Привет", None),
        (mail(ALTERNATIVE, HTML + b"--b--"), None, "<p>Hi</p>"),
        (mail(ALTERNATIVE.replace(b"alternative", b"mixed"), PLAIN + ATTACHED), "Привет", None),
        (mail(b"Content-Type: text/plain; charset=no-such\n", "é".encode()), "é", None),
        (mail(b"Content-Type: text/plain; format=flowed\n", b"a \nb\n \n> q \n> r\n c"), "a b\n\nc", None),
        (mail(b"Subject: \xfcber\nno header\n", b"x"), "no header\n\nx", None),
        (mail(b"", b"Hi\n-------------- next part --------------\nAn HTML attachment was scrubbed...\n"), "Hi", None),
        (mail(b"", b"Hi\n\n--- On Wed, 4/4/12, a@b <a@b> wrote:\n\nFrom: a@b\nNo\n"), "Hi", None),
        (mail(b"Content-Transfer-Encoding: base64\n", b"SGk"), "Hi", None),
        (mail(b"", b"Hi\n02.04.2012 14:20, Miller <\nm@mill.org> wrote:\n\n> No\n"), "Hi", None),
        (mail(b"", b"From: Miller <m@mill.org>\nDate: Sun, 14 Nov 2010\n\n> No\n\nApplied.\n"), "Applied.", None),
        (mail(b"", b"Hi\n\n*From:* m@mill.org\n*Sent:* March-09-12\n*To:* a\n*Subject:* b\n\nNo\n"), "Hi", None),
        (mail(b"", b"From: M\nSent: now\nTo: a\nHi\n"), "From: M\nSent: now\nTo: a\nHi", None),
        (mail(b"", b"Hi\n\nSent from my iPhone\n"), "Hi", None),
        (mail(b"", b"Hi\n\n> " + b"a " * 34 + b"\nand b\n> c\n"), "Hi", None),
        (mail(b"", b"> " + b"a " * 34 + b"?\nand b\n> c\n"), "and b", None),
    ],
)
def test_encodings_and_parts(tmp_path, data, text, html):
    """The plain form of alternatives is taken; broken headers and unknown charsets lose nothing."""
    [found] = rows(tmp_path, data)
    assert (found.text, found.html) == (text, html)


@pytest.mark.parametrize(
    ("subject", "title"), [("[list] Re: mill", "[list] mill"), ("Re: [list] Re: mill", "[list] Re: mill"), ("Re", "Re")]
)
def test_a_title_has_no_mark_of_a_reply(tmp_path, subject, title):
    """Also if the list has put its name before it."""
    assert rows(tmp_path, mail(f"Subject: {subject}\n".encode(), b"x"))[0].title == title


def test_bad_files_and_mails_are_rows_with_a_reason(tmp_path):
    """A mail with a thousand nested parts, one that is too large, one without text, and another format."""
    nested = b"".join(b"Content-Type: multipart/mixed; boundary=b%d\n\n--b%d\n" % (n, n) for n in range(1000))
    found = rows(tmp_path, FIRST + FROM + nested + b"\n\n" + mail(b"", b"x" * 9000) + mail(b"", b"> q") + REPLY)
    assert [row.drop for row in found] == [None, "too_many_parts", None, "empty_text", None]
    found = rows(tmp_path, FIRST + mail(b"", b"x\n" * 4000) + REPLY, max_record_bytes=2000)
    assert [row.drop for row in found] == [None, "record_too_large", None]
    assert [row.drop for row in rows(tmp_path, b"Subject: x\n\ny")] == ["not_mbox"]
    assert [row.drop for row in rows(tmp_path, b" \n")] == ["empty_file"]
    assert [row.drop for row in rows(tmp_path, gzip.compress(FIRST + REPLY)[:-9])][-1] == "truncated_gzip"


def test_a_mail_without_an_empty_line_before_it_is_a_mail(tmp_path):
    """A header follows its line From; a sentence with a time and a colon begins none."""
    first = FROM + b"Subject: a\n\nSee you.\nFrom Monday 10:30 on\nNote: bring flour.\n"
    found = rows(tmp_path, first + FROM + b"Subject: b\n\nYes.\n")
    assert [row.text for row in found] == ["See you.\nFrom Monday 10:30 on\nNote: bring flour.", "Yes."]


WHOLE = b"\n" + FIRST.rstrip(b"\n") + b"\n" + FIRST + REPLY + mail(b"", b"x" * 700).replace(b"\n", b"\r\n") + FIRST


@given(st.lists(st.integers(0, len(WHOLE)), max_size=3))
def test_any_cut_of_a_file_gives_the_same_rows(tmp_path_factory, cuts):
    """Every mail is in exactly one range."""
    folder = tmp_path_factory.mktemp("cut")
    bounds = [0, *sorted(cuts), None]
    found = [row for a, b in pairwise(bounds) for row in rows(folder, WHOLE, start=a, stop=b)]
    assert found == rows(folder, WHOLE)
    assert len(found) == 5


def test_headers_without_end_are_cut(tmp_path):
    """The beginning of a long header is read; the mail after it is read as if nothing was."""
    endless = [
        b"Subject: " + b"mill " * 50_000,
        b"Subject: m" + b"\n =?utf-8?q?a?=" * 20_000,
        b"X-A: b\n" * 20_000 + b"c: d",
    ]
    found = rows(tmp_path, b"".join(mail(one + b"\n", b"corn") for one in endless) + mail(b"Subject: x\n", b"rye"))
    assert [row.text for row in found] == ["corn", "corn", "corn", "rye"]
    assert max(len(row.title or "") for row in found) <= LONGEST_HEADER
