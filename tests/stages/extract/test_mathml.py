"""MathML becomes LaTeX that can be read and is balanced, and the page around it stays as it was."""

import html
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gristmill.stages.extract.mathml import MAX_DEPTH, MAX_TAGS, MAX_TEX_CHARS, latex, with_latex

A_OVER_B = "<mfrac><mi>a</mi><mi>b</mi></mfrac>"
TABLE = "<mtable><mtr><mtd><mi>a</mi></mtd><mtd><mi>b</mi></mtd></mtr><mtr><mtd><mi>c</mi></mtd><mtd><mi>d</mi></mtd></mtr></mtable>"

FORMULAS = {
    "quadratic formula, as browsers' handbooks print it": (
        """<math display="block">
          <mrow> <mi>x</mi> <mo>=</mo>
            <mfrac>
              <mrow> <mrow><mo>−</mo><mi>b</mi></mrow> <mo>±</mo>
                <msqrt> <msup><mi>b</mi><mn>2</mn></msup> <mo>−</mo> <mrow><mn>4</mn><mo>⁢</mo><mi>a</mi><mo>⁢</mo><mi>c</mi></mrow> </msqrt>
              </mrow>
              <mrow> <mn>2</mn> <mo>&InvisibleTimes;</mo> <mi>a</mi> </mrow>
            </mfrac>
          </mrow>
        </math>""",
        r"x=\frac{-b\pm\sqrt{b^2-4ac}}{2a}",
    ),
    "t-SNE, as Wikipedia writes it": (
        """<mrow class="MJX-TeXAtom-ORD"><mstyle displaystyle="true" scriptlevel="0">
          <msub><mi>p</mi><mrow class="MJX-TeXAtom-ORD"><mi>j</mi><mo>∣<!-- ∣ --></mo><mi>i</mi></mrow></msub><mo>=</mo>
          <mrow class="MJX-TeXAtom-ORD"><mfrac><mrow><mi>exp</mi><mo>⁡<!-- ⁡ --></mo><mo stretchy="false">(</mo><mo>−</mo>
          <mo fence="false" stretchy="false">‖</mo><msub><mrow><mi mathvariant="bold">x</mi></mrow><mrow><mi>i</mi></mrow></msub>
          <msup><mo fence="false" stretchy="false">‖</mo><mrow><mn>2</mn></mrow></msup><mo stretchy="false">)</mo></mrow>
          <mrow><munder><mo>∑</mo><mrow><mi>k</mi><mo>≠</mo><mi>i</mi></mrow></munder><msubsup><mi>σ</mi><mi>i</mi><mn>2</mn></msubsup></mrow>
          </mfrac></mrow></mstyle></mrow>""",
        r"p_{j\mid i}=\frac{\exp(-\|\mathbf{x}_i\|^2)}{\sum_{k\neq i}\sigma_i^2}",
    ),
    "limit": (
        "<munder><mi>lim</mi><mrow><mi>x</mi><mo>→</mo><mn>0</mn></mrow></munder>"
        "<mfrac><mrow><mi>sin</mi><mo>&ApplyFunction;</mo><mi>x</mi></mrow><mi>x</mi></mfrac><mo>=</mo><mn>1</mn>",
        r"\lim_{x\to0}\frac{\sin x}{x}=1",
    ),
    "integral": (
        "<msubsup><mo>&int;</mo><mn>0</mn><mi>&infin;</mi></msubsup><msup><mi>e</mi><mrow><mo>&minus;</mo><msup><mi>x</mi>"
        "<mn>2</mn></msup></mrow></msup><mspace width='0.167em'/><mi mathvariant='normal'>d</mi><mi>x</mi>",
        r"\int_0^{\infty}e^{-x^2}\,\mathrm{d}x",
    ),
    "sum with a power of a fence": (
        f"<munderover><mo>&#x2211;</mo><mrow><mi>i</mi><mo>=</mo><mn>1</mn></mrow><mi>n</mi></munderover><mo>(</mo>{A_OVER_B}"
        "<msup><mo>)</mo><mn>10</mn></msup>",
        r"\sum_{i=1}^n\left(\frac{a}{b}\right)^{10}",
    ),
    "the letter as a sum": ("<munder><mo>Σ</mo><mi>k</mi></munder><mi>Σ</mi>", r"\sum_k\Sigma"),
    "cases": (
        "<mo>|</mo><mi>x</mi><mo>|</mo><mo>=</mo><mrow><mo>{</mo><mtable columnalign='left left'>"
        "<mtr><mtd><mi>x</mi></mtd><mtd><mtext>if&nbsp;</mtext><mi>x</mi><mo>≥</mo><mn>0</mn></mtd></mtr>"
        "<mtr><mtd><mo>-</mo><mi>x</mi></mtd><mtd><mtext>otherwise</mtext></mtd></mtr></mtable>"
        "<mo fence='true' stretchy='true'></mo></mrow>",
        r"|x|=\begin{cases}x&\text{if }x\geq0\\-x&\text{otherwise}\end{cases}",
    ),
    "aligned": (
        "<mtable displaystyle='true' columnalign='right left'><mtr><mtd><mi>y</mi></mtd><mtd><mo>=</mo><mi>a</mi></mtd></mtr>"
        "<mtr><mtd></mtd><mtd><mo>≤</mo><mi>b</mi></mtd></mtr></mtable>",
        r"\begin{aligned}y&=a\\&\leq b\end{aligned}",
    ),
    "numbered equation": (
        "<mtable><mlabeledtr><mtd><mtext>(1)</mtext></mtd><mtd><mi>x</mi></mtd></mlabeledtr></mtable>",
        r"\begin{matrix}x\end{matrix}",
    ),
    "matrix, transposed": (
        f"<mo>[</mo>{TABLE}<msup><mo>]</mo><mi>T</mi></msup>",
        r"\begin{bmatrix}a&b\\c&d\end{bmatrix}^T",
    ),
    "determinant": (f"<mrow><mo>|</mo>{TABLE}<mo>|</mo></mrow>", r"\begin{vmatrix}a&b\\c&d\end{vmatrix}"),
    "matrix, fenced": (f"<mfenced>{TABLE}</mfenced>", r"\begin{pmatrix}a&b\\c&d\end{pmatrix}"),
    "brace behind a table": (f"{TABLE}<mo>}}</mo>", r"\left.\begin{matrix}a&b\\c&d\end{matrix}\right\}"),
    "row that starts with a bracket": (
        "<mtable><mtr><mtd><mi>a</mi></mtd></mtr><mtr><mtd><mo>[</mo><mi>b</mi><mo>]</mo></mtd></mtr></mtable>",
        r"\begin{matrix}a\\{}[b]\end{matrix}",
    ),
    "cells without a table": ("<mtr><mtd><mi>a</mi></mtd><mtd><mi>b</mi></mtd></mtr>", "ab"),
    "binomial": (
        "<mrow><mo>(</mo><mfrac linethickness='0'><mi>n</mi><mi>k</mi></mfrac><mo>)</mo></mrow><mfrac linethickness='0pt'>"
        "<mi>n</mi><mi>k</mi></mfrac>",
        r"\binom{n}{k}{n\atop k}",
    ),
    "roots": ("<mroot><mi>x</mi><mn>3</mn></mroot><msqrt><mi>a</mi><mi>b</mi></msqrt>", r"\sqrt[3]{x}\sqrt{ab}"),
    "bevelled": ("<mfrac bevelled='true'><mn>1</mn><mrow><mi>a</mi><mi>b</mi></mrow></mfrac>", "1/{ab}"),
    "accents": (
        "<mover><mi>x</mi><mo>^</mo></mover><mover><mrow><mi>A</mi><mi>B</mi></mrow><mo>→</mo></mover><mover accent='true'>"
        "<mi>z</mi><mo>¯</mo></mover><mover><mi>α</mi><mo>˙</mo></mover><munder><mi>u</mi><mo>_</mo></munder>",
        r"\hat{x}\overrightarrow{AB}\bar{z}\dot{\alpha}\underline{u}",
    ),
    "braces below and above": (
        "<munder><munder><mrow><mi>a</mi><mi>b</mi></mrow><mo>⏟</mo></munder><mn>2</mn></munder>"
        "<mover><mover><mi>c</mi><mo>⏞</mo></mover><mtext>one</mtext></mover>",
        r"\underbrace{ab}_2\overbrace{c}^{\text{one}}",
    ),
    "words on arrows and relations": (
        "<mi>A</mi><mover><mo>→</mo><mi>f</mi></mover><mi>B</mi><mover><mo>=</mo><mtext>def</mtext></mover><munder><mi>X</mi><mi>n</mi></munder>",
        r"A\xrightarrow{f}B\overset{\text{def}}{=}\underset{n}{X}",
    ),
    "named functions": (
        "<munder><mo>arg&nbsp;max</mo><mi>θ</mi></munder><mi>rank</mi><mo>&#8289;</mo><mi>A</mi><mo>mod</mo><mi>foo</mi>",
        r"\operatorname*{arg\,max}_{\theta}\operatorname{rank}A\bmod\mathrm{foo}",
    ),
    "alphabets": (
        "<mi>ℝ</mi><mi>𝐱</mi><mi>𝓛</mi><mi>𝔤</mi><mi>𝛂</mi><mi>𝑥</mi><mi mathvariant='double-struck'>Z</mi><mi mathvariant='bold'>α</mi>"
        "<mi mathvariant='script'>L</mi><mi mathvariant='fraktur'>p</mi><mi mathvariant='normal'>∞</mi><mi>ℏ</mi><mi>Δx</mi>",
        r"\mathbb{R}\mathbf{x}\boldsymbol{\mathcal{L}}\mathfrak{g}\boldsymbol{\alpha}x\mathbb{Z}\boldsymbol{\alpha}\mathcal{L}\mathfrak{p}\infty\hbar\Delta x",
    ),
    "primes": (
        "<msup><mi>f</mi><mo>′</mo></msup><msup><msup><mi>f</mi><mo>″</mo></msup><mn>2</mn></msup><msup><mi>x</mi><mn>2</mn></msup><mo>'</mo>"
        "<msubsup><mi>y</mi><mi>i</mi><mo>′</mo></msubsup>",
        r"f'{f''}^2x^2{}'y_i'",
    ),
    "scripts of scripts": (
        "<msup><msub><mi>x</mi><mi>i</mi></msub><mn>2</mn></msup><msup><msup><mi>x</mi><mi>a</mi></msup><mi>b</mi></msup>"
        "<msup><mrow><mo>(</mo><mi>a</mi><mo>+</mo><mi>b</mi><mo>)</mo></mrow><mn>2</mn></msup><msup><mrow/><mn>3</mn></msup>",
        r"x_i^2{x^a}^b(a+b)^2{}^3",
    ),
    "isotope and tensor": (
        "<mmultiscripts><mi>U</mi><mprescripts/><mn>92</mn><mn>238</mn></mmultiscripts>"
        "<mmultiscripts><mi>R</mi><mi>i</mi><none/><none/><mi>j</mi></mmultiscripts>",
        r"{}_{92}^{238}UR_i{}^j",
    ),
    "fences": (
        f"<mfenced open='[' close=')'><mi>a</mi>{A_OVER_B}</mfenced><mfenced open='&lt;' close='&gt;' separators='|;'><mi>a</mi><mi>b</mi>"
        f"<mi>c</mi></mfenced><mrow><mo>‖</mo>{A_OVER_B}<mo>‖</mo></mrow><mo>]</mo><mi>a</mi><mo>[</mo><mo stretchy='false'>(</mo>{A_OVER_B}<mo>)</mo>",
        r"\left[a,\frac{a}{b}\right)\langle a|b;c\rangle\left\|\frac{a}{b}\right\|]a[(\frac{a}{b})",
    ),
    "text": (
        r"<mtext>50% of $x_1 &amp; {y} ~ ^ \ #</mtext><ms>a</ms><mtext mathvariant='bold'>b</mtext>",
        r"\text{50\% of \$x\_1 \& \{y\} \textasciitilde{} \textasciicircum{} \textbackslash{} \#}"
        r"\text{" + '"a"' + r"}\textbf{b}",
    ),
    "special characters outside of text": (
        r"<mi>%</mi><mo>#</mo><mo>&amp;</mo><mi>_</mi><mi>$</mi><mo>{</mo><mi>~</mi><mo>\</mo><mo>^</mo>",
        r"\%\#\&\_\$\{\sim\backslash\text{\textasciicircum}",
    ),
    "formula inside of text": ("<mtext>if <math><mi>x</mi></math> and <b>y</b></mtext>", r"\text{if }x\text{ and y}"),
    "operators": (
        "<mo>&NotSubset;</mo><mo>&le;</mo><mo>&lt;=</mo><mo>:=</mo><mo>...</mo><mo>&hellip;</mo><mo>&Longrightarrow;</mo><mo>lim</mo>",
        r"\not\subset\leq\leq:=\ldots\ldots\Longrightarrow\lim",
    ),
    "degrees": (
        "<msup><mn>90</mn><mo>∘</mo></msup><mo>,</mo><msup><mn>9</mn><mo>°</mo></msup>",
        r"90^{\circ},9^{\circ}",
    ),
    "numbers side by side": ("<mn>1</mn><mn>2</mn><mi>π</mi><mi>r</mi><mi>π</mi><mn>2</mn>", r"1 2\pi r\pi2"),
    "strikes and boxes": (
        "<menclose notation='updiagonalstrike'><mi>x</mi></menclose><menclose notation='box'><mi>y</mi></menclose><menclose "
        "notation='left'><mi>z</mi></menclose>",
        r"\cancel{x}\boxed{y}z",
    ),
    "spaces": (
        "<mi>a</mi><mspace width='1em'/><mi>b</mi><mspace width='2em'><mi>c</mi><mspace width='-.2em'/><mphantom><mi>d</mi></mphantom>",
        r"a\quad b\qquad c\!",
    ),
    "what is shown": (
        "<semantics><mi>x</mi><annotation-xml encoding='MathML-Content'><ci>y</ci></annotation-xml></semantics><maction selection='2'>"
        "<mi>a</mi><mi>b</mi></maction><mpadded><mstyle><merror><mi>c</mi></merror></mstyle></mpadded>",
        "xbc",
    ),
    "content": ("<apply><plus/><ci>x</ci><cn>1</cn></apply>", "x 1"),
    "names with a prefix": ("<mml:msup><mml:mi>x</mml:mi><m:MN>2</m:MN></mml:msup>", "x^2"),
    "no end tags": ("<mfrac><mi>x<mi>y</mfrac><mo>+<mn>1", r"\frac{x}{y}+1"),
    "no tags": ("x + 1", "x+1"),
    "too few and too many children": (
        "<mfrac><mi>x</mi></mfrac><msup><mi>x</mi><mn>2</mn><mi>y</mi></msup>",
        r"\frac{x}{}x^{2y}",
    ),
}


@pytest.mark.parametrize("name", FORMULAS)
def test_a_formula_is_the_latex_that_one_would_write(name: str) -> None:
    """Inside <math> and by itself."""
    markup, expected = FORMULAS[name]
    assert latex(markup) == expected
    assert latex(f'<math xmlns="http://www.w3.org/1998/Math/MathML">{markup}</math>') == expected


def test_a_formula_is_replaced_and_the_page_around_it_is_not() -> None:
    """Whatever stands around it, bytes that are no UTF-8 included; the LaTeX is escaped for its place."""
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


def test_a_formula_without_an_end_does_not_hide_the_next() -> None:
    """It ends where a paragraph does."""
    assert (
        with_latex(b"<p><math><mi>x<p><math>y</math>") == b'<p><math><mi>x<p><math display="inline" alttext="y"></math>'
    )


PIECES = [
    *(
        f"<{name}>"
        for name in "math mrow mi mn mo mtext ms mfrac msqrt mroot msub msup msubsup munder mover munderover".split()
    ),
    *(
        f"<{name}>"
        for name in "mtable mtr mlabeledtr mtd mfenced mmultiscripts menclose mphantom semantics apply b p".split()
    ),
    *(
        f"</{name}>"
        for name in "math mrow mi mn mo mtext mfrac msqrt msub msup munder mover mtable mtr mtd mfenced".split()
    ),
    *("<mprescripts/>", "<none/>", "<mspace width='1em'/>", "<mfrac linethickness=0>", "<mfenced open='{' close=']'>"),
    *(
        "<mo form=prefix>",
        "<mo fence=true></mo>",
        "<mi mathvariant=bold>",
        "<mtable columnalign='right left'>",
        "<maction selection=2>",
    ),
    *"xy12(){}[]|‖\\^_~'′°²∑→αℝ𝐱 &#%$<>\"≠̂⏟⏞\u2061\u00a0\ud800",
    *(
        "sin",
        "lim",
        "foo bar",
        "&lt;",
        "&#123;",
        "&#x7d;",
        "&lbrace;",
        "&NotSubset;",
        "&#99999999999;",
        "<!--",
        "-->",
        "<a b='",
    ),
]
soup = st.lists(st.sampled_from(PIECES), max_size=40).map("".join) | st.text(max_size=40)
TOKEN = re.compile(r"\\(?:[A-Za-z]+|.)|.", re.DOTALL)


def faults(tex: str) -> list[str]:
    """What TeX itself would refuse: open groups, fences or environments, a second script, an & outside of a table."""
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
    """Whether this brace closes the argument of a script, so that one of the other kind may follow."""
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
    """So that the next test can fail."""
    assert faults(wrong)


@given(soup)
def test_any_soup_is_latex_that_tex_reads(markup: str) -> None:
    """Groups, fences and environments are closed, scripts are single, and nothing special is left unescaped."""
    tex = latex(markup)
    assert not faults(tex), tex


@pytest.mark.parametrize("name", FORMULAS)
def test_the_table_is_latex_that_tex_reads(name: str) -> None:
    """What we expect is held to the same."""
    assert not faults(FORMULAS[name][1])


@given(soup)
def test_a_page_is_done_once(markup: str) -> None:
    """A page that has TeX everywhere is not touched, and every replacement is well-formed."""
    page = f"<p>{markup}<math>{markup}</math></p>".encode("utf-8", "surrogatepass")
    once = with_latex(page)
    assert with_latex(once) == once


HOSTILE = {
    "open formulas": "<math>" * 20_000,
    "open tokens": "<math>" + "<mi>" * (MAX_TAGS + 9) + "</math>",
    "open formulas in paragraphs": "<math><p>" * 20_000,
    "open quotes": "<math a='" * 20_000,
    "open comments": "<math><!--" * 20_000,
    "open scripts": "<math><script>" * 20_000,
    "fences": "<math>" + "<mo>(</mo>" * (MAX_TAGS // 2 - 9) + "</math>",
    "nested fences": "<math>" + "<mo>(</mo>" * 5_000 + A_OVER_B + "<mo>)</mo>" * 5_000 + "</math>",
    "ends of nothing": "<math>" + "<mrow>" * (MAX_DEPTH - 9) + "</mi>" * 20_000 + "</math>",
    "a long reference": "<math><mi>&#" + "9" * 20_000 + ";</mi></math>",
    "cells": "<math><mtable><mtr>" + "<mtd/>" * 20_000 + "</math>",
    "scripts": "<math><mmultiscripts>" + "<mi>x</mi>" * 20_000 + "</math>",
    "a long width": "<math><mspace width='" + "9" * 20_000 + "em'/></math>",
    "a long selection": "<math><maction selection='" + "9" * 20_000 + "'><mi>x</mi></maction></math>",
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_pages_have_an_answer(name: str) -> None:
    """Of bounded size, balanced, and none of them raises."""
    page = HOSTILE[name]
    answer = latex(page)
    assert len(answer) <= MAX_TEX_CHARS
    assert answer.count("{") - answer.count("\\{") == answer.count("}") - answer.count("\\}")
    assert len(with_latex(page.encode())) <= max(len(page), MAX_TEX_CHARS + 100)


def test_what_is_nested_too_deep_is_its_text() -> None:
    """Up to the bound it is a formula; 50,000 deep it is what a reader would see of it."""
    roots = MAX_DEPTH - 2
    assert latex("<math>" + "<msqrt>" * roots + "<mi>x</mi>") == "\\sqrt{" * roots + "x" + "}" * roots
    deep = "<math>" + "<msqrt>" * 50_000 + "<mi>x</mi><annotation>no</annotation><mi>&alpha;</mi>" + "</msqrt>" * 50_000
    assert latex(deep + "</math>") == "\\text{x α}"
    assert html.unescape(with_latex(f"{deep}</math>".encode()).decode()).endswith('alttext="\\text{x α}"></math>')


def test_what_is_too_long_is_left_out() -> None:
    """A formula of more than 64 KB is none, nor is its text."""
    assert latex(f"<math><mi>{'x1' * (MAX_TEX_CHARS // 2)}</mi></math>") == ""
    assert latex(f"<math><mn>{'1' * MAX_TEX_CHARS}</mn></math>") == "1" * MAX_TEX_CHARS
