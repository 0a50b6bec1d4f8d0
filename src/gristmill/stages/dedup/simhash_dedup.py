"""Removes near duplicates by SimHash, if memory is too small for near_dedup: 64 bits per document, and no text is sent.

Two documents are linked if their fingerprints differ in at most `max_distance` bits. To find such pairs without
comparing all, the 64 bits are split into `blocks`. At most max_distance of the blocks can differ, so documents are
compared once for every choice of blocks - max_distance equal blocks (Manku et al. 2007). Fewer blocks mean fewer
records and more comparisons: 4 blocks are 4 records per document and keys of 16 bits, enough for 100 million documents.

Only fingerprints are compared, not texts. Unlike near_dedup, this may link documents that share little, especially
short ones. Documents with fewer than `min_shingles` shingles are linked only if all of their shingles are the same.
"""

import math
from collections.abc import Sequence
from itertools import combinations
from math import comb
from typing import Annotated, Any, Self

import numpy as np
import pyarrow as pa
from pydantic import Field, model_validator

from gristmill.counted import counted
from gristmill.kernels.dedup.buckets import mixed
from gristmill.kernels.dedup.shingles import word_tables
from gristmill.kernels.dedup.simhash import BITS, fingerprints, link_prints
from gristmill.kernels.dedup.sketch import shingle_sets
from gristmill.stages.buffers import bytes_of
from gristmill.stages.contract import AsCount, Exchange, StageConfig
from gristmill.stages.dedup import clusters
from gristmill.stages.dedup.clusters import merge, merged_roots, resolve, roots, sizes_of_clusters
from gristmill.stages.dedup.scope import Scope, salts, scope_reads
from gristmill.stages.shared import keep_order
from gristmill.stages.shared.keep_order import RANK, KeepOrder
from gristmill.warned import Warnings

RECORD_SCHEMA = pa.schema([("print", pa.uint64()), ("rank", RANK)])
_MOST_RECORDS = 10_000
"""The most records of a document, one for each choice of blocks. They take 300 KB, more than most texts."""


class Config(StageConfig):
    ngram: Annotated[int, Field(ge=1, le=50)] = 3
    """Words in a shingle."""
    max_distance: Annotated[int, Field(ge=0, le=16)] = 3
    """The most bits, of 64, in which the fingerprints of linked documents differ."""
    blocks: Annotated[int, Field(ge=1, le=24)] = 4
    """The number of blocks of a fingerprint; more than max_distance."""
    min_shingles: Annotated[int, AsCount, Field(ge=1)] = 32
    """The least shingles of a document for a meaningful fingerprint; shorter documents must have equal shingles."""
    max_comparisons: Annotated[int, AsCount, Field(ge=2)] = 1000
    """The most comparisons of a document per key; documents that reach it are counted."""
    scope: Scope = "snapshot"
    """global: all documents are compared; snapshot: those of one snapshot, of any source; source: of one source."""
    keep: KeepOrder = KeepOrder()
    """Which document of a cluster is kept."""

    @model_validator(mode="after")
    def _enough_blocks(self) -> Self:
        if self.blocks <= self.max_distance:
            raise ValueError(f"blocks must be more than max_distance ({self.max_distance}), else all blocks may differ")
        if (records := comb(self.blocks, self.max_distance)) > _MOST_RECORDS:
            raise ValueError(
                f"{self.blocks} blocks, of which {self.max_distance} may differ (max_distance), are "
                f"{counted(records, 'record')} per document; at most {_MOST_RECORDS:,} are allowed. Lower blocks or "
                "max_distance"
            )
        return self


def reads(config: Config) -> tuple[str, ...]:
    return tuple(dict.fromkeys(("text", *scope_reads(config.scope), *keep_order.reads(config.keep))))


def emit(batch: pa.RecordBatch, config: Config) -> pa.RecordBatch:
    """Send a record for every choice of blocks; only one for a short document, which must have an equal."""
    data, offsets = bytes_of(batch.column("text"))
    ends, values = shingle_sets(data, offsets, config.ngram, word_tables())
    prints, salt = fingerprints(ends, values), salts(batch, config.scope)
    short = np.diff(ends) < config.min_shingles
    whole = np.add.reduceat(mixed(values), ends[:-1]) if batch.num_rows else prints
    choices = list(combinations(range(config.blocks), config.blocks - config.max_distance))
    keys = [
        mixed(mixed(prints & _mask(choice, config.blocks)) + salt + np.uint64(n)) for n, choice in enumerate(choices)
    ]
    rows = [np.flatnonzero(~short)] * len(choices) + [np.flatnonzero(short)]
    # The key and fingerprint of a short document are a hash of its whole set, so only equal sets are linked.
    keys.append(mixed(whole ^ salt))
    row = np.concatenate(rows)
    key = np.concatenate([of_choice[chosen] for of_choice, chosen in zip(keys, rows, strict=True)])
    return pa.RecordBatch.from_arrays(
        [
            pa.array(key, pa.uint64()),
            pa.array(row, pa.int64()),
            pa.array(np.where(short, mixed(whole), prints)[row], pa.uint64()),
            keep_order.ranks(batch, config.keep).take(pa.array(row)),
        ],
        names=["key", "row", *RECORD_SCHEMA.names],
    )


def compare(records: pa.Table, config: Config) -> tuple[pa.Table, dict[str, Any]]:
    """By key: the trees of documents with similar fingerprints."""
    records, groups = clusters.best_first(records)
    prints = records.column("print").to_numpy()
    ones, others, apart, used_up = link_prints(groups, prints, config.max_distance, config.max_comparisons)
    shares = (1 - apart / BITS).astype(np.float32)
    counts = {"links": len(ones), "budgets_used_up": used_up}
    return clusters.trees(records, records.num_rows, ones, others, shares), counts


def reduce(records: pa.Table, config: Config, others: pa.Table | None = None) -> tuple[pa.Table, dict[str, Any]]:
    """Drop every member of a cluster except its keeper."""
    return clusters.conclude(records, others, "near_duplicate", "equal bits")


def warnings(metrics: dict[str, Any], config: Config) -> Sequence[str]:
    warned = Warnings(keep_order.unseen_sources(metrics, config.keep))
    if metrics.get("budgets_used_up"):
        warned.add(
            "comparisons_cut",
            f"in {counted(metrics['budgets_used_up'], 'case')} a document shared its key with more than "
            f"max_comparisons ({config.max_comparisons}) others and was compared with only that many. Raise blocks",
        )
    return warned


def _mask(choice: tuple[int, ...], blocks: int) -> np.uint64:
    bounds = [BITS * number // blocks for number in range(blocks + 1)]
    return np.uint64(sum((1 << bounds[number + 1]) - (1 << bounds[number]) for number in choice))


STAGE = Exchange(
    version=3,
    config=Config,
    libraries=("unicode",),
    reads=reads,
    may_read=lambda config: keep_order.may_read(config.keep),
    only_kept=True,
    record_schema=RECORD_SCHEMA,
    schema=clusters.SCHEMA,
    ranges={"similarity": (0, 1), "cluster_size": (2, math.inf)},
    emit=emit,
    rounds={"compare": compare, "roots": roots, "merge": merge, "resolve": resolve},
    reduce=reduce,
    summaries={"resolve": merged_roots, "reduce": sizes_of_clusters},
    warnings=warnings,
)
