"""gristmill plan: what is cached, what would run, and why."""

from typing import Any

from gristmill.cli.options import Json, RecipePath, StoreUri, open_mill, print_json
from gristmill.cli.screen import passage, words
from gristmill.cli.show import console, size, table
from gristmill.engine.disk import Disk, estimate
from gristmill.engine.pinning import retraining
from gristmill.engine.plan import known_before, make_plan

EXAMPLE = "Example: gristmill plan recipes/demo.yaml"


def command(recipe: RecipePath, store: StoreUri = None, json: Json = False) -> None:
    """Show the stages of a recipe: what is in the store, what a run would do, and what changed since the last run."""
    mill = open_mill(recipe, store)
    run = mill.look()
    stages, hint = make_plan(mill, run), retraining(mill, run)
    disk = estimate(run, mill.store, known_before(mill))
    if json:
        listed = [
            {
                "stage": stage.id,
                "cached": stage.cached,
                "to_run": stage.to_run,
                "waiting": stage.waiting,
                "why": stage.why,
                "explained": stage.explained,
            }
            for stage in stages
        ]
        told = {"recipe": mill.recipe.name, "store": mill.recipe.store, "stages": listed}
        print_json({**told, "hint": hint, "disk": _plain(disk)})
        return
    rows = [
        (stage.id, str(stage.cached), _to_run(stage.to_run, stage.waiting), "; ".join(stage.why)) for stage in stages
    ]
    out = console()
    made = table(("stage", "cached", "to run", "why"), rows)
    made.columns[-1].justify = "left"
    out.print(made)
    for stage in stages:
        if stage.explained:
            out.print()
            out.print(words((stage.id, "bold")))
            out.print("\n".join(stage.explained))
    if not any(stage.to_run or stage.waiting for stage in stages):
        out.print("\nNothing to do: everything is in the store.")
    elif any(stage.waiting for stage in stages):
        out.print("\n+: more tasks follow when what they read exists.")
    if hint is not None:
        out.print()
        out.print(words(hint), soft_wrap=True)
    if any(stage.to_run or stage.waiting for stage in stages):
        _show_disk(disk, mill.recipe.store)


def _to_run(to_run: int, waiting: int) -> str:
    return f"{to_run}{'+' if waiting else ''}"


def _plain(disk: Disk) -> dict[str, Any]:
    return {
        "needed_bytes": [disk.least_bytes, disk.most_bytes],
        "stored_bytes": disk.stored_bytes,
        "free_bytes": disk.free_bytes,
        "measured": disk.measured,
        "short": disk.is_short,
    }


def _show_disk(disk: Disk, store: str) -> None:
    by = "measured by earlier runs" if disk.measured else "by rules of thumb: no run of this recipe has been measured"
    free = "" if disk.free_bytes is None else f" {size(disk.free_bytes)} are free there."
    told = f"The run will add about {size(disk.least_bytes)} to {size(disk.most_bytes)} to {store} ({by}).{free}"
    if disk.is_short:
        told += (
            f"\nWARNING: that {'will' if disk.least_bytes > (disk.free_bytes or 0) else 'may'} not fit. Name another "
            "--store, make room (gristmill gc), or try a part first (--sample 1%)."
        )
    console().print(passage("\n" + told), soft_wrap=True)
