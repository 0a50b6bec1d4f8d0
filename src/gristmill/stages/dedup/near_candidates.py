"""Finds the candidates of near_dedup by MinHash banding (Broder 1997, FineWeb 2024).

A document is the set of its word n-grams. Each of the bands x rows hashes of its sketch equals that of another document
with a probability equal to the Jaccard similarity s of their sets. Two documents are candidates if all `rows` hashes of
a band are equal, which has probability 1 - (1 - s^rows)^bands: the S-curve that `plan` shows.

Band hashes are partitioned by hash range, each with its document, and sorted. Equal hashes form a bucket, and the
members of a bucket are a candidate group. The result for a document is the list of its groups, to which near_dedup
sends its text.
"""

from typing import Annotated, Any, Literal

import numpy as np
import pyarrow as pa
from pydantic import Field

from gristmill.counted import counted
from gristmill.kernels.dedup.buckets import groups_of, members_of, needless
from gristmill.kernels.dedup.shingles import word_tables
from gristmill.kernels.dedup.sketch import band_hashes_of
from gristmill.kernels.hash.radix import sort_order
from gristmill.stages.buffers import bytes_of, changes, first_numbers
from gristmill.stages.contract import AsCount, Exchange, StageConfig
from gristmill.stages.dedup.clusters import size_class
from gristmill.stages.dedup.scope import Scope, salts, scope_reads

RECORD_SCHEMA = pa.schema([("document", pa.uint64())])

REPRESENTATIVES = 16
"""The number of documents of a bucket over the cap that every other member is compared with."""
SMALL = 8
"""Buckets of up to this many members list them, so that a document can skip a bucket that a larger one contains."""
MOST_CROWDS = 2
"""The most buckets over the cap that a document joins, unless it represents them; each sends its text once more."""


class Config(StageConfig):
    ngram: Annotated[int, Field(ge=1, le=50)] = 5
    """Words in a shingle."""
    bands: Annotated[int, Field(ge=1, le=512)] = 14
    """Bands of a sketch. More bands find more pairs, including less similar ones."""
    rows: Annotated[int, Field(ge=1, le=64)] = 8
    """Hashes in a band. More hashes make the S-curve steeper and move it to the right."""
    sketch: Literal["fast", "minhash"] = "fast"
    """fast: Fast Similarity Sketching, about one hash per shingle; minhash: classic, bands x rows per shingle."""
    scope: Scope = "snapshot"
    """global: all documents are compared; snapshot: those of one snapshot, of any source; source: of one source."""
    max_bucket: Annotated[int, AsCount, Field(ge=32, le=100_000)] = 1000
    """The largest bucket (documents that share a band) in which all pairs are compared. In a larger one, a document is
    compared with 16 representatives and a part of the bucket."""
    seed: int = 0
    """Seed of the hashes; the recipe's seed by default."""


def reads(config: Config) -> tuple[str, ...]:
    return ("text", "doc_id", *scope_reads(config.scope))


def emit(batch: pa.RecordBatch, config: Config) -> pa.RecordBatch:
    """Send a record for each band of each document."""
    data, offsets = bytes_of(batch.column("text"))
    salt = salts(batch, config.scope)
    bands = band_hashes_of(
        data, offsets, config.ngram, config.bands, config.rows, config.sketch, config.seed, salt, word_tables()
    )
    documents = first_numbers(batch.column("doc_id"), "<")
    return pa.RecordBatch.from_arrays(
        [
            pa.array(bands.ravel()),
            pa.array(np.repeat(np.arange(batch.num_rows), config.bands)),
            pa.array(np.repeat(documents, config.bands)),
        ],
        names=["key", "row", *RECORD_SCHEMA.names],
    )


def buckets(records: pa.Table, config: Config, others: pa.Table | None = None) -> tuple[pa.Table, dict[str, Any]]:
    """Send every document of a bucket of two or more its group. `others`: the `summary` of the rest of the bucket."""
    keys, documents = (records.column(name).to_numpy() for name in ("key", "document"))
    elsewhere, leaders = 0, np.zeros(0, np.uint64)
    if others is not None:
        elsewhere = int(others.column("times").to_numpy().sum())
        leaders = np.sort(others.column("document").to_numpy())[:REPRESENTATIVES]
    index, group, bucket, leads, sizes = groups_of(
        keys, documents, config.max_bucket, REPRESENTATIVES, elsewhere, leaders
    )
    offsets, members = members_of(keys[index], documents[index], SMALL)
    found = pa.table(
        {
            "key": pa.array(documents[index]),
            "part": records.column("part").take(pa.array(index)),
            "row": records.column("row").take(pa.array(index)),
            "group": pa.array(group),
            "bucket": pa.array(bucket),
            "leads": pa.array(leads),
            "members": pa.ListArray.from_arrays(pa.array(offsets.astype(np.int32)), pa.array(members)),
        }
    )
    counts = {"buckets_by_size": {size_class(power): int(count) for power, count in enumerate(sizes) if count}}
    over = np.unique(bucket[bucket > 0])
    if len(over):
        own = len(over) if others is None else int(documents.min() < leaders.min())
        crowded = int(np.count_nonzero(bucket > 0) - np.count_nonzero(leads))
        counts["buckets_over_cap"] = {"buckets": own, "places": crowded}
    return found, counts


def summary(records: pa.Table, config: Config) -> pa.Table:
    """The documents that may represent each bucket, and its number of documents."""
    keys, documents = (records.column(name).to_numpy() for name in ("key", "document"))
    order = sort_order(keys, documents)
    keys, documents = keys[order], documents[order]
    starts = np.flatnonzero(np.diff(keys, prepend=~keys[:1]))
    members = np.diff(np.append(starts, len(keys)))
    place = np.arange(len(keys)) - np.repeat(starts, members)
    some = place < REPRESENTATIVES
    times = np.where(place == 0, np.repeat(members, members), 0)
    return pa.table({"document": documents[some], "times": times[some]})


def reduce(records: pa.Table, config: Config) -> pa.Table:
    """The groups of every document, without duplicates."""
    part, row, group, bucket, leads = (
        records.column(name).to_numpy() for name in ("part", "row", "group", "bucket", "leads")
    )
    crowd = np.flatnonzero((bucket > 0) & ~leads)
    crowd = crowd[sort_order(part[crowd], row[crowd], bucket[crowd])]
    first = changes(part[crowd], row[crowd])
    place = np.arange(len(crowd)) - np.maximum.accumulate(np.where(first, np.arange(len(crowd)), 0))
    alone = np.flatnonzero(changes(part, row))
    members = records.column("members").combine_chunks()
    spare = needless(
        np.append(alone, len(part)), members.offsets.to_numpy().astype(np.int64), members.values.to_numpy()
    )
    chosen = np.concatenate([np.flatnonzero(((bucket == 0) & ~spare) | leads), crowd[place < MOST_CROWDS]])
    chosen = chosen[sort_order(part[chosen], row[chosen], group[chosen])]
    part, row, group = part[chosen], row[chosen], group[chosen]
    first = changes(part, row)
    fresh = first.copy()
    fresh[1:] |= group[1:] != group[:-1]
    starts = np.flatnonzero(first[fresh])
    offsets = np.append(starts, np.count_nonzero(fresh)).astype(np.int32)
    at = np.flatnonzero(fresh)
    return pa.table(
        {
            "part": pa.array(part[at][starts]),
            "row": pa.array(row[at][starts]),
            "groups": pa.ListArray.from_arrays(pa.array(offsets), pa.array(group[at])),
        }
    )


def warnings(metrics: dict[str, Any], config: Config) -> tuple[str, ...]:
    """Warn about buckets over the cap, where some pairs are not compared."""
    over = metrics.get("buckets_over_cap")
    if not over:
        return ()
    return (
        f"{counted(over['buckets'], 'bucket has', 'buckets have')} more than max_bucket ({config.max_bucket:,}) "
        f"documents (boilerplate?). In {counted(over['places'], 'case')} a document was compared only with 16 "
        "representatives and a part of its bucket",
    )


STAGE = Exchange(
    version=4,
    config=Config,
    libraries=("unicode",),
    reads=reads,
    only_kept=True,
    record_schema=RECORD_SCHEMA,
    schema=pa.schema([("groups", pa.list_(pa.uint64()))]),
    emit=emit,
    rounds={"buckets": buckets},
    reduce=reduce,
    summaries={"buckets": summary},
    warnings=warnings,
)
