"""TeX of pages has one normal form, whatever wrote it, and is counted."""

import tracemalloc

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gristmill.stages.extract import extract
from gristmill.stages.extract.formulas import normal_form, write_formulas
from gristmill.stages.shared.scripts import write_scripts

WAYS = {
    "MathJax 2": '<span class="MathJax_Preview">x</span><script type="math/tex">{}</script>',
    "MathJax 2 with MathML": '<span class="MathJax">x</span><script type="math/mml"><math><mfrac><mi>a</mi><mi>b</mi>'
    "</mfrac></math></script>",
    "MathJax 3": "<mjx-container><mjx-assistive-mml><math><mfrac><mi>a</mi><mi>b</mi></mfrac></math>"
    "</mjx-assistive-mml></mjx-container>",
    "MathJax 4": '<mjx-container><mjx-math data-latex="{}"><mjx-c>a</mjx-c></mjx-math></mjx-container>',
    "KaTeX": '<span class="katex"><span class="katex-mathml"><math><semantics><mi>a</mi><annotation '
    'encoding="application/x-tex">{}</annotation></semantics></math></span><span class="katex-html">a</span></span>',
    "LaTeXML": '<math alttext="\\displaystyle {}" display="inline"><mi>a</mi></math>',
    "MathML": "<math><mfrac><mi>a</mi><mi>b</mi></mfrac></math>",
    "Wikipedia": '<img class="mwe-math-fallback-image-inline" alt="{{\\displaystyle {}}}">',
    "pandoc for KaTeX": '<span class="math inline">{}</span>',
    "pandoc for MathJax": '<span class="math inline">\\({}\\)</span>',
    "pandoc with pictures": '<img alt="{}" class="math inline">',
    "image": '<img src="1.png" alt="${}$">',
    "image of a server": '<img src="https://latex.codecogs.com/gif.latex?%5Cfrac%7Ba%7D%7Bb%7D" alt="{}" class="x">',
    "brackets": "\\({}\\)",
    "dollars": "${}$",
}
SENTENCE = "The mill grinds {} sacks of corn and rye for the village on every single day of the week, and of wheat. "


@pytest.mark.parametrize("way", WAYS)
def test_every_way_to_write_a_formula_gives_the_same_text(way: str) -> None:
    """In both kinds of delimiters; the columns count the formula and its characters."""
    tex = r"\frac{a}{b}"
    page = "<title>Mill</title><p>" + SENTENCE * 3 + "<p>" + SENTENCE * 3
    page = page.replace("{}", WAYS[way].format(tex) if "{}" in WAYS[way] else WAYS[way], 1).replace("{}", "two")
    row = [pa.array([value], pa.string()) for value in (page, None, None, None)]
    batch = pa.RecordBatch.from_arrays(row, names=list(extract.READS))
    for delimiters, written in (("dollars", f"${tex}$"), ("brackets", f"\\({tex}\\)")):
        (found,) = extract.apply(batch, extract.Config(formula_delimiters=delimiters)).to_pylist()
        assert found["text"].startswith(f"The mill grinds {written} sacks")
        assert (found["formulas"], found["formula_chars"]) == (1, len(tex))


@pytest.mark.parametrize(
    ("tex", "normal"),
    [
        (r"{\displaystyle x}", "x"),
        ("$$ x\n y $$", "x y"),
        (r"\begin{equation}x\label{eq:1}\end{equation}", "x"),
        (r"\begin{align*}a&=b\end{align*}", r"\begin{aligned}a&=b\end{aligned}"),
        (r"\begin{align}\begin{aligned}a&=b\end{aligned}\end{align}", r"\begin{aligned}a&=b\end{aligned}"),
        (r"a &= b \\ c &= d", r"\begin{aligned}a &= b \\ c &= d\end{aligned}"),
        (r"\matrix{a & b} \& c", r"\matrix{a & b} \& c"),
        (r"\text{if $x$}", r"\text{if \(x\)}"),
        (r"5\$ a", r"5\$ a"),
        ("", ""),
    ],
)
def test_tex_has_one_normal_form(tex: str, normal: str) -> None:
    """It does not change again."""
    assert normal_form(tex) == normal
    assert normal_form(normal) == normal


def cell(tex: str) -> str:
    return f'<td class="ltx_eqn_cell"><math alttext="\\displaystyle {tex}" display="inline"></math></td>'


PARAGRAPH = "<p>" + SENTENCE.format("two") * 3
NUMBER = '<td><span class="ltx_tag">(2)</span></td>'


@pytest.mark.parametrize(
    ("rows", "written"),
    [
        ([cell("a") + cell("=b"), "<td></td>" + cell("=c")], r"$$\begin{aligned}a&=b\\&=c\end{aligned}$$"),
        ([cell("a") + cell("=b") + NUMBER, cell("c") + cell("=d")], "$$a =b$$ (2)\n\n$$c =d$$"),
        (['<td></td><td><math display="block" alttext="x"></math></td><td></td>' + NUMBER], "$$x$$ (2)"),
    ],
)
def test_an_equation_that_is_a_table_is_one_formula(rows: list[str], written: str) -> None:
    """As LaTeXML writes alignments; a row with a number is a formula of its own."""
    table = "".join(f"<tbody><tr><td></td>{row}</tr></tbody>" for row in rows)
    page = f"<title>Mill</title>{PARAGRAPH}<table>{table}</table>{PARAGRAPH}"
    row = [pa.array([value], pa.string()) for value in (page, None, None, None)]
    (found,) = extract.apply(pa.RecordBatch.from_arrays(row, names=list(extract.READS)), extract.Config()).to_pylist()
    assert found["text"].split("\n\n", 1)[1].rsplit("\n\n", 1)[0] == written


def test_a_long_row_does_not_widen_the_others() -> None:
    """Rows of an equation get empty cells only as far as `aligned` has columns."""

    def text(size: int) -> bytes:
        return ("|" + " |".join(["\x7f[x\x7f)"] * size) + "\n\n|\x7f[x\x7f)" * size).encode()

    assert len(write_formulas(text(4000)).text) < 1.1 * 4 * len(write_formulas(text(1000)).text)


@pytest.mark.parametrize("unit", ["1,", "a, "])
def test_a_long_list_of_marks_needs_no_memory(unit: str) -> None:
    """The expressions of note marks do not go back, so they remember nothing: 130 bytes for each character before."""
    text = f"the mill\x7f^{unit * 50_000}\x7f) x"
    tracemalloc.start()
    try:
        write_scripts(text)
        assert tracemalloc.get_traced_memory()[1] < 8 * len(text)
    finally:
        tracemalloc.stop()


def test_formulas_in_boxes_are_apart() -> None:
    """Sphinx writes a box for each, with or without delimiters; its class shows that even a letter is a formula."""
    box = '<div class="math notranslate">{}</div>'
    boxes = box.format(r"\begin{align}a&amp;=b\end{align}") + box.format(r"\[c=d\]") + box.format("e=f")
    letter = r'<span class="math notranslate">\(n\)</span>'
    page = f"<title>Mill</title>{PARAGRAPH}<p>{SENTENCE.format(letter) * 3}{boxes}{PARAGRAPH}"
    row = [pa.array([value], pa.string()) for value in (page, None, None, None)]
    (found,) = extract.apply(pa.RecordBatch.from_arrays(row, names=list(extract.READS)), extract.Config()).to_pylist()
    assert "$n$ sacks" in found["text"]
    assert "\n\n$$\\begin{aligned}a&=b\\end{aligned}$$\n\n$$c=d$$\n\n$$e=f$$\n\n" in found["text"]
    alone = page.replace(boxes, "")
    row[0] = pa.array([alone], pa.string())
    (found,) = extract.apply(pa.RecordBatch.from_arrays(row, names=list(extract.READS)), extract.Config()).to_pylist()
    assert found["formulas"] == 3


def test_formulas_of_plain_text_are_counted_and_not_changed() -> None:
    """Steps after this one know that the text has formulas, wherever it comes from."""
    text = r"Let \(x_{1}\) be it."
    row = [pa.array([value], pa.string()) for value in (None, text, None, None)]
    (found,) = extract.apply(pa.RecordBatch.from_arrays(row, names=list(extract.READS)), extract.Config()).to_pylist()
    assert (found["text"], found["formulas"], found["formula_chars"]) == (text, 1, 5)


@given(st.lists(st.sampled_from([*"\x7f()[]^_$x1 !", "word", "\\(", "\\)"])).map("".join))
def test_no_mark_is_left(text: str) -> None:
    """Whatever the order of the marks is, and no word is lost."""
    written = write_formulas(text.encode())
    assert b"\x7f" not in written.text
    assert written.text.count(b"word") == text.count("word")


def test_pictures_of_formulas_after_one_on_its_own_line_stay() -> None:
    """Sphinx writes both kinds as pictures; the number of a formula is after it."""
    pictures = (
        '<p>As <img class="math" alt="x^2"/>,</p><div class="math"><p><span class="eqno">(1)</span><img alt="y^2"/>'
    )
    page = f'<p>{SENTENCE * 3}</p>{pictures}</p></div><p>and <img class="math" alt="z^2"/>. {SENTENCE * 3}</p>'
    columns = [pa.array([one], pa.string()) for one in (page, None, None, None)]
    batch = pa.RecordBatch.from_arrays(columns, names=["html", "text", "title", "language_hint"])
    text = extract.apply(batch, extract.Config()).column("text")[0].as_py()
    assert "As $x^2$,\n\n$$y^2$$ (1)\n\nand $z^2$." in text
