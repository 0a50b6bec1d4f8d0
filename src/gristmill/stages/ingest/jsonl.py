"""Reads JSON Lines: one object per line, plain or compressed.

Lines end at `\\n` or `\\r\\n` only (U+2028 may be in a text); blank lines are skipped. A record's position is the first
byte of its line in the decompressed stream, so reading a plain file can start anywhere. If the stream breaks off, every
whole line before the break is kept and one row says what happened.
"""

import re
from collections.abc import Iterable, Iterator
from typing import Any

import orjson

from gristmill.schema import Record
from gristmill.stages.contract import Piece, Reader
from gristmill.stages.ingest.sniff import beginning, refuse
from gristmill.stages.reading.decompress import UNPACKING, ReadFault
from gristmill.stages.reading.fields import RowConfig, mapper
from gristmill.stages.reading.json_value import BOM, parsed, repaired
from gristmill.stages.reading.stream import decompressed, peek, plain_chunks

_HEAD_BYTES = 1 << 16
# A file is not JSONL if its first 64 KiB hold this many lines without an object. Without this rule, a stray archive of
# a gigabyte would become four million bad rows.
_HEAD_LINES = 16
_HINT = "; a file that is one JSON array is read by `format: json`"


class Config(RowConfig):
    """How lines become documents."""


def read(piece: Piece, config: Config) -> Iterator[Record]:
    """Reasons: `empty_file`, `not_jsonl`, `record_too_large`, `invalid_json`, `invalid_utf8`, `not_an_object`,
    `missing_text`, `empty_text`, `bad_field_type`, and `truncated_` or `corrupt_` with `gzip`, `zstd`, `bzip2`, `xz`.
    """
    with piece.open() as file:
        plain, chunks = decompressed(file)
        head, broken, chunks = peek(chunks, _HEAD_BYTES)
        try:
            _refuse_head(head, plain, broken)
        except ReadFault as fault:
            if piece.start == 0 and piece.stop != 0:
                yield Record(0, drop=fault.reason, detail=fault.detail)
            return
        position = 0
        if plain and piece.start > 0:
            position = piece.start - 1  # of a line that is the previous piece's
            file.seek(position)
            chunks = plain_chunks(file)
        found = lines(chunks, position, config.max_record_bytes)
        yield from records(found, piece, mapper(config.fields, config.keep_meta), "blank lines, no record")


def records(found: Iterator[tuple[int, bytes | ReadFault]], piece: Piece, record: Any, empty: str) -> Iterator[Record]:
    """Maps each row of a piece with `record` (a mapper); `empty` is the detail for a file without any rows."""
    start, stop = piece.start, piece.stop
    position = None
    for position, line in found:
        if stop is not None and position >= stop:
            return
        if position < start:
            continue
        try:
            row = parsed(line, first=position == 0)
        except ReadFault as fault:
            is_array = position == 0 and isinstance(line, bytes) and line.removeprefix(BOM).lstrip()[:1] == b"["
            yield Record(position, drop=fault.reason, detail=fault.detail + (_HINT if is_array else ""))
            continue
        yield record(position, row)
    if position is None and start == 0 and stop != 0:
        yield Record(0, drop="empty_file", detail=empty)


# From the first non-blank character of a line to its end. Runs of blank lines, of which a small compressed file can
# hold a gigabyte, are skipped at the speed of memory.
_LINE = re.compile(rb"\S[^\n]*")


def lines(chunks: Iterable[bytes], position: int, limit_bytes: int) -> Iterator[tuple[int, bytes | ReadFault]]:
    """Lines that are not blank, with their positions. Yields a fault for a line over the limit, and for damage to the
    stream at the position of the line that it cut off."""
    pending: list[bytes] = []
    held = 0
    blank = True

    def ended(size: int) -> bytes | ReadFault:
        if size > limit_bytes:
            return ReadFault("record_too_large", f"{size} bytes, max_record_bytes = {limit_bytes}")
        return b"".join(pending)

    try:
        for chunk in chunks:
            first = chunk.find(b"\n") + 1
            if not first:
                rest = chunk
            else:
                held += first - 1
                pending.append(chunk[: first - 1])
                if not blank or not (first == 1 or pending[-1].isspace()):
                    yield position, ended(held)
                start = position + held + 1 - first
                last = chunk.rfind(b"\n") + 1
                next_start = first
                for found in _LINE.finditer(chunk, first, last):
                    begin = max(chunk.rfind(b"\n", next_start, found.start()) + 1, next_start)
                    next_start = found.end() + 1
                    line = chunk[begin : found.end()]
                    yield start + begin, line if len(line) <= limit_bytes else ended(len(line))
                position, held, blank = start + last, 0, True
                pending.clear()
                rest = chunk[last:]
            held += len(rest)
            blank = blank and (not rest or rest.isspace())
            if held <= limit_bytes:
                pending.append(rest)
            else:
                pending.clear()
    except ReadFault as fault:
        yield position, fault
        return
    if not blank:
        yield position, ended(held)


def _refuse_head(head: bytes, plain: bool, broken: bool) -> None:
    """Raises `ReadFault` for a file that is not JSONL at all. Reads only its start, so that all its pieces agree."""
    refuse(head, plain, "not_jsonl")
    head = head.removeprefix(BOM)
    if not broken and len(head) < _HEAD_BYTES and not head.strip():
        raise ReadFault("empty_file", f"{len(head)} bytes, no record")
    lines_checked = 0
    for line in head.split(b"\n")[:-1]:
        if not line or line.isspace():
            continue
        if not lines_checked and line.strip() == b"[":
            raise ReadFault("not_jsonl", f"its first line opens an array{_HINT}")
        lines_checked += 1
        try:
            if type(orjson.loads(line)) is dict:
                return
        except orjson.JSONDecodeError:
            if type(repaired(line)) is dict:
                return
    if lines_checked >= _HEAD_LINES:
        raise ReadFault(
            "not_jsonl", f"no JSON object in the first {lines_checked} lines; the file begins with {beginning(head)}"
        )


STAGE = Reader(
    version=10,
    config=Config,
    libraries=("orjson", *UNPACKING),
    positions="bytes of the decompressed stream",
    splittable=True,
    read=read,
)
