"""Compare two versions: which documents were added and removed, and the steps that decided it.

Documents with the same id are the same. A document part that both versions share is compared row by row, and skipped if
its verdicts are the same part, too. Other documents are matched by id or, if no ids match because the input files
differ, by URL. Only ids, verdicts and languages are read; texts only for examples.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from gristmill.engine.plan.graph import CORPUS
from gristmill.engine.schedule.corpus_view import CorpusView, DocumentPart
from gristmill.engine.schedule.run import Run
from gristmill.errors import UserError
from gristmill.query.documents.documents import LANGUAGE
from gristmill.query.removal.funnel import funnels
from gristmill.query.sizing.plan import differences, file_changes
from gristmill.stages import INGEST
from gristmill.store.parquet import PartReader

Ints = npt.NDArray[np.int64]
KEPT = 0
ABSENT = "not among its inputs"
NO_LABEL = "-"
_SPREAD = np.uint64(0x9E3779B97F4A7C15)


@dataclass
class OnlyIn:
    """Documents that are in the corpus of one version, but not of the other."""

    documents: int = 0
    causes: Counter[tuple[str, str, str]] = field(default_factory=Counter)
    """(source, step, reason) why the other version does not have them."""
    languages: Counter[tuple[str, str]] = field(default_factory=Counter)
    """(source, label)."""
    samples: list[tuple[int, DocumentPart, int]] = field(default_factory=list)
    """(pseudo-random number, part, row): the examples with the smallest numbers, so that they come from all parts."""


@dataclass
class Compared:
    """The comparison of one source."""

    read: tuple[int, int]
    kept: tuple[int, int]
    matched_by: str = "doc_id"
    """Or `url`; or `nothing` if neither matches."""
    same_rows: int = 0
    """Rows of shared parts with the same verdicts, which were skipped."""


@dataclass
class DiffResult:
    """The differences between the documents of two versions."""

    sources: dict[str, Compared]
    came: OnlyIn
    went: OnlyIn
    otherwise: Counter[tuple[str, str, str]]
    """(source, cause before, cause now) of documents that both versions drop for different reasons."""


class Causes:
    """Numbers for (step, reason) pairs; KEPT is the number for kept documents."""

    def __init__(self) -> None:
        self.known: list[tuple[str, str]] = [("", "")]
        self._numbers: dict[tuple[str, str], int] = {}

    def number(self, step: str, reason: str) -> int:
        if (step, reason) not in self._numbers:
            self._numbers[step, reason] = len(self.known)
            self.known.append((step, reason))
        return self._numbers[step, reason]

    def of(self, view: CorpusView, document: DocumentPart) -> Ints:
        """The final verdict on every row of a part."""
        table = PartReader(view.store, view.verdicts(document)).read(["step", "drop"])
        step, reason = (table[name].combine_chunks().dictionary_encode() for name in ("step", "drop"))
        steps, reasons = step.dictionary.to_pylist(), reason.dictionary.to_pylist()
        pair = _indices(step) * max(len(reasons), 1) + _indices(reason)
        pair[~reason.is_valid().to_numpy(zero_copy_only=False)] = -1
        found, places = np.unique(pair, return_inverse=True)
        width = max(len(reasons), 1)
        numbers = [
            KEPT if one < 0 else self.number(steps[one // width], reasons[one % width]) for one in found.tolist()
        ]
        codes: Ints = np.array(numbers, np.int64)[places.reshape(-1)]
        return codes


def _indices(encoded: Any) -> Ints:
    found: Ints = encoded.indices.fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)
    return found


def compare_documents(before: CorpusView, now: CorpusView, most_samples: int) -> DiffResult:
    """Compare the documents source by source."""
    for view in (before, now):
        _refuse_without_verdicts(view)
    counts = [funnels(before), funnels(now)]
    names = list(dict.fromkeys((*before.chains, *now.chains)))
    found = DiffResult({}, OnlyIn(), OnlyIn(), Counter())
    for source in names:
        read, kept = (
            tuple(one[source][name]["rows"] if source in one else 0 for one in counts) for name in ("read", "kept")
        )
        compared = found.sources[source] = Compared((read[0], read[1]), (kept[0], kept[1]))
        _Comparison(before, now, source, found, compared, most_samples).go()
    return found


def _refuse_without_verdicts(view: CorpusView) -> None:
    for source in view.chains:
        layers = view.states[f"{source}/{CORPUS}"].layers if f"{source}/{CORPUS}" in view.states else {}
        if any((source, document.order) not in layers for document in view.documents.get(source, ())):
            raise UserError(
                f"{view.label} has no final verdicts for the documents of {source}, so it cannot be compared. "
                "Run its recipe again with this version of Gristmill."
            )


def shared_parts(
    before: CorpusView, now: CorpusView, source: str
) -> Iterator[tuple[DocumentPart | None, DocumentPart | None]]:
    """Pairs of shared document parts of a source; None is for a part that the other version does not have."""
    others = {document.part.hash: document for document in now.documents.get(source, ())}
    for document in before.documents.get(source, ()):
        yield document, others.pop(document.part.hash, None)
    for document in others.values():
        yield None, document


class _Comparison:
    """Compares one source in two versions."""

    def __init__(
        self, before: CorpusView, now: CorpusView, source: str, found: DiffResult, compared: Compared, most_samples: int
    ) -> None:
        self._before, self._now = before, now
        self._source, self._found, self._compared = source, found, compared
        self._most_samples = most_samples
        self._causes = Causes()
        self._absent = self._causes.number(NO_LABEL, ABSENT)
        self._shares_parts = False

    def go(self) -> None:
        alone: tuple[list[DocumentPart], list[DocumentPart]] = ([], [])
        for old, new in shared_parts(self._before, self._now, self._source):
            if old is not None and new is not None:
                self._shares_parts = True
                self._aligned(old, new)
            else:
                alone[0 if new is None else 1].append(old or new)  # type: ignore[arg-type]
        if alone[0] or alone[1]:
            self._match(*alone)

    def _aligned(self, old: DocumentPart, new: DocumentPart) -> None:
        parts = [view.verdicts(one) for view, one in self._both(old, new)]
        if parts[0].hash == parts[1].hash:
            self._compared.same_rows += old.part.rows
            return
        before, after = (self._causes.of(view, one) for view, one in self._both(old, new))
        rows = np.arange(len(before))
        self._take(before, after, _RowNumbers([old], [0], rows), _RowNumbers([new], [0], rows))

    def _both(
        self, old: DocumentPart, new: DocumentPart
    ) -> tuple[tuple[CorpusView, DocumentPart], tuple[CorpusView, DocumentPart]]:
        return (self._before, old), (self._now, new)

    def _match(self, old: Sequence[DocumentPart], new: Sequence[DocumentPart]) -> None:
        """Match the rows of parts that only one version has, by id or else by URL."""
        places = np.full(sum(document.part.rows for document in old), -1, np.int64)
        if old and new:
            places = self._places(old, new, "doc_id")
            if not self._shares_parts and (places < 0).all():
                places = self._places(old, new, "url")
                self._compared.matched_by = "url" if (places >= 0).any() else "nothing"
        before, after = (
            np.concatenate([self._causes.of(view, one) for one in parts] or [np.zeros(0, np.int64)])
            for view, parts in ((self._before, old), (self._now, new))
        )
        at_old, at_new = _RowNumbers.of(old), _RowNumbers.of(new)
        met = np.flatnonzero(places >= 0)
        self._take(before[met], after[places[met]], at_old.only(met), at_new.only(places[met]))
        gone = np.flatnonzero(places < 0)
        self._take(before[gone], np.full(len(gone), self._absent), at_old.only(gone), at_old.only(gone))
        is_new = np.ones(len(after), np.bool_)
        is_new[places[met]] = False
        come = np.flatnonzero(is_new)
        self._take(np.full(len(come), self._absent), after[come], at_new.only(come), at_new.only(come))

    def _places(self, old: Sequence[DocumentPart], new: Sequence[DocumentPart], column: str) -> Ints:
        """For each row of the old parts, its row number in the new parts, or -1."""
        keys = [_column(view, parts, column) for view, parts in ((self._before, old), (self._now, new))]
        found = pc.index_in(keys[0], value_set=keys[1], skip_nulls=True).cast(pa.int64()).fill_null(-1)
        places: Ints = found.to_numpy(zero_copy_only=False)
        return places

    def _take(self, before: Ints, after: Ints, old: "_RowNumbers", new: "_RowNumbers") -> None:
        """Count the differences between two arrays of verdicts on the same documents."""
        came, went = (after == KEPT) & (before != KEPT), (before == KEPT) & (after != KEPT)
        for side, view, chosen, why, rows in (
            (self._found.came, self._now, came, before, new),
            (self._found.went, self._before, went, after, old),
        ):
            at = np.flatnonzero(chosen)
            if len(at):
                self._add(side, view, why[at], rows.only(at))
        both = (before != after) & (before != KEPT) & (after != KEPT)
        both &= (before != self._absent) & (after != self._absent)
        if both.any():
            pairs, counts = np.unique(np.stack([before[both], after[both]]), axis=1, return_counts=True)
            for one, other, count in zip(*pairs.tolist(), counts.tolist(), strict=True):
                old_cause, new_cause = (" ".join(self._causes.known[number]) for number in (one, other))
                self._found.otherwise[self._source, old_cause, new_cause] += count

    def _add(self, side: OnlyIn, view: CorpusView, why: Ints, rows: "_RowNumbers") -> None:
        side.documents += len(why)
        for number, count in zip(*(each.tolist() for each in np.unique(why, return_counts=True)), strict=True):
            side.causes[(self._source, *self._causes.known[number])] += count
        for document, chosen in rows.by_part():
            for label, count in _labels(view, document, chosen).items():
                side.languages[self._source, label] += count
            seed = np.uint64(int(document.part.hash[:16], 16))
            numbers = (chosen.astype(np.uint64) + seed) * _SPREAD
            first = np.argsort(numbers, kind="stable")[: self._most_samples]
            side.samples += [(int(numbers[place]), document, int(chosen[place])) for place in first]
        side.samples = sorted(side.samples, key=lambda one: one[0])[: self._most_samples]


@dataclass(frozen=True)
class _RowNumbers:
    """Row numbers in a list of concatenated parts."""

    parts: Sequence[DocumentPart]
    starts: Sequence[int]
    places: Ints

    @staticmethod
    def of(parts: Sequence[DocumentPart]) -> "_RowNumbers":
        ends = np.cumsum([0, *(document.part.rows for document in parts)])
        return _RowNumbers(parts, ends[:-1].tolist(), np.arange(ends[-1]))

    def only(self, chosen: Ints) -> "_RowNumbers":
        return _RowNumbers(self.parts, self.starts, self.places[chosen])

    def by_part(self) -> Iterator[tuple[DocumentPart, Ints]]:
        """The selected rows of each part."""
        numbers = np.searchsorted(np.array(self.starts), self.places, "right") - 1
        for number in np.unique(numbers).tolist():
            yield self.parts[number], self.places[numbers == number] - self.starts[number]


def _column(view: CorpusView, parts: Sequence[DocumentPart], name: str) -> pa.ChunkedArray:
    """One column of some parts; other columns are not read."""
    tables = [PartReader(view.store, document.part).read([name]) for document in parts]
    return pa.concat_tables(tables)[name]


def _labels(view: CorpusView, document: DocumentPart, rows: Ints) -> Mapping[str, int]:
    """The number of rows in each measured language."""
    for step in reversed(view.chains[document.source]):
        if view.nodes[step].name == LANGUAGE and view.has_layer(step, document):
            reader = PartReader(view.store, view.layer(step, document))
            if "label" in reader.names:
                found = reader.read(["label"])["label"].take(pa.array(rows)).cast(pa.string()).fill_null(NO_LABEL)
                return {one["values"]: one["counts"] for one in pc.value_counts(found).to_pylist()}
    return {NO_LABEL: len(rows)}


def compare_recipes(before: CorpusView, now: CorpusView) -> dict[str, list[str]]:
    """Step -> its changes: fields, VERSION, libraries, code and input files; also steps that are new or gone."""
    nodes = [_nodes(view) for view in (before, now)]
    found: dict[str, list[str]] = {}
    for step in dict.fromkeys((*nodes[0], *nodes[1])):
        if step not in nodes[0] or step not in nodes[1]:
            found[step] = ["is new" if step in nodes[1] else "is gone"]
            continue
        old, new = nodes[0][step], nodes[1][step]
        changes = differences(old["identity"], new["identity"])
        changes += [f"input: {change}" for change in file_changes(old.get("files"), new.get("files", {}))]
        if changes and not step.endswith(f"/{CORPUS}"):  # its config lists the steps, which are reported separately
            found[step] = changes
    return found


def _nodes(view: CorpusView) -> Mapping[str, Mapping[str, Any]]:
    """The identity of each step, and the input files of those that read."""
    if not isinstance(view, Run):
        assert view.record is not None
        nodes: Mapping[str, Mapping[str, Any]] = view.record["nodes"]
        return nodes
    files = {f"{source}/{INGEST}": inputs.record() for source, inputs in view.inputs.items()}
    return {step: {"identity": node.identity, "files": files.get(step, {})} for step, node in view.nodes.items()}
