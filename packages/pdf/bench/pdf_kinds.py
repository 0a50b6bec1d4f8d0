"""Kinds of the lines of PDF pages: precision and recall against the elements of the same document in HTML.

`--data` names a folder of gold rows (bench/_pdf_gold.py, bench/_pdf_typeset.py); PAGES pages of each set are read. A
line of a page is found in the gold text by its words; its kind there is that of the HTML element: h1 to h6, li, pre,
tables, captions, footnotes. Lines that are not in the gold text, and words that lists define, do not count. A line
inside an item of a list is an item. Without `--data`, a page is made up.
"""

import hashlib
import json
import os
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch

import numpy as np
import pypdfium2
import pypdfium2.raw as pdfium
from bench._pdf_make import line as operators
from bench._pdf_make import pdf, random_words
from bench._pdf_words import words
from bench.inputs import measurement, scratch

from gristmill_pdf.layout import blocks
from gristmill_pdf.layout.assemble import placed
from gristmill_pdf.layout.characters import plain
from gristmill_pdf.layout.document import WORK
from gristmill_pdf.layout.kinds import features, kinds_of
from gristmill_pdf.layout.lines import TextLine
from gristmill_pdf.layout.page import Page, PageReader

PAGES = int(os.environ.get("PAGES", "150"))
FREQUENT = 60
"""Of a word that occurs more often in the gold text, only the places near the last line count."""
LEAST_SHARE = 60
"""A line is found if as many hundredths of its words follow each other in the gold text."""
SMALL: dict[str, object] = {}
"""The constants that set its size, for its test."""


class KnownLine(NamedTuple):
    """A line with its kind in the gold text."""

    features: np.ndarray
    kind: str
    """What the reader makes of it; `head` is a line that it leaves out."""
    gold: str


def run(data: Path | None) -> Iterator[dict[str, Any]]:
    with scratch() as folder:
        sets = gold_sets(data) if data else {"made_up": [_made_up(folder)]}
        counts = Counter((one.gold, one.kind) for rows in sets.values() for row in rows for one in known_lines(row))
    for kind in sorted({gold for gold, _ in counts}):
        both = counts[kind, kind]
        in_gold = sum(count for (gold, _), count in counts.items() if gold == kind)
        found = sum(count for (_, mine), count in counts.items() if mine == kind)
        yield measurement(f"pdf_kinds.precision_{kind}", both / max(found, 1), f"share of {found:,} lines")
        yield measurement(f"pdf_kinds.recall_{kind}", both / in_gold, f"share of {in_gold:,} lines")
    right = sum(count for (gold, kind), count in counts.items() if gold == kind)
    yield measurement("pdf_kinds.accuracy", right / max(counts.total(), 1), f"share of {counts.total():,} lines")


def gold_sets(data: Path) -> dict[str, list[dict[str, Any]]]:
    """The first rows of each set, in the order of a hash, up to PAGES pages."""
    found: dict[str, list[dict[str, Any]]] = {}
    for file in sorted(data.glob("**/*.jsonl")):
        rows = [json.loads(text) for text in file.read_text().splitlines()]
        left = PAGES
        for row in sorted(rows, key=lambda row: hashlib.sha256(f"{row['pdf']}{row['pages']}".encode()).digest()):
            if left > 0:
                found.setdefault(file.stem, []).append(row)
                left -= row["pages"][1] - row["pages"][0] + 1
    return found


def known_lines(row: dict[str, Any]) -> Iterator[KnownLine]:
    """The lines of a row of gold text whose kind is known."""
    seen: dict[int, np.ndarray] = {}

    def noted(lines: Sequence[TextLine], body_size: int) -> list[str]:
        columns = features(lines, body_size)
        seen.update({id(line): columns[:, at] for at, line in enumerate(lines)})
        return kinds_of(lines, body_size)

    with patch.object(blocks, "kinds_of", noted):
        pages = _pages(row["pdf"], *row["pages"])
    lines = [line for page in pages for block in page.blocks for line in block.lines]
    texts = [words(plain(line.text)) for line in lines]
    kinds: dict[int, str] = {}
    for _, block, notes in placed(pages):
        for one in (block, *notes):
            kinds |= {id(line): one.kind for line in one.lines}
    gold = _Gold(row["text"].split("\n"), row["kinds"])
    for line, text in zip(lines, texts, strict=True):
        kind = gold.kind_of(text)
        if kind is not None and id(line) in seen:
            yield KnownLine(seen[id(line)], kinds.get(id(line), "head"), kind)


def _pages(file: str, first: int, last: int) -> list[Page]:
    document = pypdfium2.PdfDocument(file)
    reader = PageReader()
    pages = []
    for number in range(first, last + 1):
        page = pdfium.FPDF_LoadPage(document.raw, number)
        pages.append(reader.read(page, WORK))
        pdfium.FPDF_ClosePage(page)
    document.close()
    return pages


class _Gold:
    """Finds lines in the gold text, near the one before."""

    def __init__(self, lines: Sequence[str], kinds: Sequence[str]) -> None:
        self.kinds: list[str] = []
        self.places: dict[str, list[int]] = {}
        self.at = 0
        for line, kind in zip(lines, kinds, strict=True):
            for word in words(line):
                self.places.setdefault(word, []).append(len(self.kinds))
                self.kinds.append(kind)

    def kind_of(self, tokens: Sequence[str]) -> str | None:
        votes: Counter[int] = Counter()
        for offset, token in enumerate(tokens):
            found = self.places.get(token, [])
            near = found if len(found) <= FREQUENT else [one for one in found if abs(one - self.at) < 400]
            votes.update(place - offset for place in near)
        if not votes:
            return None
        best = max(votes, key=lambda start: (votes[start], -abs(start - self.at)))
        if 100 * votes[best] < LEAST_SHARE * len(tokens) or (len(tokens) < 3 and abs(best - self.at) > 60):
            return None
        self.at = best + len(tokens)
        inside = self.kinds[max(best, 0) : self.at]
        kind = max(set(inside), key=lambda one: (inside.count(one), one))
        return None if kind == "term" else kind


def _made_up(folder: Path) -> dict[str, Any]:
    drawn = random_words(1, 90)
    texts = ["The mill", *(" ".join(drawn[at : at + 9]) for at in range(0, 90, 9))]
    path = folder / "made_up.pdf"
    path.write_bytes(pdf([b"".join(operators(60, 730 - 14 * row, text) for row, text in enumerate(texts))]))
    return {"pdf": str(path), "pages": [0, 0], "text": "\n".join(texts), "kinds": ["text"] * len(texts)}
