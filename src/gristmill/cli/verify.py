"""gristmill verify: is everything in the store what it says it is, and does it come out the same again?"""

from functools import partial
from typing import Annotated

import typer

from gristmill.cli.options import Json, RecipeOrRun, StoreUri, Workers, is_run, open_mill, open_seen, print_json
from gristmill.cli.screen import words
from gristmill.cli.show import Bars, console
from gristmill.counted import counted
from gristmill.engine.mill import make_executor
from gristmill.engine.schedule.run import Run
from gristmill.errors import UserError
from gristmill.query.verify import Findings, is_chosen, parse_share, verify

EXAMPLE = "Example: gristmill verify recipes/demo.yaml --recompute 5%"


def command(
    recipe: RecipeOrRun,
    recompute: Annotated[
        str | None, typer.Option(metavar="SHARE", help="Also run this share of the tasks again and compare: 5%, 100%.")
    ] = None,
    repair: Annotated[bool, typer.Option("--repair", help="Make broken parts again.")] = False,
    workers: Workers = None,
    store: StoreUri = None,
    json: Json = False,
) -> None:
    """Hash every part again and compare it with its name.

    With --recompute, run tasks again and compare the bytes.
    """
    share = parse_share(recompute)
    if repair and is_run(recipe):
        raise UserError(
            "--repair makes parts again, and for that the recipe, its inputs and the code of its steps are needed, "
            f"which {recipe} does not name. Nothing was checked. Give the recipe's file, or leave --repair out."
        )
    seen = open_seen(recipe, store)
    if share and isinstance(seen, Run):
        seen = open_mill(recipe, store).look(keep=partial(is_chosen, share))
    if not any(made.tasks for made in seen.made.values()) and not any(seen.store.list_files(f"runs/{seen.name}")):
        raise UserError(
            f"Nothing of {seen.told} has been run with this store, so there is nothing to check. {seen.to_finish}"
        )
    with Bars(quiet=json) as bars:
        of_recipe = (seen.graph.modules, seen.graph.code) if isinstance(seen, Run) else ()
        found = verify(seen, share, make_executor(seen.store, workers, *of_recipe), bars)
        if found.broken and repair:
            for part in found.broken:
                seen.store.remove_part(part)
            open_mill(recipe, store).run(workers, bars)
    if json:
        print_json(found.as_json())
    else:
        _show(found, repair, recipe)
    if found.different or found.survivors or (found.broken and not repair):
        raise typer.Exit(1)


def _show(found: Findings, repaired: bool, recipe: str) -> None:
    out = console()
    for part, fact in found.broken.items():
        maker = found.made_by.get(part.hash, "no recipe that is on record")
        out.print(words(f"part {part.hash} {fact}; made by {maker}"), soft_wrap=True)
    for label in found.different:
        out.print(words(f"different: {label}"))
    mended = ", taken away and made again where the recipe needs them" if repaired and found.broken else ""
    out.print(f"{counted(found.parts, 'part')} hashed, {len(found.broken):,} broken{mended}.")
    if found.recomputed:
        out.print(f"{counted(found.recomputed, 'task')} run again, {len(found.different):,} came out different.")
    if found.survivors:
        out.print(
            f"Documents that were given up because they killed their worker, and survive now: {found.survivors:,}. "
            f"To have them back: gristmill run {recipe} --retry-crashed",
            markup=False,
            soft_wrap=True,
        )
    if found.broken and not repaired:
        name = "RECIPE, with the file of the recipe" if is_run(recipe) else recipe
        out.print(words(f"To make broken parts again: gristmill verify --repair {name}"), soft_wrap=True)
