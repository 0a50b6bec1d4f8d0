"""Removes near duplicates: keeps the best document of each cluster, by MinHash and exact Jaccard similarity.

Documents whose MinHash sketches share a band are candidates (Broder 1997, FineWeb 2024). Their texts are compared as
sets of shingles: a link is a pair whose exact Jaccard similarity reaches `verify_jaccard`. Only links join documents,
so verified pairs connect every cluster; `chain` is the number of links between a document and its keeper. (Elsewhere,
unverified bands joined 51,000 unrelated books.) The comparisons per document and group are limited.

The keeper is the best member by `keep`. Documents too short for a shingle are compared by their words.
"""

import math
from collections.abc import Iterator, Sequence
from typing import Annotated, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pydantic import Field

from gristmill.counted import counted
from gristmill.kernels.dedup.links import link_sets
from gristmill.kernels.dedup.shingles import word_tables
from gristmill.kernels.dedup.sketch import ratio_of, shingle_sets
from gristmill.stages.buffers import large_texts
from gristmill.stages.contract import AsCount, Exchange
from gristmill.stages.dedup import clusters, near_candidates
from gristmill.stages.dedup.clusters import merge, merged_roots, resolve, roots, sizes_of_clusters
from gristmill.stages.shared import keep_order
from gristmill.stages.shared.keep_order import RANK, KeepOrder
from gristmill.stages.shared.s_curve import Similarity, curve_in_short, curve_lines
from gristmill.warned import Warnings

RECORD_SCHEMA = pa.schema([("rank", RANK), ("text", pa.large_string())])

_GROUPS = "near_candidates.groups"
_BLOCK_BYTES = 32 << 20
"""The bytes of text whose shingles are in memory at a time; a candidate group is never split."""


class Config(near_candidates.Config):
    verify_jaccard: Similarity = 0.8
    """The least Jaccard similarity, of shingle sets, of two linked documents."""
    max_comparisons: Annotated[int, AsCount, Field(ge=1)] = 128
    """The most comparisons of a document in one candidate group; documents that reach it are counted."""
    keep: KeepOrder = KeepOrder()
    """Which document of a cluster is kept."""


def reads(config: Config) -> tuple[str, ...]:
    return ("text", _GROUPS, *keep_order.reads(config.keep))


def emit(batch: pa.RecordBatch, config: Config) -> pa.RecordBatch:
    """Send the text of each document to all of its candidate groups."""
    wanted = batch.column(_GROUPS)
    row = pc.list_parent_indices(wanted)
    return pa.RecordBatch.from_arrays(
        [
            pc.list_flatten(wanted),
            row.cast(pa.int64()),
            keep_order.ranks(batch, config.keep).take(row),
            batch.column("text").cast(pa.large_string()).take(row),
        ],
        names=["key", "row", *RECORD_SCHEMA.names],
    )


def verify(records: pa.Table, config: Config) -> tuple[pa.Table, dict[str, Any]]:
    """By candidate group: the trees of documents that are linked by similar pairs."""
    records, groups = clusters.best_first(records)
    threshold = ratio_of(config.verify_jaccard)
    found, total = [], dict[str, int]()
    for begin, end in _blocks(groups, records.column("text")):
        here = records.slice(groups[begin], groups[end] - groups[begin])
        data, offsets = large_texts(here.column("text").combine_chunks())
        sets = shingle_sets(data, offsets.copy(), config.ngram, word_tables())
        bounds = groups[begin : end + 1] - groups[begin]
        *links, compared, used_up = link_sets(bounds, *sets, *threshold, config.max_comparisons)
        found.append(clusters.trees(here, here.num_rows, *links))
        add = {"comparisons": compared, "links": len(links[0]), "budgets_used_up": used_up}
        total = {name: count + total.get(name, 0) for name, count in add.items()}
    return pa.concat_tables(found), {"texts_compared": records.num_rows, **total}


def reduce(records: pa.Table, config: Config, others: pa.Table | None = None) -> tuple[pa.Table, dict[str, Any]]:
    """Drop every member of a cluster except its keeper."""
    return clusters.conclude(records, others)


def explain(config: Config) -> list[str]:
    return curve_in_short(config.bands, config.rows, config.verify_jaccard)


def explain_fully(config: Config) -> list[str]:
    return curve_lines(config.bands, config.rows, config.verify_jaccard)


def warnings(metrics: dict[str, Any], config: Config) -> Sequence[str]:
    warned = Warnings(keep_order.unseen_sources(metrics, config.keep))
    if metrics.get("budgets_used_up"):
        warned.add(
            "comparisons_cut",
            f"in {counted(metrics['budgets_used_up'], 'case')} a document reached max_comparisons "
            f"({config.max_comparisons}) and was not compared with the rest of its bucket. Raise it to find more",
        )
    return warned


def _blocks(groups: Any, texts: pa.ChunkedArray) -> Iterator[tuple[int, int]]:
    """Ranges of groups with at most _BLOCK_BYTES of text, or of one larger group."""
    sizes = pc.binary_length(texts).to_numpy()
    ends = np.append(0, np.cumsum(sizes))[groups]
    begin = 0
    while begin < len(groups) - 1:
        end = int(np.searchsorted(ends, ends[begin] + _BLOCK_BYTES, "right")) - 1
        end = max(end, begin + 1)
        yield begin, end
        begin = end


STAGE = Exchange(
    version=2,
    config=Config,
    libraries=("unicode",),
    reads=reads,
    may_read=lambda config: keep_order.may_read(config.keep),
    only_kept=True,
    prerequisites=("gristmill.stages.dedup.near_candidates",),
    record_schema=RECORD_SCHEMA,
    schema=clusters.SCHEMA,
    ranges={"similarity": (0, 1), "cluster_size": (2, math.inf)},
    emit=emit,
    rounds={"verify": verify, "roots": roots, "merge": merge, "resolve": resolve},
    reduce=reduce,
    summaries={"resolve": merged_roots, "reduce": sizes_of_clusters},
    warnings=warnings,
    explain=explain,
    explain_fully=explain_fully,
)
