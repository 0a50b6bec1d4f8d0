"""What its name and its first bytes say about the format of a file, for readers that were given one of another."""

import re

import orjson

from gristmill.stages.contract import Piece
from gristmill.stages.ingest.decompress import Fault
from gristmill.stages.ingest.stream import decompressed, peek, without_compression_suffix
from gristmill.stages.ingest.warc_headers import opens_record

HEAD_BYTES = 1 << 16

_BOM = b"\xef\xbb\xbf"
_PARQUET = (b"PAR1", b"PARE")
_ARRAY = re.compile(rb"\[\s*+(?:[{\[\"\]]|\Z)")
_OBJECT = re.compile(rb'\{\s*+["}]')
_MOST_NAME_BYTES = 80
_SUFFIXES = {
    **dict.fromkeys((".csv", ".tsv", ".tab"), "csv"),
    **dict.fromkeys((".jsonl", ".ndjson"), "jsonl"),
    **dict.fromkeys((".warc", ".arc"), "warc"),
    **dict.fromkeys((".txt", ".md", ".rst"), "text"),
    ".json": "json",
    ".parquet": "parquet",
    ".wet": "wet",
}


def format_by_name(name: str) -> str | None:
    """The `format` of a recipe that a file is of by its suffix; that of a compression may follow."""
    _, dot, ending = without_compression_suffix(name).lower().rpartition(".")
    return _SUFFIXES.get(dot + ending)


def format_of(piece: Piece) -> str | None:
    """The `format` of a recipe that a file is of by its first bytes, unpacked; None where they tell nothing."""
    with piece.open() as file:
        head = peek(decompressed(file)[1], HEAD_BYTES)[0]
    return signature(head) or _looks_like(head.removeprefix(_BOM).lstrip())


def signature(head: bytes) -> str | None:
    """The format of a file that begins as only files of that format do."""
    if head.startswith(_PARQUET):
        return "parquet"
    if opens_record(head) is not None:
        return "wet" if b"WARC-Type: conversion" in head else "warc"
    return None


def refuse(head: bytes, reason: str) -> None:
    """Raise `Fault` for a file that is of another format beyond doubt."""
    if (found := signature(head)) is not None:
        raise Fault(reason, f"the file begins with {head[:16]!r}, as those do that `format: {found}` reads")


def _looks_like(head: bytes) -> str | None:
    if _ARRAY.match(head):
        return "json"
    if _OBJECT.match(head):
        try:
            orjson.loads(head.partition(b"\n")[0])
        except orjson.JSONDecodeError:
            return "json" if b"\n" in head else None  # an object over several lines, or a line longer than the head
        return "jsonl"
    return "csv" if _is_table(head) else None


def _is_table(head: bytes) -> bool:
    """Whether the first lines are names and rows of as many fields, without quotes to count."""
    lines = head.split(b"\n")[:4]
    if len(lines) == 4:
        lines.pop()  # it may be cut
    lines = [line.rstrip(b"\r") for line in lines if line.strip()]
    if len(lines) < 2 or b"\0" in head:
        return False
    names = max((lines[0].split(mark) for mark in (b",", b"\t", b";", b"|")), key=len)
    mark = lines[0][len(names[0]) : len(names[0]) + 1]
    return (
        len(names) > 1
        and all(0 < len(name.strip()) <= _MOST_NAME_BYTES for name in names)
        and all(b'"' in line or line.count(mark) == len(names) - 1 for line in lines)
    )
