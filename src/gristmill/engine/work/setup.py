"""What a stage loads once in each worker: a model, a connection, a program beside it."""

import traceback
from collections.abc import Generator, Mapping
from contextlib import ExitStack
from types import ModuleType
from typing import Any

from gristmill.stages.contract import StageConfig
from gristmill.stages.stage_interface import has_setup

_loaded: list[tuple[tuple[ModuleType, StageConfig, Mapping[str, Any]], Any]] = []
"""Of this process: module, config and models of a stage, and what its `setup` gave."""
_at_the_end = ExitStack()


def with_loaded(module: ModuleType, config: StageConfig, models: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments that a verb gets by name: its models, and what the stage loaded, now or for an earlier task."""
    if not has_setup(module):
        return dict(models)
    about = (module, config, models)
    if about not in [known for known, _ in _loaded]:
        made = module.setup(config, **models)
        if isinstance(made, Generator):
            _at_the_end.callback(next, made, None)
            try:
                made = next(made)
            except StopIteration:
                raise TypeError("setup yields nothing: yield what the step gets as `loaded`") from None
        _loaded.append((about, made))
    return {**models, "loaded": next(loaded for known, loaded in _loaded if known == about)}


def is_loaded() -> bool:
    """Whether this process has something to release."""
    return bool(_loaded)


def release() -> None:
    """Release everything, the newest first. A failure is shown, and changes no result: those are stored."""
    _loaded.clear()
    try:
        _at_the_end.close()
    except Exception:
        traceback.print_exc(limit=-1)  # the line of the step that failed
