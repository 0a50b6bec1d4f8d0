"""gristmill golden: the golden pages of a recipe, and what extraction gives for them now."""

from typing import Annotated

import typer

from gristmill.cli.shared.options import Json, RecipePath, open_mill, print_json
from gristmill.cli.shared.screen import words
from gristmill.cli.shared.show import console
from gristmill.errors import UserError
from gristmill.stages.extract import extract

EXAMPLE = "Example: gristmill golden pages.yaml --update"


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
    configs = {step.id: step.config for step in open_mill(recipe, None).recipe.steps}
    found = [
        (step, page)
        for step, config in configs.items()
        for page in (extract.pages_of(config) if isinstance(config, extract.Config) else ())
    ]
    if not found:
        raise UserError(
            f"{recipe} has no golden pages, so nothing was compared. Name their folder: - extract: {{golden: FOLDER}}"
        )
    if update and (links := [one.text_file for _, one in found if not one.is_same and one.text_file.is_symlink()]):
        raise UserError(f"{links[0]} is a link, so nothing was written. Replace or remove the link.")
    for step, page in found:
        state = "same" if page.is_same else "new" if page.expected is None else "changed"
        try:
            if update and not page.is_same:
                page.text_file.write_text(f"{page.now}\n", "utf-8", newline="\n")
        except OSError as error:
            raise UserError(f"{page.text_file} cannot be written ({error.strerror}), so it is unchanged.") from None
        if json:
            print_json({"step": step, "page": str(page.page), "state": state, "f1": page.f1, "reason": page.reason})
        else:
            note = f": {page.difference}" if state == "changed" else ""
            written = f" ({page.text_file.name} is written)" if update and not page.is_same else ""
            console().print(words(f"{step} {page.page}: {state}{written}{note}"))
    if not update and not all(page.is_same for _, page in found):
        raise typer.Exit(1)
