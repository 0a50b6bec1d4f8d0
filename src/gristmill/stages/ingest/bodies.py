"""Bodies of records in web archives that another format reads, such as those of PDF files."""

from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from gristmill.counted import counted
from gristmill.installed import FORMATS, command_for, installed
from gristmill.schema import Record
from gristmill.stages.contract import BodyFormat, OtherStage, Reader, Resources, StageConfig
from gristmill.stages.declarations import stage_of
from gristmill.warned import Warned

OPENING_BYTES = 1024
"""How much of a body a format sees to recognize it."""
FORMATS_OF_TYPES = {"application/pdf": "pdf", "application/x-pdf": "pdf"}
"""Media types, and the formats that can read them; for the warning about those that no format was named for."""

Bodies = Mapping[str, OtherStage]


def readers(bodies: Bodies) -> Iterator[tuple[Reader[Any], StageConfig]]:
    """The readers of the formats, in the order of the recipe, with their configs."""
    for other in bodies.values():
        yield stage_of(other.module, Reader), other.config


def format_of(bodies: Bodies, media_type: str | None, opening: bytes) -> str | None:
    """The format that reads a body; None if none of them does."""
    for name, (reader, _) in zip(bodies, readers(bodies), strict=True):
        if reader.body is not None and (media_type in reader.body.media_types or reader.body.opens(opening)):
            return name
    return None


def fill(row: Record, data: bytes, bodies: Bodies, name: str) -> Mapping[str, object]:
    """Fills a row by a format, with nulls in the columns of the others; returns metadata."""
    counts = [len(reader.columns_of(config)) for reader, config in readers(bodies)]
    index = list(bodies).index(name)
    other = bodies[name]
    body: BodyFormat[Any] | None = stage_of(other.module, Reader).body
    assert body is not None
    meta = body.fill(row, data, other.config)
    row.more = (*[None] * sum(counts[:index]), *row.more, *[None] * sum(counts[index + 1 :])) if row.more else ()
    return meta


def columns(bodies: Bodies) -> pa.Schema:
    """The columns of all formats."""
    return pa.schema([item for reader, config in readers(bodies) for item in reader.columns_of(config)])


def resources(bodies: Bodies, part_bytes: int) -> Resources | None:
    """What the format needs that needs the most memory."""
    needs = [reader.resources_of(config, part_bytes) for reader, config in readers(bodies)]
    return max(filter(None, needs), key=lambda need: need.memory or 0, default=None)


def fixes(bodies: Bodies) -> dict[str, str]:
    """What to do about unread records of all formats."""
    named = {reason: fix for reader, config in readers(bodies) for reason, fix in reader.fixes_of(config).items()}
    return {"not_text": "Name formats of other media types in `bodies`, such as `bodies: {pdf: {}}`", **named}


def metrics(batch: pa.RecordBatch, bodies: Bodies) -> dict[str, Any]:
    """What the formats count, and the records that formats could read which the recipe does not name."""
    not_text = batch.filter(pc.equal(batch.column("drop"), "not_text"))
    types = {one["values"]: one["counts"] for one in not_text.column("detail").value_counts().to_pylist()}
    unread: dict[str, int] = {}
    for media_type, name in FORMATS_OF_TYPES.items():
        if rows := types.get(media_type):
            unread[name] = unread.get(name, 0) + rows
    counts: dict[str, Any] = {"unread_bodies": unread}
    for reader, config in readers(bodies):
        counts |= reader.metrics(batch, config) if reader.metrics is not None else {}
    return counts


def warnings(counts: dict[str, Any], bodies: Bodies | None) -> Iterator[str]:
    """Warns of records of formats that the recipe does not name, unless it names none on purpose."""
    for name, rows in sorted(counts.get("unread_bodies", {}).items()) if bodies is None else ():
        command = None if name in installed(FORMATS) else command_for(FORMATS, name)
        after = f" after {command}" if command else ""
        yield Warned(
            "unread_bodies",
            f"{counted(rows, 'record is', 'records are')} of the format {name}. `bodies: {{{name}: {{}}}}` under "
            f"`read` reads them{after}; `bodies: {{}}` leaves them out without this line",
        )
    for reader, config in readers(bodies or {}):
        if reader.warnings is not None:
            yield from reader.warnings(counts, config)
