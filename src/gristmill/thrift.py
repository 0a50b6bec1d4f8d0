"""The part of Thrift's compact protocol that Parquet uses (parquet.thrift of parquet-format)."""

from collections.abc import Iterator
from typing import Any

TRUE, FALSE, BYTE, I16, I32, I64, DOUBLE, BINARY, LIST, SET, MAP, STRUCT = range(1, 13)
_DEPTH = 24

Struct = dict[int, tuple[int, Any]]
"""Field -> (type, value)."""


class Unreadable(Exception):
    """The bytes are not valid. The caller reports what is wrong with the file."""


class Compact:
    """A reader that is safe on damaged data: it raises `Unreadable` instead of reading past the end."""

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

    def take(self, count: int) -> bytes:
        if count > len(self.data) - self.at:
            raise Unreadable
        self.at += count
        return self.data[self.at - count : self.at]

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

    def value(self, kind: int, depth: int = 0) -> Any:
        """A value of a type: a struct as fields, a list as its type and entries, a number, or bytes."""
        if depth > _DEPTH or kind == MAP:  # maps do not occur
            raise Unreadable
        if kind == STRUCT:
            return self.struct(depth)
        if kind in (LIST, SET):
            count, inner = self.entries()
            return inner, [self.value(inner, depth + 1) for _ in range(count)]
        if kind == BINARY:
            return self.take(self.varint())
        if kind in (TRUE, FALSE, BYTE):  # in a list; the value of a field is its type
            return self.byte()
        return self.take(8) if kind == DOUBLE else self.number()

    def struct(self, depth: int = 0) -> Struct:
        return {
            field: (kind, None if kind in (TRUE, FALSE) else self.value(kind, depth + 1))
            for field, kind in self.fields()
        }


def put(out: bytearray, kind: int, value: Any) -> None:
    """Write a value of a type, in the form that `Compact.value` returns."""
    if kind == STRUCT:
        before = 0
        for field, (inner, held) in sorted(value.items()):
            if 0 < field - before < 16:
                out.append((field - before) << 4 | inner)
            else:
                out.append(inner)
                _put_varint(out, field << 1)
            before = field
            if inner not in (TRUE, FALSE):
                put(out, inner, held)
        out.append(0)
    elif kind in (LIST, SET):
        inner, held = value
        out.append(min(len(held), 15) << 4 | inner)
        if len(held) >= 15:
            _put_varint(out, len(held))
        for one in held:
            put(out, inner, one)
    elif kind == BINARY:
        _put_varint(out, len(value))
        out += value
    elif kind in (TRUE, FALSE, BYTE):
        out.append(value)
    elif kind == DOUBLE:
        out += value
    else:
        _put_varint(out, value << 1 if value >= 0 else (-value << 1) - 1)


def _put_varint(out: bytearray, value: int) -> None:
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
