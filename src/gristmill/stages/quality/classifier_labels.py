"""Labelled texts that lie in files: those of a side, and those with scores.

A run works with copies of files, whose names say nothing; so what a file is, is seen by its first bytes.
"""

import hashlib
import os
from collections.abc import Iterator
from functools import partial
from io import FileIO
from itertools import chain
from typing import Any

import pyarrow as pa

from gristmill.errors import UserError
from gristmill.stages.decontaminate.suite.files import BenchmarkFile, records
from gristmill.stages.decontaminate.suite.form import Format, Reading
from gristmill.stages.quality.classifier_config import Config, Labels
from gristmill.stages.quality.classifier_examples import SCHEMA
from gristmill.stages.quality.texts import groups_of
from gristmill.stages.reading.archive import chunks_of
from gristmill.stages.reading.decompress import Fault

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
    found = BenchmarkFile(path, partial(FileIO, path))
    usable = 0
    for number, row in records(found, _format(path), Reading()):
        if isinstance(row, Fault):
            raise UserError(f"{path}: record {number} cannot be read: {row.detail} ({row.reason}). Correct the file.")
        text, url = row.get(fields.text), row.get(fields.url)
        if not isinstance(text, str):
            raise UserError(
                f"{path}: record {number} has no text in its field {fields.text!r}, so nothing is learned from it. "
                f"It has: {', '.join(list(row)[:20]) or 'no fields'}."
            )
        score = _score(path, number, row, fields) if scored else 0.0
        usable += 1
        yield text, url if isinstance(url, str) and url else None, score
    if not usable:
        raise UserError(f"{path} holds no record, so nothing can be learned from it. Check the file.")


def _score(path: str, number: int, row: dict[str, Any], fields: Labels) -> float:
    try:
        score = float(row[fields.score]) / fields.best_score
    except (KeyError, TypeError, ValueError):
        raise UserError(
            f"{path}: record {number} has no number in its field {fields.score!r}. It has: "
            f"{', '.join(list(row)[:20])}. Name the field of the score beside `file` (score: FIELD), or take the "
            "record out."
        ) from None
    if not 0 <= score <= 1:
        raise UserError(
            f"{path}: record {number} has the score {row[fields.score]}, and scores go from 0 to {fields.best_score:g}."
            " Set best_score."
        )
    return score


def _format(path: str) -> Format:
    if os.path.isdir(path):
        raise UserError(f"{path} is a folder, and texts with labels are files. Name its files.")
    with open(path, "rb") as file:
        start = next(chain(chunks_of(file), (b"",))).lstrip(b"\xef\xbb\xbf \t\r\n")
    if start.startswith(b"PAR1"):
        return "parquet"
    return "jsonl" if start.startswith(b"{") else "json" if start.startswith(b"[") else "csv"
