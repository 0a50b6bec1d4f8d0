"""Reading input files into document parts: the engine's side of a reader.

Parts are cut by the data alone: a part ends with the row group that brings it to `part_bytes`, and a row group with
the record that brings it to ROW_GROUP_CHARACTERS or ROW_GROUP_ROWS. A batch is all that is in memory beside the
compressed part.
"""

import hashlib
import importlib
import os
from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc

from gristmill.engine.rows import CRASHED, count_reasons
from gristmill.engine.task import Read, Result, add_counts
from gristmill.errors import UserError
from gristmill.schema import DOCUMENTS, Record
from gristmill.stages.contract import Piece
from gristmill.store.parquet import PartWriter, text_bytes
from gristmill.store.store import Store

ROW_GROUP_CHARACTERS = 8 << 20
"""Content after which a row group ends: large enough for Parquet, small enough to hold several in memory."""
ROW_GROUP_ROWS = 1 << 16


def perform_read(work: Read, store: Store, probe: bool) -> Result:
    result = Result(metrics={"rows": 0, "bytes_in": 0, "bytes_out": 0, "dropped": {}})
    writer: PartWriter | None = None
    seen = 0
    for batch, payload_bytes in _batches(work):
        if probe:
            seen += batch.num_rows
            continue
        writer = writer or PartWriter(DOCUMENTS)
        writer.write(batch, payload_bytes)
        counts = {"rows": batch.num_rows, "bytes_in": payload_bytes, "bytes_out": payload_bytes}
        add_counts(result.metrics, {**counts, "dropped": count_reasons(batch.column("drop"))})
        if writer.payload_bytes >= work.part_bytes:
            result.rows_marks.append(writer.rows_mark)
            result.parts.append(writer.close(store))
            writer = None
    if writer is not None:
        result.rows_marks.append(writer.rows_mark)
        result.parts.append(writer.close(store))
    _refuse_changed_files(work)
    return Result(values=[seen]) if probe else result


def _batches(work: Read) -> Iterator[tuple[pa.RecordBatch, int]]:
    rows: dict[str, list[object]] = {name: [] for name in DOCUMENTS.names if name != "text_bytes"}
    characters = 0
    for name, record in _records(work):
        characters += _add_row(rows, work, name, record)
        if characters >= ROW_GROUP_CHARACTERS or len(rows["doc_id"]) >= ROW_GROUP_ROWS:
            yield _batch_of(rows)
            for column in rows.values():
                column.clear()
            characters = 0
    if rows["doc_id"]:
        yield _batch_of(rows)


def _batch_of(rows: dict[str, list[object]]) -> tuple[pa.RecordBatch, int]:
    columns = {name: pa.array(values, DOCUMENTS.field(name).type) for name, values in rows.items()}
    columns["text_bytes"] = pc.add(text_bytes(columns["html"]), text_bytes(columns["text"]))
    batch = pa.RecordBatch.from_arrays([columns[name] for name in DOCUMENTS.names], schema=DOCUMENTS)
    return batch, pc.sum(columns["text_bytes"]).as_py()


def _records(work: Read) -> Iterator[tuple[str, Record]]:
    module = importlib.import_module(work.module)
    poisoned = {(name, position): detail for name, position, detail in work.poisoned}
    for piece in work.pieces:
        at = (piece.name, piece.start)
        if at in poisoned and piece.stop == piece.start:
            yield piece.name, Record(piece.start, drop=CRASHED, detail=poisoned[at])
            continue
        for record in _read_piece(module, piece, work):
            yield piece.name, record


def _read_piece(module: object, piece: Piece, work: Read) -> Iterator[Record]:
    companions = work.companions.get(piece.name)
    more = {"companions": companions} if companions is not None else {}
    read = module.read  # type: ignore[attr-defined]
    try:
        yield from read(piece, work.config, **more)
    except FileNotFoundError:
        raise UserError(
            f"{piece.uri} was there when the run began and is gone now. What is finished is kept. "
            "Put it back, or run again without it."
        ) from None
    except OSError as error:
        raise UserError(
            f"{piece.uri} cannot be read: {error}. What is finished is kept. Mend it, or exclude it, and run again."
        ) from None


def _add_row(rows: dict[str, list[object]], work: Read, name: str, record: Record) -> int:
    locator = f"{name}#{record.key if record.key is not None else record.position}"
    identity = f"{work.source}\0{locator}".encode("utf-8", "surrogateescape")
    rows["doc_id"].append(hashlib.blake2b(identity, digest_size=16).digest())
    rows["source"].append(work.source)
    rows["locator"].append(locator)
    rows["url"].append(record.url)
    rows["snapshot"].append(work.snapshot)
    rows["timestamp"].append(record.timestamp_us)
    rows["license"].append(record.license if record.license is not None else work.license)
    rows["language_hint"].append(record.language_hint)
    rows["title"].append(record.title)
    rows["content_type"].append(record.content_type)
    rows["charset"].append(record.charset)
    rows["html"].append(record.html)
    rows["text"].append(record.text)
    rows["meta"].append(record.meta)
    rows["drop"].append(record.drop)
    rows["detail"].append(record.detail)
    return len(record.html or "") + len(record.text or "")


def _refuse_changed_files(work: Read) -> None:
    """A file that changed between hashing and reading would store rows under the wrong key."""
    for piece in work.pieces:
        seen = work.seen.get(piece.uri)
        if seen is None:
            continue
        now = os.stat(piece.uri)
        if (now.st_size, now.st_mtime_ns) != seen:
            raise UserError(
                f"{piece.uri} changed while it was being read. Nothing of it was stored. "
                "Wait until it is complete and run again."
            )
