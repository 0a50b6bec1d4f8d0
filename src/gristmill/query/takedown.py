"""What became of the requests of a takedown: the documents that they name, and their copies, as a run left them."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from gristmill.engine.plan.graph import CORPUS
from gristmill.engine.schedule.seen import Document, Seen
from gristmill.engine.work.task import part_from_json
from gristmill.errors import UserError
from gristmill.query.lookup import Place, find, text_layer
from gristmill.recipe.takedowns import MATCH, SETS, TAKEDOWN
from gristmill.stages.matches import content_hash, shingles_of
from gristmill.stages.takedown.requests import Request, read_requests
from gristmill.stages.takedown.takedown import Sets, copies_of, make_sets
from gristmill.stages.takedown.takedown_sets import SCHEMA_OF_SETS
from gristmill.store.parquet import PartReader

_QUESTIONS = {
    "urls": "url",
    "url_prefixes": "url_prefix",
    "domains": "domain",
    "doc_ids": "doc_id",
    "content_hashes": "content_hash",
}
"""Kind of item of a request -> kind of question."""


@dataclass(frozen=True)
class Named:
    """A document that a request names, or a copy of one."""

    doc_id: str
    request: str
    named_by: str
    """urls, domains, ...; `copy` of another document, or `texts` of the request."""
    copy_of: str | None
    similarity: float | None
    source: str
    url: str | None
    locator: str
    verdict: str | None
    """Step and reason for which it is not in the corpus; None: it is."""
    content_hash: str | None
    """Of its text as the last step left it."""


def is_taken(named: Named) -> bool:
    """Whether the takedown itself took it; others went before."""
    return named.verdict is not None and named.verdict.startswith(f"all/{TAKEDOWN}:")


def named_in(seen: Seen) -> list[Named]:
    """Of a run with takedowns, in the order of the corpus."""
    found: list[Named] = []
    for source, chain in seen.chains.items():
        nodes = {seen.nodes[node_id].name: node_id for node_id in chain}
        if TAKEDOWN not in nodes:
            raise UserError(
                f"{seen.told} was run without takedowns: in its recipe, so there is nothing to look at. Add takedowns: "
                "FILE to it, and run it."
            )
        for document in seen.documents.get(source, ()):
            found += _named_in_part(seen, document, nodes)
    return found


def _named_in_part(seen: Seen, document: Document, nodes: dict[str, str]) -> Iterator[Named]:
    match = _read(seen, document, nodes[MATCH], ["request", "named_by"])
    judged = _read(seen, document, nodes[TAKEDOWN], ["request", "copy_of", "similarity"])
    rows = np.flatnonzero(
        pc.or_(match["request"].is_valid(), judged["request"].is_valid()).to_numpy(zero_copy_only=False)
    )
    if not len(rows):
        return
    verdicts = _read(seen, document, nodes[CORPUS], ["step", "drop"])
    about = PartReader(seen.store, document.part).read(["doc_id", "url", "locator"])
    texts = PartReader(seen.store, text_layer(seen, document)).read(["text"])["text"]
    for row in rows.tolist():
        request, kind = match["request"][row].as_py(), match["named_by"][row].as_py()
        copy_of, text = judged["copy_of"][row].as_py(), texts[row].as_py()
        if request is None:
            request, kind = judged["request"][row].as_py(), "texts" if copy_of is None else "copy"
        step, reason = verdicts["step"][row].as_py(), verdicts["drop"][row].as_py()
        yield Named(
            about["doc_id"][row].as_py().hex(),
            request,
            kind,
            None if copy_of is None or kind != "copy" else copy_of.hex(),
            judged["similarity"][row].as_py(),
            document.source,
            about["url"][row].as_py(),
            about["locator"][row].as_py(),
            None if reason is None else f"{step}: {reason}",
            None if text is None else content_hash(text),
        )


def _read(seen: Seen, document: Document, node_id: str, columns: list[str]) -> pa.Table:
    layers = seen.made[node_id].layers
    if (document.source, document.order) not in layers:
        raise UserError(f"{node_id} has not run over all documents of {seen.told}. {seen.to_finish}")
    return PartReader(seen.store, layers[document.source, document.order][0]).read(columns).combine_chunks()


def requests_of(seen: Seen) -> tuple[Request, ...]:
    """The requests that a recorded run worked with, from the copy that the store keeps."""
    told = next((one for one in _record(seen)["nodes"].values() if one["name"] == MATCH), None)
    if told is None:
        raise UserError(f"{seen.told} was run without takedowns:, so no request is known. Add them to its recipe.")
    part = part_from_json(told["config_files"][0])
    name = told["identity"]["config"].get("name") or f"requests.{part.suffix}"
    return read_requests(str(seen.store.local_path(part)), name)


def fields_of(seen: Seen) -> dict[str, Any]:
    """near and copies, as that run had them."""
    told = next(one for one in _record(seen)["nodes"].values() if one["name"] == TAKEDOWN)
    return dict(told["identity"]["config"])


def _record(seen: Seen) -> dict[str, Any]:
    assert seen.record is not None
    return dict(seen.record)


def sets_of(seen: Seen) -> pa.Table:
    """The shingles of what requests name, without the texts."""
    node_id = next(node.id for node in seen.nodes.values() if node.name == SETS)
    part = seen.made[node_id].model
    assert part is not None
    return pq.read_table(seen.store.local_path(part))


# Before a run


@dataclass(frozen=True)
class Answer:
    """A document that a request would take down."""

    place: Place
    request: str
    named_by: str
    copy_of: str | None = None
    similarity: float | None = None


def would_go(seen: Seen, requests: Sequence[Request], folder: str, near: float) -> list[Answer]:
    """What requests name in a corpus, and what is kept there that is a copy of it; by the indexes."""
    asked: dict[str, dict[str, str]] = {}
    for request in requests:
        for kind, item in request.items():
            asked.setdefault(kind, {}).setdefault(item, request.id)
    questions: dict[str, Any] = {question: list(asked[kind]) for kind, question in _QUESTIONS.items() if kind in asked}
    kinds = {question: kind for kind, question in _QUESTIONS.items()}
    found: dict[str, Answer] = {}
    for place in find(seen, **questions) if questions else ():
        kind = kinds[place.by]
        answer = Answer(place, asked[kind][place.asked], kind)
        found.setdefault(place.doc_id.hex(), answer)
    texts = {text: request.id for request in requests for text in _texts(request, folder)}
    named_texts = [text_of(seen, answer.place) or "" for answer in found.values()]
    sets = _sets(list(found.values()), named_texts, texts)
    for place, copy, similarity in _copies(seen, [*named_texts, *texts], sets, near):
        named = sets.doc_ids[copy]
        kind = "texts" if named is None else "copy"
        of = None if named is None else named.hex()
        found.setdefault(place.doc_id.hex(), Answer(place, sets.requests[copy], kind, of, similarity))
    return list(found.values())


def _texts(request: Request, folder: str) -> Iterator[str]:
    for name in request.texts:
        try:
            yield Path(folder, name).read_text("utf-8-sig")
        except (OSError, UnicodeDecodeError) as error:
            raise UserError(f"{name}: a text of {request.id} cannot be read: {error}. Correct the path.") from None


def _sets(named: Sequence[Answer], named_texts: Sequence[str], texts: dict[str, str]) -> Sets:
    ends, values = shingles_of(pa.array([*named_texts, *texts], pa.string()))
    table = pa.Table.from_arrays(
        [
            pa.array([answer.place.doc_id for answer in named] + [None] * len(texts), pa.binary(16)),
            pa.array([*(answer.request for answer in named), *texts.values()], pa.string()),
            pa.ListArray.from_arrays(pa.array(ends.astype(np.int32)), pa.array(values, pa.uint64())),
        ],
        schema=SCHEMA_OF_SETS,
    )
    return make_sets(table)


def _copies(seen: Seen, texts: Sequence[str], sets: Sets, near: float) -> Iterator[tuple[Place, int, float]]:
    """Kept documents that are like one of the sets, and which."""
    asked = [text for text in dict.fromkeys(texts) if text.strip()]
    places = {(place.document.part.hash, place.row): place for place in (find(seen, text=asked) if asked else ())}
    for place in places.values():
        for copy in copies_of(pa.array([text_of(seen, place)], pa.string()), sets, near):
            yield place, copy.owner, copy.similarity(sets)


def text_of(seen: Seen, place: Place) -> str | None:
    """The text of a document as the last step left it."""
    row, reader = place.row, PartReader(seen.store, text_layer(seen, place.document), in_stretches=True)
    for group, rows in enumerate(reader.groups):
        if row < rows:
            text: str | None = reader.read_group(group, ["text"])["text"][row].as_py()
            return text
        row -= rows
    raise IndexError(place.row)
