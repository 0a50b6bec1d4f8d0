"""Writes ARPA files (stages/quality/ngram_arpa.py of the core reads them).

The numbers are those that we score with, so every reader of the file gets the same scores.
"""

import os
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from gristmill.errors import UserError
from gristmill.kernels.ngram.cut import ROOM, ROOM_BYTES, cut_tables
from gristmill.kernels.ngram.tables import STEPS, Tables, hash_strings, mixed_hashes
from gristmill.stages.quality.ngram_file import load
from gristmill.stages.shared.arrow_file import ArrowFile
from gristmill_ngram.kernels.texts import cut_texts

Array = np.ndarray[Any, Any]

_ROWS = 1 << 16


def write_arpa(model: str | os.PathLike[str], language: str, path: str | os.PathLike[str]) -> None:
    """Writes all n-grams of a language in a model file that this package trained."""
    tables, file = load(model)[language].tables, ArrowFile(Path(model))
    try:
        counts = [int(count) for count in file.header["languages"][language]["ngrams"]]
        words, offsets = (file.array(f"{language}/{name}") for name in ("words", "offsets"))
        grams = [file.array(f"{language}/grams{order}") for order in range(2, len(counts) + 1)]
        _check(counts, words, offsets, grams)
    except (IndexError, KeyError, TypeError, ValueError) as error:
        raise UserError(f"{model} is damaged, so no ARPA file was written ({error}). Train it again.") from None
    hashes = np.concatenate([np.zeros(1, np.uint64), hash_strings(words, offsets.copy())])
    data = words.tobytes()
    spelled = ["", *(data[start:stop].decode("utf-8", "replace") for start, stop in pairwise(offsets.tolist()))]
    with open(path, "w", encoding="utf-8", newline="\n") as out:
        out.write("\\data\\\n")
        out.writelines(f"ngram {order}={count}\n" for order, count in enumerate(counts, 1))
        for order, count in enumerate(counts, 1):
            out.write(f"\n\\{order}-grams:\n")
            for start in range(0, count, _ROWS):
                ids = _word_numbers(grams, order, np.arange(start, min(start + _ROWS, count)))
                values = _values(mixed_hashes([hashes[column] for column in ids.T]), order, tables)
                out.writelines(_lines(ids, values, spelled, with_backoff=order < len(counts)))
        out.write("\n\\end\\\n")


def _check(counts: list[int], words: Array, offsets: Array, grams: list[Array]) -> None:
    """Raises ValueError if an index is out of range."""
    if len(offsets) != counts[0] + 1 or offsets[0] != 0 or offsets[-1] != len(words) or (np.diff(offsets) < 0).any():
        raise ValueError("the offsets of words")
    for pairs, count, shorter in zip(grams, counts[1:], counts[:-1], strict=True):
        if pairs.shape != (count, 2) or (pairs >= [shorter, counts[0] + 1]).any() or (pairs[:, 1] == 0).any():
            raise ValueError("a list of n-grams")


def _word_numbers(grams: list[Array], order: int, indices: Array) -> Array:
    """The words of n-grams of an order, by their indices in its list."""
    ids = np.empty((len(indices), order), np.int64)
    for length in range(order, 1, -1):
        pairs = grams[length - 2][indices]
        indices, ids[:, order - length] = pairs[:, 0].astype(np.int64), pairs[:, 1]
    ids[:, -1] = indices + 1
    return ids


def _values(mixed: Array, order: int, tables: Tables) -> Array:
    """What the tables have for n-grams of an order: probability << 16 | backoff."""
    first, places, walk = tables.shape[order - 1].tolist()
    half = np.uint64(32)
    marks = np.maximum(mixed & np.uint64(0xFFFFFFFF), np.uint64(1))
    values, missing = np.zeros(len(mixed), np.uint64), np.arange(len(mixed))
    slots = first + ((mixed >> half) * np.uint64(places) >> half).astype(np.int64)
    for step in range(walk):
        slot = tables.slots[slots[missing] + step]
        is_it = slot >> half == marks[missing]
        values[missing[is_it]] = slot[is_it] & np.uint64(0xFFFFFFFF)
        missing = missing[~is_it]
    return values


def _lines(ids: Array, values: Array, spelled: list[str], with_backoff: bool) -> Iterator[str]:
    probabilities = -(values >> np.uint64(16)).astype(np.float64) / STEPS + 0.0
    backoffs = (values & np.uint64(0xFFFF)).astype(np.uint16).view(np.int16) / STEPS
    for row, probability, backoff in zip(ids.tolist(), probabilities.tolist(), backoffs.tolist(), strict=True):
        suffix = f"\t{backoff!r}" if with_backoff else ""
        yield f"{probability!r}\t{' '.join([spelled[number] for number in row])}{suffix}\n"


def normal_form(texts: list[str]) -> list[str]:
    """Texts as the words that a model sees: spaces between words, one line per sentence."""
    data = [text.encode() for text in texts]
    offsets = np.cumsum([0, *map(len, data)], dtype=np.int64)
    spare = np.empty(ROOM_BYTES, np.uint8), np.empty((ROOM, 3), np.int64)
    out, ends = cut_texts(np.frombuffer(b"".join(data), np.uint8), offsets, cut_tables(), *spare)
    return [out[start:stop].tobytes().decode("utf-8", "replace") for start, stop in pairwise([0, *ends.tolist()])]
