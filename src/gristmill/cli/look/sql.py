"""gristmill sql: SQL queries on a corpus."""

import io
import math
import os
from collections import Counter
from collections.abc import Iterator, Sequence
from decimal import Decimal
from itertools import chain
from pathlib import Path
from typing import Annotated, Any

import pyarrow as pa
import pyarrow.csv as pcsv
import pyarrow.parquet as pq
import typer

from gristmill.cli.shared.options import Json, RecipeOrRun, StoreUri, open_view, print_json
from gristmill.cli.shared.screen import json_text, remark, write_bytes
from gristmill.cli.shared.show import console, table, value_text
from gristmill.errors import UserError, cause_of
from gristmill.query.documents.sql import Session
from gristmill.query.export.export import scrub_batch, scrub_configs
from gristmill.stages.scrub.scrub import Config

MOST_ROWS = 1000
"""Rows that a table shows: it is laid out as a whole."""
CELL_CHARS = 120
"""Characters of a value in a table."""
EXAMPLE = 'Example: gristmill sql recipes/demo.yaml "select step, reason, count(*) from verdicts group by all"'

Answer = tuple[pa.Schema, Iterator[pa.RecordBatch]]


def command(
    recipe: RecipeOrRun,
    query: Annotated[
        str, typer.Argument(metavar="QUERY", help="A select statement in DuckDB's SQL.", show_default=False)
    ],
    csv: Annotated[bool, typer.Option("--csv", help="Print CSV with a header.")] = False,
    parquet: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the answer to a Parquet file, which must not exist.")
    ] = None,
    store: StoreUri = None,
    json: Json = False,
) -> None:
    """Query a corpus with SQL (DuckDB, extra `sql`).

    Views: documents (with their final verdict and text), verdicts, signals, clusters, samples (where documents are in
    the shards, and when they are seen), schedule, and one for every step, by its name. See `show tables` and
    `describe documents`. Queries are read-only: they cannot write, open files or load code.
    """
    given = [name for name, is_given in (("--json", json), ("--csv", csv), ("--parquet", parquet)) if is_given]
    if len(given) > 1:
        raise UserError(f"{' and '.join(given)} exclude each other. Choose one.")
    if parquet is not None:
        _check_file(parquet)
    view = open_view(recipe, store)
    session = Session(view)

    def show(answer: Answer) -> None:
        try:
            if json:
                _print_json(answer)
            elif csv:
                _print_csv(answer)
            elif parquet is not None:
                _write(answer, parquet, list(scrub_configs(view).values()))
            else:
                _show(answer)
        except (OverflowError, ValueError, pa.ArrowException) as error:
            raise UserError(
                f"The result has a value that cannot be written here ({error}). Cast it: select column::varchar."
            ) from None

    show(session.ask(query))


def _show(answer: Answer) -> None:
    schema, batches = answer
    rows: list[list[str]] = []
    more = 0
    for batch in batches:
        room = max(MOST_ROWS - len(rows), 0)
        rows += [[_cell(value) for value in row.values()] for row in _rows(batch.slice(0, room))]
        more += batch.num_rows - min(batch.num_rows, room)
    out = console()
    shown = table(schema.names, rows)
    for column, kind in zip(shown.columns, schema.types, strict=True):
        is_number = pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)
        column.justify = "right" if is_number else "left"
    out.print(shown)
    if not rows:
        remark("No rows.")
    if more:
        fact = f"{more:,} more rows are not shown. --csv, --json or --parquet FILE write all rows."
        remark(fact)


def _rows(batch: pa.RecordBatch) -> Iterator[dict[str, Any]]:
    """Rows of plain values. A sum of integers is an integer, however large."""
    for row in batch.to_pylist():
        yield {name: _plain(value) for name, value in row.items()}


def _plain(value: object) -> Any:
    if isinstance(value, Decimal):
        return int(value) if value == value.to_integral_value() else float(value)
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def _cell(value: object) -> str:
    text = f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else value_text(value)
    return text if len(text) <= CELL_CHARS else f"{text[: CELL_CHARS - 1]}…"


def _print_json(answer: Answer) -> None:
    for batch in answer[1]:
        for row in _rows(batch):
            print_json(row)


def _print_csv(answer: Answer) -> None:
    schema, batches = answer
    nested = [pa.types.is_nested(kind) for kind in schema.types]
    flat = pa.schema([(f.name, pa.string() if deep else f.type) for f, deep in zip(schema, nested, strict=True)])
    is_first = True
    for batch in chain([flat.empty_table()], batches):
        pairs = zip(batch.columns, nested, strict=True)
        columns = [_as_json(column) if deep else column for column, deep in pairs]
        held = io.BytesIO()
        pcsv.write_csv(pa.Table.from_arrays(columns, schema=flat), held, pcsv.WriteOptions(include_header=is_first))
        write_bytes(held.getvalue())
        is_first = False


def _as_json(column: pa.Array) -> pa.Array:
    return pa.array([None if value is None else json_text(value) for value in column.to_pylist()], pa.string())


def _check_file(file: Path) -> None:
    if file.exists():
        raise UserError(f"--parquet {file} exists, so the query was not run. Name another file.")
    if not file.absolute().parent.is_dir():
        raise UserError(f"--parquet {file}: there is no folder {file.parent}, so nothing was run. Create it.")


def _write(answer: Answer, file: Path, configs: Sequence[Config]) -> None:
    """Write a file, which may be shared, so it is scrubbed like the sources of the corpus."""
    schema, batches = answer
    temporary = file.with_name(f".{file.name}.{os.getpid()}")
    try:
        with pq.ParquetWriter(temporary, schema, compression="zstd") as writer:
            for batch in batches:
                for config in configs:
                    batch = scrub_batch(batch, config, Counter(), ())
                writer.write_batch(batch)
        os.replace(temporary, file)
    except OSError as error:
        raise UserError(f"--parquet {file} cannot be written: {cause_of(error)}. Name another file.") from None
    finally:
        temporary.unlink(missing_ok=True)
