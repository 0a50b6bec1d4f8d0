"""Documents with their fields, texts and verdicts, from the layers of a corpus."""

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import orjson

from gristmill.engine.plan.graph import CORPUS, Node, drops
from gristmill.engine.schedule.corpus_view import CorpusView, DocumentPart
from gristmill.errors import UserError
from gristmill.hints import option
from gristmill.query.documents.columns import COLUMNS as COLUMNS
from gristmill.query.documents.columns import REWRITTEN
from gristmill.query.documents.cut_pieces import cut_again, replaced_in
from gristmill.query.documents.draw import Rows, draw_rows
from gristmill.query.documents.layers import DocumentLayers
from gristmill.query.lineage import evidence
from gristmill.query.lineage.evidence import Flag, ParentEvidence
from gristmill.query.takedown import withheld
from gristmill.recipe.checks.columns import INGEST
from gristmill.recipe.checks.mistakes import nearest
from gristmill.stages import LANGUAGE as LANGUAGE
from gristmill.stages import NO_DOCUMENT
from gristmill.stages.derived import PARENT_TEXT


@dataclass(frozen=True)
class Row:
    """One document after a step."""

    fields: dict[str, Any]
    step: str | None
    """The first step that dropped the document."""
    reason: str | None
    detail: str | None
    text: str | None
    columns: dict[str, Any]
    """The output columns of the step."""
    unjudged: tuple[str, ...] = ()
    """Steps that could drop it but have not processed it with the current recipe, so that its fate is unknown."""
    pieces: tuple[tuple[str, str | None], ...] = ()
    """If requested, the text including its cuts, in pieces; each with the step that cut it, or None."""
    withheld: str | None = None
    """Why only id, source and verdict are shown (`withheld.py`)."""
    flags: tuple[Flag, ...] = ()
    """If requested, the eval items that it contains."""
    parents: tuple[ParentEvidence, ...] = ()
    """If requested, what it says that its parent does not."""

    def unless_hidden(self, other: CorpusView) -> "Row":
        """The document, without its content if another version withholds it."""
        why = withheld.hidden_ids(other).get(self.fields["doc_id"].hex())
        return self if why is None else self.without_content(why)

    def without_content(self, why: str) -> "Row":
        """The same document with only its id, its source and its verdict."""
        fields = {name: self.fields[name] if name in withheld.SHOWN else None for name in (*COLUMNS, LANGUAGE)}
        verdict = (self.step, self.reason, withheld.withheld_note(why))
        return Row({**fields, "locator": withheld.NOWHERE}, *verdict, None, {}, self.unjudged, withheld=why)


@dataclass(frozen=True)
class _Wanted:
    """The conditions for a document; None for no condition."""

    dropped: bool | None
    by: Collection[str] | None
    """One of these steps dropped it."""
    reason: str | None
    records: bool
    """Whether records that are not documents are included."""
    url: str | None
    doc_id: str | None
    grep: re.Pattern[str] | None
    flagged: bool
    """Whether it must have evidence."""


def find_step(view: CorpusView, stage: str | None) -> str | None:
    """Check the name of a step. Raises UserError if it does not exist."""
    if stage is None or stage == INGEST:
        return stage
    known = sorted({name for node in view.nodes.values() for name in (node.id, node.name) if node.has_layers})
    if stage not in known:
        near = nearest(stage, known)
        hint = f"Did you mean {near}? " if near else ""
        raise UserError(f"{option('stage', stage)}: {view.label} has no such step. {hint}Steps: {', '.join(known)}")
    return stage


def rows(
    view: CorpusView,
    stage: str | None,
    dropped: bool | None,
    reason: str | None,
    sources: Sequence[str] = (),
    *,
    records: bool = True,
    url: str | None = None,
    doc_id: str | None = None,
    grep: re.Pattern[str] | None = None,
    cuts: bool = False,
    flagged: bool = False,
    skip: int = 0,
    number: int | None = None,
) -> Iterator[Row]:
    """Documents after a step, of the sources that have the step: all (None), those that it dropped (True; without a
    step: that any step dropped), or those that are still kept (False).

    Without `records`, records that are not documents (requests) are left out. `url` is a substring of the URL, `doc_id`
    a hexadecimal prefix, and `grep` must match the text. With `cuts`, a row includes the cut passages. With `flagged`,
    only documents with items of an eval suite, or with something that their parent does not say, are returned. With
    `number`, so many are drawn (`draw.py`), after the first `skip`; they come in the order of the corpus.
    """
    wanted = _Wanted(dropped, _named(view, stage), reason, records, url, doc_id, grep, flagged)
    passing = sources_with(view, stage, sources)
    documents = [document for source in passing for document in view.documents.get(source, ())]

    def matching(document: DocumentPart, chosen: Rows | None) -> Iterator[_LazyRow]:
        return (found for found in _rows_of_part(view, document, stage, chosen) if found.is_wanted(wanted))

    if number is None or (skip == 0 and number >= sum(document.part.rows for document in documents)):
        places: Iterable[tuple[DocumentPart, Rows | None]] = ((document, None) for document in documents)
    else:
        places = draw_rows(documents, lambda *some: [found.number for found in matching(*some)], skip, number)
    for document, chosen in places:
        for found in matching(document, chosen):
            yield found.whole(cuts, flagged)


def _named(view: CorpusView, stage: str | None) -> Collection[str] | None:
    """The steps with that id or name, as they appear in verdicts; None for any step."""
    if stage is None or stage.rpartition("/")[2] == CORPUS:
        return None
    if stage.rpartition("/")[2] == INGEST:
        return {INGEST}
    return {node.id for node in view.nodes.values() if stage in (node.id, node.name)}


def sources_with(view: CorpusView, stage: str | None, sources: Sequence[str] = ()) -> list[str]:
    """The sources that have a step, among these or among all."""
    return [
        source
        for source in view.chains
        if (not sources or source in sources)
        and (
            stage in (None, INGEST, CORPUS, f"{source}/{INGEST}")
            or any(stage in (node_id, view.nodes[node_id].name) for node_id in view.chains[source])
        )
    ]


def count_unjudged(view: CorpusView, stage: str | None, sources: Sequence[str]) -> int:
    """The number of documents that no step has dropped so far and that some step has not processed."""
    return sum(
        found.step is None and bool(found.part.unjudged)
        for source in sources_with(view, stage, sources)
        for document in view.documents.get(source, ())
        for found in _rows_of_part(view, document, stage)
    )


def row_at(view: CorpusView, document: DocumentPart, row: int, stage: str | None = None) -> Row:
    """One row of a part, by its number, after a step or after the last one."""
    return rows_at(view, [(document, row)], stage)[0]


def rows_at(
    view: CorpusView, places: Sequence[tuple[DocumentPart, int]], stage: str | None = None, cuts: bool = False
) -> list[Row]:
    """Rows by their part and number, in this order. Each part is opened once. With `cuts`, they include the cuts."""
    found: dict[tuple[DocumentPart, int], Row] = {}
    parts: dict[DocumentPart, _JudgedLayers] = {}
    for document, row in sorted(places, key=lambda place: (place[0].source, place[0].order, place[1])):
        if document not in parts:
            parts[document] = _JudgedLayers(view, document, stage)
        part = parts[document]
        found[document, row] = _LazyRow(part, *part.place(row), part.dropped_by(row), row).whole(cuts)
    return [found[place] for place in places]


def unfinished(view: CorpusView, stage: str | None) -> list[str]:
    """The unfinished steps up to `stage`, including all steps that withhold documents."""
    wanted = {f"{source}/{INGEST}" for source in sources_with(view, stage)}
    for source in sources_with(view, stage):
        wanted.update(_chain(view, source, stage), withheld.withholding(view, source))
    return [node_id for node_id in view.unfinished() if node_id in wanted]


def reaches_evidence(view: CorpusView, stage: str | None) -> bool:
    """Whether a step that writes evidence runs up to this step."""
    ids = evidence.ids_with_evidence(view) | evidence.departures_of(view).keys()
    return any(not ids.isdisjoint(_chain(view, source, stage)) for source in sources_with(view, stage))


def _chain(view: CorpusView, source: str, stage: str | None) -> list[str]:
    nodes = [view.nodes[node_id] for node_id in view.chains[source]]
    layers = [node for node in nodes if node.has_layers and node.name != CORPUS]
    if stage is None or stage == CORPUS:
        return [node.id for node in layers]
    if stage == INGEST:
        return []
    last = [index for index, node in enumerate(layers) if stage in (node.id, node.name)]
    return [node.id for node in layers[: last[-1] + 1]] if last else []


class _JudgedLayers(DocumentLayers):
    """The layers of a document part up to a step."""

    def __init__(self, view: CorpusView, document: DocumentPart, stage: str | None) -> None:
        chain = _chain(view, document.source, stage)
        super().__init__(view, document, chain)
        self._view = view
        absent = [view.nodes[step] for step in chain if not view.has_layer(step, document)]
        self.unjudged = tuple(node.id for node in absent if not isinstance(node, Node) or drops(node))
        """Steps that could drop its documents and have no layer for it yet."""
        self._marks = withheld.Withheld(view, document)
        ids = evidence.ids_with_evidence(view)
        self.with_evidence = [layer for layer in self if layer in ids]
        self._withheld: tuple[int, Any] = (-1, None)

    @cached_property
    def departures(self) -> dict[str, str]:
        """The steps that compare documents with their parents: the column of each with what is new."""
        return {layer: column for layer, column in evidence.departures_of(self._view).items() if layer in [*self]}

    def withheld(self, group: int) -> Any:
        """For each row of a group, why it is withheld, or None."""
        if self._withheld[0] != group:
            self._withheld = (group, self._marks.in_group(group, self.groups[group]).to_pylist())
        return self._withheld[1]


@dataclass(frozen=True)
class _LazyRow:
    """A row of which only the verdicts have been read."""

    part: _JudgedLayers
    group: int
    row: int
    step: str | None
    """The first layer that dropped the row."""
    number: int
    """Its row in the part."""

    @property
    def reason(self) -> str | None:
        return None if self.step is None else self._get(self.step, "drop")

    def is_wanted(self, wanted: _Wanted) -> bool:
        """Check the cheap conditions first: the text is read only if all others hold."""
        if wanted.dropped is not None and (self.step is not None) != wanted.dropped:
            return False
        if wanted.dropped is False and self.part.unjudged:
            return False
        if wanted.dropped and wanted.by is not None and self.step not in wanted.by:
            return False
        if not wanted.records and self.reason in NO_DOCUMENT:
            return False
        if wanted.reason is not None and self.reason != wanted.reason:
            return False
        if wanted.doc_id is not None and not self._get(INGEST, "doc_id").hex().startswith(wanted.doc_id):
            return False
        if (wanted.url is not None or wanted.grep is not None) and self.withheld is not None:
            return False  # a match would reveal withheld content
        if wanted.url is not None and wanted.url not in (self._get(INGEST, "url") or ""):
            return False
        if wanted.flagged and not (
            any(self._get(layer, evidence.COLUMN) for layer in self.part.with_evidence)
            or any(self._get(*departures) for departures in self.part.departures.items())
        ):
            return False
        return wanted.grep is None or wanted.grep.search(self._text() or "") is not None

    @property
    def withheld(self) -> str | None:
        """Why the row is withheld, or None."""
        why: str | None = self.part.withheld(self.group)[self.row]
        return why

    def whole(self, cuts: bool = False, flagged: bool = False) -> Row:
        if (listed := self.withheld) is not None:
            shown = {name: self._get(INGEST, name) for name in withheld.SHOWN}
            return Row(shown, self.step, self.reason, None, None, {}, self.part.unjudged).without_content(listed)
        *_, last = self.part
        own = self.part.columns(last) if last != INGEST else ()
        fields = {name: self._newest(name) if name in REWRITTEN else self._get(INGEST, name) for name in COLUMNS}
        return Row(
            {**fields, "language": self._language()},
            self.step,
            self.reason,
            None if self.step is None else self._get(self.step, "detail"),
            self._text(),
            {name: self._get(last, name) for name in own if name not in ("text", "text_bytes", "drop", "detail")},
            self.part.unjudged,
            tuple(self._pieces()) if cuts else (),
            flags=tuple(self._flags()) if flagged else (),
            parents=tuple(self._parents()) if flagged else (),
        )

    def _newest(self, name: str) -> Any:
        layers = [layer for layer in self.part if self.part.has(layer, name)]
        return next((value for layer in reversed(layers) if (value := self._get(layer, name)) is not None), None)

    def _language(self) -> str | None:
        """The measured language; `language_hint` has the one that the input states."""
        for layer in reversed([*self.part]):
            if layer.rsplit("/", 1)[-1] == LANGUAGE and self.part.has(layer, "label"):
                label: str | None = self._get(layer, "label")
                return label
        return None

    def _pieces(self) -> list[tuple[str, str | None]]:
        """The last text before all cuts, in pieces: those that remain, and those that a step cut."""
        pieces: list[tuple[bytes, str | None]] = []
        for layer in self.part:
            if not self.part.has(layer, "text") or (text := self._get(layer, "text")) is None:
                continue
            spans = self._get(layer, "cut_spans") if self.part.has(layer, "cut_spans") else None
            replaced = self._get(layer, "replaced_spans") if self.part.has(layer, "replaced_spans") else None
            if pieces and spans is not None:
                pieces = cut_again(pieces, spans, layer)
            elif pieces and replaced is not None:
                written = self._get(layer, "replacement_spans")
                new = [text.encode()[start:stop] for start, stop in zip(written[::2], written[1::2], strict=True)]
                pieces = replaced_in(cut_again(pieces, replaced, layer), replaced, new, layer)
            else:
                pieces = [(text.encode(), None)]
        return [(piece.decode("utf-8", "replace"), step) for piece, step in pieces]

    def _flags(self) -> Iterator[Flag]:
        for layer in self.part.with_evidence:
            if found := self._get(layer, evidence.COLUMN):
                yield from evidence.flags_of(layer, found, (self._text(layer) or "").encode())

    def _parents(self) -> Iterator[ParentEvidence]:
        for layer, column in self.part.departures.items():
            parent = self._newest(PARENT_TEXT)
            if parent is None and (meta := self._get(INGEST, "meta")):
                parent = orjson.loads(meta).get(PARENT_TEXT)
            found = self._get(layer, column)
            if one := evidence.parent_evidence(layer, column, found, self._text(layer) or "", parent):
                yield one

    def _get(self, layer: str, name: str) -> Any:
        return self.part.column(layer, name, self.group)[self.row].as_py()

    def _text(self, before: str | None = None) -> str | None:
        """The text of the last layer with one, among all or those before one; the markup if nothing was extracted."""
        layers = [*self.part]
        for layer in reversed(layers if before is None else layers[: layers.index(before)]):
            for name in ("text", "html") if layer == INGEST else ("text",):
                if self.part.has(layer, name) and (text := self._get(layer, name)) is not None:
                    return str(text)
        return None


def _rows_of_part(
    view: CorpusView, document: DocumentPart, stage: str | None, chosen: Rows | None = None
) -> Iterator[_LazyRow]:
    """All rows of a part, or the chosen ones, ascending."""
    part, first = _JudgedLayers(view, document, stage), 0
    for group, rows_in_group in enumerate(part.groups):
        within: Sequence[int] = range(rows_in_group)
        if chosen is not None:
            start, stop = np.searchsorted(chosen, (first, first + rows_in_group))
            within = (chosen[start:stop] - first).tolist()
        layers = tuple(part) if within else ()
        dropped = {layer: part.column(layer, "drop", group).is_valid().to_pylist() for layer in layers}
        for row in within:
            step = next((layer for layer, drops in dropped.items() if drops[row]), None)
            yield _LazyRow(part, group, row, step, first + row)
        first += rows_in_group
