"""gristmill golden: the golden pages of a recipe, and what extraction gives for them now."""

from typing import Annotated

import typer

from gristmill.cli.shared.options import Json, RecipePath, open_mill, print_json
from gristmill.cli.shared.screen import words
from gristmill.cli.shared.show import console, table
from gristmill.errors import UserError
from gristmill.stages.extract import extract
from gristmill.stages.extract.golden import GoldenPage

EXAMPLE = "Example: gristmill golden pages.yaml"


def command(
    recipe: RecipePath,
    update: Annotated[
        bool, typer.Option("--update", help="Accept the texts as they are extracted now: write the files NAME.txt.")
    ] = False,
    json: Json = False,
) -> None:
    """Compare golden pages with what extraction gives for them now.

    `golden: FOLDER` in the step `extract` names a folder of pages (NAME.html) with the text to expect (NAME.txt).
    The exit code is 1 if a text differs, or has no file yet.
    """
    steps = open_mill(recipe, None).recipe.steps
    configs = {step.id: step.config for step in steps if isinstance(step.config, extract.Config)}
    pages = [(step, page) for step, config in configs.items() for page in extract.pages_of(config)]
    if not pages:
        raise UserError(
            f"{recipe} has no golden pages, so nothing was compared. Name their folder in a step: "
            "- extract: {golden: FOLDER}"
        )
    differing = [page for _, page in pages if not page.is_same]
    if update:
        for page in differing:
            page.write()
    for step, page in pages if json else ():
        facts = {"step": step, "page": str(page.page), "same": page.is_same, "f1": page.f1, "reason": page.reason}
        print_json({**facts, "updated": update and not page.is_same})
    if not json:
        rows = [(step, page.page.name, _state(page, update), f"{page.f1:.3f}") for step, page in pages]
        console().print(table(("step", "page", "text", "F1"), rows, left=3))
        verb = "updated" if update else "differ"
        console().print(words(f"{len(differing):,} of {len(pages):,} golden pages {verb}."))
    if differing and not update:
        raise typer.Exit(1)


def _state(page: GoldenPage, update: bool) -> str:
    if page.is_same:
        return "same"
    if update:
        return f"{page.text_file.name} written"
    if page.expected is None:
        return f"no {page.text_file.name} yet (--update writes it)"
    line, expected, now = page.first_difference
    dropped = f"dropped as {page.reason}; " if page.reason else ""
    return f"{dropped}line {line:,} is {expected!r}, now {now!r}"
