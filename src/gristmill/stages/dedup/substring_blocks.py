"""Which documents substring_spans compares with each other: blocks of about `block_bytes` of text.

Documents of one host go to the same block. A scope has a power of two of blocks, so many that a block has no more than
`block_bytes` on average, and a hash of the host says which. A few hosts have a large share of every crawl: one with
more than `block_bytes` has as many blocks of its own as needed, by the hash of its documents; a stretch that is
repeated in it then keeps a copy in each block that it falls into.
"""

from typing import Annotated, Any, Literal

import numpy as np
import pyarrow as pa
from pydantic import Field

from gristmill.counted import counted
from gristmill.kernels.dedup.buckets import mixed
from gristmill.kernels.hash.hashset import hash_strings
from gristmill.kernels.urls.parts import split_urls
from gristmill.kernels.urls.robots import sites_and_paths
from gristmill.stages.buffers import bytes_of, strings
from gristmill.stages.contract import Bytes, Exchange, StageConfig
from gristmill.stages.dedup.scope import Scope, salts, scope_reads
from gristmill.stages.shared.keep_order import fixed_bytes

RECORD_SCHEMA = pa.schema([("bytes", pa.int64()), ("scope", pa.uint64()), ("document", pa.uint64())])
SCHEMA = pa.schema([("block", pa.uint64())])
"""The block of a document; null: it is compared with none."""

_IN_SHORT = ["key", "bytes", "document"]

Array = np.ndarray[Any, Any]


class Config(StageConfig):
    min_bytes: Annotated[Bytes, Field(ge=16, le=100_000)] = 500
    """Bytes of a repeated stretch, at least. 500 is OLMo 3's; Lee et al. took 50 tokens, about 200 bytes."""
    scope: Scope = "snapshot"
    """global: all documents are compared; snapshot: those of one snapshot, of any source; source: of one source."""
    block: Literal["host", "document"] = "host"
    """What brings documents into the same block. host: that of the URL (documents without one by doc_id); document: the
    doc_id, for sources whose documents do not come from sites."""
    block_bytes: Annotated[Bytes, Field(ge=1)] = 128_000_000
    """Text that is compared with each other, about; a worker holds 1.5 to 3 times that. More finds more, and a larger
    host is cut."""


def reads(config: Config) -> tuple[str, ...]:
    wanted = ("text_bytes", "doc_id", *scope_reads(config.scope))
    return (*wanted, "url") if config.block == "host" else wanted


def emit(batch: pa.RecordBatch, config: Config) -> pa.RecordBatch:
    """The size of every text that will be compared, to its host."""
    size = batch.column("text_bytes").fill_null(0).to_numpy(zero_copy_only=False)
    rows = np.flatnonzero(size >= config.min_bytes)
    scope = salts(batch, config.scope)
    columns = [units(batch, config.block) ^ scope, np.arange(batch.num_rows), size, scope, document_hashes(batch)]
    return pa.RecordBatch.from_arrays(
        [pa.array(column[rows]) for column in columns], names=["key", "row", *RECORD_SCHEMA.names]
    )


def tally(batch: pa.RecordBatch, records: pa.RecordBatch, config: Config) -> dict[str, int]:
    """Bytes of each scope."""
    known, of = np.unique(records.column("scope").to_numpy(), return_inverse=True)
    sizes = np.bincount(of, records.column("bytes").to_numpy(), len(known))
    return {str(scope): int(size) for scope, size in zip(known, sizes, strict=True)}


def totals(counts: dict[str, int], config: Config) -> dict[str, int]:
    """The number of blocks of each scope: a power of two, which a document more or less hardly ever changes."""
    return {scope: 1 << max(0, -(-size // config.block_bytes) - 1).bit_length() for scope, size in counts.items()}


def reduce(
    records: pa.Table, config: Config, totals: dict[str, int], others: pa.Table | None = None
) -> tuple[pa.Table, dict[str, Any]]:
    """The block of every document. `others`: the same hosts elsewhere; one counts where its first document is."""
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


def in_short(records: pa.Table, config: Config, totals: dict[str, int]) -> pa.Table:
    """The bytes of each host, and its first document."""
    hosts = records.select(_IN_SHORT).group_by("key", use_threads=False)
    return hosts.aggregate([("bytes", "sum"), ("document", "min")]).rename_columns(_IN_SHORT)


def warnings(found: dict[str, Any], config: Config) -> tuple[str, ...]:
    if not found.get("hosts_cut"):
        return ()
    return (
        f"{counted(found['hosts_cut'], 'host has', 'hosts have')} more than {config.block_bytes:,} bytes of text, "
        "compared in blocks, of which each keeps a copy of what is repeated. Raise block_bytes if a worker has the "
        "memory",
    )


def units(batch: pa.RecordBatch, block: str) -> Array:
    """A hash of what keeps documents together."""
    own = document_hashes(batch)
    if block == "document" or not batch.num_rows:
        return own
    data, offsets = bytes_of(batch.column("url"))
    site_offsets, sites, *_ = sites_and_paths(data, split_urls(data, offsets))
    hosts = hash_strings(*bytes_of(strings(site_offsets, sites)))[:, 0]
    return np.where(np.diff(site_offsets) > 0, hosts, own)


def document_hashes(batch: pa.RecordBatch) -> Array:
    own = fixed_bytes(batch.column("doc_id"))
    return np.asarray(hash_strings(own.reshape(-1), np.arange(batch.num_rows + 1, dtype=np.int32) * own.shape[1])[:, 0])


STAGE = Exchange(
    version=3,
    config=Config,
    reads=reads,
    only_kept=True,
    record_schema=RECORD_SCHEMA,
    schema=SCHEMA,
    emit=emit,
    tally=tally,
    totals=totals,
    reduce=reduce,
    summaries={"reduce": in_short},
    warnings=warnings,
)
