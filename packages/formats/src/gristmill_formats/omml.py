"""Converts formulas of Word (Office MathML, ECMA-376 part 1, 22.1) to MathML, which `mathml.latex` converts to LaTeX.

Lost are what MathML's converter loses, the place of bounds beside or above an integral, and the kind of a strike.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from xml.etree.ElementTree import Element

from gristmill.stages.reading.formulas.tex_symbols import ARROWS

_TOKEN = re.compile(r"\d+(?:[.,]\d+)*|[^\W\d_]+|\s+|.", re.DOTALL)
_SPACES = {
    " ": 0.0,
    "\u2000": 0.5,
    "\u2001": 1.0,
    "\u2002": 0.5,
    "\u2003": 1.0,
    "\u2004": 0.33,
    "\u2005": 0.25,
    "\u2006": 0.167,
    "\u2009": 0.167,
    "\u200a": 0.1,
    "\u205f": 0.222,
    "\u3000": 1.0,
}
"""Widths in em. Word ignores the space between operators, and so does TeX."""
_STYLES = {"p": "normal", "b": "bold", "i": "italic", "bi": "bold-italic"}
_ALIGNED = "malignmark"
"""The character & of an equation array, which separates cells."""


def mathml(formula: Element) -> Element:
    """The `math` of an `oMath`. The tree's depth is bounded (`parse_xml`), so this may recurse."""
    return _made("math", *_inside(formula))


def _inside(element: Element | None) -> Iterator[Element]:
    if element is None:
        return
    for child in element:
        if convert := _CONVERTERS.get(child.tag):
            yield convert(child)
        elif child.tag == "r":
            yield from _run(child, len(element) == 1 and element.tag in ("sub", "sup"))
        elif child.tag not in _SKIPPED:
            yield from _inside(child)  # insertions, boxes and the like: what is in them


def _row(element: Element | None, name: str = "mrow") -> Element:
    return _made(name, *_inside(element))


def _argument(element: Element, name: str = "e") -> Element:
    return _row(element.find(name))


def _made(name: str, *children: Element, **attributes: str) -> Element:
    made = Element(name, attributes)
    made.extend(children)
    return made


def _token(name: str, text: str, **attributes: str) -> Element:
    made = Element(name, attributes)
    made.text = text
    return made


def _property(element: Element, name: str, default: str, empty: str | None = None) -> str:
    """The value of a property; `empty` is for one without a value, which is `default` if not stated."""
    found = element.find(f"{element.tag}Pr/{name}")
    if found is None:
        return default
    return found.get("val", default if empty is None else empty)


def _is_on(element: Element, name: str) -> bool:
    return _property(element, name, "0", "1") in ("1", "on", "true")


def _run(run: Element, alone: bool) -> Iterator[Element]:
    """Letters, numbers and signs. An upright word is a function, unless it is `alone` (as an index, say)."""
    text = "".join(one.text or "" for one in run.iter("t"))
    if _is_on(run, "nor"):
        yield _token("mtext", text)
        return
    style, script = _property(run, "sty", ""), _property(run, "scr", "roman")
    variant = _STYLES.get(style, "")
    if script != "roman":
        variant = ("bold-" if "b" in style and script != "monospace" else "") + script
    styled = {"mathvariant": variant} if variant else {}
    for found in _TOKEN.finditer(text):
        piece = found[0]
        if piece[0].isdecimal():
            yield _token("mn", piece, **({} if variant in ("normal", "italic") else styled))
        elif piece[0].isalpha():
            if variant == "normal" and len(piece) > 1 and not (alone and piece == text):
                yield _token("mo", piece)
                continue
            for one in (piece,) if variant in ("normal", "italic") and piece.isascii() else piece:
                yield _token("mi", one, **styled)
        elif piece.isspace():
            if width := sum(_SPACES.get(one, 0.0) for one in piece):
                yield _made("mspace", width=f"{width:.3f}em")
        elif piece == "&":
            yield Element(_ALIGNED)
        else:
            yield _token("mo", piece, **({"mathvariant": "bold"} if "bold" in variant else {}))


def _fraction(element: Element) -> Element:
    kind = _property(element, "type", "bar")
    attributes = {"noBar": {"linethickness": "0"}, "lin": {"bevelled": "true"}, "skw": {"bevelled": "true"}}
    return _made("mfrac", _argument(element, "num"), _argument(element, "den"), **attributes.get(kind, {}))


def _delimiters(element: Element) -> Element:
    marks = {name: _property(element, f"{kind}Chr", mark, "") for name, kind, mark in _DELIMITERS}
    return _made("mfenced", *(_row(one) for one in element.findall("e")), **marks)


_DELIMITERS = (("open", "beg", "("), ("close", "end", ")"), ("separators", "sep", "|"))


def _nary(element: Element) -> Element:
    sign = _token("mo", _property(element, "chr", "∫", ""))
    parts = [(kind, _argument(element, kind)) for kind in ("sub", "sup") if not _is_on(element, f"{kind}Hide")]
    kinds = "".join(kind for kind, _ in parts)
    if kinds:
        sign = _made(_BOUNDS[kinds], sign, *(part for _, part in parts))
    return _made("mrow", sign, _argument(element))


_BOUNDS = {"sub": "munder", "sup": "mover", "subsup": "munderover"}


def _root(element: Element) -> Element:
    degree = _argument(element, "deg")
    if _is_on(element, "degHide") or not len(degree):
        return _made("msqrt", _argument(element))
    return _made("mroot", _argument(element), degree)


def _bar(element: Element) -> Element:
    return _marked(element, "‾" if _property(element, "pos", "bot") == "top" else "_")


def _marked(element: Element, sign: str) -> Element:
    above = element.tag == "acc" or _property(element, "pos", "bot") == "top"
    fixed = {"stretchy": "false"} if element.tag == "acc" else {}
    return _made("mover" if above else "munder", _argument(element), _token("mo", sign, **fixed))


def _accent(element: Element) -> Element:
    return _marked(element, _property(element, "chr", "\u0302", ""))


def _group(element: Element) -> Element:
    """A brace, or an arrow with a text above or below it."""
    sign = _property(element, "chr", "⏟", "")
    if sign not in ARROWS:
        return _marked(element, sign)
    above = _property(element, "pos", "bot") == "bot"
    return _made("mover" if above else "munder", _token("mo", sign), _argument(element))


def _function(element: Element) -> Element:
    return _made("mrow", *_inside(element.find("fName")), _token("mo", "\u2061"), _argument(element))


def _before(element: Element) -> Element:
    scripts = (_argument(element, name) for name in ("sub", "sup"))
    return _made("mmultiscripts", _argument(element), Element("mprescripts"), *scripts)


def _scripts(name: str, *arguments: str) -> Callable[[Element], Element]:
    return lambda element: _made(name, *(_argument(element, one) for one in ("e", *arguments)))


def _matrix(element: Element) -> Element:
    columns = [one.get("val", "") for one in element.findall("mPr/mcs/mc/mcPr/mcJc")]
    return _table((_cells(row.findall("e")) for row in element.findall("mr")), " ".join(columns))


def _cells(cells: Iterable[Element]) -> list[Element]:
    return [_row(cell, "mtd") for cell in cells]


def _table(rows: Iterable[list[Element]], align: str) -> Element:
    return _made("mtable", *(_made("mtr", *cells) for cells in rows), columnalign=align)


def _equations(element: Element) -> Element:
    """One equation below the other; the signs & separate cells."""
    rows = [[Element("mtd")] for _ in element.findall("e")]
    for row, equation in zip(rows, element.findall("e"), strict=True):
        for piece in _inside(equation):
            if piece.tag == _ALIGNED:
                row.append(Element("mtd"))
            else:
                row[-1].append(piece)
    is_aligned = any(len(row) > 1 for row in rows)
    return _table(rows, "right left" if is_aligned else "left")


def _bordered(element: Element) -> Element:
    """A frame, some of its sides, or a strike."""
    strikes = any(_is_on(element, f"strike{name}") for name in ("BLTR", "TLBR", "H", "V"))
    sides = [name for name in ("Top", "Bot", "Left", "Right") if not _is_on(element, f"hide{name}")]
    notation = "box" if len(sides) == 4 else {"Top": "top", "Bot": "bottom"}.get("".join(sides), "")
    return _made("menclose", _argument(element), notation="updiagonalstrike" if strikes else notation)


def _phantom(element: Element) -> Element:
    return _argument(element) if _property(element, "show", "1") in ("1", "on", "true") else Element("mphantom")


_SKIPPED = frozenset(("rPr", "ctrlPr", "argPr", "oMathParaPr", "boxPr", "sdtPr", "del", "moveFrom", "Fallback"))
_CONVERTERS: dict[str, Callable[[Element], Element]] = {
    "f": _fraction,
    "d": _delimiters,
    "nary": _nary,
    "rad": _root,
    "bar": _bar,
    "acc": _accent,
    "groupChr": _group,
    "limLow": _scripts("munder", "lim"),
    "limUpp": _scripts("mover", "lim"),
    "func": _function,
    "sSub": _scripts("msub", "sub"),
    "sSup": _scripts("msup", "sup"),
    "sSubSup": _scripts("msubsup", "sub", "sup"),
    "sPre": _before,
    "m": _matrix,
    "eqArr": _equations,
    "borderBox": _bordered,
    "phant": _phantom,
    "box": _argument,
}
