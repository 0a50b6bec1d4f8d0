"""gristmill plan: what is cached, what would run, and why."""

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Annotated, Any

import typer

from gristmill.cli.run.plan_cluster import plan_cluster
from gristmill.cli.shared.options import Json, RecipePath, StoreUri, dry_run_with_inputs, open_mill, print_json
from gristmill.cli.shared.screen import passage, words
from gristmill.cli.shared.show import console, size, table
from gristmill.counted import counted
from gristmill.engine.plan.inputs import read_twice
from gristmill.engine.publish.input_changes import input_changes
from gristmill.engine.schedule.preview import Previews
from gristmill.errors import UserError
from gristmill.printable import one_line
from gristmill.query.publishing import unguarded, unweighted
from gristmill.query.sizing.asking import asking_lines
from gristmill.query.sizing.disk import SMALL_BYTES, Disk, estimate
from gristmill.query.sizing.mixture import foresee_mixture
from gristmill.query.sizing.plan import PlanLine, make_plan
from gristmill.query.versions.pinning import tokenizer_hint
from gristmill.query.watch import make_watch
from gristmill.recipe.checks.columns import INGEST
from gristmill.recipe.checks.mistakes import listed
from gristmill.recipe.sections.quality import unused_models
from gristmill.recipe.sections.shards import idle_settings

MANY_SOURCES = 4
_COUNTED = ("cached", "to_run", "waiting")
EXAMPLE = "Example: gristmill plan recipes/demo.yaml"


def command(
    recipe: RecipePath,
    store: StoreUri = None,
    explain: Annotated[
        bool, typer.Option("--explain", help="Explain settings of steps in detail: the S-curve of near_dedup.")
    ] = False,
    cluster: Annotated[
        str | None,
        typer.Option(metavar="NODESxCORES", help="Predict time and cost on this many machines from the last run."),
    ] = None,
    tokens: Annotated[
        str | None, typer.Option(metavar="N", help="With --cluster: tokens of the corpus (1T). Default: all inputs.")
    ] = None,
    json: Json = False,
) -> None:
    """Show what a run would do, and why.

    For each stage of the recipe: what is cached, what would run, and what changed since the last run. With
    --cluster: CPU time, wall time, memory and storage for a corpus of --tokens.

    Exit code 2: the shards exist, but the mixture that the recipe requests from them is impossible.
    """
    if cluster is None and tokens is not None:
        raise UserError("--tokens only applies with --cluster. Add --cluster NODESxCORES, such as --cluster 1000x16.")
    mill = open_mill(recipe, store)
    known = mill.check_takedowns()
    make_watch(mill)  # refuses what a run would refuse
    if cluster is not None:
        plan_cluster(mill, cluster, tokens, json)
        return
    run = dry_run_with_inputs(mill, previews=True)
    idle = " ".join(filter(None, (idle_settings(mill.recipe), unused_models(mill.recipe), *known))) or None
    stages, hint = make_plan(mill, run, explain), tokenizer_hint(mill, run)
    previews = run.previews or Previews()
    warnings = [*previews.warnings, *previews.formats, *read_twice(run.inputs)]
    inputs = list(input_changes(run, mill.newest_whole()))
    asking = asking_lines(run)
    disk, mixture = estimate(run, mill.store, mill.known_before()), foresee_mixture(run)
    shared = list(filter(None, (unguarded(run), unweighted(run))))
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
        of_recipe = {"recipe": mill.recipe.name, "store": mill.recipe.store, "stages": listed, "inputs": inputs}
        foreseen = {"fault": mixture.fault, "warnings": mixture.warnings}
        notes = {
            "hint": hint,
            "before_publishing": shared,
            "idle": idle,
            "disk": _plain(disk),
            "asking": asking,
            "mixture": foreseen,
            "warnings": warnings,
        }
        print_json({**of_recipe, **notes})
        _refuse(mixture.fault)
        return
    rows = [
        (stage.id, str(stage.cached), _to_run(stage.to_run, stage.waiting), "; ".join(stage.why))
        for stage in _folded(stages, mill.recipe.sources)
    ]
    out = console()
    shown = table(("stage", "cached", "to run", "why"), rows)
    shown.columns[-1].justify = "left"
    out.print(shown)
    for explained, ids in _by_explanation(stages).items():
        out.print()
        out.print(words((", ".join(ids), "bold")))
        out.print(passage("\n".join(explained)))
    is_open = any(stage.to_run or stage.waiting for stage in stages)
    if not is_open:
        out.print(f"\nNothing to do: everything is in the store, {size(disk.stored_bytes)}.")
    elif any(stage.waiting for stage in stages):
        out.print("\n+: more tasks follow when their inputs exist.")
    for line in (_checked(previews), hint, idle, *shared, "\n".join(inputs), "\n".join(asking)):
        if line:
            out.print()
            out.print(passage(line))
    if is_open:
        _show_disk(disk, mill.recipe.store)
    for warning in (*warnings, *mixture.warnings):
        out.print()
        out.print(words(f"WARNING: {warning}"))
    _refuse(mixture.fault)


def _checked(previews: Previews) -> str:
    sources = f"{counted(previews.sources, 'source')} ({size(previews.read_bytes)})"
    faults = f"no faults in {counted(previews.records, 'record')}"
    if previews.bad:
        reasons = listed(f"{reason} {count:,}" for reason, count in sorted(previews.bad.items()))
        bad = counted(sum(previews.bad.values()), "has a fault", "have a fault")
        faults = f"of {counted(previews.records, 'record')} {bad} ({reasons})"
    warnings = len(previews.warnings) + len(previews.formats)
    more = f"; {counted(warnings, 'warning')} below" if warnings else ""
    return f"Read the beginning of {sources}: {faults}{more}." if previews.sources else ""


def _folded(stages: Sequence[PlanLine], sources: Collection[str]) -> list[PlanLine]:
    """The lines of a plan. Equal lines of a step that many sources have are merged into one."""
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
            label = f"{name} of {counted(len(some), 'source')}"
            folded.append(replace(some[0], id=label, cached=cached, to_run=to_run, waiting=waiting))
    return folded


def _refuse(fault: str | None) -> None:
    if fault is not None:
        raise UserError(fault)


def _by_explanation(stages: Sequence[PlanLine]) -> dict[tuple[str, ...], list[str]]:
    """Steps with an explanation, grouped by it (one step may be in two routes)."""
    found: dict[tuple[str, ...], list[str]] = {}
    for stage in stages:
        if stage.explained:
            found.setdefault(stage.explained, []).append(stage.id)
    return found


def _to_run(to_run: int, waiting: int) -> str:
    return f"{to_run}{'+' if waiting else ''}"


def _plain(disk: Disk) -> dict[str, Any]:
    return {
        "needed_bytes": disk.added_bytes,
        "stored_bytes": disk.stored_bytes,
        "free_bytes": disk.free_bytes,
        "short": disk.is_short,
    }


def _show_disk(disk: Disk, store: str) -> None:
    free = "" if disk.free_bytes is None else f" {size(disk.free_bytes)} are free."
    added = f"about {size(disk.added_bytes)}" if disk.added_bytes > SMALL_BYTES else f"less than {size(SMALL_BYTES)}"
    text = f"The run will add {added} to {one_line(store)}.{free}"
    if disk.is_short:
        text += (
            "\nWARNING: that may not fit. Choose another --store, free some space (gristmill gc), or try a sample "
            "first (--sample 1%)."
        )
    console().print(passage("\n" + text))
