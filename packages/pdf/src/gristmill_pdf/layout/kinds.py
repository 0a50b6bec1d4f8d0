"""Tells text, headings, code and formulas apart, with small trees over what a line and its neighbours show.

`kinds.model` has an ensemble of trees for each kind (shared/trees_file.py). The kind with the highest score wins. All
arithmetic is in integers.
"""

import itertools
import re
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from statistics import median_low
from typing import Any

import numpy as np

from gristmill.kernels.html.trees import Trees, score
from gristmill.stages.shared.arrow_file import ArrowFile
from gristmill.stages.shared.trees_file import trees_in
from gristmill_pdf.layout.lines import BULLETS, LEADER, MARK, TextLine, is_formula, note_mark

Array = np.ndarray[Any, Any]

KINDS = ("text", "heading", "code", "formula")
MODEL = Path(__file__).with_name("kinds.model")

ITEM = re.compile(
    rf"(?:[{BULLETS}]\s*|[–—−*\-·]\s+|\(?(?:\d{{1,3}}|[a-z]|[ivx]{{1,4}})\)\s|\d{{1,3}}\.\s|(?:[a-z]|[ivx]{{2,4}})\.\s(?!\w\.)|\[\w{{1,12}}\]\s)"
)
_NUMBERED = r"\s*(?:[A-Z]\.)?\d+(?:[.\-–]\d+)*+[a-z]?+"
_LABEL = re.compile(
    r"(?:figure|fig\.|table|tabelle|tableau|abbildung|abb\.|figura|tabla|tabela|tabella|рис(?:унок|\.)|таблица|listing|"
    rf"algorithm|[図表图]){_NUMBERED}(?!\w)|example\s*\w+\.{_NUMBERED}(?=:)",
    re.I,
)
EXAMPLE = re.compile(rf"example{_NUMBERED}\.?(?:\s|$)", re.I)
"""A caption if it is set like a heading; else, the beginning of a paragraph."""
_SECTION = re.compile(r"(?:[^\W\d_]{4,12}\s+)?(?:\d+|[A-Z])(?:\.\d+)+\.?\s|\d{1,2}\s+[^\W\d_]")
_LETTER = re.compile(r"[^\W\d_]")
_SIGN = re.compile(r"[{}()\[\]<>=;:/\\$_#&|%@+*\"'`]")
_CAMEL = re.compile(r"\w[_.:/]\w|[a-z][A-Z]|--?\w|\w\(")
_SHARES = 20
"""Shares are in twentieths."""


def is_caption(text: str) -> bool:
    """Whether a line begins with a label and its number, but not as in `Figure 3 shows` or `Figure 3 (left)`."""
    found = _LABEL.match(text)
    rest = text[found.end() :].lstrip() if found else "a"
    return not rest[:1].islower() and rest[:1] not in tuple(",;(")


def _first(text: str) -> int:
    char = text[:1]
    if char.islower():
        return 1
    if char.isupper():
        return 2
    if char.isdigit():
        return 3
    if char.isalpha():
        return 4
    if char in "([{":
        return 5
    if char in "\"'“‘«„`":
        return 6
    if MARK.match(char):
        return 7
    return 8 if char.isalnum() else 9


def _last(text: str) -> int:
    char = text[-1:]
    if char.islower():
        return 1
    if char.isupper():
        return 2
    if char.isdigit():
        return 3
    if char.isalpha():
        return 4
    if char == ",":
        return 5
    if char in "-\u00ad\u2010":
        return 6
    if char in ";{}()[]<>=":
        return 7
    if char == ":":
        return 8
    return 9 if char in ".!?。！？" else 10


def _own(line: TextLine, left: int, right: int, body: int) -> list[int]:
    """What a line shows alone."""
    text = line.text
    glyphs = max(line.glyphs, 1)
    size = max(line.size, 1)
    parts = line.segments
    words = text.split()
    letters = len(_LETTER.findall(text))
    uppers = sum(map(str.isupper, text))
    digits = sum(map(str.isdigit, text))
    chars = max(len(text) - text.count(" "), 1)
    # fmt: off
    return [
        size * 100 // max(body, 1),
        _SHARES * sum(one.bold for one in parts) // glyphs,
        _SHARES * sum(one.italic for one in parts) // glyphs,
        _SHARES * sum(one.mono for one in parts) // glyphs,
        _SHARES * line.math // glyphs,
        4 * (line.left - left) // size + 20,
        2 * (right - line.right) // size + 40,
        abs((line.left - left) - (right - line.right)) * 2 // size,
        (line.right - line.left) // size,
        _first(text), _last(text),
        len(words), len(line.cells),
        _SHARES * letters // chars, _SHARES * digits // chars, _SHARES * uppers // max(letters, 1),
        _SHARES * len(_SIGN.findall(text)) // chars,
        bool(ITEM.match(text)), is_caption(text), bool(_SECTION.match(text)), len(_CAMEL.findall(text)),
        bool(note_mark(line, body)), is_formula(line), LEADER in text,
        sum(word[:1].isupper() for word in words) * _SHARES // max(len(words), 1),
    ]
    # fmt: on


_SEEN = (0, 1, 2, 3, 4, 5, 6, 8, 9, 10, 11, 12, 16, 17, 18)
"""What a line also knows of the lines before and after it."""


def features(lines: Sequence[TextLine], body: int) -> Array:
    """The features of the lines of a region, uint8 (features, lines)."""
    lefts = sorted(line.left for line in lines)
    edges = sorted(line.right for line in lines)
    left, right = lefts[len(lefts) // 10], edges[len(edges) * 9 // 10]
    steps = [b.base - a.base for a, b in itertools.pairwise(lines) if 0 < b.base - a.base < 3 * b.size]
    leading = max(median_low(steps) if steps else 0, 1)
    own = [_own(line, left, right, body) for line in lines]
    none = [255] * len(_SEEN)
    seen = [[one[at] for at in _SEEN] for one in own]
    rows = []
    for at, line in enumerate(lines):
        above = line.base - lines[at - 1].base if at else 1 << 20
        below = lines[at + 1].base - line.base if at + 1 < len(lines) else 1 << 20
        size = max(line.size, 1)
        around = [
            above * 20 // leading,
            below * 20 // leading,
            above * 20 // size,
            below * 20 // size,
            4 * (line.left - lines[at - 1].left) // size + 100 if at else 255,
            4 * (lines[at + 1].left - line.left) // size + 100 if at + 1 < len(lines) else 255,
            min(at, 20),
            min(len(lines) - at, 20),
        ]
        rows.append(own[at] + around + (seen[at - 1] if at else none) + (seen[at + 1] if at + 1 < len(lines) else none))
    return np.ascontiguousarray(np.clip(np.array(rows), 0, 255).astype(np.uint8).T)


def kinds_of(lines: Sequence[TextLine], body_size: int) -> list[str]:
    """The kind of each line of a region, given the size of its page's body text."""
    columns = features(lines, body_size)
    scores = np.empty((len(KINDS), len(lines)), np.int32)
    for trees, row in zip(ensembles(), scores, strict=True):
        score(trees, columns, row)
    return [KINDS[at] for at in np.argmax(scores, 0).tolist()]


@cache
def ensembles() -> list[Trees]:
    """The trees of the model, by the order of KINDS."""
    found = trees_in(ArrowFile(MODEL))
    return [found[kind] for kind in KINDS]
