"""The items of eval suites that documents of a run contain, so that an evaluation can report clean items separately."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from gristmill.engine.publish.run_record import last_finished
from gristmill.engine.schedule.corpus_view import CorpusView
from gristmill.errors import UserError
from gristmill.hints import option
from gristmill.query.lineage.evidence import COLUMN, Suites, evidence_steps, part_of_step
from gristmill.recipe.checks.mistakes import listed, suggest
from gristmill.stages.decontaminate.matching.index import OpenSuite
from gristmill.store.parquet import PartReader


@dataclass
class Touched:
    """An item that was found in documents."""

    benchmark: str
    id: str
    digest: str
    """The hash of its content, which identifies it independently of its id."""
    documents: int = 0
    coverage: float = 0.0
    """The largest share of one of its fields in a document."""
    whole: bool = False
    """Whether a document has the question together with the answer, half of the choices, or the code."""
    rules: set[str] = field(default_factory=set)


@dataclass
class BenchmarkReport:
    """The items of a benchmark that documents contain."""

    benchmark: str
    items: int
    """The number of items in the suite."""
    removed: int = 0
    """Documents that were dropped because of its items."""
    rules: dict[str, int] = field(default_factory=dict)
    """The number of documents that each rule flagged."""
    touched: dict[str, Touched] = field(default_factory=dict)
    """The items by id, in the order of the suite."""
    let_go: dict[str, int] = field(default_factory=dict)
    """By id, matches that did not count because too many documents have the same words."""
    unprotected: list[str] = field(default_factory=list)
    """Ids of items that were not searched: they are neither clean nor touched."""


@dataclass
class SuiteReport:
    """The items of a suite that documents contain."""

    suite: OpenSuite
    benchmarks: dict[str, BenchmarkReport]


def touched(view: CorpusView, benchmark: str | None = None) -> list[SuiteReport]:
    """A report for every suite of a run; steps with the same suite (by hash) share one report."""
    suites = Suites(view)
    found: dict[str, SuiteReport] = {}
    steps = evidence_steps(view)
    waiting = [node.id for node in steps if node.id in view.unfinished()]
    if waiting:
        raise UserError(
            f"{listed(waiting, 10)} did not finish with the current recipe, so it is unknown which items are clean. "
            f"{view.to_finish}{last_finished(view, 'suite touched')}"
        )
    for node in steps:
        suite = suites.of(node.id)
        if suite.hash not in found:
            found[suite.hash] = _untouched(suite)
        report = found[suite.hash]
        for name, findings in view.states[part_of_step(node.id, "eval_match")].metrics.get("let_go_items", {}).items():
            benchmark_of, _, item = name.partition(" ")
            let_go = report.benchmarks[benchmark_of].let_go
            let_go[item] = let_go.get(item, 0) + findings
        unprotected = view.states[part_of_step(node.id, "eval_index")].metrics.get("unprotected_items", {})
        for name, ids in unprotected.items():
            report.benchmarks[name].unprotected = list(dict.fromkeys([*report.benchmarks[name].unprotected, *ids]))
        for flags in _flagged(view, node.id):
            _add(report, flags)
    known = sorted({name for report in found.values() for name in report.benchmarks})
    if benchmark is not None and benchmark not in known:
        raise UserError(
            f"{option('benchmark', benchmark)}: no suite of {view.label} has this benchmark. "
            f"{suggest(benchmark, known, 'Benchmarks')}"
        )
    for report in found.values():
        report.benchmarks = {name: _sorted(one) for name, one in report.benchmarks.items() if benchmark in (None, name)}
    return [report for report in found.values() if report.benchmarks]


def _untouched(suite: OpenSuite) -> SuiteReport:
    report = SuiteReport(suite, {})
    for item in suite.items.values():
        of = report.benchmarks.setdefault(item.benchmark, BenchmarkReport(item.benchmark, 0))
        of.items += 1
        of.touched[item.id] = Touched(item.benchmark, item.id, item.digest)
    return report


def _sorted(one: BenchmarkReport) -> BenchmarkReport:
    one.touched = {name: item for name, item in one.touched.items() if item.documents}
    one.rules = dict(sorted(one.rules.items()))
    return one


def _flagged(view: CorpusView, step: str) -> Iterator[Sequence[Mapping[str, Any]]]:
    """The evidence of every document that was dropped for it."""
    for _, (part, _) in sorted(view.states[step].layers.items()):
        reader = PartReader(view.store, part)
        for group in range(len(reader.groups)):
            yield from reader.read_group(group, (COLUMN,))[COLUMN].drop_null().to_pylist()


def _add(report: SuiteReport, flags: Sequence[Mapping[str, Any]]) -> None:
    for name in {flag["benchmark"] for flag in flags}:
        of = report.benchmarks[name]
        mine = [flag for flag in flags if flag["benchmark"] == name]
        of.removed += 1
        for rule in {flag["rule"] for flag in mine}:
            of.rules[rule] = of.rules.get(rule, 0) + 1
        for flag in mine:
            item = of.touched[flag["item"]]
            item.coverage = max(item.coverage, flag["coverage"])
            item.whole |= flag["whole"]
            item.rules.add(flag["rule"])
        for name_of_item in {flag["item"] for flag in mine}:
            of.touched[name_of_item].documents += 1


def plain(item: Touched) -> dict[str, Any]:
    """The item as JSON."""
    return {**item.__dict__, "coverage": round(item.coverage, 6), "rules": sorted(item.rules)}
