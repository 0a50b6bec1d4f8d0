"""gristmill funnel: documents read, dropped and cut by each step, and kept."""

from collections.abc import Iterator, Mapping
from typing import Annotated, Any

import typer
from rich.console import Group as Lines

from gristmill.cli.look.rules import RULE, show_rules
from gristmill.cli.run.language_table import language_table, languages_heading
from gristmill.cli.shared.options import Json, RecipeOrRun, StoreUri, open_view, print_json
from gristmill.cli.shared.screen import print_paragraph, remark, words
from gristmill.cli.shared.show import console, listed_steps, size, table
from gristmill.counted import counted, percent
from gristmill.engine.publish.run_record import last_finished
from gristmill.engine.schedule.corpus_view import CorpusView
from gristmill.errors import UserError
from gristmill.query.removal.funnel import funnels, languages, unread_files
from gristmill.recipe.checks.mistakes import listed, suggest

EXAMPLE = "Example: gristmill funnel recipes/demo.yaml --by rule"
MOST_REASONS = 5
"""Reasons shown per source for files that were left out."""
COLUMNS = ("source", "step", "reason", "documents", "share", "text", "as read")

_Row = tuple[str, str, str, str, str, str, str]


def command(
    recipe: RecipeOrRun,
    source: Annotated[list[str] | None, typer.Option(metavar="NAME", help="Only this source. May be repeated.")] = None,
    by: Annotated[
        str | None,
        typer.Option(metavar="COLUMN", help="Count by rule; or each rule by source, snapshot or language (count_by)."),
    ] = None,
    store: StoreUri = None,
    json: Json = False,
) -> None:
    """Show what came in, what each step dropped, and what is left.

    For each source: the reasons, and how much each step cut out of texts. Bytes are text after extraction, and add up.
    A document that is dropped before it has a text is counted with its raw bytes, in the column "as read". Records that
    are not documents (requests, robots.txt) are listed below the table. With --by rule, for each rule: the documents
    that only it removes, that it removes first, and that fail it.
    """
    if by is not None and source:
        raise UserError("--by counts the rules of all sources, so --source does not apply. Use --by source.")
    view = open_view(recipe, store)
    for name in source or ():
        if name not in view.chains:
            raise UserError(f"--source {name} is not in {view.label}. {suggest(name, view.chains, 'Sources')}")
    found = {name: one for name, one in funnels(view).items() if not source or name in source}
    waiting = view.unfinished()
    if not found:
        raise UserError(
            f"Nothing of {view.label} as it is now has finished, so there is nothing to count. "
            f"{view.to_finish}{last_finished(view, 'funnel')}"
        )
    if waiting:
        steps = listed_steps(waiting, view.chains)
        fact = f"Not counted, or only in part, because the recipe as it is now has not run: {steps}."
        remark(f"{fact} {view.to_finish}{last_finished(view, 'funnel')}")
    view.chains = {name: chain for name, chain in view.chains.items() if not source or name in source}
    if by is not None:
        show_rules(view, None if by == RULE else by, json)
    elif json:
        more = {"languages": languages(view), "unread_files": unread_files(view)}
        print_json({"recipe": view.name, "funnel": found, **more})
    else:
        show_funnel(view, found)


def show_funnel(view: CorpusView, found: Mapping[str, Any]) -> None:
    """Print the table of a corpus, and its languages if they were measured."""
    out = console()
    out.print(funnel_table(found))
    show_unread_files(view)
    if spoken := languages(view):
        out.print()
        out.print(words(languages_heading(view)))
        out.print(language_table(spoken))


def show_unread_files(view: CorpusView) -> None:
    """Print a line for each source with files that were left out: the most frequent reasons, with examples."""
    for source, reasons in unread_files(view).items():
        by_files = sorted(reasons.items(), key=lambda item: (-item[1]["files"], item[0]))
        kinds = [f"{one['files']:,} {why} (such as {one['example']})" for why, one in by_files[:MOST_REASONS]]
        if rest := by_files[MOST_REASONS:]:
            files = sum(one["files"] for _, one in rest)
            kinds.append(f"{files:,} for {counted(len(rest), 'other reason')} (--json lists all)")
        print_paragraph(f"Files of {source} that were left out: {', '.join(kinds)}")


def funnel_table(found: Mapping[str, Any]) -> Lines:
    """For each source: documents read, dropped by step and reason, and kept; then records that are not documents."""
    rows = [row for source, funnel in found.items() for row in _rows(source, funnel)]
    columns = len(COLUMNS) if any(row[-1] for row in rows) else len(COLUMNS) - 1
    notes = [words(f"Not counted, because they are not documents: {one}") for one in _no_documents(found)]
    shown = table(COLUMNS[:columns], [row[:columns] for row in rows], left=3)
    return Lines(shown, *([words(), *notes] if notes else []))


def _rows(source: str, funnel: Mapping[str, Any]) -> Iterator[_Row]:
    read, kept = funnel["read"], funnel["kept"]
    yield (source, "read", "", f"{read['rows']:,}", percent(read["rows"], read["rows"]), *_sizes(read))
    for step in funnel["steps"]:
        scope = f" {funnel['scopes'][step]}" if step in funnel["scopes"] else ""
        for reason, count in sorted(funnel["first"].get(step, {}).items(), key=lambda item: -item[1]["rows"]):
            label = f"{reason}{scope}"
            yield "", step, label, f"-{count['rows']:,}", percent(-count["rows"], read["rows"]), *_sizes(count, "-")
        if scope and step not in funnel["first"] and step not in funnel["cut"]:
            yield "", step, f"none{scope}", "0", "", "", ""
        if became_text := funnel["extracted"].get(step):
            yield "", step, f"text of {became_text['rows']:,}", "", "", "", f"-{size(became_text['raw_bytes'])}"
        if cut := funnel["cut"].get(step):
            lost = cut["text_bytes"]
            label = f"{'cut from' if lost > 0 else 'added to'} {cut['rows']:,}{scope}"
            yield "", step, label, "", "", f"{'-' if lost > 0 else '+'}{size(abs(lost))}", ""
    yield "", "kept", "", f"{kept['rows']:,}", percent(kept["rows"], read["rows"]), *_sizes(kept)


def _sizes(counts: Mapping[str, int], sign: str = "") -> tuple[str, str]:
    text, raw = counts["text_bytes"], counts["raw_bytes"]
    return (f"{sign}{size(text)}" if text or not sign else ""), (f"{sign}{size(raw)}" if raw else "")


def _no_documents(found: Mapping[str, Any]) -> Iterator[str]:
    for source, funnel in found.items():
        reasons = sorted(funnel["no_documents"].items(), key=lambda item: -item[1]["rows"])
        if reasons:
            yield f"{source} " + listed((f"{count['rows']:,} {reason}" for reason, count in reasons), 10)
