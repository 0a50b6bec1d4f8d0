"""What a stage loads once per worker: a model, a connection, a helper program."""

import traceback
from collections.abc import Generator, Mapping
from contextlib import ExitStack
from typing import Any

from gristmill.errors import BrokenPromise
from gristmill.stages.contract import LayerStage, StageConfig

_loaded: list[tuple[tuple[LayerStage[Any], StageConfig, Mapping[str, Any]], Any]] = []
"""In this process: stage, config and models, and what the stage's `setup` returned."""
_at_the_end = ExitStack()


def with_loaded(stage: LayerStage[Any], config: StageConfig, models: Mapping[str, Any]) -> dict[str, Any]:
    """Keyword arguments of a stage's function: its models, and what the stage loaded, now or for an earlier task."""
    if stage.setup is None:
        return dict(models)
    about = (stage, config, models)
    if about not in [known for known, _ in _loaded]:
        loaded = stage.setup(config, **models)
        if isinstance(loaded, Generator):
            _at_the_end.callback(_finish, loaded)
            try:
                loaded = next(loaded)
            except StopIteration:
                raise BrokenPromise("setup yields nothing. Yield what the step gets as `loaded`.") from None
        _loaded.append((about, loaded))
    return {**models, "loaded": next(loaded for known, loaded in _loaded if known == about)}


def _finish(loaded: Generator[object, None, object]) -> None:
    for _ in loaded:
        raise BrokenPromise("setup yields twice, so what follows the second yield never runs. Yield once.")


def is_loaded() -> bool:
    """Whether this process has something to release."""
    return bool(_loaded)


def release() -> None:
    """Release everything, the newest first. A failure is printed, and changes no result: results are stored already."""
    _loaded.clear()
    try:
        _at_the_end.close()
    except Exception:
        traceback.print_exc(limit=-1)  # the line of the step that failed
