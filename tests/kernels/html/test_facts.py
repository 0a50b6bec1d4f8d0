import re
from html.parser import HTMLParser

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gristmill.kernels.html import facts as kernel

PLACES = {name: place for place, names in enumerate(kernel._NAMED[: kernel.CANONICAL]) for name in names.split()}


def find(*pages: bytes) -> list[list[tuple[int, bytes]]]:
    """Place and value of everything that is found in each page."""
    offsets = np.cumsum([0, *map(len, pages)])
    found = kernel.find_facts(np.frombuffer(b"".join(pages), np.uint8), offsets).tolist()
    assert found == sorted(found, key=lambda row: row[0])
    for page, _, begin, end in found:
        assert offsets[page] <= begin < end <= offsets[page + 1]
    joined = b"".join(pages)
    return [[(place, joined[a:b]) for one, place, a, b in found if one == page] for page in range(len(pages))]


class Head(HTMLParser):
    """The oracle: what Python's parser makes of `<meta>`, `<link>`, `<time>`, `<html>` and `<title>`."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=False)
        self.found: list[tuple[int, str]] = []
        self.in_head, self.in_title = True, False

    def add(self, place: int, value: str | None) -> None:
        if value and value.strip(" \t\n\r\f"):
            self.found.append((place, value))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        attributes = dict(reversed(attrs))
        named = [attributes.get(name) or "" for name in ("name", "property", "itemprop", "http-equiv", "rel")]
        words = {word for value in named for word in re.split("[ \t\n\r\f;]", value.lower())}
        if tag == "body":
            self.in_head = False
        elif tag == "meta":
            for place in sorted({PLACES[word] for word in words & set(PLACES)}):
                if self.in_head:
                    self.add(place, attributes.get("content"))
                elif place == kernel.DATE_PUBLISHED:
                    self.add(kernel.BODY_DATE, attributes.get("content"))
        elif tag == "link" and "canonical" in words and self.in_head:
            self.add(kernel.CANONICAL, attributes.get("href"))
        elif tag == "time" and ("pubdate" in attributes or any(PLACES.get(word) in DATES for word in words)):
            self.add(kernel.BODY_DATE, attributes.get("datetime"))
        elif tag == "html":
            for name, value in attrs:
                if name in LANGUAGES:
                    self.add(LANGUAGES[name], value)
        self.in_title = tag == "title"

    def handle_data(self, data: str) -> None:
        if self.in_title:
            self.add(kernel.TITLE, data)

    def handle_endtag(self, tag: str) -> None:
        self.in_title = False


DATES = (kernel.DATE_PUBLISHED, kernel.OTHER_DATE)
LANGUAGES = {"lang": kernel.LANG, "xml:lang": kernel.XML_LANG}
WORDS = st.sampled_from([*PLACES, "canonical", "stylesheet", "description", "viewport", "x", ""])
SPELT = st.tuples(WORDS, st.sampled_from([str, str.upper, str.title])).map(lambda pair: pair[1](pair[0]))
VALUES = st.one_of(st.text("aé中 \n=/<", max_size=8), st.sampled_from(["2012-03-04", "http://a.de/?b=c", "> <p>", " "]))
NAMES = st.sampled_from(["name", "property", "itemprop", "http-equiv", "rel", "NAME", "content", "Content", "href"])
MORE_NAMES = st.sampled_from(["lang", "xml:lang", "datetime", "pubdate", "data-x", "class"])


@st.composite
def attributes(draw: st.DrawFn) -> str:
    """Quoted in either way or not at all; each name once."""
    names = draw(st.lists(st.one_of(NAMES, NAMES, MORE_NAMES), max_size=5, unique_by=str.lower))
    written = []
    for name in names:
        if name.lower() in ("content", "href", "datetime", "lang", "xml:lang", "data-x"):
            value = draw(VALUES)
        else:
            value = draw(st.lists(SPELT, max_size=2).map(" ".join))
        quote = draw(st.sampled_from("\"'"))
        bare = re.fullmatch(r"[\w.:-]+", value) and draw(st.booleans())
        equals = draw(st.sampled_from(["=", "=", " = ", "=\n"]))
        written.append(f"{name}{equals}{value if bare else quote + value + quote}")
    return draw(st.sampled_from([" ", "\n\t"])).join(["", *written])


TAGS = st.builds(
    lambda tag, inside, end: f"<{tag}{inside}{end}>",
    st.sampled_from(["meta", "meta", "META", "link", "time", "html", "p", "div", "metadata"]),
    attributes(),
    st.sampled_from(["", " ", " /"]),
)
PIECES = st.one_of(
    TAGS,
    TAGS.map(lambda tag: f"<!-- {tag} -->"),
    TAGS.map(lambda tag: f"<script>var x = '{tag}';</script>"),
    TAGS.map(lambda tag: f"<style>{tag}</style>"),
    st.text("aé \n", max_size=5).map(lambda text: f"<title>{text}</title>"),
    st.sampled_from(["text", " ", "<body>", "</head>", "<!doctype html>", "<br/>", "</p >", "<?xml ?>"]),
)


@given(st.lists(PIECES, max_size=8).map("".join), st.binary(max_size=9))
def test_tags_are_those_of_a_parser(page: str, before: bytes) -> None:
    """Attributes may have any order, quotes and case, and comments and scripts may contain what looks like a tag."""
    oracle = Head()
    oracle.feed(page)
    oracle.close()
    assert find(before, page.encode())[1] == [(place, value.encode()) for place, value in oracle.found]


@pytest.mark.parametrize(
    ("page", "found"),
    [
        ("<svg><title>a</title></svg><title>b</title>", [(kernel.TITLE, b"b")]),
        ("<svg/><title>b</title>", [(kernel.TITLE, b"b")]),
        ("<svg><path><div><title>b</title>", [(kernel.TITLE, b"b")]),
        ("<textarea><title>a</title></textarea><!--<title>a</title>--><title>b</title>", [(kernel.TITLE, b"b")]),
        ("<title>a <b>c</b> <!-- d</title>", [(kernel.TITLE, b"a <b>c</b> <!-- d")]),
        ("<title></title><title> </title>", []),
        ("<title>to the end", [(kernel.TITLE, b"to the end")]),
        ("<title", []),
        ("<meta name=author content=a name=date>", [(kernel.AUTHOR, b"a"), (kernel.OTHER_DATE, b"a")]),
        ("<meta name=author content=a content=b>", [(kernel.AUTHOR, b"a")]),
        ("<meta name=author content", []),
        ('<meta name=author content="a>', []),
        ("<meta name=author>", []),
        ("<a title='<meta name=author content=a>'>", []),
        ("<link rel='x CANONICAL' href=http://a>", [(kernel.CANONICAL, b"http://a")]),
        ("<body><link rel=canonical href=http://a><meta name=author content=a>", []),
        ("<body><meta itemprop=datePublished content=2012>", [(kernel.BODY_DATE, b"2012")]),
        ("<body><time itemprop='x pubdate' datetime=1><time pubdate datetime=2><time datetime=3>", "12"),
        ("<h1><i>a</i>b<!-- c --></h1><h1>d</h1>", [(kernel.HEADING_TEXT, b"a"), (kernel.HEADING_TEXT, b"b")]),
        ("<h1><img></h1><h1>d<h2>e", [(kernel.HEADING_TEXT, b"d")]),
        ("<script type='Application/LD+json; x'>{}</script>", [(kernel.JSON_LD, b"{}")]),
        ("<script>{}</script><script type=application/json>{}</script>", []),
        ("<plaintext><title>a</title>", []),
    ],
)
def test_what_is_no_tag_says_nothing(page: str, found: list[tuple[int, bytes]] | str) -> None:
    """Foreign content, raw text, comments, tags without an end and the second of two equal attributes."""
    wanted = [(kernel.BODY_DATE, one.encode()) for one in found] if isinstance(found, str) else found
    assert find(page.encode()) == [wanted]


@pytest.mark.parametrize("inner", ["[", '{"a":', '{"a":"[[[\\"[[[",'])
def test_json_that_nests_deeply_is_passed_over(inner: str) -> None:
    """The depth of the stack must not decide whether it can be read. Brackets in strings do not nest."""
    depth = kernel.MAX_SCRIPT_DEPTH
    made = [
        b"<script type=application/ld+json>" + inner.encode() * times + b"</script>" for times in (depth, depth + 1)
    ]
    assert list(map(len, find(*made))) == [1, 0]


def test_scripts_and_values_are_bounded() -> None:
    """Of long values the beginning, of many the first: what Python reads of a page does not grow with the page."""
    opening = b"<script type=application/ld+json>"
    sizes = (kernel.MAX_SCRIPT_BYTES, kernel.MAX_SCRIPT_BYTES + 1)
    assert list(map(len, find(*(opening + b"1" * size + b"</script>" for size in sizes)))) == [1, 0]
    (values,) = find(b"<meta name=author content='" + b"x" * 1_000_000 + b"'>")
    assert [len(value) for _, value in values] == [kernel.MAX_VALUE_BYTES]
    pieces = b"<meta name=author content=x>" * 5_000, (opening + b"1</script>") * 5_000, b"<h1>" + b"x<b>" * 5_000
    assert list(map(len, find(*pieces))) == [8, 4, 64]


HOSTILE = [
    b"<meta",
    b"<meta ",
    b'<meta name="',
    b"<!--",
    b"<title>",
    b"<svg>",
    b"<h1>",
    b"<",
    b"</",
    b"<a =",
    b"\xff<!",
]


@given(st.lists(st.lists(st.sampled_from(HOSTILE), max_size=9).map(b"".join), max_size=4))
@settings(deadline=None)
def test_a_page_does_not_depend_on_its_neighbours(pages: list[bytes]) -> None:
    """Anything left open in one page does not affect the next."""
    good = b"<title>a</title><meta name=author content=b>"
    mixed = [page for one in pages for page in (one, good)]
    assert find(*mixed) == [find(page)[0] for page in mixed]
    assert all(len(found) == 2 for found in find(*mixed)[1::2])
