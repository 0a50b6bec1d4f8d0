"""Documents as columns of the reader and of any step, joined by position and streamed part by part.

`text` is the final text, `language` the measured label, and `kept`, `step` and `reason` the final verdict.
`STEP.column` is a column of a step, by its id (`web/signals.words`) or by its name in every route (`signals.words`).
Ids are 32 hexadecimal digits, as in all commands.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gristmill.engine.schedule.corpus_view import CorpusView, DocumentPart
from gristmill.errors import UserError
from gristmill.query.documents.derived import birth_columns
from gristmill.query.removal.funnel import funnels
from gristmill.query.takedown import withheld
from gristmill.recipe.checks.mistakes import suggest
from gristmill.stages import CORPUS, INGEST, LANGUAGE, NO_DOCUMENT
from gristmill.stages.derived import BIRTH
from gristmill.store.parquet import PartReader, join, open_parts
from gristmill.store.store import Part

COLUMNS = (
    *("doc_id", "source", "locator", "url", "snapshot", "timestamp", "license"),
    *("title", "language_hint", "content_type", "charset", "meta"),
)
"""Columns of the reader."""
REWRITTEN = ("title", "language_hint", "license")
"""Columns that a later step may overwrite."""
USUAL = (
    *("doc_id", "text", "source", "locator", "url", "title", "language", "language_hint", "license", "timestamp"),
    *("snapshot", "meta"),
)
"""The default columns."""
WRITTEN = ("text", "text_bytes")
"""Columns of every step that changes texts. A kept document has the value of the last such step, a dropped one that of
the last step that processed it; later steps have null for its text and 0 for its bytes.
"""
VERDICT = ("kept", "step", "reason")
SHOWN = (*withheld.SHOWN, *VERDICT)
SHOWN_OF_STEPS = (".drop", f".{withheld.COLUMN}")
"""The columns of withheld documents that are shown, and the ends of their names."""
NAMED = (*COLUMNS, LANGUAGE, *WRITTEN, *VERDICT)
"""All columns without the prefix of a step."""
HIDDEN = "hidden id"
"""The name of the ids in a joined table, if any document is withheld by its id."""
_FINAL = {"kept": "drop", "reason": "drop", "step": "step"}
_HEXADECIMAL = np.frombuffer(b"".join(b"%02x" % byte for byte in range(256)), np.uint16)


@dataclass(frozen=True)
class ColumnOrigin:
    """Where a column of a source comes from."""

    name: str
    layers: tuple[tuple[str, str], ...]
    """(step, column) pairs; the first non-null value counts. Empty if the source has no such column."""
    kind: pa.DataType = None


@dataclass(frozen=True)
class PartRead:
    """What is needed to read columns of a document part."""

    source: str
    parts: tuple[Part, ...]
    columns: tuple[tuple[int, str, str], ...]
    """(part, column, unique name) for `join`; the last ones are the final verdict and the withheld lists."""
    origins: tuple[tuple[ColumnOrigin, tuple[int, ...]], ...]
    """The origins, each with the numbers of its columns."""


class ColumnReader:
    """Reads columns of a corpus. Raises UserError for an unknown column."""

    def __init__(
        self,
        view: CorpusView,
        names: Sequence[str] | None,
        kept: bool | None = True,
        sources: Sequence[str] = (),
        reasons: Sequence[str] = (),
    ) -> None:
        """`kept` selects kept documents (True), dropped ones (False), or both (None). `reasons` selects records that
        were dropped for one of these reasons, regardless of `kept`.
        """
        kept = False if reasons else kept
        self.view, self.kept, self._reasons = view, kept, pa.array(reasons, pa.string())
        names = (*USUAL, *birth_columns(view)) if names is None else names
        _check_sources(view, sources)
        _check_reasons(view, reasons)
        known = columns_of(view)
        for name in names:
            if name not in known:
                raise UserError(f"{view.label} has no column {name}. {suggest(name, known, 'Columns')}")
        if len(set(names)) < len(names) or not names:
            fact = f"Columns are repeated ({', '.join(names)})" if names else "The list of columns is empty"
            raise UserError(f"{fact}, so nothing was read. Name each column once.")
        self._origins = {
            source: _with_types(view, source, [origin_of(view, source, name, kept) for name in names])
            for source in view.chains
            if (not sources or source in sources) and view.documents.get(source)
        }
        self.schema = pa.schema([(name, _one_kind(view, name, self._origins)) for name in names])
        self.parts = [document for source in self._origins for document in view.documents[source]]

    def batches(self) -> Iterator[pa.RecordBatch]:
        """All rows, in the order of sources and parts, with at most one batch per row group."""
        for document in self.parts:
            yield from self.read(document)

    def read(self, document: DocumentPart, rows: tuple[int, int] | None = None) -> Iterator[pa.RecordBatch]:
        """The rows of a part; `rows` limits them to a range of row numbers, which include dropped rows."""
        work = self.work(document)
        first = 0
        for table in join(open_parts(self.view.store, work.parts), work.columns):
            start, stop = (0, table.num_rows) if rows is None else (max(rows[0] - first, 0), rows[1] - first)
            first += table.num_rows
            if start < min(stop, table.num_rows):
                batch = self._batch(work, table.slice(start, stop - start))
                if batch.num_rows:
                    yield batch

    def take(self, document: DocumentPart, rows: Sequence[int]) -> list[pa.RecordBatch]:
        """Some rows of a part in ascending order, with one batch for each row group that has any of them."""
        work = self.work(document)
        readers = open_parts(self.view.store, work.parts)
        found, first = [], 0
        for group, size in enumerate(readers[0].groups):
            wanted = [row - first for row in rows if first <= row < first + size]
            first += size
            if wanted:
                (table,) = join(readers, work.columns, [group])
                found.append(self._batch(work, table.take(pa.array(wanted))))
        return found

    def work(self, document: DocumentPart) -> PartRead:
        """What is needed to read a part."""
        view = self.view
        last = (f"{document.source}/{CORPUS}", "drop")
        origins = self._origins[document.source]
        numbers = {place: n for n, place in enumerate(dict.fromkeys(p for one in origins for p in one.layers))}
        numbers.setdefault(last, len(numbers))
        layers = list(dict.fromkeys(layer for layer, _ in numbers))
        parts = [view.layer(layer, document) for layer in layers]
        columns = [(layers.index(layer), name, str(number)) for (layer, name), number in numbers.items()]
        marks = withheld.marks(view, document)
        hidden = [(len(parts) + len(marks), withheld.DOC_ID, HIDDEN)] if withheld.hidden_ids(view) else []
        return PartRead(
            document.source,
            (*parts, *marks, *([document.part] if hidden else [])),
            (
                *columns,
                (layers.index(last[0]), last[1], "verdict"),
                *((len(parts) + n, withheld.COLUMN, f"{withheld.COLUMN}{n}") for n in range(len(marks))),
                *hidden,
            ),
            tuple((one, tuple(numbers[place] for place in one.layers)) for one in origins),
        )

    def _batch(self, work: PartRead, table: pa.RecordBatch) -> pa.RecordBatch:
        wanted = self.wanted(table.column("verdict"))
        if wanted.false_count or table.column(0).offset:  # a filter also copies a slice
            table = table.filter(wanted)
        arrays = []
        hidden = [table.column(name) for name in table.schema.names if name.startswith(withheld.COLUMN)]
        is_hidden = withheld.first_of(hidden).is_valid() if hidden else pa.array([], pa.bool_())
        if HIDDEN in table.schema.names:
            others = withheld.is_hidden(self.view, table.column(HIDDEN))
            is_hidden = pc.or_(is_hidden, others) if hidden else others
        for field, (origin, numbers) in zip(self.schema, work.origins, strict=True):
            found = [table.column(str(number)) for number in numbers]
            if not found:
                array = pa.nulls(table.num_rows, field.type)
            elif origin.name == "kept":
                array = found[0].is_null()
            elif origin.name in WRITTEN and len(found) > 1:
                has_value = [pc.not_equal(one, 0) if origin.name == "text_bytes" else one.is_valid() for one in found]
                values = [pc.if_else(is_there, one, None) for is_there, one in zip(has_value, found, strict=True)]
                array = pc.if_else(table.column("verdict").is_null(), found[0], pc.coalesce(*values))
            else:
                array = plain(found[0] if len(found) == 1 else pc.coalesce(*found))
            if is_hidden.true_count and not (field.name in SHOWN or field.name.endswith(SHOWN_OF_STEPS)):
                array = pc.if_else(is_hidden, pa.scalar(None, array.type), array)
            arrays.append(array if array.type == field.type else array.cast(field.type))
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)

    def wanted(self, verdict: pa.Array) -> pa.Array:
        """Which rows are selected, by their final verdicts."""
        if self.kept:
            return verdict.is_null()
        if len(self._reasons):
            return pc.is_in(verdict, self._reasons)
        never = pc.is_in(verdict, pa.array(sorted(NO_DOCUMENT)))
        return pc.and_(pc.invert(never), verdict.is_valid()) if self.kept is False else pc.invert(never)


def columns_of(view: CorpusView) -> list[str]:
    """All column names."""
    found = dict.fromkeys((*NAMED, *birth_columns(view)))
    for source in view.chains:
        found.update(dict.fromkeys(f"{INGEST}.{column}" for column in layers_of(view, source)[INGEST]))
    for node in view.nodes.values():
        if node.has_layers and node.name not in (INGEST, CORPUS):
            found.update(dict.fromkeys(f"{name}.{column}" for name in (node.name, node.id) for column in node.columns))
    return list(found)


def number_columns(view: CorpusView) -> list[str]:
    """The columns of steps with one number per document, by the names of the steps in all routes."""
    found: dict[str, pa.DataType] = {}
    mixed = set()
    for node in view.nodes.values():
        layers = view.states[node.id].layers if node.has_layers and node.name not in (INGEST, CORPUS) else {}
        for part, *_ in list(layers.values())[:1]:
            for field in PartReader(view.store, part).schema:
                kind, name = field.type, f"{node.name}.{field.name}"
                is_number = pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind)
                if is_number and not pa.types.is_unsigned_integer(kind) and field.name not in WRITTEN:
                    mixed.update([name] if found.setdefault(name, kind) != kind else [])
    return [name for name in found if name not in mixed]


def is_measured(kind: pa.DataType) -> bool:
    """Whether a column has numbers that mean something; hashes are integers of 64 bits without a sign."""
    return bool(pa.types.is_floating(kind) or (pa.types.is_integer(kind) and kind != pa.uint64()))


def _check_sources(view: CorpusView, sources: Sequence[str]) -> None:
    for source in sources:
        if source not in view.chains:
            raise UserError(f"{view.label} has no source {source}. {suggest(source, view.chains, 'Sources')}")


def _check_reasons(view: CorpusView, reasons: Sequence[str]) -> None:
    found = (step for funnel in funnels(view).values() for step in funnel["first"].values()) if reasons else ()
    known = sorted({reason for step in found for reason in step})
    for reason in reasons:
        if reason not in known:
            raise UserError(f"{view.label} dropped nothing for {reason}. {suggest(reason, known, 'Reasons')}")


def layers_of(view: CorpusView, source: str) -> Mapping[str, Sequence[str]]:
    """The layers of a source in order, from the reader to the final verdicts, with their columns."""
    found: dict[str, Sequence[str]] = {INGEST: view.nodes[f"{source}/{INGEST}"].columns}
    found.update((step, view.nodes[step].columns) for step in view.chains[source] if view.nodes[step].has_layers)
    return found


def origin_of(view: CorpusView, source: str, name: str, kept: bool | None) -> ColumnOrigin:
    layers = layers_of(view, source)
    step, _, column = name.rpartition(".")
    if step:
        names = {INGEST: INGEST} | {one: view.nodes[one].name for one in layers if one != INGEST}
        found = [one for one, plain_name in names.items() if step in (one, plain_name) and column in layers[one]]
        return ColumnOrigin(name, tuple((one, column) for one in reversed(found)))
    if name in _FINAL:
        return ColumnOrigin(name, ((f"{source}/{CORPUS}", _FINAL[name]),))
    if name == LANGUAGE:
        found = [one for one in layers if one != INGEST and view.nodes[one].name == LANGUAGE and "label" in layers[one]]
        return ColumnOrigin(name, tuple((one, "label") for one in found[-1:]))
    if name in BIRTH:
        return ColumnOrigin(name, ((INGEST, name),) if name in layers[INGEST] else ())
    having = [one for one in reversed([*layers]) if name in layers[one]]
    if name in WRITTEN:
        return ColumnOrigin(name, tuple((one, name) for one in (having[:1] if kept else having)))
    return ColumnOrigin(name, tuple((one, name) for one in (having if name in REWRITTEN else (INGEST,))))


def _with_types(view: CorpusView, source: str, origins: Sequence[ColumnOrigin]) -> list[ColumnOrigin]:
    """Add the types, which are in the parts; all parts of a step have the same types, so the first is enough."""
    document, opened = view.documents[source][0], dict[str, PartReader]()
    typed = []
    for origin in origins:
        kind = pa.bool_() if origin.name == "kept" else None
        for layer, column in origin.layers[:1] if kind is None else ():
            if layer not in opened:
                opened[layer] = PartReader(view.store, view.layer(layer, document))
            kind = plain_type(opened[layer].schema.field(column).type)
        typed.append(ColumnOrigin(origin.name, origin.layers, kind))
    return typed


def _one_kind(view: CorpusView, name: str, origins: Mapping[str, Sequence[ColumnOrigin]]) -> pa.DataType:
    kinds = {one.kind: source for source, some in origins.items() for one in some if one.name == name and one.kind}
    if len(kinds) > 1:
        types = ", ".join(f"{kind} in {source}" for kind, source in kinds.items())
        raise UserError(
            f"{name} of {view.label} has several types ({types}), so it cannot be one column. Select one source, or "
            "name the column of one step by its id."
        )
    return next(iter(kinds), pa.string())


def plain_type(kind: pa.DataType) -> pa.DataType:
    """The public type of a stored type: ids become text, dictionaries become their values."""
    if pa.types.is_dictionary(kind):
        return plain_type(kind.value_type)
    if pa.types.is_fixed_size_binary(kind):
        return pa.string()
    return pa.list_(plain_type(kind.value_type)) if pa.types.is_list(kind) else kind


def plain(array: pa.Array) -> pa.Array:
    """The values in their public type."""
    kind = array.type
    if pa.types.is_dictionary(kind):
        return plain(array.dictionary_decode())
    if pa.types.is_fixed_size_binary(kind):
        return hexadecimal(array)
    if pa.types.is_list(kind) and plain_type(kind) != kind:
        return pa.ListArray.from_arrays(array.offsets, plain(array.values), mask=array.is_null())
    return array


def hexadecimal(array: pa.Array) -> pa.Array:
    """Fixed-size binary values as hexadecimal digits."""
    width = array.type.byte_width
    data = np.frombuffer(array.buffers()[1] or b"", np.uint8)[
        width * array.offset : width * (array.offset + len(array))
    ]
    digits = pa.py_buffer(_HEXADECIMAL[data].tobytes())
    offsets = pa.py_buffer(np.arange(0, 2 * width * (len(array) + 1), 2 * width, dtype=np.int32).tobytes())
    mask = array.is_null().to_numpy(zero_copy_only=False)
    valid = pa.py_buffer(np.packbits(~mask, bitorder="little").tobytes()) if mask.any() else None
    return pa.StringArray.from_buffers(len(array), offsets, digits, valid, int(mask.sum()))
