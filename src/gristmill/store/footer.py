"""One Parquet footer for several files with the same rows in the same row groups.

Layers of a document part are such files. Laid one behind the other, with this footer at the end, they are one file with
the columns of all of them: whoever reads Parquet joins them by position without knowing it, and no byte of a column is
copied or touched that is not asked for.

A footer is one structure of Thrift's compact protocol, `FileMetaData` of the Parquet format. It is taken apart without
knowing what most of its fields mean, and put together again with names and places changed.
"""

from collections.abc import Collection, Iterator, Sequence
from typing import Any, NamedTuple

MAGIC = b"PAR1"
_TRUE, _FALSE, _BYTE, _DOUBLE, _BINARY, _LIST, _SET, _MAP, _STRUCT = 1, 2, 3, 7, 8, 9, 10, 11, 12
_SCHEMA, _ROWS, _GROUPS, _ORDERS = 2, 3, 4, 7
"""Fields of FileMetaData."""
_NAME, _CHILDREN, _FIELD_ID = 4, 5, 9
"""Of a SchemaElement; the first of a schema is its root."""
_COLUMNS, _GROUP_BYTES, _GROUP_ROWS, _GROUP_AT, _GROUP_COMPRESSED = 1, 2, 3, 5, 6
"""Of a RowGroup."""
_CHUNK_AT, _CHUNK = 2, 3
"""Of a ColumnChunk; its others name indexes, which are left out."""
_PATH, _PLACES = 3, (9, 10, 11)
"""Of ColumnMetaData: the path in the schema; where data, index and dictionary pages begin."""
_BLOOM = (14, 15)

Struct = dict[int, tuple[int, Any]]
"""Field -> (type, value)."""


class Layer(NamedTuple):
    """A file among others."""

    name: str
    """Stands before the names of its columns: `web/signals` makes `web/signals.words`."""
    footer: bytes
    """Its end, from anywhere before the footer on."""
    at: int
    """Where it begins among them, in bytes."""
    columns: Collection[str]
    """Those that are wanted of it."""


def joined(layers: Sequence[Layer]) -> bytes:
    """The footer, with its length and the mark of the format; ValueError where the rows are not the same."""
    files = [_read(layer.footer) for layer in layers]
    root = dict(files[0][_SCHEMA][1][1][0])
    elements: list[Struct] = []
    groups: list[Struct] = []
    orders: list[Struct] = []
    children = 0
    for layer, file in zip(layers, files, strict=True):
        leaf = 0
        for column in _columns(file[_SCHEMA][1][1][1:]):
            leaves = range(leaf, leaf := leaf + sum(_CHILDREN not in element for element in column))
            if column[0][_NAME][1].decode() in layer.columns:
                children += 1
                elements += _renamed(column, layer.name)
                orders += [file[_ORDERS][1][1][at] for at in leaves] if _ORDERS in file else []
        _add(groups, [_moved(group, layer) for group in file[_GROUPS][1][1]])
    root[_CHILDREN] = (root[_CHILDREN][0], children)
    made = {field: files[0][field] for field in (1, _ROWS)}
    made[_SCHEMA] = (_LIST, (_STRUCT, [root, *elements]))
    made[_GROUPS] = (_LIST, (_STRUCT, groups))
    if all(_ORDERS in file for file in files):
        made[_ORDERS] = (_LIST, (_STRUCT, orders))
    out = bytearray()
    _put(out, _STRUCT, made)
    return bytes(out) + len(out).to_bytes(4, "little") + MAGIC


def _add(groups: list[Struct], more: list[Struct]) -> None:
    """Columns of another file to the row groups of those before it."""
    if not groups:
        groups += more
        return
    if [group[_GROUP_ROWS] for group in groups] != [group[_GROUP_ROWS] for group in more]:
        raise ValueError("files of other rows have no footer together")
    for group, other in zip(groups, more, strict=True):
        group[_COLUMNS] = (_LIST, (_STRUCT, [*group[_COLUMNS][1][1], *other[_COLUMNS][1][1]]))
        for field in {_GROUP_BYTES, _GROUP_COMPRESSED} & group.keys() & other.keys():
            group[field] = (group[field][0], group[field][1] + other[field][1])


def _columns(elements: Sequence[Struct]) -> Iterator[list[Struct]]:
    """The elements of each column: its own, and those that lie inside of it."""
    column: list[Struct] = []
    inside = 0
    for element in elements:
        column.append(element)
        inside = max(inside - 1, 0) + element.get(_CHILDREN, (0, 0))[1]
        if inside == 0:
            yield column
            column = []


def _renamed(column: Sequence[Struct], name: str) -> list[Struct]:
    """By its new name; what lies inside of it keeps its own."""
    top, *inner = ({field: value for field, value in one.items() if field != _FIELD_ID} for one in column)
    return [{**top, _NAME: (_BINARY, _prefixed(name, top[_NAME][1]))}, *inner]


def _prefixed(name: str, column: bytes) -> bytes:
    return f"{name}.".encode() + column


def _moved(group: Struct, layer: Layer) -> Struct:
    chunks = []
    for chunk in group[_COLUMNS][1][1]:
        meta = {field: value for field, value in chunk[_CHUNK][1].items() if field not in _BLOOM}
        path = meta[_PATH][1][1]
        if path[0].decode() not in layer.columns:
            continue
        meta[_PATH] = (_LIST, (_BINARY, [_prefixed(layer.name, path[0]), *path[1:]]))
        for field in _PLACES:
            if field in meta:
                meta[field] = (meta[field][0], meta[field][1] + layer.at)
        chunks.append({_CHUNK_AT: (6, 0), _CHUNK: (_STRUCT, meta)})
    kept = {field: group[field] for field in (_GROUP_BYTES, _GROUP_ROWS, _GROUP_COMPRESSED) if field in group}
    return {_COLUMNS: (_LIST, (_STRUCT, chunks)), **kept}


def _read(end: bytes) -> Struct:
    length = int.from_bytes(end[-8:-4], "little")
    return _get(_Bytes(end[-8 - length : -8]), _STRUCT)  # type: ignore[no-any-return]


class _Bytes:
    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    def take(self, count: int) -> bytes:
        self.at += count
        return self.data[self.at - count : self.at]

    def byte(self) -> int:
        self.at += 1
        return self.data[self.at - 1]

    def varint(self) -> int:
        value = shift = 0
        while True:
            byte = self.byte()
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    def zigzag(self) -> int:
        value = self.varint()
        return value >> 1 ^ -(value & 1)


def _get(data: _Bytes, kind: int) -> Any:
    if kind == _STRUCT:
        return _get_struct(data)
    if kind in (_LIST, _SET):
        head = data.byte()
        count = head >> 4 if head >> 4 < 15 else data.varint()
        return head & 15, [_get(data, head & 15) for _ in range(count)]
    if kind == _BINARY:
        return data.take(data.varint())
    if kind in (_TRUE, _FALSE, _BYTE):  # in a list; the value of a field is its type
        return data.byte()
    if kind == _DOUBLE:
        return data.take(8)
    if kind == _MAP:
        raise ValueError("a Parquet footer has no maps")
    return data.zigzag()


def _get_struct(data: _Bytes) -> Struct:
    found: Struct = {}
    field = 0
    while head := data.byte():
        kind = head & 15
        field = field + (head >> 4) if head >> 4 else data.zigzag()
        found[field] = (kind, None if kind in (_TRUE, _FALSE) else _get(data, kind))
    return found


def _put(out: bytearray, kind: int, value: Any) -> None:
    if kind == _STRUCT:
        before = 0
        for field, (inner, held) in sorted(value.items()):
            if 0 < field - before < 16:
                out.append((field - before) << 4 | inner)
            else:
                out.append(inner)
                _put_varint(out, field << 1)
            before = field
            if inner not in (_TRUE, _FALSE):
                _put(out, inner, held)
        out.append(0)
    elif kind in (_LIST, _SET):
        inner, held = value
        out.append(min(len(held), 15) << 4 | inner)
        if len(held) >= 15:
            _put_varint(out, len(held))
        for one in held:
            _put(out, inner, one)
    elif kind == _BINARY:
        _put_varint(out, len(value))
        out += value
    elif kind in (_TRUE, _FALSE, _BYTE):
        out.append(value)
    elif kind == _DOUBLE:
        out += value
    else:
        _put_varint(out, value << 1 if value >= 0 else (-value << 1) - 1)


def _put_varint(out: bytearray, value: int) -> None:
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
