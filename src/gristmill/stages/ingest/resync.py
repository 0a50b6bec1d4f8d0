"""Where to start reading: the next frame after damage, and a sure place to start before a given offset."""

from gristmill.stages.ingest.frames import FRAME, MAGIC, VERBATIM_BYTES, Frame, prefix, skippable
from gristmill.stages.ingest.heads import ARC_HEAD, ARC_SEARCH, WARC_HEAD, opens_record
from gristmill.stages.ingest.source import Source

PREFIX_BYTES = 1 << 16
BACK_BYTES = 1 << 20
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
    if named and next_frame(source, named, 0, None) < source.size:
        return named
    for kind in MAGIC:
        if kind != named and next_frame(source, kind, 0, None, stop=1 << 22) < source.size:
            return kind
    return "plain"


def next_frame(source: Source, kind: str, start: int, dictionary: bytes | None, stop: int | None = None) -> int:
    """Offset of the first frame from `start` on with a record in its first 64 KiB, or the size of the file."""
    stop = source.size if stop is None else min(stop, source.size)
    while (at := source.search(FRAME[kind], start, stop, 5)) is not None:
        head = prefix(source, kind, at, PREFIX_BYTES, dictionary)
        if WARC_HEAD.search(head) or ARC_HEAD.match(head) or ARC_SEARCH.search(head):
            return at
        start = at + 1
    return source.size


def anchor(source: Source, kind: str, start: int, dictionary: bytes | None) -> int:
    """An offset at or before `start` at which a reading of the whole file is sure to stop.

    Such a place begins a record and a chain of intact frames that is too long to be the verbatim copy of an archive
    inside another record (a crawled .warc.gz that deflate stored as it was), or that runs to the end of the file.
    Where none is found nearby, further back; the start of the file always is one.
    """
    back = BACK_BYTES
    while start > back:
        at: int | None = start - back
        while at is not None and (at := source.search(FRAME[kind], at, start + 1, 5)) is not None:
            if not opens_record(prefix(source, kind, at, 1 << 14, dictionary)):
                at += 1
                continue
            broken = _chain(source, kind, at, dictionary)
            if broken is None:
                return at
            at = broken + 1
        back *= 4
    return 0


def _chain(source: Source, kind: str, start: int, dictionary: bytes | None) -> int | None:
    """None where intact frames follow each other for long enough; else the start of the frame that breaks the chain."""
    at = start
    while at - start < VERBATIM_BYTES[kind] and at < source.size:
        if (end := skippable(source, at)) is None:
            frame = Frame(source, kind, at, dictionary, salvage=False)
            for _ in frame.chunks():
                pass
            end = frame.end
        if end is None:
            return at
        at = end
    return None
