"""gristmill lineage: the history of a document, from its input bytes to the training samples."""

from typing import Annotated

import typer

from gristmill.cli.look.lineage_screen import show_life
from gristmill.cli.shared.options import Json, RecipeOrRun, StoreUri, open_view, print_json
from gristmill.cli.shared.screen import remark
from gristmill.cli.shared.show import console
from gristmill.query.lineage.lives import check_question, is_text, lives_of

EXAMPLE = "Example: gristmill lineage recipes/demo.yaml --sample 7 --token 100 --prove"


def command(
    recipe: RecipeOrRun,
    what: Annotated[
        str | None,
        typer.Argument(
            metavar="WHAT",
            help="A document's id or the beginning of it, a URL, the SHA-256 of a text, or words quoted from a text.",
            show_default=False,
        ),
    ] = None,
    sample: Annotated[
        int | None, typer.Option("--sample", min=0, metavar="N", help="The document in training sample N.")
    ] = None,
    token: Annotated[
        int | None, typer.Option("--token", min=0, metavar="T", help="With --sample: the document that has token T.")
    ] = None,
    prove: Annotated[
        bool,
        typer.Option("--prove", help="Read the record and run the steps again, up to the tokens, and compare."),
    ] = False,
    store: StoreUri = None,
    json: Json = False,
) -> None:
    """Show the history of a document.

    Shows where it was read, what every step decided and cut, its copies, its tokens and their shards, the training
    samples that contain it, and the versions that have it. Exit code 1: no document, or --prove found a difference.
    """
    check_question(what, None, sample, token)
    view = open_view(recipe, store)
    found, is_the_same = 0, True
    for life in lives_of(view, what, None, sample, token, prove, remark):
        found += 1
        is_the_same &= "differs" not in life.about.get("proof", {})
        if json:
            print_json(life.about)
        else:
            show_life(console(), life.life, life.about)
    if not found:
        texts = " Only kept documents are searched for texts; to search all: gristmill inspect RECIPE --grep."
        remark(f"{view.label} has no such document.{texts if is_text(what, None) else ''}")
    if not found or not is_the_same:
        raise typer.Exit(1)
