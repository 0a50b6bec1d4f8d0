"""gristmill tokenizer pin: keep the tokenizer that a recipe trained, even if the recipe changes."""

import os
from pathlib import Path
from typing import Annotated

import typer

from gristmill.cli.shared.options import Json, RecipePath, StoreUri, open_mill, print_json
from gristmill.cli.shared.screen import say
from gristmill.cli.shared.written import write_whole
from gristmill.engine.mill import Mill
from gristmill.errors import UserError
from gristmill.query.versions.pinning import last_trained, pinned_node, trained_node
from gristmill.recipe.yaml.edit import with_entry

NO_ROOM = "Free some space, or name another --out."
EXAMPLE = "Example: gristmill tokenizer pin recipes/demo.yaml"


def command(
    recipe: RecipePath,
    out: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="File for the tokenizer. Default: NAME.tokenizer.json next to the recipe."),
    ] = None,
    store: StoreUri = None,
    json: Json = False,
) -> None:
    """Write the tokenizer to a file, and pin the recipe to it.

    Uses the tokenizer of the last run; later runs do not train one. Documents encoded with it stay cached, and a
    changed threshold only encodes the parts that it changes.
    """
    mill = open_mill(recipe, store)
    node = trained_node(mill)
    if node is None:
        _show_pinned(mill, recipe, json)
        return
    part = last_trained(mill, node)
    if part is None:
        raise UserError(
            f"{mill.store.uri} has no tokenizer of {recipe} yet, so there is nothing to pin. "
            f"Run: gristmill tokenizer train {recipe}"
        )
    path = out or recipe.with_suffix(".tokenizer.json")
    if path.is_dir():
        raise UserError(f"{path} is a folder, so nothing was written. Name a file: --out {path / 'tokenizer.json'}")
    name = os.path.relpath(path, recipe.parent)
    edited = with_entry(recipe.read_text(encoding="utf-8"), "tokenizer", "pin", name)
    data = bytes(memoryview(mill.store.get_part(part)))
    if path.exists() and path.read_bytes() != data:
        raise UserError(f"{path} exists with other content. Nothing was written. Remove it, or name another --out.")
    write_whole(path, data, NO_ROOM)
    if edited is None:
        raise UserError(
            f"{path} was written, but {recipe} was not changed: its `tokenizer` section could not be edited. "
            f"Add next to train: pin: {name}"
        )
    write_whole(recipe, edited.encode(), NO_ROOM)
    if json:
        print_json({"recipe": str(recipe), "file": str(path), "pin": name, "sha256": part.hash, "changed": True})
        return
    say(f"{path}: the tokenizer of the last run; sha256 {part.hash[:12]}.")
    say(f"{recipe}: added `pin: {name}` to tokenizer. Without that line, the tokenizer is trained again.")


def _show_pinned(mill: Mill, recipe: Path, json: bool) -> None:
    """Print the pinned tokenizer of a recipe that trains none. Refuse if its last run used another one."""
    node = pinned_node(mill)
    if node is None:
        raise UserError(f"{recipe} trains no tokenizer, so there is nothing to pin.")
    (file,) = node.files.values()
    path, part = Path(file.location), last_trained(mill, node)
    name = os.path.relpath(path, recipe.parent)
    if part is not None and part.hash != file.content:
        raise UserError(
            f"{recipe} is pinned to {name} ({file.content[:12]}), but its last run used another tokenizer, "
            f"{part.hash[:12]}. Nothing was changed. The next run uses the pinned one. To pin the other one, remove "
            f"the line `pin: {name}` from the recipe and run: gristmill tokenizer pin {recipe} --out OTHER.json"
        )
    if json:
        pinned = {"recipe": str(recipe), "file": str(path), "pin": name, "sha256": file.content, "changed": False}
        print_json(pinned)
        return
    say(f"{recipe} is already pinned to {name} ({file.content[:12]}). Nothing was changed.")
