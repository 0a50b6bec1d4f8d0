"""Pages cut into blocks: no word is lost, glued, invented or moved, against a plain reading of the page."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.kernels.html.cutting import Cut, read_words, text_of, words_of

INLINE = ["a", "a href=x", "b", "i", "code", "em", "font", "span", "sub", "sup", "u", "label", "o:p"]
BOXES = ["div", "p", "li", "ul", "ol", "td", "tr", "table", "h2", "section", "blockquote", "pre", "dd", "dl", "button"]
SKIPPED = [
    "<script>if (a < b) '<p>no</p>'</script>",
    "<style>p > a {}</style>",
    "<noscript>no <b>no</b></noscript>",
    "<svg viewBox='0 0 1 1'><text>no</text></svg>",
    "<select><option>no<option>no</select>",
    "<template><p>no<template>no</template>no</template>",
    "<iframe src=x></iframe>",
    "<!-- <p>no</p> -->",
    "<input value=no>",
    "<img src=x alt=no>",
    "<br>",
    "<hr/>",
    "<BR CLEAR='all'>",
]
WORDS = st.sampled_from(
    ["one", "two, ", " three", "\n", " ", "4", "fünf", "六", "&amp;", "&nbsp;", "&lt;p&gt;", "a < b", "."]
)
TAGS = st.sampled_from(
    [f"<{name}>" for name in INLINE + BOXES]
    + [f"</{name.split()[0]}>" for name in INLINE + BOXES]
    + ["<p class='a > b' id=\"'\">", "<div\n hidden>", "<TD colspan=2>", "<span/>"]
)
SOUP = st.lists(st.one_of(WORDS, WORDS, TAGS, st.sampled_from(SKIPPED)), max_size=60).map("".join)


@given(SOUP)
@example("one<b>two</b> <i>three</i><p>four<span>five</span> six")
def test_every_word_is_there_once_and_in_order(page: str) -> None:
    """Words end at white space and at the edges of boxes, and nowhere else; skipped elements give no words."""
    assert words_of(page) == read_words(page)


@pytest.mark.parametrize(
    "tag", ["div", "b", "table", "ul", "blockquote", "span", "a", "math", "ruby", "svg", "noscript", "pre", "dd"]
)
@pytest.mark.parametrize("closed", [False, True])
def test_no_depth_loses_words(tag: str, closed: bool) -> None:
    """50,000 nested elements, with and without their end tags; skipped elements need an end tag."""
    page = f"<p>first</p>{f'<{tag}>' * 50_000}inside{f'</{tag}>' * 50_000 * closed}<p>last</p>"
    found = words_of(page)
    assert found == ["first", "last"] if closed and tag in ("svg", "noscript") else ["first", "inside", "last"]


@pytest.mark.parametrize(
    ("page", "text"),
    [
        ("a<script>b</script>c", "ac"),
        ("a<script><!-- document.write('<script>b</script>c'); --></script>d", "ad"),
        ("a<script><!-- <script> </script>b", "ab"),
        ("a<script><!-- --> <script></script>b", "ab"),
        ("a<script>b", "a"),
        ("a<style>b", "a"),
        ("a<noscript>b", "ab"),
        ("a<svg/>b<svg>c<svg>d</svg>e</svg>f", "a b f"),
        ("a<svg><svg>c</svg>d<svg>e</svg>f", "a d f"),
        ("<label>a</label><input><label>b</label>", "a b"),
        ("a<iframe></iframe>b<video>c</video>d", "a b d"),
        ("a<wbr>b<img src=x>c", "abc"),
        ("a</>b</ >c<?php d ?>e<!f>g", "abceg"),
        ("a<b", "a"),
        ("a<b x='>c", "a"),
        ("a < b <3 c</", "a < b <3 c</"),
        ("a<!--", "a"),
        ("a<!-->b<!--->c<!-- - -- >d-->e", "abce"),
        ("<p hidden>a</p>b", "a\n\nb"),
        ("\0a\x01b\x7fc", "abc"),
    ],
)
def test_edges_of_markup(page: str, text: str) -> None:
    """Nested scripts, elements without an end, and text that only looks like a tag."""
    assert text_of(page) == text


def test_invalid_bytes_are_text_like_others() -> None:
    """Lone bytes, halves of characters and UTF-16 come through as they are, and take nothing with them."""
    for byte in range(0x80, 0x100):
        assert b"a" in Cut(b"<p>a" + bytes([byte])).written()
        assert Cut(b"<p>" + bytes([byte]) + b"</p><p>word</p>").written().endswith(b"word")
    assert Cut("<p>word</p>".encode("utf-16-le")).written() == b"<p>word</p>"


def test_one_block_more_than_the_array_holds_is_reported() -> None:
    """Nothing is written beyond the array."""
    cut = Cut("<p>x" * 100, room_bytes=200)
    assert cut.is_full
    assert cut.count == 58
