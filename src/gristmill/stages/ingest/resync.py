"""Where to start reading: the next frame after damage, and places from which a file is read as from its start.

Where the frames of a file lie can only be told from its start: what looks like one may be part of another. So that a
file can be read in stretches all the same, there are lines at fixed distances, and behind a line a seam: a place that
the bytes around it show to begin a record. Every reader, also of the whole file, ends at each seam and begins anew:
whatever the bytes are, what is read from a seam on does not depend on what stands before it.

Whatever the bytes are, the work stays a small multiple of their number. A look into what may be a frame is paid for by
the bytes that were passed over to get there, and a frame that broke only after many bytes is left by a share of them:
frames that lie in each other, as hostile files can have them, are not each read to the end of the file.
"""

from gristmill.stages.ingest.frames import FRAME, MAGIC, STEP_BYTES, VERBATIM_BYTES, Frame, prefix, skippable
from gristmill.stages.ingest.source import Source
from gristmill.stages.ingest.warc_headers import ARC_HEAD, ARC_SEARCH, WARC_HEAD, opens_record

PREFIX_BYTES = 1 << 16
LOOK_BYTES = {"gzip": 1 << 16, "zstd": 1 << 18, "lz4": 1 << 18}
"""The most that is read of a frame to see what is in it. zstd and lz4 give nothing of a block before its end."""
SHORT_LOOK_BYTES = 1 << 9
LOOK_SHARE = 64
"""A long look is paid off by one byte that is passed over for so many that were looked at; until then, short ones."""
LEAVE_SHARE = 256
"""A frame that broke is left by one byte for so many that were read of it."""
SEAM_BYTES = {"gzip": 1 << 22, "zstd": 1 << 23, "lz4": 1 << 26}
"""From line to line. To see that a place is a seam, `VERBATIM_BYTES` are read once more."""
SEAM_LOOKS = 1 << 10
"""What may be a frame is looked into so often behind a line; a line among more that are none has no seam."""
SUFFIXES = {".gz": "gzip", ".zst": "zstd", ".lz4": "lz4"}


def container(source: Source, name: str) -> str:
    """ "gzip", "zstd", "lz4" or "plain": by the first bytes; by the name only where these are damaged."""
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


def next_frame(source: Source, kind: str, start: int, dictionary: bytes | None, stop: int | None = None) -> int:
    """Offset of the first frame from `start` on with a record in its first 64 KiB, or the end."""
    stop = source.end if stop is None else min(stop, source.end)
    looks = _Looks(source, kind, start, stop, dictionary)
    found = looks.next(start, PREFIX_BYTES)
    while found is not None:
        at, head = found
        if WARC_HEAD.search(head) or ARC_HEAD.match(head) or ARC_SEARCH.search(head):
            return at
        found = looks.next(at + 1, PREFIX_BYTES)
    return source.end


class _Looks:
    """What may be frames from `start` on, and the first bytes in each."""

    def __init__(self, source: Source, kind: str, start: int, stop: int, dictionary: bytes | None) -> None:
        self.source, self.kind, self.start, self.stop, self.dictionary = source, kind, start, stop, dictionary
        self._owed = 0

    def next(self, at: int, length: int) -> tuple[int, bytes] | None:
        """The first one at or after `at`, with up to `length` bytes of its content."""
        found = self.source.search(FRAME[self.kind], at, self.stop, 5)
        if found is None:
            return None
        short = self._owed > LOOK_SHARE * (found - self.start)
        most = SHORT_LOOK_BYTES if short else LOOK_BYTES[self.kind]
        head, fed = prefix(self.source, self.kind, found, length, most, self.dictionary)
        self._owed += 0 if short else fed + len(head)
        return found, head


def after_broken(source: Source, frame: Frame, behind: int, dictionary: bytes | None) -> int:
    """The next frame after one that broke, and behind the rows it gave; it may lie within what was read of it."""
    return next_frame(source, frame.kind, max(frame.start + _leave(frame), behind + 1), dictionary)


def _leave(frame: Frame) -> int:
    return 1 + max(0, frame.fed - 2 * STEP_BYTES[frame.kind]) // LEAVE_SHARE


def seam_before(source: Source, kind: str, start: int, dictionary: bytes | None) -> int:
    """The last seam at or before `start`, or the start of the file."""
    for line in range(start - start % SEAM_BYTES[kind], 0, -SEAM_BYTES[kind]):
        found = _seam(source, kind, line, dictionary)
        if found is not None and found <= start:
            return found
    return 0


def seam_after(source: Source, kind: str, at: int, dictionary: bytes | None) -> int:
    """The seam of the next line behind `at` that has one, or the end of the file."""
    for line in range(at - at % SEAM_BYTES[kind] + SEAM_BYTES[kind], source.size, SEAM_BYTES[kind]):
        found = _seam(source, kind, line, dictionary)
        if found is not None:
            return found
    return source.size


def _seam(source: Source, kind: str, line: int, dictionary: bytes | None) -> int | None:
    """The first place from `line` on, and before the next one, where a record begins and a chain of intact frames that
    is too long to be the verbatim copy of an archive inside another record (a crawled .warc.gz that deflate stored).
    """
    with source.aside():
        looks = _Looks(source, kind, line, line + SEAM_BYTES[kind], dictionary)
        behind = line
        for _ in range(SEAM_LOOKS):
            found = looks.next(behind, 1 << 14)
            if found is None:
                break
            at, head = found
            behind = at + 1
            if opens_record(head):
                broken = _chain(source, kind, at, dictionary)
                if broken is None:
                    return at
                behind = broken.start + _leave(broken)
    return None


def _chain(source: Source, kind: str, start: int, dictionary: bytes | None) -> Frame | None:
    """None where intact frames follow each other for long enough; else the frame that breaks the chain."""
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
