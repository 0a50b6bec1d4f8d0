"""gristmill verify: check that stored files match their hashes, and that tasks give the same output again."""

from typing import Annotated

import typer

from gristmill.cli.shared.options import Json, RecipeOrRun, StoreUri, Workers, is_run, open_mill, open_view, print_json
from gristmill.cli.shared.screen import words
from gristmill.cli.shared.show import Bars, console
from gristmill.counted import counted
from gristmill.engine.mill import make_executor
from gristmill.engine.schedule.run import Run
from gristmill.errors import UserError
from gristmill.query.versions.verify import Findings, clear_away, is_chosen, parse_share, verify
from gristmill.store.answers import FOLDER as ANSWERS

MOST_NAMED = 5
"""Tasks named in a message."""
EXAMPLE = "Example: gristmill verify recipes/demo.yaml --recompute 5%"


def command(
    recipe: RecipeOrRun,
    recompute: Annotated[
        str | None, typer.Option(metavar="SHARE", help="Also rerun this share of the tasks and compare: 5%, 100%.")
    ] = None,
    repair: Annotated[bool, typer.Option("--repair", help="Remake damaged files.")] = False,
    workers: Workers = None,
    store: StoreUri = None,
    json: Json = False,
) -> None:
    """Check every part, published file, record and stored answer.

    With --recompute, rerun tasks and compare the bytes.
    """
    share = parse_share(recompute)
    if (repair or share) and is_run(recipe):
        option = "--repair" if repair else "--recompute"
        raise UserError(
            f"{option} reruns tasks, which needs the recipe, its inputs and the code of its steps; {recipe} does not "
            f"name them. Nothing was checked. Give the recipe's file, or leave {option} out."
        )
    view = open_view(recipe, store)
    if not any(state.tasks for state in view.states.values()) and not any(view.store.list_files(f"runs/{view.name}")):
        raise UserError(
            f"Nothing of {view.label} has been run with this store, so there is nothing to check. {view.to_finish}"
        )
    with Bars(quiet=json) as bars:

        def check(share: float) -> Findings:
            of_recipe = (view.graph.modules, view.graph.code) if isinstance(view, Run) else ()
            checked = (
                open_mill(recipe, store).dry_run(keep=lambda task, _: is_chosen(share, task.key)) if share else view
            )
            return verify(checked, share, make_executor(view.store, workers, *of_recipe), bars)

        before = check(0) if repair else None
        if before is not None and before.has_damage and isinstance(view, Run):
            clear_away(view, before)
            open_mill(recipe, store).run(workers, bars)
            view = open_view(recipe, store)
        found = check(share) if share or before is None or before.has_damage else before
    if json:
        print_json(found.as_json() | ({} if before is None else {"before": before.as_json()}))
    else:
        _show(found, before, recipe)
    if found.different or found.survivors or found.unchecked or found.has_damage:
        raise typer.Exit(1)


def _show(found: Findings, before: Findings | None, recipe: str) -> None:
    out = console()
    if before is not None and before.has_damage:
        _show_damage(before)
        out.print("Damaged files that the recipe makes were made again. Second check:")
    _show_damage(found)
    for label in found.different:
        out.print(words(f"different: {label}"))
    counts = f"{counted(found.parts, 'part')} hashed, {len(found.broken):,} broken"
    out.print(f"{counts}. {counted(found.records, 'record')} read. Damaged or missing files: {len(found.damaged):,}.")
    if found.recomputed:
        out.print(f"{counted(found.recomputed, 'task')} run again, {len(found.different):,} gave different output.")
    if found.unchecked:
        some = "; ".join([*found.unchecked[:MOST_NAMED], *(["…"] if found.unchecked[MOST_NAMED:] else [])])
        why = "could not be checked, because a record or part of them or of an earlier task is damaged"
        out.print(words(f"{counted(len(found.unchecked), 'task')} {why} ({some})."))
    if found.survivors:
        out.print(
            f"Documents that were given up because they killed their worker, but now pass: {found.survivors:,}. "
            "A run with another version of the step or of its libraries includes them again.",
            markup=False,
        )
    records = [name for name in found.damaged if name.startswith(("runs/", "versions/"))]
    if records and before is None:
        out.print(
            f"The record of a run cannot be remade. Restore {records[0]} from a copy. If you have no copy, delete it: "
            "gristmill run RECIPE then writes a new one without rerunning finished tasks.",
            markup=False,
        )
    answers = [name for name in found.damaged if name.startswith(f"{ANSWERS}/") and name.endswith(".log")]
    if answers and before is None:
        out.print(
            f"Answers of a server cannot be remade. Restore {answers[0]} from a copy. If you have no copy, --repair "
            "drops the damaged answers, and a run requests those that it needs, and pays for them, again.",
            markup=False,
        )
    if found.has_damage and before is None and (found.broken or len(records) < len(found.damaged)):
        name = "RECIPE, with the recipe's file" if is_run(recipe) else recipe
        out.print(words(f"To repair {'the rest' if records else 'it'}: gristmill verify --repair {name}"))
    elif found.has_damage and before is not None:
        out.print("The other damaged files are not made by this recipe. Restore them from a copy, or delete them.")


def _show_damage(found: Findings) -> None:
    out = console()
    for name, fact in sorted(found.damaged.items()):
        out.print(words(f"{name} {fact}"))
    for part, fact in found.broken.items():
        maker = found.made_by.get(part.hash, "no recipe on record")
        out.print(words(f"part {part.hash} {fact}; made by {maker}"))
