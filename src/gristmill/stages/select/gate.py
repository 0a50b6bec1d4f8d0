"""Drops documents that may not be used, by URL, robots directives of the page, opt-outs and license.

The rules are tried in this order, and the first one that a document fails gives the reason:

    opted_out            opt_out_domains, opt_out_urls, opt_out_hashes
    not_on_allow_list    allow_domains or allow_urls is given, and the URL is in neither
    blocked_domain       block_domains, including every host below them
    blocked_url          block_urls
    blocked_word         block_words, block_soft_words, block_substrings
    robots_tag           the X-Robots-Tag header, as the reader left it in `meta`
    robots_meta          a meta tag in the head of `html`
    license_unknown, license_not_allowed

`detail` is the entry that matched (for not_on_allow_list the host; for the last two the license). `category` is the
list with that entry: `block_domains`, or `block_domains/adult` if it is a folder. The step `robots` applies robots.txt.

The three kinds of word rules are those of RefinedWeb (Penedo et al. 2023): words of which one is enough, words of which
two different ones are needed, and strings that may also be within a word.
"""

import hashlib
import re
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Annotated, Any, Literal
from urllib.parse import unquote

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pydantic import Field, model_validator

from gristmill.stages.buffers import spread
from gristmill.stages.config_types import matching
from gristmill.stages.contract import File, LicenseName, Map, StageConfig
from gristmill.stages.select import licenses, robots_tags
from gristmill.stages.shared import lists, urls
from gristmill.stages.shared.counting import counts_of
from gristmill.warned import Warnings

SCHEMA = pa.schema([("drop", pa.string()), ("detail", pa.string()), ("category", pa.string())])

Array = np.ndarray[Any, Any]

KINDS = {
    "opt_out_domains": "domains",
    "opt_out_urls": "urls",
    "opt_out_hashes": "digests",
    "allow_domains": "domains",
    "allow_urls": "urls",
    "block_domains": "domains",
    "block_urls": "urls",
    "block_words": "words",
    "block_soft_words": "words",
    "block_substrings": "substrings",
}
"""The fields that are lists, and the kinds of their entries."""
_ENTRIES = {"domains": "domains", "urls": "URLs", "digests": "hashes of 32 or 64 digits", "words": "single words"}

Directives = tuple[Annotated[str, matching(r"[^\s,:;]+", "Write a directive without spaces and , : ;")], ...]


class Config(StageConfig):
    """Lists are files, or folders of files, with one entry per line (see lists.py); `#` begins a comment."""

    opt_out_domains: File | None = None
    """Domains whose owners do not want their pages used."""
    opt_out_urls: File | None = None
    """URLs whose owners do not want them used."""
    opt_out_hashes: File | None = None
    """SHA-256 hashes of texts (64 hexadecimal digits, of the UTF-8 text at this step), or doc_ids (32 digits)."""
    allow_domains: File | None = None
    """Only these domains pass."""
    allow_urls: File | None = None
    """Only these URLs pass; if allow_domains is also given, either is enough."""
    block_domains: File | None = None
    """Domains to drop, including every host below them."""
    block_urls: File | None = None
    """URLs to drop, in any spelling: they are compared in the normal form of `url_dedup`."""
    block_words: File | None = None
    """Words of which one in host, path or query drops a document; a word is a run of letters and digits."""
    block_soft_words: File | None = None
    """Words of which min_soft_words different ones drop a document."""
    min_soft_words: Annotated[int, Field(ge=1, le=16)] = 2
    """The number of different soft words that drop a document."""
    block_substrings: File | None = None
    """Strings that drop a document anywhere in host, path or query, also within a word."""
    agent: Annotated[
        str, matching(r"[A-Za-z][A-Za-z0-9_.\-]*", "Use letters A-Z a-z, digits and _ . - and begin with a letter")
    ] = "CCBot"
    """The product token of the crawler: directives for it apply in addition to those for all robots."""
    x_robots_tag: Directives = ("noai", "noindex", "none")
    """Directives in the X-Robots-Tag header that drop a page; empty: the header is not read."""
    meta_robots: Directives = ("noai", "noindex", "none")
    """Directives in a robots meta tag that drop a page; empty: pages are not read."""
    allow_licenses: tuple[LicenseName, ...] = ()
    """SPDX names; a document passes if they satisfy its license expression. Empty: licenses are not checked."""
    unknown_license: Literal["drop", "keep"] = "drop"
    """What to do with a document without a license, if allow_licenses is given."""

    @model_validator(mode="after")
    def _does_something(self) -> "Config":
        if not reads(self):
            raise ValueError("the gate has no rule, so every document would pass. Set a list, a directive or a license")
        return self


def reads(config: Config) -> tuple[str, ...]:
    """Only the columns that a rule needs: reading `html` or `text` costs more than all rules together."""
    by_url = any(getattr(config, field) for field in KINDS if field != "opt_out_hashes")
    needed = {
        "url": by_url,
        "doc_id": config.opt_out_hashes,
        "text": config.opt_out_hashes,
        "meta": config.x_robots_tag,
        "html": config.meta_robots,
        "license": config.allow_licenses,
    }
    return tuple(column for column, is_needed in needed.items() if is_needed)


def apply(batch: pa.RecordBatch, config: Config) -> pa.RecordBatch:
    columns = {name: pa.nulls(batch.num_rows, pa.string()) for name in SCHEMA.names}
    open_rows = np.ones(batch.num_rows, np.bool_)
    for reason, hit, detail, category in _rules(batch, config):
        hit = hit & open_rows
        if hit.any():
            open_rows &= ~hit
            mask = pa.array(hit)
            for name, value in (("drop", reason), ("detail", detail), ("category", category)):
                columns[name] = pc.if_else(
                    mask, pa.scalar(value, pa.string()) if value is None else value, columns[name]
                )
    return pa.RecordBatch.from_arrays([columns[name] for name in SCHEMA.names], schema=SCHEMA)


def metrics(batch: pa.RecordBatch, answers: pa.RecordBatch, config: Config) -> dict[str, Any]:
    """Count the documents that each list decided on, and the odd entries of the lists."""
    loaded = _load_all(config)
    decided = {name: 0 for field, of_field in loaded.items() if not _allows(field) for name in of_field.names}
    decided |= counts_of(answers["category"])
    return {"asked": batch.num_rows, "decided": decided, **lists.list_faults(loaded)}


def warnings(found: dict[str, Any], config: Config) -> Sequence[str]:
    """Warn about lists that are empty, that have odd entries, or that matched no document."""
    warned = Warnings(lists.list_warnings(found, lambda name: f"not {_ENTRIES[KINDS[name.partition('/')[0]]]}"))
    for field in KINDS:
        counts = [count for name, count in found.get("decided", {}).items() if name.partition("/")[0] == field]
        if counts and not any(counts):
            warned.add("no_effect", f"{field} matched no document")
    rows = found.get("asked", 0)
    if rows and found["dropped"].get("not_on_allow_list", 0) == rows:
        warned.add("no_document", "no document is on the allow list")
    return warned


Rule = tuple[str, Array, Any, Any]
"""A reason, the rows that it applies to, and their details and categories."""


def _allows(field: str) -> bool:
    return field.startswith("allow_")


def _load_all(config: Config) -> dict[str, lists.Lists]:
    given = {field: getattr(config, field) for field in KINDS}
    return {field: lists.load(field, path, KINDS[field]) for field, path in given.items() if path}


def _rules(batch: pa.RecordBatch, config: Config) -> Iterator[Rule]:
    loaded = _load_all(config)
    columns = batch.schema.names
    documents = _Urls(batch["url"] if "url" in columns else pa.nulls(batch.num_rows, pa.string()))
    for field in ("opt_out_domains", "opt_out_urls"):
        if field in loaded:
            yield "opted_out", *documents.find(loaded[field], field)
    if "opt_out_hashes" in loaded:
        yield from _opted_out_hashes(batch, loaded["opt_out_hashes"])
    allowed = [documents.find(found, field)[0] for field, found in loaded.items() if _allows(field)]
    if allowed:
        yield "not_on_allow_list", ~np.logical_or.reduce(allowed), pa.array(documents.hosts, pa.string()), None
    for field, reason in _BLOCKED.items():
        if field in loaded:
            required = config.min_soft_words if field == "block_soft_words" else 1
            yield reason, *documents.find(loaded[field], field, required)
    if config.x_robots_tag:
        tags = robots_tags.find_in_headers(batch["meta"], config.x_robots_tag, config.agent)
        yield "robots_tag", *spread(tags, batch.num_rows), None
    if config.meta_robots:
        tags = robots_tags.find_in_pages(batch["html"], config.meta_robots, config.agent)
        yield "robots_meta", *spread(tags, batch.num_rows), None
    if config.allow_licenses:
        yield from _licenses(batch["license"], config)


_BLOCKED = {
    "block_domains": "blocked_domain",
    "block_urls": "blocked_url",
    "block_words": "blocked_word",
    "block_soft_words": "blocked_word",
    "block_substrings": "blocked_word",
}
_START = re.compile(r"\A[\x00-\x20]*(?:\w+:)?[/\\]*")


class _Urls:
    """The URLs of a batch, as the rules need them."""

    def __init__(self, column: pa.Array) -> None:
        self.column = column

    @cached_property
    def hosts(self) -> list[str | None]:
        return [urls.parse(url).host or None for url in self.column.to_pylist()]

    @cached_property
    def texts(self) -> list[str]:
        """URLs as words are searched in them: decoded, in lower case, without scheme and fragment."""
        texts = [_START.sub("", url or "").translate(urls.BREAKS).partition("#")[0] for url in self.column.to_pylist()]
        return [(unquote(text) if "%" in text else text).lower() for text in texts]

    def find(self, found: lists.Lists, field: str, required: int = 1) -> tuple[Array, pa.Array, pa.Array]:
        """The rows with `required` entries of the lists, what was found, and the list that has it."""
        details: list[str | None] = []
        labels: list[int]
        match KINDS[field]:
            case "domains":
                listed = found.domains([host for host in self.hosts if host])
                pairs = [listed.get(host or "", (-1, None)) for host in self.hosts]
                labels, details = [label for label, _ in pairs], [domain for _, domain in pairs]
            case "urls":
                labels = found.labels(urls.normal_forms(self.column, urls.UrlForm())).tolist()
                details = self.column.to_pylist()
            case kind:
                entries = [
                    found.words_in(text) if kind == "words" else found.substrings_in(text) for text in self.texts
                ]
                entries = [some[:required] if len(some) >= required else [] for some in entries]
                labels = [found.words[some[0]] if some else -1 for some in entries]
                details = [", ".join(some) for some in entries]
        label = np.array(labels, np.int32)
        return label >= 0, pa.array(details, pa.string()), _names(found, label)


def _names(found: lists.Lists, label: Array) -> pa.Array:
    return pa.array(found.names, pa.string()).take(pa.array(label, mask=label < 0))


def _opted_out_hashes(batch: pa.RecordBatch, found: lists.Lists) -> Iterator[Rule]:
    ids = batch["doc_id"].cast(pa.binary())
    texts = batch["text"].cast(pa.binary())
    digests = [None if not text.is_valid else hashlib.sha256(text.as_buffer()).digest() for text in texts]
    for column in (ids, pa.array(digests, pa.binary())):
        label = found.labels(column)
        rows = np.flatnonzero(label >= 0)
        shown = {int(row): column[int(row)].as_py().hex() for row in rows}
        yield "opted_out", *spread(shown, batch.num_rows), _names(found, label)


def _licenses(column: pa.Array, config: Config) -> Iterator[Rule]:
    allowed = licenses.allow_list(config.allow_licenses)
    coded = column.dictionary_encode()
    answers = [licenses.satisfied(name, allowed) for name in coded.dictionary.to_pylist()]
    unknown = np.array([answer is None for answer in answers] + [True])
    refused = np.array([answer is False for answer in answers] + [False])
    place = coded.indices.fill_null(len(answers)).to_numpy()
    if config.unknown_license == "drop":
        yield "license_unknown", unknown[place], column, None
    yield "license_not_allowed", refused[place], column, None


STAGE = Map(
    version=3,
    config=Config,
    libraries=urls.LIBRARIES,
    reads=reads,
    only_kept=True,
    schema=SCHEMA,
    apply=apply,
    metrics=metrics,
    warnings=warnings,
)
