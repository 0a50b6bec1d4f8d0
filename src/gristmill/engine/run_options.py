"""Checks the options of a run before any work, and enforces `strict` at its end."""

from collections.abc import Sequence

from gristmill.counted import counted
from gristmill.engine.executors.registry import BUILT_IN, find
from gristmill.errors import UserError
from gristmill.hints import option
from gristmill.installed import EXECUTORS, PACKAGES
from gristmill.recipe.model import Recipe


def check_executor(executor: str | None, address: str | None, profile: str | None) -> None:
    """Check that the executor exists, and that the other options apply to it."""
    if executor is not None:
        find(executor)
    ours = executor in (None, *BUILT_IN, *PACKAGES[EXECUTORS])  # an executor of another package may use both
    if address is not None and ours and executor != "ray":
        raise UserError(
            f"{option('address', address)} only applies to {option('executor', 'ray')}. Add that, or omit "
            f"{option('address')}."
        )
    if profile is not None and ours and executor != "slurm":
        raise UserError(
            f"{option('profile', profile)} only applies to {option('executor', 'slurm')}. Add that, or omit "
            f"{option('profile')}."
        )


def refuse_warnings(recipe: Recipe, warnings: Sequence[str], stored: str = "output") -> None:
    """Raise UserError if the recipe is strict and the run has warnings."""
    if warnings and recipe.strict:
        raise UserError(
            f"{recipe.path}: strict is true and the run has {counted(len(warnings), 'warning')}: "
            f"{'; '.join(warnings)}. The {stored} is stored. Fix the recipe, or set strict: false."
        )
