"""gristmill inspect: look at documents and at the verdicts on them."""

import itertools
import re
from typing import Annotated, Any

import typer

from gristmill.cli.clusters import show_clusters
from gristmill.cli.options import Json, RecipeOrRun, StoreUri, open_seen, print_json
from gristmill.cli.screen import Screen, passage, words
from gristmill.cli.show import console, value_text
from gristmill.engine.look import Row, count_unjudged, find_step, rows, unfinished
from gristmill.errors import UserError
from gristmill.expression import expression

EXAMPLE = "Example: gristmill inspect recipes/demo.yaml --stage extract --dropped --reason truncated_gzip -n 20"
SHOWN_CHARACTERS = 600
FACTS = ("language", "language_hint", "timestamp", "snapshot", "license", "content_type", "charset")


def command(
    recipe: RecipeOrRun,
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
    url: Annotated[str | None, typer.Option(metavar="TEXT", help="Only documents with this in their URL.")] = None,
    doc_id: Annotated[
        str | None, typer.Option("--id", metavar="ID", help="Only this document: its id, or how it begins.")
    ] = None,
    grep: Annotated[
        str | None, typer.Option(metavar="REGEX", help="Only documents in whose text this is found; (?i): in any case.")
    ] = None,
    cuts: Annotated[bool, typer.Option("--cuts", help="Show what steps cut out of the texts, where it stood.")] = False,
    clusters: Annotated[
        bool, typer.Option("--clusters", help="The largest clusters of near duplicates, side by side.")
    ] = False,
    store: StoreUri = None,
    json: Json = False,
) -> None:
    """Show documents with where they came from, what was decided about them by which step and why, and their text."""
    if clusters and (dropped or kept or stage or reason or source or skip or url or doc_id or grep or cuts):
        raise UserError("--clusters shows whole clusters and goes only with -n, --full, --store and --json.")
    if dropped and kept:
        raise UserError("--dropped and --kept exclude each other. Leave both out to see all documents.")
    begins, pattern = _id(doc_id), _pattern(grep)
    seen = open_seen(recipe, store)
    step = find_step(seen, stage)
    unknown = [name for name in source or () if name not in seen.chains]
    if unknown:
        raise UserError(f"--source {unknown[0]} is not in the recipe. Sources: {', '.join(seen.chains)}")
    open_steps = unfinished(seen, step)
    if open_steps and not seen.documents:
        raise UserError(f"{', '.join(open_steps)} did not run yet, so there is nothing to look at. {seen.to_finish}")
    if clusters:
        show_clusters(seen, number, full, json)
        return
    wanted = True if dropped or reason is not None else False if kept else None
    every = rows(seen, step, wanted, reason, source or (), url=url, doc_id=begins, grep=pattern, cuts=cuts)
    found = itertools.islice(every, skip, skip + number)
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
            reasons = sorted({name for made in seen.made.values() for name in made.metrics.get("dropped", {})})
            message += f" Reasons in this store: {', '.join(reasons) or 'none'}"
        console(stderr=True).print(words(message))
    if open_steps:
        _say_open(open_steps, count_unjudged(seen, step, source or ()) if kept else 0, recipe)


def _say_open(steps: list[str], unjudged: int, recipe: str) -> None:
    """What has not run as the recipe is now, and what that means for what was shown."""
    told = f"Not run as the recipe is now: {', '.join(steps)}. "
    if unjudged:
        told += f"{unjudged:,} documents that nothing has dropped so far are not judged by all steps, and not shown. "
    else:
        told += "Documents may be missing, and verdicts of these steps are. "
    console(stderr=True).print(words(f"{told}To finish: gristmill run {recipe}"), soft_wrap=True)


def _id(text: str | None) -> str | None:
    if text is not None and not re.fullmatch("[0-9a-fA-F]{1,32}", text):
        raise UserError(f"--id {text} is not an id, so no document has it. Give up to 32 hexadecimal digits.")
    return text and text.lower()


def _pattern(text: str | None) -> re.Pattern[str] | None:
    try:
        return None if text is None else expression(text)
    except ValueError as error:
        raise UserError(
            f"--grep {text} is no regular expression: {error}. Put a backslash before a sign that stands for itself."
        ) from None


def _plain(row: Row) -> dict[str, Any]:
    verdict = {"step": row.step, "reason": row.reason, "detail": row.detail, "not_judged_by": row.unjudged}
    cuts = {"pieces": [{"text": text, "cut_by": step} for text, step in row.pieces]} if row.pieces else {}
    return {**row.fields, "verdict": verdict, "columns": row.columns, "text": row.text, **cuts}


def _show(out: Screen, row: Row, full: bool) -> None:
    fields = row.fields
    if row.reason is None and row.unjudged:
        verdict = words(("not judged yet", "yellow"), f" by {', '.join(row.unjudged)}")
    elif row.reason is None:
        verdict = words(("kept", "green"))
    else:
        detail = (": ", (row.detail, "bold yellow")) if row.detail else ()
        verdict = words((row.reason, "red"), f" by {row.step or ''}", *detail)
    out.rule(fields["locator"], align="left", style="dim")
    out.print(words(verdict, f"   id {fields['doc_id'].hex()}"))
    for name in ("title", "url"):
        if fields[name] is not None:
            out.print(words((name, "dim"), f" {fields[name]}"), soft_wrap=True)
    facts = {name: fields[name] for name in FACTS} | row.columns
    told = [words((name, "dim"), f" {value_text(value)}") for name, value in facts.items() if value is not None]
    if told:
        out.print(words(*(part for fact in told for part in (fact, "  "))), soft_wrap=True)
    if row.pieces:
        _show_cuts(out, row)
    elif row.text:
        shown = row.text if full else row.text[:SHOWN_CHARACTERS]
        more = len(row.text) - len(shown)
        out.print(shown, soft_wrap=True)
        if more:
            out.print(words((f"... {more:,} more characters (--full)", "dim")))
    out.print()


def _show_cuts(out: Screen, row: Row) -> None:
    """The text before the cuts; what went is red, and without colours between [- and -]."""
    made = words()
    steps: dict[str, int] = {}
    for text, step in row.pieces:
        if step is None:
            made.append_text(passage(text))
        else:
            made.append_text(passage(text if out.is_terminal else f"[-{text}-]", "red strike"))
            steps[step] = steps.get(step, 0) + len(text.encode())
    out.print(made, soft_wrap=True)
    told = ", ".join(f"{size} bytes by {step}" for step, size in steps.items()) or "nothing"
    out.print(words((f"cut: {told}", "dim")))
    out.print()
