"""Finding documents of a corpus: by id, by address, by the hash of a text, by a text.

    doc_id        in hexadecimal, or how it begins
    url           in whatever spelling (`stages/dedup/url_parts.py`, with the fields that it has by default)
    url_prefix    how an address begins; http and https are one, the host is whole and in any case of letters
    domain        a host, and all below it
    content_hash  SHA-256 of the UTF-8 of a text, as the last step left it
    text          a quotation; to the byte, or documents that have at least half of its shingles

Ids and addresses are those of every document, kept or dropped; texts are those of the documents that are kept. Columns
are read that a question is about, and texts for none but questions about texts.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from gristmill.engine.plan.graph import CORPUS
from gristmill.engine.schedule.seen import Document, Seen
from gristmill.errors import UserError
from gristmill.stages.matches import (
    Match,
    match_domains,
    match_hashes,
    match_ids,
    match_prefixes,
    match_texts,
    match_urls,
)
from gristmill.store.parquet import PartReader
from gristmill.store.store import Part

TEXT = "text"
KINDS: dict[str, tuple[str, Callable[[Sequence[str]], Match]]] = {
    "doc_id": ("doc_id", match_ids),
    "url": ("url", match_urls),
    "url_prefix": ("url", match_prefixes),
    "domain": ("url", match_domains),
    "content_hash": (TEXT, match_hashes),
    "text": (TEXT, match_texts),
}
"""Kind of question -> the column that it is about, and what compares."""
Asked = str | Iterable[str] | None


@dataclass(frozen=True)
class Place:
    """A document that answers a question."""

    document: Document
    """The part that it is in."""
    row: int
    """Of the part."""
    doc_id: bytes
    is_kept: bool
    """Whether it is in the corpus."""
    by: str
    """The kind of question."""
    asked: str
    """What was asked."""
    similarity: float | None = None
    """Of a text that is only like the one that was asked for: the share of its shingles; None: exactly that."""


def find(
    seen: Seen,
    *,
    doc_id: Asked = None,
    url: Asked = None,
    url_prefix: Asked = None,
    domain: Asked = None,
    content_hash: Asked = None,
    text: Asked = None,
    sources: Sequence[str] = (),
) -> list[Place]:
    """The documents of a corpus that answer one of the questions, in its order; the best answers of a text first.

    All questions are answered in one go. A document that answers several has a place for each.
    """
    asked = {
        "doc_id": [one.lower() for one in _listed(doc_id)],
        "url": _listed(url),
        "url_prefix": _listed(url_prefix),
        "domain": _listed(domain),
        "content_hash": [one.lower() for one in _listed(content_hash)],
        "text": _listed(text),
    }
    questions = [_Question(kind, *KINDS[kind], values) for kind, values in asked.items() if values]
    if not questions:
        raise UserError("Nothing was asked for, so nothing was looked for.")
    found: list[Place] = []
    for source in seen.chains:
        for document in seen.documents.get(source, ()) if not sources or source in sources else ():
            found += _scan(seen, document, questions)
    return sorted(found, key=lambda place: place.by == "text" and (place.similarity is not None, -_share(place)))


def _share(place: Place) -> float:
    return 1.0 if place.similarity is None else place.similarity


def _listed(asked: Asked) -> list[str]:
    return [] if asked is None else [asked] if isinstance(asked, str) else list(asked)


class _Question:
    """What is asked of one kind, and what finds it in a column."""

    def __init__(self, kind: str, column: str, make: Callable[[Sequence[str]], Match], asked: Sequence[str]) -> None:
        self.kind, self.column = kind, column
        self.match = make(asked)


def _scan(seen: Seen, document: Document, questions: Sequence[_Question]) -> Iterator[Place]:
    """The answers of a part, row group by row group."""
    columns = PartReader(seen.store, document.part, in_stretches=True)
    asks_texts = any(question.column == TEXT for question in questions)
    texts = PartReader(seen.store, text_layer(seen, document), in_stretches=True) if asks_texts else columns
    verdicts = PartReader(seen.store, _corpus(seen, document), in_stretches=True)
    first_row = 0
    for group, rows in enumerate(columns.groups):
        kept = verdicts.read_group(group, ["drop"])["drop"].combine_chunks().is_null().to_numpy(zero_copy_only=False)
        hits = []
        for question in questions:
            reader = texts if question.column == TEXT else columns
            column = reader.read_group(group, [question.column])[question.column].combine_chunks()
            for row, asked, similarity in question.match(column):
                if question.column != TEXT or kept[row]:
                    hits.append((row, question.kind, asked, similarity))
        if hits:
            ids = columns.read_group(group, ["doc_id"])["doc_id"]
            for row, kind, asked, similarity in sorted(hits, key=lambda hit: hit[0]):
                here = (document, first_row + row, ids[row].as_py(), bool(kept[row]))
                yield Place(*here, kind, asked, similarity)
        first_row += rows


def text_layer(seen: Seen, document: Document) -> Part:
    """The layer that has the texts of a part as the last step left them."""
    part = document.part
    for node_id in seen.chains[document.source]:
        if TEXT in seen.nodes[node_id].columns and seen.nodes[node_id].has_layers:
            part = _layer(seen, document, node_id)
    return part


def _corpus(seen: Seen, document: Document) -> Part:
    return _layer(seen, document, f"{document.source}/{CORPUS}")


def _layer(seen: Seen, document: Document, node_id: str) -> Part:
    made = seen.made[node_id].layers
    if (document.source, document.order) not in made:
        raise UserError(
            f"{node_id} has not run over all documents of {seen.told}, so it is not known what is in the corpus. "
            f"{seen.to_finish}"
        )
    return made[document.source, document.order][0]
