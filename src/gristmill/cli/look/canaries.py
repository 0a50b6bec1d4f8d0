"""gristmill canaries: the same sample of documents in every version, before and after each step."""

from collections import Counter
from dataclasses import asdict
from typing import Annotated

import typer

from gristmill.cli.shared.options import Json, RecipeOrRun, StoreUri, open_view, print_json
from gristmill.cli.shared.screen import Screen, words
from gristmill.cli.shared.show import console
from gristmill.counted import counted
from gristmill.engine.publish.run_record import see
from gristmill.query.canaries import KEPT, NUMBER, Canary, find
from gristmill.query.documents.word_changes import ADDED, NOTE, REMOVED
from gristmill.recipe.checks.mistakes import listed

MOST = 100
MOST_SCORES = 8
STYLES = {REMOVED: ("[-{}-]", "red strike"), ADDED: ("{{+{}+}}", "green underline"), NOTE: ("{}", "dim")}
"""How words are marked without colours, and with them."""
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
    for one in found if json else ():
        print_json(asdict(one))
    if not json:
        steps = Counter(one.step for one in found if one.changes)
        if other is not None:
            where = listed((f"{name} {count:,}" for name, count in steps.items()), 10) or "none"
            total = counted(len(found), "canary", "canaries")
            console().print(words(f"{steps.total():,} of {total} changed since {other.label}: {where}."))
        for title in dict.fromkeys(one.title for one in found):
            console().rule(words((title, "bold")), align="left", style="dim")
            for one in found:
                if one.title == title:
                    _show(console(), one)


def _show(out: Screen, one: Canary) -> None:
    """Print a document; one line if it did not change between the versions."""
    verdict = (one.verdict, "green" if one.now.verdict == KEPT else "red")
    if one.old is not None and not one.changes:
        out.print(words(verdict, (f"   id {one.doc_id}", "dim")))
        return
    out.print(words(verdict))
    out.print(words((f"  id {one.doc_id} {one.origin}", "dim")))
    if one.scores:
        out.print(words((f"  {listed(one.scores, MOST_SCORES)}", "dim")))
    line = words("  ")
    for kind, text in one.words:
        marks, style = STYLES.get(kind, ("{}", ""))
        bare = " ".join(text.split())
        line.append_text(words((f"{bare if out.is_terminal else marks.format(bare)} ", style)))
    if one.words:
        out.print(line)
    out.print()
