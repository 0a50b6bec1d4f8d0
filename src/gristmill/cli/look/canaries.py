"""gristmill canaries: the same sample of documents in every version, before and after each step."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from gristmill.cli.look.report import write
from gristmill.cli.shared.options import Json, RecipeOrRun, StoreUri, open_view, print_json
from gristmill.cli.shared.screen import Screen, passage, words
from gristmill.cli.shared.show import console, value_text
from gristmill.counted import counted
from gristmill.engine.publish.run_record import see
from gristmill.query.canaries import NUMBER, Canary, changed_scores, find, shown_change
from gristmill.query.documents.word_changes import WordChange, around_changes, word_changes
from gristmill.query.takedown.withheld import withheld_note
from gristmill.recipe.checks.mistakes import listed
from gristmill.report.corpus.canaries import page

MOST = 100
OPENING_CHARACTERS = 240
"""Characters shown of a text without a difference."""
MOST_SCORES = 8
MOST_DIFFERENCES = 6
"""Differences of a text that are shown; `--json` and `--out` have all."""
EXAMPLE = "Example: gristmill canaries recipes/demo.yaml --step extract -n 2"


def command(
    recipe: RecipeOrRun,
    against: Annotated[
        str | None, typer.Option(metavar="VERSION", help="Compare with this version.", show_default=False)
    ] = None,
    step: Annotated[str | None, typer.Option(metavar="STEP", help="Only the canaries of this step.")] = None,
    number: Annotated[
        int, typer.Option("-n", min=1, max=MOST, metavar="N", help="Documents for each decision of a step.")
    ] = NUMBER,
    out: Annotated[Path | None, typer.Option(metavar="FILE", help="Write them to this file, as HTML.")] = None,
    store: StoreUri = None,
    json: Json = False,
) -> None:
    """Show a fixed sample of documents, before and after each step.

    The sample has a few documents for each decision of each step (kept, and each reason), chosen by the hash of
    their ids. With --against, the sample of that version is followed, and documents that changed come first.
    """
    view = open_view(recipe, store)
    other = None if against is None else see(view.store, against)
    found = find(view, other, step=step, number=number)
    if json:
        for one in found:
            print_json({**asdict(one), "diff": _diff(one)})
    if out is not None:
        write(out, page(view.label, None if other is None else other.label, found), "page of canaries")
    if json or out is not None:
        return
    screen = console()
    if other is not None:
        _show_counts(screen, found, other.label)
    _show_all(screen, found)


def _diff(one: Canary) -> list[WordChange]:
    before, after = shown_change(one)
    return [] if before is None or after is None else word_changes(before.text, after.text)


def _show_counts(out: Screen, found: Sequence[Canary], other: str) -> None:
    changed = [one for one in found if one.changes]
    steps = Counter(one.step for one in changed)
    where = f" ({listed((f'{step} {count:,}' for step, count in steps.items()), 10)})" if steps else ""
    total = counted(len(found), "canary", "canaries")
    out.print(words(f"Compared with {other}: {len(changed):,} of {total} changed{where}."))
    out.print()


def _show_all(out: Screen, found: Sequence[Canary]) -> None:
    """Print the documents in groups. Unchanged documents of a comparison are a line each."""
    last = ""
    for one in found:
        title = f"{one.step}: {one.decision}"
        if one.old is not None:
            what = "unchanged" if not one.changes else "changed by an earlier step" if one.inherited else "changed"
            title = f"{one.step}: {what}"
        if title != last:
            out.rule(words((title, "bold")), align="left", style="dim")
            last = title
        _show(out, one)


def _show(out: Screen, one: Canary) -> None:
    verdict = words((one.now.verdict, "green" if one.now.verdict == "kept" else "red"))
    if one.old is not None and "verdict" in one.changes:
        verdict = words(f"{one.old.verdict} -> ", verdict)
    detail = f": {one.now.detail}" if one.now.detail else ""
    origin = one.url or one.locator if one.withheld is None else withheld_note(one.withheld)
    if one.old is not None and not one.changes:
        out.print(words(verdict, (f"   id {one.doc_id}", "dim")))
        return
    out.print(words(verdict, detail))
    out.print(words((f"  id {one.doc_id} {origin}", "dim")))
    if one.withheld is None:
        _show_scores(out, one)
        _show_text(out, one)
    out.print()


def _show_scores(out: Screen, one: Canary) -> None:
    scores = [f"{name} {value_text(value)}" for name, value in one.now.scores.items()]
    if one.old is not None:
        scores = [
            f"{name} {value_text(old)} -> {value_text(now)}" for name, old, now in changed_scores(one.old, one.now)
        ]
    if scores:
        out.print(words((f"  {listed(scores, MOST_SCORES)}", "dim")))


def _show_text(out: Screen, one: Canary) -> None:
    before, after = shown_change(one)
    if before is not None and after is not None and before.digest != after.digest:
        out.print(words((f"  {before.characters:,} -> {counted(after.characters, 'character')}", "dim")))
        out.print(_marked(_diff(one), out.is_terminal))
    elif one.old is None and (text := after or before) is not None:
        opening = " ".join(text.text[: 4 * OPENING_CHARACTERS].split())[:OPENING_CHARACTERS]
        more = f" … ({counted(text.characters, 'character')} in all)" if text.characters > len(opening) else ""
        out.print(words(f"  {opening}", (more, "dim")))
    elif one.old is None and (markup := one.now.after or one.now.before) is not None:
        out.print(words((f"  markup, {counted(markup.characters, 'character')} (--out FILE shows it)", "dim")))


def _marked(changes: Sequence[WordChange], colours: bool) -> Text:
    """The words around differences. Without colours, removed words are in [- -] and added ones in {+ +}."""
    text, shown = Text("  "), 0
    different = sum(one.kind in ("removed", "added") for one in changes)
    for kind, piece in around_changes(changes):
        if kind in ("same", "not compared"):
            text.append_text(passage(" ".join(piece.split()) if kind == "same" else "… the rest is not compared"))
        elif kind == "removed":
            text.append_text(passage(piece.strip() if colours else f"[-{piece.strip()}-]", "red strike"))
        else:
            text.append_text(passage(piece.strip() if colours else f"{{+{piece.strip()}+}}", "green underline"))
        text.append(" ")
        shown += kind in ("removed", "added")
        if shown == MOST_DIFFERENCES and different > shown:
            text.append_text(words((f"… {counted(different - shown, 'more difference')} (--out FILE)", "dim")))
            break
    return text
