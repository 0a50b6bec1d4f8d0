"""gristmill inspect: show documents and the verdicts on them."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import asdict, replace
from difflib import get_close_matches
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.text import Text

from gristmill.cli.look.evidence_screen import show_flags, show_parents
from gristmill.cli.shared.options import Json, RecipeOrRun, StoreUri, id_prefix, open_view, print_json
from gristmill.cli.shared.screen import Screen, passage, remark, words
from gristmill.cli.shared.show import console, value_text
from gristmill.counted import counted
from gristmill.engine.plan.graph import CORPUS
from gristmill.engine.publish.run_record import last_finished
from gristmill.engine.schedule.corpus_view import CorpusView
from gristmill.errors import UserError
from gristmill.expression import expression
from gristmill.query.documents.documents import (
    Row,
    count_unjudged,
    find_step,
    reaches_evidence,
    rows,
    sources_with,
    unfinished,
)
from gristmill.query.documents.lookup import find
from gristmill.query.lineage.evidence import COLUMN, Suites, steps_with_any_evidence
from gristmill.query.lineage.evidence import plain as plain_flag
from gristmill.query.lineage.page_image import NoImage, NoPage, page_of, page_png
from gristmill.query.takedown.withheld import withheld_note, withholding
from gristmill.recipe.checks.mistakes import listed, suggest
from gristmill.stages import NO_DOCUMENT

MOST = 10**15
"""An upper bound on documents: no corpus has more."""
SLIP = 0.85
"""How similar two reasons are if one is a misspelling of the other; others may both be reasons."""
EXAMPLE = "Example: gristmill inspect recipes/demo.yaml --stage ingest --dropped --reason truncated_gzip -n 20"
SHOWN_CHARACTERS = 600
FACTS = ("language", "language_hint", "timestamp", "snapshot", "license", "content_type", "charset")


def command(
    recipe: RecipeOrRun,
    stage: Annotated[
        str | None,
        typer.Option(
            metavar="STEP",
            help="Documents as they are after this step, in every route that has it. Default: the last.",
        ),
    ] = None,
    dropped: Annotated[
        bool, typer.Option("--dropped", help="Only documents that were dropped; with --stage: by that step.")
    ] = False,
    kept: Annotated[
        bool, typer.Option("--kept", help="Only documents that were not dropped; with --stage: up to that step.")
    ] = False,
    reason: Annotated[str | None, typer.Option(metavar="R", help="Only documents dropped for this reason.")] = None,
    source: Annotated[list[str] | None, typer.Option(metavar="NAME", help="Only this source. May be repeated.")] = None,
    skip: Annotated[int, typer.Option(min=0, max=MOST, metavar="N", help="Draw N others before.")] = 0,
    number: Annotated[int, typer.Option("-n", "--number", min=1, max=MOST, metavar="N", help="How many to show.")] = 10,
    chars: Annotated[
        int, typer.Option(min=1, max=MOST, metavar="N", help="Characters of each text to show.")
    ] = SHOWN_CHARACTERS,
    full: Annotated[bool, typer.Option("--full", help="Show whole texts.")] = False,
    url: Annotated[str | None, typer.Option(metavar="TEXT", help="Only documents with this in their URL.")] = None,
    doc_id: Annotated[
        str | None, typer.Option("--id", metavar="ID", help="Only this document: its id or the beginning of it.")
    ] = None,
    grep: Annotated[
        str | None, typer.Option(metavar="REGEX", help="Only documents whose text matches; (?i) ignores case.")
    ] = None,
    cuts: Annotated[bool, typer.Option("--cuts", help="Show what steps cut out of the texts, in place.")] = False,
    evidence: Annotated[
        bool,
        typer.Option(
            "--evidence",
            help="Only documents that contain eval items, or that say what their parent does not; with both texts.",
        ),
    ] = False,
    records: Annotated[
        bool, typer.Option("--records", help="Also records that are not documents: requests, warcinfo, robots.txt.")
    ] = False,
    page: Annotated[
        int | None,
        typer.Option(
            min=1,
            max=MOST,
            metavar="N",
            help="This page (of formats with pages) instead of the whole text, and its image as ID-page-N.png.",
        ),
    ] = None,
    store: StoreUri = None,
    json: Json = False,
) -> None:
    """Show documents and the decisions about them.

    The documents are drawn at random, the same ones every time. Shows their origin, the step that decided and its
    reason, and their text. Records that are not documents are only shown with --records, --reason or --id.
    """
    if dropped and kept:
        raise UserError("--dropped and --kept exclude each other. Leave both out to see all documents.")
    if reason is not None and kept:
        raise UserError("--reason selects dropped documents, --kept the others. Leave one of them out.")
    begins, pattern = None if doc_id is None else id_prefix(doc_id, "--id"), _pattern(grep)
    view = open_view(recipe, store)
    step = find_step(view, stage)
    if evidence and not reaches_evidence(view, step):
        steps = ", ".join(node.id for node in steps_with_any_evidence(view))
        raise UserError(f"--stage {stage} comes before {steps}, so there is no evidence yet. Leave --stage out.")
    unknown = [name for name in source or () if name not in view.chains]
    if unknown:
        raise UserError(f"--source {unknown[0]} is not in {view.label}. {suggest(unknown[0], view.chains, 'Sources')}")
    elsewhere = [name for name in source or () if not sources_with(view, step, [name])]
    if elsewhere:
        passes = listed(sources_with(view, step), 10)
        raise UserError(f"--source {elsewhere[0]} does not pass --stage {stage}. Sources that do: {passes}.")
    if not any(state.tasks for state in view.states.values()):
        last = last_finished(view, "inspect")
        ran = "as it is now" if last else "with this store"
        raise UserError(
            f"Nothing of {view.label} has been run {ran}, so there is nothing to show. {view.to_finish}{last}"
        )
    open_steps = unfinished(view, step)
    if open_steps and not view.documents:
        raise UserError(
            f"{listed(open_steps, 10)} did not run yet, so there is nothing to show. "
            f"{view.to_finish}{last_finished(view, 'inspect')}"
        )
    unheard = "" if reason is None or open_steps else _unheard(view, reason)
    wanted = True if dropped or reason is not None else False if kept else None
    shows_all = records or reason in NO_DOCUMENT or begins is not None
    selection = (view, step, wanted, reason, source or ())
    select = partial(rows, *selection, url=url, doc_id=begins, grep=pattern, cuts=cuts, flagged=evidence)
    found = select(records=shows_all, skip=skip, number=number)
    out, suites = console(), Suites(view)
    count = without_page = 0
    for row in found:
        if page is not None and row.withheld is None:
            try:
                row = _with_page(view, row, page)
            except NoPage:
                if doc_id is not None:
                    raise
                without_page += 1
                continue
        count += 1
        if json:
            print_json(_plain(row, suites))
        else:
            _show(out, row, MOST if full else chars, pattern, suites)
    if without_page:
        missing = counted(without_page, "document has", "documents have")
        remark(f"{missing} no page {page}.")
    elif count == 0:
        with_records = () if shows_all or reason is not None else select(records=True)
        is_one = any(row.reason in NO_DOCUMENT for row in with_records)
        others = " Records that are not documents were left out: --records shows them." if is_one else ""
        after = f" after the first {skip:,}" if skip else ""
        remark(f"No matching documents{after}.{others}{unheard}")
    if open_steps:
        say_open(open_steps, count_unjudged(view, step, source or ()) if kept else 0, view)


def _with_page(view: CorpusView, row: Row, number: int) -> Row:
    """The document with the text of a page, as it was read. Its image is written to a file, if there is one."""
    [place] = find(view, doc_id=row.fields["doc_id"].hex())
    page = page_of(view, place.document, place.row, number)
    if page is None:
        raise NoPage(
            f"{row.fields['locator']} has no pages, or the package of its format is not installed. Leave --page out."
        )
    columns = {"page": number, "pages": page.pages, "confidence": page.confidence, "verdict": page.verdict}
    path = Path(f"{row.fields['doc_id'].hex()}-page-{number}.png")
    try:
        path.write_bytes(page_png(view, place.document, row.fields, number))
        columns["image"] = str(path)
    except NoImage as fault:
        remark(f"{row.fields['locator']}: {fault}")
    return replace(row, text=page.text, pieces=(), columns=columns)


def _unheard(view: CorpusView, reason: str) -> str:
    """The remark on a reason for which no document was dropped: perhaps a rule drops nothing here. One that is nearly
    a reason that documents have is refused.
    """
    by_step = {node_id: state.metrics.get("dropped", {}) for node_id, state in view.states.items()}
    by_step = {node_id: found for node_id, found in by_step.items() if view.nodes[node_id].name != CORPUS}
    known = sorted({name for found in by_step.values() for name in found})
    steps = [node_id for node_id, found in by_step.items() if reason in found]
    if not steps:
        if get_close_matches(reason, known, n=1, cutoff=SLIP):
            raise UserError(f"--reason {reason}: no document has it. {suggest(reason, known, 'Reasons here')}")
        return f" No step dropped one for {reason}. Reasons here: {listed(known) or 'none'}."
    return f" These steps dropped some for it: {', '.join(steps)}."


def say_open(steps: list[str], unjudged: int, view: CorpusView) -> None:
    """Print which steps of the recipe as it is now have not run, and what is missing because of that."""
    message = f"Not run yet with the recipe as it is now: {listed(steps, 10)}. "
    if unjudged:
        so_far = "that no step has dropped so far"
        message += counted(unjudged, f"document {so_far} is", f"documents {so_far} are")
        message += " not judged by all steps and not shown. "
    else:
        message += "Their verdicts are missing, and documents may be. "
    withhold = {node_id for source in view.chains for node_id in withholding(view, source)}
    if unseen := [node_id for node_id in steps if node_id in withhold]:
        message += f"For documents that {', '.join(unseen)} has not checked, only id, source and verdict are shown. "
    remark(f"{message}{view.to_finish}{last_finished(view, 'inspect')}")


def _pattern(text: str | None) -> re.Pattern[str] | None:
    try:
        return None if text is None else expression(text)
    except ValueError as error:
        raise UserError(
            f"--grep {text} is not a regular expression: {error}. Put a backslash before special characters."
        ) from None


def _plain(row: Row, suites: Suites) -> dict[str, Any]:
    verdict = {"step": row.step, "reason": row.reason, "detail": row.detail, "not_judged_by": row.unjudged}
    cuts = {"pieces": [{"text": text, "cut_by": step} for text, step in row.pieces]} if row.pieces else {}
    flags = {"evidence": [plain_flag(flag, suites.item(flag)) for flag in row.flags]} if row.flags else {}
    parents = {"parents": [asdict(one) for one in row.parents]} if row.parents else {}
    return {**row.fields, "verdict": verdict, "columns": row.columns, "text": row.text, **cuts, **flags, **parents}


def _show(out: Screen, row: Row, chars: int, grep: re.Pattern[str] | None, suites: Suites) -> None:
    fields = row.fields
    if row.reason is None and row.unjudged:
        verdict = words(("not judged yet", "yellow"), f" by {', '.join(row.unjudged)}")
    elif row.reason is None:
        verdict = words(("kept", "green"))
    else:
        detail = (": ", (row.detail, "bold yellow")) if row.detail else ()
        verdict = words((row.reason, "red"), f" by {row.step or ''}", *detail)
    out.rule(f"{fields['source']}: {fields['locator']}", align="left", style="dim")
    out.print(words(verdict, f"   id {fields['doc_id'].hex()}"))
    if row.withheld is not None and row.reason is None:
        out.print(words((withheld_note(row.withheld), "bold yellow")))
    for name in ("title", "url", "meta"):
        if fields[name] is not None:
            out.print(words((name, "dim"), f" {fields[name][:chars]}"))
    facts = {name: fields[name] for name in FACTS} | {n: v for n, v in row.columns.items() if v is not None}
    if row.flags:
        facts.pop(COLUMN, None)
    if row.parents:
        facts = {name: value for name, value in facts.items() if name not in {one.column for one in row.parents}}
    known = [words((name, "dim"), f" {value_text(value)}") for name, value in facts.items() if value is not None]
    for line in _lines(known, out.width):
        out.print(line)
    if row.flags:
        show_flags(out, [(flag, suites.item(flag)) for flag in row.flags], chars == MOST)
    if row.parents:
        show_parents(out, row.parents, chars == MOST)
    if row.pieces:
        _show_cuts(out, row)
    elif row.text and not row.flags and not row.parents:
        _show_text(out, row.text, chars, grep)
    out.print()


def _lines(facts: Iterable[Text], width: int) -> Iterator[Text]:
    """Facts side by side, as many as fit in a line; none is broken."""
    line = words()
    for fact in facts:
        if line.cell_len and line.cell_len + 2 + fact.cell_len > width:
            yield line
            line = words()
        line.append_text(words("  ", fact) if line.cell_len else fact)
    if line.cell_len:
        yield line


def _show_text(out: Screen, text: str, chars: int, grep: re.Pattern[str] | None) -> None:
    """Print the beginning of a text, or the passage around the first hit. Hits are red, or between [* and *]."""
    hits = [] if grep is None else [found.span() for found in grep.finditer(text) if found[0]]
    first = hits[0][0] if hits else 0
    start = max(0, first - chars // 2)
    stop = min(len(text), start + chars)
    line = words(("... ", "dim") if start else "")
    at = start
    for begin, end in hits:
        if begin >= stop:
            break
        shown = text[begin : min(end, stop)]
        line.append_text(passage(text[at:begin]))
        line.append_text(passage(shown if out.is_terminal else f"[*{shown}*]", "bold red"))
        at = min(end, stop)
    out.print(line.append_text(passage(text[at:stop])))
    left = [
        counted(more, what)
        for more, what in (
            (sum(begin >= stop for begin, _ in hits), "more hit"),
            (len(text) - (stop - start), "more character"),
        )
        if more
    ]
    if left:
        out.print(words((f"... {', '.join(left)} (--chars, --full)", "dim")))


def _show_cuts(out: Screen, row: Row) -> None:
    """Print the text before the cuts. What was cut is red; without colours it is between [- and -]."""
    line = words()
    steps: dict[str, int] = {}
    for text, step in row.pieces:
        if step is None:
            line.append_text(passage(text))
        else:
            line.append_text(passage(text if out.is_terminal else f"[-{text}-]", "red strike"))
            steps[step] = steps.get(step, 0) + len(text.encode())
    out.print(line)
    sizes = ", ".join(f"{size} bytes by {step}" for step, size in steps.items()) or "nothing"
    out.print(words((f"cut: {sizes}", "dim")))
    out.print()
