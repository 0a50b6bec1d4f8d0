"""Assigns documents to blocks of about `block_bytes` of text, within which substring_spans compares them.

Documents of one host are in the same block, which a hash of the host selects. The number of blocks of a scope is a
power of two, such that a block has at most `block_bytes` on average. A few hosts have a large share of every crawl: a
host with more than `block_bytes` gets several blocks, by the hash of its documents. A substring that is repeated in
such a host keeps a copy in each of these blocks.
"""

from typing import Annotated, Any, Literal

import numpy as np
import pyarrow as pa
from pydantic import Field

from gristmill.counted import counted
from gristmill.kernels.dedup.buckets import mixed
from gristmill.kernels.hash.hashset import hash_strings
from gristmill.stages.buffers import bytes_of, fixed_bytes, read_only
from gristmill.stages.contract import Bytes, Exchange, StageConfig
from gristmill.stages.dedup.scope import Scope, salts, scope_reads
from gristmill.stages.shared.urls import LIBRARIES, hosts_of

RECORD_SCHEMA = pa.schema([("bytes", pa.int64()), ("scope", pa.uint64()), ("document", pa.uint64())])
SCHEMA = pa.schema([("block", pa.uint64())])
"""The block of a document; null: it is not compared."""

_IN_SHORT = ["key", "bytes", "document"]

Array = np.ndarray[Any, Any]


class Config(StageConfig):
    min_bytes: Annotated[Bytes, Field(ge=16, le=100_000)] = 500
    """The least bytes of a repeated substring. OLMo 3 used 500; Lee et al. used 50 tokens, about 200 bytes."""
    scope: Scope = "snapshot"
    """global: all documents are compared; snapshot: those of one snapshot, of any source; source: of one source."""
    block: Literal["host", "document"] = "host"
    """What determines the block of a document. host: the host of the URL (or the doc_id, without a URL); document: the
    doc_id, for sources whose documents do not come from sites."""
    block_bytes: Annotated[Bytes, Field(ge=1)] = 128_000_000
    """The approximate text of a block; a worker needs 1.5 to 3 times as much memory. Larger blocks find more. A host
    with more text is split."""


def reads(config: Config) -> tuple[str, ...]:
    wanted = ("text_bytes", "doc_id", *scope_reads(config.scope))
    return (*wanted, "url") if config.block == "host" else wanted


def emit(batch: pa.RecordBatch, config: Config) -> pa.RecordBatch:
    """Send the size of every text that will be compared to its host."""
    size = batch.column("text_bytes").fill_null(0).to_numpy(zero_copy_only=False)
    rows = np.flatnonzero(size >= config.min_bytes)
    scope = salts(batch, config.scope)
    columns = [units(batch, config.block) ^ scope, np.arange(batch.num_rows), size, scope, document_hashes(batch)]
    return pa.RecordBatch.from_arrays(
        [pa.array(column[rows]) for column in columns], names=["key", "row", *RECORD_SCHEMA.names]
    )


def tally(batch: pa.RecordBatch, records: pa.RecordBatch, config: Config) -> dict[str, int]:
    """Count the bytes of each scope."""
    known, of = np.unique(records.column("scope").to_numpy(), return_inverse=True)
    sizes = np.bincount(of, records.column("bytes").to_numpy(), len(known))
    return {str(scope): int(size) for scope, size in zip(known, sizes, strict=True)}


def totals(counts: dict[str, int], config: Config) -> dict[str, int]:
    """The number of blocks of each scope: a power of two, so that one document more or less rarely changes it."""
    return {scope: 1 << max(0, -(-size // config.block_bytes) - 1).bit_length() for scope, size in counts.items()}


def reduce(
    records: pa.Table, config: Config, totals: dict[str, int], others: pa.Table | None = None
) -> tuple[pa.Table, dict[str, Any]]:
    """The block of every document. `others`: the `summary` of the same hosts elsewhere; the first counts a host."""
    rows = records.num_rows
    found = [records, *([] if others is None else [others])]
    key, size, document = (np.concatenate([table.column(name).to_numpy() for table in found]) for name in _IN_SHORT)
    _, first, host = np.unique(key, return_index=True, return_inverse=True)
    cut = np.ceil(np.bincount(host, size) / config.block_bytes).astype(np.uint64)
    if others is not None:
        order = np.lexsort((document, host))
        first = order[np.flatnonzero(np.diff(host[order], prepend=-1))]
    own = first < rows
    key, document, of_host = key[:rows], document[:rows], cut[host[:rows]]
    scope = records.column("scope").to_numpy()
    known, of_scope = np.unique(scope, return_inverse=True)
    blocks = np.array([totals[str(one)] for one in known], np.uint64)[of_scope]
    together = mixed(scope + mixed((key ^ scope) & (blocks - np.uint64(1))))
    apart = mixed(key + mixed(document % np.maximum(of_host, np.uint64(1)) + np.uint64(1)))
    answers = records.select(["part", "row"])
    answers = answers.append_column("block", pa.array(np.where(of_host > 1, apart, together)))
    return answers, {"hosts": int(own.sum()), "hosts_cut": int(np.count_nonzero(own & (cut > 1)))}


def summary(records: pa.Table, config: Config, totals: dict[str, int]) -> pa.Table:
    """The bytes of each host, and its first document."""
    hosts = records.select(_IN_SHORT).group_by("key", use_threads=False)
    return hosts.aggregate([("bytes", "sum"), ("document", "min")]).rename_columns(_IN_SHORT)


def warnings(found: dict[str, Any], config: Config) -> tuple[str, ...]:
    if not found.get("hosts_cut"):
        return ()
    return (
        f"{counted(found['hosts_cut'], 'host has', 'hosts have')} more than {config.block_bytes:,} bytes of text. "
        "Such a host is compared in several blocks, each of which keeps a copy of a repeated substring. Raise "
        "block_bytes if workers have the memory",
    )


def units(batch: pa.RecordBatch, block: str) -> Array:
    """The hash of each row's host or document, which selects its block."""
    own = document_hashes(batch)
    if block == "document" or not batch.num_rows:
        return own
    hosts, offsets = bytes_of(hosts_of(batch.column("url")))
    return np.where(np.diff(offsets) > 0, hash_strings(hosts, offsets)[:, 0], own)


def document_hashes(batch: pa.RecordBatch) -> Array:
    own = fixed_bytes(batch.column("doc_id"))
    offsets = read_only(np.arange(batch.num_rows + 1, dtype=np.int32) * own.shape[1], np.int32)
    return np.asarray(hash_strings(own.reshape(-1), offsets)[:, 0])


STAGE = Exchange(
    version=4,
    config=Config,
    libraries=LIBRARIES,
    reads=reads,
    only_kept=True,
    record_schema=RECORD_SCHEMA,
    schema=SCHEMA,
    emit=emit,
    tally=tally,
    totals=totals,
    reduce=reduce,
    summaries={"reduce": summary},
    warnings=warnings,
)
