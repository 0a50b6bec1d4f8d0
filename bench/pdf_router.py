"""Which pages need OCR: how well the confidence of pages separates good ones from pages that are broken on purpose.

`--data` names the gold folder of `bench pdf`. Half of PAGES pages are broken in one of four ways (_pdf_break.py: fonts
without ToUnicode, ToUnicode with other characters, pages as images, no spaces), by the Python that BENCH_PDF_PYTHON
names, which needs pikepdf and pypdfium2. The score is the area under the ROC curve of the confidence: the probability
that a broken page has less than a good one. Without `--data`, the pages are made up, and broken ones have no spaces.
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


def run(data: Path | None) -> Iterator[dict[str, Any]]:
    with scratch() as folder:
        if data is None:
            _made_up(folder)
        else:
            _broken(data, folder)
        found: dict[str, list[float]] = {}
        for path in sorted(folder.glob("*.pdf")):
            found.setdefault(path.name.partition("-")[0], []).extend(confidences(path))
    good = found.pop("good")
    for way, broken in sorted(found.items()):
        yield measurement(
            f"pdf_router.auc_{way}", auc(good, broken), f"AUC, {len(broken):,} of {way}, {len(good):,} good"
        )
    every = [value for values in found.values() for value in values]
    yield measurement("pdf_router.auc", auc(good, every), f"AUC, {len(every):,} broken pages, {len(good):,} good ones")


def confidences(path: Path) -> list[float]:
    """The confidence of each page of a file; 0 where the file has no pages that can be read."""
    (record,) = reader.read(Piece(str(path), path.name), reader.Config())
    pages = record.more[0] if record.more else None
    return [page["confidence"] for page in pages] if pages else [0.0]


def auc(good: list[float], broken: list[float]) -> float:
    """The probability that a broken page has a lower confidence than a good one; ties count half."""
    ordered = np.sort(np.array(good))
    below = len(good) - np.searchsorted(ordered, broken, side="right")
    ties = np.searchsorted(ordered, broken, side="right") - np.searchsorted(ordered, broken, side="left")
    return float((below + ties / 2).mean() / len(good))


def _broken(data: Path, folder: Path) -> None:
    ranges = []
    for file in sorted(data.glob("**/*.jsonl")):
        rows = [json.loads(text) for text in file.read_text().splitlines()]
        ranges += [f"{row['pdf']}\t{row['pages'][0]}\t{row['pages'][1]}" for row in rows]
    python = os.environ.get("BENCH_PDF_PYTHON", sys.executable)
    command = [python, str(Path(__file__).with_name("_pdf_break.py")), str(folder), str(PAGES)]
    done = subprocess.run(command, input="\n".join(ranges), capture_output=True, text=True)
    if done.returncode:
        raise UserError(
            f"{python} cannot break pages, so there is nothing to measure: {done.stderr.strip().splitlines()[-1]}. "
            "Give BENCH_PDF_PYTHON a Python with: pip install pikepdf pypdfium2"
        )


def _made_up(folder: Path) -> None:
    for number in range(4):
        words = random_words(number, 300)
        for way, space in (("good", " "), ("spaces", "")):
            rows = [space.join(words[at : at + 8]) for at in range(0, len(words), 8)]
            content = b"".join(line(60, 730 - 14 * row, text) for row, text in enumerate(rows))
            (folder / f"{way}-{number}.pdf").write_bytes(pdf([content]))
