"""Formulas in a text are found, prices and programs are not, and steps that change texts leave formulas alone."""

from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gristmill.kernels.dedup.line_units import count_units
from gristmill.stages.buffers import bytes_of
from gristmill.stages.dedup import line_dedup
from gristmill.stages.scrub import scrub
from gristmill.stages.select import lines
from gristmill.stages.shared.formulas import COLUMN, find_formulas, formula_bounds


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (r"Let $x$ be \(\alpha\), the $n$th.", ["$x$", r"\(\alpha\)", "$n$"]),
        (r"\[ a_{1} \] and $$b$$", [r"\[ a_{1} \]", "$$b$$"]),
        (r"\begin{align*}a&=b\end{align*}", [r"\begin{align*}a&=b\end{align*}"]),
        (r"It costs $5, and $x_1$ costs $6.", ["$x_1$"]),
        ("It costs $5 or $10 $x$.", []),
        ("$HOME/bin:$PATH and ${x}$y", []),
        (r"sed 's/\(foo\)\(bar\)/\1/'", []),
        (r"grep '\(\w+\)'", []),
        (r"a \$5 and \$6^{x} b", []),
        ("$x_1\n\ny_2$", []),
        (r"\\(x\\) is $\frac{1}{2}$", [r"$\frac{1}{2}$"]),
        (r"$$\text{if $x$}\in A$$", [r"$$\text{if $x$}\in A$$"]),
    ],
)
def test_formulas_are_found_and_prices_are_not(text: str, found: list[str]) -> None:
    """By their delimiters, and one formula of a text must have TeX in it."""
    assert [text[one.start : one.stop] for one in find_formulas(text)] == found


@given(st.lists(st.sampled_from(["$", "$$", r"\(", r"\)", r"\[", r"\]", "\\", "x", " ", "é", "水", "\n\n", "^2"])))
def test_any_signs_give_ordered_spans_in_bytes(pieces: list[str]) -> None:
    """The spans in bytes are those in characters, and none overlaps another."""
    text = "".join(pieces)
    spans = find_formulas(text, known=True)
    bounds = [(len(text[: one.start].encode()), len(text[: one.stop].encode())) for one in spans]
    assert formula_bounds(text).tolist() == [list(pair) for pair in bounds]
    assert all(one[1] <= other[0] for one, other in pairwise(bounds))


TEXT = "A mill stands here, by the river.\n\n$$a=b$$\n\nmenu\n\nIts wheel é $x_1$ turns"


@pytest.mark.parametrize(
    ("count", "left"), [(0, "A mill stands here, by the river."), (2, TEXT.replace("menu\n\n", "")), (None, None)]
)
def test_line_rules_keep_lines_with_formulas(count: int | None, left: str | None) -> None:
    """Neither too few words nor a missing full stop cuts them."""
    batch = pa.RecordBatch.from_pydict({"text": pa.array(["x y", TEXT]), COLUMN: pa.array([count, count], pa.int32())})
    assert lines.apply(batch, lines.Config()).column("text")[1].as_py() == (left or "A mill stands here, by the river.")


def test_line_dedup_keeps_lines_with_formulas() -> None:
    """Though each of them is repeated too often."""
    formula, menu = "$$a_1 = \\frac{b}{c} + d$$\n", "Subscribe to our newsletter now\n"
    text, config = pa.array([formula + menu] * 2), line_dedup.Config(min_chars=1)
    keys = count_units(*bytes_of(text), False, 1)[0]
    found = {
        "text": text,
        "line_counts.hot": pa.array([np.unique(keys).tolist()] * 2, pa.list_(pa.uint64())),
        "line_counts.first": pa.array([[], []], pa.list_(pa.uint64())),
        "line_counts.witness": pa.array([[], []], pa.list_(pa.struct([("line", pa.uint64()), ("count", pa.int64())]))),
        COLUMN: pa.array([0, 1], pa.int32()),
    }
    cut, kept = line_dedup.apply(pa.RecordBatch.from_pydict(found), config).to_pylist()
    assert (cut["cut_lines"], cut["drop"]) == (2, line_dedup.NOTHING_LEFT)
    assert (kept["cut_lines"], kept["spared_lines"], kept["text"]) == (1, 1, formula)


def test_scrub_keeps_numbers_in_formulas() -> None:
    """A number in a formula is not a phone number or an address of a network; an e-mail address is one anywhere."""
    text = "Call +49 30 901820 or $f = +49 30 901820 + 8.8.4.4$, write to $\\text{ann@mill.org}$, 8.8.8.8."
    columns = {"text": [text, text], "url": ["", ""], "source": ["a", "a"], "locator": ["a", "b"], COLUMN: [2, 0]}
    kept, replaced = scrub.apply(pa.RecordBatch.from_pydict(columns), scrub.Config()).column("text").to_pylist()
    assert kept == "Call <PHONE> or $f = +49 30 901820 + 8.8.4.4$, write to $\\text{<EMAIL>}$, <IP>."
    assert replaced == "Call <PHONE> or $f = <PHONE> + <IP>$, write to $\\text{<EMAIL>}$, <IP>."
