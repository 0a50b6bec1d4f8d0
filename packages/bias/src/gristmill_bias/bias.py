"""Compares the documents that a step kept with those that it removed, by groups.

Verdicts are columns, so this works for every step that drops documents. There are two passes: one over verdicts,
sizes, URLs and labels of all documents; one over the texts of at most `texts` of them, those with the smallest hashes
of their ids, so that the same corpus gives the same sample however it is split into parts. Texts are as the step got
them.

Withheld documents (`withheld.py`) are counted by verdict; their texts are not read.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gristmill.counted import counted
from gristmill.engine.plan.graph import CORPUS
from gristmill.engine.schedule.corpus_view import CorpusView, DocumentPart
from gristmill.engine.schedule.progress import Track, untracked
from gristmill.errors import UserError
from gristmill.hints import hint, option
from gristmill.query.documents.columns import columns_of, origin_of
from gristmill.query.documents.documents import LANGUAGE
from gristmill.query.removal.audit import OPENING_BYTES, passages
from gristmill.query.removal.funnel import funnels
from gristmill.query.takedown import withheld
from gristmill.recipe.checks.columns import INGEST
from gristmill.recipe.checks.mistakes import suggest
from gristmill.stages.buffers import one_chunk
from gristmill.stages.dedup.substring_blocks import document_hashes, units
from gristmill.store.parquet import join, open_parts
from gristmill_bias.edge import Drawn, Edge, EdgeDocument
from gristmill_bias.groups import BUCKETS, NONE, BiasGroup, GroupRows, GroupTally, Lengths, merge_note
from gristmill_bias.register import register_of
from gristmill_bias.term_groups import TermGroups

By = Literal["language", "source", "domain", "length", "register", "snapshot"]
ALL = get_args(By)
TERMS = "terms"
OF_TEXTS = ("register", TERMS)
"""Kinds of groups that need the texts."""
MANY = 30
"""Documents from which on a group is mentioned although its interval is wide."""
Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Question:
    """The options of a comparison."""

    step: str
    by: tuple[str, ...] | None = None
    """Kinds of groups; None: all."""
    score: str | None = None
    """The column that defines the edge; None: the step's own rank or score."""
    edge: int = 0
    """Documents to show on each side of the cutoff."""
    terms: TermGroups | None = None
    texts: int = 20_000


@dataclass
class BiasReport:
    """What a step kept and removed, by groups."""

    step: str
    sources: tuple[str, ...]
    whole: BiasGroup
    groups: list[BiasGroup]
    texts: int
    """Documents whose texts were read."""
    edge: list[EdgeDocument]
    scores: tuple[str, ...]
    """Score columns; the first defines the edge. Empty: both sides are sampled by hash."""
    notes: list[str] = field(default_factory=list)

    @property
    def few_hosts(self) -> list[BiasGroup]:
        """Groups with less than half of the overall share, but too few hosts to generalize."""
        half = self.whole.documents.value / 2
        low = [group for group in self.groups if group.documents.all >= MANY and group.documents.value < half]
        return [group for group in low if group.under_half(self.whole) is None]

    @property
    def under_half(self) -> list[tuple[BiasGroup, str]]:
        """Groups with clearly less than half of the overall share, each with its measure."""
        found = [(group, group.under_half(self.whole)) for group in self.groups]
        return [(group, measure) for group, measure in found if measure is not None]


@dataclass(frozen=True)
class _Route:
    """The steps that have the columns of a source."""

    judges: tuple[str, ...]
    """The ids of the step."""
    reached: tuple[str, ...]
    """The step and all later ones: documents that one of them dropped first, or that none did, reached the step."""
    text: str
    language: str | None
    scores: Mapping[str, tuple[str, str]]

    def layers(self) -> list[str]:
        more = [
            self.text,
            *([] if self.language is None else [self.language]),
            *(one for one, _ in self.scores.values()),
        ]
        return list(dict.fromkeys([INGEST, *more]))


def compare(view: CorpusView, question: Question, track: Track = untracked) -> BiasReport:
    """The report of a finished corpus (`opening.check_finished`)."""
    names = _score_names(view, question)
    routes = {source: _route(view, source, question.step, names) for source in _sources(view, question.step)}
    counts = _Counts(view, question, routes, names)
    documents = [document for source in routes for document in view.documents.get(source, ())]
    for document in track("parts", documents, len(documents)):
        counts.add(document)
    whole = next(iter(counts.whole.groups()), None)
    _check_both_sides(view, question.step, whole)
    assert whole is not None
    texts = counts.read_texts(track)
    groups, notes = counts.groups()
    return BiasReport(question.step, tuple(routes), whole, groups, texts, counts.shown, names, notes)


def _sources(view: CorpusView, step: str) -> list[str]:
    """Sources that pass the step. An unknown step is refused, with the steps that removed documents."""
    dropping = list(dict.fromkeys(one for funnel in funnels(view).values() for one in funnel["first"] if one != INGEST))
    plain = dict.fromkeys(view.nodes[one].name for one in dropping)
    judges = [node for node in view.nodes.values() if step in (node.id, node.name) and node.has_layers]
    judges = [node for node in judges if node.name not in (INGEST, CORPUS)]
    if not judges:
        raise UserError(
            f"{option('step', step)}: {view.label} has no such step, so there is nothing to compare. "
            f"{suggest(step, [*plain, *dropping], 'Steps that removed documents')}"
        )
    if not {node.id for node in judges} & {*dropping}:
        raise UserError(
            f"{option('step', step)} removed no document of {view.label}, so there is nothing to compare. "
            f"Steps that removed documents: {', '.join(plain) or 'none'}."
        )
    ids = {node.id for node in judges}
    return [source for source, chain in view.chains.items() if ids & {*chain} and view.documents.get(source)]


def _check_both_sides(view: CorpusView, step: str, whole: BiasGroup | None) -> None:
    if whole is None or not whole.documents.kept:
        came = counted(0 if whole is None else whole.documents.all, "document")
        raise UserError(
            f"{option('step', step)} kept none of the {came} of {view.label} that reached it, so there is "
            f"nothing to compare. Relax it and run again; {hint('funnel')} shows what each step dropped."
        )


def _route(view: CorpusView, source: str, step: str, scores: Sequence[str]) -> _Route:
    chain = [view.nodes[one] for one in view.chains[source] if view.nodes[one].has_layers]
    judges = [node.id for node in chain if step in (node.id, node.name)]
    first = [node.id for node in chain].index(judges[0])
    text = [node.id for node in chain[:first] if "text" in node.columns]
    label = [node.id for node in chain if node.name == LANGUAGE and "label" in node.columns]
    origins = {name: origin_of(view, source, name, None).layers for name in scores}
    return _Route(
        tuple(judges),
        tuple(node.id for node in chain[first:]),
        text[-1] if text else INGEST,
        label[-1] if label else None,
        {name: found[0] for name, found in origins.items() if found},
    )


def _score_names(view: CorpusView, question: Question) -> tuple[str, ...]:
    """The score columns; the first one defines the edge."""
    if question.score is not None:
        known = columns_of(view)
        if question.score not in known:
            raise UserError(
                f"{option('score', question.score)}: {view.label} has no such column, so it has no edge. "
                f"{suggest(question.score, [name for name in known if '.' in name], 'Columns of its steps')}"
            )
        return (question.score,)
    own = {name for node in view.nodes.values() if question.step in (node.id, node.name) for name in node.columns}
    return tuple(f"{question.step}.{name}" for name in ("rank", "score") if name in own)


class _Counts:
    """The tallies of a comparison, and the locations of the texts to read."""

    def __init__(
        self, view: CorpusView, question: Question, routes: Mapping[str, _Route], scores: tuple[str, ...]
    ) -> None:
        self._view, self._question, self._routes, self._scores = view, question, routes, scores
        self.whole = GroupTally("all")
        kinds = ALL if question.by is None else question.by
        self._tallies: dict[str, GroupTally] = {by: Lengths(by) if by == "length" else GroupTally(by) for by in kinds}
        if question.terms is not None:
            self._tallies[TERMS] = GroupTally(TERMS)
            no_rows = GroupRows(np.empty(0, np.bool_), np.empty(0, np.int64), np.empty(0, np.int64))
            for name in question.terms.lists:
                self._tallies[TERMS].add(name, no_rows)
        self._of_texts = bool({*OF_TEXTS} & {*self._tallies})
        self._drawn = Drawn(question.texts if self._of_texts else 0)
        self._edge = Edge(question.edge)
        self._documents: list[DocumentPart] = []
        self._hidden = self._unscored = 0
        self.shown: list[EdgeDocument] = []

    def add(self, document: DocumentPart) -> None:
        """Count the verdicts of a part."""
        route, view = self._routes[document.source], self._view
        marks, number = withheld.Withheld(view, document), len(self._documents)
        self._documents.append(document)
        first = 0
        for group, batch in enumerate(self._batches(document, route)):
            step = batch["step"]
            came = pc.or_(step.is_null(), pc.is_in(step, pa.array(route.reached, pa.string())))
            hidden = marks.in_group(group, batch.num_rows).is_valid().filter(came).to_numpy(zero_copy_only=False)
            places = first + np.flatnonzero(came.to_numpy(zero_copy_only=False))
            first += batch.num_rows
            batch = batch.filter(came)
            if not batch.num_rows:
                continue
            kept = pc.invert(pc.is_in(batch["step"], pa.array(route.judges, pa.string())))
            rows = GroupRows(
                kept.to_numpy(zero_copy_only=False),
                batch["text_bytes"].fill_null(0).to_numpy(),
                (units(batch, "host") % np.uint64(BUCKETS)).astype(np.int64),
            )
            self._count(document, batch, rows)
            self._hidden += int(hidden.sum())
            readable, ranks = ~hidden, document_hashes(batch)
            self._drawn.add(ranks[readable], number, places[readable], rows.take(readable))
            scores = self._score(batch)
            self._unscored += int(np.isnan(scores[readable]).sum())
            self._edge.add(scores[readable], rows.kept[readable], ranks[readable], number, places[readable])

    def _batches(self, document: DocumentPart, route: _Route) -> Iterator[pa.RecordBatch]:
        last, layers = f"{document.source}/{CORPUS}", route.layers()
        columns = [(INGEST, name, name) for name in ("doc_id", "url", "snapshot")]
        columns += [(last, "step", "step"), (route.text, "text_bytes", "text_bytes")]
        if route.language is not None:
            columns.append((route.language, "label", LANGUAGE))
        columns += [(layer, column, name) for name, (layer, column) in route.scores.items()][:1]
        readers = open_parts(self._view.store, self._parts(document, [*layers, last]))
        yield from join(readers, [([*layers, last].index(layer), column, name) for layer, column, name in columns])

    def _parts(self, document: DocumentPart, layers: Sequence[str]) -> list[Any]:
        return [self._view.layer(one, document) for one in layers]

    def _count(self, document: DocumentPart, batch: pa.RecordBatch, rows: GroupRows) -> None:
        self.whole.add("all", rows)
        for by, tally in self._tallies.items():
            if by == "source":
                tally.add(document.source, rows)
            elif by == "domain":
                tally.add(self._view.domains.get(document.source), rows)
            elif isinstance(tally, Lengths):
                tally.add_sizes(rows)
            elif by in (LANGUAGE, "snapshot"):
                nothing = pa.nulls(batch.num_rows, pa.string())
                tally.add_column(batch[by] if by in batch.schema.names else nothing, rows)

    def _score(self, batch: pa.RecordBatch) -> Array:
        """The score that defines the edge. Without one, all documents are equal and their hashes decide."""
        if not self._scores:
            return np.zeros(batch.num_rows)
        if self._scores[0] not in batch.schema.names:
            return np.full(batch.num_rows, np.nan)
        column = batch[self._scores[0]]
        if not (pa.types.is_floating(column.type) or pa.types.is_integer(column.type)):
            raise UserError(
                f"{option('score', self._scores[0])} has {column.type}, not numbers, so no document is closer to a "
                "cutoff than another. Name a column of numbers."
            )
        return np.asarray(column.cast(pa.float64()).fill_null(np.nan).to_numpy(zero_copy_only=False))

    def read_texts(self, track: Track) -> int:
        """The second pass: registers, terms, and the documents at the edge. Returns the number of sampled texts."""
        drawn = self._drawn.by_part()
        sides = self._edge.sides() if self._question.edge else {}
        order = {place: (kept, at) for kept, places in sides.items() for at, place in enumerate(places)}
        edge: dict[int, set[int]] = {}
        for part, row in order:
            edge.setdefault(part, set()).add(row)
        shown: dict[tuple[bool, int], EdgeDocument] = {}
        numbers = {id(document): number for number, document in enumerate(self._documents)}
        wanted = [document for number, document in enumerate(self._documents) if number in drawn or number in edge]
        for document in track("parts", wanted, len(wanted)):
            number = numbers[id(document)]
            for first, row_count, read in self._groups(document):
                own = drawn.get(number)
                if own is not None and len(inside := np.flatnonzero((own[0] >= first) & (own[0] < first + row_count))):
                    self._count_texts(read(own[0][inside] - first)["text"], own[1].take(inside))
                rows = sorted(row for row in edge.get(number, ()) if first <= row < first + row_count)
                if rows:
                    table = read(np.array(rows) - first)
                    for at, row in enumerate(rows):
                        kept, place = order[number, row]
                        shown[not kept, place] = self._document(document, kept, {n: table[n][at] for n in table})
        self.shown = [shown[key] for key in sorted(shown)]
        return self._drawn.size

    def _groups(self, document: DocumentPart) -> Iterator[tuple[int, int, Callable[[Array], dict[str, pa.Array]]]]:
        """Row groups of a part: the first row, the count, and a function that reads rows relative to the first."""
        route, last = self._routes[document.source], f"{document.source}/{CORPUS}"
        layers = [*route.layers(), last]
        readers = dict(zip(layers, open_parts(self._view.store, self._parts(document, layers)), strict=True))
        columns = [(INGEST, name, name) for name in ("doc_id", "url", "locator")] + [(last, "drop", "drop")]
        columns += [(layer, column, name) for name, (layer, column) in route.scores.items()]
        columns += [] if route.language is None else [(route.language, "label", LANGUAGE)]
        first = 0
        for group, rows in enumerate(readers[INGEST].groups):

            def read(places: Array, group: int = group) -> dict[str, pa.Array]:
                def one(layer: str, column: str) -> pa.Array:
                    return one_chunk(readers[layer].read_group(group, [column])[column]).take(pa.array(places))

                text = one(route.text, "text")
                if route.text == INGEST and text.null_count:
                    text = pc.coalesce(text, one(INGEST, "html"))  # a page before extraction
                return {"text": text, **{name: one(layer, column) for layer, column, name in columns}}

            yield first, rows, read
            first += rows

    def _count_texts(self, texts: pa.Array, rows: GroupRows) -> None:
        if "register" in self._tallies:
            registers = [register_of(text or "") for text in texts.to_pylist()]
            self._tallies["register"].add_column(pa.array(registers, pa.string()), rows)
        if self._question.terms is not None:
            for name, belongs in self._question.terms.find(texts).items():
                self._tallies[TERMS].add(name, rows.take(belongs))

    def _document(self, document: DocumentPart, kept: bool, row: Mapping[str, Any]) -> EdgeDocument:
        text = row["text"].as_py() or ""
        data = text.encode()
        (opening,) = passages(data[: OPENING_BYTES + 4], ())
        label = row.get(LANGUAGE)
        return EdgeDocument(
            "kept" if kept else "removed",
            {name: row[name].as_py() if name in row else None for name in self._scores},
            row["doc_id"].as_py().hex(),
            document.source,
            row["url"].as_py(),
            row["locator"].as_py(),
            None if label is None else label.as_py(),
            register_of(text),
            None if kept else row["drop"].as_py(),
            len(data),
            "".join(piece for piece, _ in opening.pieces),
        )

    def groups(self) -> tuple[list[BiasGroup], list[str]]:
        """All groups, and notes about them. Kinds with fewer than two groups are only shown on request."""
        found: list[BiasGroup] = []
        notes = merge_note([*self._tallies.values()])
        idle = []
        for by, tally in self._tallies.items():
            groups = tally.groups()
            if self._question.by is not None or by == TERMS or len(groups) > 1:
                found += groups
            if by in self._tallies and [group.name for group in groups] == [NONE]:
                idle.append(by)
            elif by == TERMS:
                empty = [group.name for group in groups if not group.documents.all]
                notes += [f"No text in the sample has enough terms of: {', '.join(empty)}."] if empty else []
        if idle:
            notes.append(f"Not known for these documents: {', '.join(idle)}{_why(idle)}.")
        if self._hidden:
            hidden = counted(self._hidden, "document is", "documents are")
            notes.append(f"{hidden} withheld and not read: on a list of digests, or not checked yet.")
        if self._unscored and self._question.edge:
            notes.append(
                f"{counted(self._unscored, 'document has', 'documents have')} no {self._scores[0]}: not at the edge."
            )
        notes += [] if self._question.terms is None else self._question.terms.notes
        return found, notes


def _why(idle: Sequence[str]) -> str:
    reasons = {
        LANGUAGE: "add the step `language`",
        "snapshot": "set it in the sources",
        "domain": "set it in the sources",
    }
    known = [f"{by}: {reasons[by]}" for by in idle if by in reasons]
    return f" ({'; '.join(known)})" if known else ""
