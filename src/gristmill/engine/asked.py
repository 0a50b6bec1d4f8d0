"""What is asked of a run beside its recipe: checked before any work, and held to at its end."""

from collections.abc import Sequence

from gristmill.counted import counted
from gristmill.engine.mill import EXECUTORS
from gristmill.errors import UserError
from gristmill.recipe.mistakes import nearest
from gristmill.recipe.model import Recipe


def check_executor(executor: str | None, address: str | None, profile: str | None) -> None:
    """Whether there is an executor of that name, and whether the others are for it."""
    if executor is not None and executor not in EXECUTORS:
        near = nearest(executor, EXECUTORS)
        meant = f" Did you mean {near}?" if near else ""
        raise UserError(
            f"--executor {executor} is not known, so nothing was run. Executors: {', '.join(EXECUTORS)}.{meant}"
        )
    if address is not None and executor != "ray":
        raise UserError(f"--address {address} names a Ray cluster, which nothing is to run on. Add --executor ray.")
    if profile is not None and executor != "slurm":
        raise UserError(
            f"--profile {profile} says how Slurm is asked for jobs, and this run is not. Add --executor slurm."
        )


def refuse_warnings(recipe: Recipe, warnings: Sequence[str], stored: str = "output") -> None:
    """What a strict recipe has at the end of a run in place of warnings."""
    if warnings and recipe.strict:
        raise UserError(
            f"{recipe.path}: strict is true and the run has {counted(len(warnings), 'warning')}: "
            f"{'; '.join(warnings)}. The {stored} is stored. Mend the recipe, or set strict: false."
        )
