"""What one task of a stage needs while it runs."""

from collections.abc import Iterable
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

from pydantic import Field, model_validator

from gristmill.counted import counted, size
from gristmill.stages.config_types import Bytes, StageConfig


def refuse_unknown(kind: str, given: Iterable[str], known: Iterable[str]) -> None:
    """Raise TypeError, with the nearest field, for a name that is not one."""
    for name in set(given) - set(known):
        near = get_close_matches(name, known, 1)
        hint = f"Did you mean {near[0]}?" if near else f"Fields: {', '.join(known)}"
        raise TypeError(f"{kind} has no field {name}. {hint}")


class Resources(StageConfig):
    """What one task of a stage needs while it runs. It is in no task key."""

    memory: Bytes = 0
    """Total memory of the worker in bytes: the model, the batch, and 250 MB for Python. 0: the engine estimates it."""
    cores: int = Field(default=1, ge=1)
    """CPU cores. A task gets at most the cores of one machine, or the run's `workers`."""
    gpus: int = Field(default=0, ge=0)
    """Whole GPUs. No other task uses them at the same time."""

    if TYPE_CHECKING:

        def __init__(self, *, memory: int | str = 0, cores: int = 1, gpus: int = 0) -> None: ...

    @model_validator(mode="before")
    @classmethod
    def _has_only_fields(cls, given: dict[str, Any]) -> dict[str, Any]:
        refuse_unknown(cls.__name__, given, cls.model_fields)
        return given

    def __str__(self) -> str:
        shown = [f"{size(self.memory)} of memory"] if self.memory else []
        shown += [counted(self.cores, "core")] if self.cores > 1 else []
        return ", ".join([*shown, *([counted(self.gpus, "GPU")] if self.gpus else [])]) or "1 core"
