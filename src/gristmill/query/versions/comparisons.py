"""What `watch` compares in two versions of a corpus. Each function yields the alarms of one kind."""

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gristmill.counted import counted, percent
from gristmill.engine.schedule.corpus_view import CorpusView
from gristmill.engine.schedule.run import Run
from gristmill.engine.work.task import working_cpu_s
from gristmill.errors import UserError
from gristmill.hints import hint
from gristmill.query.documents.clusters import cluster_steps, count_joining
from gristmill.query.documents.columns import columns_of
from gristmill.query.documents.histograms import DrawnValues, Measure, draw, find_measures
from gristmill.query.opening import damage_message
from gristmill.query.removal.funnel import funnels
from gristmill.query.removal.funnel import languages as language_counts
from gristmill.query.versions.distances import (
    ERRORS,
    changes_of_shares,
    count_limit,
    distance,
    ks_limit,
    moved_limit,
    rate_limit,
)
from gristmill.recipe.checks.columns import INGEST
from gristmill.recipe.sections.mix import MIX
from gristmill.recipe.sections.shards import TOKENS
from gristmill.recipe.sections.watch import WatchFields
from gristmill.stages import STEPS
from gristmill.stages.shared.rule import formula
from gristmill.store.store import CorruptPart

COST = "cost"
KINDS = ("documents", "steps", "survival", "language", "distribution", "clusters", "tokens_per_byte", "tokens", COST)
"""What is compared, in the order of the pipeline."""
ALL = "all"
GROWN = 2.0
"""Documents of a source or snapshot may grow up to this factor: new files are expected, files read twice are not."""
LEAST_CPU_S = 5.0
"""A step that takes less has no meaningful rate."""
_TOKENS, _BYTES = Measure("tokens", "tokens.tokens"), Measure("bytes", "text_bytes")

Pair = tuple[tuple[int, int], tuple[int, int]]
"""(some, all) documents in the other version, and in this run."""


@dataclass(frozen=True)
class Alarm:
    """A change that is larger than its limit."""

    what: str
    """One of KINDS."""
    where: str
    """A source, a step, a language, a measure, or `all`."""
    before: float
    after: float
    distance: float
    limit: float
    message: str
    source: str = ALL
    """The source whose documents changed."""
    step: str = ""
    """The step where the change begins; empty if that may be any step, as for kept documents."""
    cause: int = 0
    """The number of the alarm, from 0 on, that this one may follow from; its own number if it is the first."""


@dataclass(frozen=True)
class Sides:
    """The other version and this run, and the values of their documents."""

    views: tuple[CorpusView, CorpusView]
    drawn: tuple[DrawnValues, DrawnValues]
    measures: Sequence[Measure]
    """Those that both versions have."""
    settings: WatchFields

    @property
    def label(self) -> str:
        """The name of the other version."""
        return self.settings.against.rpartition("@")[2]

    @property
    def samples(self) -> tuple[float | None, ...]:
        """The share of records that each run read."""
        return tuple(
            one.graph.recipe.sample if isinstance(one, Run) else (one.record or {}).get("sample") for one in self.views
        )

    @property
    def same_share(self) -> bool:
        return self.samples[0] == self.samples[1]

    def by_chance(self, limit: float, source: str = ALL) -> float:
        """The change that may be chance: none if both runs read the very same documents of a source, or of all."""
        sources = {*self.views[0].chains, *self.views[1].chains} if source == ALL else {source}
        parts = [[[one.part.hash for one in view.documents.get(name, ())] for name in sources] for view in self.views]
        return 0.0 if parts[0] == parts[1] else limit

    @property
    def look(self) -> str:
        """How to look at both versions."""
        return f"To look: {hint('report_against', version=self.settings.against)}"

    def alarm(
        self,
        what: str,
        where: str,
        values: tuple[float, float],
        change: tuple[float, float],
        fact: str,
        source: str = ALL,
        step: str = "",
    ) -> Alarm:
        """An alarm; `change` is the distance and its limit."""
        return Alarm(what, where, *values, *change, f"watch: {fact}", source, step)


def read_sides(other: CorpusView, view: CorpusView, settings: WatchFields) -> Sides:
    """Read the values of both versions; in a large corpus, of a sample of the documents."""
    then, now = ({one.title: one for one in (*_pages(side), *find_measures(side))} for side in (other, view))
    measures = [one for title, one in now.items() if title in then]
    has_tokens = all(_TOKENS.value in columns_of(side) for side in (other, view))
    more = [_BYTES, *([_TOKENS] if has_tokens else [])]
    drawn = draw(view, [*measures, *more])  # first, because a damaged part of this run can be made again
    try:
        before = draw(other, [*(then[one.title] for one in measures), *more])
        return Sides((other, view), (before, drawn), measures, settings)
    except CorruptPart as corrupt:
        raise UserError(f"watch: {damage_message(corrupt, other.label)}") from None


def _pages(view: CorpusView) -> list[Measure]:
    """How much text the step that extracts most pages keeps of each page."""
    pages: Counter[str] = Counter()
    for funnel in funnels(view).values():
        pages.update({view.nodes[step].name: one["raw_bytes"] for step, one in funnel["extracted"].items()})
    return [
        Measure("Text for each byte of a page", f"{name}.text_bytes / ingest.html_bytes")
        for name, _ in pages.most_common(1)
    ]


def _worst(alarms: Iterable[Alarm]) -> list[Alarm]:
    """The alarm that exceeds its limit most."""
    return sorted(alarms, key=lambda one: -one.distance / one.limit)[:1]


# Documents


def documents(sides: Sides) -> Iterator[Alarm]:
    """Documents read, by source, or by snapshot if both versions have snapshots. A new snapshot is not an alarm."""
    then, now = ({source: one["read"]["rows"] for source, one in funnels(view).items()} for view in sides.views)
    drawn = [Counter(zip(one.source, one.snapshot, strict=True)) for one in sides.drawn]
    dated = set.intersection(*({source for source, snapshot in one if snapshot} for one in drawn))
    for source in then:
        if source not in dated:
            yield from _number(sides, source, f"source {source}", (then[source], now.get(source, 0)), (1, 1))
    every = sides.drawn[0].every, sides.drawn[1].every
    for source, snapshot in drawn[0]:
        if source in dated:
            name = f"snapshot {snapshot} of {source}" if snapshot else f"source {source} (without a snapshot)"
            before, after = (one[source, snapshot] * k for one, k in zip(drawn, every, strict=True))
            yield from _number(sides, source, name, (before, after), every)


def _number(sides: Sides, source: str, name: str, numbers: tuple[int, int], every: tuple[int, int]) -> Iterator[Alarm]:
    """An alarm if a number of documents changed. If it is 0 now, that is not chance, unless it is an estimate."""
    before, after = numbers
    if not before:
        return
    least = sides.settings.documents if after < before else GROWN - 1
    limit = max(least, 0.0 if not after and every == (1, 1) else count_limit(before, after, every))
    if abs(after / before - 1) > limit:
        has = f"has {_about(after, every[1])}" if after else "is missing"
        fact = f"{name} {has}; {sides.label} has {_about(before, every[0])}. Check its paths and input files."
        change = (abs(after / before - 1), limit)
        yield sides.alarm("documents", source, numbers, change, fact, source, f"{source}/{INGEST}")


def _about(number: int, every: int) -> str:
    return f"{'about ' if every > 1 else ''}{counted(number, 'document')}"


def survival(sides: Sides) -> Iterator[Alarm]:
    """Shares of documents that are kept, in all and of each source, and that each step removes."""
    then, now = map(funnels, sides.views)
    both = [source for source in now if source in then]
    kept: dict[str, Pair] = {source: (_kept(then[source]), _kept(now[source])) for source in both}
    (before, read), (after, came) = (_sum(pair[side] for pair in kept.values()) for side in (0, 1))
    yield from _rate(sides, ALL, ((before, read), (after, came)), "of all documents are kept")
    for source, pair in kept.items() if len(kept) > 1 else ():
        yield from _rate(sides, source, pair, f"of the documents of {source} are kept", source)
    for step in dict.fromkeys(step for one in (now, then) for source in both for step in one[source]["steps"]):
        yield from _worst(alarm for source in both for alarm in _step(sides, step, source, then[source], now[source]))


def _kept(funnel: Mapping[str, Any]) -> tuple[int, int]:
    return funnel["kept"]["rows"], funnel["read"]["rows"]


def _sum(pairs: Iterable[tuple[int, int]]) -> tuple[int, int]:
    some, whole = zip((0, 0), *pairs, strict=True)
    return sum(some), sum(whole)


def _step(sides: Sides, step: str, source: str, then: Mapping[str, Any], now: Mapping[str, Any]) -> Iterator[Alarm]:
    """The share of the documents reaching a step that it removes."""
    removed = [
        Counter({why: int(some["rows"]) for why, some in one["first"].get(step, {}).items()}) for one in (then, now)
    ]
    reached = []
    for one in (then, now):
        earlier = one["steps"][: one["steps"].index(step)] if step in one["steps"] else one["steps"]
        gone = sum(some["rows"] for name in earlier for some in one["first"].get(name, {}).values())
        reached.append(one["read"]["rows"] - gone)
    if all(reached):
        pair = (removed[0].total(), reached[0]), (removed[1].total(), reached[1])
        grown = {why: removed[1][why] / reached[1] - removed[0][why] / reached[0] for why in removed[1]}
        reason = max(grown, key=lambda why: (grown[why], why), default="")
        yield from _rate(
            sides, step, pair, f"of the documents of {source} that reach {step} are removed", source, reason
        )


def _rate(
    sides: Sides, where: str, pair: Pair, fact: str, source: str = ALL, reason: str = "", what: str = "survival"
) -> Iterator[Alarm]:
    """An alarm if a share of documents changed. `reason` is what to look at if the share grew."""
    if not all(whole for _, whole in pair):
        return
    before, after = (some / whole for some, whole in pair)
    limit = max(sides.settings.survival, sides.by_chance(rate_limit(*pair), source))
    if abs(after - before) > limit:
        look = f"To look: {hint('dropped', reason=reason)}" if reason and after > before else sides.look
        fact = f"{percent(*pair[1])} {fact}, in {sides.label} {percent(*pair[0])}. {look}"
        step = where if any(where in view.nodes for view in sides.views) else ""
        yield sides.alarm(what, where, (before, after), (abs(after - before), limit), fact, source, step)


# Steps


def steps(sides: Sides) -> Iterator[Alarm]:
    """Steps that a route lost, and steps that it has more often. Other new steps are judged by what they remove."""
    found: dict[str, Alarm] = {}
    for source in sides.views[1].chains:
        then, now = (_steps_of(view, source) for view in sides.views)
        for name, ids in then.items():
            more = len(now.get(name, ())) - len(ids)
            if more < 0:
                fact = f"{ids[more]} is missing on the route of {source}; {sides.label} has it. Check the steps."
                counts = (len(ids), len(ids) + more)
                lost = sides.alarm("steps", ids[more], counts, (-more, 0), fact, step=ids[more])
                found.setdefault(ids[more], lost)
            elif more > 0:
                last = now[name][-1]
                fact = (
                    f"{last} applies {name} again on the route of {source}; {sides.label} does not. Remove one of them."
                )
                counts = (len(ids), len(ids) + more)
                found.setdefault(last, sides.alarm("steps", last, counts, (more, 0), fact, step=last))
    yield from found.values()


def _steps_of(view: CorpusView, source: str) -> dict[str, list[str]]:
    """The steps that a user wrote for a source: their ids by name."""
    found: dict[str, list[str]] = {}
    for node in (view.nodes[step] for step in view.chains.get(source, ())):
        if node.name in STEPS or "code" in node.identity:
            found.setdefault(node.name, []).append(node.id)
    return found


def costs(sides: Sides) -> Iterator[Alarm]:
    """Steps that need many times the CPU time for a byte. A task from the store counts with the time that it took when
    it ran.
    """
    then, now = sides.views
    for step in (one for one in now.nodes if one in then.nodes):
        (earlier_s, earlier_mb), (seconds, mb) = (_cost(view, step) for view in sides.views)
        if earlier_mb and mb and seconds >= LEAST_CPU_S:
            before, after = max(earlier_s, LEAST_CPU_S) / earlier_mb, seconds / mb
            if after > sides.settings.cost * before:
                fact = f"{step} takes {after:.3g} CPU seconds for each MB, in {sides.label} at most {before:.3g}."
                change = (after / before, sides.settings.cost)
                yield sides.alarm(COST, step, (before, after), change, f"{fact} {sides.look}", step=step)


def over_budget(view: CorpusView, settings: WatchFields) -> Iterator[Alarm]:
    """Steps that take more CPU time for a byte than the recipe allows."""
    for step, node in view.nodes.items():
        most = settings.most_s_per_mb.get(step, settings.most_s_per_mb.get(node.name))
        seconds, mb = _cost(view, step)
        if most is not None and mb and seconds >= LEAST_CPU_S and seconds / mb > most:
            rate = seconds / mb
            fact = f"watch: {step} takes {rate:.3g} CPU seconds for each MB, more than its budget of {most:g}."
            yield Alarm(COST, step, most, rate, rate, most, fact, step=step)


def _cost(view: CorpusView, step: str) -> tuple[float, float]:
    """The CPU seconds of a step without compilation, and the MB of content, or else of files, that it read."""
    state = view.states[step]
    return working_cpu_s(state.cost), float(state.metrics.get("bytes_in") or state.cost.get("input_bytes", 0)) / 1e6


# Distributions


def distributions(sides: Sides) -> Iterator[Alarm]:
    """Every measure by source, of all documents, or else of kept ones; for each measure, only the source that moved
    most. If all documents changed, kept ones follow.
    """
    sources = [np.array(drawn.source, object) for drawn in sides.drawn]
    for measure in sides.measures:
        every: list[Alarm] = []
        kept: list[Alarm] = []
        for source in sides.views[1].chains:
            rows = [of == source for of in sources]
            some = [one & drawn.is_kept for one, drawn in zip(rows, sides.drawn, strict=True)]
            step = _measuring(sides.views[1], measure, source)
            every += _moved_values(sides, measure, source, "documents", rows, step)
            kept += _moved_values(sides, measure, source, "kept documents", some, "")
        yield from _worst(every or kept)


def _measuring(view: CorpusView, measure: Measure, source: str) -> str:
    """The last step of a source that writes a column of a measure, or that writes texts, for their sizes."""
    names = {name.rpartition(".")[0] for name in formula(measure.value).columns}
    steps = [view.nodes[step] for step in view.chains[source]]
    found = [one.id for one in steps if one.name in names or ("" in names and "text" in one.columns)]
    return found[-1] if found else f"{source}/{INGEST}"


def _moved_values(
    sides: Sides, measure: Measure, source: str, some: str, rows: Sequence[Any], step: str
) -> Iterator[Alarm]:
    then, now = (drawn.values[measure.title][of] for drawn, of in zip(sides.drawn, rows, strict=True))
    then, now = (np.sort(one[np.isfinite(one)]) for one in (then, now))
    if not len(then) or not len(now):
        return
    moved = distance(then, now)
    limit = max(sides.settings.distance, sides.by_chance(ks_limit(len(then), len(now)), source))
    if moved > limit:
        before, after = float(np.median(then)), float(np.median(now))
        fact = (
            f"{measure.title}: the median of the {some} of {source} is {after:.4g}, in {sides.label} {before:.4g}; the "
            f"distributions are {moved:.2f} apart, more than {limit:.2f}. {sides.look}"
        )
        yield sides.alarm("distribution", measure.value, (before, after), (moved, limit), fact, source, step)


def tokens_per_byte(sides: Sides) -> Iterator[Alarm]:
    """Tokens for each byte of the kept texts: a ratio of sums, and its standard error."""
    ratios, errors = [], []
    for drawn in sides.drawn:
        tokens, size = (drawn.values.get(one.title, np.zeros(0)) for one in (_TOKENS, _BYTES))
        if not len(tokens):
            return
        rows = drawn.is_kept & np.isfinite(tokens) & (size > 0)
        tokens, size = tokens[rows], size[rows]
        if not len(size):
            return
        ratios.append(ratio := float(tokens.sum() / size.sum()))
        errors.append(float(np.sqrt(((tokens - ratio * size) ** 2).sum()) / size.sum()))
    before, after = ratios
    change = abs(after / before - 1)
    limit = max(sides.settings.tokens_per_byte, sides.by_chance(ERRORS * math.hypot(*errors) / before))
    if change > limit:
        fact = (
            f"a byte of text has {after:.3f} tokens, in {sides.label} {before:.3f}. Check the tokenizer: a model "
            "cannot read the tokens of another one."
        )
        step = next((one.id for one in sides.views[1].named(TOKENS)), "")
        yield sides.alarm("tokens_per_byte", ALL, (before, after), (change, limit), fact, step=step)


# Shares of a whole


def languages(sides: Sides) -> Iterator[Alarm]:
    """The languages of kept documents, and the share of each language that is kept."""
    then, now = (
        {name: (one["kept"], one["read"]) for name, one in language_counts(view).items()} for view in sides.views
    )
    kept = [{name: float(some) for name, (some, _) in one.items()} for one in (then, now)]
    sizes = sum(kept[0].values()), sum(kept[1].values())
    yield from _moved_shares(sides, "language", ALL, kept[0], kept[1], sizes, "the kept documents are in")
    yield from _worst(
        alarm
        for name in now
        if name in then and sides.same_share
        for alarm in _rate(
            sides, name, (then[name], now[name]), f"of the documents in {name} are kept", what="language"
        )
    )


def clusters(sides: Sides) -> Iterator[Alarm]:
    """The sizes of clusters of near duplicates, and the share of clusters that join sources or snapshots."""
    for step in cluster_steps(sides.views[1]):
        if step.id in sides.views[0].nodes:
            yield from _joined_clusters(sides, step.id)
    for node in sides.views[1].nodes:
        then, now = (
            view.states[node].metrics.get("clusters_by_size", {}) if node in view.nodes else {} for view in sides.views
        )
        sizes = sum(then.values()), sum(now.values())
        yield from _moved_shares(sides, "clusters", node, then, now, sizes, f"the clusters of {node} have the size")


def _joined_clusters(sides: Sides, step: str) -> Iterator[Alarm]:
    """Another scope of deduplication joins other documents. Chance cannot do that: with a narrow scope there is no such
    cluster, however many documents there are.
    """
    before, after = (count_joining(view, view.nodes[step]) for view in sides.views)
    is_same_scope = len({view.nodes[step].identity["config"].get("scope") for view in sides.views}) == 1
    if is_same_scope and not (before[1] and after[1]):
        return
    shares = before[0] / max(1, before[1]), after[0] / max(1, after[1])
    limit = max(sides.settings.shares, sides.by_chance(rate_limit(before, after)) if is_same_scope else 0.0)
    if abs(shares[1] - shares[0]) > limit:
        fact = (
            f"{percent(shares[1], 1)} of the clusters of {step} join several sources or snapshots, in {sides.label} "
            f"{percent(shares[0], 1)}. Check its scope. {sides.look}"
        )
        yield sides.alarm("clusters", step, shares, (abs(shares[1] - shares[0]), limit), fact, step=step)


def tokens(sides: Sides) -> Iterator[Alarm]:
    """The tokens of each group of the mixture: available ones, and drawn ones."""
    sizes = _equal_documents(sides.drawn[0]), _equal_documents(sides.drawn[1])
    for title, counts in (("the available tokens are of", _available), ("the drawn tokens are of", _drawn)):
        then, now = map(counts, sides.views)
        yield from _moved_shares(sides, "tokens", ALL, then, now, sizes, title)


def _equal_documents(drawn: DrawnValues) -> float:
    """The number of documents of equal length whose shares of tokens would be as accurate (Kish 1965)."""
    found = drawn.values.get(_TOKENS.title, np.zeros(0))
    found = found[drawn.is_kept & np.isfinite(found)] if len(found) else found
    return float(found.sum() ** 2 / (found**2).sum()) if found.any() else 0.0


def _available(view: CorpusView) -> dict[str, float]:
    return {name: tokens for _, name, tokens in view.token_groups()}


def _drawn(view: CorpusView) -> dict[str, float]:
    found: Counter[str] = Counter()
    for metrics in view.metrics_of(MIX):
        for phase in metrics.get("phases", {}).values():
            for domain in phase["domains"].values():
                found.update({name: group["tokens"] for name, group in domain["groups"].items()})
    return dict(found)


def _moved_shares(
    sides: Sides,
    what: str,
    where: str,
    then: Mapping[str, float],
    now: Mapping[str, float],
    sizes: tuple[float, float],
    title: str,
) -> Iterator[Alarm]:
    """An alarm if a part of the whole moved, with the name whose share changed most. `sizes` are independent
    observations.
    """
    if not all(sizes) or not any(then.values()) or not any(now.values()):
        return
    changes = changes_of_shares(then, now)
    moved = sum(map(abs, changes.values())) / 2
    limit = max(sides.settings.shares, sides.by_chance(moved_limit(then, now, sizes)))
    if moved > limit:
        name = max(changes, key=lambda one: (abs(changes[one]), one))
        before, after = (float(one.get(name, 0)) / sum(one.values()) for one in (then, now))
        fact = (
            f"{percent(after, 1)} of {title} {name}, in {sides.label} {percent(before, 1)}; {percent(moved, 1)} of the "
            f"whole moved, more than {percent(limit, 1)}. {sides.look}"
        )
        step = where if where in sides.views[1].nodes else ""
        yield sides.alarm(what, where, (before, after), (moved, limit), fact, step=step)
