"""What became of the requests of a takedown: the documents that they name, and their copies, as a run left them."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from gristmill.engine.schedule.corpus_view import CorpusView
from gristmill.engine.work.task import part_from_json
from gristmill.errors import UserError
from gristmill.query.documents.lookup import DocumentLocation, find, find_copies, text_layers
from gristmill.query.takedown.withheld import list_of
from gristmill.recipe.sections.takedowns import MATCH, SETS, TAKEDOWN
from gristmill.stages import NO_DOCUMENT
from gristmill.stages.matches import Hit, shingles_of
from gristmill.stages.takedown.requests import Request, read_all
from gristmill.stages.takedown.takedown import copies_of, in_part, make_sets
from gristmill.stages.takedown.takedown_sets import FEWEST, SCHEMA_OF_SETS
from gristmill.store.parquet import PartReader
from gristmill.store.store import Part, Store

_QUESTIONS = {
    "urls": "url",
    "url_prefixes": "url_prefix",
    "domains": "domain",
    "doc_ids": "doc_id",
    "content_hashes": "content_hash",
}
"""Kind of item of a request -> kind of question."""


def requests_of(view: CorpusView) -> tuple[Request, ...]:
    """The requests that a recorded run worked with, from the copy that the store keeps."""
    told = next((one for one in _record(view)["nodes"].values() if one["name"] == MATCH), None)
    if told is None:
        raise UserError(f"{view.label} was run without takedowns:, so no request is known. Add them to its recipe.")
    copies = {part.hash: part for part in map(part_from_json, told["config_files"])}
    config = told["identity"]["config"]
    paths = [str(view.store.local_path(copies[digest])) for digest in config["requests"]]
    return read_all(paths, config["names"])


def fields_of(view: CorpusView) -> dict[str, Any]:
    """near and copies, as that run had them."""
    told = next(one for one in _record(view)["nodes"].values() if one["name"] == TAKEDOWN)
    return dict(told["identity"]["config"])


def _record(view: CorpusView) -> dict[str, Any]:
    assert view.record is not None
    return dict(view.record)


def texts_of(view: CorpusView) -> dict[str, str]:
    """The texts that the requests of a recorded run bring, by their paths, from the copies that the store keeps."""
    told = next(one for one in _record(view)["nodes"].values() if one["name"] == SETS)
    copies = {part.hash: part for part in map(part_from_json, told["config_files"])}
    paths = [path for request in requests_of(view) for path in request.texts]
    parts = [copies[digest] for digest in told["identity"]["config"]["texts"]]
    return {
        path: bytes(memoryview(view.store.get_part(part))).decode("utf-8-sig")
        for path, part in zip(paths, parts, strict=True)
    }


@dataclass(frozen=True)
class TakenDocument:
    """A document that a request would take down."""

    place: DocumentLocation
    url: str | None
    request: str
    named_by: str
    copy_of: str | None = None
    similarity: float | None = None


@dataclass(frozen=True)
class Idle:
    """What a request names, and nothing is."""

    request: str
    kind: str
    item: str
    is_short: bool = False
    """A text that has too few words to be looked for inside of documents."""


@dataclass(frozen=True)
class TakedownMatches:
    """What requests find in a corpus."""

    answers: list[TakenDocument]
    """What they name, and what is kept that is a copy of it."""
    idle: list[Idle]
    sets: pa.Table
    """The shingles of what is named, and of the texts that are brought (SCHEMA_OF_SETS)."""


def would_go(
    view: CorpusView,
    requests: Sequence[Request],
    texts: Mapping[str, str],
    near: float,
    note: Callable[[str], None] = lambda _: None,
) -> TakedownMatches:
    """What requests find, by the indexes; `texts` are those that they bring, by their paths."""
    asked: dict[str, dict[str, str]] = {}
    for request in requests:
        for kind, item in request.items():
            asked.setdefault(kind, {}).setdefault(item, request.id)
    questions: dict[str, Any] = {question: list(asked[kind]) for kind, question in _QUESTIONS.items() if kind in asked}
    kinds = {question: kind for kind, question in _QUESTIONS.items()}
    found: dict[str, TakenDocument] = {}
    hit: set[tuple[str, str]] = set()
    for place in find(view, **questions, dropped=True, note=note) if questions else ():
        kind = kinds[place.by]
        hit.add((kind, place.asked))
        if not place.is_kept and _value(view, place, place.document.part, "drop") in NO_DOCUMENT:
            continue  # the request for a page has its URL, too
        if place.doc_id.hex() not in found:
            answer = TakenDocument(place, _url(view, place), asked[kind][place.asked], kind)
            found[place.doc_id.hex()] = answer
    named = [(answer, text) for answer in found.values() for text in _first_and_last(view, answer.place)]
    table = _table(named, [(asked["texts"][path], text) for path, text in texts.items()])
    sets = make_sets(table)
    paths = list(texts)
    cut: list[int] = []

    def match(column: pa.Array) -> Iterator[Hit]:
        copies, some = copies_of(column, sets, near)
        cut.extend(some)
        yield from ((copy.row, str(copy.owner), copy.similarity(sets)) for copy in copies)

    looked_for = None if paths else list(dict.fromkeys(text for _, text in named))
    places = find_copies(view, looked_for, match, note) if len(table) else []
    for place in places:
        copy = int(place.asked)
        original = sets.doc_ids[copy]
        if original is None:
            hit.add(("texts", paths[copy - len(named)]))
        if place.doc_id.hex() not in found:
            kind, of = ("texts", None) if original is None else ("copy", original.hex())
            answer = TakenDocument(place, _url(view, place), sets.requests[copy], kind, of, place.similarity)
            found[place.doc_id.hex()] = answer
    if cut:
        note(f"{in_part(len(cut))}.")
    short = {path for number, path in enumerate(paths) if sets.sizes[len(named) + number] < FEWEST}
    idle = [
        Idle(request, kind, item, kind == "texts" and item in short)
        for kind, items in asked.items()
        for item, request in items.items()
        if (kind, item) not in hit
    ]
    return TakedownMatches(list(found.values()), idle, table)


def read_texts(requests: Sequence[Request], folder: str) -> dict[str, str]:
    """The texts that requests bring, by their paths below a folder."""
    found = {}
    for request in requests:
        for path in request.texts:
            try:
                found[path] = Path(folder, path).read_bytes().decode("utf-8-sig")
            except (OSError, ValueError) as error:
                told = f"{path}: a text of {request.id} cannot be read: {error}. Correct the path."
                raise UserError(told) from None
    return found


def _table(named: Sequence[tuple[TakenDocument, str]], texts: Sequence[tuple[str, str]]) -> pa.Table:
    ends, values = shingles_of(pa.array([text for _, text in (*named, *texts)], pa.string()))
    return pa.Table.from_arrays(
        [
            pa.array([answer.place.doc_id for answer, _ in named] + [None] * len(texts), pa.binary(16)),
            pa.array([*(answer.request for answer, _ in named), *(request for request, _ in texts)], pa.string()),
            pa.ListArray.from_arrays(pa.array(ends.astype(np.int32)), pa.array(values, pa.uint64())),
        ],
        schema=SCHEMA_OF_SETS,
    )


def _url(view: CorpusView, place: DocumentLocation) -> str | None:
    """Where it was published, unless that is withheld."""
    is_shown = list_of(view, place.document, place.row) is None
    url: str | None = _value(view, place, place.document.part, "url") if is_shown else None
    return url


def text_of(view: CorpusView, place: DocumentLocation) -> str | None:
    """The text of a document as the last step that saw it left it."""
    return _text(view, place, reversed(text_layers(view, place.document)))


def _first_and_last(view: CorpusView, place: DocumentLocation) -> list[str]:
    """The text as it was read, where that is another one, and as the last step that saw it left it."""
    first, last = _text(view, place, text_layers(view, place.document)) or "", text_of(view, place) or ""
    return [last] if first == last else [last, first]


def _text(view: CorpusView, place: DocumentLocation, layers: Iterable[Part]) -> str | None:
    """That of the first of the layers that has one."""
    return next((text for part in layers if (text := _value(view, place, part, "text")) is not None), None)


def _value(view: CorpusView, place: DocumentLocation, part: Part, column: str) -> Any:
    row = place.row
    for group, rows in enumerate(_reader(view.store, part).groups):
        if row < rows:
            return _group(view.store, part, group, column)[row].as_py()
        row -= rows
    raise IndexError(place.row)


@lru_cache(maxsize=8)
def _reader(store: Store, part: Part) -> PartReader:
    return PartReader(store, part)


@lru_cache(maxsize=8)
def _group(store: Store, part: Part, group: int, column: str) -> pa.ChunkedArray:
    """Documents that are named are often neighbours, and a row group is read as a whole."""
    return _reader(store, part).read_group(group, [column])[column]
