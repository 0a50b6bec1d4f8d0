"""Main text of web pages: megabytes of HTML per second on one core, and its accuracy, next to two libraries.

Ours is the step `extract` with its defaults. The libraries are resiliparse with its main content alone, and trafilatura
through the step, set for precision. Speed is CPU time over all pages of the data folder, in batches, the best of
several alternating rounds. trafilatura is slower, so it gets an even sample of the pages and one round.

F1 compares words with gold text, as `gristmill extractor evaluate` does (docs/extraction.md), if the data folder has
gold text. Our extractor has learned from gold text, so it is trained again for each of FOLDS parts of the domains
without that part, and scored on it. This takes a minute each. `FOLDS=0` in the environment scores the step with its
defaults, which has seen the pages.
"""

import importlib.util
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from bench.inputs import measurement, scratch, spread, web_pages
from gristmill.schema import Record, as_str
from gristmill.stages.extract.extract import Config
from gristmill_extractor.extractors import (
    BATCH_PAGES,
    IN_STEP,
    TRAINED,
    ToolResult,
    bare_resiliparse,
    by_stage,
    evaluate,
)
from gristmill_extractor.gold import read_gold
from gristmill_extractor.gold_scores import Score, mean

ROUNDS = 3
SLOW_PAGES = 800
"""The number of pages for trafilatura."""
FOLDS = int(os.environ.get("FOLDS", "5"))
OURS = Config().tool
BARE, SLOW = "resiliparse", "trafilatura"

Timed = Callable[[Sequence[Any]], tuple[list[str], float]]
SMALL: dict[str, object] = {"ROUNDS": 1, "SLOW_PAGES": 2}
"""The constants that set its size, for its test."""


def run(data: Path | None) -> Iterator[dict[str, Any]]:
    yield from speed(data)
    if data is None or not (data / "gold").is_dir():
        name = "extract.f1: skipped, needs a data folder with gold/ and warc/"
        yield {"name": name, "value": None, "unit": "F1", "peer": None, "peer_value": None, "ratio": None}
        return
    yield from quality(data)


def speed(data: Path | None) -> Iterator[dict[str, Any]]:
    if data is not None and (data / "warc").is_dir():
        data = data / "warc"
    with scratch() as folder:
        pages = web_pages(data, folder)
    few = spread(pages, SLOW_PAGES)
    ours, bare = by_stage(OURS), bare_resiliparse
    rounds = [(seconds(ours, pages), seconds(bare, pages)) for _ in range(ROUNDS)]
    best, theirs = (min(taken) for taken in zip(*rounds, strict=True))
    unit = f"MB/s of HTML on one core, {len(pages):,} pages, {size(pages):.0f} MB"
    yield measurement("extract.speed", size(pages) / best, unit, f"{BARE}, main content", size(pages) / theirs)
    slow = size(few) / seconds(by_stage(SLOW), few) if is_there(SLOW) else None
    rate = size(few) / min(seconds(ours, few) for _ in range(ROUNDS))
    unit = f"MB/s of HTML on one core, {len(few):,} of the pages"
    yield measurement("extract.speed_of_fewer", rate, unit, SLOW, slow)


def is_there(library: str) -> bool:
    return importlib.util.find_spec(library) is not None


def size(pages: Sequence[Record]) -> float:
    """The size of the pages in MB of HTML."""
    return sum(len(as_str(page.html).encode()) for page in pages if page.html is not None) / 1e6


def seconds(tool: Timed, pages: Sequence[Record]) -> float:
    tool(pages[:1])  # imports and compiles
    return sum(tool(pages[at : at + BATCH_PAGES])[1] for at in range(0, len(pages), BATCH_PAGES))


def quality(data: Path) -> Iterator[dict[str, Any]]:
    tools = list(dict.fromkeys([OURS, BARE, *([SLOW] if is_there(SLOW) else [])]))
    folds = FOLDS if OURS in TRAINED and FOLDS else None
    results = {one.tool: one for one in evaluate(read_gold(data), tools, folds, _Silent())}
    ours = results.pop(IN_STEP if OURS == BARE else OURS)
    others = {name: results.get(name) for name in (BARE, IN_STEP, SLOW) if name != ours.tool}
    kind = f"pages, {folds} folds" if folds else "pages that it was trained on" if OURS in TRAINED else "pages"
    for name, scores in ours.sets().items():
        its = {tool: result and mean(result.sets()[name]) for tool, result in others.items()}
        yield from beside(f"f1_{name}", f"F1, {len(scores):,} {kind}", mean(scores), its)
    counted = sum(not page.is_weak for page in ours.pages)
    for name, of in (("over_pages", ToolResult.mean_over_pages), ("over_sets", ToolResult.mean_over_sets)):
        if (score := of(ours)) is not None:
            its = {tool: result and of(result) for tool, result in others.items()}
            yield from beside(f"f1_mean_{name}", f"F1, {counted:,} {kind}", score, its)


def beside(name: str, unit: str, score: Score, others: dict[str, Score | None]) -> Iterator[dict[str, Any]]:
    """Yields one row for each of the others."""
    for tool, its in others.items():
        yield measurement(f"extract.{name}", score.value, unit, tool, its and its.value)


class _Silent:
    def promise(self, name: str, total: int) -> None:
        pass

    def walk(self, name: str, items: Iterable[Any]) -> Iterator[Any]:
        yield from items
