"""How large the dictionaries of a Parquet file are, read from the footer and the page headers themselves.

A dictionary holds a text once for any number of rows, and Arrow spells it out for every row of a batch: a file of a
megabyte asks for terabytes. What pyarrow tells of a column does not hold the size of its dictionary, and asking for it
ends the process where the footer is damaged (an uncaught C++ exception, pyarrow 26). Both structures are Thrift in the
compact protocol (parquet.thrift of parquet-format); only the fields that are needed are looked at.
"""

from collections.abc import Callable
from typing import Any, Protocol

from gristmill.thrift import LIST, Compact, Unreadable

_DICTIONARY_PAGE, _DATA_PAGES = 2, (0, 3)
_MOST_FOOTER_BYTES = 1 << 28
_PAGE_HEADER_BYTES = (1 << 8, 1 << 14)
"""What is read of a page to have its header, which statistics make long: little at first, for there are many pages."""
_MOST_PAGES = 8
"""Pages of other kinds that may stand before a dictionary."""


class File(Protocol):
    def seek(self, offset: int, whence: int = 0) -> int: ...
    def read(self, size: int = -1) -> bytes: ...


def dictionary_bytes(file: File, size: int) -> list[int]:
    """For each row group the size of its largest dictionary, unpacked; 0 where it has none. Raises `Unreadable`."""
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
                places = _struct(footer, {1: lambda: _list(footer, lambda: _first_page(footer))}).get(1, [])
                largest.append(max((_dictionary(file, size, place) for place in places if place), default=0))
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
    """Of a ColumnChunk: the offset of its first page, the dictionary if it has one."""
    numbers = {1: footer.number, 9: footer.number, 11: footer.number}
    about = _struct(footer, {3: lambda: _struct(footer, numbers)}).get(3, {})
    strings = about.get(1) == 6  # BYTE_ARRAY: the others have values of a few bytes
    offsets = [offset for offset in (about.get(9, 0), about.get(11, 0)) if offset > 0]
    return min(offsets) if strings and offsets else 0


def _dictionary(file: File, size: int, place: int) -> int:
    for _ in range(_MOST_PAGES):
        if not 0 < place < size:
            return 0
        page, length = _page_header(file, place)
        if page.get(1) == _DICTIONARY_PAGE:
            return max(int(page.get(2, 0)), 0)
        if page.get(1) in _DATA_PAGES:
            return 0
        place += length + max(int(page.get(3, 0)), 0)
    raise Unreadable


def _page_header(file: File, place: int) -> tuple[dict[int, Any], int]:
    """Its fields, and how long it is."""
    for size in _PAGE_HEADER_BYTES:
        file.seek(place)
        header = Compact(file.read(size))
        try:
            return _struct(header, {1: header.number, 2: header.number, 3: header.number}), header.at
        except Unreadable:
            continue
    raise Unreadable
