"""Reads labelled texts from files: the texts of a class, and texts with scores.

A run uses copies of files under other names, so the first bytes decide the format of a file.
"""

import hashlib
import os
from collections.abc import Iterator
from io import FileIO
from itertools import chain
from typing import Any

import pyarrow as pa

from gristmill.errors import UserError
from gristmill.stages.decontaminate.suite.files import Format, records
from gristmill.stages.quality.classifier_config import Config, Labels
from gristmill.stages.quality.classifier_examples import SCHEMA
from gristmill.stages.quality.texts import groups_of
from gristmill.stages.reading.archive import chunks_of
from gristmill.stages.reading.decompress import ReadFault

_HALF = 0.5


def labelled_files(config: Config) -> pa.Table:
    """The texts of all files that a classifier names, with SCHEMA."""
    rows: list[tuple[str, bool, float, str | None]] = []
    for side, high in ((config.positives, True), (config.negatives, False)):
        for path in side.files:
            rows += [(text, high, float(high), url) for text, url, _ in _texts(path, Labels(file=path), scored=False)]
    for labels in config.labels:
        for text, url, score in _texts(labels.file, labels, scored=True):
            rows.append((text, score >= _HALF, score, url))
    texts, sides, targets, urls = zip(*rows, strict=True) if rows else ((), (), (), ())
    own = [hashlib.blake2b(text.encode(), digest_size=16).digest() for text in texts]
    groups = groups_of(pa.array(urls, pa.string()), pa.array(own, pa.binary(16)))
    columns = [pa.array(texts, pa.large_string()), pa.array(sides, pa.bool_()), pa.array(targets, pa.float32()), groups]
    return pa.Table.from_arrays(columns, schema=SCHEMA)


def _texts(path: str, fields: Labels, scored: bool) -> Iterator[tuple[str, str | None, float]]:
    """Text, URL and score (0 to 1) of each record."""
    usable = 0
    for number, row in records(path, FileIO(path), _format(path)):
        if isinstance(row, ReadFault):
            raise UserError(f"{path}: record {number} cannot be read: {row.detail} ({row.reason}). Correct the file.")
        text, url = row.get(fields.text), row.get(fields.url)
        if not isinstance(text, str):
            raise UserError(
                f"{path}: record {number} has no text in the field {fields.text!r}, so it cannot be used for training. "
                f"Its fields: {', '.join(list(row)[:20]) or 'none'}."
            )
        score = _score(path, number, row, fields) if scored else 0.0
        usable += 1
        yield text, url if isinstance(url, str) and url else None, score
    if not usable:
        raise UserError(f"{path} has no records, so there is nothing to train on. Check the file.")


def _score(path: str, number: int, row: dict[str, Any], fields: Labels) -> float:
    try:
        score = float(row[fields.score]) / fields.best_score
    except (KeyError, TypeError, ValueError):
        raise UserError(
            f"{path}: record {number} has no number in the field {fields.score!r}. Its fields: "
            f"{', '.join(list(row)[:20])}. Name the field of the score next to `file` (score: FIELD), or remove the "
            "record."
        ) from None
    if not 0 <= score <= 1:
        raise UserError(
            f"{path}: record {number} has the score {row[fields.score]}, but scores range from 0 to "
            f"{fields.best_score:g}. Set best_score."
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
