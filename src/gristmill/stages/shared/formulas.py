"""Finds formulas in a text: TeX between `$`, `$$`, `\\(` and `\\)`, `\\[` and `\\]`, or in an environment.

A dollar sign is also a price and a variable of a program. `$` only begins a formula before a character that is not
white space, and only ends one after such a character, before anything but a letter or digit (`$n$th` is a formula). A
formula ends in its paragraph. Unless a text is known to have formulas, one of them must have a command of two letters,
or a script with a brace or after a single letter: `\\(foo\\)` alone is a regular expression.

The text is scanned once, delimiter by delimiter, so the work is linear.
"""

import re
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

ENVIRONMENTS = {
    "equation": "",
    "displaymath": "",
    "align": "aligned",
    "eqnarray": "aligned",
    "flalign": "aligned",
    "gather": "gathered",
    "multline": "gathered",
}
"""Environments that begin mathematics, and their names within mathematics."""
_NAMES = "|".join(ENVIRONMENTS)
_TOKEN = re.compile(rf"\\(?:(?:begin|end)\{{(?:{_NAMES})\*?\}}|.)|\$\$?|\n[ \t]*\n", re.DOTALL)
_CLOSERS = {"\\(": "\\)", "\\[": "\\]", "$$": "$$", "$": "$"}
_IS_TEX = re.compile(r"\\[A-Za-z]{2}|[\^_]\{|(?<![^\W_])[^\W\d_][\^_][^\W_]")
_IS_SHORT = re.compile(r"[^\s]{1,12}|(?=[^\n\\^_=+<>|]*+[\\^_=+<>|])[^\n]*+")
"""What a formula between single dollar signs may be in a text that has formulas. Nothing in it is scanned twice."""
_SUFFIX = re.compile(r"(?:th|st|nd|rd|s)\b")
COLUMN = "extract.formulas"


class FormulaSpan(NamedTuple):
    """A formula of a text with its delimiters, in characters."""

    start: int
    stop: int
    tex: str
    display: bool


def find_formulas(text: str, known: bool = False) -> list[FormulaSpan]:
    """The formulas of a text in order. `known`: the text has formulas, so that short ones count at once."""
    if "$" not in text and "\\" not in text:
        return []
    found: list[FormulaSpan] = []
    opened, begin, body = "", 0, 0
    for token in _TOKEN.finditer(text):
        sign = token[0]
        if opened and sign == _closer(opened):
            tex = text[body : token.start()].strip()
            if tex and (opened != "$" or _is_inline(text, body, token.start())):
                is_environment = opened[1:2] == "b"
                tex = text[begin : token.end()] if is_environment else tex
                found.append(FormulaSpan(begin, token.end(), tex, opened not in ("\\(", "$")))
                opened = ""
            else:
                begin, body = token.span()
        elif sign[0] == "\n":
            opened = ""
        elif opened in ("", "$", "\\(") and (sign in _CLOSERS or sign.startswith("\\begin{")):
            opened, (begin, body) = sign, token.span()
    return found if known or any(_IS_TEX.search(one.tex) for one in found) else []


def _closer(opened: str) -> str:
    return _CLOSERS.get(opened) or opened.replace("begin", "end")


def _is_inline(text: str, begin: int, stop: int) -> bool:
    after = text[stop + 1 : stop + 2]
    if text[begin].isspace() or text[stop - 1].isspace():
        return False
    return bool(_IS_SHORT.fullmatch(text, begin, stop)) and (not after.isalnum() or bool(_SUFFIX.match(text, stop + 1)))


def formula_bounds(text: str) -> npt.NDArray[np.int64]:
    """Start and stop of each formula in bytes, of a text that has formulas."""
    bounds = np.array([(one.start, one.stop) for one in find_formulas(text, known=True)], np.int64).reshape(-1, 2)
    if text.isascii():
        return bounds
    codes = np.frombuffer(text.encode("utf-32-le"), np.uint32)
    sizes = 1 + sum((codes >= least).astype(np.int64) for least in (0x80, 0x800, 0x10000))
    offsets: npt.NDArray[np.int64] = np.concatenate([[0], np.cumsum(sizes)])[bounds]
    return offsets


def rows_with_formulas(batch: pa.RecordBatch) -> list[int]:
    """The rows with a text in which `extract` counted formulas."""
    if COLUMN not in batch.schema.names:
        return []
    counts = batch.column(COLUMN).fill_null(0).to_numpy(zero_copy_only=False)
    return [row for row in np.flatnonzero(counts).tolist() if batch.column("text")[row].is_valid]


def bounds_by_row(batch: pa.RecordBatch) -> dict[int, npt.NDArray[np.int64]]:
    """The formulas of the rows that have some, in bytes of their texts."""
    return {row: formula_bounds(batch.column("text")[row].as_py()) for row in rows_with_formulas(batch)}
