"""MathML becomes readable, balanced LaTeX, and the page around it stays unchanged."""

import html
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gristmill.stages.reading.formulas import mathml
from gristmill.stages.reading.formulas.mathml import MAX_DEPTH, MAX_TEX_CHARS, latex, with_latex
from stages.extract.formulas import A_OVER_B, FORMULAS


@pytest.mark.parametrize("name", FORMULAS)
def test_a_formula_is_the_latex_that_one_would_write(name: str) -> None:
    """Inside <math> and alone."""
    markup, expected = FORMULAS[name]
    assert latex(markup) == expected
    assert latex(f'<math xmlns="http://www.w3.org/1998/Math/MathML">{markup}</math>') == expected


def test_a_formula_is_replaced_and_the_page_around_it_is_not() -> None:
    """Any surrounding bytes stay, even if they are not UTF-8; the LaTeX is escaped for an attribute."""
    page = b"\xff<p>\xe2\x82\xac <MATH mode=display><mi>a</mi><mo>&lt;</mo><ms>b</ms><mo>&amp;</mo></MATH>\x00 \xc3</p>"
    kept = b'\xff<p>\xe2\x82\xac <math display="block" alttext="a&lt;\\text{&quot;b&quot;}\\&amp;"></math>\x00 \xc3</p>'
    assert with_latex(page) == kept
    assert with_latex(b"<mml:math display='block'>x</mml:math><m:math>y</m:math>") == (
        b'<math display="block" alttext="x"></math><math display="inline" alttext="y"></math>'
    )


@pytest.mark.parametrize(
    "page",
    [
        '<math alttext="x^2"><mi>x</mi></math>',
        "<math><semantics><mi>x</mi><annotation encoding='application/x-tex'>x</annotation></semantics></math>",
        '<m:math><m:semantics><mi>x</mi><m:annotation encoding="LaTeX">x</m:annotation></m:semantics></m:math>',
        "<math><mi>x</mi><annotation encoding=TeX>x</annotation></math>",
        "<!-- <math><mi>x</mi></math> --><script>'<math><mi>x</mi></math>'</script><textarea><math>x</math></textarea>",
        '<span data-mathml="<math xmlns=&quot;&quot;><mi>x</mi></math>">x</span>',
        "<p><math><mi>x</mi></p><p>more</p>",
        "<math><mi>x</mi>",
        "<math/>",
        "</math><mi>x</mi>",
        "<mathematics>x</mathematics>",
    ],
)
def test_what_has_tex_or_is_no_formula_stays(page: str) -> None:
    """TeX of the author, comments, scripts, attributes, formulas without an end."""
    assert with_latex(page.encode()) == page.encode()


@pytest.mark.parametrize(
    ("page", "expected"),
    [
        ("<em>x</em><sup>2</sup> + <em>s̄</em><sub><em>i</em>, 1</sub> ≤ 12", r"x^2+\bar{s}_{i,1}\leq12"),
        ("if <em>α</em><em>b</em><strong>P</strong>sin ℤ", r"\text{if }\alpha b\mathbf{P}\sin\mathbb{Z}"),
        (r"F_\text{été}&lt;1", r"F_\text{été}&lt;1"),
        ("<p><img alt='x_1'></p>", None),
        ("<span class=katex>x</span>", None),
        ("<em>x</em><sup>2", None),
    ],
)
def test_an_element_of_the_class_math_is_a_formula(page: str, expected: str | None) -> None:
    """If it has TeX, or only letters, signs and scripts; a picture in it has its TeX."""
    page, before = f"<div class='math display'>{page}</div>", page
    formula = f'<math display="block" alttext="{expected or "x_1"}"></math>'
    picture = page.replace("<img alt='x_1'>", formula) if "<img" in page else page
    assert with_latex(page.encode()).decode() == (f"<div>{formula}</div>" if expected else picture)
    assert with_latex(before.encode()).decode() == before


def test_a_formula_without_an_end_does_not_hide_the_next() -> None:
    """It ends where a paragraph ends."""
    assert (
        with_latex(b"<p><math><mi>x<p><math>y</math>") == b'<p><math><mi>x<p><math display="inline" alttext="y"></math>'
    )


ROWS = "math mrow mfrac msqrt mroot msub msup msubsup munder mover munderover mtable mtr mlabeledtr mtd mmultiscripts"
OTHERS = "apply mfenced menclose mphantom semantics b p"
TOKENS = "mi mn mo mtext ms"
WITH_ATTRIBUTES = [
    *("<mprescripts/>", "<none/>", "<mspace width='1em'/>", "<mfrac linethickness=0>", "<mfenced open='{' close=']'>"),
    *("<mo form=prefix>", "<mo fence=true></mo>", "<mi mathvariant=bold>", "<mtable columnalign='right left'>"),
]
CHARACTERS = [
    *"xy12(){}[]|‖\\^_~'′°²∑→αℝ𝐱 &#%$<>\"≠\u0302⏟⏞\u2061\u00a0\ud800",
    *("sin", "lim", "foo", "foo bar", "&lt;", "&#123;", "&#x7d;", "&lbrace;", "&NotSubset;", "&#99999999999;"),
]
NAMES = f"{ROWS} {OTHERS} {TOKENS}".split()
TAGS = [tag for name in NAMES for tag in (f"<{name}>", f"</{name}>")]
PIECES = [*TAGS, *WITH_ATTRIBUTES, *CHARACTERS, "<!--", "-->", "<a b='"]
soup = st.lists(st.sampled_from(PIECES), max_size=40).map("".join)


def element(name: str, inside: str) -> str:
    return f"<{name}>{inside}</{name}>"


leaves = st.sampled_from([element(name, text) for name in TOKENS.split() for text in CHARACTERS] + WITH_ATTRIBUTES)
trees = st.recursive(
    leaves, lambda inner: st.builds(element, st.sampled_from(ROWS.split()), st.lists(inner, max_size=4).map("".join))
)
TOKEN = re.compile(r"\\(?:[A-Za-z]+|.)|.", re.DOTALL)


def faults(tex: str) -> list[str]:
    """What TeX would reject: open groups, fences or environments, a second script, an & outside a table."""
    found, groups, scripts = [], [("", "")], [""]
    tokens = [token for token in TOKEN.findall(tex) if token != " "]
    for place, token in enumerate(tokens):
        after = "".join(tokens[place + 1 : place + 25])
        if token in ("{", "\\left", "\\begin"):
            groups.append((token, after.partition("}")[0] if token == "\\begin" else ""))
            scripts.append("")
        elif token in ("}", "\\right", "\\end"):
            opened = {"}": ("{", ""), "\\right": ("\\left", ""), "\\end": ("\\begin", after.partition("}")[0])}[token]
            if groups.pop() != opened:
                return [*found, f"{token} closes nothing"]
            scripts.pop()
        elif token == "&" and groups[-1][0] != "\\begin":
            found.append("& outside of a table")
        elif token in ("#", "%", "$", "~"):
            found.append(f"{token} is not escaped")
        elif token in ("_", "^"):
            if token in scripts[-1] or ("'" in scripts[-1] and token == "^"):
                found.append(f"a second {token}")
            scripts[-1] += token
            continue
        elif token == "'":
            if "^" in scripts[-1]:
                found.append("a prime behind a superscript")
            scripts[-1] += token
            continue
        if token != "{" and not (place and tokens[place - 1] in ("_", "^")) and not ends_script(tokens, place):
            scripts[-1] = ""
    return found if len(groups) == 1 else [*found, f"{groups[-1][0]} is not closed"]


def ends_script(tokens: list[str], place: int) -> bool:
    """Whether this brace closes the argument of a script, so that the other kind of script may follow."""
    if tokens[place] != "}":
        return False
    depth = 0
    for at in range(place, -1, -1):
        depth += (tokens[at] == "}") - (tokens[at] == "{")
        if not depth:
            return at > 0 and tokens[at - 1] in ("_", "^")
    return False


@pytest.mark.parametrize("wrong", ["{", "}", r"\left(x", r"\begin{matrix}a", "a&b", "x^2^3", "x_{1}_2", "x^2'", "5%"])
def test_the_check_sees_what_tex_refuses(wrong: str) -> None:
    """The check of the next test can fail."""
    assert faults(wrong)


@given(soup | trees | st.text(max_size=40))
def test_any_soup_is_latex_that_tex_reads(markup: str) -> None:
    """Groups, fences and environments are closed, scripts are single, and special characters are escaped."""
    tex = latex(markup)
    assert not faults(tex), tex


@pytest.mark.parametrize("name", FORMULAS)
def test_the_table_is_latex_that_tex_reads(name: str) -> None:
    """The expected LaTeX passes the same check."""
    assert not faults(FORMULAS[name][1])


@given(soup | st.text(max_size=40))
def test_a_page_is_done_once(markup: str) -> None:
    """A page with TeX everywhere is not changed, and every replacement is well-formed."""
    page = f"<p>{markup}<math>{markup}</math></p>".encode("utf-8", "surrogatepass")
    once = with_latex(page)
    assert with_latex(once) == once


HOSTILE = {
    "open formulas": "<math>" * 5_000,
    "open tokens": "<math>" + "<mi>" * 5_000 + "</math>",
    "open formulas in paragraphs": "<math><p>" * 5_000,
    "open quotes": "<math a='" * 5_000,
    "open comments": "<math><!--" * 5_000,
    "open scripts": "<math><script>" * 5_000,
    "fences": "<math>" + "<mo>(</mo>" * 5_000 + "</math>",
    "nested fences": f"<math>{'<mo>(</mo>' * 2_000}{A_OVER_B}{'<mo>)</mo>' * 2_000}</math>",
    "ends of nothing": "<math>" + "<mrow>" * (MAX_DEPTH - 9) + "</mi>" * 5_000 + "</math>",
    "a long reference": "<math><mi>&#" + "9" * 5_000 + ";</mi></math>",
    "cells": "<math><mtable><mtr>" + "<mtd/>" * 5_000 + "</math>",
    "scripts": "<math><mmultiscripts>" + "<mi>x</mi>" * 5_000 + "</math>",
    "a long width": "<math><mspace width='" + "9" * 5_000 + "em'/></math>",
    "a long selection": "<math><maction selection='" + "9" * 5_000 + "'><mi>x</mi></maction></math>",
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_pages_give_bounded_latex(name: str) -> None:
    """The result is bounded and balanced, and nothing raises."""
    page = HOSTILE[name]
    answer = latex(page)
    assert len(answer) <= MAX_TEX_CHARS
    assert answer.count("{") - answer.count("\\{") == answer.count("}") - answer.count("\\}")
    assert len(with_latex(page.encode())) <= len(page) + len(answer) * len("&quot;") + 100


def test_a_formula_of_too_many_tags_is_its_text(monkeypatch: pytest.MonkeyPatch) -> None:
    """The bound is on tags, so the cost is linear in the size of a page."""
    squared = "<math><msup><mi>x</mi><mn>2</mn></msup></math>"
    monkeypatch.setattr(mathml, "MAX_TAGS", 8)
    assert latex(squared) == "x^2"
    monkeypatch.setattr(mathml, "MAX_TAGS", 6)
    assert latex(squared) == "\\text{x 2}"


def test_what_is_nested_too_deep_is_its_text() -> None:
    """Up to the bound it is a formula; 50,000 levels deep it is its visible text."""
    roots = MAX_DEPTH - 2
    assert latex("<math>" + "<msqrt>" * roots + "<mi>x</mi>") == "\\sqrt{" * roots + "x" + "}" * roots
    deep = "<math>" + "<msqrt>" * 50_000 + "<mi>x</mi><annotation>no</annotation><mi>&alpha;</mi>" + "</msqrt>" * 50_000
    assert latex(deep + "</math>") == "\\text{x α}"
    assert html.unescape(with_latex(f"{deep}</math>".encode()).decode()).endswith('alttext="\\text{x α}"></math>')


def test_what_is_too_long_is_left_out() -> None:
    """A formula of more than 64 KB is dropped with its text."""
    assert latex(f"<math><mi>{'x1' * (MAX_TEX_CHARS // 2)}</mi></math>") == ""
    assert latex(f"<math><mn>{'1' * MAX_TEX_CHARS}</mn></math>") == "1" * MAX_TEX_CHARS
