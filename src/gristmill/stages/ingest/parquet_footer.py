"""Reads the sizes of a Parquet file's dictionaries from the footer and the page headers.

A dictionary holds a text once for any number of rows, but Arrow repeats it for every row of a batch: a file of a
megabyte can need terabytes. pyarrow's column metadata lacks the size of the dictionary, and reading it from pyarrow
ends the process if the footer is damaged (an uncaught C++ exception, pyarrow 26). Both structures are Thrift in the
compact protocol (parquet.thrift of parquet-format); only the necessary fields are parsed.
"""

from collections.abc import Callable, Iterator
from typing import Any, Protocol

TRUE, FALSE, BYTE, I16, I32, I64, DOUBLE, BINARY, LIST, SET, MAP, STRUCT = range(1, 13)
_DEPTH = 24
_DICTIONARY_PAGE, _DATA_PAGES = 2, (0, 3)
_MOST_FOOTER_BYTES = 1 << 28
_PAGE_HEADER_BYTES = (1 << 8, 1 << 14)
"""How much of a page is read for its header, which statistics make long. Little at first: there are many pages."""
_MOST_PAGES = 8
"""Pages of other kinds that may come before a dictionary."""


class Unreadable(Exception):
    """The bytes are not valid. The caller reports what is wrong with the file."""


class Compact:
    """A reader of the part of Thrift's compact protocol that Parquet uses. It is safe on damaged data: it raises
    `Unreadable` instead of reading past the end."""

    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    def byte(self) -> int:
        if self.at >= len(self.data):
            raise Unreadable
        self.at += 1
        return self.data[self.at - 1]

    def varint(self) -> int:
        value = shift = 0
        while True:
            byte = self.byte()
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value
            if shift > 63:
                raise Unreadable

    def number(self) -> int:
        value = self.varint()
        return value >> 1 ^ -(value & 1)

    def fields(self) -> Iterator[tuple[int, int]]:
        """Number and type of each field of a struct; the caller reads or skips its value."""
        last = 0
        while head := self.byte():
            last = last + (head >> 4) if head >> 4 else self.number()
            yield last, head & 15

    def entries(self) -> tuple[int, int]:
        """Count and type of a list; each entry takes at least one byte."""
        head = self.byte()
        count = self.varint() if head >> 4 == 15 else head >> 4
        if count > len(self.data) - self.at:
            raise Unreadable
        return count, head & 15

    def skip(self, kind: int, depth: int = 0, in_list: bool = False) -> None:
        if depth > _DEPTH:
            raise Unreadable
        if kind in (TRUE, FALSE):
            self.at += in_list
        elif kind in (BYTE, DOUBLE):
            self.at += 1 if kind == BYTE else 8
        elif kind in (I16, I32, I64):
            self.varint()
        elif kind == BINARY:
            length = self.varint()
            self.at += length
        elif kind in (LIST, SET):
            count, inner = self.entries()
            for _ in range(count):
                self.skip(inner, depth + 1, True)
        elif kind == STRUCT:
            for _, inner in self.fields():
                self.skip(inner, depth + 1)
        else:  # maps do not occur
            raise Unreadable


class FooterFile(Protocol):
    def seek(self, offset: int, whence: int = 0) -> int: ...
    def read(self, size: int = -1) -> bytes: ...


def dictionary_bytes(file: FooterFile, size: int) -> list[int]:
    """The uncompressed size of each row group's largest dictionary; 0 if it has no dictionary. Raises `Unreadable`."""
    file.seek(max(size - 8, 0))
    tail = file.read(8)
    length = int.from_bytes(tail[:4], "little")
    if tail[4:] != b"PAR1" or length > min(size - 8, _MOST_FOOTER_BYTES):
        raise Unreadable
    file.seek(size - 8 - length)
    footer = Compact(file.read(length))
    largest: list[int] = []
    for number, kind in footer.fields():
        if number == 4 and kind == LIST:
            count, _ = footer.entries()
            for _ in range(count):
                offsets = _struct(footer, {1: lambda: _list(footer, lambda: _first_page(footer))}).get(1, [])
                largest.append(max((_dictionary(file, size, offset) for offset in offsets if offset), default=0))
        else:
            footer.skip(kind)
    return largest


def _struct(data: Compact, wanted: dict[int, Callable[[], Any]]) -> dict[int, Any]:
    found: dict[int, Any] = {}
    for number, kind in data.fields():
        if number in wanted:
            found[number] = wanted[number]()
        else:
            data.skip(kind)
    return found


def _list(data: Compact, item: Callable[[], Any]) -> list[Any]:
    count, _ = data.entries()
    return [item() for _ in range(count)]


def _first_page(footer: Compact) -> int:
    """The offset of a ColumnChunk's first page, which is the dictionary if it has one."""
    numbers = {1: footer.number, 9: footer.number, 11: footer.number}
    about = _struct(footer, {3: lambda: _struct(footer, numbers)}).get(3, {})
    strings = about.get(1) == 6  # BYTE_ARRAY; other types have values of a few bytes
    offsets = [offset for offset in (about.get(9, 0), about.get(11, 0)) if offset > 0]
    return min(offsets) if strings and offsets else 0


def _dictionary(file: FooterFile, size: int, offset: int) -> int:
    for _ in range(_MOST_PAGES):
        if not 0 < offset < size:
            return 0
        page, length = _page_header(file, offset)
        if page.get(1) == _DICTIONARY_PAGE:
            return max(int(page.get(2, 0)), 0)
        if page.get(1) in _DATA_PAGES:
            return 0
        offset += length + max(int(page.get(3, 0)), 0)
    raise Unreadable


def _page_header(file: FooterFile, offset: int) -> tuple[dict[int, Any], int]:
    """The fields of a page header, and its length."""
    for size in _PAGE_HEADER_BYTES:
        file.seek(offset)
        header = Compact(file.read(size))
        try:
            return _struct(header, {1: header.number, 2: header.number, 3: header.number}), header.at
        except Unreadable:
            continue
    raise Unreadable
