"""The sections of the report on values that steps measure: histograms of all documents, and scores by group."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from gristmill.counted import counted, number
from gristmill.query.documents.histograms import (
    KEPT,
    REMOVED,
    DrawnValues,
    Histogram,
    Measure,
    count,
    edges_of,
)
from gristmill.report import charts
from gristmill.report.corpus.reported import MOST_BARS, Facet, ReportedCorpus, Section, first_bars

LEAST_OF_A_GROUP = 20
"""Documents that a group needs to be shown with quartiles."""
PERCENTILES = (5, 25, 50, 75, 95)
LENGTHS = ("text_bytes", "signals.words", "count_tokens.tokens")
"""Measures of the section on lengths."""


def lengths(corpus: ReportedCorpus, before: ReportedCorpus | None) -> Section | None:
    found = [one for one in corpus.measures if one.value in LENGTHS]
    return _histograms("Lengths", "Sizes of documents.", found, corpus, before)


def signals(corpus: ReportedCorpus, before: ReportedCorpus | None) -> Section | None:
    found = [one for one in corpus.measures if one.value not in LENGTHS]
    text = "Every value that steps measure. Vertical lines are thresholds; those of rules are for English."
    return _histograms("Signals and scores", text, found, corpus, before)


def _histograms(
    title: str, text: str, measures: Sequence[Measure], corpus: ReportedCorpus, before: ReportedCorpus | None
) -> Section | None:
    drawn = corpus.drawn
    versions = [drawn] if before is None else [drawn, before.drawn]
    found = [one for measure in measures if (one := _counted(measure, drawn, versions)) is not None]
    if not found:
        return None
    other: dict[str, Histogram] = {}
    for old in versions[1:]:
        same_edges = ((one.measure.value, count(one.measure, old, one.edges)) for one in found)
        other = {value: one for value, one in same_edges if one is not None}
    table = []
    for one in found:
        values = drawn.values[one.measure.title]
        has_value = np.isfinite(values)
        cells = []
        for rows in (has_value & drawn.is_kept, has_value & ~drawn.is_kept):
            quartiles = np.quantile(values[rows], (0.25, 0.5, 0.75)) if rows.any() else ()
            cells += [f"{int(rows.sum()):,}", " / ".join(map(charts.short_number, quartiles))]
        table.append((one.measure.title, _limits(one.measure), *cells))
    text += (
        " Each chart shows the share of the kept and of the removed documents at each value. The outermost 0.5% at "
        "either end may be cut off."
    )
    if drawn.every > 1:
        text += f" One document of {drawn.every:,} was read."
    if other:
        text += " The lines are the other version."
    head = ("measure", "thresholds", "kept", "quartiles", "removed", "quartiles")
    facets = [_facet(one, other.get(one.measure.value)) for one in found]
    return Section(title, text, head, table, charts.histograms(found, other), facets, 2, 1)


def _facet(found: Histogram, other: Histogram | None) -> Facet:
    """The words and numbers of a histogram; bins without documents are left out."""
    caption = ": ".join(filter(None, (found.measure.title, _limits(found.measure))))
    ticks = [charts.short_number(one) for one in found.edges[[0, len(found.edges) // 2, -1]].tolist()]
    counts = [of.counts[side] for of in (found, other) if of is not None for side in (KEPT, REMOVED)]
    bins = [
        (*map(number, found.edges[at : at + 2].tolist()), *(f"{one:,}" for one in row))
        for at, row in enumerate(np.stack(counts, axis=1).tolist())
        if any(row)
    ]
    return Facet(caption, ticks, bins)


def _counted(measure: Measure, drawn: DrawnValues, versions: Sequence[DrawnValues]) -> Histogram | None:
    has_value = np.isfinite(drawn.values[measure.title]).any()
    return count(measure, drawn, edges_of(measure, *versions)) if has_value else None


def _limits(measure: Measure) -> str:
    return ", ".join(f"{name} {number(limit)}" for limit, name in sorted(measure.thresholds.items()))


def quality(corpus: ReportedCorpus, _: ReportedCorpus | None) -> Section | None:
    rows: list[dict[str, Any]] = []
    small = 0
    for measure in corpus.measures:
        values = corpus.drawn.values[measure.title]
        for kind, groups in (("source", corpus.drawn.source), ("language", corpus.drawn.language)):
            names = np.array(groups, object)
            for group, _times in Counter(groups).most_common() if measure.value.startswith("quality.") else ():
                chosen = values[(names == group) & np.isfinite(values)]
                small += 0 < len(chosen) < LEAST_OF_A_GROUP
                if len(chosen) >= LEAST_OF_A_GROUP:
                    found = np.quantile(chosen, np.array(PERCENTILES) / 100).tolist()
                    row = {
                        "group": f"{measure.value.removeprefix('quality.')}: {kind} {group}",
                        "documents": len(chosen),
                    }
                    rows.append(row | {f"p{share}": value for share, value in zip(PERCENTILES, found, strict=True)})
    if not rows and not small:
        return None
    table = [
        (row["group"], f"{row['documents']:,}", *(charts.short_number(row[f"p{share}"]) for share in PERCENTILES))
        for row in rows
    ]
    text = "The middle half of the scores of each group is a bar, with a tick at the median and a line from 5% to 95%."
    if small:
        left_out = counted(small, "group with fewer is", "groups with fewer are")
        text += f" A group needs {LEAST_OF_A_GROUP} documents with a score; {left_out} left out."
    head = ("group", "documents", *(f"{share}%" for share in PERCENTILES))
    chart = charts.quartile_boxes(rows[:MOST_BARS]) if rows else None
    return Section("Quality by group", text + first_bars(rows), head, table, chart)
