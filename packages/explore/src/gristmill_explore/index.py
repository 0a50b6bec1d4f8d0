"""An index of all documents in DuckDB, so that a filter over a million documents takes milliseconds.

It has one row per document: its place, its verdict, its language and its URL, but no text. It is built part by part in
the background, into a temporary file, and pages answer from what is there so far. A number that a step measured is read
when a page first needs it: there are many, and few are used. Nothing is kept for the next start, so it is never stale.
Documents that either version withholds or has taken down are found first. They have an id, a source and a verdict only.
"""

import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gristmill.engine.schedule.corpus_view import CorpusView, DocumentPart
from gristmill.engine.work.memory import available_cores
from gristmill.errors import UserError
from gristmill.query.documents.clusters import cluster_steps
from gristmill.query.documents.columns import ColumnReader, number_columns
from gristmill.query.documents.draw import ranks
from gristmill.query.documents.histograms import Measure, find_measures, numbers_of, title_of
from gristmill.query.takedown.withheld import hidden_ids
from gristmill.stages import NO_DOCUMENT
from gristmill.stages.shared import vectors
from gristmill.stages.shared.rule import formula

MEMORY, THREADS = "80MB", 2
"""The most that DuckDB uses. What does not fit stays in its file."""
FIELDS = ("doc_id", "source", "language", "step", "reason", "url")
SHOWN = ("doc_id", "source", "step", "reason")
"""The fields of a hidden document."""
_ROW = "number, rank, part, row, doc_id, source, language, step, reason, url, cluster, hidden"
_TABLES = """
create table documents (number bigint, rank ubigint, part integer, row integer, doc_id uuid, source varchar,
    language varchar, step varchar, reason varchar, url varchar, cluster uuid, hidden varchar);
create table before (part integer, row integer, doc_id uuid, step varchar, reason varchar);
create table labels (doc_id uuid primary key, is_good boolean, note varchar);
create table affected (number bigint, side varchar);
"""


class AllRows(ColumnReader):
    """Reads every row of a part, so that the place of a row in the batches is its number."""

    def __init__(self, view: CorpusView, names: Sequence[str]) -> None:
        super().__init__(view, names, kept=None)

    def wanted(self, verdict: pa.Array) -> pa.Array:
        return pa.array(np.ones(len(verdict), np.bool_))


@dataclass(frozen=True)
class IndexedDocument:
    """A document in the index."""

    number: int
    """Documents are numbered in the order of sources, parts and rows."""
    rank: int
    """Its place in the order of the draw (query/documents/draw.py)."""
    place: tuple[DocumentPart, int]
    """Its part and row."""
    doc_id: str
    source: str
    language: str | None
    step: str | None
    """The step that dropped it; None if it is kept."""
    reason: str | None
    url: str | None
    cluster: str | None
    hidden: str | None
    """Why its text and its origin are not shown."""


class DocumentIndex:
    """The documents of a corpus, and the verdicts of another version on them."""

    def __init__(self, view: CorpusView, against: CorpusView | None = None) -> None:
        import duckdb

        self.view, self.against = view, against
        found = find_measures(view, every_number=True)
        values = {one.value for one in found}
        found += [Measure(title_of(one), one) for one in number_columns(view) if one not in values]
        self.measures = {one.title: one for one in found}
        """What documents can be filtered by, by title: what the report has histograms of, and all other numbers."""
        self.parts, self.parts_before = (_parts(one) for one in (view, against))
        self.rows, self.rows_indexed = sum(one.part.rows for one in (*self.parts, *self.parts_before)), 0
        """Rows of all parts, and how many of them are in the index so far."""
        self.hidden = {**({} if against is None else hidden_ids(against)), **hidden_ids(view)}
        """The ids of documents that are not shown, with the reason."""
        self.fault: Exception | None = None
        """What stopped the index."""
        self._folder = TemporaryDirectory(prefix="gristmill-explore-")
        config: dict[str, Any] = {
            "memory_limit": MEMORY,
            "threads": THREADS,
            "autoinstall_known_extensions": "false",
            "autoload_known_extensions": "false",
        }
        self._connection = duckdb.connect(f"{self._folder.name}/index", config=config)
        self._connection.execute(_TABLES)
        self._read_scores: set[str] = set()
        self._scores_lock = threading.Lock()
        self._thread = threading.Thread(target=self._build, daemon=True)
        self._is_closed = False

    def start(self) -> None:
        """Build the index in the background."""
        self._thread.start()

    def wait(self) -> None:
        """Wait until the index is whole. Raises what stopped it."""
        self._thread.join()
        if self.fault is not None:
            raise self.fault

    def close(self) -> None:
        self._is_closed = True
        if self._thread.is_alive():
            self._thread.join()
        self._connection.close()
        self._folder.cleanup()

    @property
    def is_whole(self) -> bool:
        return self.rows_indexed == self.rows

    def scores(self, title: str) -> str:
        """The table with the numbers of documents and their values of a measure."""
        if title not in self.measures:
            raise UserError(f"There is no score {title}. Choose one from the list.")
        table = f"score{list(self.measures).index(title)}"
        with self._scores_lock:
            if title not in self._read_scores:
                given = self._score_values(self.measures[title])
                with self._connection.cursor() as cursor:
                    cursor.register("given", given)
                    cursor.execute(f"create table {table} as select * from given")
                self._read_scores.add(title)
        return table

    def _score_values(self, measure: Measure) -> pa.Table:
        """The values of all documents that have one."""
        value = formula(measure.value)
        reader = AllRows(self.view, list(dict.fromkeys(["reason", *value.columns])))

        def read(document: DocumentPart) -> Any:
            found = [np.zeros(0)]
            for batch in reader.read(document):
                rows = _documents_in(batch)
                found.append(numbers_of(value.run(vectors.ColumnVectors(batch)), batch.num_rows)[rows])
            return np.concatenate(found)

        # Threads are enough: reading, hashing and arithmetic all release the GIL.
        with ThreadPoolExecutor(available_cores()) as pool:
            values = np.concatenate([np.zeros(0), *pool.map(read, self.parts)])
        has_value = ~np.isnan(values)
        return pa.table({"number": np.flatnonzero(has_value), "value": values[has_value]})

    def ask(self, query: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """The rows that a query of ours returns. Text from a request is always a value, never part of the query."""
        with self._connection.cursor() as cursor:
            found: list[tuple[Any, ...]] = cursor.execute(query, list(values)).fetchall()
            return found

    def arrays(self, query: str, values: Sequence[Any] = ()) -> dict[str, Any]:
        """The same as NumPy arrays."""
        with self._connection.cursor() as cursor:
            found: dict[str, Any] = cursor.execute(query, list(values)).fetchnumpy()
            return found

    def replace(self, table: str, query: str, given: pa.Table) -> None:
        """Fill a table of ours with the rows of a query over `given`."""
        with self._connection.cursor() as cursor:
            cursor.register("given", given)
            cursor.execute(f"begin; delete from {table}; insert into {table} {query}; commit")

    def documents(self, where: str, values: Sequence[Any], order: str, most: int) -> list[IndexedDocument]:
        """The first documents that match a condition."""
        found = self.ask(f"select {_ROW} from documents where {where} order by {order} limit {most:d}", values)
        return [self._document(*one) for one in found]

    def _document(self, number: int, rank: int, part: int, row: int, doc_id: Any, *fields: Any) -> IndexedDocument:
        *others, cluster, hidden = fields
        names = (*others, None if cluster is None else cluster.hex, hidden)
        return IndexedDocument(number, rank, (self.parts[part], row), doc_id.hex, *names)

    def _build(self) -> None:
        try:
            with self._connection.cursor() as cursor:
                self._add_documents(cursor)
                if self.against is not None:
                    self._add_before(cursor, self.against)
        except Exception as fault:  # pages show it
            self.fault = fault.with_traceback(None)  # a traceback would keep the cursor open

    def _add_documents(self, cursor: object) -> None:
        clusters = [f"{name}.cluster" for name in dict.fromkeys(node.name for node in cluster_steps(self.view))]
        reader = AllRows(self.view, list(dict.fromkeys([*FIELDS, *clusters])))
        number = 0
        for part, document in enumerate(self.parts):
            of_part = ranks(document)
            for first, batch in _batches(reader, document):
                rows = _documents_in(batch)
                hidden = pa.array([self.hidden.get(one) for one in batch.column("doc_id").to_pylist()], pa.string())
                hidden = hidden.take(pa.array(rows))
                cluster = pc.coalesce(*(batch.column(name) for name in clusters)) if clusters else None
                fields = {name: batch.column(name).take(pa.array(rows)) for name in FIELDS}
                fields["cluster"] = (
                    pa.nulls(len(rows), pa.string()) if cluster is None else cluster.take(pa.array(rows))
                )
                shown = [one if name in SHOWN else _unless(hidden, one) for name, one in fields.items()]
                numbers = number + np.arange(len(rows))
                places = [numbers, of_part[first + rows], np.full(len(rows), part), first + rows]
                values = [*map(pa.array, places), *shown, hidden]
                if self._insert(cursor, "documents", values, batch.num_rows):
                    return
                number += len(rows)

    def _add_before(self, cursor: object, view: CorpusView) -> None:
        reader = AllRows(view, ["doc_id", "step", "reason"])
        for part, document in enumerate(self.parts_before):
            for first, batch in _batches(reader, document):
                rows = _documents_in(batch)
                places = [pa.array(np.full(len(rows), part)), pa.array(first + rows)]
                fields = [column.take(pa.array(rows)) for column in batch.columns]
                if self._insert(cursor, "before", [*places, *fields], batch.num_rows):
                    return

    def _insert(self, cursor: Any, table: str, values: Sequence[pa.Array], rows: int) -> bool:
        """Add rows; returns whether the index was closed meanwhile."""
        cursor.register("added", pa.table(list(values), [f"c{number}" for number in range(len(values))]))
        cursor.execute(f"insert into {table} select * from added")
        self.rows_indexed += rows
        return self._is_closed


def _parts(view: CorpusView | None) -> list[DocumentPart]:
    return [] if view is None else [part for source in view.chains for part in view.documents.get(source, ())]


def _batches(reader: ColumnReader, document: DocumentPart) -> Iterator[tuple[int, pa.RecordBatch]]:
    """The batches of a part, each with the number of its first row."""
    first = 0
    for batch in reader.read(document):
        yield first, batch
        first += batch.num_rows


def _unless(hidden: pa.Array, column: pa.Array) -> pa.Array:
    """The values of documents that are not hidden."""
    return (
        pc.if_else(hidden.is_valid(), pa.scalar(None, column.type), column)
        if hidden.null_count < len(hidden)
        else column
    )


def _documents_in(batch: pa.RecordBatch) -> Any:
    """The rows of a batch that are documents."""
    is_other = pc.is_in(batch.column("reason"), value_set=pa.array(sorted(NO_DOCUMENT)))
    return np.flatnonzero(~is_other.to_numpy(zero_copy_only=False))
