"""gristmill versions reproduce: rebuild a version from its recipe, and compare."""

from dataclasses import asdict
from typing import Annotated

import typer

from gristmill.cli.corpus.versions_open import Named, open_version
from gristmill.cli.shared.options import Json, StoreUri, Workers, print_json
from gristmill.cli.shared.screen import words
from gristmill.cli.shared.show import Bars, console, listed_steps
from gristmill.counted import counted
from gristmill.engine.publish.run_record import datasets_of
from gristmill.recipe.checks.locations import locate_store

EXAMPLE = "Example: gristmill versions reproduce recipes/demo.yaml --into demo/again"


def command(
    version: Named,
    into: Annotated[
        str, typer.Option("--into", metavar="URI", help="An empty store: a folder or a URI.", show_default=False)
    ],
    workers: Workers = None,
    store: StoreUri = None,
    json: Json = False,
) -> None:
    """Rebuild a version, and compare every dataset.

    Runs the stored text of its recipe into an empty store; inputs are read from where it says. Exit code 0: the same
    bytes; 1: a difference, shown with the first step that differs and why.
    """
    from gristmill.query.versions.reproduce import prepare, reproduce

    origin, found, _ = open_version(version, store)
    mill = prepare(found, origin.file, locate_store(into, "--into"))
    with Bars(quiet=json) as bars:
        different = reproduce(found, mill, workers, bars)
    if json:
        about = {"version": found.hash, "same": different is None, "datasets": len(datasets_of(found.record))}
        about |= {"until": found.record["until"], "not_run": found.record["not_run"]}
        print_json({**about, "difference": None if different is None else asdict(different)})
    elif different is None:
        all_of_it = counted(len(datasets_of(found.record)), "dataset")
        same = "The same, as far as that run went" if found.part else "The same"
        console().print(words(f"{same}: {found.hash} of {found.recipe}, {all_of_it}."))
    else:
        now = "no longer exists" if different.now is None else f"is now {different.now[:12]}"
        console().print(
            words(
                f"Different: {different.step}, the dataset of {different.source}: {different.before[:12]} {now}."
                f" Why: {'; '.join(different.why)}."
            )
        )
    if found.part and not json:
        missing = listed_steps(found.record["not_run"], found.record["chains"])
        console().print(words(f"That run is {found.part}. It did not run: {missing}."))
    if different is not None:
        raise typer.Exit(1)
