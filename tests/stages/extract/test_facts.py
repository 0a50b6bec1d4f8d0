from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from resiliparse.parse.html import HTMLTree

from gristmill.stages.extract.facts import MAX_NAME_CHARS, MAX_TITLE_CHARS, SCHEMA, facts, language_tag, one_line


def rows(*pages: str | bytes) -> list[dict[str, Any]]:
    encoded = [page.encode() if isinstance(page, str) else page for page in pages]
    batch = facts(np.frombuffer(b"".join(encoded), np.uint8), np.cumsum([0, *map(len, encoded)]))
    assert batch.schema == SCHEMA
    result: list[dict[str, Any]] = batch.to_pylist()
    return result


def metadata_of(page: str) -> dict[str, Any]:
    """The metadata of a page, without nulls."""
    return {name: value for name, value in rows(page)[0].items() if value is not None}


def meta(**values: str) -> str:
    return "".join(f"<meta name='{name.replace('__', ':')}' content='{value}'>" for name, value in values.items())


def linked(json: str) -> str:
    return f"<script type='application/ld+json'>{json}</script>"


@pytest.mark.parametrize(
    ("page", "title"),
    [
        ("<h1>f</h1>" + linked('{"headline":"e"}') + meta(og__title="b") + "<title> a\n b</title>", "a b"),
        ("<h1>f</h1>" + meta(twitter__title="c", og__title="b"), "b"),
        ("<meta name=dc.title content=d>" + meta(twitter__title="c"), "c"),
        (linked('{"headline":"e"}') + "<meta name=DC.Title content=d>", "d"),
        ("<h1>f</h1>" + linked('{"@type":"Article","headline":"e &amp; e"}'), "e & e"),
        ("<h1> f <b>g</b>h<br>&lt;i&gt; </h1>", "f gh<i>"),
        ("<title>&nbsp;\u00ad</title><h1>f</h1>", "f"),
        ("<title>a\u202eb&#0;&#x41;&eacute;&copy 2</title>", "ab\ufffdAé© 2"),
        ("<title>" + "é" * 50_000 + "</title>", "é" * MAX_TITLE_CHARS),
        ("<title>&#" + "9" * 5_000 + ";a &#" + "0" * 5_000 + "65;</title>", "\ufffda A"),
    ],
)
def test_title(page: str, title: str) -> None:
    """<title>, three tags, a headline in JSON-LD, <h1>; one normalised line of at most 300 characters."""
    assert metadata_of(page) == {"title": title}


@pytest.mark.parametrize(
    ("page", "language"),
    [
        ("<html xml:lang=fr lang=en-US>", "en-us"),
        ("<html lang='' xml:lang=fr>", "fr"),
        ("<html lang='?' xml:lang=fr>", "fr"),
        ("<html lang=utf-8><meta http-equiv=Content-Language content='de, en'>", "de"),
        ("<meta property=og:locale content=pt_BR><meta name=content-language content='! '>", "pt-br"),
        ("<!-- <html lang=de> --><html><html lang=it>", "it"),
    ],
)
def test_language(page: str, language: str) -> None:
    """<html lang>, then xml:lang, content-language, og:locale: the first that is a tag."""
    assert metadata_of(page) == {"language": language}


@pytest.mark.parametrize(
    ("page", "author"),
    [
        (meta(article__author="B", author=" By  Ann\nLee "), "Ann Lee"),
        (meta(author="by: Ann") + meta(author="Ann") + meta(author="Bo &amp; Co"), "Ann; Bo & Co"),
        (meta(article__author="https://a.de/ann") + "<meta name=DC.creator content=C>", "C"),
        (meta(author="www.a.de", article__author="@ann") + "<meta name=parsely-author content=D>", "D"),
        ("<meta property=sailthru.author content=E>" + linked('{"author":"F"}'), "E"),
        (linked('{"author":[{"name":"F"},"G",{"name":["H"]}]}'), "F; G; H"),
        (meta(author="Byron"), "Byron"),
        (meta(author="x" * 300), "x" * MAX_NAME_CHARS),
        (meta(author="x" * 150) + meta(author="y" * 49) + meta(author="z"), "x" * 150 + "; z"),
        (meta(twitter__creator="@ann") + "<a rel=author>Ann</a><span itemprop=author>Ann</span>", None),
    ],
)
def test_author(page: str, author: str | None) -> None:
    """Names come from tags in the head, else from JSON-LD; no URLs, no accounts, nothing from the body."""
    assert metadata_of(page).get("author") == author


PUBLISHED = "<meta itemprop=datePublished content={}>"
FOURTH = "2012-04-04"


@pytest.mark.parametrize(
    ("page", "date"),
    [
        (PUBLISHED.format("2012-02-02") + meta(article__published_time="2012-01-01"), "2012-01-01"),
        (linked('{"datePublished":"2012-03-03"}') + PUBLISHED.format("2012-02-02"), "2012-02-02"),
        (meta(date="2012-04-04") + linked('{"datePublished":"2012-03-03"}'), "2012-03-03"),
        (meta(article__published_time="0000-00-00", pubdate="20120404") + "<time pubdate datetime=2012-05-05>", FOURTH),
        (meta(date="2012-04-04") + "<body>" + PUBLISHED.format("2012-05-05"), FOURTH),
        ("<time datetime=2012-06-06><time itemprop=datePublished datetime=2012-05-05>", "2012-05-05"),
        ("<body>" + PUBLISHED.format("2012-05-05T10:00") + "<time pubdate datetime=2012-05-05>", "2012-05-05T10:00:00"),
        ("<body>" + PUBLISHED.format("2012-05-05") + "<time pubdate datetime=2012-06-06>", None),
        (meta(date="03/04/2012") + meta(date="13/04/2012"), "2012-04-13"),
        (meta(article__modified_time="2012-01-01", expires="2012-01-01"), None),
    ],
)
def test_date(page: str, date: str | None) -> None:
    """The first valid date, the most reliable source first. Dates in the body count if they are the same day."""
    assert metadata_of(page).get("date") == date


FIELDS = "https://a.de/?x=1&y=2&copy=3&notify<"


@pytest.mark.parametrize(
    ("page", "url"),
    [
        ("<link href='https://a.de/?x=1&amp;y=2&copy=3&notify&lt;' rel=Canonical>" + meta(og__url="http://b"), FIELDS),
        ("<link rel=canonical href=/relative>" + meta(og__url=" HTTP://b.de/ü "), "HTTP://b.de/ü"),
        ("<link rel=canonical href='http://a.de/a b'>" + meta(og__url="//b.de/"), None),
        ("<link rel=canonical href='javascript:http://a.de/'>" + meta(og__url="http:///x"), None),
        (f"<link rel=canonical href='http://a.de/{'x' * 1_988}'>", "http://a.de/" + "x" * 1_988),
        (f"<link rel=canonical href='http://a.de/{'x' * 1_989}'>" + meta(og__url="http://b.de/\u202e"), None),
        ("<link rel=alternate href=http://a.de/>" + linked('{"url":"http://a.de/"}'), None),
    ],
)
def test_canonical_url(page: str, url: str | None) -> None:
    """Only whole URLs count. In one, `&copy=` is the name of a parameter, as in a browser."""
    assert metadata_of(page).get("canonical_url") == url


@pytest.mark.parametrize(
    ("page", "site"),
    [
        (linked('{"publisher":{"name":"B"}}') + meta(og__site_name=" The\n A "), "The A"),
        ("<meta name=application-name content=C>" + linked('{"publisher":{"name":"B"}}'), "B"),
        ("<meta name=application-name content=C>" + meta(og__site_name="https://a.de"), "C"),
        (meta(og__site_name="x" * 300), "x" * MAX_NAME_CHARS),
        (linked('{"@type":"WebSite","name":"B"}') + meta(twitter__site="@b"), None),
    ],
)
def test_site(page: str, site: str | None) -> None:
    """og:site_name, the publisher in JSON-LD, application-name."""
    assert metadata_of(page).get("site") == site


PIECES = st.one_of(
    st.text(max_size=6),
    st.sampled_from(
        ["<title>", "</title>", "<h1>", "</h1>", "<svg>", "</svg>", "<b>", "<!--", "-->", "<body>", "&#", ";"]
    ),
    st.sampled_from(
        ["<meta name=", "author", "date", " content=", "'", '"', ">", "2012", "-", "http://", "&amp", "\0"]
    ),
    st.sampled_from(
        ["<script type=application/ld+json>", "</script>", "[", "]", "{", "}", '"author":', ",", "<![CDATA["]
    ),
    st.sampled_from(["\ufdd0", "\u202e", "\u0301" * 40, "<html lang=", "<link rel=canonical href=", "9" * 20]),
)
PAGES = st.lists(PIECES, max_size=20).map("".join)


@settings(deadline=None)
@given(st.lists(PAGES, max_size=4), st.binary(max_size=20))
def test_any_page_is_accepted(pages: list[str], junk: bytes) -> None:
    """Nothing is raised, rows are independent, and values are bounded, printable and not blank."""
    found = rows(junk, *pages)
    assert found[1:] == [rows(page)[0] for page in pages]
    for row in found:
        for value in filter(None, row.values()):
            assert value == value.strip()
            assert "\n" not in value
            assert len(value) <= 2_000
            assert not {"\0", "\u202e", "\ufdd0"} & set(value)


TITLES = st.one_of(
    st.text("ab é\u0301\n&;<>-!", max_size=10), st.sampled_from(["&amp;", "<!-- x -->", "&lt;b&gt;", ""])
)


def title_of(tree: Any) -> str | None:
    """<title>, else og:title, else the first <h1>. The oracle."""
    meta, heading = tree.head.query_selector('meta[property="og:title"]'), tree.body.query_selector("h1")
    named, headed = meta.getattr("content") if meta else "", heading.text if heading else ""
    return one_line(tree.title) or one_line(named) or one_line(headed) or None


def language_of(tree: Any) -> str | None:
    """<html lang>, else <meta http-equiv="content-language">. The oracle."""
    root = tree.document.first_element_child
    meta = tree.head.query_selector('meta[http-equiv="content-language" i]')
    stated = language_tag(root.getattr("lang") or root.getattr("xml:lang"))
    return stated or (language_tag(meta.getattr("content")) if meta else None)


@given(
    title=TITLES,
    heading=st.sampled_from(["", "<h1>head <i>line</i></h1>", "<h1></h1>", "<svg><title>x</title></svg>"]),
    head=st.sampled_from(["", "<meta property=og:title content='a &amp; b'>", "<script>'<title>x</title>'</script>"]),
    attributes=st.sampled_from(["", "lang=en", "xml:lang=de-AT", "lang='' xml:lang=fr", "LANG=C"]),
    language=st.sampled_from(["", "<meta http-equiv=content-language content='el, en'>", "<!-- <html lang=it> -->"]),
)
def test_title_and_language_are_those_of_a_tree(
    title: str, heading: str, head: str, attributes: str, language: str
) -> None:
    """The byte scan finds what a parser finds."""
    page = (
        f"<!doctype html><html {attributes}><head>{head}{language}<title>{title}</title></head><body>{heading}</body>"
    )
    tree = HTMLTree.parse(page)
    row = rows(page)[0]
    assert (row["title"], row["language"]) == (title_of(tree), language_of(tree))


def test_rows_without_a_page_have_no_metadata() -> None:
    """No rows, and rows without a page."""
    assert rows() == []
    assert rows("", "plain text") == [dict.fromkeys(SCHEMA.names)] * 2
