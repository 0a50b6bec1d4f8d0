"""Writes superscripts and subscripts as signs: `^` for powers, `_` for indices.

A script is mathematics or chemistry if it follows a number, a single letter, a unit, a function or a parenthesis
without words, or if it has a sign: 10^6, x_i, m^2, Ca^{2+}, H_2O; also before an element: ^{14}C. It is a footnote
mark, which is removed, if it is linked, or if it is a number, a sign or several of them after a word, a year or the end
of a sentence. A point is put before cents and minutes: $19.99. Everything else stays as it is: 1st, 2e, TM.
"""

import re

_SCRIPT = re.compile("\x7f([\\^_])([^\x7f]*)\x7f([)\\]])")
_LEFT_OVER = re.compile("(?<!\\S)\x7f[\\^_)\\]] ?|\x7f(?:[\\^_)\\]]|(?!!))")
NESTED_SCRIPTS = 3

_LETTER = r"[^\W\d_]"
_MARK = re.compile(r"\[.{1,12}\]|\(?\d{1,3}\)?[a-z]?|[*†‡§¶#]{1,3}|[a-z]")
_NOTE = re.compile(r"\[?\d{1,3}(?:[,;–−-] ?(?:\d{1,3}|[a-z*†‡§¶#]))*+,?\]?|[*†‡§¶#]{1,3}")
_NUMBER = re.compile(r"\d{1,3}")
_AFFILIATION = re.compile(r"[a-f](?:, ?[a-f])*+")
_PRICE = re.compile(r"[$£€¥] ?\d{1,6}\Z")
_PRICE_OR_TIME = re.compile(r" ?(?:[$£€¥]|h\b|Uhr\b|Kč|zł|kr\b)")
_HAS_POINT = re.compile(r"\d:\Z|[$£€¥] ?\d{1,6}[.,]\Z")
_YEAR = re.compile(r"(?<![\w.,^])(?:1[5-9]\d\d|20[0-2]\d)\Z")
_DEGREES = re.compile(r" ?[CFNSEW](?!\w)")
_FRACTION = re.compile("[/⁄]\x7f_")
_TITLE = re.compile(r"\.? (?=[A-Z\d])")
_ELEMENT = re.compile(
    r"(?:\x7f_\d+\x7f\))?(?:(?:Am|I)(?! )|A[cglru]|B[air]?|C[adelorsu]?|Eu|Fe?|G[ade]|H[fg]?|Kr?|L[iu]|M[gno]|"
    r"N[aei]?|Os?|P[abotu]?|R[abnu]|S[bimnr]?|T[cehil]|U|V|W|Xe|Yb?|Z[nr])(?!\w)"
)
"""An element after its mass number; two are also words."""
_SIGNED = re.compile(r"[+\-−–]?\d*+(?:[.,]\d*+)?[+\-−–]?|\d*+[.,/]\d++")
_EXPRESSION = re.compile(r"[\w+\-−–*/=(),.'′|<>^{}∗∞†‡]+")
_LINK = re.compile(r"\[([^\[\]]*)\]\([^()]*\)")
_POWERS = (
    "cm mm km nm dm ft yd mi kg ms arccos arcsin arctan cos cosh cot csc det exp lg ln log sec sin sinh tan tanh"
).replace(" ", "|")
_VARIABLE = rf"(?<!{_LETTER}){_LETTER}\Z"
_PRODUCT = r"(?:[=+−×·*/(<>≤≥\d] ?[a-zα-ω]|(?<!\w)[α-ω])[a-z]\Z"
"""The end of mc^2 after a sign, of 4ac^2, or of πr^2."""
_UNIT = rf"(?<!{_LETTER})(?:{_POWERS}|[µμ]m)\Z|[\d/] ?(?:in|ha)\Z"
_BASE = re.compile(rf"\d\Z|{_VARIABLE}|{_UNIT}|{_PRODUCT}|\x7f[)\]]\Z|\((?:(?!{_LETTER}{{3}})[^()]){{0,40}}\)\Z")
_CLOSED = re.compile(rf"{_VARIABLE}|[)\]}}]\Z")
_WORD = re.compile(rf"{_LETTER}{{2}}\Z|[.,;:!?\"'”’»…)\]]\Z")
_LONG_WORD = re.compile(rf"{_LETTER}{{4}}\Z")
_EXPONENTS = frozenset("NTijkmnpqx")
"""Letters that are powers of a number; others after a number are ordinals (2e, 1o, 3a)."""
_BEFORE_CHARS, _AFTER_CHARS = 48, 16
"""The text around a script that decides what it is."""


def write_scripts(text: str) -> str:
    """The text with its scripts as signs. U+007F and `^` or `_` begin a script; U+007F and `)`, or `]` in a link, end
    it, and end a formula."""
    for _ in range(NESTED_SCRIPTS):
        text = _SCRIPT.sub(_script, text)
    return _LEFT_OVER.sub("", text)


def _script(match: re.Match[str]) -> str:
    sign, content, linked = match[1], match[2], match[3] == "]"
    before = match.string[max(0, match.start() - _BEFORE_CHARS) : match.start()].rstrip("*`")
    after = match.string[match.end() : match.end() + _AFTER_CHARS]
    plain = _LINK.sub(r"\1", content)
    plain = plain.strip("*`") or plain
    if sign == "^" and _NUMBER.fullmatch(plain) and not before[-1:].isalnum() and _ELEMENT.match(after):
        return f"^{{{plain}}}"
    if not before or before[-1].isspace():
        return content.lstrip(" ")
    if not plain or plain[0].isspace():
        return content
    if sign == "^":
        if linked and _MARK.fullmatch(plain):
            return ""
        if (special := _special(plain, before, after)) is not None:
            return special
    if _is_index(plain, before) if sign == "_" else _is_power(plain, before):
        # mc^27000 would be another number; H_2O needs no braces.
        is_joined = (plain.isdigit() and after[:1].isdigit()) or (plain.isalpha() and after[:1].isalpha())
        return f"{sign}{plain}" if len(plain) == 1 and not is_joined else f"{sign}{{{plain}}}"
    return content


def _special(plain: str, before: str, after: str) -> str | None:
    """What is written for a raised text that is not mathematics, as far as its surroundings tell."""
    if _NUMBER.fullmatch(plain) and _FRACTION.match(after):
        return f" {plain}" if before[-1].isdigit() else plain
    if len(plain) == 2 and plain.isdecimal():
        if _HAS_POINT.search(before):
            return plain
        if before[-1].isdigit() and (plain == "00" or _PRICE.search(before) or _PRICE_OR_TIME.match(after)):
            return f".{plain}"
    if plain[0] in ".," and plain[1:].isdecimal():
        return plain
    if plain in ("o", "0") and before[-1].isdigit() and _DEGREES.match(after):
        return "°"
    if plain in ("o", "r") and before[-1] in "DMNn" and _TITLE.match(after):
        return plain
    is_note = (
        _NOTE.fullmatch(plain)
        and not after[:1].isdecimal()
        and (not _BASE.search(before) or (_YEAR.search(before) and plain.isdecimal()))
    )
    if is_note or (_AFFILIATION.fullmatch(plain) and _LONG_WORD.search(before)):
        return "" if _YEAR.search(before) or _WORD.search(before) else plain
    return None


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
