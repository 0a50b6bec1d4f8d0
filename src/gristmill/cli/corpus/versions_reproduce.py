"""gristmill versions reproduce: make a version again from its recipe, and compare."""

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
    """Make a version again, and compare every dataset.

    The stored text of its recipe is run into an empty store; inputs are read from where it says. Exit code 0: the same,
    to the byte; 1: the first step that is not, and why.
    """
    from gristmill.query.versions.reproduce import prepare, reproduce

    place, found, _ = open_version(version, store)
    mill = prepare(found, place.file, locate_store(into, "--into"))
    with Bars(quiet=json) as bars:
        different = reproduce(found, place.store, mill, workers, bars)
    if json:
        told = {"version": found.hash, "same": different is None, "datasets": len(datasets_of(found.record))}
        told |= {"until": found.record.get("until"), "not_run": found.record.get("not_run", [])}
        print_json({**told, "difference": None if different is None else asdict(different)})
    elif different is None:
        all_of_it = counted(len(datasets_of(found.record)), "dataset")
        same = "The same as far as it goes" if found.part else "The same"
        console().print(words(f"{same}: {found.hash} of {found.recipe}, {all_of_it}."))
    else:
        now = "is not made any more" if different.now is None else f"is now {different.now[:12]}"
        place_in = (
            "its parts have the same bytes, or are gone" if different.part is None else f"from part {different.part} on"
        )
        where = f" ({place_in})" if different.now is not None else ""
        console().print(
            words(
                f"Different: {different.step}, the dataset of {different.source}: {different.before[:12]} {now}{where}."
                f" Why: {'; '.join(different.why)}."
            )
        )
    if found.part and not json:
        missing = listed_steps(found.record.get("not_run", ()), found.record["chains"])
        console().print(words(f"That run is {found.part}. It did not run: {missing}."))
    if different is not None:
        raise typer.Exit(1)
