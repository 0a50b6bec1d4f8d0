"""The check of OCR text against the text layer: planted digit changes that it finds, and false alarms.

A page is the text of a chapter of the gold folder of `bench pdf` (`--data`), cut to PAGE_WORDS words, or made up. The
text layer is a copy in which one letter of every NOISE_WORDS words is wrong, as an older engine reads it. In the
answer, one digit of one number becomes another digit. The change is found if the check counts a new number. A
false alarm is a page without a change for which it counts one.
"""

import json
import random
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bench.inputs import made_up_texts, measurement

from gristmill_pdf.ocr.verify import checked

PAGES = 2000
PAGE_WORDS = 300
NOISE_WORDS = 20
_NUMBER = re.compile(r"(?<![\w.,-])\d+(?:[.,]\d+)*(?![\w-])")
_LONG_NUMBER = re.compile(r"(?<![\w.,-])\d{3,}(?![\w.,-])")
SMALL: dict[str, object] = {"PAGES": 20}
"""The constants that set its size, for its test."""


def run(data: Path | None) -> Iterator[dict[str, Any]]:
    draw = random.Random(1)
    pages = list(_pages(data))
    draw.shuffle(pages)
    pages = pages[:PAGES]
    layers = [_noisy(page, draw) for page in pages]
    changed = [_changed(page, draw) for page in pages]
    trust = [0.0] * len(pages)  # as of poor layers: each must have most words of its page
    found = [page.new_numbers > 0 for page in checked(changed, layers, trust)]
    alarms = [page.new_numbers > 0 for page in checked(pages, layers, trust)]
    unit = f"of {len(pages):,} pages"
    yield measurement("ocr_check.changes_found", sum(found) / len(found), f"share {unit} with a changed digit")
    yield measurement("ocr_check.false_alarms", sum(alarms) / len(alarms), f"share {unit} without a change", less=True)


def _pages(data: Path | None) -> Iterator[str]:
    """Pages that have a number of three digits, so that there is a number that they lack."""
    for text in _texts(data):
        lines = text.split("\n")
        page: list[str] = []
        count = 0
        for line in lines:
            page.append(line)
            count += len(line.split())
            if count >= PAGE_WORDS:
                if _LONG_NUMBER.search("\n".join(page)):
                    yield "\n".join(page)
                page, count = [], 0


def _texts(data: Path | None) -> Iterator[str]:
    if data is None:
        texts = made_up_texts()
        for number in range(40):
            yield "\n".join(
                f"{line} There were {number * 37 + at} of them." for at, line in enumerate(next(texts).split("\n"))
            )
        return
    for file in sorted(data.glob("**/*.jsonl")):
        yield from (json.loads(line)["text"] for line in file.read_text().splitlines())


def _changed(text: str, draw: random.Random) -> str:
    """The text with another digit in one of its numbers; the new number is not elsewhere on the page."""
    numbers = list(_NUMBER.finditer(text))
    known = {match.group() for match in numbers}
    while True:
        match = draw.choice([match for match in numbers if len(match.group()) > 1])
        place = draw.choice([at for at in range(match.start(), match.end()) if text[at].isdigit()])
        changed = text[:place] + draw.choice("0123456789".replace(text[place], "")) + text[place + 1 :]
        if changed[match.start()] != "0" and changed[match.start() : match.end()] not in known:
            return changed


def _noisy(text: str, draw: random.Random) -> str:
    """The text with wrong letters; digits stay."""
    places = [match.start() for match in re.finditer(r"[a-z]{4,}", text)]
    letters = list(text)
    for place in draw.sample(places, len(places) // NOISE_WORDS):
        letters[place + 1] = draw.choice("aeiourlnst")
    return "".join(letters)
