"""The file of language models: one for each language, memory-mapped, so that all processes of a machine share it.

    8 bytes     the magic
    8 bytes     the size of the header
    32 bytes    the sha256 of the header
    header      JSON: by language its orders, the shape of its tables, the bounds of its bands, and its sections
    sections    each aligned to 64 bytes, with its sha256 in the header

Sections of a language: `slots`, the tables that texts are scored with (kernels/ngram/tables.py); `words` and `offsets`,
the vocabulary; `grams2` and so on, from which n-grams can be written: pairs of the n-gram without its first word, as an
index into the list of n-grams that are one word shorter, and that word. Everything is checked before it is used.
"""

import hashlib
import os
from collections.abc import Mapping
from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import orjson
import pyarrow as pa

from gristmill.errors import UserError, cause_of
from gristmill.kernels.ngram.counts import FIRST_WORD, HIGHEST_ORDER, MOST_WORDS
from gristmill.kernels.ngram.cut import cut_tables
from gristmill.kernels.ngram.score import perplexities, score, scratch
from gristmill.kernels.ngram.tables import LEAST_WALK, LONGEST_WALK, Tables
from gristmill.kernels.ngram.vocabulary import hash_strings
from gristmill.stages.buffers import text_spans
from gristmill.stages.quality.ngram_train import SPECIAL, Estimate

Array = np.ndarray[Any, Any]

MAGIC = b"GMNGRAM1"
ALL = "all"
"""The language of texts without one."""
_ALIGNED = 64
_MOST_HEADER = 1 << 24
_MOST_LANGUAGES = 10_000


class Language(NamedTuple):
    """The model of one language."""

    ngrams: tuple[int, ...]
    """The number of n-grams of each order."""
    tables: Tables
    words: Array
    """uint8: the concatenated words by number, from <unk> on."""
    offsets: Array
    """int64: where each word begins, and the end."""
    grams: tuple[Array, ...]
    """From order 2 on: uint32, [n-grams, 2]. Empty for a model from an ARPA file."""
    bands: tuple[float, float] | None
    """Perplexities up to the first are `head`, up to the second `middle`."""

    @property
    def order(self) -> int:
        return len(self.ngrams)


class NgramModel(NamedTuple):
    path: str
    languages: dict[str, Language]

    def language(self, name: str) -> Language:
        if name not in self.languages:
            raise UserError(
                f"{self.path} has no language model for {name}. It has: {', '.join(sorted(self.languages))}"
            )
        return self.languages[name]


def special_hashes() -> Array:
    """The hashes of <unk>, <s> and </s>, as in the tables."""
    data = "".join(SPECIAL).encode()
    return hash_strings(np.frombuffer(data, np.uint8), np.cumsum([0, *map(len, SPECIAL)]))


def score_texts(language: Language, text: pa.Array) -> Array:
    """The result of `kernels.ngram.score` for each text, one row each; zeros for a null."""
    return score(*text_spans(text), language.tables, cut_tables(), scratch())


def perplexities_of(language: Language, text: pa.Array) -> Array:
    """The perplexity of each text, float64; NaN if it has no word."""
    return perplexities(score_texts(language, text))


def write(path: Path, models: Mapping[str, tuple[Estimate, tuple[float, float] | None]]) -> None:
    """Writes one file with the models of several languages, whose parts are in scratch files."""
    header: dict[str, Any] = {"languages": {}}
    sources: list[tuple[Path | bytes, dict[str, Any]]] = []
    at = 0
    for name, (model, bands) in sorted(models.items()):
        parts: dict[str, Path | bytes] = {"slots": model.slots, "words": model.words}
        parts["offsets"] = model.offsets.astype("<i8").tobytes()
        parts |= {f"grams{order}": gram for order, gram in enumerate(model.grams, 2)}
        sections = {}
        for part, source in parts.items():
            size = len(source) if isinstance(source, bytes) else source.stat().st_size
            sections[part] = {"at": at, "bytes": size, "sha256": _hash_of(source)}
            sources.append((source, sections[part]))
            at += -(-size // _ALIGNED) * _ALIGNED
        header["languages"][name] = {
            "ngrams": model.ngrams,
            "shape": model.shape,
            "bands": bands,
            "sections": sections,
        }
    encoded = orjson.dumps(header)
    begin = -(-(48 + len(encoded)) // _ALIGNED) * _ALIGNED
    with open(path, "wb") as file:
        file.write(MAGIC + len(encoded).to_bytes(8, "little") + hashlib.sha256(encoded).digest() + encoded)
        for source, section in sources:
            file.write(bytes(begin + section["at"] - file.tell()))
            for chunk in _chunks(source):
                file.write(chunk)
        file.write(bytes(begin + at - file.tell()))


def _chunks(source: Path | bytes) -> Any:
    if isinstance(source, bytes):
        yield source
        return
    with open(source, "rb") as file:
        while chunk := file.read(1 << 22):
            yield chunk


def _hash_of(source: Path | bytes) -> str:
    found = hashlib.sha256()
    for chunk in _chunks(source):
        found.update(chunk)
    return found.hexdigest()


def load(path: str | os.PathLike[str]) -> NgramModel:
    """The models in a local file, cached for the process as long as the file does not change."""
    path = os.fspath(path)
    try:
        status = os.stat(path)
        return _load(path, status.st_size, status.st_mtime_ns)
    except OSError as error:
        raise UserError(f"{path}: {cause_of(error)}, so no text can be scored. Check the path.") from error


@lru_cache(maxsize=8)
def _load(path: str, size: int, _mtime_ns: int) -> NgramModel:
    if size < 48:
        raise _wrong(path, f"it has {size} bytes and is not a file of language models")
    data: Array = np.memmap(path, np.uint8, "r").view(np.ndarray)
    if data[:8].tobytes() != MAGIC:
        raise _wrong(path, "it is not a file of language models")
    length = int.from_bytes(data[8:16].tobytes(), "little")
    if not 0 < length <= min(_MOST_HEADER, size - 48):
        raise _wrong(path, f"its header cannot have {length:,} bytes")
    encoded = data[48 : 48 + length].tobytes()
    if hashlib.sha256(encoded).digest() != data[16:48].tobytes():
        raise _wrong(path, "its header is damaged")
    begin = -(-(48 + length) // _ALIGNED) * _ALIGNED
    try:
        entries = orjson.loads(encoded)["languages"]
        if not isinstance(entries, dict) or not 0 < len(entries) <= _MOST_LANGUAGES:
            raise ValueError("languages")
        _refuse_overlaps(entries)
        found = {name: _language(data[begin:], entry) for name, entry in entries.items()}
    except (AttributeError, KeyError, TypeError, ValueError, OverflowError) as error:
        raise _wrong(path, f"its parts do not fit together ({error})") from None
    return NgramModel(path, found)


def _refuse_overlaps(entries: Mapping[str, Any]) -> None:
    """Raises ValueError if sections share bytes: hashing them must not take longer than reading the file once."""
    spans = [
        (_count(about["at"]), _count(about["at"]) + _count(about["bytes"]))
        for entry in entries.values()
        for about in entry["sections"].values()
    ]
    for (_, end), (begin, _) in pairwise(sorted(span for span in spans if span[0] < span[1])):
        if begin < end:
            raise ValueError("sections overlap")


def _wrong(path: str, fact: str) -> UserError:
    return UserError(f"{path}: {fact}, so no text can be scored with it. Train it again, or give an intact file.")


def _language(data: Array, entry: Any) -> Language:
    ngrams = tuple(_count(one) for one in entry["ngrams"])
    sections = {name: _section(data, name, about) for name, about in entry["sections"].items()}
    offsets = sections["offsets"].view(np.int64)
    words = sections["words"]
    steps = np.diff(offsets)
    if not 1 <= len(ngrams) <= HIGHEST_ORDER or len(offsets) != ngrams[0] + 1 or len(offsets) > MOST_WORDS + FIRST_WORD:
        raise ValueError("orders or words")
    if offsets[0] != 0 or (steps < 0).any() or offsets[-1] != len(words):
        raise ValueError("offsets of words")
    shape = np.array([[_count(one) for one in row] for row in entry["shape"]], np.int64)
    slots = sections["slots"].view(np.uint64)
    check_shape(shape, len(ngrams), len(slots))
    grams = tuple(sections[f"grams{order}"].view(np.uint32).reshape(-1, 2) for order in range(2, len(ngrams) + 1))
    if any(len(gram) != count for gram, count in zip(grams, ngrams[1:], strict=True)):
        raise ValueError("lists of n-grams")
    return Language(ngrams, Tables(slots, shape, special_hashes()), words, offsets, grams, _bands(entry["bands"]))


def check_shape(shape: Array, orders: int, slots: int) -> None:
    """Raises ValueError for tables in which a look-up could leave the slots or never end."""
    if shape.shape != (orders, 3):
        raise ValueError("the shape of tables")
    first = 0
    for begin, places, walk in shape.tolist():
        if begin != first or not 0 < places < 1 << 32 or not LEAST_WALK <= walk <= LONGEST_WALK:
            raise ValueError("the shape of tables")
        first += places + walk
    if first != slots:
        raise ValueError("the size of tables")


def _bands(given: Any) -> tuple[float, float] | None:
    if given is None:
        return None
    first, second = (float(one) for one in given)
    if not 0 < first <= second < float("inf"):
        raise ValueError("bounds of bands")
    return first, second


def _count(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < 1 << 40:
        raise ValueError(f"{str(value)[:40]} is not a count")
    return value


def _section(data: Array, name: str, about: Mapping[str, Any]) -> Array:
    at, size = _count(about["at"]), _count(about["bytes"])
    if at % _ALIGNED or at + size > len(data):
        raise ValueError(f"the section {str(name)[:40]} is outside the file")
    found = data[at : at + size]
    if hashlib.sha256(found.data).hexdigest() != about["sha256"]:
        raise ValueError(f"the section {str(name)[:40]} is damaged")
    return found
