"""gristmill tokenizer pin: keep the tokenizer that a recipe trained, whatever becomes of the recipe."""

import os
from pathlib import Path
from typing import Annotated

import typer

from gristmill.cli.shared.options import Json, RecipePath, StoreUri, open_mill, print_json
from gristmill.cli.shared.screen import say
from gristmill.engine.mill import Mill
from gristmill.errors import UserError
from gristmill.query.versions.pinning import last_trained, pinned_node, trained_node
from gristmill.recipe.yaml.edit import with_entry

EXAMPLE = "Example: gristmill tokenizer pin recipes/demo.yaml"


def command(
    recipe: RecipePath,
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Where the tokenizer goes. Default: beside the recipe, as NAME.tokenizer.json."
        ),
    ] = None,
    store: StoreUri = None,
    json: Json = False,
) -> None:
    """Write the tokenizer to a file, and name it in the recipe.

    It is that of the last run, and from then on none is trained. What was encoded with it stays, and a changed
    threshold encodes only the documents whose parts it changed.
    """
    mill = open_mill(recipe, store)
    node = trained_node(mill)
    if node is None:
        _tell_pinned(mill, recipe, json)
        return
    part = last_trained(mill, node)
    if part is None:
        raise UserError(
            f"{mill.store.uri} has no tokenizer of {recipe} yet, so there is none to pin. "
            f"Run: gristmill tokenizer train {recipe}"
        )
    path = out or recipe.with_suffix(".tokenizer.json")
    if path.is_dir():
        raise UserError(f"{path} is a folder, so nothing was written. Name a file: --out {path / 'tokenizer.json'}")
    name = os.path.relpath(path, recipe.parent)
    edited = with_entry(recipe.read_text(encoding="utf-8"), "tokenizer", "pin", name)
    data = bytes(memoryview(mill.store.get_part(part)))
    if path.exists() and path.read_bytes() != data:
        raise UserError(f"{path} exists and is another file. Nothing was written. Take it away, or name another --out.")
    _write(path, data)
    if edited is None:
        raise UserError(
            f"{path} is written, but {recipe} is not changed: its `tokenizer` is not written out in the usual way. "
            f"Add to it, beside train: pin: {name}"
        )
    _write(recipe, edited.encode())
    if json:
        print_json({"recipe": str(recipe), "file": str(path), "pin": name, "sha256": part.hash, "changed": True})
        return
    say(f"{path}: the tokenizer of the last run; sha256 of the file {part.hash[:12]}.")
    say(f"{recipe}: `pin: {name}` under tokenizer. Without that line it is trained again.")


def _tell_pinned(mill: Mill, recipe: Path, json: bool) -> None:
    """For a recipe that trains no tokenizer: what it has pinned, and whether that is what its last run used."""
    node = pinned_node(mill)
    if node is None:
        raise UserError(f"{recipe} trains no tokenizer, so there is nothing to pin.")
    (file,) = node.files.values()
    path, part = Path(file.location), last_trained(mill, node)
    name = os.path.relpath(path, recipe.parent)
    if part is not None and part.hash != file.content:
        raise UserError(
            f"{recipe} is pinned to {name} ({file.content[:12]}), and its last run used another tokenizer, "
            f"{part.hash[:12]}. Nothing was changed. The next run goes by the pin; to pin the other one instead, take "
            f"the line `pin: {name}` out of the recipe and run: gristmill tokenizer pin {recipe} --out OTHER.json"
        )
    if json:
        told = {"recipe": str(recipe), "file": str(path), "pin": name, "sha256": file.content, "changed": False}
        print_json(told)
        return
    say(f"{recipe} is pinned to {name} already ({file.content[:12]}). Nothing was changed.")


def _write(path: Path, data: bytes) -> None:
    """The whole file, or none of it."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary.write_bytes(data)
        if path.exists():
            temporary.chmod(path.stat().st_mode)
        temporary.replace(path)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise UserError(
            f"{path} cannot be written: {error.strerror}. Free some space, or name another --out."
        ) from None
