"""What a question about documents is compared with, and how: ids, addresses, hashes of texts, texts.

Each function takes what is asked, in the words of a user, and gives one that goes through a column of a batch: the rows
that match, what they match, and how much of it where they are only like it.
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
from gristmill.stages.buffers import bytes_of
from gristmill.stages.dedup.url_parts import Config as UrlConfig
from gristmill.stages.dedup.url_parts import hosts_of, normal_forms, plain_urls
from gristmill.stages.select.index import NGRAM
from gristmill.stages.shared.keep_order import fixed_bytes

Array = np.ndarray[Any, Any]
Hit = tuple[int, str, float | None]
"""Row, what was asked, and the share of it that the row has; None: it is that, to the byte."""
Match = Callable[[pa.Array], Iterable[Hit]]

NEAR = 0.5
"""Of the shingles of a text that is asked for: what a document has that is said to be like it."""


_HOST_ALONE = re.compile(r"(?:[^:/\\?#]*:)?[/\\]*[^/\\?#]*")
_QUERY = re.compile("[?#]")


def first_and_last(batch: pa.RecordBatch) -> tuple[pa.Array, pa.Array]:
    """Of a batch with `*.text`: each document's text as it was first, and as the last step that saw it left it."""
    texts = [batch.column(name) for name in batch.schema.names if name.startswith("*.text")]
    return pc.coalesce(*texts), pc.coalesce(*reversed(texts))


def match_ids(asked: Sequence[str]) -> Match:
    """Ids in hexadecimal, or how they begin."""
    for text in asked:
        if not re.fullmatch("[0-9a-f]{1,32}", text):
            raise UserError(f"{text} is not an id, so no document has it. Give up to 32 hexadecimal digits.")

    whole = {bytes.fromhex(one): one for one in asked if len(one) == 32}
    short = [one for one in asked if len(one) < 32]

    def match(column: pa.Array) -> Iterable[Hit]:
        for row in _rows_in(column, whole):
            yield row, whole[column[row].as_py()], None
        ids = fixed_bytes(column)
        for begins in short:
            begun = np.frombuffer(bytes.fromhex(begins[: len(begins) // 2 * 2]), np.uint8)
            wanted = (ids[:, : len(begun)] == begun).all(axis=1)
            if len(begins) % 2:
                wanted &= ids[:, len(begun)] >> 4 == int(begins[-1], 16)
            yield from ((row, begins, None) for row in np.flatnonzero(wanted).tolist())

    return match


def match_urls(asked: Sequence[str]) -> Match:
    """Addresses, in whatever spelling (`url_parts`)."""
    forms = _by_form(asked)

    def match(column: pa.Array) -> Iterable[Hit]:
        found = normal_forms(column, UrlConfig())
        for row in _rows_in(found, forms):
            yield from ((row, url, None) for url in forms[found[row].as_py()])

    return match


def match_prefixes(asked: Sequence[str]) -> Match:
    """How addresses begin, in any spelling. The host is whole: `https://example.com/a` is no prefix of
    `https://example.community/a`.
    """
    # In the order and with the parameters that an address is written with, and in the normal form of addresses.
    configs = (UrlConfig(tracking=(), sort_query=False, fragments="keep"), UrlConfig())
    hosts = set(map(host_of, asked))
    begun = [_Beginnings(_openings(asked, config)) for config in configs]

    def match(column: pa.Array) -> Iterable[Hit]:
        rows = _rows_in(hosts_of(plain_urls(column)), hosts)
        urls = column.take(pa.array(rows, pa.int64()))
        forms = [normal_forms(urls, config).to_pylist() for config in configs]
        for place, row in enumerate(rows):
            found: dict[str, None] = {}
            for beginnings, form in zip(begun, (some[place] for some in forms), strict=True):
                # A prefix without a query is one of the path, which ends in a slash or not.
                for text in (form, f"{_QUERY.split(form, maxsplit=1)[0]}/"):
                    found.update(dict.fromkeys(beginnings.of(text)))
            yield from ((row, prefix, None) for prefix in found)

    return match


def _openings(asked: Sequence[str], config: UrlConfig) -> Iterable[tuple[str, str]]:
    """Prefixes in the spelling of normal forms, each with itself.

    A normal form has no slash at its end, no empty query and no dot segment, and a prefix may end in one of these. So
    it is spelt with a letter behind it, unless it is a host alone, and with another one: where both are left out, or
    are not at the end, what stands before them is not how such addresses begin.
    """
    longer = [f"{one}/" if _HOST_ALONE.fullmatch(one) else one for one in asked]
    forms = [normal_forms(pa.array([one + end for one in longer]), config).to_pylist() for end in "xy"]
    for one, form, other in zip(asked, *forms, strict=True):
        if form != other and form[:-1] == other[:-1]:
            yield form[:-1], one
        elif form != other:  # the last parameter is not the last by name
            yield normal_forms(pa.array([one]), config)[0].as_py(), one


def match_domains(asked: Sequence[str]) -> Match:
    """Hosts, each with all that lie below it; an address has none below it."""
    below = _Beginnings((f"{host_of(domain)[::-1]}.", domain) for domain in asked)

    def match(column: pa.Array) -> Iterable[Hit]:
        distinct = hosts_of(plain_urls(column)).dictionary_encode()
        found = [list(below.of(f"{host[::-1]}.", _is_address(host))) for host in distinct.dictionary.to_pylist()]
        for row, host in enumerate(distinct.indices.to_pylist()):
            yield from ((row, domain, None) for domain in (() if host is None else found[host]))

    return match


def _is_address(host: str) -> bool:
    return host.startswith("[") or host.rpartition(".")[2].isdigit()


class _Beginnings:
    """Which of many texts another one begins with, in the time that it takes to read it and to name them."""

    def __init__(self, texts: Iterable[tuple[str, str]]) -> None:
        """Texts, each with a name."""
        self._names: dict[str, list[str]] = {}
        for text, name in texts:
            self._names.setdefault(text, []).append(name)
        self._sorted = sorted(self._names)
        self._within: list[int] = []
        """Of each text the longest other one that it begins with, or -1."""
        for number, text in enumerate(self._sorted):
            before = number - 1
            while before >= 0 and not text.startswith(self._sorted[before]):
                before = self._within[before]
            self._within.append(before)

    def of(self, text: str, whole: bool = False) -> Iterable[str]:
        """The names of those that `text` begins with; `whole`: that it is."""
        if whole:
            yield from self._names.get(text, ())
            return
        at = bisect_right(self._sorted, text) - 1  # all that `text` begins with begin this one, too, or are it
        while at >= 0:
            if text.startswith(self._sorted[at]):
                yield from self._names[self._sorted[at]]
            at = self._within[at]


def match_hashes(asked: Sequence[str]) -> Match:
    """SHA-256 of texts, in hexadecimal."""
    wanted = set(asked)
    for text in asked:
        if not re.fullmatch("[0-9a-f]{64}", text):
            raise UserError(f"{text} is not a hash of a text, so no document has it. Give 64 hexadecimal digits.")

    def match(column: pa.Array) -> Iterable[Hit]:
        for row, text in enumerate(column):
            if text.is_valid and (digest := hashlib.sha256(text.as_buffer()).hexdigest()) in wanted:
                yield row, digest, None

    return match


def match_texts(asked: Sequence[str]) -> Match:
    """Texts that are in the document to the byte; or of whose shingles it has the share NEAR."""
    if not all(text.strip() for text in asked):
        raise UserError("An empty text is in every document. Quote some words of the one that is looked for.")
    sets = {text: shingles_of(pa.array([text]))[1] for text in asked}

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
    """How requests, exports and receipts name a text."""
    return hashlib.sha256(text.encode()).hexdigest()


def shingles_of(texts: pa.Array) -> tuple[Array, Array]:
    """The sorted distinct shingles of each text: where each set begins, and all values."""
    return shingle_sets(*bytes_of(texts), NGRAM, copy_tables())


def _by_form(asked: Sequence[str]) -> dict[str, list[str]]:
    """Addresses by their normal form."""
    forms: dict[str, list[str]] = {}
    for url, form in zip(asked, normal_forms(pa.array(asked, pa.string()), UrlConfig()).to_pylist(), strict=True):
        if not form:
            raise UserError("An empty URL is that of no document. Give one with its host: https://example.com/page")
        forms.setdefault(form, []).append(url)
    return forms


def host_of(text: str) -> str:
    """Of an address, or a host itself; in lower case, and as `xn--`."""
    host = hosts_of(plain_urls(pa.array([text])))[0].as_py()
    if host is None:
        raise UserError(
            f"{text} has no host, so no document lies there. Write a host, or an address: https://example.com/blog/"
        )
    return str(host)


def _rows_in(column: pa.Array, wanted: Collection[str | bytes]) -> list[int]:
    """Rows with a value that is wanted. Arrow makes a table of all that is, which only many rows are worth."""
    if len(column) < len(wanted):
        return [row for row, value in enumerate(column.to_pylist()) if value in wanted]
    found = pc.is_in(column, pa.array(wanted, column.type)).to_numpy(zero_copy_only=False)
    return [int(row) for row in np.flatnonzero(found)]
