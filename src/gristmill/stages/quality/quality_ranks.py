"""Ranks each document within its group by a score: exactly, no matter how the corpus is split into parts.

Documents are ordered by score, and equal scores by a hash of seed and doc_id. `below` is how much of the group is below
a document, in documents, bytes or tokens, and `total` the size of the group: `below / total >= 0.9` is the best tenth,
to one document. A document without a score (null, or not a number) has no rank.

    emit     a record for each document with its group, score and weight; the key is the group and a range of scores
    place    how much of its range is below each document and, once for each range, the size of the range
    reduce   all ranges of a group together: how much of the group is below each document

A range is sorted at once, so only one range is in memory, and a group may have any size. Scores of classifiers cluster
at 0 and at 1. So a range is a part of a power of two of the score up to a half and of 1 - score from there on (exact in
doubles: Sterbenz), and is as fine at both ends. Documents with a round score (0, 1, 0.75, 5) are split by their hash
into 256 ranges. Very many equal scores that are not round are not split: they take 72 bytes each.
"""

from typing import Annotated, Any, Literal

import numpy as np
import pyarrow as pa
from pydantic import AfterValidator, Field

from gristmill.shardformat.splitmix import mix_all
from gristmill.stages.contract import Exchange, StageConfig
from gristmill.stages.doc_order import doc_order
from gristmill.stages.quality.groups import GroupedBy, columns_of, groups_of, hash_of
from gristmill.stages.shared.expressions import parse_value
from gristmill.stages.shared.vectors import ColumnVectors

Array = np.ndarray[Any, Any]

RECORD_SCHEMA = pa.schema(
    [
        ("group", pa.uint64()),
        ("score", pa.float64()),
        ("hash", pa.uint64()),
        ("tie", pa.uint64()),
        ("weight", pa.int64()),
    ]
)
"""`tie` orders documents with the same score and hash."""

Weight = Literal["documents", "bytes", "tokens"]
WEIGHTS: dict[Weight, str | None] = {"documents": None, "bytes": "text_bytes", "tokens": "count_tokens.tokens"}
"""What documents are counted by, and its column."""
_ONE, _HALF = (np.float64(value).view(np.uint64) for value in (1.0, 0.5))
_SIGN = np.uint64(1 << 63)


def _parsed(text: str) -> str:
    parse_value(text)
    return text


Score = Annotated[str, AfterValidator(_parsed)]
"""A number over columns of earlier steps: `quality.edu`, `-perplexity.clean`, `max(quality.a, quality.b)`."""


class Config(StageConfig):
    score: Score
    """What documents are ordered by; the highest is the best."""
    per: tuple[GroupedBy, ...] = ()
    """The groups that documents are ranked within; empty: all together."""
    by: Weight = "documents"
    """The unit of `below` and `total`."""
    source_domains: dict[str, str] = Field(default={})
    """Domain of each source, if documents are ranked by domain."""
    seed: int = 0
    """Another seed puts equal scores in another order."""


def reads(config: Config) -> tuple[str, ...]:
    weight = WEIGHTS[config.by]
    names = (*parse_value(config.score).columns, "doc_id", *columns_of(config.per), *([weight] if weight else []))
    return tuple(dict.fromkeys(names))


def emit(batch: pa.RecordBatch, config: Config) -> pa.RecordBatch:
    """Sends the documents that have a score to the range of their score."""
    score, scored = scores_of(batch, config.score)
    groups, of = groups_of(batch, config.per, config.source_domains)
    group = np.array([hash_of(of_batch) for of_batch in groups], np.uint64)[of]
    hashes, ties = doc_order(batch.column("doc_id"), config.seed)
    weight = weights_of(batch, config.by)
    rows = np.flatnonzero(scored)
    columns = {
        "key": mix_all(group[rows] ^ mix_all(_ranges(score[rows], hashes[rows]))),
        "row": rows.astype(np.int32),
        "group": group[rows],
        "score": score[rows],
        "hash": hashes[rows],
        "tie": ties[rows],
        "weight": weight[rows],
    }
    return pa.RecordBatch.from_arrays([pa.array(column) for column in columns.values()], names=list(columns))


def scores_of(batch: pa.RecordBatch, text: str) -> tuple[Array, Array]:
    """The scores of documents, and which documents have one."""
    with np.errstate(all="ignore"):
        value = parse_value(text).run(ColumnVectors(batch))
    score = np.broadcast_to(np.asarray(value.data, np.float64), batch.num_rows) + 0.0  # a copy, and -0 becomes 0
    scored = np.isfinite(score)  # a division by zero gives no score
    return score, scored if value.valid is None else scored & value.valid


def weights_of(batch: pa.RecordBatch, by: Weight) -> Array:
    """The weight of each document."""
    name = WEIGHTS[by]
    if name is None:
        return np.ones(batch.num_rows, np.int64)
    return np.asarray(batch.column(name).fill_null(0).to_numpy(zero_copy_only=False), np.int64)


def _ranges(score: Array, hashes: Array) -> Array:
    """The number of a document's range; it rises with the score, and for equal scores with the hash."""
    bits = score.view(np.uint64)
    to_half = np.where(score < 0, np.uint64(0) - bits, bits | _SIGN)
    with np.errstate(over="ignore"):
        to_one = _HALF - (1.0 - score).view(np.uint64)
    is_above, is_high = score > 1, (score >= 0.5) & (score <= 1)
    position = np.where(is_above, bits - _ONE, np.where(is_high, to_one, to_half))
    region = is_high.astype(np.uint64) + is_above.astype(np.uint64) * np.uint64(2)
    # 16 bits: sign, exponent and 4 bits of the fraction; then the hash for round numbers, or 8 more bits.
    is_round = position << np.uint64(16) == 0
    more = np.where(is_round, hashes >> np.uint64(56), (position >> np.uint64(40)) & np.uint64(255) | np.uint64(256))
    return np.asarray((region << np.uint64(25)) | (position >> np.uint64(48) << np.uint64(9)) | more)


def place(records: pa.Table, config: Config) -> pa.Table:
    """How much of its range is below each document. The first document of a range carries the size of the range."""
    group, score, hashes, tie, weight = (records.column(name).to_numpy() for name in RECORD_SCHEMA.names)
    ranges = _ranges(score, hashes)
    order = np.lexsort((tie, hashes, score, ranges, group))
    group, ranges, weight = group[order], ranges[order], weight[order]
    first, segment = _segments(group, ranges)
    below = np.cumsum(weight) - weight
    below -= below[first][segment]
    in_range = np.zeros(len(order), np.int64)
    if len(order):
        in_range[first] = np.add.reduceat(weight, first)
    placed = records.select(["part", "row"]).take(order)
    columns = {"key": group, "range": ranges, "below": below, "in_range": in_range}
    for name, column in columns.items():
        placed = placed.append_column(name, pa.array(column))
    return placed


def weights_of_ranges(records: pa.Table, config: Config) -> pa.Table:
    """The size of each range: all that documents of other ranges need to know."""
    return records.select(["range", "in_range"]).filter(records.column("in_range").to_numpy() > 0)


def reduce(records: pa.Table, config: Config, others: pa.Table | None = None) -> pa.Table:
    """How much of its group is below each document."""
    group, ranges, in_range = (records.column(name).to_numpy() for name in ("key", "range", "in_range"))
    own = len(group)
    if others is not None:  # one group, given in pieces
        group = np.concatenate((group, np.full(len(others), group[0])))
        ranges = np.concatenate((ranges, others.column("range").to_numpy()))
        in_range = np.concatenate((in_range, others.column("in_range").to_numpy()))
    order = np.lexsort((ranges, group))
    first, segment = _segments(group[order], ranges[order])
    sums = np.add.reduceat(in_range[order], first) if len(first) else np.zeros(0, np.int64)
    start, of_group = _segments(group[order][first])
    below = np.cumsum(sums) - sums
    below -= below[start][of_group]
    total = (np.add.reduceat(sums, start) if len(start) else sums)[of_group]
    range_index = np.empty(len(order), np.int64)
    range_index[order] = segment
    range_index = range_index[:own]
    ranked = records.select(["part", "row"])
    ranked = ranked.append_column("below", pa.array(below[range_index] + records.column("below").to_numpy()))
    return ranked.append_column("total", pa.array(total[range_index]))


def _segments(*columns: Array) -> tuple[Array, Array]:
    """For sorted columns: where each run of equal values begins, and the number of the run of each row."""
    is_first = np.ones(len(columns[0]), np.bool_)
    is_first[1:] = np.any([column[1:] != column[:-1] for column in columns], axis=0)
    return np.flatnonzero(is_first), np.cumsum(is_first) - 1


STAGE = Exchange(
    version=1,
    config=Config,
    reads=reads,
    only_kept=True,
    judges=False,
    record_schema=RECORD_SCHEMA,
    schema=pa.schema([("below", pa.int64()), ("total", pa.int64())]),
    emit=emit,
    rounds={"place": place},
    reduce=reduce,
    summaries={"reduce": weights_of_ranges},
)
