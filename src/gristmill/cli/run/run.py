"""gristmill run: run the parts of a recipe that are not in the store yet."""

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from gristmill.cli.look.funnel import show_funnel
from gristmill.cli.run.mix_table import mix_table, mix_totals
from gristmill.cli.shared.options import (
    ExecutorName,
    Json,
    RayAddress,
    RecipePath,
    StoreUri,
    Workers,
    as_typed,
    open_mill,
    print_json,
)
from gristmill.cli.shared.screen import print_paragraph, remark, warn
from gristmill.cli.shared.show import Bars, console, listed_steps, size
from gristmill.counted import counted, percent
from gristmill.engine.plan.inputs import unread
from gristmill.engine.publish.folder import read_model
from gristmill.engine.publish.observers import make_observers
from gristmill.engine.run_options import RunWarnings, check_executor, sort_warnings
from gristmill.engine.schedule.run import Run
from gristmill.query.removal.funnel import funnels, languages, unread_files
from gristmill.query.watch import make_watch
from gristmill.recipe.checks.columns import INGEST
from gristmill.recipe.checks.mistakes import listed
from gristmill.recipe.model import Recipe
from gristmill.recipe.sections.mix import MIX
from gristmill.recipe.sections.quality import unused_models
from gristmill.recipe.sections.shards import idle_settings
from gristmill.warned import Warned

EXAMPLE = "Example: gristmill run recipes/demo.yaml --workers 2 --until extract"


def command(
    recipe: RecipePath,
    workers: Workers = None,
    store: StoreUri = None,
    executor: ExecutorName = None,
    address: RayAddress = None,
    profile: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="Settings of Slurm jobs, instead of the recipe's `cluster`."),
    ] = None,
    until: Annotated[str | None, typer.Option(metavar="STAGE", help="Stop after this step.")] = None,
    tag: Annotated[str | None, typer.Option(metavar="NAME", help="Keep the finished run as a named version.")] = None,
    observe: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=TARGET", help="Report progress: metrics=FILE, openlineage=URL. May be repeated."),
    ] = None,
    verbose: Annotated[
        bool,
        typer.Option("--verbose", "-v", help="Show more: the funnel, languages, unread records, the mixture, tasks."),
    ] = False,
    json: Json = False,
) -> None:
    """Run what is not cached, then show what was read and kept.

    Warnings come last. The funnel, languages and the mixture are shown with --verbose.
    """
    check_executor(executor, address, profile)
    mill = open_mill(recipe, store, until, executor, address, profile)
    if tag is not None:
        mill.check_tag(tag)
    mill.watch = make_watch(mill)
    observers = make_observers(observe or ())
    with Bars(quiet=json) as bars:
        for idle in filter(None, (idle_settings(mill.recipe), unused_models(mill.recipe))):
            bars.note(idle)
        run = mill.run(workers, bars, tag, observers)
    record = run.ended
    named = as_typed(mill.recipe, store)
    warnings = sort_warnings(run, named)
    shown = [*warnings.new, *(warnings.known if verbose else ())]
    if json:
        for warning in shown:
            warn(warning)
        gone = [] if mill.store.is_shared else [_store_is_gone(mill.store.uri)]
        for note in gone:
            remark(note)
        bars.notes += [*(f"WARNING: {warning}" for warning in shown), *gone]
        print_json(
            {**summary(run, record, bars.notes, warnings), "shards": run.shards, "tag": tag, **_tried(mill.recipe)}
        )
    else:
        if verbose:
            _show_details(run, named)
        _show_summary(run, record, warnings)
        for line in (*_unread_lines(run, named), *_limits(mill.recipe, recipe, record), *_given_up_lines(run, named)):
            print_paragraph(line)
        if not mill.store.is_shared:
            print_paragraph(_store_is_gone(mill.store.uri))
        if tag is not None:
            print_paragraph(f"Kept as version {tag}. To see it: gristmill funnel {mill.store.uri}@{tag}")
        if not verbose and mill.store.is_shared and funnels(run):
            print_paragraph(f"What was dropped, and why: gristmill funnel {named}")
        for line in merged(shown):
            warn(line)
        if verbose:
            for warning, reason in warnings.accepted:
                print_paragraph(f"Accepted ({reason}): {warning} [{warning.name}]")
        elif warnings.known:
            names = listed(dict.fromkeys(warning.name for warning in warnings.known), 10)
            print_paragraph(f"As in the last run: {names}. To see them: gristmill run {named} --verbose")
    warnings.refuse(mill.recipe)


def merged(warnings: Sequence[Warned]) -> list[str]:
    """One line for each warning; those that only differ in their step, which begins the text, share a line."""
    steps: dict[tuple[str, str], list[str]] = {}
    for warning in warnings:
        step, _, text = warning.partition(": ") if warning.step else ("", "", str(warning))
        steps.setdefault((warning.name, text), []).extend([step] if step else [])
    return [f"{f'{listed(found, 5)}: ' if found else ''}{text} [{name}]" for (name, text), found in steps.items()]


def summary(run: Run, record: dict, notes: list[str], warnings: RunWarnings) -> dict:  # type: ignore[type-arg]
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
        "warnings": warnings.plain(),
    }


def given_up(run: Run) -> dict[str, int]:
    """Per step: documents that kill their worker, including those that an earlier run gave up."""
    return {node_id: state.given_up for node_id, state in run.states.items() if state.given_up}


def unread_records(run: Run) -> dict[str, dict[str, int]]:
    """Per source: how many records could not be read, by reason. A derived source has no records."""
    read = [source for source in run.chains if not run.graph.recipe.sources[source].parents]
    found = {source: unread(run.states[f"{source}/{INGEST}"].metrics.get("dropped", {})) for source in read}
    return {source: reasons for source, reasons in found.items() if reasons}


def _show_summary(run: Run, record: dict, warnings: RunWarnings) -> None:  # type: ignore[type-arg]
    """Print three lines: documents read and kept, the tokens, the version."""
    found = funnels(run).values()
    if found:
        (read, _), (kept, text) = (
            (sum(one[what]["rows"] for one in found), sum(one[what]["text_bytes"] for one in found))
            for what in ("read", "kept")
        )
        sources = counted(len(found), "source")
        share = f"{kept:,} ({percent(kept, read)})"
        print_paragraph(f"Read {counted(read, 'document')} from {sources}; kept {share}, {size(text)} of text.")
    manifest = read_model(run, MIX)
    if manifest is not None:
        print_paragraph(f"{mix_totals(manifest)} {_from_here(run.shards)}")
    ran, cached = (sum(node[name] for node in record["nodes"].values()) for name in ("executed", "cached"))
    tasks = f"{counted(ran, 'task')} run, {cached:,} cached"
    print_paragraph(f"{record['recipe']} version {record['version']}: {tasks}; {warnings.in_words()}.")


def _from_here(path: str | None) -> str:
    """The relative path of a folder below the current one; any other path unchanged."""
    here = f"{Path.cwd()}{os.sep}"
    return (path or "").removeprefix(here)


def _show_details(run: Run, recipe: str) -> None:
    show_funnel(run, funnels(run))
    console().print()
    for line in _unread_details(run, recipe):
        print_paragraph(line)
    manifest = read_model(run, MIX)
    if manifest is not None:
        console().print()
        console().print(mix_table(manifest))
    console().print()


def _tried(recipe: Recipe) -> dict[str, Any]:
    """The limits of a run on part of the inputs."""
    limits = {name: source.limit for name, source in recipe.sources.items() if source.limit is not None}
    return {"sample": recipe.sample, "limits": limits}


def _store_is_gone(store: str) -> str:
    return (
        f"The store {store} was in the memory of this command, so its contents are gone now. To keep them, name a "
        "folder (store: in the recipe, or --store)."
    )


def _limits(recipe: Recipe, path: Path, record: Mapping[str, Any]) -> Iterator[str]:
    """Why this run is not the whole corpus: limits, a sample, --until."""
    for name, source in recipe.sources.items():
        if source.limit is not None:
            yield f"{name}: only its first {counted(source.limit, 'record')} (limit)."
    if recipe.sample is not None:
        share = f"{recipe.sample * 100:.12g}%"
        yield (
            f"This is a sample of about {share} of every source (at least one record of each), stored as "
            f"{recipe.name}; {recipe.file_name} is unchanged. To inspect it, add --sample {share} to a command: "
            f"gristmill inspect {path} --sample {share}; or use its name: {recipe.store}@{recipe.name}"
        )
    if record["not_run"]:
        not_run = listed_steps(record["not_run"], recipe.sources)
        yield f"Stopped after {record['until']} (--until); not run: {not_run}."


def _unread_lines(run: Run, recipe: str) -> Iterator[str]:
    """One line for all records that could not be read, and one for all files that were left out."""
    records = {source: sum(reasons.values()) for source, reasons in unread_records(run).items()}
    if records:
        where = listed((f"{source} {count:,}" for source, count in records.items()), 5)
        yield f"{counted(sum(records.values()), 'record')} could not be read ({where})."
        yield f"To see them: gristmill inspect {recipe} --stage {INGEST} --dropped"
    files = {source: sum(one["files"] for one in kinds.values()) for source, kinds in unread_files(run).items()}
    if files:
        where = listed((f"{source} {count:,}" for source, count in files.items()), 5)
        yield f"{counted(sum(files.values()), 'file')} left out ({where}). To see why: gristmill funnel {recipe}"


def _unread_details(run: Run, recipe: str) -> Iterator[str]:
    """For each source with unreadable records: the reasons, and the command that shows the most frequent one."""
    for source, reasons in unread_records(run).items():
        read = run.states[f"{source}/{INGEST}"].metrics["rows"]
        kinds, first = listed((f"{reason} {rows:,}" for reason, rows in reasons.items()), 5), next(iter(reasons))
        yield f"{source}: {sum(reasons.values()):,} of {counted(read, 'record')} could not be read ({kinds})."
        yield f"To see them: gristmill inspect {recipe} --stage {INGEST} --source {source} --reason {first}"


def _given_up_lines(run: Run, recipe: str) -> Iterator[str]:
    found = given_up(run)
    if found:
        steps = listed((f"{count:,} by {node_id}" for node_id, count in found.items()), 5)
        documents = counted(sum(found.values()), "document")
        yield f"{documents} given up because every attempt killed the worker ({steps})."
        yield f"To see them: gristmill inspect {recipe} --dropped --reason worker_crashed"
        yield "Another version of the step or of its libraries tries them again."
