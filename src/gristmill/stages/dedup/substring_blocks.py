"""How large the blocks of substring_spans would be: the bytes of text of each host, so that a giant one can be cut.

Documents of one host are compared with each other, and a few hosts have a large share of every crawl. One with more
than `block_bytes` is cut into as many blocks as needed, by the hash of its documents: a stretch that is repeated in it
then keeps a copy in each block that it falls into.
"""

from typing import Annotated, Any, Literal

import numpy as np
import pyarrow as pa
from pydantic import Field

from gristmill.counted import counted
from gristmill.kernels.hash.hashset import hash_strings
from gristmill.kernels.urls.parts import split_urls
from gristmill.kernels.urls.robots import sites_and_paths
from gristmill.stages.buffers import bytes_of, strings
from gristmill.stages.contract import AsCount, Bytes, StageConfig
from gristmill.stages.dedup.keep_order import fixed_bytes
from gristmill.stages.dedup.scope import Scope, salts, scope_reads

VERSION = 1
LIBRARIES = ()
ONLY_KEPT = True
RECORD_SCHEMA = pa.schema([("bytes", pa.int64())])
SCHEMA = pa.schema([("blocks", pa.int32())])
"""Into how many blocks the documents of the row's host are cut; null: one."""

Array = np.ndarray[Any, Any]


class Config(StageConfig):
    min_bytes: Annotated[Bytes, Field(ge=16, le=100_000)] = 500
    """Bytes of a repeated stretch, at least. 500 is OLMo 3's; Lee et al. took 50 tokens, about 200 bytes."""
    scope: Scope = "snapshot"
    """snapshot: documents of one source and one snapshot are compared; source: of one source; global: all."""
    block: Literal["host", "document"] = "host"
    """What brings documents into the same block. host: that of the URL (documents without one by doc_id); document: the
    doc_id, for sources whose documents do not come from sites."""
    block_bytes: Annotated[Bytes, Field(ge=1)] = 1_000_000_000
    """Text of one host that is compared at once; a larger host is cut."""
    partitions: Annotated[int, AsCount, Field(gt=0, le=1 << 16)] = 64
    """Number of blocks of a scope; one partition, about corpus bytes / partitions, is in memory at a time. Fewer find
    more."""


def reads(config: Config) -> tuple[str, ...]:
    wanted = ("text_bytes", "doc_id", *scope_reads(config.scope))
    return (*wanted, "url") if config.block == "host" else wanted


def emit(batch: pa.RecordBatch, config: Config) -> pa.RecordBatch:
    """The size of every text that will be compared, to its host; nothing where hosts do not count."""
    size = batch.column("text_bytes").fill_null(0).to_numpy(zero_copy_only=False)
    rows = np.flatnonzero((size >= config.min_bytes) & (config.block == "host"))
    key = units(batch, config.block) ^ salts(batch, config.scope)
    return pa.RecordBatch.from_arrays(
        [pa.array(key[rows]), pa.array(rows, pa.int64()), pa.array(size[rows], pa.int64())],
        names=["key", "row", *RECORD_SCHEMA.names],
    )


def reduce(records: pa.Table, config: Config) -> tuple[pa.Table, dict[str, Any]]:
    """The number of blocks, to the documents of hosts that need more than one."""
    _, host = np.unique(records.column("key").to_numpy(), return_inverse=True)
    total = np.bincount(host, records.column("bytes").to_numpy())
    blocks = np.ceil(total / config.block_bytes).astype(np.int32)
    rows = np.flatnonzero(blocks[host] > 1)
    answers = records.select(["part", "row"]).take(pa.array(rows))
    counts = {"hosts": len(blocks), "hosts_cut": int(np.count_nonzero(blocks > 1))}
    return answers.append_column("blocks", pa.array(blocks[host[rows]])), counts


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
