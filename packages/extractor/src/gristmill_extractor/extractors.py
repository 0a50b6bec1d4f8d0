"""Compares extractors on gold pages: their scores, and their time on one core.

A tool that is trained on gold is scored on pages that it has not seen: the texts of each fold come from a model of the
other folds (`gold_domains.folds`, no domain is in two folds).
"""

import importlib.util
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple, Protocol

import pyarrow as pa
from resiliparse.extract.html2text import extract_plain_text
from resiliparse.parse.html import HTMLTree

from gristmill.errors import UserError
from gristmill.install_command import install_extra
from gristmill.recipe.checks.mistakes import suggest
from gristmill.stages.extract import extract
from gristmill_extractor.gold import GoldPage, is_weak
from gristmill_extractor.gold_domains import folds
from gristmill_extractor.gold_scores import Score, mean
from gristmill_extractor.training import texts_of, train_model

BATCH_PAGES = 32
"""Pages given to a tool at once: some megabytes of markup."""
IN_STEP = "resiliparse, step"
"""The step with that tool; `resiliparse` alone is the library without our changes."""
NO_LANGUAGE = "unknown"
OPTIONAL = ("trafilatura",)
"""Optional tools, each an extra of Gristmill."""


class Markup(Protocol):
    """A page, with gold or without."""

    @property
    def html(self) -> str: ...


Timed = Callable[[Sequence[GoldPage]], tuple[list[str], float]]
"""A function from pages to their texts and the CPU seconds of this thread."""


class TrainableTool(NamedTuple):
    """A tool whose model is trained on gold pages."""

    train: Callable[[Sequence[GoldPage]], Any]
    texts: Callable[[Any, Sequence[GoldPage]], list[str]]
    """The texts of some pages, by a model."""


TRAINED: dict[str, TrainableTool] = {"gristmill": TrainableTool(train_model, texts_of)}
"""Trainable tools by name. Without folds, the step `extract` gives their texts, as for the others."""


class EvaluationProgress(Protocol):
    """Receives progress."""

    def promise(self, name: str, total: int) -> None: ...
    def walk(self, name: str, items: Iterable[Any]) -> Iterator[Any]: ...


@dataclass(frozen=True, slots=True)
class ToolResult:
    """The scores and speed of one tool."""

    tool: str
    pages: Sequence[GoldPage]
    scores: Sequence[Score]
    """Scores by page."""
    html_bytes: int
    """Bytes of all pages, in UTF-8."""
    seconds: float
    """CPU seconds of the extraction alone."""

    @property
    def bytes_per_second(self) -> float:
        return self.html_bytes / max(self.seconds, 1e-9)

    def sets(self) -> dict[str, list[Score]]:
        """The scores of each set, by name."""
        found: dict[str, list[Score]] = {}
        for page, score in zip(self.pages, self.scores, strict=True):
            found.setdefault(page.set, []).append(score)
        return dict(sorted(found.items()))

    def languages(self) -> dict[str, list[Score]]:
        """The scores of each language, those with the most pages first; without pages with weak gold."""
        found: dict[str, list[Score]] = {}
        for page, score in zip(self.pages, self.scores, strict=True):
            if not page.is_weak:
                found.setdefault(page.language or NO_LANGUAGE, []).append(score)
        return dict(sorted(found.items(), key=lambda item: (-len(item[1]), item[0])))

    def mean_over_pages(self) -> Score | None:
        """The mean over sets whose gold is not weak; None if there are none."""
        counted = [score for page, score in zip(self.pages, self.scores, strict=True) if not page.is_weak]
        return mean(counted) if counted else None

    def mean_over_sets(self) -> Score | None:
        """The mean with every set counted once, whatever its size."""
        counted = [mean(scores) for name, scores in self.sets().items() if not is_weak(name)]
        return mean(counted) if counted else None


def known_tools() -> list[str]:
    """The values of --tools."""
    return [*TRAINED, "resiliparse", "trafilatura"]


def chosen_tools(requested: Sequence[str] | None) -> tuple[list[str], list[str]]:
    """The requested tools; or all installed tools, and notes about those that are not installed."""
    missing = [name for name in OPTIONAL if importlib.util.find_spec(name) is None]
    if requested is None:
        notes = [f"{name} is skipped: it is not installed ({install_extra(name)})" for name in missing]
        return [name for name in known_tools() if name not in missing], notes
    for name in requested:
        if name not in known_tools():
            fix = suggest(name, known_tools(), "Tools")
            raise UserError(f"--tools: {name} is not a tool, so nothing was scored. {fix}")
        if name in missing:
            raise UserError(
                f"--tools: {name} is not installed, so nothing was scored. Leave it out, or run: " + install_extra(name)
            )
    return list(dict.fromkeys(requested)), []


def evaluate(
    pages: Sequence[GoldPage], tools: Sequence[str], fold_count: int | None, progress: EvaluationProgress
) -> list[ToolResult]:
    """The result of each tool on all pages; with `fold_count`, trainable tools are cross-validated."""
    parts = None if fold_count is None else _parts(pages, tools, fold_count)
    runs = {name: rounds for tool in tools for name, rounds in _runs(tool, pages, parts)}
    for name, rounds in runs.items():
        progress.promise(name, sum(len(_batches(some)) for some, _ in rounds))
    return [_result(name, pages, rounds, progress) for name, rounds in runs.items()]


def _parts(pages: Sequence[GoldPage], tools: Sequence[str], fold_count: int) -> list[list[GoldPage]]:
    """The pages of each fold."""
    if not TRAINED.keys() & set(tools):
        fix = f"Add {' or '.join(TRAINED)} to --tools, or leave --folds out." if TRAINED else "Leave it out."
        raise UserError(
            f"--folds {fold_count} only applies to trainable tools, and {', '.join(tools)} has none, so it would do "
            f"nothing. {fix}"
        )
    parts: list[list[GoldPage]] = [[] for _ in range(fold_count)]
    for page, fold in zip(pages, folds(pages, fold_count), strict=True):
        parts[fold].append(page)
    return parts


_Round = tuple[Sequence[GoldPage], Callable[[], Timed]]
"""Some pages, and a function that makes the tool for them: a model is trained only when it is needed."""


def _runs(
    tool: str, pages: Sequence[GoldPage], parts: Sequence[Sequence[GoldPage]] | None
) -> Iterator[tuple[str, list[_Round]]]:
    """The name of a tool in tables, and its rounds, which together have all pages."""
    if tool in TRAINED and parts is not None:
        yield tool, [(part, partial(_trained, TRAINED[tool], parts, number)) for number, part in enumerate(parts)]
    elif tool == "resiliparse":
        yield tool, [(pages, lambda: bare_resiliparse)]
        yield IN_STEP, [(pages, partial(by_stage, tool))]
    else:
        yield tool, [(pages, partial(by_stage, tool))]


def _result(name: str, pages: Sequence[GoldPage], rounds: Sequence[_Round], progress: EvaluationProgress) -> ToolResult:
    scores: dict[str, Score] = {}
    seconds = 0.0
    for some, make in rounds:
        timed = make()
        timed(some[:1])  # imports and compiles
        for batch in progress.walk(name, _batches(some)):
            texts, took = timed(batch)
            seconds += took
            scores |= {page.record_id: page.score(text) for page, text in zip(batch, texts, strict=True)}
    size = sum(len(page.html.encode()) for page in pages)
    return ToolResult(name, pages, [scores[page.record_id] for page in pages], size, seconds)


def _batches(pages: Sequence[GoldPage]) -> list[Sequence[GoldPage]]:
    return [pages[at : at + BATCH_PAGES] for at in range(0, len(pages), BATCH_PAGES)]


def _trained(tool: TrainableTool, parts: Sequence[Sequence[GoldPage]], left_out: int) -> Timed:
    """The tool with a model of all parts except one."""
    model = tool.train([page for number, part in enumerate(parts) if number != left_out for page in part])

    def timed(pages: Sequence[GoldPage]) -> tuple[list[str], float]:
        begun = time.thread_time()
        texts = tool.texts(model, pages)
        return texts, time.thread_time() - begun

    return timed


def by_stage(tool: str) -> Callable[[Sequence[Markup]], tuple[list[str], float]]:
    """The tool as the step `extract` runs it in a recipe."""
    config = extract.Config.model_validate({"tool": tool})

    def timed(pages: Sequence[Markup]) -> tuple[list[str], float]:
        batch = _batch(pages)
        begun = time.thread_time()
        result = extract.apply(batch, config)
        took = time.thread_time() - begun
        return [text or "" for text in result.column("text").to_pylist()], took

    return timed


def bare_resiliparse(pages: Sequence[Markup]) -> tuple[list[str], float]:
    """The library without our changes. Pages that the step refuses to parse give no text: they could take hours."""
    verdicts = extract.apply(_batch(pages), extract.Config(tool="resiliparse")).column("drop").to_pylist()
    parsed = [drop in (None, "no_main_content") for drop in verdicts]
    begun = time.thread_time()
    texts = [
        extract_plain_text(HTMLTree.parse(page.html), main_content=True) if safe else ""
        for page, safe in zip(pages, parsed, strict=True)
    ]
    return texts, time.thread_time() - begun


def _batch(pages: Sequence[Markup]) -> pa.RecordBatch:
    absent = pa.nulls(len(pages), pa.string())
    columns = [pa.array([page.html for page in pages], pa.string()), absent, absent, absent]
    return pa.RecordBatch.from_arrays(columns, names=list(extract.READS))
