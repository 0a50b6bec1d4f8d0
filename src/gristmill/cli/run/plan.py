"""gristmill plan: what is cached, what would run, and why."""

from collections.abc import Collection, Sequence
from dataclasses import astuple, replace
from typing import Annotated, Any

import typer

from gristmill.cli.run.plan_cluster import parse_cluster, plan_cluster
from gristmill.cli.shared.options import Json, RecipePath, StoreUri, dry_run_with_inputs, open_mill, print_json
from gristmill.cli.shared.screen import passage, words
from gristmill.cli.shared.show import console, size, table
from gristmill.counted import counted
from gristmill.engine.plan.inputs import read_twice
from gristmill.engine.publish.input_changes import input_changes
from gristmill.engine.schedule.preview import Previews
from gristmill.errors import UserError
from gristmill.printable import one_line
from gristmill.query.sizing.disk import Disk, estimate
from gristmill.query.sizing.limits import Prices
from gristmill.query.sizing.mixture import foresee_mixture
from gristmill.query.sizing.plan import PlanLine, make_plan
from gristmill.query.versions.pinning import tokenizer_hint
from gristmill.recipe.checks.columns import INGEST
from gristmill.recipe.sections.quality import unused_models
from gristmill.recipe.sections.shards import idle_settings

MANY_SOURCES = 4
DEAREST = 1e9
"""USD: no price is higher."""
_COUNTED = ("cached", "to_run", "waiting")
EXAMPLE = "Example: gristmill plan recipes/demo.yaml"


def command(
    recipe: RecipePath,
    store: StoreUri = None,
    explain: Annotated[
        bool, typer.Option("--explain", help="Say all about a step's settings: the S-curve of near_dedup.")
    ] = False,
    cluster: Annotated[
        str | None,
        typer.Option(metavar="NODESxCORES", help="Predict what it takes on so many machines, by the last run's rates."),
    ] = None,
    tokens: Annotated[
        str | None, typer.Option(metavar="N", help="With --cluster: tokens of the corpus, 1T. Default: all inputs.")
    ] = None,
    node_memory: Annotated[
        str | None, typer.Option(metavar="SIZE", help="With --cluster: memory of a node, such as 64GB.")
    ] = None,
    core_hour_usd: Annotated[
        float, typer.Option(min=0, metavar="USD", help="With --cluster, prices: of an hour of a core.")
    ] = Prices.core_hour,
    million_gets_usd: Annotated[
        float, typer.Option(min=0, metavar="USD", help="Of a million reads of the store.")
    ] = Prices.million_gets,
    million_puts_usd: Annotated[
        float, typer.Option(min=0, metavar="USD", help="Of a million writes to it.")
    ] = Prices.million_puts,
    tb_month_usd: Annotated[
        float, typer.Option(min=0, metavar="USD", help="Of a terabyte in it for a month.")
    ] = Prices.tb_month,
    json: Json = False,
) -> None:
    """Show what a run would do, and why.

    For each stage of the recipe: what is in the store, what would be run, and what changed since the last run. With
    --cluster: CPU time, wall time, memory, store, requests and money for a corpus of --tokens, and what would break.

    Exit code 2: the shards are there already, and the mixture that the recipe asks of them cannot be.
    """
    prices = Prices(core_hour_usd, million_gets_usd, million_puts_usd, tb_month_usd)
    asked = {"--tokens": tokens is not None, "--node-memory": node_memory is not None, "A price": prices != Prices()}
    if cluster is None and (given := next((option for option, is_given in asked.items() if is_given), None)):
        raise UserError(f"{given} is for a prediction, and --cluster is missing. Add --cluster NODESxCORES: 1000x16.")
    if not all(price <= DEAREST for price in astuple(prices)):
        raise UserError(f"A price is over {DEAREST:,.0f} USD, so nothing was planned. Write what it costs.")
    mill = open_mill(recipe, store)
    if cluster is not None:
        machines = parse_cluster(cluster, node_memory)
        plan_cluster(mill, machines, tokens, prices, json)
        return
    run = dry_run_with_inputs(mill, previews=True)
    idle = " ".join(filter(None, (idle_settings(mill.recipe), unused_models(mill.recipe)))) or None
    stages, hint = make_plan(mill, run, explain), tokenizer_hint(mill, run)
    seen = run.previews or Previews()
    twice = [*seen.warnings, *seen.formats, *read_twice(run.inputs)]
    inputs = list(input_changes(run, mill.newest_whole()))
    disk, mixture = estimate(run, mill.store, mill.known_before()), foresee_mixture(run)
    if json:
        listed = [
            {
                "stage": stage.id,
                "cached": stage.cached,
                "to_run": stage.to_run,
                "waiting": stage.waiting,
                "why": stage.why,
                "explained": stage.explained,
            }
            for stage in stages
        ]
        told = {"recipe": mill.recipe.name, "store": mill.recipe.store, "stages": listed, "inputs": inputs}
        foreseen = {"fault": mixture.fault, "warnings": mixture.warnings}
        print_json({**told, "hint": hint, "idle": idle, "disk": _plain(disk), "mixture": foreseen, "warnings": twice})
        _refuse(mixture.fault)
        return
    rows = [
        (stage.id, str(stage.cached), _to_run(stage.to_run, stage.waiting), "; ".join(stage.why))
        for stage in _folded(stages, mill.recipe.sources)
    ]
    out = console()
    made = table(("stage", "cached", "to run", "why"), rows)
    made.columns[-1].justify = "left"
    out.print(made)
    for explained, ids in _by_explanation(stages).items():
        out.print()
        out.print(words((", ".join(ids), "bold")))
        out.print(passage("\n".join(explained)))
    is_open = any(stage.to_run or stage.waiting for stage in stages)
    if not is_open:
        out.print(f"\nNothing to do: everything is in the store, {size(disk.stored_bytes)}.")
    elif any(stage.waiting for stage in stages):
        out.print("\n+: more tasks follow when what they read exists.")
    for line in (_checked(seen), hint, idle, "\n".join(inputs)):
        if line:
            out.print()
            out.print(passage(line))
    if is_open:
        _show_disk(disk, mill.recipe.store)
    for warning in (*twice, *mixture.warnings):
        out.print()
        out.print(words(f"WARNING: {warning}"))
    _refuse(mixture.fault)


def _checked(seen: Previews) -> str:
    previewed = f"{counted(seen.sources, 'source')} ({size(seen.read_bytes)})"
    warnings = len(seen.warnings) + len(seen.formats)
    found = f"{counted(warnings, 'warning')} below" if warnings else "no faults"
    return f"Read the beginning of {previewed}: {found}." if seen.sources else ""


def _folded(stages: Sequence[PlanLine], sources: Collection[str]) -> list[PlanLine]:
    """The lines of a plan; of steps that many sources have each for itself, those that say the same are one."""
    alike: dict[tuple[str, tuple[str, ...]], list[PlanLine]] = {}
    for stage in stages:
        route, _, name = stage.id.partition("/")
        alike.setdefault((name if route in sources and name != INGEST else stage.id, stage.why), []).append(stage)
    folded = []
    for (name, _), some in alike.items():
        if len(some) < MANY_SOURCES:
            folded += some
        else:
            cached, to_run, waiting = (sum(getattr(one, field) for one in some) for field in _COUNTED)
            told = f"{name} of {counted(len(some), 'source')}"
            folded.append(replace(some[0], id=told, cached=cached, to_run=to_run, waiting=waiting))
    return folded


def _refuse(fault: str | None) -> None:
    if fault is not None:
        raise UserError(fault)


def _by_explanation(stages: Sequence[PlanLine]) -> dict[tuple[str, ...], list[str]]:
    """The steps that say something about their config; those that say the same (one step in two routes) together."""
    found: dict[tuple[str, ...], list[str]] = {}
    for stage in stages:
        if stage.explained:
            found.setdefault(stage.explained, []).append(stage.id)
    return found


def _to_run(to_run: int, waiting: int) -> str:
    return f"{to_run}{'+' if waiting else ''}"


def _plain(disk: Disk) -> dict[str, Any]:
    return {
        "needed_bytes": [disk.least_bytes, disk.most_bytes],
        "stored_bytes": disk.stored_bytes,
        "free_bytes": disk.free_bytes,
        "measured": disk.measured,
        "short": disk.is_short,
    }


def _show_disk(disk: Disk, store: str) -> None:
    by = "measured by earlier runs; less where a change comes out the same"
    by = by if disk.measured else "by rules of thumb, where no run has been measured"
    free = "" if disk.free_bytes is None else f" {size(disk.free_bytes)} are free there."
    least, most = size(disk.least_bytes), size(disk.most_bytes)
    added = most if least == most else f"{least} to {most}"
    told = f"The run will add about {added} to {one_line(store)} ({by}).{free}"
    if disk.is_short:
        told += (
            f"\nWARNING: that {'will' if disk.least_bytes > (disk.free_bytes or 0) else 'may'} not fit. Name another "
            "--store, make room (gristmill gc), or try a part first (--sample 1%)."
        )
    console().print(passage("\n" + told))
