"""Writes sidecar files with which other trainers read the tokens of a shard: Megatron-LM, datatrove, OLMo-core.

All three describe runs: consecutive pieces of one document in the `.bin` form one run, also across the ends of samples.
A document that was split has its full samples next to each other, and its last pieces where they fit.

    NAME.idx                        Megatron-LM: a sequence for each run, sorted by document; padding is never read
    NAME.ds.index, .ds.metadata     datatrove: the end of each run. The format has no gaps, so the padding at the end
                                    of a sample is also a run. It expects the `.bin` as `NAME.ds`
    NAME.csv.gz                     OLMo-core: start, end, id, source and location of each run, without padding. It
                                    expects the `.bin` as `NAME.npy`
"""

import io
import struct
from collections.abc import Collection
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq

from gristmill.counted import counted
from gristmill.errors import UserError
from gristmill.shardformat.index import Index
from gristmill.stages.buffers import strings

Array = np.ndarray[Any, Any]

_INT32_END = 2**31
_HEX = np.array([tuple(f"{byte:02x}".encode()) for byte in range(256)], np.uint8)


def sidecars(index: Index, lineage_path: str | Path, kinds: Collection[str]) -> dict[str, bytes]:
    """The sidecars of a shard for the given trainers, by file name."""
    files = {}
    if "megatron" in kinds:
        files["tokens.idx"] = megatron_index(index)
    if "datatrove" in kinds:
        files |= {"tokens.ds.index": datatrove_index(index), "tokens.ds.metadata": datatrove_metadata(index)}
    if "olmo" in kinds:
        lineage = pq.read_table(lineage_path, columns=["locator", "source"])
        files["tokens.csv.gz"] = olmo_metadata(index, lineage)
    return files


def positions(index: Index) -> Array:
    """The position of each piece in the `.bin`, in tokens; int64."""
    first = index.first_piece.astype(np.int64)
    counts = np.diff(first)
    before = np.cumsum(index.length, dtype=np.int64) - index.length
    return np.repeat(np.arange(index.header.samples) * index.header.seq_len - before[first[:-1]], counts) + before


def used_tokens(index: Index) -> Array:
    """The number of tokens of each sample without padding; int64."""
    first = index.first_piece[:-1].astype(np.int64)
    return np.add.reduceat(index.length, first, dtype=np.int64) if len(first) else first


def by_document(index: Index) -> tuple[Array, Array]:
    """The pieces sorted by document and offset, documents sorted by their position; and the start of each document."""
    halves = np.ascontiguousarray(index.doc_id).view("<u8").reshape(-1, 2)
    order = np.lexsort((index.doc_offset, halves[:, 0], halves[:, 1]))
    begins = np.flatnonzero(np.append(True, (halves[order][1:] != halves[order][:-1]).any(1))[: len(order)])
    counts = np.diff(np.append(begins, len(order)))
    by_place = np.argsort(order[begins], kind="stable")
    starts = np.cumsum(counts[by_place]) - counts[by_place]
    chosen = np.repeat(begins[by_place] - starts, counts[by_place]) + np.arange(len(order))
    return order[chosen], starts


def runs_of(index: Index) -> tuple[Array, Array, Array]:
    """The first piece of each run, its position in the `.bin` and its length in tokens; sorted by position."""
    begin = positions(index)
    end = begin + index.length
    offset = index.doc_offset.astype(np.int64)
    continues = (begin[1:] == end[:-1]) & (index.doc_id[1:] == index.doc_id[:-1])
    continues &= offset[1:] == offset[:-1] + index.length[:-1]
    first = np.flatnonzero(np.append(True, ~continues)[: len(begin)])
    last = np.flatnonzero(np.append(~continues, True)[: len(begin)])
    return first, begin[first], end[last] - begin[first]


def megatron_index(index: Index) -> bytes:
    """A `.idx`: sequences sorted by document, with byte pointers that skip padding, and the start of each document.

    Ids of 4 bytes are int32 there, which is the same below 2^31. Lengths are int32, too, so if a run is longer, the
    pieces stay separate.
    """
    first, begin, length = runs_of(index)
    if len(length) and int(length.max()) >= _INT32_END:
        first, begin, length = np.arange(index.header.pieces), positions(index), index.length.astype(np.int64)
    order, starts = by_document(index)
    number = np.full(index.header.pieces, -1)
    number[first] = np.arange(len(first))
    chosen = number[order]
    documents = np.concatenate(([0], np.cumsum(chosen >= 0)))[np.append(starts, len(order))]
    chosen = chosen[chosen >= 0]
    dtype = 8 if index.header.token_bytes == 2 else 4
    head = struct.pack("<9sQBQQ", b"MMIDIDX\0\0", 1, dtype, len(chosen), len(documents))
    pointers = begin[chosen] * index.header.token_bytes
    body = (length[chosen].astype("<i4"), pointers.astype("<i8"), documents.astype("<i8"))
    return head + b"".join(part.tobytes() for part in body)


def datatrove_index(index: Index) -> bytes:
    """A `.ds.index`: the ends of runs and of the padding between them, in tokens."""
    _, begin, length = runs_of(index)
    samples = np.arange(1, index.header.samples + 1) * index.header.seq_len
    padded = samples[used_tokens(index) < index.header.seq_len]
    return np.sort(np.concatenate((begin + length, padded))).astype("<u8").tobytes()


def datatrove_metadata(index: Index) -> bytes:
    """A `.ds.metadata`: tokenizer and size of an id; tokens with padding; the same number in short form."""
    tokens = index.header.samples * index.header.seq_len
    scale = min((len(str(tokens)) - 1) // 3, 4)
    digits = 2 - (len(str(tokens)) - 1) % 3
    short = f"{tokens / 1000**scale:.{max(digits, 0) if scale else 0}f} {('', 'k', 'M', 'G', 'T')[scale]}T"
    return f"{index.header.tokenizer}|{index.header.token_bytes}\n{tokens}\n{short}".encode()


def olmo_metadata(index: Index, lineage: pa.Table) -> bytes:
    """A `.csv.gz`: start, end, doc_id, source, locator. It has no time stamp: the same index gives the same bytes."""
    if lineage.num_rows != index.header.pieces:
        raise UserError(
            f"the lineage has {counted(lineage.num_rows, 'row')}, but the index has "
            f"{counted(index.header.pieces, 'piece')}, so they belong to different shards. Copy the shard again."
        )
    first, begin, length = runs_of(index)
    rows = pa.array(first)
    ids = np.ascontiguousarray(index.doc_id).view(np.uint8).reshape(-1, 16)[first]
    # The reader treats every line as a row, even within quotes.
    locators = pc.replace_substring_regex(lineage["locator"].take(rows), r"[\r\n]+", " ")
    table = pa.table(
        {
            "start": begin,
            "end": begin + length,
            "id": strings(np.arange(len(first) + 1, dtype=np.int32) * 32, _HEX[ids]),
            "source": lineage["source"].cast(pa.string()).take(rows),
            "location": locators,
        }
    )
    lines = io.BytesIO()
    pyarrow.csv.write_csv(table, lines, pyarrow.csv.WriteOptions(include_header=False, quoting_style="needed"))
    # Arrow's compressor, since Python's differs between builds; the header has no time and no system.
    packed = pa.Codec("gzip", 1).compress(lines.getvalue(), asbytes=True)
    return bytes(packed[:4] + bytes(5) + b"\xff" + packed[10:])
