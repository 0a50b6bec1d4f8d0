"""Finds where to start reading: the next frame after damage, and places from which a file reads as if from its start.

The frames of a file can only be found from its start, since what looks like a frame may be part of another one. To read
a file in pieces, there are lines at fixed distances, and after a line a seam: an offset where the surrounding bytes
show that a record begins. Every reader, even of the whole file, stops at each seam and starts again there. So, for any
bytes, what is read from a seam on does not depend on what comes before it.

For any bytes, the work is a small multiple of their number. Examining a possible frame is paid for by the bytes that
were skipped to get there, and a frame that breaks after many bytes is skipped by a share of them: nested frames, as in
hostile files, are not each read to the end of the file.
"""

from gristmill.stages.ingest.frames import FRAME, MAGIC, STEP_BYTES, VERBATIM_BYTES, Frame, prefix, skippable
from gristmill.stages.ingest.source import ByteSource
from gristmill.stages.ingest.warc_headers import ARC_HEAD, ARC_SEARCH, WARC_HEAD, opens_record

PREFIX_BYTES = 1 << 16
PROBE_BYTES = {"gzip": 1 << 16, "zstd": 1 << 18, "lz4": 1 << 18}
"""The most that is read of a frame to see its content. zstd and lz4 return nothing of a block before its end."""
SHORT_PROBE_BYTES = 1 << 9
PROBE_SHARE = 64
"""One skipped byte pays for this many examined bytes. Until a long examination is paid off, the next ones are short."""
LEAVE_SHARE = 256
"""After a broken frame, one byte is skipped for this many bytes that were read of it."""
SEAM_BYTES = {"gzip": 1 << 22, "zstd": 1 << 23, "lz4": 1 << 26}
"""The distance between lines. To check that an offset is a seam, `VERBATIM_BYTES` are read again."""
SEAM_PROBES = 1 << 10
"""How many possible frames are examined after a line. A line with more false ones has no seam."""
SUFFIXES = {".gz": "gzip", ".zst": "zstd", ".lz4": "lz4"}


def container(source: ByteSource, name: str) -> str:
    """ "gzip", "zstd", "lz4" or "plain": decided by the first bytes, and by the name only if these are damaged."""
    head = source.read(0, 1 << 14)
    for kind, magic in MAGIC.items():
        if head.startswith(magic):
            return kind
    if head.startswith(b"WARC/") or opens_record(head):
        return "plain"
    if skippable(source, 0) is not None:
        return "zstd" if not name.endswith(".lz4") else "lz4"
    named = next((kind for suffix, kind in SUFFIXES.items() if name.endswith(suffix)), None)
    if named and next_frame(source, named, 0, None) < source.end:
        return named
    for kind in MAGIC:
        if kind != named and next_frame(source, kind, 0, None, stop=1 << 22) < source.end:
            return kind
    return "plain"


def next_frame(source: ByteSource, kind: str, start: int, dictionary: bytes | None, stop: int | None = None) -> int:
    """Offset of the first frame from `start` on with a record in its first 64 KiB, or the end."""
    stop = source.end if stop is None else min(stop, source.end)
    candidates = _Candidates(source, kind, start, stop, dictionary)
    found = candidates.next(start, PREFIX_BYTES)
    while found is not None:
        at, head = found
        if WARC_HEAD.search(head) or ARC_HEAD.match(head) or ARC_SEARCH.search(head):
            return at
        found = candidates.next(at + 1, PREFIX_BYTES)
    return source.end


class _Candidates:
    """The possible frames from `start` on, and the first bytes of each."""

    def __init__(self, source: ByteSource, kind: str, start: int, stop: int, dictionary: bytes | None) -> None:
        self.source, self.kind, self.start, self.stop, self.dictionary = source, kind, start, stop, dictionary
        self._owed = 0

    def next(self, at: int, length: int) -> tuple[int, bytes] | None:
        """The first one at or after `at`, with up to `length` bytes of its content."""
        found = self.source.search(FRAME[self.kind], at, self.stop, 5)
        if found is None:
            return None
        short = self._owed > PROBE_SHARE * (found - self.start)
        most = SHORT_PROBE_BYTES if short else PROBE_BYTES[self.kind]
        head, fed = prefix(self.source, self.kind, found, length, most, self.dictionary)
        self._owed += 0 if short else fed + len(head)
        return found, head


def after_broken(source: ByteSource, frame: Frame, after: int, dictionary: bytes | None) -> int:
    """The next frame after a broken one and after the rows that it gave. It may begin within the broken one's bytes."""
    return next_frame(source, frame.kind, max(frame.start + _leave(frame), after + 1), dictionary)


def _leave(frame: Frame) -> int:
    return 1 + max(0, frame.fed - 2 * STEP_BYTES[frame.kind]) // LEAVE_SHARE


def seam_before(source: ByteSource, kind: str, start: int, dictionary: bytes | None) -> int:
    """The last seam at or before `start`, or the start of the file."""
    for line in range(start - start % SEAM_BYTES[kind], 0, -SEAM_BYTES[kind]):
        found = _seam(source, kind, line, dictionary)
        if found is not None and found <= start:
            return found
    return 0


def seam_after(source: ByteSource, kind: str, at: int, dictionary: bytes | None) -> int:
    """The seam of the next line after `at` that has one, or the end of the file."""
    for line in range(at - at % SEAM_BYTES[kind] + SEAM_BYTES[kind], source.size, SEAM_BYTES[kind]):
        found = _seam(source, kind, line, dictionary)
        if found is not None:
            return found
    return source.size


def _seam(source: ByteSource, kind: str, line: int, dictionary: bytes | None) -> int | None:
    """The first offset from `line` on, before the next line, where a record begins and a chain of intact frames that is
    too long to be a verbatim copy of an archive inside another record (a crawled .warc.gz that deflate stored)."""
    with source.aside():
        candidates = _Candidates(source, kind, line, line + SEAM_BYTES[kind], dictionary)
        after = line
        for _ in range(SEAM_PROBES):
            found = candidates.next(after, 1 << 14)
            if found is None:
                break
            at, head = found
            after = at + 1
            if opens_record(head):
                broken = _chain(source, kind, at, dictionary)
                if broken is None:
                    return at
                after = broken.start + _leave(broken)
    return None


def _chain(source: ByteSource, kind: str, start: int, dictionary: bytes | None) -> Frame | None:
    """None if intact frames follow each other for long enough; else the frame that breaks the chain."""
    at = start
    while at - start < VERBATIM_BYTES[kind]:
        if (end := skippable(source, at)) is None:
            frame = Frame(source, kind, at, dictionary, salvage=False)
            for _ in frame.chunks():
                pass
            end = frame.end
            if end is None:
                return frame
        at = end
    return None
