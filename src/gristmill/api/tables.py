"""A result as one table that a prompt or notebook can show: as text, HTML, Arrow or pandas."""

from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module
from typing import Any

import pyarrow as pa

from gristmill.errors import UserError
from gristmill.install_command import install_library
from gristmill.report.markup import escaped

MOST_SHOWN = 200
"""The most lines of a table that are shown. The table itself has all of them."""
_CELL = "padding:2px 10px;text-align:{}"


def require(library: str, why: str) -> Any:
    """Import an optional library. Raises UserError with the install command if it is missing."""
    try:
        return import_module(library)
    except ImportError:
        raise UserError(f"{why} needs {library}, which is not installed. Run: {install_library(library)}") from None


class Table:
    """Lines with named fields that can be iterated, counted and converted."""

    title = ""

    def __init__(self, lines: Sequence[Mapping[str, Any]], notes: Sequence[str] = ()) -> None:
        self.lines = lines
        self.notes = notes
        """Remarks that are shown below the table."""

    def __iter__(self) -> Iterator[Mapping[str, Any]]:
        return iter(self.lines)

    def __len__(self) -> int:
        return len(self.lines)

    def __getitem__(self, number: int) -> Mapping[str, Any]:
        return self.lines[number]

    def to_arrow(self) -> pa.Table:
        """An Arrow table with one row per line."""
        return pa.Table.from_pylist([dict(line) for line in self.lines])

    def to_pandas(self) -> Any:
        """The lines as a DataFrame."""
        require("pandas", "to_pandas()")
        return self.to_arrow().to_pandas()

    def cells(self, line: Mapping[str, Any]) -> list[str]:
        """The values of a line as text."""
        return [f"{value:,}" if isinstance(value, int) else str(value) for value in line.values()]

    def __repr__(self) -> str:
        if not self.lines:
            return "\n".join([self.title or "nothing", *self.notes])
        rows = [list(self.lines[0]), *(self.cells(line) for line in self.lines[:MOST_SHOWN])]
        widths = [max(len(row[at]) for row in rows) for at in range(len(rows[0]))]
        numbers = [isinstance(value, int) for value in self.lines[0].values()]
        rows_shown = [
            "  ".join(
                cell.rjust(width) if is_number else cell.ljust(width)
                for cell, width, is_number in zip(row, widths, numbers, strict=True)
            ).rstrip()
            for row in rows
        ]
        return "\n".join([*([self.title] if self.title else []), *rows_shown, *self._more(), *self.notes])

    def _repr_html_(self) -> str:
        numbers = [isinstance(value, int) for value in self.lines[0].values()] if self.lines else []
        styles = [_CELL.format("right" if is_number else "left") for is_number in numbers]

        def row(cells: Sequence[str], tag: str) -> str:
            inner = (
                f'<{tag} style="{style}">{escaped(cell)}</{tag}>' for cell, style in zip(cells, styles, strict=True)
            )
            return f"<tr>{''.join(inner)}</tr>"

        head = row(list(self.lines[0]), "th") if self.lines else ""
        body = "".join(row(self.cells(line), "td") for line in self.lines[:MOST_SHOWN])
        notes = "".join(f"<p>{escaped(note)}</p>" for note in (*self._more(), *self.notes))
        title = f"<p><b>{escaped(self.title)}</b></p>" if self.title else ""
        return f"{title}<table><thead>{head}</thead><tbody>{body}</tbody></table>{notes}"

    def _more(self) -> list[str]:
        more = len(self.lines) - MOST_SHOWN
        return [f"... and {more:,} more"] if more > 0 else []
