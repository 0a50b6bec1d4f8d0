"""Writes superscripts and subscripts as signs: `^` for powers, `_` for indices.

A script is mathematics or chemistry if it follows a number, a single letter, a unit, a function or a parenthesis
without words, or if it has a sign: 10^6, x_i, m^2, Ca^{2+}, H_2O. It is a footnote mark, which is removed, if it is
linked, or if it is a number after a word or the end of a sentence. Everything else stays as it is: 1st, 2e, TM.
"""

import re

_SCRIPT = re.compile("\x7f([\\^_])([^\x7f]*)\x7f([)\\]])")
_LEFT_OVER = re.compile("(?<!\\S)\x7f[\\^_)\\]] ?|\x7f(?:[\\^_)\\]]|(?!!))")
NESTED_SCRIPTS = 3

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


def write_scripts(text: str) -> str:
    """The text with its scripts as signs. U+007F and `^` or `_` begin a script; U+007F and `)`, or `]` in a link, end
    it, and end a formula."""
    for _ in range(NESTED_SCRIPTS):
        text = _SCRIPT.sub(_script, text)
    return _LEFT_OVER.sub("", text)


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
