"""Finding documents of a corpus: by id, by address, by the hash of a text, by a text.

    doc_id        in hexadecimal, or how it begins
    url           in whatever spelling (`stages/dedup/url_parts.py`, with the fields that it has by default)
    url_prefix    how an address begins; http and https are one, the host is whole and in any case of letters
    domain        a host, and all below it
    content_hash  SHA-256 of the UTF-8 of a text, as the last step left it
    text          a quotation; to the byte, or documents that have at least half of its shingles

Ids and addresses are those of every document, kept or dropped; texts are those of the documents that are kept, and with
`dropped` also the last texts that others had. An index
(`index: true` in the recipe) says which rows may answer, and those are compared with what was asked. Without one, or
for what it cannot tell, the column that a question is about is read of every part, and that is said.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gristmill.counted import counted
from gristmill.engine.plan.graph import CORPUS
from gristmill.engine.schedule.corpus_view import CorpusView, Document
from gristmill.errors import UserError
from gristmill.query.documents.candidates import CorpusIndex, Rows, has_index
from gristmill.recipe.checks.mistakes import listed
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
class DocumentLocation:
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
    view: CorpusView,
    *,
    doc_id: Asked = None,
    url: Asked = None,
    url_prefix: Asked = None,
    domain: Asked = None,
    content_hash: Asked = None,
    text: Asked = None,
    sources: Sequence[str] = (),
    dropped: bool = False,
    note: Callable[[str], None] = lambda _: None,
) -> list[DocumentLocation]:
    """The documents of a corpus that answer one of the questions, in its order; the best answers of a text first.

    All questions are answered in one go. A document that answers several has a place for each. `note` hears what had
    to be read as there is no index.
    """
    asked = {
        "doc_id": [one.lower() for one in _listed(doc_id)],
        "url": _listed(url),
        "url_prefix": _listed(url_prefix),
        "domain": _listed(domain),
        "content_hash": [one.lower() for one in _listed(content_hash)],
        "text": _listed(text),
    }
    questions = [_Question(kind, values) for kind, values in asked.items() if values]
    if not questions:
        raise UserError("Nothing was asked for, so nothing was looked for.")
    wanted = [source for source in view.chains if not sources or source in sources]
    work, read = _work(view, wanted, questions)
    if read:
        note(_told(view, read))
    found = [place for document, todo in work.items() for place in _answers(view, document, todo)]
    scans = {TEXT: "of a short quotation it may know none"}
    if dropped:
        scans["content_hash"] = "it does not know documents that were dropped"
    for kind, why in scans.items():
        missed = [one for one in asked[kind] if not any(place.asked == one and place.by == kind for place in found)]
        has_read = read if kind == TEXT else {}  # only what is kept
        unread = [source for source in wanted if missed and source not in has_read and view.documents.get(source)]
        if unread:
            these = "these texts" if missed[1:] else "this text"
            note(f"The index knows no document with {these}, so all texts are read: {why}.")
            scan: Todo = [(_Question(kind, missed, dropped=dropped), None)]
            found += [
                place for source in unread for one in view.documents[source] for place in _answers(view, one, scan)
            ]
    return sorted(found, key=lambda place: place.by == TEXT and (place.similarity is not None, -_share(place)))


def find_copies(
    view: CorpusView, texts: Sequence[str] | None, match: Match, note: Callable[[str], None] = lambda _: None
) -> list[DocumentLocation]:
    """The kept documents that `match` finds among those that may be near copies of texts (None: among all)."""
    work, read = _work(view, list(view.chains), [_Question("copy", texts, match)])
    if read:
        note(_told(view, read, "Texts of requests may be anywhere inside of documents"))
    return [place for document, todo in work.items() for place in _answers(view, document, todo)]


def _share(place: DocumentLocation) -> float:
    return 1.0 if place.similarity is None else place.similarity


def _listed(asked: Asked) -> list[str]:
    return [] if asked is None else [asked] if isinstance(asked, str) else list(asked)


class _Question:
    """What is asked of one kind, and what finds it in a column."""

    def __init__(
        self, kind: str, asked: Sequence[str] | None, match: Match | None = None, dropped: bool = False
    ) -> None:
        self.kind, self.asked, self.dropped = kind, asked, dropped
        self.column = KINDS[kind][0] if match is None else TEXT
        self.match = match or KINDS[kind][1](asked or ())


Todo = list[tuple[_Question, Rows | None]]
"""Questions to a part, each to some of its rows or to all."""


def _work(
    view: CorpusView, sources: Sequence[str], questions: Sequence[_Question]
) -> tuple[dict[Document, Todo], dict[str, list[str]]]:
    """What to ask of which part; and of each source the columns that have to be read as a whole."""
    work: dict[Document, Todo] = {document: [] for source in sources for document in view.documents.get(source, ())}
    read: dict[str, list[str]] = {}
    for source in sources:
        index = CorpusIndex(view, source) if has_index(view, source) else None
        for question in questions:
            may = None if index is None else index.candidates(question.kind, question.asked)
            if may is None and view.documents.get(source):
                read.setdefault(source, []).append(question.column)
            for document in view.documents.get(source, ()) if may is None else may:
                work[document].append((question, None if may is None else may[document]))
    return {document: todo for document, todo in work.items() if todo}, read


def _told(
    view: CorpusView, read: Mapping[str, Sequence[str]], why: str = "The index has no key for domains so far up"
) -> str:
    parts = sum(len(view.documents[source]) for source in read)
    columns = sorted({column for some in read.values() for column in some})
    without = [source for source in read if not has_index(view, source)]
    why = f"No index of {listed(without, 5)}" if without else why
    return f"{why}: {' and '.join(columns)} of {counted(parts, 'part')} {'is' if not columns[1:] else 'are'} read."


def _answers(view: CorpusView, document: Document, todo: Todo) -> Iterator[DocumentLocation]:
    """What the rows of a part answer, row group by row group; no group is read that has none of them."""
    columns = PartReader(view.store, document.part)
    asks_texts = any(question.column == TEXT for question, _ in todo)
    texts = [PartReader(view.store, part) for part in text_layers(view, document)] if asks_texts else []

    def column_of(question: _Question, group: int) -> list[pa.Array]:
        """The column that a question is about; of copies and of dropped documents also the texts as they were read."""
        if question.column != TEXT:
            return [columns.read_group(group, [question.column])[question.column].combine_chunks()]
        of_all = question.dropped or question.kind == "copy"
        layers = [one.read_group(group, [TEXT])[TEXT].combine_chunks() for one in (texts if of_all else texts[-1:])]
        last = pc.coalesce(*reversed(layers))
        return [last, pc.coalesce(*layers)] if of_all and layers[1:] else [last]

    verdicts = PartReader(view.store, _corpus(view, document))
    first_row = 0
    for group, rows in enumerate(columns.groups):
        kept = verdicts.read_group(group, ["drop"])["drop"].combine_chunks().is_null().to_numpy(zero_copy_only=False)
        hits = []
        for question, some in todo:
            here = _within(some, first_row, rows)
            if question.column == TEXT and not question.dropped:
                here = here[kept[here]]
            for column in column_of(question, group) if len(here) else ():
                answered = []
                for place, asked, similarity in question.match(column.take(pa.array(here))):
                    hits.append((int(here[place]), question.kind, asked, similarity))
                    answered.append(place)
                here = np.delete(here, answered) if question.column == TEXT else here
        if hits:
            ids = columns.read_group(group, ["doc_id"])["doc_id"]
            for row, kind, asked, similarity in sorted(hits, key=lambda hit: hit[0]):
                yield DocumentLocation(
                    document, first_row + row, ids[row].as_py(), bool(kept[row]), kind, asked, similarity
                )
        first_row += rows


def _within(some: Rows | None, first_row: int, rows: int) -> Rows:
    """Those of a row group, counted from its beginning; `some` is sorted."""
    if some is None:
        return np.arange(rows)
    low, high = np.searchsorted(some, [first_row, first_row + rows])
    return some[low:high] - first_row


def text_layers(view: CorpusView, document: Document) -> list[Part]:
    """All that have texts of a part, as they were read first and as the last step left them last. A step that sees only
    what is kept has no text of other documents.
    """
    chain = [view.nodes[node_id] for node_id in view.chains[document.source]]
    with_text = [node.id for node in chain if TEXT in node.columns and node.has_layers]
    return [document.part, *(_layer(view, document, node_id) for node_id in with_text)]


def _corpus(view: CorpusView, document: Document) -> Part:
    return _layer(view, document, f"{document.source}/{CORPUS}")


def _layer(view: CorpusView, document: Document, node_id: str) -> Part:
    made = view.states[node_id].layers
    if (document.source, document.order) not in made:
        raise UserError(
            f"{node_id} has not run over all documents of {view.label}, so it is not known what is in the corpus. "
            f"{view.to_finish}"
        )
    return made[document.source, document.order][0]
