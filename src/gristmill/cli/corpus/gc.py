"""gristmill gc: remove files that no recipe or version needs any more."""

from collections import Counter
from contextlib import nullcontext
from dataclasses import asdict
from typing import Annotated

import typer

from gristmill.cli.shared.options import Json, StoreUri, is_run, open_mill, open_run, open_store, print_json
from gristmill.cli.shared.screen import words
from gristmill.cli.shared.show import console, size, table
from gristmill.counted import counted
from gristmill.engine.publish.catalog import refuse_no_store
from gristmill.engine.publish.garbage import Garbage, alone, collect, find_garbage
from gristmill.recipe.checks.mistakes import listed

RecipeOrStore = Annotated[
    str,
    typer.Argument(metavar="RECIPE", help="The recipe's YAML file, a store, or STORE@NAME.", show_default=False),
]
EXAMPLE = "Example: gristmill gc recipes/demo.yaml --dry-run"


def command(
    recipe: RecipeOrStore,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what would be removed.")] = False,
    published: Annotated[
        list[str] | None,
        typer.Option(
            "--published", metavar="RECIPE/HASH", help="Also remove this folder of shards; no trainer may need it."
        ),
    ] = None,
    store: StoreUri = None,
    json: Json = False,
) -> None:
    """Remove unneeded files from the store.

    Keeps what versions, the last run of every recipe, and this recipe as it is now need.
    """
    named = open_run(recipe, store).store if is_run(recipe) else open_store(recipe, store)
    mill = open_mill(recipe, store) if named is None else None
    where = named if mill is None else mill.store
    assert where is not None
    if mill is None:
        refuse_no_store(where)

    def find() -> Garbage:
        return find_garbage(where, None if mill is None else mill.dry_run(), published or ())

    with nullcontext() if dry_run else alone(where, find):
        garbage = find()
        if not dry_run:
            collect(where, garbage)
    if json:
        print_json({"removed": not dry_run, "bytes": garbage.file_bytes, **asdict(garbage)})
        return
    files: Counter[str] = Counter()
    volume: Counter[str] = Counter()
    for path, count in garbage.files.items():
        files[path.split("/")[0]] += 1
        volume[path.split("/")[0]] += count
    out, now = console(), [] if mill is None else ["this recipe as it is now"]
    if files:
        out.print(table(("kind", "files", "bytes"), [(kind, f"{files[kind]:,}", size(volume[kind])) for kind in files]))
    verb = "would be removed" if dry_run else "removed"
    out.print(
        f"{counted(len(garbage.files), 'file')} ({size(garbage.file_bytes)}) {verb}, {garbage.kept_files:,} "
        f"({size(garbage.kept_bytes)}) needed by {listed([*garbage.needed_by, *now], 10) or 'published shards'}."
    )
    if garbage.lets_go:
        verb = "would be released" if dry_run else "released"
        versions = counted(len(garbage.lets_go), "version")
        line = f"{versions} {verb}, without a name: {listed(garbage.lets_go, 10)}."
        kept = " To keep one: gristmill versions tag" if dry_run else ""
        out.print(words(f"{line}{kept}"))
    if garbage.published:
        out.print(
            f"Kept published shards that only a trainer may still need: {listed(garbage.published, 10)}. "
            "To remove one: --published RECIPE/HASH"
        )
