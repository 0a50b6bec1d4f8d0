"""Find documents of a corpus by id, URL, hash of a text, or text.

    doc_id        in hexadecimal, or its first digits
    url           in any spelling (`stages/dedup/url_parts.py` with its default fields)
    url_prefix    the first part of a URL; http and https are the same, the host must be complete, in any case
    domain        a host and all its subdomains
    file          an input file, as locators show it: all its documents
    content_hash  SHA-256 of the final text in UTF-8
    text          a quotation: exact matches, or documents with at least half of its shingles

Ids and URLs are searched in all documents, kept or dropped. Texts are searched in kept documents; with `dropped`, also
in the last texts of dropped ones. An index (`index: true` in the recipe) gives candidate rows, which are then compared
with the query. Without an index, or for a query that it does not support, the column is read in every part, and a note
says so.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gristmill.counted import counted
from gristmill.engine.plan.graph import CORPUS
from gristmill.engine.schedule.corpus_view import CorpusView, DocumentPart
from gristmill.errors import UserError
from gristmill.query.documents.candidates import CorpusIndex, Rows, has_index
from gristmill.recipe.checks.columns import INGEST
from gristmill.recipe.checks.mistakes import listed
from gristmill.stages.derived import PARENT
from gristmill.stages.matches import (
    Matcher,
    match_domains,
    match_files,
    match_hashes,
    match_ids,
    match_prefixes,
    match_texts,
    match_urls,
)
from gristmill.store.parquet import PartReader

TEXT = "text"
KINDS: dict[str, tuple[str, Callable[[Sequence[str]], Matcher]]] = {
    "doc_id": ("doc_id", match_ids),
    "url": ("url", match_urls),
    "url_prefix": ("url", match_prefixes),
    "domain": ("url", match_domains),
    "file": ("locator", match_files),
    "content_hash": (TEXT, match_hashes),
    "text": (TEXT, match_texts),
    "parent": (PARENT, match_ids),
}
"""Kind of query -> the column that it searches, and its matcher."""
Queries = str | Iterable[str] | None


@dataclass(frozen=True)
class RowMatch:
    """A document that matches a query."""

    document: DocumentPart
    """The part that it is in."""
    row: int
    """The row in the part."""
    doc_id: bytes
    is_kept: bool
    """Whether it is in the corpus."""
    by: str
    """The kind of the query."""
    query: str
    """The matching query."""
    similarity: float | None = None
    """The share of the query's shingles for a similar text; None for an exact match."""


def find(
    view: CorpusView,
    *,
    doc_id: Queries = None,
    url: Queries = None,
    url_prefix: Queries = None,
    domain: Queries = None,
    file: Queries = None,
    content_hash: Queries = None,
    text: Queries = None,
    sources: Sequence[str] = (),
    dropped: bool = False,
    note: Callable[[str], None] = lambda _: None,
) -> list[RowMatch]:
    """The documents of a corpus that match any query, in corpus order; the best matches of a text come first.

    All queries share one pass. A document that matches several has a location for each. `note` is called when columns
    have to be read because there is no index.
    """
    queries = {
        "doc_id": [one.lower() for one in _listed(doc_id)],
        "url": _listed(url),
        "url_prefix": _listed(url_prefix),
        "domain": _listed(domain),
        "file": _listed(file),
        "content_hash": [one.lower() for one in _listed(content_hash)],
        "text": _listed(text),
    }
    questions = [_Question(kind, values) for kind, values in queries.items() if values]
    if not questions:
        raise UserError("No query was given, so nothing was searched.")
    wanted = [source for source in view.chains if not sources or source in sources]
    work, read = _work(view, wanted, questions)
    if read:
        note(_scan_note(view, read))
    found = [place for document, todo in work.items() for place in _answers(view, document, todo)]
    scans = {TEXT: "it may miss short quotations"}
    if dropped:
        scans["content_hash"] = "it does not cover dropped documents"
    for kind, why in scans.items():
        missed = [one for one in queries[kind] if not any(place.query == one and place.by == kind for place in found)]
        has_read = read if kind == TEXT else {}  # only kept documents
        unread = [source for source in wanted if missed and source not in has_read and view.documents.get(source)]
        if unread:
            these = "these texts" if missed[1:] else "this text"
            note(f"The index has no document with {these}, so all texts are read: {why}.")
            scan: Todo = [(_Question(kind, missed, dropped=dropped), None)]
            found += [
                place for source in unread for one in view.documents[source] for place in _answers(view, one, scan)
            ]
    return sorted(found, key=lambda place: place.by == TEXT and (place.similarity is not None, -_share(place)))


def find_copies(
    view: CorpusView, texts: Sequence[str] | None, match: Matcher, note: Callable[[str], None] = lambda _: None
) -> list[RowMatch]:
    """The kept documents that `match` finds among the candidates for near copies of texts (None: among all)."""
    work, read = _work(view, list(view.chains), [_Question("copy", texts, match)])
    if read:
        note(_scan_note(view, read, "The texts of requests can be anywhere inside documents"))
    return [place for document, todo in work.items() for place in _answers(view, document, todo)]


def _share(place: RowMatch) -> float:
    return 1.0 if place.similarity is None else place.similarity


def _listed(queries: Queries) -> list[str]:
    return [] if queries is None else [queries] if isinstance(queries, str) else list(queries)


class _Question:
    """The queries of one kind, and their matcher."""

    def __init__(
        self, kind: str, queries: Sequence[str] | None, match: Matcher | None = None, dropped: bool = False
    ) -> None:
        self.kind, self.queries, self.dropped = kind, queries, dropped
        self.column = KINDS[kind][0] if match is None else TEXT
        self.match = match or KINDS[kind][1](queries or ())


Todo = list[tuple[_Question, Rows | None]]
"""The queries for a part, each for some of its rows or for all (None)."""


def _work(
    view: CorpusView, sources: Sequence[str], questions: Sequence[_Question]
) -> tuple[dict[DocumentPart, Todo], dict[str, list[str]]]:
    """The queries for each part; and for each source, the columns that have to be read completely."""
    work: dict[DocumentPart, Todo] = {document: [] for source in sources for document in view.documents.get(source, ())}
    read: dict[str, list[str]] = {}
    for source in sources:
        index = CorpusIndex(view, source) if has_index(view, source) else None
        for question in questions:
            may = None if index is None else index.candidates(question.kind, question.queries)
            if may is None and view.documents.get(source):
                read.setdefault(source, []).append(question.column)
            for document in view.documents.get(source, ()) if may is None else may:
                work[document].append((question, None if may is None else may[document]))
    return {document: todo for document, todo in work.items() if todo}, read


def find_children(view: CorpusView, parents: Sequence[str]) -> list[RowMatch]:
    """The documents that were made from some documents; the query of a match is the id of its parent."""
    todo: Todo = [(_Question("parent", parents), None)] if parents else []
    derived = [source for source in view.chains if PARENT in view.nodes[f"{source}/{INGEST}"].columns]
    documents = (one for source in derived for one in view.documents.get(source, ()))
    return [place for document in documents if todo for place in _answers(view, document, todo)]


def _scan_note(
    view: CorpusView, read: Mapping[str, Sequence[str]], why: str = "The index has no key for files and broad domains"
) -> str:
    parts = sum(len(view.documents[source]) for source in read)
    columns = sorted({column for some in read.values() for column in some})
    without = [source for source in read if not has_index(view, source)]
    why = f"There is no index for {listed(without, 5)}" if without else why
    return (
        f"{why}: {' and '.join(columns)} of {counted(parts, 'part')} {'is' if not columns[1:] else 'are'} read instead."
    )


def _answers(view: CorpusView, document: DocumentPart, todo: Todo) -> Iterator[RowMatch]:
    """The matching rows of a part. Row groups without a candidate are not read."""
    columns = PartReader(view.store, document.part)
    needs_texts = any(question.column == TEXT for question, _ in todo)
    texts = [PartReader(view.store, view.layer(one, document)) for one in text_layers(view, document) if needs_texts]

    def column_of(question: _Question, group: int) -> list[pa.Array]:
        """The column of a query; for copies and dropped documents, also the original texts."""
        if question.column != TEXT:
            return [columns.read_group(group, [question.column])[question.column].combine_chunks()]
        of_all = question.dropped or question.kind == "copy"
        layers = [one.read_group(group, [TEXT])[TEXT].combine_chunks() for one in (texts if of_all else texts[-1:])]
        last = pc.coalesce(*reversed(layers))
        return [last, pc.coalesce(*layers)] if of_all and layers[1:] else [last]

    _check_layer(view, document, f"{document.source}/{CORPUS}")
    verdicts = PartReader(view.store, view.verdicts(document))
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
                for place, query, similarity in question.match(column.take(pa.array(here))):
                    hits.append((int(here[place]), question.kind, query, similarity))
                    answered.append(place)
                here = np.delete(here, answered) if question.column == TEXT else here
        if hits:
            ids = columns.read_group(group, ["doc_id"])["doc_id"]
            for row, kind, query, similarity in sorted(hits, key=lambda hit: hit[0]):
                yield RowMatch(document, first_row + row, ids[row].as_py(), bool(kept[row]), kind, query, similarity)
        first_row += rows


def _within(some: Rows | None, first_row: int, rows: int) -> Rows:
    """The rows of a row group, relative to its start; `some` is sorted."""
    if some is None:
        return np.arange(rows)
    low, high = np.searchsorted(some, [first_row, first_row + rows])
    return some[low:high] - first_row


def text_layers(view: CorpusView, document: DocumentPart) -> list[str]:
    """All layers with texts of a part, from the original text to the final one; some have only kept documents."""
    chain = [view.nodes[node_id] for node_id in view.chains[document.source]]
    with_text = [node.id for node in chain if TEXT in node.columns and node.has_layers]
    for step in with_text:
        _check_layer(view, document, step)
    return [INGEST, *with_text]


def _check_layer(view: CorpusView, document: DocumentPart, step: str) -> None:
    """Raises UserError if a step has not processed the part."""
    if not view.has_layer(step, document):
        raise UserError(
            f"{step} has not processed all documents of {view.label}, so the content of the corpus is unknown. "
            f"{view.to_finish}"
        )
