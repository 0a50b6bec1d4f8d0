"""Finds the lines or paragraphs that are repeated too often; `line_dedup`, which runs it, cuts them.

Llama 3 (Dubey et al. 2024, arXiv 2407.21783, section 3.1.1) removed "lines that appeared more than 6 times in each
bucket of 30M documents": menus, cookie warnings, contact data that an extractor left in. Every occurrence counts, so a
line that one document repeats 7 times is repeated too often.

A document's bucket is the place of its doc_id, a hash, in one of B equal ranges, B = ceil(documents / 30M): which
documents share a bucket depends on no order of files. B is known only when all documents are counted, so every batch
sends its number of documents to each partition, beside its lines.

    emit     a record for each different line of a document: hash, times, document
    by_line  the lines over the limit; a record for each document that has one
    reduce   the lines of each document
"""

from typing import Annotated, Any, Literal

import numpy as np
import pyarrow as pa
from pydantic import Field

from gristmill.kernels.dedup.line_units import count_units
from gristmill.kernels.text.unicode_classes import unicode_tables
from gristmill.stages.buffers import bytes_of
from gristmill.stages.contract import AsCount, StageConfig
from gristmill.stages.dedup.scope import Scope, salts, scope_reads

Array = np.ndarray[Any, Any]

VERSION = 1
ONLY_KEPT = True
ROUNDS = ("by_line", "reduce")
RECORD_SCHEMA = pa.schema(
    [("mark", pa.uint32()), ("count", pa.int32()), ("document", pa.uint64()), ("scope", pa.uint32())]
)
"""`key` and `mark` are the hashes of a line, `count` its times in the document. A count below 0 is no line but minus
the number of documents that a batch has of the scope."""
_LINES = pa.list_(pa.field("item", pa.uint64()))
_WITNESS = pa.list_(pa.field("item", pa.struct([("line", pa.uint64()), ("count", pa.int64())])))
SCHEMA = pa.schema([("hot", _LINES), ("first", _LINES), ("witness", _WITNESS)])
"""`hot`: hashes of the lines of a document that are repeated too often, sorted. `first`: those of them of which this
document is the first in its bucket, by doc_id. `witness`: some of the most repeated lines with the number of their
occurrences; each line has one witness, whose text can tell how the line reads."""

SHOWN = 20
"""Number of most repeated lines that shall be shown."""
_FIRST_OF = np.uint64(32)
_SPREAD = np.uint64(0x9E3779B97F4A7C15)


class Config(StageConfig):
    """What counts as a line, and how often is too often."""

    unit: Literal["line", "paragraph"] = "line"
    """line: between newlines; paragraph: between blank lines."""
    min_chars: Annotated[int, AsCount, Field(ge=1)] = 16
    """Characters of a line, a run of white space as one, from which on it counts. Shorter ones are repeated by chance:
    of 139 books, lines seen more than 6 times are dialogue and headings below 16 characters and licence texts above.
    1 is the rule as Llama 3 gives it; for scripts with a word in one or two characters take less than 16."""
    fold_case: bool = False
    """Whether lines that differ in upper and lower case are equal."""
    max_count: Annotated[int, AsCount, Field(ge=1)] = 6
    """Occurrences in a bucket that a line may have."""
    bucket_documents: Annotated[int, AsCount, Field(ge=1, lt=2**31)] = 30_000_000
    """Documents of a bucket, at most on average: a scope is cut into as few equal buckets as that allows."""
    scope: Scope = "global"
    """Documents whose lines are counted together: of a snapshot of a source, of a source, or all."""
    partitions: Annotated[int, AsCount, Field(gt=0, le=1 << 16)] = 64
    """Number of groups of lines; one group is in memory at a time (about 1 byte for each byte of text in it)."""


def reads(config: Config) -> tuple[str, ...]:
    return ("text", "doc_id", *scope_reads(config.scope))


def libraries(config: Config) -> tuple[str, ...]:
    return ("unicode",) if config.fold_case else ()


def emit(batch: pa.RecordBatch, config: Config) -> pa.RecordBatch:
    """The different lines of each document, and the documents of the batch for every partition."""
    data, offsets = bytes_of(batch.column("text"))
    paragraphs = config.unit == "paragraph"
    keys, marks, rows, counts = count_units(
        data, offsets, paragraphs, config.fold_case, config.min_chars, unicode_tables()
    )
    scopes = (salts(batch, config.scope) >> np.uint64(32)).astype(np.uint32)
    documents = _documents(batch.column("doc_id"))
    known, members = np.unique(scopes, return_counts=True)
    width = -(-(2**64) // config.partitions)
    sent = np.arange(config.partitions, dtype=np.uint64) * np.uint64(width % 2**64)
    tallies = config.partitions * len(known)
    zeros = np.zeros(tallies, np.uint32)
    columns = {
        "key": np.concatenate([np.repeat(sent, len(known)), keys]),
        "row": np.concatenate([zeros.astype(np.int32), rows]),
        "mark": np.concatenate([zeros, marks]),
        "count": np.concatenate([np.tile(-members, config.partitions), counts]).astype(np.int32),
        "document": np.concatenate([zeros.astype(np.uint64), documents[rows]]),
        "scope": np.concatenate([np.tile(known, config.partitions), scopes[rows]]),
    }
    return pa.RecordBatch.from_arrays([pa.array(column) for column in columns.values()], names=list(columns))


def by_line(records: pa.Table, config: Config) -> tuple[pa.Table, dict[str, int]]:
    """A record for each document and line of its that is repeated too often; and counts of lines."""
    key, mark, count, document, scope = (
        records.column(name).to_numpy() for name in ("key", "mark", "count", "document", "scope")
    )
    places = np.flatnonzero(count > 0)
    places, different = _may_be_hot(key, count, places, config.max_count)
    bucket = _buckets(document[places], scope[places], *_tally(scope, count), config.bucket_documents)
    order = np.lexsort((document[places], bucket, scope[places], mark[places], key[places]))
    places, bucket = places[order], bucket[order]
    begins = _changes(key[places], mark[places], scope[places], bucket)
    times, of_group = _totals(count[places], begins)
    hot = times > config.max_count
    kept = hot[of_group]
    places, first = places[kept], begins[kept]
    witnesses = _witnesses(key[places], mark[places], document[places], count[places], shown(config.partitions))
    sent = records.select(["part", "row"]).take(places)
    part, row = sent.column("part").to_numpy(), sent.column("row").to_numpy().astype(np.uint64)
    columns = {
        "key": ((part ^ (row * _SPREAD)) * _SPREAD),
        "line": key[places],
        "first": first,
        "occurrences": witnesses,
    }
    for name, column in columns.items():
        sent = sent.append_column(name, pa.array(column))
    return sent, {
        "different_lines": different,
        "occurrences": int(count[count > 0].sum(dtype=np.int64)),
        "repeated_lines": int(hot.sum()),
        "repeated_occurrences": int(times[hot].sum()),
    }


def reduce(records: pa.Table, config: Config) -> pa.Table:
    """The lines of each document as lists, sorted by hash."""
    part, row, line = (records.column(name).to_numpy() for name in ("part", "row", "line"))
    order = np.lexsort((line, row, part))
    part, row, line = part[order], row[order], line[order]
    first = records.column("first").to_numpy()[order]
    occurrences = records.column("occurrences").to_numpy()[order]
    begins = _changes(part, row)
    group = np.cumsum(begins) - 1
    rows = int(begins.sum())
    seen = occurrences > 0
    witnesses = pa.StructArray.from_arrays(
        [pa.array(line[seen]), pa.array(occurrences[seen])], fields=list(_WITNESS.value_type)
    )
    return pa.table(
        {
            "part": pa.array(part[begins]),
            "row": pa.array(row[begins]),
            "hot": _lists(group, pa.array(line), rows, _LINES),
            "first": _lists(group[first], pa.array(line[first]), rows, _LINES),
            "witness": _lists(group[seen], witnesses, rows, _WITNESS),
        }
    )


def shown(partitions: int) -> int:
    """How many lines of a partition get a witness, so that the SHOWN most repeated of all are among them.

    Lines are spread by their hash: with 64 partitions, that one holds more than 6 of the first 20 has a chance of 2e-6.
    """
    return min(SHOWN, 5 + 4 * SHOWN // partitions)


def _documents(doc_ids: pa.Array) -> Array:
    """The first 8 of the 16 bytes of each doc_id, a hash, as a number that sorts as they do."""
    data = np.frombuffer(doc_ids.buffers()[1] or b"", np.uint8)
    data = data[16 * doc_ids.offset : 16 * (doc_ids.offset + len(doc_ids))].reshape(-1, 16)
    return np.ascontiguousarray(data[:, :8]).view(">u8").reshape(-1).astype(np.uint64)


def _may_be_hot(key: Array, count: Array, places: Array, max_count: int) -> tuple[Array, int]:
    """Those of the places, sorted by key, whose line is over the limit in all buckets together; and how many lines."""
    if not len(places):
        return places, 0
    begins = _changes(key[places])
    times, group = _totals(count[places], begins)
    return places[(times > max_count)[group]], int(begins.sum())


def _tally(scope: Array, count: Array) -> tuple[Array, Array]:
    """The scopes, sorted, and the number of documents of each."""
    sent = count < 0
    known, index = np.unique(scope[sent], return_inverse=True)
    documents = np.zeros(len(known), np.int64)
    np.subtract.at(documents, index, count[sent])
    return known, documents


def _buckets(document: Array, scope: Array, scopes: Array, documents: Array, size: int) -> Array:
    """The bucket of each document in its scope: 0 to B - 1, by equal ranges of its hash."""
    if not len(document):
        return document
    buckets = (-(-documents // size)).astype(np.uint64)
    return (document >> _FIRST_OF) * buckets[np.searchsorted(scopes, scope)] >> _FIRST_OF


def _changes(*columns: Array) -> Array:
    """Which rows differ from the row before in one of the columns; the first does."""
    begins = np.zeros(len(columns[0]), np.bool_)
    begins[:1] = True
    for column in columns:
        begins[1:] |= column[1:] != column[:-1]
    return begins


def _totals(count: Array, begins: Array) -> tuple[Array, Array]:
    """The sum of each group, and the group of each row."""
    group = np.cumsum(begins) - 1
    sums = np.add.reduceat(count.astype(np.int64), np.flatnonzero(begins)) if len(count) else np.zeros(0, np.int64)
    return sums, group


def _witnesses(key: Array, mark: Array, document: Array, count: Array, most: int) -> Array:
    """For `most` lines that occur most often, their occurrences in the row of the smallest document; 0 elsewhere."""
    found = np.zeros(len(key), np.int64)
    if not len(key):
        return found
    order = np.lexsort((document, mark, key))
    begins = _changes(key[order], mark[order])
    times, _ = _totals(count[order], begins)
    first = order[begins]
    chosen = np.lexsort((mark[first], key[first], -times))[:most]
    found[first[chosen]] = times[chosen]
    return found


def _lists(group: Array, values: pa.Array, rows: int, kind: pa.DataType) -> pa.ListArray:
    offsets = np.zeros(rows + 1, np.int32)
    np.cumsum(np.bincount(group, minlength=rows), out=offsets[1:])
    return pa.ListArray.from_arrays(pa.array(offsets), values).cast(kind)
