"""Read-only SQL over a corpus, with DuckDB.

A query sees views, but no files: DuckDB may open none and loads no extensions, and its settings are locked. Spilled
data goes to a temporary folder that is removed afterwards.
"""

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa

from gristmill.engine.schedule.corpus_view import CorpusView
from gristmill.errors import UserError
from gristmill.hints import hint
from gristmill.install_command import install_extra
from gristmill.query.documents.sql_columns import StoreFaults
from gristmill.query.documents.sql_views import Views, literal, quoted
from gristmill.query.opening import check_finished
from gristmill.recipe.checks.mistakes import nearest

BATCH_ROWS = 1 << 14
_NO_TABLE = re.compile(r"Table with name (.*?) does not exist", re.DOTALL)
_CATALOGUE = re.compile(r"\bshow\b|information_schema|duckdb_|pg_catalog|sqlite_master")
_POINTER = re.compile(r"\nLINE \d+:.*", re.DOTALL)


class Session:
    """A DuckDB session for one corpus."""

    def __init__(self, view: CorpusView) -> None:
        check_finished(view, "sql")
        self._duckdb = _duckdb()
        self._folder = TemporaryDirectory(prefix="gristmill-sql-")
        self._faults = StoreFaults()
        config = {"autoinstall_known_extensions": "false", "autoload_known_extensions": "false"}
        self._connection = self._duckdb.connect(":memory:", config=config)
        self.views = Views(view, self._faults, self._connection.register)
        self._there: set[str] = set()
        for setting in (
            f"temp_directory = {literal(self._folder.name)}",
            "python_enable_replacements = false",
            "timezone = 'UTC'",
            "lambda_syntax = 'ENABLE_SINGLE_ARROW'",  # views are stored as text in this syntax
            "enable_external_access = false",
            "lock_configuration = true",
        ):
            self._connection.execute(f"set {setting}")

    def ask(self, query: str) -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
        """Run a query and stream the result. Raises UserError with one line for a wrong query."""
        self._check(query)
        with self._as_user_errors():
            self._make_views(query)
            reader = self._connection.sql(query).to_arrow_reader(BATCH_ROWS)
        schema = pa.schema(
            [field.with_name(name) for field, name in zip(reader.schema, _each_once(reader.schema.names), strict=True)]
        )
        return schema, self._batches(reader, schema)

    def _batches(self, reader: pa.RecordBatchReader, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        with self._as_user_errors():
            for batch in reader:
                yield pa.RecordBatch.from_arrays(batch.columns, schema=schema)

    @contextmanager
    def _as_user_errors(self) -> Iterator[None]:
        """Convert errors of the query and of the store to user errors."""
        try:
            yield
        except (self._duckdb.Error, pa.ArrowException, OSError) as error:
            fault, self._faults.fault = self._faults.fault, None
            raise fault or UserError(self._plain(str(error))) from None

    def close(self) -> None:
        self._connection.close()
        self._folder.cleanup()

    def _check(self, query: str) -> None:
        with self._as_user_errors():
            statements = self._connection.extract_statements(query)
        if len(statements) != 1:
            given = "No query is given" if not statements else f"{len(statements)} queries are given"
            raise UserError(f"{given}; exactly one is needed. Nothing was run. Views: {self._names()}.")
        kind = statements[0].type.name
        if kind not in ("SELECT", "EXPLAIN"):
            raise UserError(
                f"{kind} statements are not allowed, because a corpus is read-only. Nothing was run. Use select. "
                f"To write the result to a file: {hint('save_answer')}."
            )

    def _make_views(self, query: str) -> None:
        """Make the views whose names are in the query; all of them if it reads the catalogue."""
        text = query.lower()
        for name in self.views if _CATALOGUE.search(text) else [name for name in self.views if name.lower() in text]:
            if name not in self._there:
                self._connection.execute(f"create view {quoted(name)} as {self.views.query(name)}")
                self._there.add(name)

    def _plain(self, message: str) -> str:
        missing = _NO_TABLE.search(message)
        if missing is not None:
            name = missing[1].strip('"')
            near = nearest(name, self.views)
            suggestion = f"Did you mean {quoted(near) if '/' in near else near}? " if near else ""
            return f"There is no view {name}. {suggestion}Views: {self._names()}."
        plain = " ".join(_POINTER.sub("", message).split())
        slashed = next((name for name in self.views if "/" in name), None)
        if slashed is not None and plain.endswith('at or near "/"'):
            return f"{plain}. A name with a slash needs quotes: {quoted(slashed)}."
        return plain

    def _names(self) -> str:
        return ", ".join(name for name in self.views if "/" not in name)


def _each_once(names: Sequence[str]) -> list[str]:
    """Unique column names; duplicates are numbered as in DuckDB tables: a, a_1."""
    found: dict[str, int] = {}
    for name in names:
        free = name
        while free in found:
            found[name] += 1
            free = f"{name}_{found[name]}"
        found[free] = 0
    return list(found)


def _duckdb() -> Any:
    try:
        import duckdb
    except ImportError:
        raise UserError(
            f"SQL needs DuckDB, which is not installed. Nothing was run. Run: {install_extra('sql')}"
        ) from None
    return duckdb
