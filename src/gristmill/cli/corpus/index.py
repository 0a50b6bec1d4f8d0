"""gristmill index: the index of a finished corpus that later snapshots are compared with."""

from pathlib import Path
from typing import Annotated

import typer

from gristmill.cli.shared.options import Json, RecipePath, StoreUri, open_mill, print_json
from gristmill.cli.shared.screen import words
from gristmill.cli.shared.show import Bars, console, listed_steps, size
from gristmill.counted import counted
from gristmill.errors import UserError
from gristmill.query.documents.documents import kept_batches, unfinished
from gristmill.stages.dedup.near_candidates import Config
from gristmill.stages.dedup.near_index import write_index

EXAMPLE = "Example: gristmill index recipes/demo.yaml indexes/2026-40"
STEP = "near_candidates"


def command(
    recipe: RecipePath,
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="Folder for the index; must not exist.")],
    store: StoreUri = None,
    json: Json = False,
) -> None:
    """Write an index of the documents that a recipe kept.

    The step known_dedup of a later recipe uses it.
    """
    mill = open_mill(recipe, store)
    nodes = [node for node in mill.graph.nodes.values() if node.name == STEP]
    if not nodes:
        raise UserError(f"{recipe} has no near_dedup step, so there is nothing to index. Add one, and run the recipe.")
    if len({node.config.model_dump_json() for node in nodes}) > 1:
        names = ", ".join(node.id for node in nodes)
        raise UserError(f"{recipe}: {names} have different configs, but an index has one. Give them the same fields.")
    run = mill.dry_run()
    waiting = unfinished(run, None)
    if waiting:
        raise UserError(f"{listed_steps(waiting, run.chains)} did not run yet. {run.to_finish}")
    config = nodes[0].config
    assert isinstance(config, Config)
    with Bars(quiet=json) as bars:
        batches = (batch for node in nodes for batch in kept_batches(run, node, ("text", "doc_id"), bars.track))
        about = write_index(folder, batches, config)
    file_bytes = sum(file.stat().st_size for file in folder.iterdir())
    if json:
        print_json({"folder": str(folder), "file_bytes": file_bytes, **about})
        return
    contents = f"{counted(about['documents'], 'document')}, {counted(about['shingles'], 'shingle')}"

    console().print(words(f"{folder}: {contents}, {size(file_bytes)}."))
