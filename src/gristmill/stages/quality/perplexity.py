"""Perplexity of documents by language models of word n-grams (CCNet, Wenzek et al. 2020), two columns per model.

    - perplexity:
        models:
          clean: {trained: clean}                  # a model from the recipe's field `quality`
          wiki: {file: wiki.en.arpa, language: en} # a model from elsewhere
          news: news.ngrams                        # a file that was trained before

`clean` is 10 ** -(sum of the base 10 logarithms of the probabilities / number of words and line ends): between how many
words the model hesitates. It is null if there is no model for the language of a text, or if the text has no word.
`clean_band` is `head`, `middle` or `tail`, by the terciles of the texts that were held out in training, or null. Low
means similar to the training text, and nothing else: docs/perplexity.md. The step drops nothing.
"""

import math
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pyarrow as pa
from pydantic import Field, model_validator

from gristmill.errors import WrongSetting
from gristmill.stages.contract import File, LanguageName, Map, StageConfig
from gristmill.stages.natural_languages import LABEL
from gristmill.stages.quality import ngram_arpa, ngram_file
from gristmill.stages.quality.model_choice import ModelChoice, ModelName, steps_of
from gristmill.stages.quality.ngram_file import ALL, MAGIC, NgramModel
from gristmill.stages.shared.counting import counts_of
from gristmill.warned import Warnings

BANDS = ("head", "middle", "tail")

Array = np.ndarray[Any, Any]


class LanguageModel(ModelChoice):
    """A model of the recipe, or a file that was trained before, or an ARPA file."""

    kind = "language_models"

    language: LanguageName | None = None
    """Only documents in this language are scored; an ARPA file without it scores all."""


class Config(StageConfig):
    models: Annotated[dict[ModelName, File | LanguageModel], Field(min_length=1, max_length=32)]
    """Models by the name of their column: the path of a file, or `file` and `language`, or `trained`; 32 at most."""

    @model_validator(mode="after")
    def _columns_differ(self) -> "Config":
        for name in self.models:
            if f"{name}_band" in self.models:
                raise ValueError(f"{name}_band is already the column of {name}'s band. Rename one of the models")
        return self


def _models(config: Config) -> dict[str, LanguageModel]:
    return {name: LanguageModel.of(given) for name, given in config.models.items()}


def uses(config: Config) -> tuple[str, ...]:
    return steps_of(_models(config).values())


def schema(config: Config) -> pa.Schema:
    return pa.schema(
        [field for name in config.models for field in ((name, pa.float32()), (f"{name}_band", pa.string()))]
    )


def ranges(config: Config) -> dict[str, tuple[float, float]]:
    return dict.fromkeys(config.models, (0, math.inf))


def check(config: Config) -> None:
    """Checks that the files are models and have the language."""
    for name, model in _models(config).items():
        if model.file is not None:
            _languages(model.file, model, f"models.{name}")


def _languages(path: str, model: LanguageModel, field: str) -> Mapping[str, NgramModel]:
    """The models of a file by the languages whose texts they score."""
    language = model.language.lower() if model.language else None
    if not _is_ours(path):
        return {language or ALL: ngram_arpa.read_arpa(path)}
    models = ngram_file.load(path)
    if language is None:
        return models
    chosen = models.get(language, models.get(ALL) if len(models) == 1 else None)
    if chosen is None:
        names = ", ".join(sorted(models))
        raise WrongSetting(field, f"{path} has no model for {language}, so nothing would be scored. It has: {names}.")
    return {language: chosen}


def _is_ours(path: str) -> bool:
    """Whether a file is one of ours. A missing file is reported when it is opened."""
    if not os.path.isfile(path):
        return True
    with open(path, "rb") as file:
        return file.read(len(MAGIC)) == MAGIC


def apply(batch: pa.RecordBatch, config: Config, models: Mapping[str, Path] | None = None) -> pa.RecordBatch:
    text = batch.column("text")
    labels = batch.column(LABEL) if LABEL in batch.schema.names else pa.nulls(len(text), pa.string())
    columns: list[pa.Array] = []
    for name, model in _models(config).items():
        columns += _scored(text, labels, _languages(model.path(models), model, f"models.{name}"))
    return pa.RecordBatch.from_arrays(columns, schema=schema(config))


def _scored(text: pa.Array, labels: pa.Array, models: Mapping[str, NgramModel]) -> list[pa.Array]:
    """Perplexities and bands. A model for `all` scores texts of unknown language; if it is the only one, all texts."""
    values = np.full(len(text), np.nan)
    band = np.full(len(text), -1, np.int8)
    names = labels.fill_null(ALL).to_pylist()
    for language, model in models.items():
        is_all = language == ALL and len(models) == 1
        rows = np.flatnonzero(np.array([is_all or name.lower() == language for name in names], np.bool_))
        if not len(rows):
            continue
        scores = ngram_file.perplexities_of(model, text.take(pa.array(rows)))
        values[rows] = scores
        if model.bands is not None:
            band[rows] = np.where(np.isnan(scores), -1, np.searchsorted(model.bands, scores, side="left"))
    return [
        pa.array(values.astype(np.float32), mask=np.isnan(values)),
        pa.array(BANDS, pa.string()).take(pa.array(band, mask=band < 0)),
    ]


def metrics(batch: pa.RecordBatch, answers: pa.RecordBatch, config: Config) -> dict[str, Any]:
    """The number of documents that each model scored, by band, and of those that it did not, by language."""
    scored, unscored, bands = {}, {}, {}
    labels = batch.column(LABEL) if LABEL in batch.schema.names else pa.nulls(batch.num_rows, pa.string())
    for name in config.models:
        missing = answers[name].is_null()
        scored[name] = len(answers) - answers[name].null_count
        unscored[name] = counts_of(labels.filter(missing).fill_null(ALL))
        bands[name] = counts_of(answers[f"{name}_band"])
    return {"scored": scored, "unscored": unscored, "bands": bands}


def warnings(counts: Mapping[str, Any], config: Config) -> Sequence[str]:
    messages = Warnings()
    for name in config.models:
        lost = counts.get("unscored", {}).get(name, {})
        if not lost:
            continue
        most = ", ".join(
            f"{language} ({many:,})" for language, many in sorted(lost.items(), key=lambda pair: -pair[1])[:8]
        )
        if not counts.get("scored", {}).get(name):
            messages.add("no_effect", f"{name} scored no documents: no model for their languages, or no words: {most}")
        elif set(lost) - {ALL}:
            messages.add(
                "unscored", f"{name} did not score some documents (no model for their language, or no words): {most}"
            )
    return messages


def explain(config: Config) -> Sequence[str]:
    return [
        f"{name}: {model.origin}" + (f", language {model.language}" if model.language else "")
        for name, model in _models(config).items()
    ]


STAGE = Map(
    version=2,
    config=Config,
    libraries=("unicode",),
    reads=("text",),
    may_read=(LABEL,),
    only_kept=True,
    uses=uses,
    trained=LanguageModel.kind,
    schema=schema,
    ranges=ranges,
    apply=apply,
    metrics=metrics,
    check=check,
    warnings=warnings,
    explain=explain,
)
