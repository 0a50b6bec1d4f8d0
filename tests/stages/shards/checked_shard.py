"""Verifies a shard: sizes, hash, pieces, documents, padding and lineage. Lists all faults, one line each."""

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from gristmill.counted import counted
from gristmill.errors import UserError, cause_of
from gristmill.shardformat.index import Header, Index, read_index
from gristmill.stages.shards.sidecars import by_document, positions, used_tokens

Array = np.ndarray[Any, Any]

BLOCK_TOKENS = 1 << 22


def check_shard(
    bin_path: str | Path, index_path: str | Path, lineage_path: str | Path | None = None, vocab_size: int | None = None
) -> list[str]:
    """The faults of a shard. The lineage and the range of ids are only checked if their arguments are given."""
    try:
        index = read_index(index_path)
    except UserError as error:
        return [str(error)]
    except UnicodeDecodeError:
        return [f"{index_path} has a name in its header that is not UTF-8"]
    faults = [*_pieces(index)]
    if faults:
        return faults  # the other checks need correct pieces
    faults += _documents(index)
    try:
        faults += _tokens(Path(bin_path), index, vocab_size)
    except OSError as error:
        faults.append(f"{bin_path} cannot be read: {cause_of(error)}")
    if lineage_path is not None:
        faults += _lineage(Path(lineage_path), index)
    return faults


def _pieces(index: Index) -> Iterator[str]:
    header = index.header
    first = index.first_piece.astype(np.int64)
    if header.token_bytes not in (2, 4):
        yield f"ids have {header.token_bytes} bytes instead of 2 or 4"
    if not 0 < header.seq_len < 2**31:
        yield f"samples have {counted(header.seq_len, 'token')}, which is not in the range from 1 to {2**31 - 1}"
    if first[0] != 0 or first[-1] != header.pieces:
        yield f"first_piece goes from {first[0]} to {first[-1]} instead of from 0 to {header.pieces}"
    elif (falls := np.flatnonzero(np.diff(first) <= 0)).size:
        yield f"first_piece does not increase at sample {falls[0]}{_more(falls)}"
    elif (empty := np.flatnonzero(index.length == 0)).size:
        yield f"piece {empty[0]} has no tokens{_more(empty)}"
    elif header.samples:
        used = used_tokens(index)
        if (over := np.flatnonzero(used > header.seq_len)).size:
            held = counted(used[over[0]], "token")
            yield f"sample {over[0]} has pieces of {held}, more than its length of {header.seq_len}{_more(over)}"
    if (tokens := int(index.length.sum(dtype=np.int64))) != header.tokens:
        yield f"the header says {counted(header.tokens, 'token')}, but the pieces have {tokens}"


def _documents(index: Index) -> Iterator[str]:
    order, starts = by_document(index)
    if len(starts) != index.header.documents:
        yield f"the header says {counted(index.header.documents, 'document')}, but the pieces belong to {len(starts)}"
    length, offset = index.length[order].astype(np.int64), index.doc_offset[order].astype(np.int64)
    expected = np.append(0, offset[:-1] + length[:-1])[: len(order)]
    expected[starts] = 0
    wrong = np.flatnonzero(offset != expected)
    if wrong.size:
        at = wrong[0]
        yield (
            f"document {_name(index, order[at])} has a piece that begins at token {offset[at]} instead of "
            f"{expected[at]}{_more(wrong)}"
        )


def _tokens(path: Path, index: Index, vocab_size: int | None) -> Iterator[str]:
    header = index.header
    size, expected = path.stat().st_size, header.samples * header.seq_len * header.token_bytes
    if size != expected:
        yield f"{path.name} has {size} bytes instead of {expected:,} for {counted(header.samples, 'sample')}"
        return
    ids = np.memmap(path, f"<u{header.token_bytes}", "r") if size else np.zeros(0, f"<u{header.token_bytes}")
    digest = hashlib.sha256()
    used = used_tokens(index)
    ends, highest, bad_padding = [], -1, []
    step = max(1, BLOCK_TOKENS // header.seq_len)
    for sample in range(0, header.samples, step):
        block = ids[sample * header.seq_len : (sample + step) * header.seq_len]
        digest.update(block.data)
        highest = max(highest, int(block.max()))
        padded = _padded(used[sample : sample + step], header)
        found = block == header.end_of_document
        found[padded] = False
        ends.append(np.flatnonzero(found) + sample * header.seq_len)
        bad_padding.append(padded[block[padded] != header.padding] + sample * header.seq_len)
    if digest.hexdigest() != header.bin:
        yield f"sha256 of {path.name} is {digest.hexdigest()[:12]}…, but the header says {header.bin[:12]}…"
    if vocab_size is not None and highest >= vocab_size:
        yield f"{path.name} has the id {highest}, but the tokenizer has only {counted(vocab_size, 'id')}"
    if (wrong := np.concatenate([np.zeros(0, np.int64), *bad_padding])).size:
        yield f"the padding of sample {wrong[0] // header.seq_len} has an id other than {header.padding}{_more(wrong)}"
    yield from _ends(index, np.concatenate([np.zeros(0, np.int64), *ends]))


def _padded(used: Array, header: Header) -> Array:
    """The positions of padding in a block of samples."""
    left = header.seq_len - used
    before = np.cumsum(left) - left
    return np.repeat(np.arange(len(used)) * header.seq_len + used - before, left) + np.arange(int(left.sum()))


def _ends(index: Index, found: Array) -> Iterator[str]:
    """The end-of-document id must be at the end of each document's last piece, and nowhere else."""
    order, starts = by_document(index)
    last = order[np.append(starts[1:], len(order)) - 1] if len(order) else order
    expected = np.sort(positions(index)[last] + index.length[last] - 1)
    here = np.isin(found, expected, assume_unique=True)
    if (extra := found[~here]).size:
        yield (
            f"sample {extra[0] // index.header.seq_len} has the end-of-document id {index.header.end_of_document} at "
            f"{extra[0] % index.header.seq_len}, where no document ends{_more(extra)}"
        )
    if (missing := expected[~np.isin(expected, found, assume_unique=True)]).size:
        yield (
            f"the document that ends in sample {missing[0] // index.header.seq_len} at "
            f"{missing[0] % index.header.seq_len} has no end-of-document id{_more(missing)}"
        )


def _lineage(path: Path, index: Index) -> list[str]:
    try:
        return list(_rows(path, index))
    except (OSError, pa.ArrowException, KeyError, UnicodeDecodeError) as error:
        return [f"{path.name} is not the lineage of a shard: {error}"]


def _rows(path: Path, index: Index) -> Iterator[str]:
    """Each row must describe the piece of the index with its number."""
    table = pq.read_table(path)
    source = (table.schema.metadata or {}).get(b"source", b"").decode()
    columns = {name: table[name] for name in ("sample", "offset", "length", "doc_id", "doc_offset", "source")}
    if table.num_rows != index.header.pieces:
        pieces = counted(index.header.pieces, "piece")
        yield f"{path.name} has {counted(table.num_rows, 'row')}, but the index has {pieces}"
        return
    begin = positions(index)
    seq_len = index.header.seq_len
    expected = {
        "sample": begin // seq_len,
        "offset": begin % seq_len,
        "length": index.length,
        "doc_offset": index.doc_offset,
    }
    for name, values in expected.items():
        if (wrong := np.flatnonzero(columns[name].to_numpy() != values)).size:
            yield f"{path.name} and the index differ in {name} in row {wrong[0]}{_more(wrong)}"
    ids = b"".join(
        chunk.buffers()[1][16 * chunk.offset :][: 16 * len(chunk)] for chunk in columns["doc_id"].chunks if len(chunk)
    )
    if ids != index.doc_id.tobytes():
        yield f"{path.name} and the index differ in a doc_id"
    if any(name != source for name in columns["source"].unique().to_pylist()):
        yield f"{path.name} has rows with a source other than {source!r}"


def _name(index: Index, piece: int) -> str:
    return str(index.doc_id[piece].tobytes().hex())


def _more(wrong: Array) -> str:
    return f" (and {len(wrong) - 1} more)" if len(wrong) > 1 else ""
