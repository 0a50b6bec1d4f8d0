"""Scores documents with fastText classifiers (Joulin et al. 2016), one column for each.

    - quality:
        models:
          edu: {trained: edu}                     # a classifier from the recipe's field `quality`
          dclm: {file: dclm.bin, label: hq}       # from elsewhere: the probability of one label
          judge: judge.ftz                        # labels are numbers, such as 0 to 5: their mean, by probability

A score equals that of the fastText library for the same text with newlines replaced by spaces, to 1e-4. It is null if
the model knows no word of the text. The step drops nothing: the selection (`keep_quality`) reads its columns, so
another cutoff scores nothing again.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pyarrow as pa
from pydantic import Field

from gristmill.errors import WrongSetting
from gristmill.stages.contract import Bytes, File, Map, StageConfig
from gristmill.stages.quality.model_choice import ModelChoice, ModelName, steps_of
from gristmill.stages.shared import fasttext_model
from gristmill.stages.shared.fasttext_model import MOST_LABELS

HIGH = "high"
"""The label of good text in our own classifiers."""
_LABEL = "__label__"

Array = np.ndarray[Any, Any]


class ClassifierModel(ModelChoice):
    """A classifier of the recipe, or a supervised fastText model, .bin or .ftz."""

    kind = "classifiers"

    label: str | None = None
    """The label whose probability is the score, with or without `__label__`; null: `high`, as in our own classifiers,
    or the mean of labels that are numbers."""


class Config(StageConfig):
    models: Annotated[dict[ModelName, File | ClassifierModel], Field(min_length=1, max_length=32)]
    """Classifiers by the name of their column: the path of a fastText model, `file` and `label`, or `trained`; up to
    32."""
    max_bytes: Annotated[Bytes, Field(gt=0)] | None = None
    """Bytes of each text that are read, from its start, cut between characters; null: all, as the library does."""


def _models(config: Config) -> dict[str, ClassifierModel]:
    return {name: ClassifierModel.of(given) for name, given in config.models.items()}


def uses(config: Config) -> tuple[str, ...]:
    return steps_of(_models(config).values())


def schema(config: Config) -> pa.Schema:
    return pa.schema([(name, pa.float32()) for name in config.models])


def ranges(config: Config) -> dict[str, tuple[float, float]]:
    """The probability of a label, or a mean of labels that are numbers of up to three digits."""
    return dict.fromkeys(config.models, (0, 1000))


def check(config: Config) -> None:
    """Checks that the files are models and have the label."""
    for name, model in _models(config).items():
        if model.file is not None:
            field = f"models.{name}" if isinstance(config.models[name], str) else f"models.{name}.label"
            _weights(fasttext_model.load(model.file).labels, model, field)


def _weights(labels: Sequence[str], model: ClassifierModel, field: str) -> Array:
    """The weight of each label's probability in the score."""
    where = model.file or f"the model {model.trained}"
    if len(labels) > MOST_LABELS:
        raise WrongSetting(
            field,
            f"{where} has {len(labels):,} labels, but a quality classifier has at most {MOST_LABELS}. Give a model "
            "that was trained to separate good texts from others.",
        )
    chosen = (model.label or HIGH).removeprefix(_LABEL)
    if chosen in labels:
        return np.array([float(label == chosen) for label in labels])
    if model.label is None and all(label.isdecimal() and len(label) < 4 for label in labels):
        return np.array([float(label) for label in labels])
    fact = f"has no label {chosen}" if model.label else "has no label high, and its labels are not scores"
    raise WrongSetting(
        field,
        f"{where} {fact}, so there would be no score. Write {{file: ..., label: NAME}}. Its labels: "
        f"{', '.join(labels[:20])}{f' and {len(labels) - 20} more' if len(labels) > 20 else ''}.",
    )


def apply(batch: pa.RecordBatch, config: Config, models: Mapping[str, Path] | None = None) -> pa.RecordBatch:
    columns = []
    for model in _models(config).values():
        classifier = fasttext_model.load(model.path(models))
        weights = _weights(classifier.labels, model, "models")
        columns.append(fasttext_model.scores(classifier, batch.column("text"), weights, config.max_bytes))
    return pa.RecordBatch.from_arrays(columns, schema=schema(config))


def metrics(batch: pa.RecordBatch, answers: pa.RecordBatch, config: Config) -> dict[str, Any]:
    """The number of documents that each model scored, and of those that it could not score."""
    return {
        "scored": {name: len(answers) - answers[name].null_count for name in config.models},
        "unscored": {name: answers[name].null_count for name in config.models},
    }


def warnings(counts: Mapping[str, Any], config: Config) -> Sequence[str]:
    scored, unscored = counts.get("scored", {}), counts.get("unscored", {})
    idle = [name for name in config.models if not scored.get(name) and unscored.get(name)]
    if not idle:
        return ()
    return [f"{', '.join(idle)} scored no documents: the model knows none of their words"]


def explain(config: Config) -> Sequence[str]:
    return [
        f"{name}: {model.origin}" + (f", label {model.label}" if model.label else "")
        for name, model in _models(config).items()
    ]


STAGE = Map(
    version=1,
    config=Config,
    reads=("text",),
    only_kept=True,
    uses=uses,
    trained=ClassifierModel.kind,
    schema=schema,
    ranges=ranges,
    apply=apply,
    metrics=metrics,
    check=check,
    warnings=warnings,
    explain=explain,
)
