"""Reads JSON that is not in lines: a file with one array of objects, one object, or several concatenated objects.

Indented or not, plain or compressed. Every element of a top-level array is a record, and so is every top-level object.
The file is read as a stream, cut by quotes and brackets, and only the current element is in memory, so an array may be
larger than memory. A record's position is its first byte in the decompressed stream. An element that is not valid JSON
is lost alone. An element whose brackets or quotes never close takes everything after it with it, and its row says how
much that is.
"""

import re
from collections.abc import Iterator

from gristmill.schema import Record
from gristmill.stages.contract import Piece, Reader
from gristmill.stages.ingest.jsonl import records
from gristmill.stages.ingest.sniff import beginning, refuse
from gristmill.stages.reading.decompress import UNPACKING, ReadFault
from gristmill.stages.reading.fields import RowConfig, mapper
from gristmill.stages.reading.json_value import BOM
from gristmill.stages.reading.stream import decompressed, peek

_HEAD_BYTES = 1 << 12
_SPACE = b" \t\r\n"
# Between elements. A byte order mark may be at the start of a file, and between concatenated files.
_GAP = re.compile(rb"[\s,\xef\xbb\xbf]*+")
_TOKEN = re.compile(rb'["{}\[\]]')
_IN_STRING = re.compile(rb'[^"\\]*+(?:\\[\s\S][^"\\]*+)*+')
# An element without brackets or quotes ends where another one may begin.
_BARE = re.compile(rb'[^\s,\[\]{"]*+')


class Config(RowConfig):
    """How objects become documents."""


def read(piece: Piece, config: Config) -> Iterator[Record]:
    """Reasons: `empty_file`, `not_json`, `record_too_large`, `invalid_json`, `unclosed_json`, `invalid_utf8`,
    `not_an_object`, `missing_text`, `empty_text`, `bad_field_type`, and `truncated_` or `corrupt_` with `gzip`,
    `zstd`, `bzip2`, `xz`.
    """
    with piece.open() as file:
        plain, chunks = decompressed(file)
        head, _, chunks = peek(chunks, _HEAD_BYTES)
        try:
            _refuse_head(head, plain)
        except ReadFault as fault:
            if piece.start == 0 and piece.stop != 0:
                yield Record(0, drop=fault.reason, detail=fault.detail)
            return
        found = elements(chunks, config.max_record_bytes)
        yield from records(found, piece, mapper(config.fields, config.keep_meta), "no element")


def _refuse_head(head: bytes, plain: bool) -> None:
    """Raises `ReadFault` for a file that is not JSON at all."""
    refuse(head, plain, "not_json")
    if head.removeprefix(BOM).lstrip(_SPACE)[:1] not in (b"[", b"{", b""):
        raise ReadFault("not_json", f"neither an array nor an object; the file begins with {beginning(head)}")


def elements(chunks: Iterator[bytes], limit_bytes: int) -> Iterator[tuple[int, bytes | ReadFault]]:
    """The elements with their positions. Yields a fault for an element over the limit, for damage to the stream (at the
    position of the element that it cut off), and for a stream that ends within an element."""
    cutter = _Cutter(limit_bytes)
    try:
        for chunk in chunks:
            yield from cutter.feed(chunk)
    except ReadFault as fault:
        yield cutter.position, fault
        return
    yield from cutter.end()


class _Cutter:
    """The state of the stream: between elements or in one, its depth, in a string or not."""

    def __init__(self, limit_bytes: int) -> None:
        self.position = 0
        """The position of the current element; between elements, of the next byte."""
        self._limit_bytes = limit_bytes
        self._inside = False
        self._in_array = False
        self._depth = 0
        """Open brackets in the current element."""
        self._in_string = self._after_backslash = self._bare = False
        self._held: list[bytes] = []
        self._size = 0

    def feed(self, chunk: bytes) -> Iterator[tuple[int, bytes | ReadFault]]:
        at = 0
        while at < len(chunk):
            if not self._inside:
                begin = self._enter(chunk, at)
                self.position += begin - at
                at = begin
                continue
            stop = self._end_in(chunk, at)
            self._hold(chunk[at:stop])
            if stop is None:
                return
            at = stop
            yield self._taken()

    def end(self) -> Iterator[tuple[int, bytes | ReadFault]]:
        """Ends the current element at the end of the file."""
        if self._inside and self._bare:
            yield self._taken()
        elif self._inside:
            detail = f"a bracket or a quote is never closed in the {self._size} bytes from here to the end of the file"
            yield self.position, ReadFault("unclosed_json", detail)

    def _enter(self, chunk: bytes, at: int) -> int:
        """Skips what is between elements and returns where the next one begins; the state says whether there is one."""
        while (at := _GAP.match(chunk, at).end()) < len(chunk):  # type: ignore[union-attr]
            byte = chunk[at : at + 1]
            if byte == b"]" or (byte == b"[" and not self._in_array):
                self._in_array = byte == b"["
                at += 1
                continue
            self._inside, self._bare = True, byte not in (b"[", b"{", b'"')
            break
        return at

    def _end_in(self, chunk: bytes, at: int) -> int | None:
        """Where the current element ends in the chunk, or None if it continues. Reads no byte twice."""
        if self._bare:
            at = _BARE.match(chunk, at).end()  # type: ignore[union-attr]
            return at if at < len(chunk) else None
        while True:
            if self._in_string:
                at = _IN_STRING.match(chunk, at + self._after_backslash).end()  # type: ignore[union-attr]
                self._after_backslash = chunk[at : at + 1] == b"\\"
                if at >= len(chunk) or self._after_backslash:
                    return None
                at += 1
                self._in_string = False
            elif (found := _TOKEN.search(chunk, at)) is None:
                return None
            else:
                at = found.end()
                self._in_string = found[0] == b'"'
                self._depth += (found[0] in b"{[") - (found[0] in b"}]")
            if not self._in_string and self._depth == 0:
                return at

    def _hold(self, data: bytes) -> None:
        self._size += len(data)
        if self._size <= self._limit_bytes:
            self._held.append(data)
        else:
            self._held.clear()

    def _taken(self) -> tuple[int, bytes | ReadFault]:
        """The current element, which is complete."""
        position, size, data = self.position, self._size, b"".join(self._held)
        self.position += size
        self._inside, self._size = False, 0
        self._held.clear()
        if size > self._limit_bytes:
            return position, ReadFault("record_too_large", f"{size} bytes, max_record_bytes = {self._limit_bytes}")
        return position, data


STAGE = Reader(
    version=8,
    config=Config,
    libraries=("orjson", *UNPACKING),
    positions="bytes of the decompressed stream",
    read=read,
)
