"""Which documents the requests of a takedown name: by URL, prefix, domain, doc_id or the hash of the text.

Every document is looked at, dropped or not: what somebody wants gone may be kept elsewhere, under another address. So
the shingles of those that are named go on to `takedown_sets`, and `takedown` compares what is kept with them.
URLs are compared in the normal form of url_dedup, prefixes from the host on, http and https being one.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gristmill.kernels.dedup.shingles import word_tables
from gristmill.kernels.dedup.sketch import shingle_sets
from gristmill.kernels.urls.parts import HOST, HOST_END, PORT, PORT_END, REST, REST_END, cut, split_urls
from gristmill.stages.buffers import bytes_of, strings
from gristmill.stages.contract import File, StageConfig
from gristmill.stages.dedup.url_parts import Config as UrlConfig
from gristmill.stages.dedup.url_parts import ascii_hosts, url_hashes
from gristmill.stages.takedown.requests import read_requests

VERSION = 1
LIBRARIES = ("unicode",)
JUDGES = False
READS = ("doc_id", "url", "text")
SCHEMA = pa.schema([("request", pa.string()), ("named_by", pa.string()), ("shingles", pa.list_(pa.uint64()))])
"""request: id of the first that names the document; named_by: urls, domains, ...; null for all that none names."""

NGRAM = 5
"""Words of a shingle, as near_dedup has them unless it is told otherwise."""
Array = np.ndarray[Any, Any]
Named = tuple[int, str]
"""The number of a request, and what of it names a document."""


class Config(StageConfig):
    requests: File
    """The file of the requests."""
    name: str = ""
    """What it is called, where its one request is called so; filled by the recipe's loader."""


@dataclass(frozen=True)
class Rules:
    """What requests name, for look-ups; of two that name the same the first."""

    ids: tuple[str, ...]
    urls: Mapping[bytes, int]
    prefixes: Mapping[str, Sequence[tuple[str, int]]]
    """By host: how URLs begin."""
    domains: Mapping[str, int]
    doc_ids: Mapping[bytes, int]
    content_hashes: Mapping[str, int]


@lru_cache(maxsize=4)
def rules_of(path: str, name: str = "") -> Rules:
    """Those of a file of requests."""
    requests = read_requests(path, name)
    found: dict[str, dict[Any, int]] = {kind: {} for kind in ("urls", "domains", "doc_ids", "content_hashes")}
    prefixes: dict[str, list[tuple[str, int]]] = {}
    for number, request in enumerate(requests):
        for digest in _hashes(request.urls):
            found["urls"].setdefault(digest, number)
        for domain in request.domains:
            found["domains"].setdefault(_host_of(f"http://{domain.rstrip('.')}/"), number)
        for doc_id in request.doc_ids:
            found["doc_ids"].setdefault(bytes.fromhex(doc_id), number)
        for name in request.content_hashes:
            found["content_hashes"].setdefault(name, number)
        for host, prefix in zip(*_bare(pa.array(request.url_prefixes, pa.string())), strict=True):
            prefixes.setdefault(host or "", []).append((prefix, number))
    return Rules(tuple(request.id for request in requests), prefixes=prefixes, **found)


def apply(batch: pa.RecordBatch, config: Config) -> pa.RecordBatch:
    """The request that names each document, and the shingles of those that one does."""
    rules = rules_of(config.requests, config.name)
    named = named_rows(batch, rules)
    rows = np.array(sorted(named), np.int64)
    data, offsets = bytes_of(batch.column("text").take(pa.array(rows)))
    ends, values = shingle_sets(data, offsets, NGRAM, word_tables())
    places = np.full(batch.num_rows, -1, np.int64)
    places[rows] = np.arange(len(rows))
    at = pa.array(places, mask=places < 0)
    sets = pa.ListArray.from_arrays(pa.array(ends.astype(np.int32)), pa.array(values, pa.uint64()))
    requests = pa.array([rules.ids[named[row][0]] for row in rows.tolist()], pa.string())
    kinds = pa.array([named[row][1] for row in rows.tolist()], pa.string())
    return pa.RecordBatch.from_arrays([requests.take(at), kinds.take(at), sets.take(at)], schema=SCHEMA)


def named_rows(batch: pa.RecordBatch, rules: Rules) -> dict[int, Named]:
    """Row -> the first request that names it."""
    found: dict[int, Named] = {}

    def add(row: int, number: int, kind: str) -> None:
        if row not in found or number < found[row][0]:
            found[row] = (number, kind)

    if rules.doc_ids:
        ids = pa.array(list(rules.doc_ids), pa.binary(16))
        for row in np.flatnonzero(pc.is_in(batch.column("doc_id"), ids).to_numpy(zero_copy_only=False)).tolist():
            add(row, rules.doc_ids[batch.column("doc_id")[row].as_py()], "doc_ids")
    if rules.urls:
        for row, digest in enumerate(_hashes(batch.column("url"))):
            if digest is not None and digest in rules.urls:
                add(row, rules.urls[digest], "urls")
    if rules.domains or rules.prefixes:
        for row, number, kind in _by_host(batch.column("url"), rules):
            add(row, number, kind)
    if rules.content_hashes:
        for row, text in enumerate(batch.column("text")):
            name = content_hash(text.as_py()) if text.is_valid else ""
            if name in rules.content_hashes:
                add(row, rules.content_hashes[name], "content_hashes")
    return found


def content_hash(text: str) -> str:
    """How requests, exports and receipts name a text."""
    return hashlib.sha256(text.encode()).hexdigest()


def _by_host(urls: pa.Array, rules: Rules) -> list[tuple[int, int, str]]:
    """Rows whose host is one of the domains or below one, or whose URL begins as a prefix does."""
    found = []
    hosts, bare = _bare(urls)
    known: dict[str, int | None] = {}
    for row, host in enumerate(hosts):
        if host is None:
            continue
        if host not in known:
            known[host] = _domain(host, rules.domains)
        if (number := known[host]) is not None:
            found.append((row, number, "domains"))
        for prefix, number in rules.prefixes.get(host, ()):
            if bare[row].startswith(prefix):
                found.append((row, number, "url_prefixes"))
    return found


def _domain(host: str, domains: Mapping[str, int]) -> int | None:
    """The request for a host or for one above it."""
    numbers = []
    while host:
        if host in domains:
            numbers.append(domains[host])
        host = host.partition(".")[2]
    return min(numbers, default=None)


def _hashes(urls: Any) -> list[bytes | None]:
    """Of the normal form of each URL; None where there is none."""
    column = urls if isinstance(urls, pa.Array) else pa.array(urls, pa.string())
    hashes: list[bytes | None] = url_hashes(ascii_hosts(column), UrlConfig()).to_pylist()
    return hashes


def _host_of(url: str) -> str:
    return _bare(pa.array([url], pa.string()))[0][0] or ""


def _bare(urls: pa.Array) -> tuple[list[str | None], list[str]]:
    """The host of each URL in lower case, and the URL from there on without a scheme, a user or a default port."""
    urls = ascii_hosts(urls)
    data, offsets = bytes_of(urls)
    spans = split_urls(data, offsets)
    parts = [
        strings(*cut(data, spans[:, begin], spans[:, end]), valid=spans[:, HOST] < spans[:, HOST_END])
        for begin, end in ((HOST, HOST_END), (PORT, PORT_END), (REST, REST_END))
    ]
    hosts, ports, rests = (part.to_pylist() for part in parts)
    hosts = [None if host is None else host.lower() for host in hosts]
    bare = [
        "" if host is None else f"{host}{f':{port}' if port else ''}{rest or '/'}"
        for host, port, rest in zip(hosts, ports, rests, strict=True)
    ]
    return hosts, bare
