"""Finds documents by id, URL, hash of the text, or text.

Each function takes the queries as a user wrote them and returns a function that scans a column of a batch. It yields
the matching rows, the query that each row matches and, if they are only similar, how much of the query the row has.
"""

import hashlib
import re
from bisect import bisect_right
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gristmill.errors import UserError
from gristmill.kernels.dedup.shingles import copy_tables
from gristmill.kernels.dedup.sketch import jaccard, shingle_sets
from gristmill.stages.buffers import bytes_of, fixed_bytes
from gristmill.stages.select.index import NGRAM
from gristmill.stages.shared.urls import UrlForm, hosts_of, is_address, normal_form, normal_forms, parse

Array = np.ndarray[Any, Any]
Hit = tuple[int, str, float | None]
"""Row, query, and the share of the query's shingles that the row has. None: an exact match."""
Matcher = Callable[[pa.Array], Iterable[Hit]]

NEAR = 0.5
"""The share of a query text's shingles that makes a document similar to it."""


_HOST_ALONE = re.compile(r"(?:[^:/\\?#]*:)?[/\\]*[^/\\?#]*")
_QUERY = re.compile("[?#]")


def first_and_last(batch: pa.RecordBatch) -> tuple[pa.Array, pa.Array]:
    """Each document's text as it was read and as the last step that changed it left it, from a batch with `*.text`."""
    texts = [batch.column(name) for name in batch.schema.names if name.startswith("*.text")]
    return pc.coalesce(*texts), pc.coalesce(*reversed(texts))


def match_ids(queries: Sequence[str]) -> Matcher:
    """Matches ids in hexadecimal, or prefixes of ids."""
    for text in queries:
        if not re.fullmatch("[0-9a-f]{1,32}", text):
            raise UserError(f"{text} is not a document id. Give up to 32 hexadecimal digits.")

    whole = {bytes.fromhex(one): one for one in queries if len(one) == 32}
    short = [one for one in queries if len(one) < 32]

    def match(column: pa.Array) -> Iterable[Hit]:
        for row in _rows_in(column, whole):
            yield row, whole[column[row].as_py()], None
        ids = fixed_bytes(column)
        for start in short:
            starts = np.frombuffer(bytes.fromhex(start[: len(start) // 2 * 2]), np.uint8)
            wanted = (ids[:, : len(starts)] == starts).all(axis=1)
            if len(start) % 2:
                wanted &= ids[:, len(starts)] >> 4 == int(start[-1], 16)
            yield from ((row, start, None) for row in np.flatnonzero(wanted).tolist())

    return match


def match_urls(queries: Sequence[str]) -> Matcher:
    """Matches URLs in any spelling (`url_parts`)."""
    forms = _by_form(queries)

    def match(column: pa.Array) -> Iterable[Hit]:
        found = normal_forms(column, UrlForm())
        for row in _rows_in(found, forms):
            yield from ((row, url, None) for url in forms[found[row].as_py()])

    return match


def match_prefixes(queries: Sequence[str]) -> Matcher:
    """Matches prefixes of URLs, in any spelling. The host must be whole: `https://example.com/a` is not a prefix of
    `https://example.community/a`."""
    # First with the URL's own order of parameters, then in the normal form of URLs.
    configs = (UrlForm(tracking=(), sort_query=False, fragments="keep"), UrlForm())
    hosts = set(map(host_of, queries))
    starts = [_Prefixes(_openings(queries, config)) for config in configs]

    def match(column: pa.Array) -> Iterable[Hit]:
        rows = _rows_in(hosts_of(column), hosts)
        urls = column.take(pa.array(rows, pa.int64()))
        forms = [normal_forms(urls, config).to_pylist() for config in configs]
        for place, row in enumerate(rows):
            found: dict[str, None] = {}
            for prefixes, form in zip(starts, (some[place] for some in forms), strict=True):
                # A prefix without a query is a prefix of the path, with or without a slash at the end.
                for text in (form, f"{_QUERY.split(form, maxsplit=1)[0]}/"):
                    found.update(dict.fromkeys(prefixes.of(text)))
            yield from ((row, prefix, None) for prefix in found)

    return match


def _openings(queries: Sequence[str], config: UrlForm) -> Iterable[tuple[str, str]]:
    """Each prefix as it appears in normal forms, with the prefix itself.

    A normal form has no slash at its end, no empty query and no dot segment, but a prefix may end in one of these. So
    the prefix is normalised twice with a different letter appended, unless it is only a host. If both letters disappear
    or are not at the end, the text before them is not a prefix of such URLs.
    """
    longer = [f"{one}/" if _HOST_ALONE.fullmatch(one) else one for one in queries]
    forms = [[normal_form(one + end, config) for one in longer] for end in "xy"]
    for one, form, other in zip(queries, *forms, strict=True):
        if form != other and form[:-1] == other[:-1]:
            yield form[:-1], one
        elif form != other:  # the last parameter is not the last by name
            yield normal_form(one, config), one


def match_files(queries: Sequence[str]) -> Matcher:
    """Matches locators (FILE#KEY) by their file. As a name may have a `#`, so may a key: a file that is named without
    one is everything before the first `#`."""
    plain = {one for one in queries if "#" not in one}
    others = [one for one in queries if "#" in one]

    def match(column: pa.Array) -> Iterable[Hit]:
        names = pc.replace_substring_regex(column, "#(?s:.*)", "")
        yield from ((row, names[row].as_py(), None) for row in _rows_in(names, plain))
        for one in others:
            starts = pc.starts_with(column, f"{one}#").to_numpy(zero_copy_only=False)
            yield from ((row, one, None) for row in np.flatnonzero(starts).tolist())

    return match


def match_domains(queries: Sequence[str]) -> Matcher:
    """Matches hosts and their subdomains. An IP address has no subdomains."""
    below = _Prefixes((f"{host_of(domain)[::-1]}.", domain) for domain in queries)

    def match(column: pa.Array) -> Iterable[Hit]:
        distinct = hosts_of(column).dictionary_encode()
        found = [list(below.of(f"{host[::-1]}.", is_address(host))) for host in distinct.dictionary.to_pylist()]
        for row, host in enumerate(distinct.indices.to_pylist()):
            yield from ((row, domain, None) for domain in (() if host is None else found[host]))

    return match


class _Prefixes:
    """Finds the strings that a text starts with, in time proportional to its length and the number of matches."""

    def __init__(self, texts: Iterable[tuple[str, str]]) -> None:
        """Takes strings, each with a name."""
        self._names: dict[str, list[str]] = {}
        for text, name in texts:
            self._names.setdefault(text, []).append(name)
        self._sorted = sorted(self._names)
        self._within: list[int] = []
        """For each string, the longest other one that it starts with, or -1."""
        for number, text in enumerate(self._sorted):
            before = number - 1
            while before >= 0 and not text.startswith(self._sorted[before]):
                before = self._within[before]
            self._within.append(before)

    def of(self, text: str, whole: bool = False) -> Iterable[str]:
        """The names of the strings that `text` starts with; `whole`: that are equal to it."""
        if whole:
            yield from self._names.get(text, ())
            return
        at = bisect_right(self._sorted, text) - 1  # every prefix of `text` is this string or a prefix of it
        while at >= 0:
            if text.startswith(self._sorted[at]):
                yield from self._names[self._sorted[at]]
            at = self._within[at]


def match_hashes(queries: Sequence[str]) -> Matcher:
    """Matches the SHA-256 of texts, in hexadecimal."""
    wanted = set(queries)
    for text in queries:
        if not re.fullmatch("[0-9a-f]{64}", text):
            raise UserError(f"{text} is not the SHA-256 of a text. Give 64 hexadecimal digits.")

    def match(column: pa.Array) -> Iterable[Hit]:
        for row, text in enumerate(column):
            if text.is_valid and (digest := hashlib.sha256(text.as_buffer()).hexdigest()) in wanted:
                yield row, digest, None

    return match


def match_texts(queries: Sequence[str]) -> Matcher:
    """Matches documents that contain a text exactly, or at least the share NEAR of its shingles."""
    if not all(text.strip() for text in queries):
        raise UserError("An empty text matches every document. Quote some words of the text that you are looking for.")
    sets = {text: shingles_of(pa.array([text]))[1] for text in queries}

    def match(column: pa.Array) -> Iterable[Hit]:
        ends, values = shingles_of(column)
        for text, shingles in sets.items():
            has = pc.match_substring(column, text).fill_null(False).to_numpy(zero_copy_only=False)
            for row in range(len(column)):
                if has[row]:
                    yield row, text, None
                elif column[row].is_valid:
                    both, _ = jaccard(shingles, values[ends[row] : ends[row + 1]])
                    if both >= NEAR * len(shingles):
                        yield row, text, both / len(shingles)

    return match


def content_hash(text: str) -> str:
    """The hash by which requests, exports and receipts identify a text."""
    return hashlib.sha256(text.encode()).hexdigest()


def shingles_of(texts: pa.Array) -> tuple[Array, Array]:
    """The sorted distinct shingles of each text: where each set start, and all values."""
    return shingle_sets(*bytes_of(texts), NGRAM, copy_tables())


def _by_form(queries: Sequence[str]) -> dict[str, list[str]]:
    """URLs by their normal form."""
    forms: dict[str, list[str]] = {}
    for url in queries:
        form = normal_form(url, UrlForm())
        if not form:
            raise UserError("An empty URL matches no document. Give a URL with its host: https://example.com/page")
        forms.setdefault(form, []).append(url)
    return forms


def host_of(text: str) -> str:
    """The host of a URL, or a host itself, in lower case and in its `xn--` form."""
    host = parse(text).host
    if not host:
        raise UserError(
            f"{text} has no host, so no document matches it. Give a host or a URL: https://example.com/blog/"
        )
    return host


def _rows_in(column: pa.Array, wanted: Collection[str | bytes]) -> list[int]:
    """Rows whose value is wanted. Arrow builds a hash table of all wanted values, which only pays off for many rows."""
    if len(column) < len(wanted):
        return [row for row, value in enumerate(column.to_pylist()) if value in wanted]
    found = pc.is_in(column, pa.array(wanted, column.type)).to_numpy(zero_copy_only=False)
    return [int(row) for row in np.flatnonzero(found)]
