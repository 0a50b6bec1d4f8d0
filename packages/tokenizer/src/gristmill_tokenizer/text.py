"""The text for measuring a tokenizer: held-out files by domain, or a small sample from Python itself."""

import inspect
import json
import textwrap
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import orjson
import pyarrow as pa
from fsspec.implementations.local import LocalFileSystem

from gristmill.errors import UserError
from gristmill.hints import option
from gristmill.places import FileLocation, shown, system_of
from gristmill.stages.ingest.jsonl import lines
from gristmill.stages.reading.decompress import ReadFault
from gristmill.stages.reading.stream import bounded, decompressed, without_compression_suffix
from gristmill.tokenizer.hostile import HOSTILE

DOMAIN_BYTES = 64 << 20
"""The most text of each domain: 64 MB give three stable digits of bytes per token."""

_NO_LANGUAGE = ("all_planes", "binary", "controls", "long_runs", "newlines", "noncharacters", "nul")
"""Hostile texts that are much larger than the others, or have no language."""

_LANGUAGE_FIELDS = ("lang", "language")


@dataclass(eq=False)
class Domain:
    """Texts of one kind."""

    name: str
    texts: list[str] = field(default_factory=list)
    languages: list[str | None] = field(default_factory=list)
    """The language of each text, if it is stated."""
    source: str = ""
    bad_records: int = 0
    cut: bool = False
    """Whether there was more text than `DOMAIN_BYTES`."""

    @cached_property
    def size_bytes(self) -> int:
        return sum(len(text.encode()) for text in self.texts)

    def add(self, text: str, language: str | None = None) -> None:
        self.texts.append(text)
        self.languages.append(language)


def built_in() -> list[Domain]:
    """Python's documentation, some of its library, and the hostile texts, which need no files."""
    import argparse
    import collections
    import dataclasses
    import datetime
    import difflib
    import heapq
    from pydoc_data import topics

    prose = Domain("prose", source="pydoc_data.topics")
    for _, text in sorted(topics.topics.items()):
        prose.add(text, "en")
    modules = (argparse, collections, dataclasses, datetime, difflib, heapq, json, textwrap)
    code = Domain("code", source="source of eight modules of Python's library")
    for module in modules:
        code.add(inspect.getsource(module), "code:python")
    multilingual = Domain("multilingual", source="the hostile texts of the audit")
    for name, text in HOSTILE.items():
        if name not in _NO_LANGUAGE:
            multilingual.add(text)
    return [prose, code, multilingual]


def from_arrays(texts: Iterable[tuple[str, pa.Array, pa.Array]], source: str) -> list[Domain]:
    """Collect domains from batches of (domain, texts, languages)."""
    domains: dict[str, Domain] = {}
    held: dict[str, int] = {}
    for name, some, languages in texts:
        domain = domains.setdefault(name, Domain(name, source=source))
        for text, language in zip(some.to_pylist(), languages.to_pylist(), strict=True):
            held[name] = held.get(name, 0) + len(text.encode())
            if held[name] > DOMAIN_BYTES:
                domain.cut = True
                break
            domain.add(text, language)
    return [domains[name] for name in sorted(domains)]


def read_domains(named: Sequence[str]) -> list[Domain]:
    """Read the texts of `DOMAIN=GLOB` arguments in order; a domain may appear more than once."""
    domains: dict[str, Domain] = {}
    for argument in named:
        name, equals, pattern = argument.partition("=")
        if not (name and equals and pattern):
            raise UserError(
                f"{option('text', argument)} lacks a domain or a file pattern, so it cannot be used. "
                "Write DOMAIN=GLOB, for example code=held_out/code*.jsonl.zst."
            )
        domain = domains.setdefault(name, Domain(name))
        domain.source = f"{domain.source}, {pattern}" if domain.source else pattern
        filesystem, path = system_of(pattern)
        found = sorted(one for one in filesystem.glob(path) if filesystem.isfile(one))
        if not found:
            raise UserError(
                f"{option('text', argument)}: {pattern} matches no files, so {name} has no text. Check the path."
            )
        for one in found:
            _read(FileLocation(one, None if isinstance(filesystem, LocalFileSystem) else filesystem), domain)
    for domain in domains.values():
        if not domain.size_bytes:
            raise UserError(
                f"{option('text', f'{domain.name}={domain.source}')} has no text, so there is nothing to measure. "
                "JSON Lines records need a field `text`; other files are read as plain text."
            )
    return list(domains.values())


def _read(place: FileLocation, domain: Domain) -> None:
    uri = shown(place.path)
    name = without_compression_suffix(Path(uri).name).lower()
    held = sum(len(text.encode()) for text in domain.texts)
    with place.open() as file:
        _, chunks = decompressed(file)
        if not name.endswith((".jsonl", ".ndjson", ".json")):
            try:
                text = bounded(chunks, max(0, DOMAIN_BYTES - held)).decode()
            except ReadFault as fault:
                if fault.reason != "record_too_large":
                    raise UserError(
                        f"{uri} cannot be read ({fault}), so its text is missing. Replace it with an intact copy."
                    ) from fault
                domain.cut = True
                return
            except UnicodeDecodeError as error:
                raise UserError(
                    f"{uri} is not UTF-8 (byte {error.start}), so it cannot be encoded. Convert it, or leave it out."
                ) from error
            domain.add(text)
            return
        for _, line in lines(chunks, 0, DOMAIN_BYTES):
            if isinstance(line, bytes) and not line.strip():
                continue
            try:
                row = orjson.loads(line)  # type: ignore[arg-type]  # a Fault fails here like a bad line
                text = row["text"]
                text.encode()
            except (orjson.JSONDecodeError, KeyError, TypeError, AttributeError, UnicodeEncodeError):
                domain.bad_records += 1
                continue
            held += len(text.encode())
            if held > DOMAIN_BYTES:
                domain.cut = True
                return
            language = next((row[key] for key in _LANGUAGE_FIELDS if isinstance(row.get(key), str)), None)
            domain.add(text, language)
