"""Finds the documents that takedown requests name, by URL, prefix, domain, file, doc_id or the hash of the text.

Dropped documents are searched, too, since a copy of a named document may be kept under another address. The shingles of
named documents are sent to `takedown_sets`, and `takedown` compares the kept documents with them. A document that was
dropped early has the text of that time, while its kept copy may have been cut or scrubbed since. Therefore there are
two sets of shingles: of the text as it was read, and of the text after the last step. A hash may be of either. URLs are
compared in the normal form of url_dedup; prefixes are compared from the host on, so http and https are the same.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gristmill.counted import counted
from gristmill.stages.contract import File, Map, StageConfig
from gristmill.stages.matches import (
    Matcher,
    first_and_last,
    match_domains,
    match_files,
    match_hashes,
    match_ids,
    match_prefixes,
    match_urls,
    shingles_of,
)
from gristmill.stages.shared import urls
from gristmill.stages.takedown.requests import read_all

READS = ("doc_id", "url", "*.locator", "*.text")
_SHINGLES = pa.list_(pa.uint64())
SCHEMA = pa.schema(
    [("request", pa.string()), ("named_by", pa.string()), ("shingles", _SHINGLES), ("first_shingles", _SHINGLES)]
)
"""request: the id of the first request that names the document; named_by: urls, domains, ...; both null if none does.
shingles: those of its last text; first_shingles: those of its first text, null if it is the same."""

_MATCHES = {
    "urls": ("url", match_urls),
    "url_prefixes": ("url", match_prefixes),
    "domains": ("url", match_domains),
    "files": ("*.locator.0", match_files),
    "doc_ids": ("doc_id", match_ids),
    "content_hashes": ("text", match_hashes),
}
"""Kind of item -> its column, and its matcher."""
Rules = Mapping[str, tuple[str, Matcher, Mapping[str, int]]]
"""Kind of item -> its column, its matcher, and item -> the number of the first request with that item."""
Array = np.ndarray[Any, Any]


class Config(StageConfig):
    requests: tuple[File, ...]
    """The files of the requests."""
    names: tuple[str, ...]
    """The names of the files, after which the request of a `.txt` file is named; set by the recipe's loader."""


@lru_cache(maxsize=4)
def rules_of(paths: tuple[str, ...], names: tuple[str, ...]) -> tuple[tuple[str, ...], Rules]:
    """The ids of the requests in files, and their rules."""
    requests = read_all(paths, names)
    rules = {}
    for kind, (column, make) in _MATCHES.items():
        items: dict[str, int] = {}
        for number, request in enumerate(requests):
            for item in getattr(request, kind):
                items.setdefault(item, number)
        if items:
            rules[kind] = (column, make(list(items)), items)
    return tuple(request.id for request in requests), rules


def apply(batch: pa.RecordBatch, config: Config) -> pa.RecordBatch:
    """The request that names each document, and the shingles of named documents."""
    named = named_in(batch, config.requests, config.names)
    rows = np.array(sorted(named), np.int64)
    first, last = (texts.take(pa.array(rows)) for texts in first_and_last(batch))
    changed = pc.if_else(pc.fill_null(pc.not_equal(first, last), False), first, pa.scalar(None, pa.string()))
    places = np.full(batch.num_rows, -1, np.int64)
    places[rows] = np.arange(len(rows))
    at = pa.array(places, mask=places < 0)
    requests = pa.array([named[row][0] for row in rows.tolist()], pa.string())
    kinds = pa.array([named[row][1] for row in rows.tolist()], pa.string())
    columns = [requests, kinds, _sets_of(last), pc.if_else(changed.is_valid(), _sets_of(changed), None)]
    return pa.RecordBatch.from_arrays([column.take(at) for column in columns], schema=SCHEMA)


def named_in(batch: pa.RecordBatch, paths: tuple[str, ...], names: tuple[str, ...]) -> dict[int, tuple[str, str]]:
    """The rows of documents that requests name: the id of the first such request, and the kind of its item."""
    ids, rules = rules_of(paths, names)
    named: dict[int, tuple[int, str]] = {}
    for row, number, kind, _ in _hits(batch, rules):
        named[row] = min(named.get(row, (len(ids), "")), (number, kind))
    return {row: (ids[number], kind) for row, (number, kind) in named.items()}


def _sets_of(texts: pa.Array) -> pa.Array:
    """The shingles of each text."""
    ends, values = shingles_of(texts)
    return pa.ListArray.from_arrays(pa.array(ends.astype(np.int32)), pa.array(values, pa.uint64()))


def _hits(batch: pa.RecordBatch, rules: Rules) -> Iterator[tuple[int, int, str, str]]:
    """The row, number of the request, kind and item, for each item that names a document."""
    for kind, (column, match, items) in rules.items():
        columns = first_and_last(batch) if column == "text" else (batch.column(column),)
        found = dict.fromkeys((row, item) for values in columns for row, item, _ in match(values))
        yield from ((row, items[item], kind, item) for row, item in found)


def metrics(batch: pa.RecordBatch, answers: pa.RecordBatch, config: Config) -> dict[str, Any]:
    """Count the documents that each item names."""
    found: dict[str, dict[str, int]] = {}
    _, rules = rules_of(config.requests, config.names)
    for _, _, kind, item in _hits(batch, rules) if answers.column("request").null_count < len(answers) else ():
        counts = found.setdefault(kind, {})
        counts[item] = counts.get(item, 0) + 1
    return {"items": found}


def warnings(found: dict[str, Any], config: Config) -> Sequence[str]:
    """Warn about items that name no document, which may be typing errors."""
    named = found.get("items", {})
    idle = [
        f"{request.id}: {item}"
        for request in read_all(config.requests, config.names)
        for kind, item in request.items()
        if kind in _MATCHES and item not in named.get(kind, {})
    ]
    if not idle:
        return ()
    return (
        f"{counted(len(idle), 'item of the requests names', 'items of the requests name')} no document that was read: "
        f"{', '.join(idle[:5])}{' and more' if len(idle) > 5 else ''}. Check that they are spelled as in the inputs",
    )


STAGE = Map(
    version=5,
    config=Config,
    libraries=urls.LIBRARIES,
    reads=READS,
    judges=False,
    schema=SCHEMA,
    apply=apply,
    metrics=metrics,
    warnings=warnings,
)
