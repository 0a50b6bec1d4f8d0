"""Observers of a run, which installed packages register as entry points of gristmill.observers.

An entry point names a function. It gets the target that `observe` names (a file, a server), or None if it is not named,
and returns an observer, or None if there is nothing to do: it may read its target from the environment.
"""

from collections.abc import Sequence

from gristmill.engine.publish.journal import Observer
from gristmill.errors import UserError
from gristmill.hints import option
from gristmill.installed import OBSERVERS, installed, load, missing
from gristmill.recipe.checks.mistakes import suggest


def make_observers(requests: Sequence[str] = ()) -> list[Observer]:
    """The observers of a run; each request is NAME=TARGET."""
    targets: dict[str, str] = {}
    for request in requests:
        name, equals, target = request.partition("=")
        if name not in installed(OBSERVERS):
            fix = missing(OBSERVERS, name) or suggest(name, list(installed(OBSERVERS)), "Observers")
            raise UserError(f"{option('observe', request)}: {name} is not an observer, so nothing was run. {fix}")
        if not equals or not target or name in targets:
            raise UserError(
                f"{option('observe', request)} must be NAME=TARGET, once for each NAME, so nothing was run. Write "
                f"{option('observe', f'{name}=FILE')}, for example."
            )
        targets[name] = target
    made = [load(point, f"the observer {name}")(targets.get(name)) for name, point in installed(OBSERVERS).items()]
    return [observer for observer in made if observer is not None]
