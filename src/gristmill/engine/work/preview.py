"""Reads the beginning of a source's files with its reader, to check whether the recipe fits them."""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import IO, Any

from gristmill.engine.files.sampling import Named
from gristmill.engine.work.read import records_of, rows_of
from gristmill.engine.work.rows import count_reasons, count_repaired
from gristmill.engine.work.task import Preview, Result
from gristmill.places import place_of
from gristmill.stages.contract import Piece
from gristmill.stages.ingest.sniff import format_of
from gristmill.stages.reading.fields import count_fields
from gristmill.stages.reading.head import MOST_BYTES, Budget, Head, Spent
from gristmill.stages.reading.markup import count_markup

MOST_RECORDS = 100
"""The most records to read from one file."""


@dataclass(frozen=True, slots=True)
class HeadPiece(Piece):
    """A piece of which only the beginning is read. It is not hashed, because nothing of it is stored."""

    budget: Budget = field(default_factory=Budget)

    def open(self) -> IO[bytes]:
        head: Any = Head(self.open_file() if self.view is None else self.view.open(self.open_file), self.budget)
        return head  # type: ignore[no-any-return]

    def open_file(self) -> IO[bytes]:
        return (self.place or place_of(self.uri)).open(MOST_BYTES)


@dataclass(frozen=True)
class FilePreview:
    """The first records of a file."""

    name: str
    rows: int
    dropped: Mapping[str, int]
    """Reason -> records."""
    examples: Mapping[str, tuple[str, str]]
    """Reason -> locator and detail of the first record with that reason."""
    markup: Mapping[str, int]
    fields: Mapping[str, Any]
    format: str | None
    """The format that its first bytes suggest."""
    is_whole: bool
    """Whether these are all records of the file."""
    repaired: int
    """Records with a fault that the reader repaired."""


def perform_preview(work: Preview) -> Result:
    """Preview one file after the other, until the budget is spent."""
    budget, found = Budget(), list[FilePreview]()
    for piece in work.pieces:
        if budget.spent:
            break
        head = HeadPiece(piece.uri, piece.name, piece.start, piece.stop, piece.place, view=piece.view, budget=budget)
        records = list(_records(replace(work, pieces=(head,)), budget))
        batch = rows_of(work, records)
        examples: dict[str, tuple[str, str]] = {}
        for row in batch.select(["locator", "drop", "detail"]).to_pylist():
            examples.setdefault(row["drop"], (row["locator"], row["detail"] or "nothing more is known"))
        is_whole = not budget.spent and len(records) < MOST_RECORDS
        looks_like = format_of(replace(head, budget=Budget()))
        fields = count_fields(work.config, Counter(record.fields for _, record in records), batch.column("meta"))
        counts = (count_reasons(batch.column("drop")), examples, count_markup(batch), fields.get("fields", {}))
        found.append(FilePreview(piece.name, len(records), *counts, looks_like, is_whole, count_repaired(batch)))
    return Result(values=[budget.read_bytes, found])


def _records(work: Preview, budget: Budget) -> Iterator[Named]:
    """The first records of a file. An error that the bound itself causes in the reader is not the file's fault."""
    records = records_of(work)
    for _ in range(MOST_RECORDS):
        try:
            named = next(records, None)
        except Spent:
            return
        except Exception:
            if budget.spent:
                return
            raise
        if named is None or budget.spent:
            return
        yield named
