"""Stack Exchange dumps: posts with their threads, licenses by date, no authors; any cut of a file gives the same."""

import gzip
import json
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gristmill.stages.contract import Piece
from gristmill_formats import stack_exchange

HEAD = b'\xef\xbb\xbf<?xml version="1.0" encoding="utf-8"?>\r\n<posts>\r\n'
POSTS = [
    b'  <row Id="1" PostTypeId="1" AcceptedAnswerId="3" CreationDate="2010-08-10T19:05:40.670" Score="42" '
    b'Body="&lt;p&gt;How?&lt;/p&gt;&#xA;" OwnerUserId="7" Title="A &amp; B" Tags="&lt;ls&gt;&lt;c++&gt;" />\r\n',
    b'  <row Id="2" PostTypeId="2" ParentId="1" CreationDate="2011-04-08T00:00:00.000" Score="-5" Body="x" />\r\n',
    b'  <row Id="3" PostTypeId="2" ParentId="1" CreationDate="2018-05-02T00:00:00.000" Score="2" Body="y" />\r\n',
    b'  <row Id="4" PostTypeId="2" ParentId="1" CreationDate="2020" Body="z" ContentLicense="CC BY-SA 3.0" />\r\n',
    b'  <row Id="5" PostTypeId="5" CreationDate="2018-05-02" Body="about a tag" />\r\n',
    b'  <row Id="6" PostTypeId="1" CreationDate="2018-05-02" Body=" " Title="T" />\r\n',
    b"  <row Id=&gt; />\r\nnot xml\r\n",
]
WHOLE = HEAD + b"".join(POSTS) + b"</posts>"


def rows(tmp_path, data, name="unix.stackexchange.com/Posts.xml", start=0, stop=None, **config):
    (tmp_path / "a").write_bytes(data)
    piece = Piece(str(tmp_path / "a"), name, start, stop)
    return list(stack_exchange.read(piece, stack_exchange.Config(**config)))


def test_posts_have_threads_scores_and_addresses(tmp_path):
    """A question names itself, an answer its question; the body is markup."""
    question, answer, *_ = rows(tmp_path, WHOLE)
    site = "unix.stackexchange.com/"
    assert json.loads(question.meta) == {
        "type": "question",
        "thread": f"{site}1",
        "post": f"{site}1",
        "score": 42,
        "accepted": f"{site}3",
        "tags": ["ls", "c++"],
    }
    assert (question.title, question.url, question.html) == ("A & B", f"https://{site}q/1", "<p>How?</p>\n")
    assert json.loads(answer.meta) == {"type": "answer", "thread": f"{site}1", "post": f"{site}2", "score": -5}
    assert answer.url == f"https://{site}a/2"
    assert rows(tmp_path, WHOLE, "Posts.xml", site="a.example")[0].url == "https://a.example/q/1"


def test_the_license_is_that_of_the_day_unless_stated(tmp_path):
    """Stack Exchange changed it twice."""
    found = [row.license for row in rows(tmp_path, WHOLE)[:4]]
    assert found == ["CC-BY-SA-2.5", "CC-BY-SA-3.0", "CC-BY-SA-4.0", "CC-BY-SA-3.0"]


def test_what_is_no_post_is_a_row_with_a_reason(tmp_path):
    """Tag wikis, empty posts and broken lines; a line that declares entities is not read."""
    found = rows(tmp_path, WHOLE)
    assert [row.drop for row in found[4:]] == ["other_post_type", "empty_text", "invalid_xml", "not_a_row"]
    bomb = b'<!DOCTYPE a [<!ENTITY a "b">]>\n<posts>\n<row Id="1" PostTypeId="1" Body="&a;"/>\n</posts>'
    assert [(row.drop, row.html) for row in rows(tmp_path, bomb)] == [("not_a_row", None), ("empty_text", None)]
    assert rows(tmp_path, b"<users>\n<row/>")[0].drop == "not_stack_exchange"
    assert rows(tmp_path, WHOLE, max_record_bytes=40)[0].drop == "record_too_large"


def test_comments_name_the_post_that_they_are_about(tmp_path):
    """They are plain text; authors are kept on request only."""
    data = b'<comments>\n<row Id="9" PostId="3" Score="1" Text="a &lt; b" UserId="8"/>\n</comments>'
    [found] = rows(tmp_path, data, "Comments.xml")
    assert (found.text, json.loads(found.meta)) == ("a < b", {"type": "comment", "thread": "3", "score": 1})
    [found] = rows(tmp_path, gzip.compress(data), "Comments.xml.gz", authors=True)
    assert json.loads(found.meta)["author"] == "8"


@given(st.lists(st.integers(0, len(WHOLE)), max_size=3))
def test_any_cut_of_a_file_gives_the_same_rows(tmp_path_factory, cuts):
    """Every row is in exactly one range."""
    folder = tmp_path_factory.mktemp("cut")
    bounds = [0, *sorted(cuts), None]
    found = [row for a, b in pairwise(bounds) for row in rows(folder, WHOLE, start=a, stop=b)]
    assert found == rows(folder, WHOLE)


@pytest.mark.parametrize("name", ["Posts.xml", "x/comments.xml.gz", "x/Users.xml", "Posts.xml.bak"])
def test_of_a_folder_only_posts_and_comments_are_read(name):
    """Votes, users and the history of posts are no documents."""
    assert stack_exchange.wanted(name, stack_exchange.Config()) == (name in ("Posts.xml", "x/comments.xml.gz"))
