"""Histograms of what steps measured, for kept and for removed documents, with the thresholds that rules compare.

A large corpus is read in part: every k-th row, from a place that the hash of its part gives, so that the same
documents are drawn in every version.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from gristmill.engine.schedule.corpus_view import CorpusView
from gristmill.query.documents.columns import ColumnReader, columns_of
from gristmill.stages import NO_DOCUMENT
from gristmill.stages.select.heuristics import SETS
from gristmill.stages.shared import vectors
from gristmill.stages.shared.rule import as_number, formula

MOST_DOCUMENTS = 1 << 17
"""Documents to read, about: a share is then known to half a percent."""
BINS = 40
KEPT, REMOVED = "kept", "removed"

Values = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Measure:
    """A value of each document: a column, or the formula of a rule."""

    title: str
    value: str
    """A formula over columns."""
    thresholds: Mapping[float, str] = field(default_factory=dict)
    """Each with the setting that sets it."""
    is_log: bool = False
    """Whether the values are shown on a logarithmic scale."""


@dataclass(frozen=True)
class Histogram:
    measure: Measure
    edges: Values
    """BINS + 1 of them."""
    counts: Mapping[str, npt.NDArray[np.int64]]
    """For kept and for removed documents."""
    outside: int
    """Documents outside of the edges."""


@dataclass
class DrawnValues:
    """Values of the documents that were read."""

    values: dict[str, Values]
    """By title; NaN where a document has none."""
    is_kept: npt.NDArray[np.bool_]
    source: list[str]
    language: list[str]
    every: int
    """One document of so many was read."""


def find_measures(view: CorpusView) -> list[Measure]:
    """Sizes, scores with their cutoffs, and the values of the rules that are on."""
    known = set(columns_of(view))
    found = [Measure("Bytes of text", "text_bytes", is_log=True)]
    for node in view.nodes.values():
        config = node.identity["config"]
        if node.name == "language":
            keep = [one for one in view.nodes.values() if one.name == "keep_language"]
            limits = {limit: f"{language}" for one in keep for language, limit in _limits(one.identity["config"])}
            found.append(Measure("Probability of the language", "language.probability", limits))
        if node.name == "quality":
            for name in config["models"]:
                found.append(Measure(f"Quality score {name}", f"quality.{name}", _cutoffs(view, f"quality.{name}")))
        if node.name == "perplexity":
            found += [
                Measure(f"Perplexity {name}", f"perplexity.{name}", _cutoffs(view, f"perplexity.{name}"), is_log=True)
                for name in config.get("models", ())
            ]
        if node.name == "heuristics":
            found += _rule_measures(config)
    merged: dict[str, Measure] = {}
    for one in found:
        if all(name in known for name in formula(one.value).columns):
            before = merged.get(one.value)
            limits = {**(before.thresholds if before else {}), **one.thresholds}
            merged[one.value] = Measure(one.title, one.value, limits, one.is_log)
    return list(merged.values())


def _limits(config: Mapping[str, Any]) -> Iterator[tuple[str, float]]:
    keep = config.get("keep")
    if isinstance(keep, Mapping):
        yield from ((language, float(limit)) for language, limit in keep.items() if limit is not None)
    if config.get("min_probability") is not None:
        yield "min_probability", float(config["min_probability"])


def _cutoffs(view: CorpusView, score: str) -> dict[float, str]:
    """Fixed cutoffs on a score; a share that is kept has none before the documents are known."""
    found = {}
    for node in view.nodes.values():
        config = node.identity["config"]
        if node.name in ("keep_quality", "keep_perplexity") and config.get("score") == score:
            found.update({float(config[name]): name for name in ("min_score", "max_score") if config.get(name)})
    return found


def _rule_measures(config: Mapping[str, Any]) -> Iterator[Measure]:
    for name in config["rules"]:
        if name not in SETS or config.get(name) is None:
            continue
        for rule in SETS[name].rules(_Settings(config[name])):
            limit = config[name].get(rule.threshold)
            number = as_number(limit)
            if np.isnan(number) or isinstance(limit, bool):
                continue
            title = rule.value.replace("code_signals.", "").replace("signals.", "")
            yield Measure(title, rule.value, {number: f"{name}.{rule.threshold}"}, is_log="/" not in rule.value)


class _Settings:
    """The recorded settings of a rule set, as attributes."""

    def __init__(self, settings: Mapping[str, Any]) -> None:
        self.__dict__.update(settings)


def draw(view: CorpusView, measures: Sequence[Measure], most: int = MOST_DOCUMENTS) -> DrawnValues:
    """Read the values of the documents, or of every k-th one."""
    known = set(columns_of(view))
    names = list(dict.fromkeys(name for one in measures for name in formula(one.value).columns))
    extra = [name for name in ("kept", "reason", "source", "language", "text_bytes") if name in known]
    columns = ColumnReader(view, list(dict.fromkeys([*extra, *names])), kept=None)
    documents = sum(document.part.rows for document in columns.parts)
    every = max(1, -(-documents // most))
    values: dict[str, list[Values]] = {one.title: [] for one in measures}
    kept: list[npt.NDArray[np.bool_]] = []
    source: list[str] = []
    language: list[str | None] = []
    for document in columns.parts:
        at = int(document.part.hash[:8], 16) % every
        for batch in columns.read(document):
            rows = np.arange(at % every, batch.num_rows, every)
            at += -batch.num_rows % every
            batch = batch.take(pa.array(rows))
            batch = batch.filter(pc.invert(pc.is_in(batch.column("reason"), value_set=pa.array(NO_DOCUMENT))))
            vectorised = vectors.ColumnVectors(batch)
            for one in measures:
                values[one.title].append(numbers_of(formula(one.value).run(vectorised), batch.num_rows))
            kept.append(batch.column("kept").to_numpy(zero_copy_only=False))
            source += batch.column("source").to_pylist()
            language += batch.column("language").to_pylist() if "language" in known else [None] * batch.num_rows
    empty: list[Values] = [np.zeros(0)]
    return DrawnValues(
        {title: np.concatenate(empty + some) for title, some in values.items()},
        np.concatenate([np.zeros(0, bool), *kept]),
        source,
        [one or "(none)" for one in language],
        every,
    )


def numbers_of(vector: vectors.Vector, rows: int) -> Values:
    """The numbers of a formula; NaN where a row has none."""
    numbers = np.broadcast_to(np.asarray(vector.data, np.float64), rows)
    return numbers if vector.valid is None else np.where(vector.valid, numbers, np.nan)


def count(measure: Measure, drawn: DrawnValues) -> Histogram | None:
    """The histogram of a measure; None if no document has a value. A hundredth at either end may be outside."""
    values = drawn.values[measure.title]
    has_value = np.isfinite(values) & (values > 0 if measure.is_log else True)
    if not has_value.any():
        return None
    limits = list(measure.thresholds)
    low, high = np.quantile(values[has_value], (0.005, 0.995))
    low, high = min([low, *limits]), max([high, *limits])
    if measure.is_log:
        edges = np.geomspace(max(low, 1e-9), max(high, low * 1.01, 1e-8), BINS + 1)
    else:
        edges = np.linspace(low, high if high > low else low + 1, BINS + 1)
    sides = {KEPT: has_value & drawn.is_kept, REMOVED: has_value & ~drawn.is_kept}
    counts = {name: np.histogram(values[rows], edges)[0] for name, rows in sides.items()}
    inside = sum(int(one.sum()) for one in counts.values())
    return Histogram(measure, edges, counts, int(has_value.sum()) - inside)
