"""Cuts a stream of CSV into rows, in bounded memory and linear time.

Every byte is read once, unless a record does not fit: then its first line is dropped and the rest is read again, as
long as the bytes that are read again stay below twice the bytes that were read. Beyond that (a file full of faults) all
lines of the record are dropped at once.
"""

import re
from collections.abc import Callable, Iterator

from gristmill.counted import counted
from gristmill.stages.reading.decompress import ReadFault

FREE_BYTES = 1 << 20
"""How much may be read again at the start of a file, no matter how little was read."""

_IN_QUOTES = re.compile(rb'[^"]*+(?:""[^"]*+)*+')
_RESUMED = ("wrong_field_count", "unclosed_quote")


class Repaired(list[str]):
    """A row with a field that continues after its closing quote."""

    lines_below: int = 0
    """How many lines below its opening quote the closing quote is. If a quote was never closed, rows may be joined."""


def cut(
    chunks: Iterator[bytes], delimiter: str, quotes: bool, width: int | None, limit_bytes: int
) -> Iterator[tuple[int, list[str] | ReadFault]]:
    """The rows with their positions; `width` fields each, or as many as the first has. Yields a fault, with its line,
    for a row that does not fit, and for damage to the stream, at the position of the record that it cut off."""
    scan, split = _Scan(delimiter, quotes), _splitter(delimiter, quotes)
    chunk, at, position, read_again, line = b"", 0, 0, 0, 1
    while True:
        try:
            data, size, chunk, at = _record(chunks, chunk, at, scan, limit_bytes)
        except ReadFault as fault:
            yield position, fault
            return
        if not size:
            return
        row = scan.fault(size, limit_bytes) or split(data, width)
        end = size
        if isinstance(row, ReadFault) and row.reason in _RESUMED and 0 < (first := data.find(b"\n") + 1) < size:
            end = first if read_again <= FREE_BYTES + 2 * position else data.rfind(b"\n") + 1
            back = size - end
            read_again += back
            if back <= at:
                at -= back
            else:  # it began in an earlier chunk; joined with this one, so that a chunk is copied once
                chunk, at = data[end:] + chunk[at:], 0
        elif isinstance(row, list) and width is None and row:
            width = len(row)
        if row:
            yield position, _at(row, line, data) if isinstance(row, ReadFault) else row
        position += end
        line += 1 if scan.too_long else data.count(b"\n", 0, end)


def _at(fault: ReadFault, line: int, data: bytes) -> ReadFault:
    """Adds the lines of the record to the fault: a record of many lines may have a quote that was never closed."""
    last = line + data.count(b"\n") - data.endswith(b"\n")
    return ReadFault(fault.reason, f"line {line}{f' to {last}' if last > line else ''}: {fault.detail}")


def _record(
    chunks: Iterator[bytes], chunk: bytes, at: int, scan: "_Scan", limit_bytes: int
) -> tuple[bytes, int, bytes, int]:
    """The next record with its line end, its size, and where reading continues. Size 0: the stream has ended. A record
    that is too long comes without its bytes if it is one line, and up to the limit if a quote spans many lines."""
    scan.begin()
    held: list[bytes] = []
    size = 0
    while True:
        if at >= len(chunk):
            chunk, at = next(chunks, b""), 0
            if not chunk:
                return b"".join(held), size, b"", 0
        edge = len(chunk) if scan.too_long else min(len(chunk), at + limit_bytes + 1 - size)
        stop = scan.end_in(chunk, at, edge)
        part = chunk[at : edge if stop is None else stop]
        size += len(part)
        if not scan.too_long:
            held.append(part)
        at += len(part)
        if stop is not None:
            return b"".join(held), size, chunk, at
        if size > limit_bytes and not scan.too_long:
            if any(b"\n" in part for part in held):
                scan.ran_on = True
                return b"".join(held), size, chunk, at
            scan.too_long = True
            held.clear()


class _Scan:
    """The state of the stream within a record."""

    def __init__(self, delimiter: str, quotes: bool) -> None:
        self._quotes = quotes
        self._next = re.compile(rb'\n|(?<=%b)"' % re.escape(delimiter.encode()) if quotes else rb"\n")
        self._delimiter = delimiter.encode()
        self.begin()

    def begin(self) -> None:
        self.too_long = False
        """A line over the limit: only its end is searched for."""
        self.ran_on = False
        """Over the limit within quotes that span several lines."""
        self._at_start = self._quotes
        """Whether a field begins here, so that a quote would open it."""
        self._in_quotes = False
        self._after_quote = False
        """Whether the last byte was a quote within quotes. The next byte decides whether it closes them."""

    def fault(self, size: int, limit_bytes: int) -> ReadFault | None:
        """The fault of a record of this size that was scanned to its end, or to the limit."""
        if self.too_long:
            return ReadFault("record_too_large", f"{size} bytes, max_record_bytes = {limit_bytes}")
        if self.ran_on:
            return ReadFault(
                "unclosed_quote", f"a quote of this record is not closed within max_record_bytes = {limit_bytes}"
            )
        if self._in_quotes and not self._after_quote:
            return ReadFault("unclosed_quote", "a quote of this record is not closed by the end of the file")
        return None

    def end_in(self, chunk: bytes, at: int, edge: int) -> int | None:
        """Where the record ends before `edge`, after its line end; None if it continues. Reads no byte twice."""
        if self.too_long:
            return chunk.find(b"\n", at, edge) + 1 or None
        if self._after_quote:
            self._after_quote = False
            self._in_quotes = chunk[at] == 0x22
            at += self._in_quotes
        elif self._at_start and chunk[at] == 0x22:
            self._in_quotes = True
            at += 1
        self._at_start = False
        while True:
            if self._in_quotes:
                at = _IN_QUOTES.match(chunk, at, edge).end() + 1  # type: ignore[union-attr]
                if at >= edge:
                    self._after_quote = at == edge
                    return None
                self._in_quotes = False
            found = self._next.search(chunk, at, edge)
            if found is None:
                self._at_start = self._quotes and chunk[edge - 1 : edge] == self._delimiter
                return None
            at = found.end()
            if found[0] == b"\n":
                return at
            self._in_quotes = True


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
            row, repaired = [], Repaired()
            is_repaired = False
            for found in field.finditer(text):
                inner, after, bare, end = found.groups()
                row.append(bare if inner is None else inner.replace('""', '"') + after)
                if after:
                    is_repaired = True
                    repaired.lines_below = max(repaired.lines_below, inner.count("\n"))
                if not end:
                    break
            if is_repaired:
                repaired.extend(row)
                row = repaired
        if width is not None and len(row) != width:
            return ReadFault("wrong_field_count", f"{counted(len(row), 'field')}, and the header has {width:,}")
        return row

    return split
