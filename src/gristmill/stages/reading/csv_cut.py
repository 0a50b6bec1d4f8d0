"""Cuts a stream of CSV into rows, in bounded memory and in work that grows with the stream.

Every byte is looked at once, except where a record turns out not to fit: then its first line is given up and the rest
is read again, as long as all that was read again stays below twice what was read. Beyond that (a file that is nothing
but faults) all its lines are given up at once.
"""

import re
from collections.abc import Callable, Iterator

from gristmill.counted import counted
from gristmill.stages.reading.decompress import Fault

FREE_BYTES = 1 << 20
"""What may be read again at the start of a file, however little was read."""

_IN_QUOTES = re.compile(rb'[^"]*+(?:""[^"]*+)*+')
_RESUMED = ("wrong_field_count", "unclosed_quote")


class Mended(list[str]):
    """A row of which a field goes on behind its closing quote."""

    lines_below: int = 0
    """How far below the quote that it closes that one stands: rows may be joined, where one was never closed."""


def cut(
    chunks: Iterator[bytes], delimiter: str, quotes: bool, width: int | None, limit_bytes: int
) -> Iterator[tuple[int, list[str] | Fault]]:
    """The rows with their positions; `width` fields each, or as many as the first has. What does not fit is a fault in
    its place, with its line, and so is damage to the stream, at the position of the record that it cut off.
    """
    scan, split = _Scan(delimiter, quotes), _splitter(delimiter, quotes)
    chunk, at, position, read_again, line = b"", 0, 0, 0, 1
    while True:
        try:
            data, size, chunk, at = _record(chunks, chunk, at, scan, limit_bytes)
        except Fault as fault:
            yield position, fault
            return
        if not size:
            return
        row = scan.fault(size, limit_bytes) or split(data, width)
        end = size
        if isinstance(row, Fault) and row.reason in _RESUMED and 0 < (first := data.find(b"\n") + 1) < size:
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
            yield position, _at(row, line, data) if isinstance(row, Fault) else row
        position += end
        line += 1 if scan.too_long else data.count(b"\n", 0, end)


def _at(fault: Fault, line: int, data: bytes) -> Fault:
    """The fault with the lines of its record: one that goes over many may have a quote that was never closed."""
    last = line + data.count(b"\n") - data.endswith(b"\n")
    return Fault(fault.reason, f"line {line}{f' to {last}' if last > line else ''}: {fault.detail}")


def _record(
    chunks: Iterator[bytes], chunk: bytes, at: int, scan: "_Scan", limit_bytes: int
) -> tuple[bytes, int, bytes, int]:
    """The next record with its line's end, its size, and where reading goes on. No size: the stream has ended. One that
    is too long comes without its bytes if it is one line, and up to the limit if a quote runs on over many.
    """
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
    """Where in a record the stream is."""

    def __init__(self, delimiter: str, quotes: bool) -> None:
        self._quotes = quotes
        self._next = re.compile(rb'\n|(?<=%b)"' % re.escape(delimiter.encode()) if quotes else rb"\n")
        self._delimiter = delimiter.encode()
        self.begin()

    def begin(self) -> None:
        self.too_long = False
        """A line over the limit: only its end is looked for."""
        self.ran_on = False
        """Over the limit in quotes that go over several lines."""
        self._at_start = self._quotes
        """Whether a field begins here, so that a quote would open it."""
        self._in_quotes = False
        self._after_quote = False
        """Whether the last byte was a quote inside of quotes: the next one tells whether it closes them."""

    def fault(self, size: int, limit_bytes: int) -> Fault | None:
        """What is wrong with a record of that size that was scanned to its end, or as far as it may go."""
        if self.too_long:
            return Fault("record_too_large", f"{size} bytes, max_record_bytes = {limit_bytes}")
        if self.ran_on:
            return Fault(
                "unclosed_quote", f"a quote of this record is not closed within max_record_bytes = {limit_bytes}"
            )
        if self._in_quotes and not self._after_quote:
            return Fault("unclosed_quote", "a quote of this record is not closed by the end of the file")
        return None

    def end_in(self, chunk: bytes, at: int, edge: int) -> int | None:
        """Where before the edge, behind its line's end, the record ends; None where it goes on. No byte is looked at
        twice.
        """
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


def _splitter(delimiter: str, quotes: bool) -> Callable[[bytes, int | None], list[str] | Fault]:
    mark = re.escape(delimiter)
    field = re.compile(rf'(?:"([^"]*+(?:""[^"]*+)*+)"?([^{mark}]*+)|([^{mark}]*+))({mark}|\Z)')

    def split(data: bytes, width: int | None) -> list[str] | Fault:
        """The fields of a record; none of a blank line."""
        try:
            text = data.decode()
        except UnicodeDecodeError as error:
            return Fault("invalid_utf8", f"byte {error.start} of the record: {error.reason}")
        text = text.removesuffix("\n").removesuffix("\r")
        if not text or (text.isspace() and delimiter not in text):
            return []
        if not quotes or '"' not in text:
            row = text.split(delimiter)
        else:
            row, mended = [], Mended()
            is_mended = False
            for found in field.finditer(text):
                inner, behind, bare, end = found.groups()
                row.append(bare if inner is None else inner.replace('""', '"') + behind)
                if behind:
                    is_mended = True
                    mended.lines_below = max(mended.lines_below, inner.count("\n"))
                if not end:
                    break
            if is_mended:
                mended.extend(row)
                row = mended
        if width is not None and len(row) != width:
            return Fault("wrong_field_count", f"{counted(len(row), 'field')}, and the header has {width:,}")
        return row

    return split
