"""gristmill audit: show documents that steps matched, with the matches marked."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Annotated

import typer

from gristmill.cli.shared.options import Json, RecipeOrRun, StoreUri, open_view, print_json
from gristmill.cli.shared.screen import Screen, passage, remark, words
from gristmill.cli.shared.show import Bars, console, table
from gristmill.counted import counted
from gristmill.engine.schedule.corpus_view import CorpusView
from gristmill.errors import UserError
from gristmill.query.removal.audit import AuditedStep, Example, audited_steps, counts, draw
from gristmill.recipe.checks.mistakes import suggest

MOST = 10_000
EXAMPLE = "Example: gristmill audit recipes/safety.yaml --step safety -n 20"


def command(
    recipe: RecipeOrRun,
    step: Annotated[str | None, typer.Option(metavar="STEP", help="Only what this step matched.")] = None,
    kind: Annotated[str | None, typer.Option("--type", metavar="TYPE", help="Only matches of this type.")] = None,
    number: Annotated[int, typer.Option("-n", "--number", min=1, max=MOST, metavar="N", help="How many to show.")] = 50,
    only_counts: Annotated[
        bool, typer.Option("--counts", help="Only count, by type, source and language; no text is read.")
    ] = False,
    store: StoreUri = None,
    json: Json = False,
) -> None:
    """Draw a sample of what steps matched, for a person to read.

    Every type gets a share. The draw depends only on document ids, so the same corpus gives the same
    sample. Documents on a list of digests are counted but never shown.
    """
    view = open_view(recipe, store)
    steps = audited_steps(view, step)
    counted_rows = counts(steps, view, kind)
    if only_counts:
        _check_type(kind, bool(counted_rows), steps, view)
        if json:
            for row in counted_rows:
                print_json(row)
        else:
            names = ("step", "type", "source", "language", "documents")
            cells = [(*(str(row[name]) for name in names[:-1]), f"{row['documents']:,}") for row in counted_rows]
            console().print(table(names, cells, left=4))
        return
    with Bars(quiet=json) as bars:
        examples, hidden = draw(view, steps, kind, number, bars.track)
    _check_type(kind, bool(counted_rows or examples), steps, view)
    notes = _notes(steps, hidden)
    for example in examples:
        if json:
            print_json(asdict(example))
        else:
            _show(console(), example)
    for note in notes:
        remark(note)
    if not examples:
        remark("There are no matches to show.")


def _check_type(kind: str | None, is_known: bool, steps: Sequence[AuditedStep], view: CorpusView) -> None:
    if kind is not None and not is_known:
        known = dict.fromkeys(row["type"] for row in counts(steps, view))
        raise UserError(f"--type {kind}: there are no matches of this type. {suggest(kind, known, 'Types')}")


def _notes(steps: Sequence[AuditedStep], hidden: int) -> list[str]:
    notes = []
    if hidden:
        found = counted(hidden, "document is", "documents are")
        notes.append(f"{found} withheld: on a list of digests, or not checked against it yet.")
    lost = [one.node.id for one in steps if one.config is None]
    if lost:
        notes.append(
            f"Matches of {', '.join(lost)} are not marked: the config names folders, and the record of a run does "
            "not list their files. Give the recipe's file to see them."
        )
    return notes


def _show(out: Screen, one: Example) -> None:
    """Print a document. Matches are red; without colours they are between [* and *]."""
    out.rule(f"{one.source}: {one.locator}", align="left", style="dim")
    detail = f": {one.detail}" if one.detail else ""
    out.print(words((one.type, "red"), f" by {one.step}{detail}   id {one.doc_id}"))
    if one.url is not None:
        out.print(words(("url", "dim"), f" {one.url}"))
    shown = 0
    for part in one.passages:
        line = words(("... ", "dim") if part.start else "")
        for text, label in part.pieces:
            shown += label is not None
            marked = text if label is None or out.is_terminal else f"[*{text}*]"
            line.append_text(passage(marked, "" if label is None else "bold red"))
        out.print(line)
    if one.matches > shown:
        out.print(words((f"... {counted(one.matches - shown, 'more match', 'more matches')}", "dim")))
    out.print()
