"""Cuts a stream of CSV into rows, in bounded memory and linear time.

Every line is read once, unless a record of several lines does not fit: then its first line is dropped and the rest is
read again, as long as the bytes that are read again stay below twice the bytes that were read. Beyond that (a file full
of faults) all lines of the record are dropped at once.
"""

import re
from collections import deque
from collections.abc import Callable, Iterator

from gristmill.counted import counted
from gristmill.stages.reading.decompress import ReadFault

FREE_BYTES = 1 << 20
"""How much may be read again at the start of a file, no matter how little was read."""

_IN_QUOTES = re.compile(rb'[^"]*+(?:""[^"]*+)*+')


class Repaired(list[str]):
    """A row with a field that continues after its closing quote. If a quote was never closed, rows may be joined."""


def cut(
    chunks: Iterator[bytes], delimiter: str, quotes: bool, width: int | None, limit_bytes: int
) -> Iterator[tuple[int, list[str] | ReadFault]]:
    """The rows with their positions; `width` fields each, or as many as the first has. Yields a fault, with its line,
    for a row that does not fit, and for damage to the stream, at the position of the record that it cut off."""
    opening = delimiter.encode() + b'"'
    split = _splitter(delimiter, quotes)
    source, again = _lines(chunks, limit_bytes), deque[_Line]()
    position, read_again, number = 0, 0, 1
    while True:
        record: list[_Line] = []
        size, in_quotes = 0, False
        while not record or (in_quotes and size <= limit_bytes):
            line = again.popleft() if again else next(source, None)
            if line is None:
                break
            record.append(line)
            size += line[1]
            if isinstance(line[0], ReadFault):
                break
            in_quotes = quotes and (in_quotes or b'"' in line[0]) and _ends_in_quotes(line[0], in_quotes, opening)
        if not record:
            return
        content, line_size = record[-1]
        if isinstance(content, ReadFault) and not line_size:
            yield position, content
            return
        row: list[str] | ReadFault
        if isinstance(content, ReadFault) and len(record) == 1:
            row = content
        elif in_quotes or isinstance(content, ReadFault):
            where = "by the end of the file" if size <= limit_bytes else f"within max_record_bytes = {limit_bytes}"
            row = ReadFault("unclosed_quote", f"a quote of this record is not closed {where}")
        else:
            row = split(b"".join([data for data, _ in record if isinstance(data, bytes)]), width)
        lines = len(record)
        if isinstance(row, ReadFault):
            last = number + lines - 1
            where = f"line {number}{f' to {last}' if last > number else ''}"
            yield position, ReadFault(row.reason, f"{where}: {row.detail}")
            if lines > 1 and row.reason != "invalid_utf8" and read_again <= FREE_BYTES + 2 * position:
                again.extendleft(reversed(record[1:]))
                read_again += size - record[0][1]
                size, lines = record[0][1], 1
        elif row:
            width = len(row) if width is None else width
            yield position, row
        position += size
        number += lines


_Line = tuple[bytes | ReadFault, int]
"""A line with its end, and its size; a fault for a line over the limit, and for damage (of size 0)."""


def _lines(chunks: Iterator[bytes], limit_bytes: int) -> Iterator[_Line]:
    held: list[bytes] = []
    size = 0

    def line() -> _Line:
        if size > limit_bytes:
            return ReadFault("record_too_large", f"{size} bytes, max_record_bytes = {limit_bytes}"), size
        return b"".join(held), size

    try:
        for chunk in chunks:
            start = 0
            while stop := chunk.find(b"\n", start) + 1:
                size += stop - start
                held.append(chunk[start:stop] if size <= limit_bytes else b"")
                yield line()
                held, size, start = [], 0, stop
            size += len(chunk) - start
            held = [*held, chunk[start:]] if size <= limit_bytes else []
    except ReadFault as fault:
        yield fault, 0
        return
    if size:
        yield line()


def _ends_in_quotes(line: bytes, in_quotes: bool, opening: bytes) -> bool:
    """Whether a quoted field is open after a line; `in_quotes`: whether it was open before the line."""
    start = 0
    if not in_quotes:
        found = -1 if line.startswith(b'"') else line.find(opening)
        if found < 0 and not line.startswith(b'"'):
            return False
        start = found + len(opening) if found >= 0 else 1
    while True:
        start = _IN_QUOTES.match(line, start).end() + 1  # type: ignore[union-attr]
        if start > len(line):
            return True
        found = line.find(opening, start)
        if found < 0:
            return False
        start = found + len(opening)


def _splitter(delimiter: str, quotes: bool) -> Callable[[bytes, int | None], list[str] | ReadFault]:
    mark = re.escape(delimiter)
    field = re.compile(rf'(?:"([^"]*+(?:""[^"]*+)*+)"?([^{mark}]*+)|([^{mark}]*+))({mark}|\Z)')

    def split(data: bytes, width: int | None) -> list[str] | ReadFault:
        """The fields of a record; empty for a blank line."""
        try:
            text = data.decode()
        except UnicodeDecodeError as error:
            return ReadFault("invalid_utf8", f"byte {error.start} of the record: {error.reason}")
        text = text.removesuffix("\n").removesuffix("\r")
        if not text or (text.isspace() and delimiter not in text):
            return []
        if not quotes or '"' not in text:
            row = text.split(delimiter)
        else:
            row = []
            for match in field.finditer(text):
                quoted, after, bare, end = match.groups()
                row.append(bare if quoted is None else quoted.replace('""', '"') + after)
                if after:
                    row = Repaired(row)
                if not end:
                    break
        if width is not None and len(row) != width:
            return ReadFault("wrong_field_count", f"{counted(len(row), 'field')}, and the header has {width:,}")
        return row

    return split
