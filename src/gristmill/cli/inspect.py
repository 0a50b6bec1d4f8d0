"""gristmill inspect: look at documents and at the verdicts on them."""

import itertools
from typing import Annotated, Any

import typer

from gristmill.cli.clusters import show_clusters
from gristmill.cli.options import Json, RecipePath, StoreUri, open_mill, print_json
from gristmill.cli.screen import words
from gristmill.cli.show import console
from gristmill.engine.look import Row, find_step, rows, unfinished
from gristmill.errors import UserError

EXAMPLE = "Example: gristmill inspect recipes/demo.yaml --stage extract --dropped --reason truncated_gzip -n 20"
SHOWN_CHARACTERS = 600


def command(
    recipe: RecipePath,
    stage: Annotated[
        str | None, typer.Option(metavar="STEP", help="The corpus after this step. Default: the last.")
    ] = None,
    dropped: Annotated[
        bool, typer.Option("--dropped", help="Only documents dropped by that step or before it.")
    ] = False,
    kept: Annotated[bool, typer.Option("--kept", help="Only documents that are still there.")] = False,
    reason: Annotated[str | None, typer.Option(metavar="R", help="Only documents dropped for this reason.")] = None,
    source: Annotated[list[str] | None, typer.Option(metavar="NAME", help="Only this source. May be repeated.")] = None,
    skip: Annotated[int, typer.Option(min=0, metavar="N", help="Leave out the first N.")] = 0,
    number: Annotated[int, typer.Option("-n", "--number", min=1, metavar="N", help="How many to show.")] = 10,
    full: Annotated[bool, typer.Option("--full", help="Show whole texts.")] = False,
    clusters: Annotated[
        bool, typer.Option("--clusters", help="The largest clusters of near duplicates, side by side.")
    ] = False,
    store: StoreUri = None,
    json: Json = False,
) -> None:
    """Show documents with where they came from, what was decided about them by which step and why, and their text."""
    if clusters and (dropped or kept or stage or reason or source or skip):
        raise UserError("--clusters shows whole clusters and goes only with -n, --full, --store and --json.")
    if dropped and kept:
        raise UserError("--dropped and --kept exclude each other. Leave both out to see all documents.")
    mill = open_mill(recipe, store)
    step = find_step(mill, stage)
    unknown = [name for name in source or () if name not in mill.recipe.sources]
    if unknown:
        raise UserError(f"--source {unknown[0]} is not in the recipe. Sources: {', '.join(mill.recipe.sources)}")
    run = mill.look()
    open_steps = unfinished(mill, run, step)
    if open_steps and not run.documents:
        raise UserError(
            f"{', '.join(open_steps)} did not run yet, so there is nothing to look at. Run: gristmill run {recipe}"
        )
    if clusters:
        show_clusters(mill, run, number, full, json)
        return
    wanted = True if dropped or reason is not None else False if kept else None
    found = itertools.islice(rows(mill, run, step, wanted, reason, source or ()), skip, skip + number)
    out = console()
    count = 0
    for row in found:
        count += 1
        if json:
            print_json(_plain(row))
        else:
            _show(out, row, full)
    if count == 0:
        message = "No such documents."
        if reason is not None:
            reasons = sorted({name for made in run.made.values() for name in made.metrics.get("dropped", {})})
            message += f" Reasons in this store: {', '.join(reasons) or 'none'}"
        console(stderr=True).print(words(message))
    if open_steps:
        console(stderr=True).print(f"Not finished, so documents may be missing: {', '.join(open_steps)}")


def _plain(row: Row) -> dict[str, Any]:
    fields = {**row.fields, "doc_id": row.fields["doc_id"].hex()}
    verdict = {"step": row.step, "reason": row.reason, "detail": row.detail}
    return {**fields, "verdict": verdict, "columns": row.columns, "text": row.text}


def _show(out: Any, row: Row, full: bool) -> None:
    fields = row.fields
    if row.reason is None:
        verdict = words(("kept", "green"))
    else:
        detail = (": ", (row.detail, "bold yellow")) if row.detail else ()
        verdict = words((row.reason, "red"), f" by {row.step or ''}", *detail)
    out.rule(fields["locator"], align="left", style="dim")
    out.print(words(verdict, f"   id {fields['doc_id'].hex()}"))
    for name in ("url", "snapshot", "license", "content_type", "charset"):
        if fields[name] is not None:
            out.print(words((name, "dim"), f" {fields[name]}"), end="  ")
    for name, value in row.columns.items():
        if value is not None:
            out.print(words((name, "dim"), f" {value}"), end="  ")
    out.print()
    if row.text:
        shown = row.text if full else row.text[:SHOWN_CHARACTERS]
        more = len(row.text) - len(shown)
        out.print(shown, soft_wrap=True)
        if more:
            out.print(words((f"... {more:,} more characters (--full)", "dim")))
    out.print()
