"""Trains language models of word n-grams, one for each language, on a sample of the corpus and on files.

Interpolated modified Kneser-Ney of order up to 5 (estimate.py); words as in gristmill/kernels/ngram/cut.py. One text of
20, by a hash of the text, is held out: the bands `head`, `middle` and `tail` are the terciles of the held-out
perplexities (CCNet, Wenzek et al. 2020). Counts are sums, so the file does not depend on the order or the pieces of the
texts. `memory` bounds the sorting; the rest goes to a folder next to the model during training.
"""

import hashlib
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pyarrow as pa
from pydantic import Field, field_validator

from gristmill.counted import counted
from gristmill.errors import UserError
from gristmill.kernels.ngram.tables import HIGHEST_ORDER
from gristmill.places import place_of
from gristmill.stages.contract import AsCount, Bytes, File, Fit, LanguageName, SourceName, StageConfig
from gristmill.stages.ingest.jsonl import lines
from gristmill.stages.quality.model_kind import ModelKind, ModelTable
from gristmill.stages.quality.ngram_file import ALL, NgramModel, load, perplexities_of
from gristmill.stages.quality.texts import TEXT
from gristmill.stages.reading.archive import chunks_of
from gristmill.stages.reading.decompress import ReadFault
from gristmill.stages.reading.json_value import BOM, parsed
from gristmill.warned import Warnings
from gristmill_ngram.estimate import NgramSettings, Texts, estimate
from gristmill_ngram.kernels.counts import MOST_WORDS
from gristmill_ngram.model_file import Banded, write_models

COLUMNS = ("sampled", "side", "target", "group", "language")

HELD_OUT = 20
"""One text of this many is held out."""
LEAST_HELD_OUT = 30
"""Texts. With fewer, the bands would be random."""
_CHUNK_BYTES = 1 << 23
_MOST_RECORD = 64 << 20

Array = np.ndarray[Any, Any]
Least = Annotated[int, AsCount, Field(ge=1, le=10**9)]


class LanguageModelFields(StageConfig):
    """The settings of a language model in a recipe."""

    sources: tuple[SourceName, ...] = ()
    """Sources whose documents it learns from."""
    files: tuple[File, ...] = ()
    """Additional files that it learns from: JSON Lines with `text` (and `language`), or plain text, one text per line.
    """
    sample_bytes: Annotated[Bytes, Field(ge=1)] = 100_000_000
    """Bytes of text that are sampled from the sources; files are used whole."""
    order: Annotated[int, Field(ge=1, le=HIGHEST_ORDER)] = HIGHEST_ORDER
    """Words of the longest n-grams."""
    prune: Annotated[tuple[Least, ...], Field(min_length=1, max_length=HIGHEST_ORDER)] = (1, 1, 2)
    """How often a word, an n-gram of 2 words, of 3, ... must occur to be kept; the last number is also for longer ones.
    """
    vocab: Annotated[int, AsCount, Field(ge=1, le=MOST_WORDS)] = 1_000_000
    """Words of each language, the most frequent ones; others are unknown."""
    memory: Annotated[Bytes, Field(ge=1 << 24)] = 1_000_000_000
    """Bytes of memory for sorting; the rest is sorted on disk."""
    languages: tuple[LanguageName, ...] | None = None
    """Languages that get a model; null: all with enough documents."""
    min_documents: Annotated[int, AsCount, Field(ge=1)] = 100
    """The fewest documents for which a language gets a model."""

    @field_validator("prune")
    @classmethod
    def _rises(cls, value: tuple[int, ...]) -> tuple[int, ...]:
        if any(count > next_count for count, next_count in pairwise(value)):
            raise ValueError("an n-gram does not occur more often than its words, so the numbers must not decrease")
        return value


class Config(LanguageModelFields):
    name: str
    """The name of the model; set by the recipe's loader."""


def sides(config: Config) -> dict[str, tuple[str, ...]]:
    """The sources that it learns from, all on one side."""
    return {TEXT: config.sources}


def reads(config: Config) -> tuple[str, ...]:
    if not config.sources:  # its texts are all in files
        return ()
    return tuple(f"quality_{config.name}_text.{column}" for column in COLUMNS)


class _Spilled:
    """Texts of one language on disk."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.sizes: list[int] = []

    def add(self, text: list[bytes]) -> None:
        with open(self._path, "ab") as file:
            file.writelines(text)
        self.sizes += map(len, text)

    def chunks(self) -> Iterator[tuple[Array, Array]]:
        """Some texts at a time: bytes and offsets."""
        if not self.sizes:
            return
        with open(self._path, "rb") as file:
            bounds = [0]
            for size in [*self.sizes, None]:
                if bounds[-1] and (size is None or bounds[-1] + size > _CHUNK_BYTES):
                    yield np.frombuffer(file.read(bounds[-1]), np.uint8), np.array(bounds, np.int64)
                    bounds = [0]
                if size is not None:
                    bounds.append(bounds[-1] + size)


def fit(batches: Iterable[pa.RecordBatch], config: Config, path: Path) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix="language-model-", dir=path.parent) as folder:
        return _fit(batches, config, path, Path(folder))


def _fit(batches: Iterable[pa.RecordBatch], config: Config, path: Path, folder: Path) -> dict[str, Any]:
    spilled: dict[str, tuple[_Spilled, _Spilled]] = {}
    for language, text in _texts(batches, config):
        if language not in spilled:
            number = len(spilled)
            spilled[language] = _Spilled(folder / f"train{number}"), _Spilled(folder / f"held{number}")
        digest = int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "little")
        spilled[language][digest % HELD_OUT == 0].add([text])
    enough, left_out = {}, {}
    for language, (train, held_out) in sorted(spilled.items()):
        documents = len(train.sizes) + len(held_out.sizes)
        is_requested = config.languages is None or language in {name.lower() for name in config.languages}
        if is_requested and documents >= config.min_documents and train.sizes:
            enough[language] = train, held_out
        elif is_requested:
            left_out[language] = documents
    if not enough:
        most = max(left_out.items(), key=lambda one: one[1], default=("", 0))
        raise UserError(
            f"language model {config.name}: no language has {counted(config.min_documents, 'document')} to learn from"
            + (f" ({most[0]} has the most: {most[1]:,})" if most[1] else "")
            + ", so there is no model. Lower min_documents, or add sources or files with more text."
        )
    least = (*config.prune, *[config.prune[-1]] * HIGHEST_ORDER)[: config.order]
    settings = NgramSettings(config.order, least, config.vocab, config.memory)
    models: dict[str, Banded] = {}
    about = {}
    for language, (train, held_out) in enough.items():
        own = folder / f"model{len(models)}"
        own.mkdir()
        models[language], about[language] = _trained(train.chunks, held_out, settings, own)
    write_models(path, models)
    return {"languages": about, "left_out": left_out}


def _trained(texts: Texts, held_out: _Spilled, settings: NgramSettings, folder: Path) -> tuple[Banded, dict[str, Any]]:
    estimated = estimate(texts, settings, folder)
    write_models(folder / "alone", {ALL: (estimated, None)})
    model = load(folder / "alone")[ALL]
    perplexities = [_perplexities(model, data, offsets) for data, offsets in held_out.chunks()]
    judged = np.sort(np.concatenate([np.zeros(0), *perplexities]))
    judged = judged[~np.isnan(judged)]
    bands = None
    if len(judged) >= LEAST_HELD_OUT:
        bands = float(judged[(len(judged) - 1) // 3]), float(judged[2 * (len(judged) - 1) // 3])
    (folder / "alone").unlink()
    return (estimated, bands), {
        "words": estimated.tokens,
        "distinct_words": estimated.distinct_words,
        "vocabulary": estimated.ngrams[0],
        "ngrams": sum(estimated.ngrams),
        "held_out": len(judged),
    }


def _perplexities(model: NgramModel, data: Array, offsets: Array) -> Array:
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(data)]
    return perplexities_of(model, pa.Array.from_buffers(pa.large_string(), len(offsets) - 1, buffers))


def _texts(batches: Iterable[pa.RecordBatch], config: Config) -> Iterator[tuple[str, bytes]]:
    """Language and text of every document and of every record in the files."""
    for batch in batches:
        text, language = batch.column(0), batch.column(len(COLUMNS) - 1)
        for own, name in zip(text.drop_null(), language.filter(text.is_valid()), strict=True):
            yield (name.as_py() or ALL).lower(), own.as_buffer().to_pybytes()
    for file in config.files:
        yield from _records(file)


def _records(location: str) -> Iterator[tuple[str, bytes]]:
    """Reads JSON Lines if the first line that is not empty begins with a brace, else lines of text."""
    is_json: bool | None = None
    try:
        with place_of(location).open() as file:
            for number, (_, line) in enumerate(lines(chunks_of(file), 0, _MOST_RECORD), 1):
                if isinstance(line, ReadFault):
                    raise line
                line = line.removeprefix(BOM) if number == 1 else line
                if not line.strip():
                    continue
                is_json = line.lstrip().startswith(b"{") if is_json is None else is_json
                if not is_json:
                    line.decode()
                    yield ALL, line
                    continue
                record = parsed(line, first=False)
                if not isinstance(record.get("text"), str):
                    raise ReadFault("missing_text", f"record {number:,} has no `text`")
                language = record.get("language")
                yield (language.lower() if isinstance(language, str) and language else ALL), record["text"].encode()
    except (ReadFault, OSError, UnicodeError) as error:
        fact = f"{error.detail} ({error.reason})" if isinstance(error, ReadFault) else str(error)
        raise UserError(
            f"{location}: {fact}, so the language model cannot be trained on it. Give JSON Lines with `text`, or lines "
            "of text, in UTF-8."
        ) from None


def warnings(metrics: dict[str, Any], config: Config) -> Sequence[str]:
    messages = Warnings()
    left_out = metrics.get("left_out", {})
    if left_out:
        names = ", ".join(
            f"{name} ({many:,})" for name, many in sorted(left_out.items(), key=lambda counts: -counts[1])[:10]
        )
        messages.add(
            "no_model",
            f"languages with fewer than {counted(config.min_documents, 'document')} got no model: {names}. Their texts "
            "are not scored",
        )
    missing = sorted({name.lower() for name in config.languages or ()} - {*metrics.get("languages", {}), *left_out})
    if missing:
        messages.add("no_model", f"there are no documents in {', '.join(missing)}, so there is no model for it")
    rough = sorted(name for name, counts in metrics.get("languages", {}).items() if counts["held_out"] < LEAST_HELD_OUT)
    if rough:
        messages.add(
            "held_out",
            f"too few texts of {', '.join(rough)} are held out for the bands head, middle and tail, which need "
            f"{LEAST_HELD_OUT}, so texts get no band. Train on more text",
        )
    return messages


def explain(config: Config) -> Sequence[str]:
    return [f"order {config.order}, {config.vocab:,} words, pruned below {', '.join(map(str, config.prune))}"]


def tables(metrics: Mapping[str, Any]) -> Iterator[ModelTable]:
    """What each language has."""
    columns = {"words": "words", "vocabulary": "vocabulary", "ngrams": "n-grams", "held_out": "held-out texts"}
    yield ModelTable(
        ("language", *columns.values()),
        [
            (language, *(f"{counts[name]:,}" for name in columns))
            for language, counts in sorted(metrics.get("languages", {}).items())
        ],
    )


STAGE = Fit(
    version=3,
    config=Config,
    libraries=("unicode",),
    reads=reads,
    fit=fit,
    suffix="ngrams",
    warnings=warnings,
    explain=explain,
)
MODELS = ModelKind(fields=LanguageModelFields, module=__name__, sides=sides, tables=tables)
