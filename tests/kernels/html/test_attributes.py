"""Attributes of a tag, and the meaning of class names, against a plain implementation."""

import re
from html.parser import HTMLParser
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from gristmill.kernels.html.attributes import (
    A_ALT,
    A_ALT_END,
    A_DISPLAY,
    A_HINTS,
    A_HREF,
    A_HREF_END,
    A_MATH,
    A_START,
    A_TYPE,
    MATH_IMAGE,
    MATH_JAX,
    MATH_KATEX,
    NOTED,
    hints_of,
    read_attributes,
)
from gristmill.kernels.html.bounds import as_words
from gristmill.kernels.html.layout import HINT_HIDDEN, HINT_INVISIBLE, HINTS

GROUPS = {word: 0 for words in HINTS.values() for word in words.split()}
for bit, members in enumerate(HINTS.values()):
    for member in members.split():
        GROUPS[member] |= 1 << bit
LISTED = sorted(GROUPS)


def noted_of(tag: bytes) -> tuple[np.ndarray, bytes]:
    """The facts noted for a start tag, and the bytes after it."""
    data, words = as_words(np.frombuffer(tag, np.uint8))
    noted = np.zeros(NOTED, np.int64)
    end = read_attributes(data, words, tag.index(b"<x") + 2, len(tag), noted, True)
    return noted, tag[end:]


def hints_by_definition(value: str) -> int:
    """The hints of the words, split before a capital; a long word that is not listed has the hints of its ends."""
    found = 0
    for word in re.findall(r"[A-Z]*[a-z]+|[A-Z]+", value[:400]):
        word = word.lower()
        if len(word) < 2:
            continue
        hints = GROUPS.get(word, 0)
        if not hints and 6 < len(word) < 32:
            for size in range(4, len(word)):
                hints |= GROUPS.get(word[:size], 0) | GROUPS.get(word[-size:], 0)
        found |= hints
    return found


NAMES = st.one_of(st.sampled_from(LISTED), st.sampled_from(["left", "x", "Col", "my", "wp", "é", "1"]))
VALUES = st.lists(st.tuples(NAMES, st.sampled_from([" ", "-", "_", "", "2", "."])), max_size=8).map(
    lambda made: "".join(name + sign for name, sign in made)
)


@given(VALUES, st.booleans())
@example("leftnav sidebarBox storycontent HTMLContent a" + "b" * 40, False)
@example("x" * 395 + " sidebar", False)
def test_hints_are_those_of_a_plain_reading(value: str, title: bool) -> None:
    """Each group of words whose words are there, whole or at the ends of a longer one; 400 bytes of a value count."""
    value = value.title() if title else value
    data = np.frombuffer(value.encode(), np.uint8)
    assert hints_of(data, 0, len(data)) == hints_by_definition(value.encode().decode("latin-1"))


class _Tag(HTMLParser):
    found: Any = None

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.found = dict(reversed(attrs)) if self.found is None else self.found


PAIRS = st.tuples(
    st.sampled_from(["href", "HREF", "data-href", "x", "alt", "class", "title", "hidden2", "longer-than-eight"]),
    st.sampled_from(["", "=", " = ", "=\n"]),
    st.sampled_from(["'{}'", '"{}"', "{}"]),
    st.sampled_from(["v", "a/b", "w=1", "é", "nav"]),
)


@given(
    st.lists(PAIRS, max_size=5, unique_by=lambda pair: pair[0].lower()),
    st.sampled_from([">", " >", "/>", " / >", ">x>"]),
)
def test_values_are_those_that_a_parser_finds(pairs: list[tuple[str, str, str, str]], end: str) -> None:
    """Quoted in both ways or not at all; the tag ends where a parser ends it."""
    tag = "<x" + "".join(f" {name}{sign}{quote.format(value) if sign else ''}" for name, sign, quote, value in pairs)
    if tag.endswith("/b") or not end.startswith((">", " ")):
        end = f" {end}"
    parser = _Tag()
    parser.feed(tag + end + "<z>")
    noted, behind = noted_of((tag + end).encode())
    assert behind.decode() == end[end.index(">") :]
    whole = (tag + end).encode()
    for first, stop, name in ((A_HREF, A_HREF_END, "href"), (A_ALT, A_ALT_END, "alt")):
        assert (noted[stop] > 0) == (name in parser.found)
        assert whole[noted[first] : noted[stop]].decode() == (parser.found.get(name) or "")


@pytest.mark.parametrize(
    ("style", "hidden"),
    [
        ("display:none", True),
        ("display: none", True),
        ("DISPLAY:  None !important", True),
        ("color:red;display:none;", True),
        ("visibility:hidden", True),
        ("display:block", False),
        ("display:no", False),
        ("display:", False),
        ("overflow:hidden", False),
        ("overflow-y:hidden", False),
        ("opacity:none", False),
        ("", False),
        (f"{'x' * 400}display:none", False),
    ],
)
def test_a_style_that_hides_is_a_hint(style: str, hidden: bool) -> None:
    """display: none and visibility: hidden, in the first 400 bytes."""
    assert (noted_of(f'<x style="{style}">'.encode())[0][A_HINTS] == HINT_HIDDEN | HINT_INVISIBLE) == hidden


@pytest.mark.parametrize(
    ("tag", "field", "value"),
    [
        ("<x hidden>", A_HINTS, HINT_HIDDEN | HINT_INVISIBLE),
        ("<x hidden=until-found>", A_HINTS, HINT_HIDDEN | HINT_INVISIBLE),
        ("<x start=12>", A_START, 13),
        ("<x value=0>", A_START, 1),
        ("<x start=-1>", A_START, -1),
        ("<x start=''>", A_START, 0),
        ("<x start=1234567890>", A_START, -1),
        ("<x type='math/tex'>", A_START, 0),
        ("<x type='math/tex; mode=display'>", A_START, 1),
        ("<x TYPE='Math/TeX; mode=display'>", A_TYPE, int.from_bytes(b"math/tex", "little")),
        ("<x display=block>", A_DISPLAY, int.from_bytes(b"block", "little")),
        ("<x class=katex-html>", A_MATH, MATH_KATEX),
        ("<x class=katex>", A_MATH, 0),
        ("<x class='MathJax_Preview'>", A_MATH, MATH_JAX),
        ("<x class=mathjax>", A_MATH, 0),
        ("<x class=mwe-math-fallback-image-inline>", A_MATH, MATH_IMAGE),
        ("<x class=tex>", A_MATH, MATH_IMAGE),
        ("<x class='latex block'>", A_MATH, MATH_IMAGE),
        ("<x class=text>", A_MATH, 0),
        ("<x class=la>", A_MATH, 0),
        ("<x class=lat>", A_MATH, 0),
        ("<x src='//LaTeX.codecogs.com/gif.latex?x' class=y>", A_MATH, MATH_IMAGE),
        ("<x class=y src=https://s0.wp.com/latex.php?latex=x>", A_MATH, MATH_IMAGE),
        ("<x src=/cgi-bin/mimetex.cgi?x>", A_MATH, MATH_IMAGE),
        ("<x src=/latex-course/vertex.png>", A_MATH, 0),
        (f"<x src=/{57 * 'a'}latex.co>", A_MATH, 0),
    ],
)
def test_values_that_are_noted(tag: str, field: int, value: int) -> None:
    """Each as its field says."""
    assert noted_of(tag.encode())[0][field] == value


@pytest.mark.parametrize(
    "tag", [b"<x", b"<x ", b"<x a", b"<x a=", b"<x a='", b'<x a="b', b"<x a=b", b"<x class='tex", b"<x /"]
)
def test_a_tag_without_an_end_is_none(tag: bytes) -> None:
    """The scan stops at the end of the page, at the latest."""
    assert noted_of(tag)[1] == b""


@pytest.mark.parametrize("name", ["email.header.Header", "getHeader(int)", "module-forum", "method.comment"])
def test_an_id_that_is_the_name_of_an_api_gives_no_hints(name: str) -> None:
    assert noted_of(f"<x id='{name}'>".encode())[0][A_HINTS] == 0


@pytest.mark.parametrize("name", ["header", "module", "forum-posts", "ad-728", "module_header"])
def test_an_id_that_names_a_part_of_the_page_gives_its_hints(name: str) -> None:
    assert noted_of(f"<x id='{name}'>".encode())[0][A_HINTS] == hints_by_definition(name) != 0


@pytest.mark.parametrize("value", ["sig sig-object py", "headerlink", "sig-name descname"])
def test_class_names_of_signatures_are_no_header_and_no_forum(value: str) -> None:
    groups = [name for bit, name in enumerate(HINTS) if hints_by_definition(value) >> bit & 1]
    assert not {"header", "forum", "widget", "list"} & set(groups)
    assert noted_of(f"<x class='{value}'>".encode())[0][A_HINTS] == hints_by_definition(value)
