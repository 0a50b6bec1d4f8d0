"""Histograms of what steps measured, for kept and for removed documents, with the thresholds that rules compare.

A large corpus is read in part: every k-th row, from a place that the hash of its part gives, so that the same
documents are drawn in every version.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from gristmill.engine.schedule.corpus_view import CorpusView
from gristmill.query.documents.columns import ColumnReader, columns_of, is_measured
from gristmill.stages import NO_DOCUMENT
from gristmill.stages.select.heuristics import set_of
from gristmill.stages.shared import vectors
from gristmill.stages.shared.expressions import parse_rule
from gristmill.stages.shared.rule import EXCEPTIONS, formula

MOST_DOCUMENTS = 1 << 17
"""Documents to read, about: a share is then known to half a percent."""
BINS = 40
KEPT, REMOVED = "kept", "removed"
MEASURING = ("language", "signals", "code_signals", "quality", "perplexity", "count_tokens")
"""Built-in steps whose numbers are all shown."""
MOST_LINEAR = 100.0
"""Values above this are shown on a logarithmic scale."""

Values = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Measure:
    """A value of each document: a column, or the formula of a rule."""

    title: str
    value: str
    """A formula over columns."""
    thresholds: Mapping[float, str] = field(default_factory=dict)
    """Each with the setting that sets it."""


@dataclass(frozen=True)
class Histogram:
    measure: Measure
    edges: Values
    """BINS + 1 of them."""
    counts: Mapping[str, npt.NDArray[np.int64]]
    """For kept and for removed documents."""
    outside: int
    """Documents outside of the edges."""

    @property
    def is_log(self) -> bool:
        """Whether the edges are spaced as logarithms of 1 + the value."""
        return _is_log(self.edges[0], self.edges[-1])


@dataclass
class DrawnValues:
    """Values of the documents that were read."""

    values: dict[str, Values]
    """By title; NaN where a document has none."""
    is_kept: npt.NDArray[np.bool_]
    source: list[str]
    snapshot: list[str]
    language: list[str]
    every: int
    """One document of so many was read."""


def find_measures(view: CorpusView, every_number: bool = False) -> list[Measure]:
    """Sizes, and the values of rules and scores with their thresholds; with `every_number`, all that steps measure."""
    known = set(columns_of(view))
    found = [Measure("Bytes of text", "text_bytes")]
    for node in view.nodes.values():
        config = node.identity["config"]
        if node.name == "keep_language":
            found.append(Measure("Probability of the language", "language.probability", dict(_least(config))))
        if node.name == "keep_quality":
            score = config["score"] if isinstance(config["score"], str) else f"{node.name}.score"
            found.append(Measure(title_of(score), score, _cutoffs(config, view.states[node.id].metrics)))
        if node.name == "heuristics":
            found += _rule_measures(config)
    used = {name for one in found for name in formula(one.value).columns}
    rest = (name for name in _numbers_measured(view) if name not in used)
    found += [Measure(title_of(name), name) for name in rest if every_number or "signals." not in name]
    merged: dict[str, Measure] = {}
    for one in found:
        if known.issuperset(formula(one.value).columns):
            before = merged.get(one.value, one)
            merged[one.value] = replace(before, thresholds={**one.thresholds, **before.thresholds})
    return list(merged.values())


def title_of(value: str) -> str:
    """How people read a formula or a column."""
    for prefix, words in (("quality.", "Quality score "), ("perplexity.", "Perplexity ")):
        if value.startswith(prefix) and formula(value).columns == (value,):
            return words + value.removeprefix(prefix)
    return re.sub(r"\bsignals\.", "", value)


def _least(config: Mapping[str, Any]) -> Iterator[tuple[float, str]]:
    limits = {**config["keep"], "min_probability": config["min_probability"]}
    yield from ((float(limit), name) for name, limit in limits.items() if limit is not None)


def _cutoffs(config: Mapping[str, Any], metrics: Mapping[str, Any]) -> dict[float, str]:
    """The least score that is kept, and where a share is kept, the score that it came to in each group."""
    fixed = {"min_score": config} | {
        f"{by}.{name}.min_score": one
        for by in ("by_language", "by_domain", "by_source")
        for name, one in config[by].items()
    }
    found = {float(one["min_score"]): name for name, one in fixed.items() if one.get("min_score") is not None}
    for group, cutoffs in metrics.get("cutoffs", {}).items():
        found.update({score: f"best {1 - float(share):.3g} of {group}" for share, score in cutoffs.items()})
    return found


def _rule_measures(config: Mapping[str, Any]) -> Iterator[Measure]:
    for name in config["rules"]:
        published = set_of(name)
        for rule in () if published is None else published.rules(_Settings(config[name])):
            exceptions = (one for by in EXCEPTIONS for one in config[name].get(by, {}).items())
            for label, settings in (("", config[name]), *exceptions):
                limit = settings.get(rule.threshold)
                if limit is not None and not isinstance(limit, bool):
                    setting = ".".join(filter(None, (name, label, rule.threshold)))
                    yield _measure(rule.value, float(limit), setting)
    for own in map(parse_rule, config["own"]):
        for value, limit in own.condition.limits:
            yield _measure(value, limit, own.reason)


def _measure(value: str, limit: float, name: str) -> Measure:
    return Measure(title_of(value), value, {limit: name})


def _numbers_measured(view: CorpusView) -> list[str]:
    """The columns with numbers of the steps that measure, built in or not."""
    steps = {
        node.name: node.columns
        for node in view.nodes.values()
        if node.kind == "map" and (node.name in MEASURING or "code" in node.identity)
    }
    names = [f"{step}.{column}" for step, columns in steps.items() for column in columns if column != "text_bytes"]
    if not names:
        return []
    return [field.name for field in ColumnReader(view, names, kept=None).schema if is_measured(field.type)]


class _Settings:
    """The recorded settings of a rule set, as attributes."""

    def __init__(self, settings: Mapping[str, Any]) -> None:
        self.__dict__.update(settings)


def draw(view: CorpusView, measures: Sequence[Measure], most: int = MOST_DOCUMENTS) -> DrawnValues:
    """Read the values of the documents, or of every k-th one."""
    known = set(columns_of(view))
    names = list(dict.fromkeys(name for one in measures for name in formula(one.value).columns))
    extra = [name for name in ("kept", "reason", "source", "snapshot", "language", "text_bytes") if name in known]
    columns = ColumnReader(view, list(dict.fromkeys([*extra, *names])), kept=None)
    documents = sum(document.part.rows for document in columns.parts)
    every = max(1, -(-documents // most))
    values: dict[str, list[Values]] = {one.title: [] for one in measures}
    kept: list[npt.NDArray[np.bool_]] = []
    source: list[str] = []
    snapshot: list[str | None] = []
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
            snapshot += batch.column("snapshot").to_pylist()
            language += batch.column("language").to_pylist() if "language" in known else [None] * batch.num_rows
    empty: list[Values] = [np.zeros(0)]
    return DrawnValues(
        {title: np.concatenate(empty + some) for title, some in values.items()},
        np.concatenate([np.zeros(0, bool), *kept]),
        source,
        [one or "" for one in snapshot],
        [one or "(none)" for one in language],
        every,
    )


def numbers_of(vector: vectors.Vector, rows: int) -> Values:
    """The numbers of a formula; NaN where a row has none."""
    numbers = np.broadcast_to(np.asarray(vector.data, np.float64), rows)
    return numbers if vector.valid is None else np.where(vector.valid, numbers, np.nan)


def count(measure: Measure, drawn: DrawnValues, edges: Values | None = None) -> Histogram | None:
    """The histogram of a measure; None if no document has a value. Values may be outside of the edges (`edges_of`)."""
    values = drawn.values.get(measure.title, np.zeros(0))
    has_value = np.isfinite(values)
    if not has_value.any():
        return None
    edges = edges_of(measure, drawn) if edges is None else edges
    sides = {KEPT: drawn.is_kept, REMOVED: ~drawn.is_kept}
    counts = {name: np.histogram(values[has_value & rows], edges)[0] for name, rows in sides.items()}
    inside = sum(int(one.sum()) for one in counts.values())
    return Histogram(measure, edges, counts, int(has_value.sum()) - inside)


def edges_of(measure: Measure, *versions: DrawnValues) -> Values:
    """Edges for all versions. They include all thresholds, and all values but half a percent at either end."""
    values = np.concatenate([one.values.get(measure.title, np.zeros(0)) for one in versions])
    ends = np.quantile(values[np.isfinite(values)], (0.005, 0.995))
    low, high = min([ends[0], *measure.thresholds]), max([ends[1], *measure.thresholds])
    high = high if high > low else low + 1
    if not _is_log(low, high):
        return np.linspace(low, high, BINS + 1)
    edges = np.expm1(np.linspace(np.log1p(low), np.log1p(high), BINS + 1))
    edges[[0, -1]] = low, high  # rounding must not leave out the ends
    return edges


def _is_log(low: float, high: float) -> bool:
    return bool(low >= 0 and high > MOST_LINEAR)
