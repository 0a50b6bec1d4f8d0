"""Indexes every document by its id, its URL and its text.

The engine adds this step after the corpus of every source of a recipe with `index: true`. A part sends a key of 64 bits
for each of these, with the part's name and the row:

    doc_id    the first 8 bytes of the id
    url       8 bytes of the hash of the URL in its normal form (`stages/dedup/url_parts.py`)
    domain    8 bytes of the hash of the registered domain
    content   8 bytes of the SHA-256 of the text, for kept documents
    sketch    word shingles of the text, for kept documents: all hashes below 1/64 of their range, and at least the 16
              smallest. Copies share most of them, and a quotation shares some with its document

Ranges of keys form sets of one or two million entries, each one file (shared/arrow_file.py), which is mapped into
memory and searched by bisection. A key leads to candidate rows, and the reader compares them with the documents.

    counts   the number of entries of each kind, in the order of KINDS
    keys     keys of each kind in turn, sorted
    parts    names of parts as in the records of an exchange, sorted
    numbers  for each key: the number of its part among these
    rows     for each key: its row in that part

Entries with the same key are sorted by part and row, so equal entries give equal bytes.
"""

import hashlib
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gristmill.kernels.dedup.exact_hash import NONE, hash_texts
from gristmill.kernels.dedup.shingles import copy_tables
from gristmill.kernels.dedup.sketch import shingle_sets
from gristmill.kernels.hash.radix import sort_order
from gristmill.kernels.text.unicode_classes import unicode_tables
from gristmill.stages.buffers import bytes_of, first_numbers
from gristmill.stages.contract import Sink, StageConfig
from gristmill.stages.dedup import near_candidates, url_parts
from gristmill.stages.shared.arrow_file import ArrowFile, write_arrays

LIBRARIES = url_parts.LIBRARIES
READS = ("doc_id", "url", "text", "corpus.drop")
RECORD_SCHEMA = pa.schema([("kind", pa.uint8()), ("hash", pa.uint64())])
FILE = "keys.index"
KINDS = ("doc_id", "url", "domain", "content", "sketch")
"""What keys are made of; the kind of an entry is its position here."""

SET_ENTRIES = 1 << 21
"""The most entries of a set, approximately; if there are several sets, each has at least half of it."""
NGRAM: int = near_candidates.Config.model_fields["ngram"].default
"""Words in a shingle."""
BELOW = np.uint64(2**64 // 64)
LEAST = 16
"""A sketch has all shingles below BELOW, and at least this many."""
_SHINGLE_BYTES = 6
"""The bytes of a text per shingle: a word and a space."""
_SPREAD = np.uint64(0x9E3779B97F4A7C15)
"""2^64 / golden ratio, odd. It spreads the keys, since the shingles of sketches are small numbers."""
_ONE, _MOST = np.uint64(1), np.uint64(63)
Array = np.ndarray[Any, Any]


class Config(StageConfig):
    """The index of one source."""

    source: str
    """The source of the documents."""


def layout(counts: Mapping[str, Any], config: Config) -> dict[str, list[dict[str, Any]]]:
    """Ranges of keys, a power of two of them, such that each has one or two million entries."""
    funnel = counts.get("funnel", {})
    kept = funnel.get("kept", {"rows": 0, "text_bytes": 0})
    sketched = LEAST * kept["rows"] + kept["text_bytes"] // (_SHINGLE_BYTES * 64)
    entries = 3 * funnel.get("records", 0) + kept["rows"] + sketched
    sets = 1
    while entries > SET_ENTRIES * sets:
        sets *= 2
    return {config.source: [{"set": number, "of": sets} for number in range(sets)]}


def set_of(key: Array, sets: int) -> Array:
    """The number of the set that a key belongs to."""
    # Two shifts, since a shift by 64 is undefined.
    return (key >> _ONE) >> (_MOST - np.uint64(sets.bit_length() - 1))


def emit(batch: pa.RecordBatch, config: Config, layout: Sequence[Mapping[str, Any]]) -> pa.RecordBatch:
    """Send the keys of every document, and the keys of the texts of kept documents."""
    rows = np.arange(batch.num_rows)
    url, domain, has_url, has_domain = url_keys(batch.column("url"))
    kept = pc.and_(batch.column("corpus.drop").is_null(), batch.column("text").is_valid())
    texts = batch.column("text").filter(kept)
    kept_rows = rows[kept.to_numpy(zero_copy_only=False)]
    starts, sketch = sketches(texts)
    found = {
        "doc_id": (id_keys(batch.column("doc_id")), rows),
        "url": (url[has_url], rows[has_url]),
        "domain": (domain[has_domain], rows[has_domain]),
        "content": (content_keys(texts), kept_rows),
        "sketch": (sketch, np.repeat(kept_rows, np.diff(starts))),
    }
    keys = np.concatenate([found[kind][0] for kind in KINDS])
    kinds = np.repeat(np.arange(len(KINDS), dtype=np.uint8), [len(found[kind][0]) for kind in KINDS])
    return pa.RecordBatch.from_arrays(
        [
            pa.array(set_of(keys, len(layout))),
            pa.array(np.concatenate([found[kind][1] for kind in KINDS])),
            pa.array(kinds),
            pa.array(keys),
        ],
        names=["key", "row", *RECORD_SCHEMA.names],
    )


class IndexMatches(NamedTuple):
    """The locations of documents that may match a search."""

    part: Array
    """The names of their parts (uint64)."""
    row: Array


def write_file(path: Path, kind: Array, key: Array, part: Array, row: Array) -> None:
    """Write a file from entries in any order: their kinds, keys, parts and rows."""
    order = sort_order(kind.astype(np.uint64), key, part, row.astype(np.uint64))
    parts, numbers = np.unique(part, return_inverse=True)
    arrays = {
        "counts": np.bincount(kind, minlength=len(KINDS)),
        "keys": key[order],
        "parts": parts,
        "numbers": numbers[order].astype(np.uint32),
        "rows": row[order].astype(np.uint32),
    }
    write_arrays(path, {}, arrays)


class IndexFile:
    """A file of keys that reads only the pages that a search needs."""

    def __init__(self, data: pa.Buffer) -> None:
        """`data` is already verified by its hash."""
        file = ArrowFile(data)
        self._ends = np.concatenate([[0], np.cumsum(file.array("counts"))])
        self._keys, self._parts, self._numbers, self._rows = map(file.array, ("keys", "parts", "numbers", "rows"))

    def search(self, kind: str, first: int, last: int) -> IndexMatches:
        """The entries of a kind with a key from `first` to `last`, inclusive."""
        place = KINDS.index(kind)
        begin = int(self._ends[place])
        keys = self._keys[begin : int(self._ends[place + 1])]
        low = begin + int(np.searchsorted(keys, np.uint64(first), "left"))
        high = begin + int(np.searchsorted(keys, np.uint64(last), "right"))
        return IndexMatches(self._parts[self._numbers[low:high]], self._rows[low:high].astype(np.int64))


def build(records: pa.Table | None, config: Config, entry: Mapping[str, Any], folder: Path) -> dict[str, int]:
    """Write the file of one set."""
    assert records is not None  # empty sets are not built
    columns = [records.column(name).combine_chunks().to_numpy() for name in ("kind", "hash", "part", "row")]
    write_file(folder / FILE, *columns)
    return {"entries": records.num_rows}


def files(config: Config) -> tuple[str, ...]:
    return (FILE,)


def facts(config: Config) -> dict[str, Any]:
    """The kinds of keys; the entries have the number of sets."""
    return {"kinds": list(KINDS)}


def id_keys(ids: pa.Array) -> Array:
    """The keys of ids, in the order of the ids, so that a prefix of an id is a range of keys."""
    return first_numbers(ids, ">")


def url_keys(urls: pa.Array) -> tuple[Array, Array, Array, Array]:
    """The keys of URLs and of their domains; and masks of the rows that have a URL and a domain."""
    parts = url_parts.apply(pa.record_batch({"url": urls}), url_parts.Config())
    has_url = parts.column("url_hash").is_valid().to_numpy(zero_copy_only=False)
    url = np.zeros(len(urls), np.uint64)
    url[has_url] = first_numbers(parts.column("url_hash").drop_null(), "<")
    domain = parts.column("domain")
    return url, domain_keys(domain), has_url, domain.is_valid().to_numpy(zero_copy_only=False)


def domain_keys(domains: pa.Array) -> Array:
    """The keys of domains, spelled as by `registered_domains`."""
    distinct = domains.dictionary_encode()
    data, offsets = bytes_of(distinct.dictionary)
    hashes = hash_texts(data, offsets.astype(np.int64), NONE, unicode_tables())[:, 0]
    if not len(hashes):
        return np.zeros(len(domains), np.uint64)
    found: Array = hashes[distinct.indices.fill_null(0).to_numpy()]
    return found


def content_keys(texts: pa.Array) -> Array:
    """The first 8 bytes of the SHA-256 of each text."""
    data, offsets = bytes_of(texts)
    digests = [hashlib.sha256(data[start:stop].data).digest()[:8] for start, stop in pairwise(offsets.tolist())]
    return np.frombuffer(b"".join(digests), ">u8").astype(np.uint64)


def sketches(texts: pa.Array) -> tuple[Array, Array]:
    """The start of each text's sketch keys, and all keys."""
    starts, values = shingle_sets(*bytes_of(texts), NGRAM, copy_tables())
    place = np.arange(len(values)) - np.repeat(starts[:-1], np.diff(starts))
    chosen = (values < BELOW) | (place < LEAST)
    before = np.concatenate([[0], np.cumsum(chosen)])
    return before[starts], values[chosen] * _SPREAD


STAGE = Sink(
    version=6,
    config=Config,
    libraries=LIBRARIES,
    reads=READS,
    record_schema=RECORD_SCHEMA,
    counts="corpus",
    carries_rows=True,
    layout=layout,
    emit=emit,
    build=build,
    files=files,
    facts=facts,
)
