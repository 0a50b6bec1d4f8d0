"""Executors by name: ours, and those that installed packages register as entry points of GROUP.

An entry point names what makes an executor: a class or function that is called with the store and the number of workers
(or None), and by name with modules (stages of ours that tasks run), code (the user's own), note (tells the user
something), address, cluster and recipe. Take `**others`, since there may be more one day.
"""

from importlib.metadata import EntryPoint, entry_points
from typing import Any

from gristmill.errors import UserError
from gristmill.hints import option
from gristmill.recipe.checks.mistakes import nearest

GROUP = "gristmill.executors"
BUILT_IN = {
    "local": "gristmill.engine.executors.local:LocalExecutor",
    "inline": "gristmill.engine.executors.executor:InlineExecutor",
    "ray": "gristmill.engine.executors.ray_cluster:RayExecutor",
    "slurm": "gristmill.engine.executors.slurm:SlurmExecutor",
}
"""Processes on this machine; this process itself, in which a debugger can stop; a Ray cluster; jobs of a Slurm one."""


def find(name: str) -> EntryPoint:
    """Where the executor of a name is. Raises UserError with the names that there are."""
    if name in BUILT_IN:  # every command comes through here, and to look at what is installed takes time
        return EntryPoint(name, BUILT_IN[name], GROUP)
    others = {point.name: point for point in entry_points(group=GROUP)}
    if name in others:
        return others[name]
    known = [*BUILT_IN, *sorted(others)]
    meant = f" Did you mean {near}?" if (near := nearest(name, known)) else ""
    raise UserError(
        f"{option('executor', name)} is not known, so nothing was run. Executors: {', '.join(known)}.{meant}"
    )


def load(name: str) -> Any:
    """What makes the executor of a name: imported only now, since not everyone has Ray."""
    point = find(name)
    try:
        return point.load()
    except (ImportError, AttributeError) as error:
        raise UserError(
            f"{option('executor', name)} cannot be imported from {point.value} ({error}), so nothing was run. Install "
            "the package that has it again, or use another executor."
        ) from None
