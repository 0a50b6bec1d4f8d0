"""Scores of documents by fastText classifiers (Joulin et al. 2016), side by side, a column for each.

    - quality:
        models:
          edu: {trained: edu}                     # of the recipe's field `quality`
          dclm: {file: dclm.bin, label: hq}       # of others: the probability of one label
          judge: judge.ftz                        # labels are numbers, such as 0 to 5: the mean, by their probability

A score is what the fastText library says of the same text with newlines replaced by spaces, to 1e-4. It is null where a
text has no word that the model knows. The stage writes no verdict: what is kept is a selection over its columns
(`keep_quality`), so that another cutoff scores nothing again.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pyarrow as pa
from pydantic import Field, model_validator

from gristmill.errors import WrongSetting
from gristmill.stages.contract import Bytes, File, Map, StageConfig
from gristmill.stages.shared import fasttext_model
from gristmill.stages.shared.fasttext_model import MOST_LABELS

"""The field of `quality` whose models it takes."""

HIGH = "high"
"""What our own classifiers call good text."""
_LABEL = "__label__"

Array = np.ndarray[Any, Any]
ModelName = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]{0,39}$")]
"""It becomes the name of a column."""


class ModelFile(StageConfig):
    """A classifier of the recipe, or one that exists."""

    trained: str | None = None
    """Its name under quality.classifiers."""
    file: File | None = None
    """A supervised fastText model, .bin or .ftz."""
    label: str | None = None
    """The label whose probability is the score, with or without `__label__`; null: `high`, as our own have it, or the
    mean of labels that are numbers."""

    @model_validator(mode="after")
    def _one(self) -> "ModelFile":
        if (self.trained is None) == (self.file is None):
            raise ValueError("a model is either trained (its name under quality.classifiers) or a file. Write one")
        return self


class Config(StageConfig):
    models: Annotated[dict[ModelName, File | ModelFile], Field(min_length=1, max_length=32)]
    """Classifiers by the name that their column has: the path of a fastText model, or `file` and `label`, or `trained`.
    Up to 32."""
    max_bytes: Annotated[Bytes, Field(gt=0)] | None = None
    """Bytes of each text that are read, from its start, cut between characters; null: all, as the library does."""


def _model(given: str | ModelFile) -> ModelFile:
    return ModelFile(file=given) if isinstance(given, str) else given


def step_of(name: str) -> str:
    """The step that trains the model of that name."""
    return f"quality_{name}"


def uses(config: Config) -> tuple[str, ...]:
    models = map(_model, config.models.values())
    return tuple(dict.fromkeys(step_of(model.trained) for model in models if model.trained is not None))


def schema(config: Config) -> pa.Schema:
    return pa.schema([(name, pa.float32()) for name in config.models])


def check(config: Config) -> None:
    """Files are models that have the label."""
    for name, given in config.models.items():
        model = _model(given)
        if model.file is not None:
            field = f"models.{name}" if isinstance(given, str) else f"models.{name}.label"
            _weights(fasttext_model.load(model.file).labels, model, field)


def _weights(labels: Sequence[str], model: ModelFile, field: str) -> Array:
    """What the probability of each label counts in the score."""
    where = model.file or f"the model {model.trained}"
    if len(labels) > MOST_LABELS:
        raise WrongSetting(
            field,
            f"{where} has {len(labels):,} labels, and a classifier of quality has at most {MOST_LABELS}. Give one that "
            "was trained to tell good texts from others.",
        )
    wanted = (model.label or HIGH).removeprefix(_LABEL)
    if wanted in labels:
        return np.array([float(label == wanted) for label in labels])
    if model.label is None and all(label.isdecimal() and len(label) < 4 for label in labels):
        return np.array([float(label) for label in labels])
    fact = f"has no label {wanted}" if model.label else "does not say which of its labels is good"
    raise WrongSetting(
        field,
        f"{where} {fact}, so there would be no score. Write {{file: ..., label: NAME}}. Its labels: "
        f"{', '.join(labels[:20])}{f' and {len(labels) - 20} more' if len(labels) > 20 else ''}.",
    )


def apply(batch: pa.RecordBatch, config: Config, models: Mapping[str, Path] | None = None) -> pa.RecordBatch:
    columns = []
    for given in config.models.values():
        model = _model(given)
        path = model.file if model.trained is None else str((models or {})[step_of(model.trained)])
        assert path is not None
        columns.append(_scores(batch.column("text"), path, model, config.max_bytes))
    return pa.RecordBatch.from_arrays(columns, schema=schema(config))


def _scores(text: pa.Array, path: str, model: ModelFile, max_bytes: int | None) -> pa.Array:
    found = fasttext_model.load(path)
    return fasttext_model.scores(found, text, _weights(found.labels, model, "models"), max_bytes)


def metrics(batch: pa.RecordBatch, answers: pa.RecordBatch, config: Config) -> dict[str, Any]:
    """Documents that each model scored, and those that it could say nothing of."""
    return {
        "scored": {name: len(answers) - answers[name].null_count for name in config.models},
        "unscored": {name: answers[name].null_count for name in config.models},
    }


def warnings(found: Mapping[str, Any], config: Config) -> Sequence[str]:
    """Models that said nothing."""
    scored, unscored = found.get("scored", {}), found.get("unscored", {})
    idle = [name for name in config.models if not scored.get(name) and unscored.get(name)]
    if not idle:
        return ()
    return [f"{', '.join(idle)} scored no document: not one has a word that the model knows"]


def explain(config: Config) -> Sequence[str]:
    """Where each score comes from."""
    told = []
    for name, given in config.models.items():
        model = _model(given)
        source = f"trained on this corpus: quality.classifiers.{model.trained}" if model.trained else str(model.file)
        told.append(f"{name}: {source}" + (f", label {model.label}" if model.label else ""))
    return told


STAGE = Map(
    version=1,
    config=Config,
    reads=("text",),
    only_kept=True,
    uses=uses,
    trained="classifiers",
    schema=schema,
    apply=apply,
    metrics=metrics,
    check=check,
    warnings=warnings,
    explain=explain,
)
