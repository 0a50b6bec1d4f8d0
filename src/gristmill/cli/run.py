"""gristmill run: carry out a recipe; what the store has already is not done again."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from gristmill.cli.funnel import show_funnel
from gristmill.cli.language_table import languages
from gristmill.cli.options import Json, RecipePath, StoreUri, Workers, as_typed, open_mill, print_json
from gristmill.cli.screen import passage, words
from gristmill.cli.show import Bars, console, listed_steps
from gristmill.counted import counted
from gristmill.engine.asked import check_executor, refuse_warnings
from gristmill.engine.mill import find_warnings
from gristmill.engine.plan.inputs import unread
from gristmill.engine.publish.folder import read_model
from gristmill.engine.schedule.run import Run
from gristmill.query.funnel import funnels, unread_files
from gristmill.recipe.columns import INGEST
from gristmill.recipe.mix import MIX
from gristmill.recipe.model import Recipe
from gristmill.recipe.quality import unused_models
from gristmill.recipe.shards import idle_settings

EXAMPLE = "Example: gristmill run recipes/demo.yaml --workers 2 --until extract"


def command(
    recipe: RecipePath,
    workers: Workers = None,
    store: StoreUri = None,
    executor: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Where tasks run: local (processes), ray or slurm (clusters), or inline (this process, for pdb).",
        ),
    ] = None,
    address: Annotated[
        str | None,
        typer.Option(metavar="HOST:PORT", help="The Ray cluster's. Default: RAY_ADDRESS, or that of this machine."),
    ] = None,
    profile: Annotated[
        str | None, typer.Option(metavar="FILE", help="Jobs of Slurm, in place of the recipe's `cluster`.")
    ] = None,
    until: Annotated[str | None, typer.Option(metavar="STAGE", help="Stop after this step.")] = None,
    tag: Annotated[str | None, typer.Option(metavar="NAME", help="Keep the finished run as a named version.")] = None,
    retry_crashed: Annotated[
        bool, typer.Option("--retry-crashed", help="Try documents again that were given up as they killed workers.")
    ] = False,
    json: Json = False,
) -> None:
    """Run what is not cached, and end with the funnel.

    The funnel is what came in, what was dropped, and what is left.
    """
    check_executor(executor, address, profile)
    mill = open_mill(recipe, store, until, executor, address, profile)
    if tag is not None:
        mill.check_tag(tag)
    with Bars(quiet=json) as bars:
        for idle in filter(None, (idle_settings(mill.recipe), unused_models(mill.recipe))):
            bars.note(idle)
        run = mill.run(workers, bars, retry_crashed, tag)
    record = run.ended
    named = as_typed(mill.recipe, store)
    warnings = find_warnings(run, named)
    for warning in warnings:
        bars.note(f"WARNING: {warning}")
    gone = None if mill.store.is_shared else _ends_with_us(mill.store.uri)
    if json:
        bars.notes.extend([gone] if gone else [])
        print_json(
            {**summary(run, record, bars.notes, warnings), "shards": run.shards, "tag": tag, **_tried(mill.recipe)}
        )
    else:
        _show(run, record)
        _show_unread(run, named)
        _show_what_is_missing(mill.recipe, recipe, record)
        _show_mix(run)
        _show_given_up(run, named)
        if gone is not None:
            console().print(passage(f"\n{gone}"), soft_wrap=True)
        if tag is not None:
            kept = f"Kept as version {tag}: look at it with {mill.store.uri}@{tag}"
            for line in ("", kept):
                console().print(words(line), soft_wrap=True)
    refuse_warnings(mill.recipe, warnings)


def summary(run: Run, record: dict, notes: list[str], warnings: list[str]) -> dict:  # type: ignore[type-arg]
    """What `--json` prints."""
    stages = []
    for node_id, node in record["nodes"].items():
        metrics = node["metrics"]
        stages.append(
            {
                "stage": node_id,
                "executed": node["executed"],
                "cached": node["cached"],
                "rows": metrics.get("rows", 0),
                "bytes": metrics.get("bytes_out", 0),
                "dropped": metrics.get("dropped", {}),
                "datasets": node["datasets"],
            }
        )
    return {
        "recipe": record["recipe"],
        "version": record["version"],
        "until": record["until"],
        "not_run": record["not_run"],
        "stages": stages,
        "rows": sum(funnel["kept"]["rows"] for funnel in funnels(run).values()),
        "bytes": sum(funnel["kept"]["text_bytes"] for funnel in funnels(run).values()),
        "funnel": funnels(run),
        "unread": unread_records(run),
        "unread_files": unread_files(run),
        "given_up": given_up(run),
        "languages": languages(run),
        "notes": notes,
        "warnings": warnings,
    }


def given_up(run: Run) -> dict[str, int]:
    """Per step: documents that kill their worker, also those that an earlier run gave up."""
    return {node_id: made.given_up for node_id, made in run.made.items() if made.given_up}


def unread_records(run: Run) -> dict[str, dict[str, int]]:
    """Per source: reasons of records that could not be read, and how many there are."""
    found = {source: unread(run.made[f"{source}/{INGEST}"].metrics.get("dropped", {})) for source in run.chains}
    return {source: reasons for source, reasons in found.items() if reasons}


def _show(run: Run, record: dict) -> None:  # type: ignore[type-arg]
    out = console()
    executed = sum(node["executed"] for node in record["nodes"].values())
    cached = sum(node["cached"] for node in record["nodes"].values())
    show_funnel(run)
    ran = f"{counted(executed, 'task')} run, {cached:,} cached"
    out.print(f"\n{record['recipe']} version {record['version']}: {ran}.")


def _tried(recipe: Recipe) -> dict[str, Any]:
    """How much less than the whole was read."""
    limits = {name: source.limit for name, source in recipe.sources.items() if source.limit is not None}
    return {"sample": recipe.sample, "limits": limits}


def _ends_with_us(store: str) -> str:
    return (
        f"The store {store} is in the memory of this command and ends with it: what was made is gone now. To keep it, "
        "name a folder (store: in the recipe, or --store)."
    )


def _show_what_is_missing(recipe: Recipe, path: Path, record: Mapping[str, Any]) -> None:
    """Nobody shall take a trial for the whole."""
    told = [
        f"{name}: its first {counted(source.limit, 'record')} at most (limit)."
        for name, source in recipe.sources.items()
        if source.limit is not None
    ]
    if recipe.sample is not None:
        share = f"{recipe.sample * 100:.12g}%"
        told.append(
            f"This is a sample of about {share} of every source, at least a record of each, kept as {recipe.name}; "
            f"{recipe.file_name} is as it was. "
            f"Other commands look at it with --sample {share}, such as: gristmill inspect {path} --sample {share}; "
            f"or by its name: {recipe.store}@{recipe.name}"
        )
    if record["not_run"]:
        not_run = listed_steps(record["not_run"], recipe.sources)
        told.append(f"Stopped after {record['until']} as asked (--until); not run: {not_run}.")
    for line in ("", *told) if told else ():
        console().print(words(line), soft_wrap=True)


def _show_mix(run: Run) -> None:
    """The mixture and where its shards lie, of a recipe that has them."""
    from gristmill.cli.mix_table import mix_table

    manifest = read_model(run, MIX)
    if manifest is not None:
        out = console()
        out.print()
        out.print(mix_table(manifest))
        out.print(words(f"Shards and manifest: {run.shards}"), soft_wrap=True)


def _show_unread(run: Run, recipe: str) -> None:
    """A line for each source with records that could not be read, and where to look at the most frequent kind."""
    for source, reasons in unread_records(run).items():
        read = run.made[f"{source}/{INGEST}"].metrics["rows"]
        kinds = ", ".join(f"{reason} {rows:,}" for reason, rows in reasons.items())
        told = (
            f"\n{source}: {sum(reasons.values()):,} of {counted(read, 'record')} could not be read ({kinds}).\n"
            f"To look: gristmill inspect {recipe} --stage {INGEST} --source {source} --reason {next(iter(reasons))}"
        )
        console().print(passage(told), soft_wrap=True)


def _show_given_up(run: Run, recipe: str) -> None:
    found = given_up(run)
    if found:
        steps = ", ".join(f"{count:,} by {node_id}" for node_id, count in found.items())
        console().print(
            passage(
                f"\nDocuments given up because they kill their worker every time: {sum(found.values()):,} ({steps}).\n"
                f"To look: gristmill inspect {recipe} --dropped --reason worker_crashed\n"
                f"To try again, after an update or with more memory: gristmill run {recipe} --retry-crashed"
            ),
            soft_wrap=True,
        )
