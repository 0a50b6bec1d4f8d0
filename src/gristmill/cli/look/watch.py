"""gristmill watch: the alarms that a corpus raises next to another version."""

from typing import Annotated

import typer

from gristmill.cli.shared.options import Json, RecipeOrRun, StoreUri, is_run, open_mill, open_view, print_json
from gristmill.cli.shared.screen import print_paragraph, warn
from gristmill.counted import counted
from gristmill.engine.mill import alarm_lines
from gristmill.query.watch import watch_now

EXAMPLE = "Example: gristmill watch recipes/demo.yaml --against before"


def command(
    recipe: RecipeOrRun,
    against: Annotated[
        str | None,
        typer.Option(metavar="VERSION", help="Compare with this version. Default: the recipe's `watch`."),
    ] = None,
    store: StoreUri = None,
    json: Json = False,
) -> None:
    """List what changed for the worse since another version.

    It compares documents per source and snapshot, survival per step, source and language, distributions of signals and
    scores, clusters, tokens per byte and tokens per group. The exit code is 1 if there is an alarm.
    """
    settings = None if is_run(recipe) else open_mill(recipe, store).recipe.watch
    found = watch_now(open_view(recipe, store), against, settings)
    if json:
        print_json(found.as_record())
    else:
        for note in found.notes:
            print_paragraph(note)
        alarms = found.as_record()["alarms"]
        for line in alarm_lines(alarms, len(alarms)):
            warn(line.replace("RECIPE", recipe))
        follows = any(one.cause != number for number, one in enumerate(found.alarms))
        more = " --json and the report have all of them." if follows else ""
        print_paragraph(f"{counted(len(found.alarms), 'alarm')} against {found.against}.{more}")
    if found.alarms:
        raise typer.Exit(1)
