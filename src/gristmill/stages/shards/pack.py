"""Writes the files of one shard from its documents, which may be in any order.

It needs memory for the documents, the packed tokens, and about 100 bytes per piece.
"""

import hashlib
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from gristmill.kernels.hash.radix import sort_order
from gristmill.kernels.pack import Pieces, best_fit, concat, copy_pieces
from gristmill.shardformat.index import Header, Index, write_index
from gristmill.stages.buffers import fixed_bytes, one_chunk, read_only
from gristmill.stages.doc_order import doc_order

Array = np.ndarray[Any, Any]

LINEAGE = pa.schema(
    [
        pa.field("sample", pa.int64(), nullable=False),
        pa.field("offset", pa.int32(), nullable=False),
        pa.field("length", pa.int32(), nullable=False),
        pa.field("doc_id", pa.binary(16), nullable=False),
        pa.field("doc_offset", pa.int64(), nullable=False),
        pa.field("locator", pa.string()),
        pa.field("source", pa.dictionary(pa.int32(), pa.string()), nullable=False),
    ]
)
"""One row per piece, in the order of the index. `offset` is in the sample, `doc_offset` in the document's tokens."""
ROW_GROUP = 1 << 17

PACKING: dict[str, Callable[[Array, int], Pieces]] = {
    "best_fit": best_fit,
    "whole": partial(best_fit, split=False),
    "concat": concat,
}


def write_shard(
    records: pa.Table,
    folder: Path,
    *,
    seed: int,
    pack: str,
    seq_len: int,
    token_bytes: int,
    end_of_document: int,
    padding: int,
    tokenizer: str,
    recipe: str,
    group: str,
    source: str,
) -> dict[str, int]:
    """Sort and pack the documents, write `tokens.bin`, `tokens.index` and `lineage.parquet`, and return counts.

    Records have `doc_id`, `locator` and `ids`, raw little-endian ids of `token_bytes` bytes each.
    """
    order = shuffled(records, seed)
    lengths = _byte_sizes(records)[order] // token_bytes
    pieces = PACKING[pack](lengths, seq_len)
    samples = int(pieces.sample[-1]) + 1 if len(pieces.sample) else 0
    row = order[pieces.document]
    first_piece = np.searchsorted(pieces.sample, np.arange(samples + 1))
    begins = np.cumsum(pieces.length) - pieces.length
    offset = begins - begins[first_piece[pieces.sample]]

    packed = np.full(samples * seq_len, padding, f"<u{token_bytes}")
    _copy(records, row, pieces, pieces.sample * seq_len + offset, token_bytes, packed.view(np.uint8))
    with open(folder / "tokens.bin", "wb") as file:
        file.write(packed.data)
    doc_ids = fixed_bytes(one_chunk(records["doc_id"]))[row]
    documents = int(np.count_nonzero(lengths))
    tokens = int(pieces.length.sum())
    header = Header(
        token_bytes=token_bytes,
        seq_len=seq_len,
        samples=samples,
        pieces=len(row),
        tokens=tokens,
        documents=documents,
        end_of_document=end_of_document,
        padding=padding,
        tokenizer=tokenizer,
        bin=hashlib.sha256(packed.data).hexdigest(),
        recipe=recipe,
        group=group,
    )
    write_index(folder / "tokens.index", Index(header, first_piece, pieces.length, pieces.doc_offset, doc_ids))
    _write_lineage(folder / "lineage.parquet", records["locator"], row, pieces, offset, doc_ids, source, group)
    split = np.unique(pieces.document[pieces.doc_offset > 0])
    return {
        "documents": documents,
        "tokens": tokens,
        "samples": samples,
        "pieces": len(row),
        "padding": samples * seq_len - tokens,
        "split_documents": len(split),
        "split_to_fill": int(np.count_nonzero(lengths[split] <= seq_len)),
    }


def shuffled(records: pa.Table, seed: int) -> Array:
    """The row numbers, sorted by the hash of seed and doc_id.

    Ids are unique. If one nevertheless occurs twice, its records are sorted by their tokens, so that the order of the
    input never matters.
    """
    found = [doc_order(chunk, seed) for chunk in records["doc_id"].chunks]
    hashes = np.concatenate([np.zeros(0, np.uint64), *(one for one, _ in found)])
    ties = np.concatenate([np.zeros(0, np.uint64), *(tie for _, tie in found)])
    order = sort_order(hashes, ties)
    same = (hashes[order][1:] == hashes[order][:-1]) & (ties[order][1:] == ties[order][:-1])
    edges = np.flatnonzero(np.diff(np.concatenate(([False], same, [False])).astype(np.int8)))
    for begin, end in edges.reshape(-1, 2).tolist():
        rows = order[begin : end + 1].tolist()
        order[begin : end + 1] = sorted(
            rows, key=lambda at: (records["ids"][at].as_py(), records["locator"][at].as_py())
        )
    return order


def _byte_sizes(records: pa.Table) -> Array:
    return np.concatenate([np.zeros(0, np.int64), *(np.diff(_offsets(chunk)) for chunk in records["ids"].chunks)])


def _offsets(column: pa.LargeBinaryArray) -> Array:
    return np.frombuffer(column.buffers()[1], np.int64)[column.offset : column.offset + len(column) + 1]


def _copy(records: pa.Table, row: Array, pieces: Pieces, target: Array, token_bytes: int, out: Array) -> None:
    """Copy the tokens of every piece to its position, chunk by chunk, since one array of all would be another copy."""
    chunks = [chunk for chunk in records["ids"].chunks if len(chunk)]
    first_row = np.cumsum([0, *(len(chunk) for chunk in chunks)])
    by_row = np.argsort(row, kind="stable") if len(chunks) > 1 else np.arange(len(row))
    cuts = np.searchsorted(row[by_row], first_row) if len(chunks) > 1 else np.array([0, len(row)])
    for number, chunk in enumerate(chunks):
        mine = by_row[cuts[number] : cuts[number + 1]]
        begin = _offsets(chunk)[row[mine] - first_row[number]] + pieces.doc_offset[mine] * token_bytes
        data = read_only(chunk.buffers()[2], np.uint8)
        copy_pieces(data, begin, target[mine] * token_bytes, pieces.length[mine] * token_bytes, out)


def _write_lineage(
    path: Path,
    locators: pa.ChunkedArray,
    row: Array,
    pieces: Pieces,
    offset: Array,
    doc_ids: Array,
    source: str,
    group: str,
) -> None:
    """Write row groups of a fixed size, so that the locators of all pieces are never in memory together."""
    schema = LINEAGE.with_metadata({"source": source, "group": group})
    with pq.ParquetWriter(path, schema, compression="zstd", use_dictionary=["locator", "source"]) as writer:
        for begin in range(0, len(row), ROW_GROUP):
            part = slice(begin, begin + ROW_GROUP)
            count = len(row[part])
            ids = pa.FixedSizeBinaryArray.from_buffers(
                pa.binary(16), count, [None, pa.py_buffer(np.ascontiguousarray(doc_ids[part]))]
            )
            columns = [
                pa.array(pieces.sample[part]),
                pa.array(offset[part].astype(np.int32)),
                pa.array(pieces.length[part].astype(np.int32)),
                ids,
                pa.array(pieces.doc_offset[part]),
                locators.take(pa.array(row[part])).combine_chunks(),
                pa.DictionaryArray.from_arrays(np.zeros(count, np.int32), pa.array([source])),
            ]
            writer.write_table(pa.Table.from_arrays(columns, schema=schema), row_group_size=ROW_GROUP)
