"""Which documents the requests of a takedown name: by URL, prefix, domain, doc_id or the hash of the text.

Every document is looked at, dropped or not: what somebody wants gone may be kept elsewhere, under another address. So
the shingles of those that are named go on to `takedown_sets`, and `takedown` compares what is kept with them.
URLs are compared in the normal form of url_dedup, prefixes from the host on, http and https being one.
"""

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa

from gristmill.stages.contract import File, StageConfig
from gristmill.stages.matches import (
    Match,
    match_domains,
    match_hashes,
    match_ids,
    match_prefixes,
    match_urls,
    shingles_of,
)
from gristmill.stages.takedown.requests import read_requests

VERSION = 1
LIBRARIES = ("unicode",)
JUDGES = False
READS = ("doc_id", "url", "text")
SCHEMA = pa.schema([("request", pa.string()), ("named_by", pa.string()), ("shingles", pa.list_(pa.uint64()))])
"""request: id of the first that names the document; named_by: urls, domains, ...; null for all that none names."""

_MATCHES = {
    "urls": ("url", match_urls),
    "url_prefixes": ("url", match_prefixes),
    "domains": ("url", match_domains),
    "doc_ids": ("doc_id", match_ids),
    "content_hashes": ("text", match_hashes),
}
"""Kind of item -> the column that it is about, and what compares."""
Rules = Mapping[str, tuple[str, Match, Mapping[str, int]]]
"""Kind of item -> its column, what compares, and item -> the number of the first request that has it."""
Array = np.ndarray[Any, Any]


class Config(StageConfig):
    requests: File
    """The file of the requests."""
    name: str = ""
    """What it is called, where its one request is called so; filled by the recipe's loader."""


@lru_cache(maxsize=4)
def rules_of(path: str, name: str) -> tuple[tuple[str, ...], Rules]:
    """The ids of the requests of a file, and what they name."""
    requests = read_requests(path, name)
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
    """The request that names each document, and the shingles of those that one does."""
    ids, rules = rules_of(config.requests, config.name)
    named: dict[int, tuple[int, str]] = {}
    for kind, (column, match, items) in rules.items():
        for row, item, _ in match(batch.column(column)):
            named[row] = min(named.get(row, (len(ids), "")), (items[item], kind))
    rows = np.array(sorted(named), np.int64)
    ends, values = shingles_of(batch.column("text").take(pa.array(rows)))
    places = np.full(batch.num_rows, -1, np.int64)
    places[rows] = np.arange(len(rows))
    at = pa.array(places, mask=places < 0)
    sets = pa.ListArray.from_arrays(pa.array(ends.astype(np.int32)), pa.array(values, pa.uint64()))
    requests = pa.array([ids[named[row][0]] for row in rows.tolist()], pa.string())
    kinds = pa.array([named[row][1] for row in rows.tolist()], pa.string())
    return pa.RecordBatch.from_arrays([requests.take(at), kinds.take(at), sets.take(at)], schema=SCHEMA)
