"""Perplexity of documents by language models of word n-grams (CCNet, Wenzek et al. 2020), two columns a model.

    - perplexity:
        models:
          clean: {trained: clean}                  # of the recipe's field `quality`
          wiki: {file: wiki.en.arpa, language: en} # of others
          news: news.ngrams                        # a file that was trained before

`clean` is 10 ** -(sum of the logarithms of the probabilities / number of words and ends of lines): how many words the
model wavers between. It is null where the language of a text has no model, or the text no word. `clean_band` is `head`,
`middle` or `tail`, by the terciles of texts that were held out when the model was trained, or null. Low is like
the text that the model learned from, and nothing else: docs/perplexity.md. The stage writes no verdict.
"""

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
from gristmill.stages.quality.ngram_file import ALL, MAGIC, Language
from gristmill.stages.quality.quality import ModelName, step_of

"""The field of `quality` whose models it takes."""
BANDS = ("head", "middle", "tail")

Array = np.ndarray[Any, Any]


class ModelFile(StageConfig):
    """A model of the recipe, or one that exists."""

    trained: str | None = None
    """Its name under quality.language_models."""
    file: File | None = None
    """A file that was trained before, or an ARPA file."""
    language: LanguageName | None = None
    """Only documents in this language are scored; an ARPA file without it scores all."""

    @model_validator(mode="after")
    def _one(self) -> "ModelFile":
        if (self.trained is None) == (self.file is None):
            raise ValueError("a model is either trained (its name under quality.language_models) or a file. Write one")
        return self


class Config(StageConfig):
    models: Annotated[dict[ModelName, File | ModelFile], Field(min_length=1, max_length=32)]
    """Models by the name of their column: the path of a file, or `file` and `language`, or `trained`; 32 at most."""

    @model_validator(mode="after")
    def _columns_differ(self) -> "Config":
        for name in self.models:
            if f"{name}_band" in self.models:
                raise ValueError(f"{name}_band is the column of the band of {name}. Give that model another name")
        return self


def _model(given: str | ModelFile) -> ModelFile:
    return ModelFile(file=given) if isinstance(given, str) else given


def uses(config: Config) -> tuple[str, ...]:
    models = map(_model, config.models.values())
    return tuple(dict.fromkeys(step_of(model.trained) for model in models if model.trained is not None))


def schema(config: Config) -> pa.Schema:
    return pa.schema(
        [field for name in config.models for field in ((name, pa.float32()), (f"{name}_band", pa.string()))]
    )


def check(config: Config) -> None:
    """Files are models, and have the language."""
    for name, given in config.models.items():
        model = _model(given)
        if model.file is not None:
            _languages(model.file, model, f"models.{name}")


def _languages(path: str, model: ModelFile, field: str) -> dict[str, Language]:
    """The models of a file by the languages whose texts they score."""
    wanted = model.language.lower() if model.language else None
    if not _is_ours(path):
        return {wanted or ALL: ngram_arpa.read_arpa(path)}
    found = ngram_file.load(path).languages
    if wanted is None:
        return found
    one = found.get(wanted, found.get(ALL) if len(found) == 1 else None)
    if one is None:
        raise WrongSetting(
            field, f"{path} has no model for {wanted}, so nothing would be scored. It has: {', '.join(sorted(found))}."
        )
    return {wanted: one}


def _is_ours(path: str) -> bool:
    """Whether a file is one of ours; one that is not there is told by who opens it."""
    if not os.path.isfile(path):
        return True
    with open(path, "rb") as file:
        return file.read(len(MAGIC)) == MAGIC


def apply(batch: pa.RecordBatch, config: Config, models: Mapping[str, Path] | None = None) -> pa.RecordBatch:
    text = batch.column("text")
    labels = batch.column(LABEL) if LABEL in batch.schema.names else pa.nulls(len(text), pa.string())
    columns: list[pa.Array] = []
    for name, given in config.models.items():
        model = _model(given)
        path = model.file if model.trained is None else str((models or {})[step_of(model.trained)])
        assert path is not None
        columns += _scored(text, labels, _languages(path, model, f"models.{name}"))
    return pa.RecordBatch.from_arrays(columns, schema=schema(config))


def _scored(text: pa.Array, labels: pa.Array, models: Mapping[str, Language]) -> list[pa.Array]:
    """Perplexities and bands. A model for `all` scores texts whose language is not known; all texts, if it is alone."""
    found = np.full(len(text), np.nan)
    band = np.full(len(text), -1, np.int8)
    names = labels.fill_null(ALL).to_pylist()
    for language, model in models.items():
        is_all = language == ALL and len(models) == 1
        rows = np.flatnonzero(np.array([is_all or name.lower() == language for name in names], np.bool_))
        if not len(rows):
            continue
        scores = ngram_file.perplexities_of(model, text.take(pa.array(rows)))
        found[rows] = scores
        if model.bands is not None:
            band[rows] = np.where(np.isnan(scores), -1, np.searchsorted(model.bands, scores, side="left"))
    return [
        pa.array(found.astype(np.float32), mask=np.isnan(found)),
        pa.array(BANDS, pa.string()).take(pa.array(band, mask=band < 0)),
    ]


def metrics(batch: pa.RecordBatch, answers: pa.RecordBatch, config: Config) -> dict[str, Any]:
    """Documents that each model scored, by band, and those that it did not, by language."""
    scored, unscored, bands = {}, {}, {}
    labels = batch.column(LABEL) if LABEL in batch.schema.names else pa.nulls(batch.num_rows, pa.string())
    for name in config.models:
        missing = answers[name].is_null()
        scored[name] = len(answers) - answers[name].null_count
        lost = labels.filter(missing).fill_null(ALL).value_counts().to_pylist()
        unscored[name] = {one["values"]: one["counts"] for one in lost}
        seen = answers[f"{name}_band"].drop_null().value_counts().to_pylist()
        bands[name] = {one["values"]: one["counts"] for one in seen}
    return {"scored": scored, "unscored": unscored, "bands": bands}


def warnings(found: Mapping[str, Any], config: Config) -> Sequence[str]:
    """Models that said nothing, and languages that they say nothing of."""
    told = []
    for name in config.models:
        lost = found.get("unscored", {}).get(name, {})
        if not lost:
            continue
        most = ", ".join(f"{one} ({many:,})" for one, many in sorted(lost.items(), key=lambda pair: -pair[1])[:8])
        if not found.get("scored", {}).get(name):
            told.append(f"{name} scored no document: it has no model for their languages, or they have no word: {most}")
        elif set(lost) - {ALL}:
            told.append(f"{name} has no model for some languages, or texts have no word, and did not score: {most}")
    return told


def explain(config: Config) -> Sequence[str]:
    """Where each model comes from."""
    told = []
    for name, given in config.models.items():
        model = _model(given)
        source = f"trained on this corpus: quality.language_models.{model.trained}" if model.trained else model.file
        told.append(f"{name}: {source}" + (f", language {model.language}" if model.language else ""))
    return told


STAGE = Map(
    version=2,
    config=Config,
    libraries=("unicode",),
    reads=("text",),
    may_read=(LABEL,),
    only_kept=True,
    uses=uses,
    trained="language_models",
    schema=schema,
    apply=apply,
    metrics=metrics,
    check=check,
    warnings=warnings,
    explain=explain,
)
