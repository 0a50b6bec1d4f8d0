"""Writes the formulas and scripts of an extracted text: TeX in one normal form, `^` and `_` for powers and indices.

The kernel marks them (kernels/html/inline.py). The normal form of TeX has no comments, labels, line ends or
`\\displaystyle`, and the environments of mathematics inside delimiters: `aligned` instead of `align`.

A script is mathematics or chemistry if it follows a number, a single letter, a unit, a function or a parenthesis
without words, or if it has a sign: 10^6, x_i, m^2, Ca^{2+}, H_2O. It is a footnote mark, which is removed, if it is
linked, or if it is a number after a word or the end of a sentence. Everything else stays as it is: 1st, 2e, TM.
"""

import re
from typing import Literal, NamedTuple

from gristmill.stages.shared.formulas import ENVIRONMENTS, find_formulas

Delimiters = Literal["dollars", "brackets"]
_SIGNS: dict[Delimiters, tuple[str, str, str, str]] = {
    "dollars": ("$", "$", "$$", "$$"),
    "brackets": ("\\(", "\\)", "\\[", "\\]"),
}
_FORMULA = re.compile("\x7f([(\\[])([^\x7f]*)\x7f\\)")
_SCRIPT = re.compile("\x7f([\\^_])([^\x7f]*)\x7f([)\\]])")
_LEFT_OVER = re.compile("(?<!\\S)\x7f[\\^_)\\]] ?|\x7f(?:[\\^_)\\]]|(?!!))")
_FORMULA_SIGN = "\x7f!"
NESTED_SCRIPTS = 3

_OUTER = re.compile(r"\$\$(.*)\$\$|\$(.*)\$|\\\((.*)\\\)|\\\[(.*)\\\]", re.DOTALL)
_LABEL = re.compile(r"\\label\s*\{[^{}]*\}")
_STYLE = re.compile(r"\\(?:displaystyle|textstyle)(?![A-Za-z])\s*")
_ENVIRONMENT = re.compile(rf"\\(begin|end)\{{({'|'.join(ENVIRONMENTS)})\*?\}}")
_DELIMITER = re.compile(r"(?<!\\)\$|\\[()\[\]]")
_BRACKET = re.compile(r"\\.|\$", re.DOTALL)

_LETTER = r"[^\W\d_]"
_MARK = re.compile(r"\[.{1,12}\]|\(?\d{1,3}\)?[a-z]?|[*†‡§¶#]{1,3}|[a-z]")
_NUMBER = re.compile(r"\d{1,3}")
_SIGNED = re.compile(r"[+\-−–]?\d*+(?:[.,]\d*+)?[+\-−–]?|\d*+[.,/]\d++")
_EXPRESSION = re.compile(r"[\w+\-−–*/=(),.'′|<>^{}∗∞]+")
_LINK = re.compile(r"\[([^\[\]]*)\]\([^()]*\)")
_POWERS = (
    "cm mm km nm dm ft in yd mi kg ms ha arccos arcsin arctan cos cosh cot csc det exp lg ln log sec sin sinh tan tanh"
).replace(" ", "|")
_VARIABLE = rf"(?<!{_LETTER}){_LETTER}\Z"
_BASE = re.compile(
    rf"\d\Z|{_VARIABLE}|(?<!{_LETTER})(?:{_POWERS}|[µμ]m)\Z|\x7f[)\]]\Z|\((?:(?!{_LETTER}{{3}})[^()]){{0,40}}\)\Z"
)
_CLOSED = re.compile(rf"{_VARIABLE}|[)\]}}]\Z")
_WORD = re.compile(rf"{_LETTER}{{2}}\Z|[.,;:!?\"'”’»…)\]]\Z")
_LONG_WORD = re.compile(rf"{_LETTER}{{4}}\Z")
_EXPONENTS = frozenset("NTijkmnpqx")
"""Letters that are powers of a number; others after a number are ordinals (2e, 1o, 3a)."""
_BEFORE_CHARS = 48
"""The text before a script that decides what it is."""


class WrittenText(NamedTuple):
    text: bytes
    formulas: int
    formula_chars: int
    """Characters of TeX, without delimiters."""


def write_formulas(marked: bytes, delimiters: Delimiters = "dollars") -> WrittenText:
    """The text with formulas in their normal form between `delimiters`, and scripts as signs."""
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

    marks = [(match[2], match[1] == "[") for match in _FORMULA.finditer(text)]
    text = _FORMULA.sub(_FORMULA_SIGN, text)
    pieces, at = [], 0
    for one in find_formulas(text, known=bool(marks)):
        if "\x7f" not in one.tex:
            pieces += [text[at : one.start], written(one.tex, one.display)]
            at = one.stop
    text = "".join([*pieces, text[at:]])
    if "\x7f" in text:
        for _ in range(NESTED_SCRIPTS):
            text = _SCRIPT.sub(_script, text)
        text = _LEFT_OVER.sub("", text)
        formulas = iter(marks)
        text = re.sub(_FORMULA_SIGN, lambda _: written(*next(formulas, ("", False))), text)
    return WrittenText(text.encode("utf-8", "surrogateescape"), count, chars)


def normal_form(tex: str, delimiters: Delimiters = "dollars") -> str:
    """TeX without its delimiters, in one line; inner formulas have the other delimiters."""
    tex = " ".join(_LABEL.sub("", tex).split())
    while (outer := _OUTER.fullmatch(tex)) and not _DELIMITER.search(inner := outer[outer.lastindex or 0]):
        tex = inner.strip()
    if tex.startswith("{") and _STYLE.match(tex, 1) and tex.endswith("}"):
        tex = tex[1:-1]  # as Wikipedia writes it
    tex = _ENVIRONMENT.sub(_inner, _STYLE.sub("", tex, count=1) if _STYLE.match(tex) else tex).strip()
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


def _inner(match: re.Match[str]) -> str:
    name = ENVIRONMENTS[match[2]]
    return f"\\{match[1]}{{{name}}}" if name else ""


def _script(match: re.Match[str]) -> str:
    sign, content, linked = match[1], match[2], match[3] == "]"
    before = match.string[max(0, match.start() - _BEFORE_CHARS) : match.start()].rstrip("*`")
    plain = _LINK.sub(r"\1", content).strip("*`")
    if not before or before[-1].isspace():
        return content.lstrip(" ")
    if not plain or plain[0].isspace():
        return content
    if sign == "^" and (linked and _MARK.fullmatch(plain)):
        return ""
    if sign == "^" and _NUMBER.fullmatch(plain) and not _BASE.search(before):
        return "" if _WORD.search(before) else content
    if _is_index(plain, before) if sign == "_" else _is_power(plain, before):
        return f"{sign}{plain}" if len(plain) == 1 else f"{sign}{{{plain}}}"
    return content


def _is_index(plain: str, before: str) -> bool:
    if not _EXPRESSION.fullmatch(plain) or not re.search(r"[\w)\]}|'′]\Z|\x7f[)\]]\Z", before):
        return False
    return len(plain) < 2 or not (plain.isalpha() and _LONG_WORD.search(before))


def _is_power(plain: str, before: str) -> bool:
    if _SIGNED.fullmatch(plain):
        return before[-1].isalnum() or bool(_BASE.search(before) or _CLOSED.search(before))
    if not _EXPRESSION.fullmatch(plain):
        return False
    if plain.isalpha() and before[-1].isdigit():
        return plain in _EXPONENTS
    if plain.isalpha() and len(plain) > 1:
        return False
    return bool(_CLOSED.search(before) or (_BASE.search(before) and not plain.isalpha()))
