"""The documents that takedown requests match in a run, and copies of these documents."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from gristmill.engine.schedule.corpus_view import CorpusView, DocumentPart
from gristmill.engine.work.task import part_from_json
from gristmill.errors import UserError
from gristmill.places import must_be_file
from gristmill.query.documents.derived import derived_sources
from gristmill.query.documents.layers import DocumentLayers
from gristmill.query.documents.lookup import RowMatch, find, find_children, find_copies, text_layers
from gristmill.query.takedown.withheld import list_of
from gristmill.stages import INGEST, NO_DOCUMENT, TAKEDOWN, TAKEDOWN_MATCH, TAKEDOWN_SETS
from gristmill.stages.derived import TAKEN_DOWN
from gristmill.stages.matches import Hit, shingles_of
from gristmill.stages.takedown.requests import Request, read_all
from gristmill.stages.takedown.takedown import copies_of, in_part, make_sets
from gristmill.stages.takedown.takedown_sets import FEWEST, SCHEMA_OF_SETS
from gristmill.store.parquet import PartReader

_KINDS = {
    "urls": "url",
    "url_prefixes": "url_prefix",
    "domains": "domain",
    "files": "file",
    "doc_ids": "doc_id",
    "content_hashes": "content_hash",
}
"""Kind of request item -> kind of query."""


def requests_of(view: CorpusView) -> tuple[Request, ...]:
    """The requests of a recorded run, from the copies in its store."""
    node = next((one for one in _record(view)["nodes"].values() if one["name"] == TAKEDOWN_MATCH), None)
    if node is None:
        raise UserError(f"{view.label} was run without takedowns:, so it has no requests. Add them to its recipe.")
    copies = {part.hash: part for part in map(part_from_json, node["config_files"])}
    config = node["identity"]["config"]
    paths = [str(view.store.local_path(copies[digest])) for digest in config["requests"]]
    return read_all(paths, config["names"])


def fields_of(view: CorpusView) -> dict[str, Any]:
    """The settings `near` and `copies` of that run."""
    node = next(one for one in _record(view)["nodes"].values() if one["name"] == TAKEDOWN)
    return dict(node["identity"]["config"])


def _record(view: CorpusView) -> dict[str, Any]:
    assert view.record is not None
    return dict(view.record)


def texts_of(view: CorpusView) -> dict[str, str]:
    """The texts in the requests of a recorded run, by path, from the copies in its store."""
    node = next(one for one in _record(view)["nodes"].values() if one["name"] == TAKEDOWN_SETS)
    copies = {part.hash: part for part in map(part_from_json, node["config_files"])}
    paths = [path for request in requests_of(view) for path in request.texts]
    parts = [copies[digest] for digest in node["identity"]["config"]["texts"]]
    return {
        path: bytes(memoryview(view.store.get_part(part))).decode("utf-8-sig")
        for path, part in zip(paths, parts, strict=True)
    }


@dataclass(frozen=True)
class TakenDocument:
    """A document that a request would take down."""

    place: RowMatch
    url: str | None
    locator: str | None
    request: str
    named_by: str
    copy_of: str | None = None
    similarity: float | None = None
    parent: str | None = None
    """The document that it was made from, if it goes because of that one."""


@dataclass(frozen=True)
class UnmatchedItem:
    """An item of a request that matches no document."""

    request: str
    kind: str
    item: str
    is_short: bool = False
    """Whether it is a text with too few words to be searched inside documents."""


@dataclass(frozen=True)
class TakedownMatches:
    """The matches of requests in a corpus."""

    answers: list[TakenDocument]
    """The documents that they name, and kept copies of these."""
    idle: list[UnmatchedItem]
    sets: pa.Table
    """The shingles of the named documents and of the texts in requests (SCHEMA_OF_SETS)."""


def find_matches(
    view: CorpusView,
    requests: Sequence[Request],
    texts: Mapping[str, str],
    near: float,
    note: Callable[[str], None] = lambda _: None,
) -> TakedownMatches:
    """Find the matches of requests with the indexes; `texts` has the texts in requests, by path."""
    by_kind: dict[str, dict[str, str]] = {}
    for request in requests:
        for kind, item in request.items():
            by_kind.setdefault(kind, {}).setdefault(item, request.id)
    queries: dict[str, Any] = {query: list(by_kind[kind]) for kind, query in _KINDS.items() if kind in by_kind}
    kinds = {query: kind for kind, query in _KINDS.items()}
    found: dict[str, TakenDocument] = {}
    hit: set[tuple[str, str]] = set()
    for place in find(view, **queries, dropped=True, note=note) if queries else ():
        kind = kinds[place.by]
        hit.add((kind, place.query))
        if not place.is_kept and _layers(view, place.document).value(INGEST, "drop", place.row) in NO_DOCUMENT:
            continue  # an HTTP request record has the URL of its page
        if place.doc_id.hex() not in found:
            answer = TakenDocument(place, *_names(view, place), by_kind[kind][place.query], kind)
            found[place.doc_id.hex()] = answer
    named = [(answer, text) for answer in found.values() for text in _first_and_last(view, answer.place)]
    table = _table(named, [(by_kind["texts"][path], text) for path, text in texts.items()])
    sets = make_sets(table)
    paths = list(texts)
    cut: list[int] = []

    def match(column: pa.Array) -> Iterator[Hit]:
        copies, some = copies_of(column, sets, near)
        cut.extend(some)
        yield from ((copy.row, str(copy.owner), copy.similarity(sets)) for copy in copies)

    wanted_texts = None if paths else list(dict.fromkeys(text for _, text in named))
    places = find_copies(view, wanted_texts, match, note) if len(table) else []
    for place in places:
        copy = int(place.query)
        original = sets.doc_ids[copy]
        if original is None:
            hit.add(("texts", paths[copy - len(named)]))
        if place.doc_id.hex() not in found:
            kind, of = ("texts", None) if original is None else ("copy", original.hex())
            answer = TakenDocument(place, *_names(view, place), sets.requests[copy], kind, of, place.similarity)
            found[place.doc_id.hex()] = answer
    for place in _threads(view, list(found.values())):
        url, locator = _names(view, place)
        named_post = replace(found[place.query], place=place, url=url, locator=locator, named_by="post")
        found.setdefault(place.doc_id.hex(), named_post)
    for place in find_children(view, list(found)):
        parent = found[place.query]
        if place.doc_id.hex() not in found:
            found[place.doc_id.hex()] = replace(
                parent, place=place, url=None, locator=None, named_by="parent", parent=place.query
            )
    if cut:
        note(f"{in_part(len(cut))}.")
    short = {path for number, path in enumerate(paths) if sets.sizes[len(named) + number] < FEWEST}
    idle = [
        UnmatchedItem(request, kind, item, kind == "texts" and item in short)
        for kind, items in by_kind.items()
        for item, request in items.items()
        if (kind, item) not in hit
    ]
    return TakedownMatches(list(found.values()), idle, table)


def _threads(view: CorpusView, named: Sequence[TakenDocument]) -> Iterator[RowMatch]:
    """The documents into which named posts were joined; the query of a match is the id of the post."""
    heads: dict[str, str] = {}
    for answer in named:
        chain = view.chains[answer.place.document.source]
        if joins := [step for step in chain if step.rpartition("/")[2] == "thread_places"]:
            layers = DocumentLayers(view, answer.place.document, joins)
            for layer in joins:
                if layer in layers and (head := layers.value(layer, "head", answer.place.row)):
                    heads.setdefault(head.hex(), answer.place.doc_id.hex())
    for place in find(view, doc_id=list(heads)) if heads else ():
        yield replace(place, query=heads[place.doc_id.hex()])


def unsent_in(view: CorpusView) -> Iterator[dict[str, str]]:
    """The children that derived sources do not have, because their parents were not sent: id, source, parent and
    the request that names the parent.
    """
    for source in derived_sources(view):
        for document in view.documents[source]:
            for row in PartReader(view.store, document.part).read(["doc_id", "parent", "drop", "detail"]).to_pylist():
                if row["drop"] == TAKEN_DOWN:
                    ids = {name: row[name].hex() for name in ("doc_id", "parent")}
                    yield {**ids, "source": source, "request": row["detail"]}


def read_texts(requests: Sequence[Request], folder: str) -> dict[str, str]:
    """The texts in requests, by path relative to a folder."""
    found = {}
    for request in requests:
        for path in request.texts:
            try:
                must_be_file(str(Path(folder, path)))
                found[path] = Path(folder, path).read_bytes().decode("utf-8-sig")
            except (OSError, ValueError) as error:
                message = f"{path}: a text of {request.id} cannot be read: {error}. Correct the path."
                raise UserError(message) from None
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


def _names(view: CorpusView, place: RowMatch) -> tuple[str | None, str | None]:
    """The URL and the locator, unless they are withheld."""
    if list_of(view, place.document, place.row) is not None:
        return None, None
    layers = _layers(view, place.document)
    return layers.value(INGEST, "url", place.row), layers.value(INGEST, "locator", place.row)


def text_of(view: CorpusView, place: RowMatch) -> str | None:
    """The last text of a document: the output of the last step that processed it."""
    return _text(view, place, reversed(text_layers(view, place.document)))


@lru_cache(maxsize=1)
def _layers(view: CorpusView, document: DocumentPart) -> DocumentLayers:
    """Cached, because matching documents come part by part."""
    return DocumentLayers(view, document)


def _first_and_last(view: CorpusView, place: RowMatch) -> list[str]:
    """The last text of a document, and the original one if it differs."""
    first, last = _text(view, place, text_layers(view, place.document)) or "", text_of(view, place) or ""
    return [last] if first == last else [last, first]


def _text(view: CorpusView, place: RowMatch, steps: Iterable[str]) -> str | None:
    """The text in the first of the layers that has one."""
    layers = _layers(view, place.document)
    return next((text for one in steps if (text := layers.value(one, "text", place.row)) is not None), None)
