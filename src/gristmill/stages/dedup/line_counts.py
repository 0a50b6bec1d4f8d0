"""Finds the lines or paragraphs that are repeated too often; `line_dedup`, which runs it, cuts them.

Llama 3 (Dubey et al. 2024, arXiv 2407.21783, section 3.1.1) removed "lines that appeared more than 6 times in each
bucket of 30M documents": menus, cookie warnings, contact data that an extractor left in. Every occurrence counts, so a
line that one document repeats 7 times is repeated too often.

The bucket of a document is one of B equal ranges of its doc_id, which is a hash; B = ceil(documents / 30M). It does not
depend on the order of files. B is known only when all documents are counted, so documents are tallied with their lines.

    emit     sends a record for each different line of a document: hash, count, document
    by_line  finds the lines over the limit, and sends a record to each document that has one
    reduce   collects the lines of each document
"""

from typing import Annotated, Any, Literal

import numpy as np
import pyarrow as pa
from pydantic import Field

from gristmill.kernels.dedup.line_units import count_units
from gristmill.stages.buffers import bytes_of, changes, first_numbers
from gristmill.stages.contract import AsCount, Exchange, StageConfig
from gristmill.stages.dedup.scope import Scope, salts, scope_reads

Array = np.ndarray[Any, Any]

RECORD_SCHEMA = pa.schema(
    [("mark", pa.uint32()), ("count", pa.int32()), ("document", pa.uint64()), ("scope", pa.uint32())]
)
"""`key` and `mark` are hashes of a line, `count` is its number of occurrences in the document."""
_LINES = pa.list_(pa.field("item", pa.uint64()))
_WITNESS = pa.list_(pa.field("item", pa.struct([("line", pa.uint64()), ("count", pa.int64())])))
SCHEMA = pa.schema([("hot", _LINES), ("first", _LINES), ("witness", _WITNESS)])
"""`hot`: sorted hashes of the lines of a document that are repeated too often. `first`: those for which this document
is the first in its bucket, by doc_id. `witness`: the most repeated lines with their number of occurrences; each line
has one witness, a document that shows its text."""

WITNESSED = 2**14
"""Lines with about 1 / WITNESSED of all occurrences are shown as the most repeated, so there are at most this many."""
_IN_SHORT = ["key", "mark", "scope", "document", "count"]
_FIRST_OF = np.uint64(32)
_SPREAD = np.uint64(0x9E3779B97F4A7C15)


class Config(StageConfig):
    """Which lines count, and how often is too often."""

    unit: Literal["line", "paragraph"] = "line"
    """line: between newlines; paragraph: between blank lines."""
    min_chars: Annotated[int, AsCount, Field(ge=1)] = 16
    """The least characters of a line that counts; a run of white space is one character. Shorter lines repeat by
    chance: in 139 books, lines that occur more than 6 times are dialogue and headings below 16 characters, and licence
    texts above. 1 is the rule of Llama 3; for scripts with words of one or two characters, use less than 16."""
    max_count: Annotated[int, AsCount, Field(ge=1)] = 6
    """The most occurrences of a line in a bucket."""
    bucket_documents: Annotated[int, AsCount, Field(ge=1, lt=2**31)] = 30_000_000
    """The most documents of a bucket, on average: a scope is split into as few equal buckets as possible."""
    scope: Scope = "global"
    """global: lines of all documents are counted; snapshot: of one snapshot, of any source; source: of one source."""


def reads(config: Config) -> tuple[str, ...]:
    return ("text", "doc_id", *scope_reads(config.scope))


def emit(batch: pa.RecordBatch, config: Config) -> pa.RecordBatch:
    """Send the different lines of each document."""
    data, offsets = bytes_of(batch.column("text"))
    paragraphs = config.unit == "paragraph"
    keys, marks, rows, counts = count_units(data, offsets, paragraphs, config.min_chars)
    columns = {
        "key": keys,
        "row": rows,
        "mark": marks,
        "count": counts.astype(np.int32),
        "document": first_numbers(batch.column("doc_id"), ">")[rows],
        "scope": _scopes(batch, config)[rows],
    }
    return pa.RecordBatch.from_arrays([pa.array(column) for column in columns.values()], names=list(columns))


def tally(batch: pa.RecordBatch, records: pa.RecordBatch, config: Config) -> dict[str, Any]:
    """Count the documents of each scope, and the occurrences of all lines."""
    known, members = np.unique(_scopes(batch, config), return_counts=True)
    documents = {str(scope): int(count) for scope, count in zip(known, members, strict=True)}
    return {"documents": documents, "occurrences": int(records.column("count").to_numpy().sum(dtype=np.int64))}


def totals(counts: dict[str, Any], config: Config) -> dict[str, Any]:
    """The number of buckets of each scope, and the least occurrences of a line with a witness. The latter is a power of
    two, so that one document more or less rarely changes it.
    """
    buckets = {scope: -(-count // config.bucket_documents) for scope, count in counts.get("documents", {}).items()}
    return {"buckets": buckets, "witnessed_from": (1 << counts.get("occurrences", 0).bit_length()) // WITNESSED}


def by_line(
    records: pa.Table, config: Config, totals: dict[str, Any], others: pa.Table | None = None
) -> tuple[pa.Table, dict[str, int]]:
    """Send a record for each document and each of its lines that is repeated too often; also count lines.

    `others`: the `summary` of the same line elsewhere. A line is counted where its first document is.
    """
    rows = records.num_rows
    found = [records, *([] if others is None else [others])]
    key, mark, scope, document, count = (
        np.concatenate([table.column(name).to_numpy() for table in found]) for name in _IN_SHORT
    )
    places, different = _may_be_hot(key, document, count, rows, config.max_count)
    bucket = _buckets(document[places], scope[places], totals)
    order = np.lexsort((document[places], bucket, scope[places], mark[places], key[places]))
    places, bucket = places[order], bucket[order]
    begins = changes(key[places], mark[places], scope[places], bucket)
    times, of_group = _totals(count[places], begins)
    hot = times > config.max_count
    own = hot & (places[begins] < rows)
    places, first = places[hot[of_group]], begins[hot[of_group]]
    witnesses = _witnesses(key[places], mark[places], document[places], count[places], totals["witnessed_from"])
    here = places < rows
    places, first, witnesses = places[here], first[here], witnesses[here]
    sent = records.select(["part", "row"]).take(places)
    part, row = sent.column("part").to_numpy(), sent.column("row").to_numpy().astype(np.uint64)
    added = {
        "key": ((part ^ (row * _SPREAD)) * _SPREAD),
        "line": key[places],
        "first": first,
        "occurrences": witnesses,
    }
    for name, column in added.items():
        sent = sent.append_column(name, pa.array(column))
    return sent, {
        "different_lines": different,
        "occurrences": int(count[:rows].sum(dtype=np.int64)),
        "repeated_lines": int(own.sum()),
        "repeated_occurrences": int(times[own].sum()),
    }


def summary(records: pa.Table, config: Config, totals: dict[str, Any]) -> pa.Table:
    """The occurrences of each line in each bucket, and its first document."""
    document, scope = (records.column(name).to_numpy() for name in ("document", "scope"))
    lines = records.select(_IN_SHORT).append_column("bucket", pa.array(_buckets(document, scope, totals)))
    groups = lines.group_by(["key", "mark", "scope", "bucket"], use_threads=False)
    found = groups.aggregate([("document", "min"), ("count", "sum")])
    return found.drop_columns(["bucket"]).rename_columns(_IN_SHORT)


def reduce(records: pa.Table, config: Config, totals: dict[str, Any]) -> pa.Table:
    """The lists of lines of each document, sorted by hash."""
    part, row, line = (records.column(name).to_numpy() for name in ("part", "row", "line"))
    order = np.lexsort((line, row, part))
    part, row, line = part[order], row[order], line[order]
    first = records.column("first").to_numpy()[order]
    occurrences = records.column("occurrences").to_numpy()[order]
    begins = changes(part, row)
    group = np.cumsum(begins) - 1
    rows = int(begins.sum())
    shown = occurrences > 0
    witnesses = pa.StructArray.from_arrays(
        [pa.array(line[shown]), pa.array(occurrences[shown])], fields=list(_WITNESS.value_type)
    )
    return pa.table(
        {
            "part": pa.array(part[begins]),
            "row": pa.array(row[begins]),
            "hot": _lists(group, pa.array(line), rows, _LINES),
            "first": _lists(group[first], pa.array(line[first]), rows, _LINES),
            "witness": _lists(group[shown], witnesses, rows, _WITNESS),
        }
    )


def _scopes(batch: pa.RecordBatch, config: Config) -> Array:
    return (salts(batch, config.scope) >> np.uint64(32)).astype(np.uint32)


def _buckets(document: Array, scope: Array, totals: dict[str, Any]) -> Array:
    """The bucket of each document in its scope: 0 to B - 1, by equal ranges of its hash."""
    scopes = np.array(sorted(map(int, totals["buckets"])), np.uint32)
    buckets = np.array([totals["buckets"][str(known)] for known in scopes], np.uint64)
    if not len(document):
        return document
    return (document >> _FIRST_OF) * buckets[np.searchsorted(scopes, scope)] >> _FIRST_OF


def _may_be_hot(key: Array, document: Array, count: Array, rows: int, max_count: int) -> tuple[Array, int]:
    """The records whose line is over the limit in all buckets together, sorted by key; and the number of lines whose
    first document is among the first `rows`.
    """
    places = np.argsort(key, kind="stable") if len(key) > rows else np.arange(rows)
    if not len(places):
        return places, 0
    begins = changes(key[places])
    times, group = _totals(count[places], begins)
    different = int(begins.sum())
    if len(key) > rows:
        first = places[np.lexsort((document[places], group))[begins]]
        different = int(np.count_nonzero(first < rows))
    return places[(times > max_count)[group]], different


def _totals(count: Array, begins: Array) -> tuple[Array, Array]:
    """The sum of each group, and the group of each row."""
    group = np.cumsum(begins) - 1
    sums = np.add.reduceat(count.astype(np.int64), np.flatnonzero(begins)) if len(count) else np.zeros(0, np.int64)
    return sums, group


def _witnesses(key: Array, mark: Array, document: Array, count: Array, least: int) -> Array:
    """For lines with at least `least` occurrences, their number, in the row of the smallest document; 0 elsewhere."""
    found = np.zeros(len(key), np.int64)
    order = np.lexsort((document, mark, key))
    begins = changes(key[order], mark[order])
    times, _ = _totals(count[order], begins)
    found[order[begins]] = np.where(times >= least, times, 0)
    return found


def _lists(group: Array, values: pa.Array, rows: int, kind: pa.DataType) -> pa.ListArray:
    offsets = np.zeros(rows + 1, np.int32)
    np.cumsum(np.bincount(group, minlength=rows), out=offsets[1:])
    return pa.ListArray.from_arrays(pa.array(offsets), values).cast(kind)


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
    rounds={"by_line": by_line},
    reduce=reduce,
    summaries={"by_line": summary},
)
