"""The sections of the report, each with a chart and a table. A corpus without a step has no section for it."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from gristmill.counted import counted, percent, size
from gristmill.engine.schedule.corpus_view import CorpusView
from gristmill.errors import UserError
from gristmill.hints import option
from gristmill.query.removal.funnel import funnels
from gristmill.report.corpus import charts
from gristmill.report.corpus.histograms import KEPT, REMOVED, DrawnValues, Histogram, count, draw, find_measures
from gristmill.stages import CORPUS, INGEST
from gristmill.stages.config_types import parse_count

MOST_BARS = 25
"""Bars of a chart; its table has all rows."""
LEAST_OF_A_GROUP = 20
"""Documents that a group needs to be shown with quartiles."""
TRILLION = 10**12
CORE_HOUR = 0.04
"""A usual price of an hour of a core of a cloud, in dollars."""
TOKENS = "1T"
LEAST_CPU_S = 0.05
"""Below that a step has no rate: the clock is too coarse."""


@dataclass(frozen=True)
class Section:
    title: str
    text: str
    head: tuple[str, ...]
    rows: Sequence[tuple[str, ...]]
    chart: charts.Spec | None = None
    word_columns: int = 1
    """How many of the first columns hold words; the others hold numbers."""


@dataclass(frozen=True)
class ReportPrices:
    """What the user pays, for the section on cost."""

    core_hour: float
    """In the user's currency."""
    tokens: int
    """Tokens of the corpus to project to."""


def make_prices(core_hour: float = CORE_HOUR, tokens: int | str = TOKENS) -> ReportPrices:
    """The prices; UserError if the tokens are not a count."""
    try:
        return ReportPrices(core_hour, parse_count(tokens))
    except ValueError as error:
        raise UserError(f"{option('tokens')}: {error}.") from None


def sections(view: CorpusView, against: CorpusView | None, prices: ReportPrices) -> list[Section]:
    """All sections that this corpus has."""
    from gristmill.report.corpus.diversity import diversity  # which imports this module

    measures = find_measures(view)
    drawn = draw(view, measures)
    others = None if against is None else draw(against, find_measures(against))
    makers: Sequence[Callable[[], Section | None]] = (
        lambda: _flow(view),
        lambda: _removals(view, against),
        lambda: _languages(view, against),
        lambda: _histograms(view, against, drawn, others),
        lambda: _quality(view, drawn),
        lambda: _clusters(view),
        lambda: _contamination(view),
        lambda: _personal_data(view),
        lambda: diversity(view),
        lambda: _tokenizer(view),
        lambda: _mixture(view),
        lambda: _packing(view),
        lambda: _cost(view, against, prices),
    )
    return [section for make in makers if (section := make()) is not None]


def totals(view: CorpusView) -> dict[str, int]:
    """Documents read and kept, bytes of text kept, and tokens in the shards."""
    found = funnels(view).values()
    return {
        "documents read": sum(one["read"]["rows"] for one in found),
        "documents kept": sum(one["kept"]["rows"] for one in found),
        "bytes of text kept": sum(one["kept"]["text_bytes"] for one in found),
        "tokens": sum(metrics.get("tokens", 0) for _, metrics in _metrics(view, "shards")),
    }


def _metrics(view: CorpusView, name: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """The metrics of every step of this name that has run."""
    for node in view.nodes.values():
        if node.name == name and (metrics := view.states[node.id].metrics):
            yield node.id, metrics


def _removed(view: CorpusView) -> dict[tuple[str, str, str], int]:
    """Documents by step, reason and source, in the order of the recipe."""
    found = {}
    for source, funnel in funnels(view).items():
        for step in funnel["steps"]:
            for reason, taken in funnel["first"].get(step, {}).items():
                found[step, reason, source] = int(taken["rows"])
    return found


def _flow(view: CorpusView) -> Section | None:
    found = funnels(view)
    read = sum(one["read"]["rows"] for one in found.values())
    if not read:
        return None
    order = [INGEST, *view.nodes]
    taken: Counter[str] = Counter()
    for (step, _, _), rows in _removed(view).items():
        taken[step] += rows
    steps = [(step, taken[step]) for step in order if taken[step]]
    left = read
    table = [("read", "", f"{read:,}", percent(read, read))]
    for step, removed in steps:
        left -= removed
        table.append((step, f"−{removed:,}", f"{left:,}", percent(left, read)))
    text = f"Of {counted(read, 'document')}, {left:,} ({percent(left, read)}) are kept."
    if steps:
        most = max(steps, key=lambda one: one[1])
        text += f" The step that removes most is {most[0]} ({most[1]:,})."
    return Section("Funnel", text, ("step", "removed", "left", "share left"), table, charts.flow(steps, read))


def _removals(view: CorpusView, against: CorpusView | None) -> Section | None:
    removed = _removed(view)
    if not removed:
        return None
    before = {} if against is None else _removed(against)
    by_reason: Counter[tuple[str, str]] = Counter()
    for (step, reason, _), rows in removed.items():
        by_reason[step, reason] += rows
    shown = dict(by_reason.most_common(MOST_BARS))
    bars = [
        {"reason": f"{step} {reason}", "documents": rows, "source": source}
        for step, reason in shown
        for (other, why, source), rows in removed.items()
        if (other, why) == (step, reason)
    ]
    head: tuple[str, ...] = ("step", "reason", "source", "documents")
    keys = [*removed, *(key for key in before if key not in removed)]
    table: list[tuple[str, ...]] = [(*key, f"{removed.get(key, 0):,}") for key in keys]
    if against is not None:
        head = (*head, "before", "change")
        changes = [(before.get(key, 0), removed.get(key, 0) - before.get(key, 0)) for key in keys]
        table = [(*row, f"{was:,}", f"{change:+,}") for row, (was, change) in zip(table, changes, strict=True)]
    text = f"A document counts for the first step that removes it. {counted(len(by_reason), 'reason')} in all."
    return Section("Removals", text, head, table, charts.bars(bars, "reason", "documents", "source"), 3)


def _language_counts(view: CorpusView) -> dict[str, tuple[int, int]]:
    """Per language: documents read and kept."""
    found: dict[str, tuple[int, int]] = {}
    for _, metrics in _metrics(view, CORPUS):
        for language, counts in metrics.get("languages", {}).items():
            read, kept = found.get(language, (0, 0))
            found[language] = (read + int(counts["read"]), kept + int(counts["kept"]))
    return dict(sorted(found.items(), key=lambda one: (-one[1][0], one[0])))


def _languages(view: CorpusView, against: CorpusView | None) -> Section | None:
    found = _language_counts(view)
    if not found:
        return None
    before = None if against is None else _language_counts(against)
    bars = [
        {"language": language, "documents": rows, "part": part}
        for language, (read, kept) in list(found.items())[:MOST_BARS]
        for part, rows in ((KEPT, kept), (REMOVED, read - kept))
    ]
    head: tuple[str, ...] = ("language", "read", "kept", "share kept")
    names = [*found, *(name for name in before or () if name not in found)]
    table: list[tuple[str, ...]] = []
    for language in names:
        read, kept = found.get(language, (0, 0))
        row = (language, f"{read:,}", f"{kept:,}", percent(kept, read))
        table.append(row if before is None else (*row, f"{before.get(language, (0, 0))[1]:,}"))
    head = head if before is None else (*head, "kept before")
    text = "Languages of the documents whose language was measured. (none): those that no step measured."
    return Section("Languages", text, head, table, charts.bars(bars, "language", "documents", "part"))


def _histograms(
    view: CorpusView, against: CorpusView | None, drawn: DrawnValues, others: DrawnValues | None
) -> Section | None:
    found = [one for measure in find_measures(view) if (one := count(measure, drawn)) is not None]
    if not found:
        return None
    other: dict[str, Histogram] = {}
    if against is not None and others is not None:
        for measure in find_measures(against):
            if (counted_before := count(measure, others)) is not None:
                other[measure.value] = counted_before
    table = []
    for one in found:
        values = drawn.values[one.measure.title]
        has_value = np.isfinite(values)
        cells = []
        for rows in (has_value & drawn.is_kept, has_value & ~drawn.is_kept):
            quartiles = np.quantile(values[rows], (0.25, 0.5, 0.75)) if rows.any() else ()
            cells += [f"{int(rows.sum()):,}", " / ".join(map(_number, quartiles))]
        limits = ", ".join(f"{name} {limit:g}" for limit, name in one.measure.thresholds.items())
        table.append((one.measure.title, limits, *cells))
    text = (
        "Each chart shows the share of the kept and of the removed documents at each value; vertical lines are the "
        "thresholds for English. The outermost 0.5% at either end may be cut off."
    )
    if drawn.every > 1:
        text += f" One document of {drawn.every:,} was read."
    if other:
        text += " The dashed line is the kept documents of the other version."
    head = ("measure", "thresholds", "kept", "quartiles", "removed", "quartiles")
    return Section("Signals and scores", text, head, table, charts.histograms(found, other), 2)


def _number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def _quality(view: CorpusView, drawn: DrawnValues) -> Section | None:
    scores = [measure for measure in find_measures(view) if measure.value.startswith("quality.")]
    if not scores:
        return None
    rows: list[dict[str, Any]] = []
    for measure in scores:
        values = drawn.values[measure.title]
        for kind, groups in (("source", drawn.source), ("language", drawn.language)):
            names = np.array(groups, object)
            for group, times in Counter(groups).most_common(10):
                chosen = values[(names == group) & np.isfinite(values)]
                if times >= LEAST_OF_A_GROUP and len(chosen) >= LEAST_OF_A_GROUP:
                    label = f"{measure.value.removeprefix('quality.')}: {kind} {group}"
                    rows.append({"group": label, "documents": len(chosen), **charts.quantiles(chosen)})
    if not rows:
        return None
    head = ("group", "documents", "5%", "25%", "median", "75%", "95%")
    table = [
        (row["group"], f"{row['documents']:,}", *(_number(row[f"p{share}"]) for share in (5, 25, 50, 75, 95)))
        for row in rows
    ]
    text = "The middle half of the scores of each group is a bar, with a tick at the median and a line from 5% to 95%."
    return Section("Quality by group", text, head, table, charts.quartile_boxes(rows))


def _clusters(view: CorpusView) -> Section | None:
    bars, table = [], []
    for step, metrics in _metrics(view, "near_dedup"):
        for kind, key in (("cluster size", "clusters_by_size"), ("chain length", "chains")):
            for number, times in sorted(metrics.get(key, {}).items(), key=lambda one: int(one[0])):
                table.append((step, kind, f"{int(number):,}", f"{int(times):,}"))
                bars.append({"size": f"{kind} {number}", "clusters": int(times), "kind": kind})
    if not table:
        return None
    text = "Near duplicates form clusters. A chain is the number of links from a document to the one that is kept."
    chart = charts.bars(bars[:MOST_BARS], "size", "clusters", "kind")
    return Section("Clusters of near duplicates", text, ("step", "", "size", "clusters"), table, chart, 2)


def _counted_by(view: CorpusView, step: str, key: str, title: str, text: str, what: str, unit: str) -> Section | None:
    """A section for a metric that counts by name."""
    found: Counter[str] = Counter()
    for _, metrics in _metrics(view, step):
        found.update({name: int(times) for name, times in metrics.get(key, {}).items()})
    if not found:
        return None
    rows = found.most_common()
    chart = charts.bars([{what: name, unit: times} for name, times in rows[:MOST_BARS]], what, unit)
    return Section(title, text, (what, unit), [(name, f"{times:,}") for name, times in rows], chart)


def _contamination(view: CorpusView) -> Section | None:
    text = "Documents that held items of a benchmark, by benchmark. A document may hold items of several."
    return _counted_by(view, "decontaminate", "benchmarks", "Contamination", text, "benchmark", "documents")


def _personal_data(view: CorpusView) -> Section | None:
    text = "What the step scrub found, by type."
    return _counted_by(view, "scrub", "findings", "Personal data", text, "type", "findings")


def _tokenizer(view: CorpusView) -> Section | None:
    rows = []
    for _, metrics in _metrics(view, "tokenizer"):
        rows.append(("vocabulary", f"{metrics.get('vocab', 0):,}"))
        for domain, sides in metrics.get("domains", {}).items():
            rows += [(f"{domain}, {side.replace('_', ' ')}", size(one["bytes"])) for side, one in sides.items()]
    kept, tokens = totals(view)["bytes of text kept"], totals(view)["tokens"]
    if tokens:
        rows.append(("bytes of text for each token", f"{kept / tokens:.2f}"))
    if not rows:
        return None
    return Section("Tokenizer", "The tokenizer, its training texts, and how far it compresses.", ("", ""), rows)


def _mixture(view: CorpusView) -> Section | None:
    bars, table = [], []
    for _, metrics in _metrics(view, "mix"):
        drawn: Counter[str] = Counter()
        for phase, facts in metrics["phases"].items():
            for domain, part in facts["domains"].items():
                bars.append({"phase": phase, "tokens": part["tokens"], "domain": domain})
                for group, taken in part["groups"].items():
                    drawn[group] += taken["samples"]
                    table.append(
                        (phase, domain, group, f"{taken['tokens']:,}", percent(taken["tokens"], facts["tokens"]))
                    )
        for group, facts in metrics["groups"].items():
            epochs = facts["drawn_samples"] / max(1, facts["samples"])
            again = max(0, facts["drawn_samples"] - facts["samples"])
            repeated = again * facts["tokens"] // max(1, facts["samples"])
            table.append(("all phases", "", group, f"{epochs:.2f} epochs", f"{repeated:,} repeated tokens"))
    if not table:
        return None
    text = "Tokens of each domain in each phase, and how often each group is repeated."
    head = ("phase", "domain", "group", "tokens", "share")
    return Section("Mixture", text, head, table, charts.bars(bars, "phase", "tokens", "domain"), 3)


def _packing(view: CorpusView) -> Section | None:
    table = []
    for _, metrics in _metrics(view, "shards"):
        places = metrics["tokens"] + metrics["padding"]
        table += [
            ("samples", f"{metrics['samples']:,}", ""),
            ("tokens", f"{metrics['tokens']:,}", percent(metrics["tokens"], places)),
            ("padding", f"{metrics['padding']:,}", percent(metrics["padding"], places)),
            ("documents", f"{metrics['documents']:,}", ""),
            (
                "documents cut into several samples",
                f"{metrics['split_documents']:,}",
                percent(metrics["split_documents"], metrics["documents"]),
            ),
        ]
    if not table:
        return None
    return Section("Packing", "How documents fill the samples of the shards.", ("", "", "share"), table)


def _cost(view: CorpusView, against: CorpusView | None, prices: ReportPrices) -> Section | None:
    tokens = totals(view)["tokens"]
    before = {} if against is None else {node: _cpu(against, node) for node in against.nodes}
    rows = [_cost_of(view, node) for node in view.nodes]
    cpu = sum(row.cpu_s for row in rows)
    if not cpu:
        return None
    rows.sort(key=lambda row: -row.cpu_s)
    whole = _StepCost("all", cpu, 0, sum(row.written for row in rows))
    table: list[tuple[str, ...]] = []
    for row in (whole, *rows):
        hours = row.cpu_s / 3600
        money = hours * prices.core_hour
        table.append(
            (
                row.step,
                f"{hours:.4g}",
                percent(row.cpu_s, cpu),
                f"{row.read / row.cpu_s / 1e6:.1f}" if row.read and row.cpu_s > LEAST_CPU_S else "",
                size(row.read) if row.read else "",
                size(row.written),
                f"{money:.4g}",
                f"{money * TRILLION / tokens:,.0f}" if tokens else "",
                *(() if against is None else (f"{before[row.step] / 3600:.4g}" if row.step in before else "",)),
            )
        )
    most = rows[0]
    text = (
        f"At {prices.core_hour:g} for an hour of a core. The most expensive step is {most.step} "
        f"({percent(most.cpu_s, cpu)})."
    )
    if tokens:
        hours = cpu / 3600 * prices.tokens / tokens
        text += (
            f" A corpus of {counted(prices.tokens, 'token')} would take {hours:,.0f} core-hours and cost "
            f"{hours * prices.core_hour:,.0f}, if its documents are like these and are removed as often."
        )
    chart = charts.bars(
        [{"step": row.step, "CPU seconds": row.cpu_s} for row in rows[:MOST_BARS]], "step", "CPU seconds"
    )
    head: tuple[str, ...] = ("step", "core-hours", "share", "MB/s", "read", "written", "money", "per trillion tokens")
    head = head if against is None else (*head, "core-hours before")
    return Section("Cost", text, head, table, chart)


class _StepCost(NamedTuple):
    step: str
    cpu_s: float
    read: int
    """Bytes."""
    written: int


def _cost_of(view: CorpusView, node: str) -> _StepCost:
    read = int(view.states[node].metrics.get("bytes_in", 0))
    return _StepCost(node, _cpu(view, node), read, view.stored_bytes(node) or 0)


def _cpu(view: CorpusView, node: str) -> float:
    return float(view.states[node].cost.get("cpu_s", 0))
