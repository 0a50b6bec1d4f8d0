"""One Parquet footer for several files with the same rows in the same row groups.

Layers of a document part are such files. Concatenated, with this footer at the end, they form one file with the columns
of all layers. Any Parquet reader can read it, which joins the layers by position without copying or reading columns
that are not needed.

A footer is one structure of Thrift's compact protocol, `FileMetaData` of the Parquet format. The code decodes it
without interpreting most fields, changes names and offsets, and encodes it again.
"""

from collections.abc import Collection, Iterator, Sequence
from typing import NamedTuple

from gristmill.thrift import BINARY, LIST, STRUCT, Compact, Struct, put

MAGIC = b"PAR1"
_SCHEMA, _ROWS, _GROUPS, _ORDERS = 2, 3, 4, 7
"""Fields of FileMetaData."""
_NAME, _CHILDREN, _FIELD_ID = 4, 5, 9
"""Fields of SchemaElement; the first element of a schema is its root."""
_COLUMNS, _GROUP_BYTES, _GROUP_ROWS, _GROUP_AT, _GROUP_COMPRESSED = 1, 2, 3, 5, 6
"""Fields of RowGroup."""
_CHUNK_AT, _CHUNK = 2, 3
"""Fields of ColumnChunk; the others are for indexes and are left out."""
_PATH, _PLACES = 3, (9, 10, 11)
"""Fields of ColumnMetaData: the path in the schema, and the offsets of data, index and dictionary pages."""
_BLOOM = (14, 15)


class LayerFile(NamedTuple):
    """One of the concatenated files."""

    name: str
    """The prefix of its column names: `web/signals` gives `web/signals.words`."""
    footer: bytes
    """The end of the file, including at least the footer."""
    at: int
    """The offset of its first byte in the concatenated file."""
    columns: Collection[str]
    """Its columns to include."""


def joined(layers: Sequence[LayerFile]) -> bytes:
    """The footer, with its length and the magic bytes. Raises ValueError if the row groups differ."""
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
    footer = {field: files[0][field] for field in (1, _ROWS)}
    footer[_SCHEMA] = (LIST, (STRUCT, [root, *elements]))
    footer[_GROUPS] = (LIST, (STRUCT, groups))
    if all(_ORDERS in file for file in files):
        footer[_ORDERS] = (LIST, (STRUCT, orders))
    out = bytearray()
    put(out, STRUCT, footer)
    return bytes(out) + len(out).to_bytes(4, "little") + MAGIC


def _add(groups: list[Struct], more: list[Struct]) -> None:
    """Add the columns of another file to the row groups."""
    if not groups:
        groups += more
        return
    if [group[_GROUP_ROWS] for group in groups] != [group[_GROUP_ROWS] for group in more]:
        raise ValueError("the files have different row groups, so they cannot share a footer")
    for group, other in zip(groups, more, strict=True):
        group[_COLUMNS] = (LIST, (STRUCT, [*group[_COLUMNS][1][1], *other[_COLUMNS][1][1]]))
        for field in {_GROUP_BYTES, _GROUP_COMPRESSED} & group.keys() & other.keys():
            group[field] = (group[field][0], group[field][1] + other[field][1])


def _columns(elements: Sequence[Struct]) -> Iterator[list[Struct]]:
    """The schema elements of each column: its own and its nested ones."""
    column: list[Struct] = []
    inside = 0
    for element in elements:
        column.append(element)
        inside = max(inside - 1, 0) + element.get(_CHILDREN, (0, 0))[1]
        if inside == 0:
            yield column
            column = []


def _renamed(column: Sequence[Struct], name: str) -> list[Struct]:
    """Rename the column; nested elements keep their names."""
    top, *inner = ({field: value for field, value in one.items() if field != _FIELD_ID} for one in column)
    return [{**top, _NAME: (BINARY, _prefixed(name, top[_NAME][1]))}, *inner]


def _prefixed(name: str, column: bytes) -> bytes:
    return f"{name}.".encode() + column


def _moved(group: Struct, layer: LayerFile) -> Struct:
    chunks = []
    for chunk in group[_COLUMNS][1][1]:
        meta = {field: value for field, value in chunk[_CHUNK][1].items() if field not in _BLOOM}
        path = meta[_PATH][1][1]
        if path[0].decode() not in layer.columns:
            continue
        meta[_PATH] = (LIST, (BINARY, [_prefixed(layer.name, path[0]), *path[1:]]))
        for field in _PLACES:
            if field in meta:
                meta[field] = (meta[field][0], meta[field][1] + layer.at)
        chunks.append({_CHUNK_AT: (6, 0), _CHUNK: (STRUCT, meta)})
    kept = {field: group[field] for field in (_GROUP_BYTES, _GROUP_ROWS, _GROUP_COMPRESSED) if field in group}
    return {_COLUMNS: (LIST, (STRUCT, chunks)), **kept}


def _read(end: bytes) -> Struct:
    length = int.from_bytes(end[-8:-4], "little")
    return Compact(end[-8 - length : -8]).struct()
