"""Kinds of quality models: what a recipe writes for a model under `quality`, and the stage that trains it.

`classifiers` is built in. A package adds a kind by an entry point in the group `gristmill.models`: its name is the
field under `quality`, its object a `ModelKind`. Steps that score with models of that kind declare `trained="NAME"`.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from gristmill.stages.contract import StageConfig


class ModelTable(NamedTuple):
    """A table of what a training measured."""

    columns: Sequence[str]
    rows: Sequence[Sequence[str]]


@dataclass(frozen=True, kw_only=True)
class ModelKind:
    """A kind of models that a run can train."""

    fields: type[StageConfig]
    """The settings of a model in a recipe; `sample_bytes` is how much is sampled of each side."""
    module: str
    """The module whose STAGE, a `Fit`, trains a model. Its config has these settings and `name`. It reads the columns
    of `quality_NAME_text` (texts.py), or none for a model without sources, and then gets no batches."""
    sides: Callable[[Any], Mapping[str, Sequence[str]]]
    """The sources of each side, from the config."""
    tables: Callable[[Mapping[str, Any]], Iterable[ModelTable]]
    """What `gristmill quality train` shows, from the metrics of the stage."""
