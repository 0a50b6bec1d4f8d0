"""What a question about documents is compared with, and how: ids, addresses, hashes of texts, texts.

Each function takes what is asked, in the words of a user, and gives one that goes through a column of a batch: the rows
that match, what they match, and how much of it where they are only like it.
"""

import hashlib
import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gristmill.errors import UserError
from gristmill.kernels.dedup.shingles import word_tables
from gristmill.kernels.dedup.sketch import jaccard, shingle_sets
from gristmill.kernels.urls.parts import PORT, PORT_END, REST, split_urls
from gristmill.stages.buffers import bytes_of
from gristmill.stages.dedup.keep_order import fixed_bytes
from gristmill.stages.dedup.url_parts import Config as UrlConfig
from gristmill.stages.dedup.url_parts import ascii_hosts, hosts_of, normal_forms
from gristmill.stages.select.index import NGRAM

Array = np.ndarray[Any, Any]
Hit = tuple[int, str, float | None]
"""Row, what was asked, and the share of it that the row has; None: it is that, to the byte."""
Match = Callable[[pa.Array], Iterable[Hit]]

NEAR = 0.5
"""Of the shingles of a text that is asked for: what a document has that is said to be like it."""


def match_ids(asked: Sequence[str]) -> Match:
    """Ids in hexadecimal, or how they begin."""
    for text in asked:
        if not re.fullmatch("[0-9a-f]{1,32}", text):
            raise UserError(
                f"{text} is not an id, so no document has it. Give up to 32 hexadecimal digits, as gristmill inspect "
                "shows them."
            )

    whole = {bytes.fromhex(one): one for one in asked if len(one) == 32}
    known = pa.array(list(whole), pa.binary(16))

    def match(column: pa.Array) -> Iterable[Hit]:
        for row in np.flatnonzero(pc.is_in(column, known).to_numpy(zero_copy_only=False)).tolist():
            yield row, whole[column[row].as_py()], None
        ids = fixed_bytes(column)
        for begins in (one for one in asked if len(one) < 32):
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
    """How addresses begin, as they are written or in their normal form. The host is whole: `https://example.com/a` is
    no prefix of `https://example.community/a`.
    """
    wanted: dict[str, list[tuple[str, tuple[str, str, str], str]]] = {}
    for prefix, form in zip(asked, normal_forms(pa.array(asked, pa.string()), UrlConfig()).to_pylist(), strict=True):
        whole = f"{form}/" if prefix.endswith("/") and form else form  # the normal form has no slash at its end
        wanted.setdefault(host_of(prefix), []).append((prefix, _Split(pa.array([prefix])).parts(0), whole))

    def match(column: pa.Array) -> Iterable[Hit]:
        split, forms = _Split(column), normal_forms(column, UrlConfig())
        for row in _rows_in(split.hosts, wanted):
            scheme, port, rest = split.parts(row)
            form = f"{forms[row].as_py()}/"
            for prefix, (its_scheme, its_port, begins), whole in wanted[split.hosts[row].as_py()]:
                if (scheme, port) == (its_scheme, its_port) and (rest.startswith(begins) or form.startswith(whole)):
                    yield row, prefix, None

    return match


def match_domains(asked: Sequence[str]) -> Match:
    """Hosts, each with all that lie below it."""
    domains: dict[str, list[str]] = {}
    for domain in asked:
        domains.setdefault(host_of(domain), []).append(domain)

    def match(column: pa.Array) -> Iterable[Hit]:
        distinct = hosts_of(ascii_hosts(column)).dictionary_encode()
        hosts = distinct.dictionary.to_pylist()
        found = [[one for part in _above(host) for one in domains.get(part, ())] for host in hosts]
        for row, host in enumerate(distinct.indices.to_pylist()):
            yield from ((row, domain, None) for domain in (() if host is None else found[host]))

    return match


def _above(host: str) -> list[str]:
    """A host, and all that it lies below; an address lies below none."""
    if host.startswith("[") or host.rpartition(".")[2].isdigit():
        return [host]
    labels = host.split(".")
    return [".".join(labels[start:]) for start in range(len(labels))]


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
    return shingle_sets(*bytes_of(texts), NGRAM, word_tables())


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
    host = hosts_of(ascii_hosts(pa.array([text])))[0].as_py()
    if host is None:
        raise UserError(
            f"{text} has no host, so no document lies there. Write a host, or an address: https://example.com/blog/"
        )
    return str(host)


def _rows_in(column: pa.Array, wanted: Iterable[str | bytes]) -> list[int]:
    found = pc.is_in(column, pa.array(wanted, column.type)).to_numpy(zero_copy_only=False)
    return [int(row) for row in np.flatnonzero(found)]


class _Split:
    """The parts of many URLs."""

    def __init__(self, urls: pa.Array) -> None:
        urls = ascii_hosts(urls)
        self.hosts = hosts_of(urls)
        self._data, self._offsets = bytes_of(urls)
        self._spans = split_urls(self._data, self._offsets)

    def parts(self, row: int) -> tuple[str, str, str]:
        """Scheme (none for http and https), port (none for that of the scheme), and what follows, as it is written."""
        begin, end = int(self._offsets[row]), int(self._offsets[row + 1])
        port, port_end, rest = (int(self._spans[row, column]) for column in (PORT, PORT_END, REST))
        head, has_scheme, _ = self._data[begin:rest].tobytes().decode("utf-8", "replace").partition("://")
        scheme = head.strip().lower() if has_scheme else ""
        rest_of_it = self._data[rest:end].tobytes().decode("utf-8", "replace").rstrip()
        number = self._data[port:port_end].tobytes().decode("utf-8", "replace")
        return "" if scheme in ("http", "https") else scheme, number, rest_of_it
