"""The bytes of an archive: a plain file, or compressed frames (gzip members, zstd and lz4 frames).

A well-formed archive has one frame for each record; bgzip and pigz cut anywhere. So a record may continue in the next
frame, unless that begins with a record header. After damage, reading goes on at the next frame that has a record in its
first bytes.
"""

import re
from collections.abc import Iterator
from typing import IO

from backports import zstd

from gristmill.stages.ingest.warc_headers import ARC_HEAD, ARC_SEARCH, WARC_HEAD, holds_arc, opens_record
from gristmill.stages.reading.decompress import (
    ZSTD_MAGIC,
    Feed,
    ReadFault,
    member_chunks,
    unpack_bytes,
    zstd_decoder,
)

MAGIC = {
    "gzip": re.compile(rb"\x1f\x8b\x08"),
    "zstd": re.compile(rb"\x28\xb5\x2f\xfd|[\x50-\x5f]\x2a\x4d\x18"),
    "lz4": re.compile(rb"\x04\x22\x4d\x18"),
}
TRAINED_MAGIC = b"\x37\xa4\x30\xec"
DICTIONARY_MAGIC = b"\x5d\x2a\x4d\x18"  # IIPC's form of zstd in WARC: the file's first frame
SUFFIXES = {".gz": "gzip", ".zst": "zstd", ".lz4": "lz4"}
MOST_DICTIONARY_BYTES = 1 << 26
ZSTD_WINDOW_LOG = 27
READ_BYTES = 1 << 18
"""How much is decoded at a time. Most frames are smaller, so that damage is known before their record is used."""
PROBE_BYTES = {"gzip": 1 << 12, "zstd": 1 << 18, "lz4": 1 << 18}
"""How much of a possible frame is read to see whether it has a record: a gzip member begins with its name, and a block
of zstd must be whole."""
FIRST_SEARCH_BYTES = 1 << 12
OPENING_BYTES = 1 << 16
LEAVE_SHARE = 256
"""After a frame that is damaged or has no record, a byte is skipped for this many bytes that were read of it. So nested
frames, as in hostile files, are not each read to the end of the file."""


def read_at(file: IO[bytes], start: int, length: int) -> bytes:
    file.seek(start)
    parts: list[bytes] = []
    while length > 0 and (part := file.read(length)):  # a raw stream may return less than requested
        parts.append(part)
        length -= len(part)
    return parts[0] if len(parts) == 1 else b"".join(parts)


class DecodedRun:
    """Decoded bytes from one frame on, read once from start to end. `data[pos:]` are those that are not used yet."""

    def __init__(
        self,
        file: IO[bytes],
        kind: str,
        start: int,
        dictionary: zstd.ZstdDict | None = None,
        feed: Feed | None = None,
    ) -> None:
        """`feed` has the file from `start` on."""
        self.file, self.kind, self.dictionary = file, kind, dictionary
        self.data, self.pos = b"", 0
        self.offset = 0
        """Of `data[pos]` among all decoded bytes; of a plain file, its offset in the file."""
        self.fault: str | None = None
        """The damage at the end of the bytes that were read."""
        self.end: int | None = None
        """Where in the file the last frame ends, if it is intact."""
        self.is_whole = kind != "plain"
        """Whether the run ends where its writer ended, which the end of an intact single frame shows."""
        self._start, self._can_join = start, kind != "plain"
        self.feed = feed or feed_of(file, start)
        self.feed.begin()
        self._chunks = _chunks(self.feed, kind, dictionary)
        self.fill(1)
        self.arc = holds_arc(self.data)

    @property
    def next_search(self) -> int:
        """Where the search for a frame goes on if this one is damaged."""
        return self._start + 1 + self.feed.used // LEAVE_SHARE

    @property
    def last_position(self) -> int:
        """The last byte of the file that certainly belongs to these frames."""
        return (self._start + max(self.feed.used, 1) if self.end is None else self.end) - 1

    def fill(self, length: int, join: bool = False) -> int:
        """Decodes until there are `length` unused bytes, and returns how many there are: fewer at the end. `join` goes
        on in the next frame, for the rest of a record."""
        have = len(self.data) - self.pos
        if have >= length:
            return have
        parts, wanted = [], max(length, have + READ_BYTES)
        while have < wanted and self.fault is None:
            if part := self._next_chunk():
                parts.append(part)
                have += len(part)
            elif have >= length or not (join and self._join_next()):
                break
        if parts:
            parts = [rest, *parts] if (rest := self.data[self.pos :]) else parts
            self.data, self.pos = parts[0] if len(parts) == 1 else b"".join(parts), 0
        return have

    def _next_chunk(self) -> bytes:
        try:
            if chunk := next(self._chunks, b""):
                return chunk
            self.end = self._start + self.feed.taken
        except ReadFault as fault:
            self.fault = fault.reason
        return b""

    def _join_next(self) -> bool:
        """Continues with the next frame, if there is one and it does not begin with a record."""
        if not self._can_join or self.end is None:
            return False
        self._can_join = is_frame(self.feed, self.kind)
        if self._can_join:
            self._can_join = not opens_record(_opening(self.file, self.kind, self.end, self.dictionary)[0])
        if self._can_join:
            self._start, self.end, self.is_whole = self.end, None, False
            self.feed.begin()
            self._chunks = _chunks(self.feed, self.kind, self.dictionary)
        return self._can_join

    def move(self, length: int) -> None:
        """Uses bytes, which are not read again."""
        self.pos += length
        self.offset += length


def container(file: IO[bytes], name: str) -> str:
    """ "gzip", "zstd", "lz4" or "plain": decided by the first bytes, and by the name only if these are damaged."""
    head = read_at(file, 0, 1 << 14)
    for kind, magic in MAGIC.items():
        if magic.match(head):
            return kind
    if opens_record(head):
        return "plain"
    named = next((kind for suffix, kind in SUFFIXES.items() if name.endswith(suffix)), "plain")
    return named if named != "plain" and next_frame(file, named, 0, None) is not None else "plain"


def is_frame(feed: Feed, kind: str) -> bool:
    """Whether a frame comes next, by its first bytes. A plain file is one frame."""
    return kind == "plain" or MAGIC[kind].match(feed.peek(4)) is not None


def next_frame(file: IO[bytes], kind: str, start: int, dictionary: zstd.ZstdDict | None) -> int | None:
    """Offset of the first frame from `start` on that has a record in its first bytes."""
    for offset in _candidates(file, MAGIC[kind], start):
        if offset < start:
            continue
        head, taken = _opening(file, kind, offset, dictionary)
        if WARC_HEAD.search(head) or ARC_HEAD.match(head) or ARC_SEARCH.search(head):
            return offset
        start = offset + 1 + taken // LEAVE_SHARE
    return None


def _candidates(file: IO[bytes], pattern: re.Pattern[bytes], start: int) -> Iterator[int]:
    size = FIRST_SEARCH_BYTES
    while data := read_at(file, start, size):
        yield from (start + match.start() for match in pattern.finditer(data))
        if len(data) < size:
            return
        start += len(data) - 3  # a match may be cut
        size = min(2 * size, 1 << 20)  # the next frame may be some bytes away, or a gigabyte


def _opening(file: IO[bytes], kind: str, start: int, dictionary: zstd.ZstdDict | None) -> tuple[bytes, int]:
    """The first decoded bytes of a possible frame, and how many bytes were read for them."""
    feed, head = feed_of(file, start, PROBE_BYTES[kind]), b""
    try:
        for chunk in _chunks(feed, kind, dictionary):
            head += chunk
            if len(head) >= OPENING_BYTES:
                break
    except ReadFault:  # most often the end of the bytes to read
        pass
    return head[:OPENING_BYTES], feed.taken


def feed_of(file: IO[bytes], start: int, most: int = 1 << 62) -> Feed:
    offset, stop = start, start + most

    def read(size: int) -> bytes:
        nonlocal offset
        data = read_at(file, offset, min(size, stop - offset))
        offset += len(data)
        return data

    return Feed(read)


def _chunks(feed: Feed, kind: str, dictionary: zstd.ZstdDict | None) -> Iterator[bytes]:
    if kind == "plain":
        return iter(lambda: feed.take(READ_BYTES), b"")
    decoder = zstd_decoder(dictionary, ZSTD_WINDOW_LOG) if kind == "zstd" else None
    return member_chunks(kind, feed, 1, decoder)


def zstd_dictionary(file: IO[bytes]) -> zstd.ZstdDict | None:
    """The dictionary in the file's first frame, which is plain or itself a zstd frame."""
    head = read_at(file, 0, 8)
    size = int.from_bytes(head[4:], "little")
    if not head.startswith(DICTIONARY_MAGIC) or size > MOST_DICTIONARY_BYTES:
        return None
    data = read_at(file, 8, size)
    if data.startswith(ZSTD_MAGIC):
        data, _ = unpack_bytes("zstd", data, MOST_DICTIONARY_BYTES)
    try:
        dictionary = zstd.ZstdDict(data, is_raw=not data.startswith(TRAINED_MAGIC))
        zstd_decoder(dictionary)
        return dictionary
    except (ValueError, zstd.ZstdError):  # its frames cannot be read, which their rows say
        return None
