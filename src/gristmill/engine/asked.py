"""What is asked of a run beside its recipe: checked before any work, and held to at its end."""

from collections.abc import Sequence

from gristmill.counted import counted
from gristmill.engine.executors.registry import BUILT_IN, PACKAGES, find
from gristmill.errors import UserError
from gristmill.hints import option
from gristmill.recipe.model import Recipe


def check_executor(executor: str | None, address: str | None, profile: str | None) -> None:
    """Whether there is an executor of that name, and whether the others are for it."""
    if executor is not None:
        find(executor)
    ours = executor is None or executor in (*BUILT_IN, *PACKAGES)  # another one may use both
    if address is not None and ours and executor != "ray":
        raise UserError(
            f"{option('address', address)} only applies to {option('executor', 'ray')}. Add that, or leave "
            f"{option('address')} out."
        )
    if profile is not None and ours and executor != "slurm":
        raise UserError(
            f"{option('profile', profile)} only applies to {option('executor', 'slurm')}. Add that, or leave "
            f"{option('profile')} out."
        )


def refuse_warnings(recipe: Recipe, warnings: Sequence[str], stored: str = "output") -> None:
    """What a strict recipe has at the end of a run in place of warnings."""
    if warnings and recipe.strict:
        raise UserError(
            f"{recipe.path}: strict is true and the run has {counted(len(warnings), 'warning')}: "
            f"{'; '.join(warnings)}. The {stored} is stored. Mend the recipe, or set strict: false."
        )
