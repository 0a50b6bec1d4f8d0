"""The texts of a classifier: read from files, cleaned, and split into training texts and held-out texts.

A run uses copies of files under other names, so the first bytes decide the format of a file. Cleaning removes texts
with too few words, all but one of exact copies (ignoring white space), and texts that are in both classes. Then whole
groups (sites) are held out until their share of each class's bytes is reached.
"""

import hashlib
import os
from collections.abc import Iterator
from io import FileIO
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from gristmill.errors import UserError
from gristmill.kernels.dedup.exact_hash import WHITESPACE, hash_texts
from gristmill.kernels.hash.splitmix import GOLDEN, mix
from gristmill.kernels.quality.features import count_words
from gristmill.kernels.text.unicode_classes import unicode_tables
from gristmill.stages.buffers import large_texts
from gristmill.stages.decontaminate.suite.files import Format, records
from gristmill.stages.quality.classifier_settings import Config, Labels
from gristmill.stages.quality.texts import groups_of
from gristmill.stages.reading.archive import chunks_of
from gristmill.stages.reading.decompress import ReadFault

Array = np.ndarray[Any, Any]

SCHEMA = pa.schema(
    [("text", pa.large_string()), ("high", pa.bool_()), ("target", pa.float32()), ("group", pa.uint64())]
)
"""A labelled text: whether it is a positive, its quality from 0 to 1, and the hash of its site."""


_HALF = 0.5


def labelled_files(config: Config) -> pa.Table:
    """The texts of all files that a classifier names, with SCHEMA."""
    rows: list[tuple[str, bool, float, str | None]] = []
    for side, high in ((config.positives, True), (config.negatives, False)):
        for path in side.files:
            rows += [(text, high, float(high), url) for text, url, _ in _texts(path, None)]
    for labels in config.labels:
        for text, url, score in _texts(labels.file, labels):
            rows.append((text, score >= _HALF, score, url))
    texts, sides, targets, urls = zip(*rows, strict=True) if rows else ((), (), (), ())
    own = [hashlib.blake2b(text.encode(), digest_size=16).digest() for text in texts]
    groups = groups_of(pa.array(urls, pa.string()), pa.array(own, pa.binary(16)))
    columns = [pa.array(texts, pa.large_string()), pa.array(sides, pa.bool_()), pa.array(targets, pa.float32()), groups]
    return pa.Table.from_arrays(columns, schema=SCHEMA)


def _texts(path: str, labels: Labels | None) -> Iterator[tuple[str, str | None, float]]:
    """Text, URL and score (0 to 1; without labels 0) of each record."""
    usable = 0
    for number, row in records(path, FileIO(path), _format(path)):
        if isinstance(row, ReadFault):
            raise UserError(f"{path}: record {number} cannot be read: {row.detail} ({row.reason}). Correct the file.")
        text, url = row.get("text"), row.get("url")
        if not isinstance(text, str):
            raise UserError(
                f"{path}: record {number} has no text in the field 'text', so it cannot be used for training. "
                f"Its fields: {', '.join(list(row)[:20]) or 'none'}."
            )
        score = 0.0 if labels is None else _score(path, number, row, labels)
        usable += 1
        yield text, url if isinstance(url, str) and url else None, score
    if not usable:
        raise UserError(f"{path} has no records, so there is nothing to train on. Check the file.")


def _score(path: str, number: int, row: dict[str, Any], labels: Labels) -> float:
    try:
        score = float(row[labels.score]) / labels.best_score
    except (KeyError, TypeError, ValueError):
        raise UserError(
            f"{path}: record {number} has no number in the field {labels.score!r}. Its fields: "
            f"{', '.join(list(row)[:20])}. Name the field of the score next to `file` (score: FIELD), or remove the "
            "record."
        ) from None
    if not 0 <= score <= 1:
        raise UserError(
            f"{path}: record {number} has the score {row[labels.score]}, but scores range from 0 to "
            f"{labels.best_score:g}. Set best_score."
        )
    return score


def _format(path: str) -> Format:
    if os.path.isdir(path):
        raise UserError(f"{path} is a folder, but labelled texts must be in files. Name its files.")
    with open(path, "rb") as file:
        start = next(chain(chunks_of(file), (b"",))).lstrip(b"\xef\xbb\xbf \t\r\n")
    if start.startswith(b"PAR1"):
        return "parquet"
    return "jsonl" if start.startswith(b"{") else "json" if start.startswith(b"[") else "csv"


class Examples(NamedTuple):
    """Texts in the order of a hash, so that their original order does not matter."""

    data: Array
    starts: Array
    ends: Array
    high: Array
    """bool"""
    targets: Array
    """float64"""
    groups: Array
    """uint64"""

    def take(self, chosen: Array) -> "Examples":
        return Examples(self.data, *(array[chosen] for array in self[1:]))


def clean(table: pa.Table, min_words: int) -> tuple[Examples, dict[str, int]]:
    """The texts that are left, and the number of removed ones by reason."""
    text = table.column("text").combine_chunks() if table.num_rows else pa.array([], pa.large_string())
    data, bounds = large_texts(text.chunk(0) if isinstance(text, pa.ChunkedArray) else text)
    high = table.column("high").to_numpy().astype(np.bool_)
    texts = Examples(
        data,
        bounds[:-1].copy(),
        bounds[1:].copy(),
        high,
        table.column("target").to_numpy().astype(np.float64),
        table.column("group").to_numpy().astype(np.uint64),
    )
    long_enough = count_words(data, texts.starts, texts.ends) >= min_words
    hashes = hash_texts(data, bounds, WHITESPACE, unicode_tables())[long_enough]
    short = int((~long_enough).sum())
    texts = texts.take(long_enough)
    order = np.lexsort((texts.groups, texts.targets, hashes[:, 1], hashes[:, 0]))
    texts, hashes = texts.take(order), hashes[order]
    again = np.zeros(len(order), np.bool_)
    again[1:] = (hashes[1:] == hashes[:-1]).all(axis=1)
    of = np.cumsum(~again) - 1
    sides = np.zeros((2, int(of[-1]) + 1 if len(of) else 0), np.bool_)
    sides[texts.high.astype(int), of] = True
    both = (sides[0] & sides[1])[of] if len(of) else again
    counts = {"too_short": short, "on_both_sides": int(both.sum()), "copies": int((again & ~both).sum())}
    return texts.take(~again & ~both), counts


def hold_out(examples: Examples, share: float, seed: int) -> tuple[Array, bool]:
    """Which texts are held out, and whether their groups differ from those of the rest.

    Groups come in the order of a hash. A group is held out if it fits into the remaining share of both classes. If no
    group of a class fits, the smallest one that is not the whole class is held out. If a class has only one group, its
    texts are split instead, which is better than nothing, and the user is warned.
    """
    groups, of = np.unique(examples.groups, return_inverse=True)
    sizes = np.zeros((len(groups), 2), np.int64)
    np.add.at(sizes, (of, examples.high.astype(int)), examples.ends - examples.starts)
    budgets = [int(share * int(total)) for total in sizes.sum(axis=0)]
    turn: Any = np.array([seed % 2**64], np.uint64) * GOLDEN
    salted: Any = groups ^ np.asarray(mix.py_func(turn))
    keys: Any = mix.py_func(salted)
    is_held, taken = np.zeros(len(groups), np.bool_), [0, 0]
    for group in np.argsort(keys, kind="stable").tolist():
        size = [int(count) for count in sizes[group]]
        if all(taken[side] + size[side] <= budgets[side] for side in range(2)):
            is_held[group] = True
            taken = [taken[side] + size[side] for side in range(2)]
    chosen, apart = is_held[of], True
    for side in range(2) if share > 0 else ():
        candidates = np.flatnonzero((sizes[:, side] > 0) & ~is_held)
        if not taken[side] and len(candidates) > 1:
            chosen |= of == candidates[np.lexsort((keys[candidates], sizes[candidates, side]))[0]]
        elif not taken[side]:  # texts are in the order of a hash already
            texts = np.flatnonzero(examples.high == bool(side))
            chosen[texts[: int(len(texts) * share + 0.5) or int(len(texts) > 1)]] = True
            apart = False
    return chosen, apart
