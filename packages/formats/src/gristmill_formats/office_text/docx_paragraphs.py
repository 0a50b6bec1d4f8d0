"""Paragraphs of .docx: which are headings, code or items of lists, and the numbers before them.

Styles inherit from each other; numbers come from numbering.xml. Lists of one abstract numbering continue each other,
unless a list states where it starts.
"""

import re
from collections.abc import Iterator
from typing import NamedTuple
from xml.etree.ElementTree import Element

from gristmill_formats.office_text.numerals import numeral, whole

LEVELS = 9
CONTINUED = " "
"""The mark of a paragraph that belongs to the item before it."""
_MOST_STYLES = 20
"""Styles that a style inherits from; they may form a circle."""
_FORMS = {"lowerRoman": "i", "upperRoman": "I", "lowerLetter": "a", "upperLetter": "A", "decimalZero": "01"}
_PLACE = re.compile(r"%([1-9])")
_CODE = re.compile(
    r"source ?code|code|verbatim|html ?preformatted|preformatted ?text|program ?listing|plain ?text", re.I
)
_MONOSPACED = re.compile(
    r"courier|consolas|mono\b|mono(?:space|spac)|menlo|monaco|inconsolata|typewriter|console", re.I
)


def is_monospaced(font: str | None) -> bool:
    return bool(font and _MONOSPACED.search(font))


def is_code_style(name: str) -> bool:
    return _CODE.match(name) is not None


class _Level(NamedTuple):
    form: str
    text: str
    start: int
    style: str
    legal: bool
    restarts: bool


class Paragraphs:
    """The paragraphs of one document, in order: `mark` counts."""

    def __init__(self, styles: Element | None, numbering: Element | None) -> None:
        self._styles = {one.get("styleId", ""): one for one in _children(styles, "style")}
        self._chains: dict[str, list[Element]] = {}
        abstract = {one.get("abstractNumId", ""): one for one in _children(numbering, "abstractNum")}
        self._lists = {one.get("numId", ""): _List(one, abstract) for one in _children(numbering, "num")}
        for one in self._lists.values():
            if one.link:  # the numbering of a style
                linked = self._stated(self._chain(one.link), "")[0]
                one.abstract, one.levels = (linked.abstract, linked.levels) if linked else (one.abstract, one.levels)
        self._counts: dict[str, dict[int, int]] = {}

    def kind(self, paragraph: Element) -> str:
        """`heading`, `code`, or nothing."""
        style = _value(paragraph.find("pPr"), "pStyle")
        chain = self._chain(style)
        if any(whole(_value(one.find("pPr"), "outlineLvl"), LEVELS) < LEVELS for one in chain) or (
            style.startswith("Heading") and not chain
        ):
            return "heading"
        if is_code_style(style) or any(is_code_style(_value(one, "name")) for one in chain):
            return "code"
        font = next((found for one in chain if (found := _font(one))), None)
        written = [one for one in paragraph.iter("r") if any((text.text or "").strip() for text in one.iter("t"))]
        fonts = [_font(one) or font for one in written]
        return "code" if fonts and all(map(is_monospaced, fonts)) else ""

    def is_title(self, paragraph: Element) -> bool:
        """Whether its style is the one that Word has for the title, whose name is English in every language."""
        style = _value(paragraph.find("pPr"), "pStyle")
        return bool(style) and _value(self._styles.get(style), "name").lower() == "title"

    def mark(self, paragraph: Element) -> tuple[int, str] | None:
        """The level of an item and the number before it, `-` for a bullet, CONTINUED for one that is blank; None if it
        is not in a list."""
        properties = paragraph.find("pPr")
        style = _value(properties, "pStyle")
        found, level = self._stated([paragraph, *self._chain(style)], style)
        if found is None or level not in found.levels:
            return None
        levels, counts = found.levels, self._counts.setdefault(found.abstract, {})
        first = found.starts.pop(level, None)  # when the list is begun
        for above in range(level):
            if above in levels:
                counts.setdefault(above, levels[above].start)
        counts[level] = first if first is not None else counts.get(level, levels[level].start - 1) + 1
        for below in [at for at in counts if at > level and levels.get(at, levels[level]).restarts]:
            del counts[below]
        this = levels[level]
        if this.form == "bullet":
            return level, "-" if this.text.strip() else CONTINUED

        def written(place: re.Match[str]) -> str:
            at = int(place[1]) - 1
            form = levels[at].form if at in levels and not this.legal else "decimal"
            return numeral(counts.get(at, 1), _FORMS.get(form, "1")) if form != "none" else ""

        return level, _PLACE.sub(written, this.text).strip()

    def _chain(self, style: str) -> list[Element]:
        """A style and those that it inherits from."""
        if style not in self._chains:
            chain: list[Element] = []
            name = style
            while name in self._styles and self._styles[name] not in chain and len(chain) < _MOST_STYLES:
                chain.append(self._styles[name])
                name = _value(chain[-1], "basedOn")
            self._chains[style] = chain
        return self._chains[style]

    def _stated(self, chain: list[Element], style: str) -> "tuple[_List | None, int]":
        """The list and the level that a paragraph, or a style, is in."""
        for one in chain:
            stated = one.find("pPr/numPr")
            if stated is not None and stated.find("numId") is not None:
                found = self._lists.get(_value(stated, "numId"))
                levels = found.levels if found else {}
                by_style = next((at for at, level in levels.items() if style and level.style == style), 0)
                return found, whole(_value(stated, "ilvl"), by_style)
        return None, 0


class _List:
    """A list of an abstract numbering: its levels, and where it starts them."""

    def __init__(self, number: Element, abstract: dict[str, Element]) -> None:
        self.abstract = _value(number, "abstractNumId")
        self.link = _value(abstract.get(self.abstract), "numStyleLink")
        self.levels = {at: _level(one) for at, one in _by_level(abstract.get(self.abstract), "lvl")}
        self.starts: dict[int, int] = {}
        for at, one in _by_level(number, "lvlOverride"):
            if (level := one.find("lvl")) is not None:
                self.levels[at] = _level(level)
            if start := _value(one, "startOverride"):
                self.starts[at] = whole(start, 1)


def _children(root: Element | None, name: str) -> Iterator[Element]:
    return (one for one in root if one.tag == name) if root is not None else iter(())


def _value(element: Element | None, name: str) -> str:
    found = element.find(name) if element is not None else None
    return found.get("val", "") if found is not None else ""


def _font(element: Element) -> str | None:
    found = element.find("rPr/rFonts")
    return found.get("ascii") or found.get("hAnsi") if found is not None else None


def _by_level(numbering: Element | None, name: str) -> Iterator[tuple[int, Element]]:
    return ((at, one) for one in _children(numbering, name) if (at := whole(one.get("ilvl"), LEVELS)) < LEVELS)


def _level(element: Element) -> _Level:
    is_picture = element.find("lvlPicBulletId") is not None
    return _Level(
        _value(element, "numFmt") or "decimal",
        "•" if is_picture else _value(element, "lvlText")[:50],
        whole(_value(element, "start"), 1),
        _value(element, "pStyle"),
        element.find("isLgl") is not None,
        _value(element, "lvlRestart") != "0",
    )
