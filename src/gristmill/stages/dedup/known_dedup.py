"""Removes near duplicates of an earlier corpus, using stored indexes instead of the earlier texts.

`gristmill index` writes the index of a finished corpus. Each new document is sketched like that index, looked up by its
bands, and compared with the shingle sets in the index. It is dropped if its exact Jaccard similarity with one of them
reaches `verify_jaccard`. New documents are not compared with each other; near_dedup does that.
"""

from collections.abc import Sequence
from typing import Annotated, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pydantic import Field

from gristmill.errors import UserError, WrongSetting
from gristmill.kernels.dedup.known import find_known
from gristmill.kernels.dedup.sketch import ratio_of
from gristmill.stages.contract import AsCount, File, Map, StageConfig
from gristmill.stages.dedup.near_index import open_index, sketch_batch
from gristmill.stages.shared.keep_order import ID_BYTES
from gristmill.stages.shared.s_curve import Similarity
from gristmill.warned import idle

SCHEMA = pa.schema(
    [("known", pa.binary(ID_BYTES)), ("similarity", pa.float32()), ("drop", pa.string()), ("detail", pa.string())]
)
"""known: doc_id of the most similar document in the first index that has a near duplicate."""


class Config(StageConfig):
    indexes: Annotated[tuple[File, ...], Field(min_length=1)]
    """Folders that `gristmill index` wrote."""
    verify_jaccard: Similarity = 0.8
    """The least Jaccard similarity, of shingle sets, of a document and a known one."""
    max_comparisons: Annotated[int, AsCount, Field(ge=1, le=10_000)] = 128
    """The most known documents of an index that a document is compared with; they are kept in memory."""


def check(config: Config) -> None:
    """Raise WrongSetting if a folder is not an index."""
    for path in config.indexes:
        try:
            open_index(path)
        except UserError as error:
            raise WrongSetting("indexes", error) from None


def apply(batch: pa.RecordBatch, config: Config) -> pa.RecordBatch:
    """Drop every document that is known."""
    rows = batch.num_rows
    known, similarity = np.zeros((rows, ID_BYTES), np.uint8), np.zeros(rows, np.float32)
    found = np.zeros(rows, np.bool_)
    threshold = ratio_of(config.verify_jaccard)
    for path in config.indexes:
        index = open_index(path)
        bands, starts, packed = sketch_batch(batch, index.config)
        best, similar = find_known(
            bands,
            starts,
            packed,
            index.bands,
            index.owners,
            index.starts,
            index.shingles,
            *threshold,
            config.max_comparisons,
        )
        hit = (best >= 0) & ~found
        known[hit], similarity[hit] = index.ids[best[hit]], similar[hit]
        found |= hit
    detail = [
        f"of {known[row].tobytes().hex()}, Jaccard {similarity[row]:.3f}" if found[row] else None for row in range(rows)
    ]
    ids = pa.FixedSizeBinaryArray.from_buffers(SCHEMA.field("known").type, rows, [None, pa.py_buffer(known)])
    return pa.RecordBatch.from_arrays(
        [
            ids.take(pa.array(np.arange(rows), mask=~found)),
            pa.array(similarity, mask=~found),
            pc.if_else(pa.array(found), "known_near_duplicate", pa.scalar(None, pa.string())),
            pa.array(detail, pa.string()),
        ],
        schema=SCHEMA,
    )


def warnings(metrics: dict[str, Any], config: Config) -> Sequence[str]:
    text = "no document is a near duplicate of one in the indexes. Check that they index earlier snapshots"
    return idle(metrics.get("rows"), metrics.get("dropped", {}).get("known_near_duplicate"), text)


STAGE = Map(
    version=2,
    config=Config,
    libraries=("unicode",),
    reads=("text",),
    only_kept=True,
    schema=SCHEMA,
    ranges={"similarity": (0, 1)},
    apply=apply,
    check=check,
    warnings=warnings,
)
