"""The laws of every reader: any bytes give rows that can be stored, in order, and the same rows when read in ranges."""

import random
import zlib
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from types import ModuleType
from typing import Any

import orjson
import pyarrow as pa

from fuzz.target import hold
from gristmill.schema import DOCUMENTS, Record
from gristmill.stages.contract import Piece

_STRINGS = (
    "key",
    "url",
    "license",
    "language_hint",
    "title",
    "content_type",
    "charset",
    "html",
    "text",
    "drop",
    "detail",
)


def rows_of(
    module: ModuleType, path: Path, name: str, start: int = 0, stop: int | None = None, **config: Any
) -> list[Record]:
    return list(module.read(Piece(str(path), name, start, stop), module.Config.model_validate(config)))


def check_reader(module: ModuleType, data: bytes, folder: Path, name: str, **config: Any) -> list[Record]:
    """Reads a file whole and in ranges, and checks the rows against the laws."""
    path = folder / "input"
    path.write_bytes(data)
    rows = rows_of(module, path, name, **config)
    hold(bool(rows), "the file vanished")
    check_rows(rows)
    size = len(data) + 1
    draw = random.Random(zlib.crc32(data))
    cuts = sorted(draw.choices([draw.randrange(size), draw.randrange(size), *(row.position for row in rows[:50])], k=2))
    edges: Sequence[int | None] = [0, *cuts, None]
    pieces = [row for start, stop in pairwise(edges) for row in rows_of(module, path, name, start or 0, stop, **config)]
    hold(pieces == rows, f"the stretches {edges} do not give the rows of the whole file")
    return rows


def check_rows(rows: Sequence[Record]) -> None:
    positions = [row.position for row in rows]
    hold(positions == sorted(positions), "positions fall")
    hold(len({row.key or row.position for row in rows}) == len(rows), "two rows have one name")
    for row in rows:
        for name in _STRINGS:
            value = getattr(row, name)
            if name in ("html", "text") and isinstance(value, bytes):
                value = value.decode()  # which fails if they are not UTF-8
            hold(value is None or isinstance(value, str), f"{name} is not a string")
            if value is not None:
                value.encode()
        hold(row.drop is None or bool(row.drop), "an empty reason")
        hold(row.drop is not None or bool(row.text or row.html), "a document without text")
        hold(row.meta is None or isinstance(orjson.loads(row.meta), dict), "meta is no JSON object")
    pa.array([row.timestamp_us for row in rows], DOCUMENTS.field("timestamp").type)
