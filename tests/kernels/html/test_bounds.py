import re
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from resiliparse.parse.html import HTMLTree

from gristmill.kernels.html import bounds as kernel
from gristmill.kernels.html import names as columns

DEEP = 4_000
TAGS = re.findall(
    r"\w+",
    "div p span a b i font table tr td ul li dl dd h1 form select option button br img em object svg g nobr rt",
)
SOUP = st.one_of(
    st.sampled_from([f"<{tag}>" for tag in TAGS] * 2 + [f"</{tag}>" for tag in TAGS]),
    st.sampled_from(
        ["x", " ", "<", "<!-- <div> -->", '<p title="</p><b>">', "<b id=1>", "<i id=2>", "<br/>", "</", "&lt;"]
    ),
)


def scan(*pages: str, max_depth: int = DEEP) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    encoded = [page.encode() for page in pages]
    offsets = np.cumsum([0, *map(len, encoded)])
    return kernel.scan(np.frombuffer(b"".join(encoded), np.uint8), offsets, max_depth)


def walk(html: str) -> Iterator[tuple[Any, int]]:
    """Every element of the parser's own tree, and its depth. The oracle."""
    tree = HTMLTree.parse(html)
    node, depth = tree.document.first_child, 1
    while node is not None:
        if node.type == 1:
            yield node, depth
        if node.first_child is not None:
            node, depth = node.first_child, depth + 1
            continue
        while node is not None and node.next is None:
            node, depth = (node.parent, depth - 1) if depth > 1 else (None, 0)
        node = node.next if node is not None else None


def parsed(html: str) -> tuple[int, int]:
    """Elements and depth of the parser's tree."""
    depths = [depth for _, depth in walk(html)]
    return len(depths), max(depths)


def measured(html: str) -> tuple[int, int]:
    row = scan(html)[0][0]
    return int(row[columns.ELEMENTS]), int(row[columns.DEPTH])


def is_refused(html: str) -> bool:
    """No library gets a page with a tag that may break out of <svg>, <math> or <select>."""
    return bool(scan(html)[0][0, columns.ESCAPES])


def deepest(html: str) -> int:
    """As deep as the parser's tree may be: a table is one level of the measure, and up to four of the tree."""
    return measured(html)[1] + 3 * html.count("<table>") + 1


def largest(html: str) -> int:
    """The most elements that the parser's tree may have: a part of a table may imply two more around it."""
    return measured(html)[0] + 2 * html.count("<t")


@settings(max_examples=200, deadline=None, derandomize=True)
@given(st.lists(SOUP, max_size=60).map("".join))
def test_tag_soup_is_not_deeper_or_larger_than_measured(html: str) -> None:
    """On misnested markup the parser's tree is at most one level deeper than measured, and never larger."""
    if is_refused(html):
        return
    elements, depth = parsed(html)
    assert deepest(html) >= depth
    assert largest(html) >= elements


@settings(max_examples=150, deadline=None, derandomize=True)
@given(st.lists(SOUP, min_size=1, max_size=5).map("".join), st.integers(20, 40))
def test_a_repeated_fault_does_not_add_up(unit: str, times: int) -> None:
    """No pattern gains depth or size on the measure when it is repeated; such a page would slip under the bound."""
    html = unit * times
    if not is_refused(html):
        elements, depth = parsed(html)
        assert deepest(html) >= depth
        assert largest(html) >= elements


TREES = st.recursive(
    st.sampled_from(["text", "<br>", "<img alt='>'>", "<script>if (a<b) '<div>'</script>"]),
    lambda inner: st.tuples(st.sampled_from(["div", "section", "span", "em", "li"]), st.lists(inner, max_size=3)).map(
        lambda made: f"<{made[0]} class='a > b'>{''.join(made[1])}</{made[0]}>"
    ),
)


@given(TREES)
def test_well_formed_pages_are_measured_exactly(tree: str) -> None:
    """Where every element is closed, the depth is the parser's; so are the elements, but for blocks in formatting."""
    html = (
        f"<!doctype html><html><head><title>a<b></title></head><body>{tree.replace('<li', '<b').replace('</li', '</b')}"
    )
    elements, depth = measured(html)
    assert (elements, depth) >= parsed(html)
    assert depth == parsed(html)[1]


@pytest.mark.parametrize(
    "unit",
    [
        "<p>x",
        "<li>x",
        "<ul><li>x<li>y</ul>",
        "<br>",
        "<a href=x>x",
        "<option>x",
        "<select><option>x<option>y</select>",
        "<table><tr><td>x<td>y<tr><td>z</table>",
        "<dl><dt>x<dd>y</dl>",
        "<h2>x",
        "<p><b>x</b>",
        "<button>x",
        "<nobr>x",
        "<!-- <div><div> -->",
        "<!--><p>--></p>",
        "<script>'<div><div>'; <!-- </script>",
        "<style>a > b {} <div></style>",
        "<textarea><div><div></textarea>",
        "<title><div></title>",
        "<p title='<div>' class=\"</p><div>\">x</p>",
        "<svg><path/><g/></svg>",
        "<svg><title>a</title><![CDATA[<div>]]></svg>",
        "</div></p></x>",
        "<img src=a/><input><hr>",
    ],
)
def test_a_thousand_of_what_does_not_nest_is_not_deep(unit: str) -> None:
    """Optional end tags, void elements, raw text, comments and attribute values add no depth, as in the parser."""
    html = "<!doctype html><body>" + unit * 1_000
    elements, depth = parsed(html)
    assert depth < 10
    rows = html.count("<table>")  # row groups are implied; a table is one level of the measure
    assert measured(html) == (elements - rows, depth - 2 * (rows > 0))


@pytest.mark.parametrize(
    "unit", ["<div>", "<b id={}>", "<x{}>", "<table><tr><td>", "<ul><li>", "<p><b id={}>x", "<svg>", "<dl><dd>"]
)
def test_what_nests_is_deep(unit: str) -> None:
    """Unclosed blocks, formatting with distinct attributes, unknown names, cells and lists nest without end."""
    html = "".join(unit.replace("{}", str(number)) for number in range(300))
    assert deepest(html) >= parsed(html)[1] > 300
    assert measured(html)[1] > 300


@pytest.mark.parametrize(
    "unit",
    [
        "<div><object></div></object>",
        "<b id={}><object></b></object>",
        "<span><p></span></p>",
        "<p><b id={}>x</p>",
        "<div><b><svg></svg></div>",
        "<svg><td><td></svg>",
        "<li><dd><td>",
    ],
)
def test_an_end_tag_that_a_parser_ignores_does_not_hide_depth(unit: str) -> None:
    """Pages that nest without end although they have an end tag for each start tag are measured as deep."""
    html = "".join(unit.replace("{}", str(number)) for number in range(300))
    assert deepest(html) >= parsed(html)[1]


@pytest.mark.parametrize(
    "html",
    [
        "<svg></q><script><g><g></script>",
        "<div><b><svg></div><x/><x/>",
        "<svg><font color=red/>",
        "<select><title></select><div>",
    ],
)
def test_a_page_whose_reading_depends_on_the_tree_is_refused(html: str) -> None:
    """Whether a tag is in svg, math or a list of choices decides what is text; without a tree that is unknown."""
    assert is_refused(html)
    assert not is_refused(html.replace("svg", "div").replace("select", "div"))
    assert not is_refused("<svg><g><br/><path></path></g></svg>")


def test_unclosed_formatting_multiplies_elements() -> None:
    """A hundred unclosed <b> are opened again in each of a hundred paragraphs, and all of these are counted."""
    html = "".join(f"<p><b id={number}>x" for number in range(100))
    assert measured(html)[0] >= parsed(html)[0] > 5_000


@pytest.mark.parametrize("around", ["span", "table", "div"])
@pytest.mark.parametrize("unit", ["<table>x</table>", "<table>x<tr>x</table>", "<table><tr>x<td>x</table>"])
def test_formatting_that_every_later_table_reopens_is_counted_each_time(around: str, unit: str) -> None:
    """Text that is misplaced in a table opens all unclosed formatting again: 2 KB of tables make 10,000 elements."""
    formatting = "".join(f"<b id={number}>" for number in range(100))
    html = f"<{around}>{formatting}</{around}>" + unit * 100
    assert measured(html)[0] >= parsed(html)[0] > 10_000


@pytest.mark.parametrize("unit", ["<button>x", "<option>x</option>", "<span>x</span>", "<object>x</object>"])
def test_formatting_that_an_end_tag_closes_and_text_opens_again_is_counted(unit: str) -> None:
    html = "<span>" + "".join(f"<b id={number}>" for number in range(100)) + "</span>" + unit
    assert measured(html)[0] >= parsed(html)[0] > 200


def test_a_page_too_deep_is_not_scanned_to_its_end() -> None:
    """The depth stops one above the bound, for that page alone."""
    rows = scan("<div>" * 50_000, "<p>x", max_depth=512)[0]
    assert rows[:, columns.DEPTH].tolist() == [513, 3]


@pytest.mark.parametrize("html", ["<p a b=1 c='2' d=\"3\" e/f>", "<html a b><body c><html d=1>", "<p a='>' b=<i> c>"])
def test_attributes_are_counted_as_the_parser_sees_them(html: str) -> None:
    """The most attributes of one element; those of a second <html> belong to the first."""
    most = max(len(node.attrs) for node, _ in walk(html))
    assert most <= scan(html)[0][0, columns.ATTRIBUTES] <= most + 1


def test_distinct_names_are_counted_and_equal_names_are_not() -> None:
    """Names of unknown elements, and of attributes after the first ten thousand."""
    many = "".join(f"<x{number}></x{number}>" for number in range(5_000))
    same = "<x-y></x-y>" * 5_000
    attributes = "".join(f"<p a{number}>" for number in range(15_000))
    names = scan(many, same, attributes)[0][:, columns.NAMES]
    assert 4_500 < names[0] <= 5_000
    assert names[1] == 1
    assert 4_500 < names[2] <= 5_000


@pytest.mark.parametrize("shift", range(8))
def test_the_place_of_a_page_in_the_buffer_does_not_matter(shift: int) -> None:
    """Rows are the same for any start of a page and any alignment of the buffer."""
    page = "<!-- a --><div class='x'>some text<p>more text, <b>bold</b><script>a < b</script></div>"
    data = np.frombuffer((" " * shift + page + " " * 9).encode(), np.uint8)
    expected = scan(page)[0]
    assert (kernel.scan(data, np.array([shift, shift + len(page)]), DEEP)[0] == expected).all()
    assert (kernel.scan(data[shift:], np.array([0, len(page)]), DEEP)[0] == expected).all()


FILLER = "x" * columns.SHORTEST_CUT
HIDDEN = [f"<!--{FILLER}<p>-->", f"<script>'<div>'{FILLER}</script>", f"<style>{FILLER}</style >", f"<!--{FILLER}--!>"]
HIDDEN += [
    f"<script><!--{FILLER}<script></script>{FILLER}--></script>",
    f"<textarea><!--{FILLER}</textarea>",
    f"<!--{FILLER}",
]


@given(st.lists(st.one_of(SOUP, st.sampled_from(HIDDEN)), max_size=30).map("".join))
def test_cuts_change_nothing_that_a_reader_sees(html: str) -> None:
    """Without its cuts a page has the same elements at the same depths, and the same text outside scripts."""
    rows, cuts, _ = scan(html)
    assume(not rows[0, columns.ESCAPES])
    kept = html
    for start, stop in reversed(cuts.tolist()):
        kept = kept[:start] + kept[stop:]

    def elements(page: str) -> list[tuple[str, int, str]]:
        own = [(node, depth) for node, depth in walk(page)]
        texts = ["".join(child.value for child in node.child_nodes if child.type == 3) for node, _ in own]
        return [
            (node.tag, depth, "" if node.tag in ("script", "style") else text)
            for (node, depth), text in zip(own, texts, strict=True)
        ]

    assert elements(kept) == elements(html)


def test_scripts_styles_and_comments_are_cut_and_their_tags_stay() -> None:
    """The content of a long script, style or comment is cut; short ones stay."""
    html = f"<script a>{FILLER}</script><!-- {FILLER} --><p>a<!-- b --><style>{FILLER}</style>"
    _, cuts, ends = scan(html, "<p>none", html)
    assert [html[start:stop] for start, stop in cuts[:3].tolist()] == [FILLER, f" {FILLER} ", FILLER]
    assert ends.tolist() == [0, 3, 3, 6]


@pytest.mark.parametrize(
    "page", ["", "<", "</", "<!", "<!-", "<!--", "<!-->", "<a", "<a b='", "<script", "<script>", "<p>é中🙂</p"]
)
def test_a_page_that_ends_anywhere_is_measured(page: str) -> None:
    """The scan accepts truncated markup, alone or between other pages."""
    alone = scan(page)[0][0]
    assert (scan("<b>x", page, "<i>y")[0][1] == alone).all()
    assert alone[columns.DEPTH] <= 3
