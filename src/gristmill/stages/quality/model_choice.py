"""Models that a step scores with, by the name of their column: trained by the run, or existing files."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, ClassVar, Self

from pydantic import model_validator

from gristmill.stages.config_types import matching
from gristmill.stages.contract import File, StageConfig

ModelName = Annotated[str, matching(r"[a-z][a-z0-9_]{0,39}", "Use up to 40 of a-z 0-9 _ and begin with a letter")]
"""It becomes the name of a column."""


class ModelChoice(StageConfig):
    """A model of the recipe, or an existing file. Steps add what they need of it."""

    kind: ClassVar[str]
    """The field of `quality` whose models it uses."""

    trained: str | None = None
    """Its name in the recipe's field `quality`."""
    file: File | None = None
    """A file that was trained before."""

    @model_validator(mode="after")
    def _one(self) -> Self:
        if (self.trained is None) == (self.file is None):
            raise ValueError(f"a model is either trained (its name under quality.{self.kind}) or a file. Set one")
        return self

    @classmethod
    def of(cls, given: "str | Self") -> Self:
        """The choice that a recipe writes; a path alone is a file."""
        return cls(file=given) if isinstance(given, str) else given

    def path(self, models: Mapping[str, Path] | None) -> str:
        """The file of the model. `models`: those of the steps that train the models of the run."""
        path = self.file if self.trained is None else str((models or {})[step_of(self.trained)])
        assert path is not None
        return path

    @property
    def origin(self) -> str:
        """Where it is from, for a plan."""
        return f"trained on this corpus: quality.{self.kind}.{self.trained}" if self.trained else str(self.file)


def step_of(name: str) -> str:
    """The step that trains the model with this name."""
    return f"quality_{name}"


def steps_of(models: Iterable[ModelChoice]) -> tuple[str, ...]:
    """The steps that train these models."""
    return tuple(dict.fromkeys(step_of(model.trained) for model in models if model.trained is not None))
