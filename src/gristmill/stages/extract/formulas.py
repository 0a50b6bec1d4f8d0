"""Writes the formulas and scripts of an extracted text: TeX in one normal form, `^` and `_` for powers and indices.

The kernel marks them (kernels/html/inline.py). The normal form of TeX has no comments, labels, line ends or
`\\displaystyle`, and the environments of mathematics inside delimiters: `aligned` instead of `align`.
"""

import re
from typing import Literal, NamedTuple

from gristmill.stages.shared.formulas import ENVIRONMENTS, find_formulas
from gristmill.stages.shared.scripts import write_scripts

Delimiters = Literal["dollars", "brackets"]
_SIGNS: dict[Delimiters, tuple[str, str, str, str]] = {
    "dollars": ("$", "$", "$$", "$$"),
    "brackets": ("\\(", "\\)", "\\[", "\\]"),
}
_FORMULA = re.compile("\x7f([(\\[])([^\x7f]*)\x7f\\)")
_FORMULA_SIGN = "\x7f!"

_CELL = re.compile(r"\x7f\[(?:\\displaystyle(?![A-Za-z])\s*+)?+([^\x7f]*+)\x7f\)")
_NUMBER = re.compile(r"\([\w.]{1,12}\)(?=[ |]*\Z)")
_ROW = rf"(?>(?:\| *+)*+{_CELL.pattern}(?: *+\|| *+{_CELL.pattern})*+(?: *+\([\w.]{{1,12}}\)[ |]*+)?+)$"
_EQUATIONS = re.compile(rf"^{_ROW}(?:\n{{1,2}}{_ROW})*+", re.MULTILINE)
"""Rows of a table that have only formulas, and perhaps a number at the end."""
MAX_PADDED_CELLS = 20
"""Rows of an equation get empty cells up to this number: `aligned` has ten pairs of columns."""
_OUTER = re.compile(r"\$\$(.*)\$\$|\$(.*)\$|\\\((.*)\\\)|\\\[(.*)\\\]", re.DOTALL)
_LABEL = re.compile(r"\\label\s*\{[^{}]*\}")
_STYLE = re.compile(r"\\(?:displaystyle|textstyle)(?![A-Za-z])\s*")
_ENVIRONMENT = re.compile(rf"\\(begin|end)\{{({'|'.join(ENVIRONMENTS)})\*?\}}")
_TWICE = re.compile(r"\\begin\{aligned\}\s*(\\begin\{aligned\}.*\\end\{aligned\})\s*\\end\{aligned\}", re.DOTALL)
_NESTING = re.compile(r"\\.|[{}&]", re.DOTALL)
_NUMBERED = re.compile(r"^(\([\w.]{1,12}\)) ?((\$\$|\\\[)[^\n]*(?:\$\$|\\\]))$", re.MULTILINE)
"""A formula on its own line with its number before it, as Sphinx writes it."""
_DELIMITER = re.compile(r"(?<!\\)\$|\\[()\[\]]")
_BRACKET = re.compile(r"\\.|\$", re.DOTALL)


class WrittenText(NamedTuple):
    text: bytes
    formulas: int
    formula_chars: int
    """Characters of TeX, without delimiters."""
    expected_f1: int | None = None
    """In thousandths, from the model that chose the text."""


def write_formulas(marked: bytes, delimiters: Delimiters = "dollars", known: bool = False) -> WrittenText:
    """The text with formulas in their normal form between `delimiters`, and scripts as signs.

    `known`: the markup says that there are formulas.
    """
    if not (b"\x7f" in marked or b"$" in marked or b"\\" in marked):
        return WrittenText(marked, 0, 0)
    text = marked.decode("utf-8", "surrogateescape")
    signs, count, chars = _SIGNS[delimiters], 0, 0

    def written(tex: str, display: bool) -> str:
        nonlocal count, chars
        if not (tex := normal_form(tex, delimiters)):
            return ""
        count, chars = count + 1, chars + len(tex)
        return f"{signs[2 * display]}{tex}{signs[2 * display + 1]}"

    text = _EQUATIONS.sub(lambda match: _equations(match) if "|" in match[0] else match[0], text)
    marks = [(match[2], match[1] == "[" or match[2].startswith(("\\[", "$$"))) for match in _FORMULA.finditer(text)]
    text = _FORMULA.sub(_FORMULA_SIGN, text)
    pieces, at = [], 0
    for one in find_formulas(text, known=known or bool(marks)):
        if "\x7f" not in one.tex:
            pieces += [text[at : one.start], written(one.tex, one.display)]
            at = one.stop
    text = "".join([*pieces, text[at:]])
    if "\x7f" in text:
        text = write_scripts(text)
        formulas = iter(marks)
        text = re.sub(_FORMULA_SIGN, lambda _: written(*next(formulas, ("", False))), text)
    text = _NUMBERED.sub(r"\2 \1", text) if count else text
    return WrittenText(text.encode("utf-8", "surrogateescape"), count, chars)


def _equations(match: re.Match[str]) -> str:
    """One formula for the cells of an equation that LaTeXML writes as a table; a row with a number ends it."""
    lines = [line for line in match[0].split("\n") if line]
    out: list[str] = []
    rows: list[list[str]] = []
    for place, line in enumerate(lines):
        rows.append(_CELL.findall(line))
        number = _NUMBER.search(line)
        if number or not any("|" in one or "\\displaystyle" in one for one in lines[place + 1 : place + 2]):
            width = min(max(map(len, rows)), MAX_PADDED_CELLS)
            # Cells on the left may be empty.
            body = "\\\\".join("&".join([*[""] * (width - len(cells)), *cells]) for cells in rows)
            tex = f"\\begin{{aligned}}{body}\\end{{aligned}}" if len(rows) > 1 else " ".join(rows[0])
            out.append(f"\x7f[{tex}\x7f)" + (f" {number[0]}" if number else ""))
            rows = []
    return "\n\n".join(out)


def normal_form(tex: str, delimiters: Delimiters = "dollars") -> str:
    """TeX without its delimiters, in one line; inner formulas have the other delimiters."""
    tex = " ".join(_LABEL.sub("", tex).split())
    while (outer := _OUTER.fullmatch(tex)) and not _DELIMITER.search(inner := outer[outer.lastindex or 0]):
        tex = inner.strip()
    if tex.startswith("{") and _STYLE.match(tex, 1) and tex.endswith("}"):
        tex = tex[1:-1]  # as Wikipedia writes it
    tex = _ENVIRONMENT.sub(_inner, _STYLE.sub("", tex, count=1) if _STYLE.match(tex) else tex).strip()
    if (twice := _TWICE.fullmatch(tex)) and twice[1].count("\\begin{aligned}") == 1:
        tex = twice[1]
    elif _has_loose_cells(tex):
        tex = f"\\begin{{aligned}}{tex}\\end{{aligned}}"
    if delimiters == "brackets":
        return _BRACKET.sub(lambda match: "$" if match[0] in ("\\(", "\\)") else match[0], tex)
    opened = False

    def bracket(match: re.Match[str]) -> str:
        nonlocal opened
        if match[0] != "$":
            return match[0]
        opened = not opened
        return "\\(" if opened else "\\)"

    return _BRACKET.sub(bracket, tex)


def _has_loose_cells(tex: str) -> bool:
    """Whether there is an `&` outside of environments and braces: Sphinx draws `a &= b` as if it was in `split`."""
    if "&" not in tex or "\\begin" in tex:
        return False
    depth = 0
    for sign in _NESTING.finditer(tex):
        if sign[0] == "&" and depth == 0:
            return True
        depth += (sign[0] == "{") - (sign[0] == "}")
    return False


def _inner(match: re.Match[str]) -> str:
    name = ENVIRONMENTS[match[2]]
    return f"\\{match[1]}{{{name}}}" if name else ""
