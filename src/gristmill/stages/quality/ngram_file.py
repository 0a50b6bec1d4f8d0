"""Language models of n-grams that texts are scored with, one for each language.

A file has them in the form of shared/arrow_file.py: all processes of a machine map it into memory. The header has, by
language, the shape of its tables and the bounds of its bands; the array `LANGUAGE/slots` has the tables
(kernels/ngram/tables.py). Arrays with other names are for the package that trained it. Everything that a look-up relies
on is checked when a file is opened.
"""

import os
from collections.abc import Iterable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np
import pyarrow as pa

from gristmill.errors import UserError, cause_of
from gristmill.kernels.ngram.cut import cut_tables
from gristmill.kernels.ngram.score import perplexities, score, scratch
from gristmill.kernels.ngram.tables import HIGHEST_ORDER, LEAST_WALK, LONGEST_WALK, Tables, hash_strings, lay_out
from gristmill.stages.buffers import text_spans
from gristmill.stages.shared.arrow_file import ArrowFile, intact

Array = np.ndarray[Any, Any]

MAGIC = b"ARROW1"
ALL = "all"
"""The language of texts without one."""
SPECIAL = ("<unk>", "<s>", "</s>")
LOAD = 2
"""Table places per n-gram: fewer make look-ups longer, more make the file larger."""
_BLOCK_ROWS = 1 << 16


class NgramModel(NamedTuple):
    """The model of one language."""

    tables: Tables
    bands: tuple[float, float] | None
    """Perplexities up to the first are `head`, up to the second `middle`."""


def special_hashes() -> Array:
    """The hashes of <unk>, <s> and </s>, as in the tables."""
    data = "".join(SPECIAL).encode()
    return hash_strings(np.frombuffer(data, np.uint8), np.cumsum([0, *map(len, SPECIAL)]))


def score_texts(model: NgramModel, text: pa.Array) -> Array:
    """The result of `kernels.ngram.score` for each text, one row each; zeros for a null."""
    return score(*text_spans(text), model.tables, cut_tables(), scratch())


def perplexities_of(model: NgramModel, text: pa.Array) -> Array:
    """The perplexity of each text, float64; NaN if it has no word."""
    return perplexities(score_texts(model, text))


def load(path: str | os.PathLike[str]) -> Mapping[str, NgramModel]:
    """The models in a local file by language, cached for the process as long as the file does not change."""
    path = os.fspath(path)
    try:
        status = os.stat(path)
        return _load(path, status.st_size, status.st_mtime_ns)
    except OSError as error:
        raise UserError(f"{path}: {cause_of(error)}, so no text can be scored. Check the path.") from error


@lru_cache(maxsize=8)
def _load(path: str, _size: int, _mtime_ns: int) -> Mapping[str, NgramModel]:
    consequence = "no text can be scored with it"
    with intact(path, "a file of language models", consequence, "Train it again, or give an intact file."):
        file = ArrowFile(Path(path))
        models = {name: _model(file.array(f"{name}/slots"), entry) for name, entry in file.header["languages"].items()}
        if not models:
            raise ValueError("it has no language")
    return models


def _model(slots: Array, entry: Mapping[str, Any]) -> NgramModel:
    shape = np.array([[_count(value) for value in row] for row in entry["shape"]], np.int64)
    if slots.dtype != np.uint64 or slots.ndim != 1:
        raise ValueError("the tables have another type")
    check_shape(shape, len(slots))
    return NgramModel(Tables(slots, shape, special_hashes()), _bands(entry["bands"]))


def check_shape(shape: Array, slots: int) -> None:
    """Raises ValueError for tables in which a look-up could leave the slots or never end."""
    if not 1 <= len(shape) <= HIGHEST_ORDER or shape.shape[1:] != (3,):
        raise ValueError("the shape of tables")
    first = 0
    for start, places, walk in shape.tolist():
        if start != first or not 0 < places < 1 << 32 or not LEAST_WALK <= walk <= LONGEST_WALK:
            raise ValueError("the shape of tables")
        first += places + walk
    if first != slots:
        raise ValueError("the size of tables")


def _bands(bounds: Any) -> tuple[float, float] | None:
    if bounds is None:
        return None
    first, second = (float(bound) for bound in bounds)
    if not 0 < first <= second < float("inf"):
        raise ValueError("bounds of bands")
    return first, second


def _count(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < 1 << 40:
        raise ValueError(f"{str(value)[:40]} is not a count")
    return value


def write_slots(blocks: Iterable[Array], ngrams: int, file: IO[bytes]) -> tuple[int, int, int]:
    """Writes rows, sorted by hash (uint64: hash, any number, value), into slots. Returns the number of places and of
    slots, and the length of a look-up.
    """
    places = max(ngrams * LOAD, 8)
    free = written = walk = 0
    for block in blocks:
        for start in range(0, len(block), _BLOCK_ROWS):
            rows = block[start : start + _BLOCK_ROWS]
            last = (int(rows[-1, 0]) >> 32) * places >> 32
            slots = np.zeros(max(last, free) - written + len(rows) + 1, np.uint64)
            free, furthest = lay_out(rows[:, 0].copy(), rows[:, 2].copy(), places, free, slots, written)
            walk = max(walk, furthest)
            file.write(slots[: free - written].tobytes())
            written = free
    walk = max(walk + 1, LEAST_WALK)  # one further, to see that it is empty
    file.write(bytes(8 * (places + walk - written)))
    return places, places + walk, walk
