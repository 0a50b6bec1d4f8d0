"""A table that fits its screen without breaking a word.

Cells are broken at spaces, but not between a number and its unit. If the table is still too wide, the least important
columns are left out and named below it. If that is not enough, words are broken after the characters that join names
(`near_dedup`, `all/tokens`). Only words longer than LONGEST are broken anywhere else.
"""

import re
from collections.abc import Iterator, Sequence

from rich.cells import cell_len
from rich.console import ConsoleOptions, RenderableType
from rich.table import Column, Table
from rich.text import Text

from gristmill.cli.shared.screen import passage, words

LONGEST = 30
"""Words wider than this many cells may be broken anywhere, such as a long name that a user chose."""
GAP = 2
"""Cells between two columns."""
_SPACES = re.compile(r"(?<=\S )(?=\S)(?<!\d )|(?<=\d )(?=\S)(?!(?:[KMGT]?B|M)\b)")
"""Where a line may begin."""
_JOINTS = re.compile(rf"{_SPACES.pattern}|(?<=[^\W_][_/.:=])(?=[^\W\d_]{{2}})")


class FittedTable(Table):
    """A table of words and numbers. `spare` names the columns that may be left out, in that order."""

    def __init__(self, spare: Sequence[str] = ()) -> None:
        super().__init__(box=None, pad_edge=False, header_style="bold")
        self.spare = spare

    def __rich_console__(self, console: object, options: ConsoleOptions) -> Iterator[RenderableType]:
        """The table with the columns that fit."""
        room = options.max_width
        columns, widths = self._fit(room)
        shown = Table(box=None, pad_edge=False, header_style=self.header_style)
        cells = []
        for column, width in zip(columns, widths, strict=True):
            cells.append([_broken(cell, width) for cell in _cells(column)])
            shown.add_column(cells[-1][0], justify=column.justify, overflow="fold", width=width)
        for row in list(zip(*cells, strict=True))[1:]:
            shown.add_row(*row)
        yield shown
        if left_out := [str(column.header) for column in self.columns if column not in columns]:
            yield words((f"Columns left out to fit the width of {room}: {', '.join(left_out)}.", "dim"))

    def _fit(self, room: int) -> tuple[list[Column], list[int]]:
        """The columns that fit, and their widths."""
        for breaks, longest in ((_SPACES, room), (_JOINTS, LONGEST)):
            columns = self.columns
            for name in (None, *self.spare):
                columns = [column for column in columns if name is None or str(column.header) != name]
                widths, fits = _widths(columns, breaks, longest, room)
                if fits:
                    return columns, widths
        return columns, widths


def _cells(column: Column) -> list[Text]:
    """The heading, then the cells below it."""
    return [cell if isinstance(cell, Text) else words(str(cell)) for cell in (column.header, *column.cells)]


def _widths(columns: Sequence[Column], breaks: re.Pattern[str], longest: int, room: int) -> tuple[list[int], bool]:
    """Widths of columns, the widest ones narrowed first, and whether they are narrow enough."""
    widths, least = [], []
    for column in columns:
        texts = [cell.plain for cell in _cells(column)]
        pieces = [piece for text in texts for piece in breaks.split(text)]
        widths.append(min(room, max(1, *map(cell_len, texts))))
        least.append(min(longest, max(1, *(cell_len(piece.strip()) for piece in pieces))))
    over = sum(widths) + GAP * (len(widths) - 1) - room
    while over > 0 and (wider := [at for at in range(len(widths)) if widths[at] > least[at]]):
        at = max(wider, key=lambda at: widths[at])
        widths[at] -= 1
        over -= 1
    return widths, over <= 0


def _broken(text: Text, width: int) -> Text:
    """The text in lines of at most `width`. A longer piece is left for the renderer to break."""
    plain = text.plain
    ends = [*(found.start() for found in _SPACES.finditer(plain)), len(plain)]
    for start, stop in zip([0, *ends], ends, strict=False):
        if cell_len(plain[start:stop].rstrip()) > width:
            ends += [found.start() for found in _JOINTS.finditer(plain, start, stop) if found.start() > start]
    cuts, start, last = [], 0, 0
    for end in sorted(ends):
        if cell_len(plain[start:end].rstrip()) > width and last > start:
            cuts.append(last)
            start = last
        last = end
    lines = text.divide(cuts)
    for line in lines:
        line.rstrip()
    return passage("\n").join(lines)
