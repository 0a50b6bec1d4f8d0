"""Removes documents with the same URL as another; the keep order decides which one stays.

`url_parts`, which runs first, decides which spellings are the same URL. Documents without a URL are not compared.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from gristmill.stages.buffers import fixed_bytes
from gristmill.stages.contract import Exchange
from gristmill.stages.dedup import copies, url_parts
from gristmill.stages.dedup.scope import Scope
from gristmill.stages.shared.keep_order import KeepOrder, may_read, unseen_sources
from gristmill.warned import idle

PREREQUISITES = ("gristmill.stages.dedup.url_parts",)
RECORD_SCHEMA, summary = copies.RECORD_SCHEMA, copies.summary


class Config(url_parts.Config):
    scope: Scope = "global"
    """global: all documents are compared; snapshot: those of one snapshot, of any source; source: of one source."""
    keep: KeepOrder = KeepOrder()
    """Which of several documents with the same URL is kept."""


def reads(config: Config) -> tuple[str, ...]:
    return ("url_parts.url_hash", *copies.reads(config.scope, config.keep))


def emit(batch: pa.RecordBatch, config: Config) -> pa.RecordBatch:
    """Send a record for every URL."""
    digests = batch.column("url_parts.url_hash")
    rows = np.flatnonzero(digests.is_valid().to_numpy(zero_copy_only=False))
    hashes = fixed_bytes(digests.fill_null(bytes(16))).view("<u8")
    return copies.records(batch, hashes, rows, config.scope, config.keep)


def reduce(records: pa.Table, config: Config, others: pa.Table | None = None) -> pa.Table:
    """`url_count` of every URL: how many documents of the scope have it; and a verdict on all of them but one."""
    return copies.verdicts(records, others, "duplicate_url", "url_count")


def warnings(found: dict[str, Any], config: Config) -> Sequence[str]:
    """Warn if there was no URL. A corpus without duplicate URLs is normal."""
    text = "no document has a URL, so nothing was compared. Remove url_dedup, or set the URL in the reader"
    compared = idle(found.get("rows_sent"), found.get("records"), text)
    return [*unseen_sources(found, config.keep), *compared]


STAGE = Exchange(
    version=2,
    config=Config,
    reads=reads,
    may_read=lambda config: may_read(config.keep),
    only_kept=True,
    prerequisites=PREREQUISITES,
    record_schema=RECORD_SCHEMA,
    schema=pa.schema([("url_count", pa.int32()), ("drop", pa.string()), ("detail", pa.string())]),
    emit=emit,
    reduce=reduce,
    summaries={"reduce": summary},
    warnings=warnings,
)
