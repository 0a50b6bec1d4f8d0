"""gristmill plan: what is cached, what would run, and why."""

from gristmill.cli.options import Json, RecipePath, StoreUri, open_mill, print_json
from gristmill.cli.screen import words
from gristmill.cli.show import console, table
from gristmill.engine.pinning import retraining
from gristmill.engine.plan import make_plan

EXAMPLE = "Example: gristmill plan recipes/demo.yaml"


def command(recipe: RecipePath, store: StoreUri = None, json: Json = False) -> None:
    """Show the stages of a recipe: what is in the store, what a run would do, and what changed since the last run."""
    mill = open_mill(recipe, store)
    run = mill.look()
    stages, hint = make_plan(mill, run), retraining(mill, run)
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
        print_json({"recipe": mill.recipe.name, "store": mill.recipe.store, "stages": listed, "hint": hint})
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


def _to_run(to_run: int, waiting: int) -> str:
    return f"{to_run}{'+' if waiting else ''}"
