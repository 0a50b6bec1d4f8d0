"""Which pages need OCR: how well the confidence of pages separates good ones from pages that are broken on purpose.

`--data` names a folder of PDF files, or the output of an earlier call of _pdf_break.py. Half of PAGES pages are broken
in one of five ways (_pdf_break.py: fonts without ToUnicode, ToUnicode with other characters or other letters, pages as
images, no spaces), by the Python that BENCH_PDF_PYTHON names, which needs pikepdf, numpy and pypdfium2. The score is
the area under the ROC curve of the confidence: the probability that a broken page has less than a good one. Without
`--data`, the pages are made up, and broken ones have no spaces.
"""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from bench._pdf_make import line, pdf, random_words
from bench.inputs import measurement, scratch
from gristmill.errors import UserError
from gristmill.stages.contract import Piece
from gristmill.stages.ingest import pdf as reader

PAGES = int(os.environ.get("PAGES", "2000"))
SMALL: dict[str, object] = {}
"""The constants that set its size, for its test."""


def run(data: Path | None) -> Iterator[dict[str, Any]]:
    with scratch() as folder:
        if data is None:
            _made_up(folder)
        elif (data / "pages.json").exists():
            folder = data
        else:
            _broken(data, folder)
        found: dict[str, list[float]] = {}
        flagged = 0
        for name, pages in json.loads((folder / "pages.json").read_text()).items():
            listed = judged(folder / name, pages)
            found.setdefault(name.partition("-")[0], []).extend(confidence for confidence, _ in listed)
            flagged += sum(verdict == "garbled" for _, verdict in listed) if name.startswith("good") else 0
    good = found.pop("good")
    for way, broken in sorted(found.items()):
        if not broken:  # its pages keep their words: the fonts do not need what was broken
            continue
        yield measurement(
            f"pdf_router.auc_{way}", auc(good, broken), f"AUC, {len(broken):,} of {way}, {len(good):,} good"
        )
    every = [value for values in found.values() for value in values]
    yield measurement("pdf_router.auc", auc(good, every), f"AUC, {len(every):,} broken pages, {len(good):,} good ones")
    yield measurement("pdf_router.flagged", flagged / len(good), "share of good pages that are called garbled")


def judged(path: Path, numbers: list[int]) -> list[tuple[float, str | None]]:
    """The confidence and verdict of some pages of a file; 0 where the file cannot be read."""
    (record,) = reader.read(Piece(str(path), path.name), reader.Config())
    pages: Any = record.more[0] if record.more else None
    if not pages:
        return [(0.0, record.drop)] * len(numbers)
    return [(pages[number]["confidence"], pages[number]["verdict"]) for number in numbers]


def auc(good: list[float], broken: list[float]) -> float:
    """The probability that a broken page has a lower confidence than a good one; ties count half."""
    ordered = np.sort(np.array(good))
    below = len(good) - np.searchsorted(ordered, broken, side="right")
    ties = np.searchsorted(ordered, broken, side="right") - np.searchsorted(ordered, broken, side="left")
    return float((below + ties / 2).mean() / len(good))


def _broken(data: Path, folder: Path) -> None:
    python = os.environ.get("BENCH_PDF_PYTHON", sys.executable)
    command = [python, str(Path(__file__).with_name("_pdf_break.py")), str(data), str(folder), str(PAGES)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise UserError(
            f"{python} cannot break pages, so there is nothing to measure: {done.stderr.strip().splitlines()[-1]}. "
            "Give BENCH_PDF_PYTHON a Python with: pip install pikepdf numpy pypdfium2"
        )


def _made_up(folder: Path) -> None:
    pages = {}
    for number in range(4):
        words = random_words(number, 300)
        for way, space in (("good", " "), ("spaces", "")):
            rows = [space.join(words[at : at + 8]) for at in range(0, len(words), 8)]
            content = b"".join(line(60, 730 - 14 * row, text) for row, text in enumerate(rows))
            (folder / f"{way}-{number}.pdf").write_bytes(pdf([content]))
            pages[f"{way}-{number}.pdf"] = [0]
    (folder / "pages.json").write_text(json.dumps(pages))
