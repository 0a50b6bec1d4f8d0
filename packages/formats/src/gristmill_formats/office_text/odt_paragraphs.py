"""Paragraphs of .odt: which are code, and the numbers before items of lists and headings."""

import re
from collections.abc import Iterable
from typing import NamedTuple
from xml.etree.ElementTree import Element

from gristmill_formats.office_text.docx_paragraphs import is_code_style, is_monospaced
from gristmill_formats.office_text.numerals import numeral, whole

_MOST_STYLES = 20
_MOST_LEVELS = 10
_NUMBERED = ("list-level-style-number", "outline-level-style")
_Levels = dict[int, Element]
_PERCENT = re.compile(r"(-?)0*+[1-9]\d{0,2}(?:\.\d{1,9})?%")
"""How far text is raised, or lowered if it is negative: `33% 80%`, where the second number is its size."""


class _Style(NamedTuple):
    names: list[str]
    """Of the style and of those that it inherits from."""
    font: str
    shown: str
    position: str


class OdtStyles:
    """What the styles of a document say."""

    def __init__(self, roots: Iterable[Element]) -> None:
        self._styles: dict[str, Element] = {}
        self._lists: dict[str, _Levels] = {}
        self._outline: _Levels = {}
        for root in roots:
            for one in root.iter():
                if one.tag == "style":
                    self._styles.setdefault(one.get("name", ""), one)
                elif one.tag == "list-style":
                    self._lists.setdefault(one.get("name", ""), _levels(one))
                elif one.tag == "outline-style":
                    self._outline = _levels(one)

    def placed(self, span: Element) -> str:
        """`sup`, `sub`, or nothing."""
        position = self._inherited(span).position
        if position.startswith(("super", "sub")):
            return position[:3]
        percent = _PERCENT.match(position)
        return ("sub" if percent[1] else "sup") if percent else ""

    def is_code(self, paragraph: Element) -> bool:
        """By the name of its style, or if all of it is in a monospaced font."""
        stated = self._inherited(paragraph)
        if any(is_code_style(name.replace("_20_", " ")) for name in stated.names):
            return True
        if is_monospaced(stated.font):
            return True
        spans = [one for one in paragraph if (one.text or "").strip()]
        loose = [paragraph.text, *(one.tail for one in paragraph)]
        is_whole = bool(spans) and not any(one and one.strip() for one in loose)
        return is_whole and all(one.tag == "span" and is_monospaced(self._inherited(one).font) for one in spans)

    def is_title(self, paragraph: Element) -> bool:
        return "Title" in self._inherited(paragraph).names

    def is_hidden(self, element: Element) -> bool:
        """Whether a paragraph, a span, a section or a field is not shown."""
        if element.tag in ("p", "h", "span"):
            return self._inherited(element).shown == "none"
        return element.get("display") == "none" or element.get("is-hidden") == "true"

    def _inherited(self, element: Element) -> "_Style":
        """What the style of an element says, or else the nearest of those that it inherits from."""
        names: list[str] = []
        name, font, shown, position = element.get("style-name", ""), "", "", ""
        while name and name not in names and len(names) < _MOST_STYLES:
            names.append(name)
            style = self._styles.get(name)
            found = style.find("text-properties") if style is not None else None
            if found is not None:
                font = font or found.get("font-name", "") or found.get("font-family", "")
                shown = shown or found.get("display", "")
                position = position or found.get("text-position", "")
            name = style.get("parent-style-name", "") if style is not None else ""
        return _Style(names, font, shown, position)

    def number(self, root: Element) -> dict[Element, tuple[int, str]]:
        """The marks of the items of lists. Numbers of headings are written into their text."""
        marks: dict[Element, tuple[int, str]] = {}
        last: dict[str, dict[int, int]] = {}
        names: dict[str, str] = {}
        headings: dict[int, int] = {}

        def listed(one: Element, style: str, level: int, counts: dict[int, int]) -> None:
            style = one.get("style-name", style)
            levels = self._lists.get(style, {})
            if name := one.get("id"):
                names[name] = style
            if level == 1:
                continued = style if one.get("continue-numbering") == "true" else ""
                counts = dict(last.get(names.get(one.get("continue-list", ""), continued), {}))
            counts.setdefault(level, _start(levels, level) - 1)
            for item in one:
                first = next(iter(item), None)
                if item.tag == "list-item" and (first is None or first.tag != "list"):  # it has a paragraph
                    counts[level] = whole(item.get("start-value"), counts[level] + 1)
                    for below in [at for at in counts if at > level]:
                        del counts[below]
                mark = _mark(levels, level, counts) if item.tag == "list-item" else ""
                if first is not None and first.tag == "h":
                    first.text = f"{mark} {first.text or ''}".lstrip() if mark != "-" else first.text
                    one.tag = item.tag = "section"  # a heading with a number
                else:
                    marks[item] = level - 1, mark
                walk(item, style, level + 1, counts)
            last[style] = dict(counts)

        def walk(element: Element, style: str, level: int, counts: dict[int, int]) -> None:
            for one in element:
                if one.tag == "list":
                    listed(one, style, level, counts)
                    continue
                if one.tag == "h" and level == 1 and one.get("is-list-header") != "true":
                    at = whole(one.get("outline-level"), 1)
                    headings[at] = whole(one.get("start-value"), headings.get(at, _start(self._outline, at) - 1) + 1)
                    for below in [deeper for deeper in headings if deeper > at]:
                        del headings[below]
                    if (mark := _mark(self._outline, at, headings)) not in ("", "-"):
                        one.text = f"{mark} {one.text or ''}"
                walk(one, "" if one.tag == "table" else style, 1 if one.tag == "table" else level, counts)

        walk(root, "", 1, {})
        return marks


def _levels(style: Element) -> _Levels:
    return {at: one for one in style if 0 < (at := whole(one.get("level"), 0)) <= _MOST_LEVELS}


def _start(levels: _Levels, level: int) -> int:
    return whole(levels[level].get("start-value"), 1) if level in levels else 1


def _mark(levels: _Levels, level: int, counts: dict[int, int]) -> str:
    """The number of an item, `-` for a bullet, nothing for a number that is not shown."""
    stated = levels.get(level)
    if stated is None or stated.tag not in _NUMBERED:
        return "-"
    if not stated.get("num-format"):
        return (stated.get("num-prefix", "") + stated.get("num-suffix", "")).strip()[:20]
    shown = whole(stated.get("display-levels"), 1)
    numbers = [
        numeral(counts.get(at, 1), levels[at].get("num-format", "1"))
        for at in range(max(level - shown, 0) + 1, level + 1)
        if at in levels and levels[at].get("num-format")
    ]
    return stated.get("num-prefix", "")[:20] + ".".join(numbers) + stated.get("num-suffix", "")[:20]
