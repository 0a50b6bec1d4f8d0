"""Extractors side by side on gold pages: what each gives, and how long it takes on one core.

A tool that is trained on gold is scored on pages that it has not seen: for every fold a model of the other folds gives
the texts of this one (`gold_domains.folds`, no domain in two).
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
from gristmill.recipe.checks.mistakes import suggest
from gristmill.stages.extract import extract
from gristmill_extractor.gold import Page, is_weak
from gristmill_extractor.gold_domains import folds
from gristmill_extractor.gold_scores import Score, mean
from gristmill_extractor.training import texts_of, train_model

BATCH_PAGES = 32
"""Given to a tool at once: some megabytes of markup."""
TRIMMED = "resiliparse, trimmed"
"""The step with that tool; `resiliparse` alone is the library as it comes."""
NO_LANGUAGE = "unknown"
OPTIONAL = {"trafilatura": "gristmill[trafilatura]"}
"""Tools that may not be installed, and what installs them."""


class Markup(Protocol):
    """A page, with gold or without."""

    @property
    def html(self) -> str: ...


Timed = Callable[[Sequence[Page]], tuple[list[str], float]]
"""The texts of some pages, and the seconds of this thread that they took."""


class Trained(NamedTuple):
    """A tool whose model is made of gold pages."""

    train: Callable[[Sequence[Page]], Any]
    texts: Callable[[Any, Sequence[Page]], list[str]]
    """Of a model and some pages: the text of each."""


TRAINED: dict[str, Trained] = {"gristmill": Trained(train_model, texts_of)}
"""By name. Without folds the step `extract` gives their texts, as it does for the others."""


class Progress(Protocol):
    """Who is told how far it has come."""

    def promise(self, name: str, total: int) -> None: ...
    def walk(self, name: str, items: Iterable[Any]) -> Iterator[Any]: ...


@dataclass(frozen=True, slots=True)
class Result:
    """How one tool did."""

    tool: str
    pages: Sequence[Page]
    scores: Sequence[Score]
    """Of each page."""
    html_bytes: int
    """Of all pages, in UTF-8."""
    seconds: float
    """Of one core, for the extraction alone."""

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
        """The same of each language, those with most pages first; pages with weak gold stand outside."""
        found: dict[str, list[Score]] = {}
        for page, score in zip(self.pages, self.scores, strict=True):
            if not page.is_weak:
                found.setdefault(page.language or NO_LANGUAGE, []).append(score)
        return dict(sorted(found.items(), key=lambda item: (-len(item[1]), item[0])))

    def mean_over_pages(self) -> Score | None:
        """Of sets whose gold is not weak; None where there are no others."""
        counted = [score for page, score in zip(self.pages, self.scores, strict=True) if not page.is_weak]
        return mean(counted) if counted else None

    def mean_over_sets(self) -> Score | None:
        """The same, with every set counted once, however large."""
        counted = [mean(scores) for name, scores in self.sets().items() if not is_weak(name)]
        return mean(counted) if counted else None


def known_tools() -> list[str]:
    """What --tools may name."""
    return [*TRAINED, "resiliparse", "trafilatura"]


def chosen_tools(asked: Sequence[str] | None) -> tuple[list[str], list[str]]:
    """Those that are asked for; or all, and lines that tell of those that are not installed."""
    missing = [name for name in OPTIONAL if importlib.util.find_spec(name) is None]
    if asked is None:
        told = [f"{name} is skipped: it is not installed (pip install '{OPTIONAL[name]}')" for name in missing]
        return [name for name in known_tools() if name not in missing], told
    for name in asked:
        if name not in known_tools():
            fix = suggest(name, known_tools(), "Tools")
            raise UserError(f"--tools: there is no tool {name}, so nothing was scored. {fix}")
        if name in missing:
            raise UserError(
                f"--tools: {name} is not installed, so nothing was scored. Install it with: pip install "
                f"'{OPTIONAL[name]}', or leave it out."
            )
    return list(dict.fromkeys(asked)), []


def evaluate(pages: Sequence[Page], tools: Sequence[str], fold_count: int | None, progress: Progress) -> list[Result]:
    """How each tool does on all pages; those of TRAINED by cross-validation, where a number of folds is given."""
    parts = None if fold_count is None else _parts(pages, tools, fold_count)
    runs = {name: rounds for tool in tools for name, rounds in _runs(tool, pages, parts)}
    for name, rounds in runs.items():
        progress.promise(name, sum(len(_batches(some)) for some, _ in rounds))
    return [_result(name, pages, rounds, progress) for name, rounds in runs.items()]


def _parts(pages: Sequence[Page], tools: Sequence[str], fold_count: int) -> list[list[Page]]:
    """The pages of each fold."""
    if not TRAINED.keys() & set(tools):
        fix = f"Add {' or '.join(TRAINED)} to --tools, or leave --folds out." if TRAINED else "Leave it out."
        raise UserError(
            f"--folds {fold_count} is for tools that are trained, and none is among {', '.join(tools)}, so it would do "
            f"nothing. {fix}"
        )
    parts: list[list[Page]] = [[] for _ in range(fold_count)]
    for page, fold in zip(pages, folds(pages, fold_count), strict=True):
        parts[fold].append(page)
    return parts


_Round = tuple[Sequence[Page], Callable[[], Timed]]
"""Some pages, and what makes the tool that gives their texts: a model is trained when its turn has come."""


def _runs(
    tool: str, pages: Sequence[Page], parts: Sequence[Sequence[Page]] | None
) -> Iterator[tuple[str, list[_Round]]]:
    """What a tool is called in tables, and its rounds, which have all pages together."""
    if tool in TRAINED and parts is not None:
        yield tool, [(part, partial(_trained, TRAINED[tool], parts, number)) for number, part in enumerate(parts)]
    elif tool == "resiliparse":
        yield tool, [(pages, lambda: bare_resiliparse)]
        yield TRIMMED, [(pages, partial(by_stage, tool))]
    else:
        yield tool, [(pages, partial(by_stage, tool))]


def _result(name: str, pages: Sequence[Page], rounds: Sequence[_Round], progress: Progress) -> Result:
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
    return Result(name, pages, [scores[page.record_id] for page in pages], size, seconds)


def _batches(pages: Sequence[Page]) -> list[Sequence[Page]]:
    return [pages[at : at + BATCH_PAGES] for at in range(0, len(pages), BATCH_PAGES)]


def _trained(tool: Trained, parts: Sequence[Sequence[Page]], left_out: int) -> Timed:
    """The tool with a model of all parts but one."""
    model = tool.train([page for number, part in enumerate(parts) if number != left_out for page in part])

    def timed(pages: Sequence[Page]) -> tuple[list[str], float]:
        begun = time.thread_time()
        texts = tool.texts(model, pages)
        return texts, time.thread_time() - begun

    return timed


def by_stage(tool: str) -> Callable[[Sequence[Markup]], tuple[list[str], float]]:
    """As the step `extract` does it in a recipe."""
    config = extract.Config.model_validate({"tool": tool})

    def timed(pages: Sequence[Markup]) -> tuple[list[str], float]:
        batch = _batch(pages)
        begun = time.thread_time()
        result = extract.apply(batch, config)
        took = time.thread_time() - begun
        return [text or "" for text in result.column("text").to_pylist()], took

    return timed


def bare_resiliparse(pages: Sequence[Markup]) -> tuple[list[str], float]:
    """The library as it comes; of pages that the step would not have it parse, nothing: they could take hours."""
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
