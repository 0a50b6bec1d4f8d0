"""Parts of rows: Parquet with zstd, a row group for each batch, and the mark that says whose rows they are.

Layers of one document part share its row groups one for one, so a join needs no keys: row i speaks of row i. Each
file carries `gristmill.rows`, a hash of what the part is and of its document ids in order: no two document parts share
it, and a join of files with different marks is refused.
"""

import hashlib
from collections.abc import Iterator, Sequence

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from gristmill.store.store import CorruptPart, Part, Store

ROWS_MARK = b"gristmill.rows"
BULKY = ("html", "text", "meta", "ids")
"""Columns of long values: a dictionary or min/max statistics of them costs time and tells nothing."""


class Misaligned(Exception):
    """Two layers do not speak of the same rows. Joining them would mix documents up, so it is refused."""


class PartWriter:
    """Collects batches in memory, compressed, and stores them as one part."""

    def __init__(self, schema: pa.Schema, identity: bytes = b"") -> None:
        """`identity`: what no other part of documents has; it enters the mark."""
        self.schema = schema
        self.rows = 0
        self.payload_bytes = 0
        self._ids = hashlib.sha256(hashlib.sha256(identity).digest())
        self._sink = pa.BufferOutputStream()
        small = [name for name in schema.names if name not in BULKY]
        self._writer = pq.ParquetWriter(
            self._sink, schema, compression="zstd", use_dictionary=small, write_statistics=small
        )

    def write(self, batch: pa.RecordBatch, payload_bytes: int = 0) -> None:
        """Add one row group."""
        if batch.num_rows == 0:
            return
        self._writer.write_batch(batch, row_group_size=batch.num_rows)
        self.rows += batch.num_rows
        self.payload_bytes += payload_bytes
        if "doc_id" in batch.schema.names:
            ids = batch.column("doc_id")
            self._ids.update(memoryview(ids.buffers()[1])[16 * ids.offset : 16 * (ids.offset + len(ids))])

    @property
    def rows_mark(self) -> str:
        """A hash of the identity and of the document ids written so far, in order."""
        return self._ids.hexdigest()

    def close(self, store: Store, rows_mark: str | None = None) -> Part:
        """Finish the file and store it; layers pass on the mark of the documents that they speak of."""
        mark = rows_mark if rows_mark is not None else self.rows_mark
        self._writer.add_key_value_metadata({ROWS_MARK: mark.encode()})
        self._writer.close()
        return store.put_part(self._sink.getvalue(), "parquet", self.rows, self.payload_bytes)


class PartReader:
    """One part, opened and checked."""

    def __init__(self, store: Store, part: Part) -> None:
        self.part = part
        try:
            self.file = pq.ParquetFile(pa.BufferReader(store.get_part(part)))
        except (pa.ArrowInvalid, OSError) as error:
            raise CorruptPart(part.hash, f"is not Parquet ({error})") from None
        metadata = self.file.metadata
        self.groups = [metadata.row_group(i).num_rows for i in range(metadata.num_row_groups)]
        self.rows_mark: str = (metadata.metadata or {}).get(ROWS_MARK, b"").decode()

    def read_group(self, index: int, columns: Sequence[str]) -> pa.Table:
        return self.file.read_row_group(index, columns=list(columns), use_threads=False)


def join(layers: Sequence[PartReader], columns: Sequence[tuple[int, str, str]]) -> Iterator[pa.RecordBatch]:
    """Batches of columns from aligned layers, one batch a row group.

    `columns` lists (layer, column, name in the batch). Layers of different rows raise Misaligned.
    """
    first = layers[0]
    for other in layers[1:]:
        if other.rows_mark != first.rows_mark or other.groups != first.groups:
            raise Misaligned(
                f"part {other.part.hash[:12]} speaks of rows {other.rows_mark[:12]} in groups {other.groups}, "
                f"part {first.part.hash[:12]} of rows {first.rows_mark[:12]} in groups {first.groups}"
            )
    wanted: list[list[str]] = [[] for _ in layers]
    for layer, column, _ in columns:
        if column not in wanted[layer]:
            wanted[layer].append(column)
    for group in range(len(first.groups)):
        tables = [
            reader.read_group(group, names) if names else None for reader, names in zip(layers, wanted, strict=True)
        ]
        arrays = [_one_array(tables[layer][column]) for layer, column, _ in columns]  # type: ignore[index]
        yield pa.RecordBatch.from_arrays(arrays, names=[name for _, _, name in columns])


def _one_array(column: pa.ChunkedArray) -> pa.Array:
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def text_bytes(column: pa.Array) -> pa.Array:
    """Bytes of each string; a null has none."""
    return pc.fill_null(pc.binary_length(column), 0).cast(pa.int64())
