"""gristmill suite touched: which eval items the documents of a run contain."""

from typing import Annotated, Any

import typer

from gristmill.cli.shared.options import Json, RecipeOrRun, StoreUri, open_view, print_json
from gristmill.cli.shared.screen import Screen, words
from gristmill.cli.shared.show import console, table
from gristmill.counted import counted, percent
from gristmill.query.lineage.touched import BenchmarkReport, SuiteReport, plain, touched
from gristmill.recipe.checks.mistakes import listed

MOST_NAMED = 5
EXAMPLE = "Example: gristmill suite touched demo/store@demo"


def touched_command(
    recipe: RecipeOrRun,
    benchmark: Annotated[
        str | None, typer.Option("--benchmark", metavar="NAME", help="Only this benchmark of the suite.")
    ] = None,
    store: StoreUri = None,
    json: Json = False,
) -> None:
    """Show which items of the eval suite documents contain.

    For each benchmark: its items, the touched ones, and the documents that were removed because of them, in total
    and by rule. --json lists the items, so that an evaluation can report clean and touched ones apart.
    """
    reports = touched(open_view(recipe, store), benchmark)
    for report in reports:
        if json:
            for one in report.benchmarks.values():
                print_json({**_head(report), **_plain(one)})
        else:
            _show(console(), report)


def _head(report: SuiteReport) -> dict[str, Any]:
    return {"suite": report.suite.name, "version": report.suite.version, "hash": report.suite.hash}


def _plain(one: BenchmarkReport) -> dict[str, Any]:
    return {**one.__dict__, "touched": [plain(item) for item in one.touched.values()]}


def _show(out: Screen, report: SuiteReport) -> None:
    suite = report.suite
    out.print(words((f"{suite.name} {suite.version}", "bold"), f"  {suite.hash}"))
    rules = sorted({rule for one in report.benchmarks.values() for rule in one.rules})
    rows = [
        (
            one.benchmark,
            f"{one.items:,}",
            f"{len(one.touched):,}",
            percent(len(one.touched), one.items),
            f"{sum(item.whole for item in one.touched.values()):,}",
            f"{one.removed:,}",
            *(f"{one.rules.get(rule, 0):,}" for rule in rules),
        )
        for one in report.benchmarks.values()
    ]
    heads = ("benchmark", "items", "touched", "share", "with answer", "documents removed")
    out.print(table((*heads, *(f"by {rule}" for rule in rules)), rows))
    for one in report.benchmarks.values():
        if one.let_go:
            total, ids = sum(one.let_go.values()), sorted(one.let_go, key=lambda name: (-one.let_go[name], name))
            fact = f"{counted(total, 'match', 'matches')} of {counted(len(ids), 'item')} ignored: many documents"
            named = ", ".join(f"{name} ({one.let_go[name]:,})" for name in ids)
            out.print(words(f"{one.benchmark}: {fact} have the same words: {named}."))
        if one.unprotected:
            named = listed(one.unprotected, MOST_NAMED)
            many = counted(len(one.unprotected), "item was", "items were")
            out.print(words(f"{one.benchmark}: {many} not searched for and may be in any document: {named}."))
