"""Executors by name: built-in ones, and those that installed packages register as entry points of gristmill.executors.

An entry point names a class or function that makes an executor. It is called with the store and the number of workers
(or None), and by name with modules (Gristmill's stages that tasks run), code (the user's own), note (shows the user a
message), begun (call it when a worker gets a task, with the task and the worker's location), address, cluster and
recipe. Accept `**others`, since later versions may pass more.
"""

from importlib.metadata import EntryPoint
from typing import Any

from gristmill.errors import UserError
from gristmill.hints import option
from gristmill.installed import EXECUTORS, PACKAGES, installed, missing
from gristmill.installed import load as load_installed
from gristmill.recipe.checks.mistakes import nearest

BUILT_IN = {
    "local": "gristmill.engine.executors.local:LocalExecutor",
    "inline": "gristmill.engine.executors.executor:InlineExecutor",
}
"""Processes on this machine; this process, which a debugger can stop."""


def find(name: str) -> EntryPoint:
    """The entry point of an executor. Raises UserError with the known names."""
    if name in BUILT_IN:  # every command calls this, and listing installed packages takes time
        return EntryPoint(name, BUILT_IN[name], EXECUTORS)
    others = installed(EXECUTORS)
    if name in others:
        return others[name]
    if message := missing(EXECUTORS, name):
        raise UserError(f"{option('executor', name)}: {message}")
    known = [*dict.fromkeys((*BUILT_IN, *PACKAGES[EXECUTORS], *others))]
    meant = f" Did you mean {near}?" if (near := nearest(name, known)) else ""
    raise UserError(
        f"{option('executor', name)} is not known, so nothing was run. Executors: {', '.join(known)}.{meant}"
    )


def load(name: str) -> Any:
    """The class or function of an executor."""
    return load_installed(find(name), option("executor", name))
