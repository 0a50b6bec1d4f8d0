"""Files of pages: decoded like pages of archives, one row each, with a reason if it is not a page."""

import gzip

import pytest

from gristmill.errors import WrongSetting
from gristmill.schema import as_str
from gristmill.stages.contract import Piece
from gristmill.stages.ingest import html_files, text

PAGE = "<html><head><title>Mühle</title></head><body><p>Die Mühle mahlt Korn.</p></body></html>"


def row(tmp_path, data, name="a.html"):
    (tmp_path / name).write_bytes(data)
    [found] = html_files.read(Piece(str(tmp_path / name), name), html_files.Config())
    return found


@pytest.mark.parametrize(
    "data",
    [
        PAGE.encode(),
        PAGE.encode("utf-8-sig"),
        PAGE.encode("utf-16"),
        PAGE.encode("utf-16-le"),
        gzip.compress(PAGE.encode()),
    ],
    ids=["utf-8", "utf-8 with a mark", "utf-16", "utf-16 without a mark", "gzip"],
)
def test_a_page_is_markup_in_any_encoding(tmp_path, data):
    """By byte order mark, by the zeros of UTF-16, compressed or not; the mark is removed."""
    found = row(tmp_path, data)
    assert (found.drop, as_str(found.html), found.text) == (None, PAGE, None)


def test_the_charset_is_that_of_the_meta_tag(tmp_path):
    """As browsers do it."""
    page = PAGE.replace("<head>", '<head><meta charset="iso-8859-2">')
    found = row(tmp_path, page.encode("iso-8859-2"))
    assert (as_str(found.html), found.charset) == (page, "iso-8859-2")


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "empty_file"),
        (b" \n\t", "empty_file"),
        (b"%PDF-1.7 ...", "not_text"),
        (bytes(range(256)) * 4, "not_html"),
        (b"words without any tag, 1 < 2", "not_html"),
        (gzip.compress(PAGE.encode())[:-9], "truncated_gzip"),
    ],
    ids=["empty", "spaces", "PDF", "bytes", "words", "cut"],
)
def test_a_file_that_is_not_a_page_is_a_row_with_a_reason(tmp_path, data, reason):
    """The row has no markup."""
    found = row(tmp_path, data)
    assert (found.drop, found.html, found.text) == (reason, None, None)


def test_the_suffix_says_which_files_are_pages():
    """In any case, compressed or not; version control and other files are skipped."""
    wanted = ["a.html", "b/A.HTM", "c.xhtml.gz"]
    names = [*wanted, "a.txt", "html", ".git/a.html", "a.xml"]
    assert [name for name in names if html_files.STAGE.wanted(name, html_files.Config())] == wanted


def test_the_text_reader_refuses_the_suffixes_of_pages():
    """Markup is not text; XML and the rest are up to the user."""
    text.check(text.Config(suffixes=(".xml", ".txt", "")))
    for suffix in (".html", ".HTM", ".xhtml"):
        with pytest.raises(WrongSetting, match="`format: html`"):
            text.check(text.Config(suffixes=(".txt", suffix)))
