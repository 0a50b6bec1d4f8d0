"""Finds one record after the other in decoded bytes, and the next readable record after damage.

A record's stated length is trusted if a record, or the end, follows it. Otherwise the record ends at the next record
header, if there is one before the stated end. If there is none, the bytes up to the next header are a gap.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from gristmill.stages.ingest.frames import DecodedRun
from gristmill.stages.ingest.warc_headers import (
    ARC_HEAD,
    ARC_REACH,
    ARC_SEARCH,
    MAX_HEAD_BYTES,
    WARC_HEAD,
    WARC_REACH,
    blank_line,
    warc_fields,
)

HEAD_BYTES = 1 << 12
"""Most headers are shorter."""
SEARCH_BYTES = 1 << 18
CHECKSUM_BYTES = 1 << 22
"""How far a record that nothing else confirms is read on, to the damage or the checksum of its frame."""
MOST_LINE_ENDS = 1 << 12
_LINE_ENDS = re.compile(rb"[\r\n]{0,%d}+" % MOST_LINE_ENDS)
"""Between two records. Their number is limited, since any number of records may claim to end before the same run."""


@dataclass(slots=True)
class ArchiveRecord:
    """A record of an archive, or a range of bytes without one: then `fields` is empty and `fault` is set."""

    offset: int
    """Among the decoded bytes."""
    fields: dict[bytes, bytes] = field(default_factory=dict)
    block: bytes = b""
    """The content of a record without a fault."""
    fault: str | None = None
    detail: str | None = None
    note: str | None = None
    """What was wrong with a record that can still be used."""


def walk(run: DecodedRun, max_record_bytes: int) -> Iterator[ArchiveRecord]:
    is_reported = False
    while run.fill(HEAD_BYTES):
        if line_ends := _LINE_ENDS.match(run.data, run.pos).end() - run.pos:  # type: ignore[union-attr]
            run.move(line_ends)
            continue
        if _is_cut_head(run, run.pos):
            run.fill(HEAD_BYTES, join=True)
        record = ArchiveRecord(run.offset)
        if run.arc:
            _arc_record(run, record, max_record_bytes)
        else:
            _warc_record(run, record, max_record_bytes)
        is_reported |= run.fault is not None and record.fault == run.fault
        yield record
    if run.fault and not is_reported:
        yield ArchiveRecord(run.offset, fault=run.fault, detail="no record could be read from the frame's end")


def _is_cut_head(run: DecodedRun, start: int) -> bool:
    """Whether the last bytes of a frame may be the start of a header that continues in the next frame."""
    if len(run.data) - start >= (ARC_REACH if run.arc else 5):
        return False
    return b"\n" not in run.data[start:] if run.arc else b"WARC/".startswith(run.data[start:])


def _warc_record(run: DecodedRun, record: ArchiveRecord, limit: int) -> None:
    if not run.data.startswith(b"WARC/", run.pos):
        return _gap(run, record, 0, "unreadable_bytes")
    have = run.fill(HEAD_BYTES)
    span = blank_line(run.data, run.pos, run.pos + HEAD_BYTES)
    # A header contains no other header. If it seems to, its end is lost, and searching for the end after the other
    # headers, for each of them, would take unbounded work.
    if span is not None:
        inner = WARC_HEAD.search(run.data, run.pos + 5, span[0])
    else:
        have = run.fill(MAX_HEAD_BYTES, join=True)
        inner = WARC_HEAD.search(run.data, run.pos + 5, run.pos + MAX_HEAD_BYTES)
        span = blank_line(run.data, run.pos, run.pos + MAX_HEAD_BYTES if inner is None else inner.start())
    if inner is not None and (span is None or inner.start() < span[0]):
        return _gap(run, record, inner.start() - run.pos, "bad_warc_header")
    if span is None:
        is_cut = have < MAX_HEAD_BYTES
        return _gap(run, record, 5, (run.fault or "truncated_record") if is_cut else "bad_warc_header")
    record.fields, is_clean = warc_fields(run.data[run.pos : span[0]])
    length = record.fields.get(b"content-length", b"")
    if not length.isdigit() or len(length) > 15:
        return _gap(run, record, 5, "bad_warc_header")
    _bounded(run, record, span[1] - run.pos, int(length), limit)
    if not is_clean and (record.note or record.fault):
        record.fault, record.detail = "bad_warc_header", "a line without a colon, and the length does not fit"
    return None


def _arc_record(run: DecodedRun, record: ArchiveRecord, limit: int) -> None:
    run.fill(ARC_REACH)
    line = ARC_HEAD.match(run.data, run.pos)
    if line is None:
        return _gap(run, record, 0, "unreadable_bytes")
    record.fields = {name.encode(): value for name, value in line.groupdict().items()}
    if not line["length"].isdigit():
        return _gap(run, record, line.end() - 1 - run.pos, "bad_arc_header")
    return _bounded(run, record, line.end() - run.pos, int(line["length"]), limit)


def _bounded(run: DecodedRun, record: ArchiveRecord, start: int, length: int, limit: int) -> None:
    """Sets the content of a record, whose body begins at `start`, and moves to where the next one should begin."""
    have = run.fill(start + min(length, limit + 1), join=True) - start
    if min(have, length) > limit:
        run.move(start)
        skipped = _move_to_head(run, length)
        is_cut = skipped < length and not run.fill(1)
        record.fault = (run.fault or "truncated_record") if is_cut else "body_too_large"
        record.detail = f"{skipped} bytes"
        return
    stop = start + min(length, have)
    if have >= length and (following := _next_start(run, stop)) is not None:
        record.block = run.data[run.pos + start : run.pos + stop]
        run.move(following)
        record.fault = run.fault if run.pos == len(run.data) else None  # the frame's checksum came last
        return
    run.fill(stop + CHECKSUM_BYTES)
    record.fault = run.fault
    inner = _head_pattern(run)[0].search(run.data, run.pos + start, run.pos + stop + WARC_REACH)
    if inner is not None and inner.start() < run.pos + stop:
        stop = inner.start() - run.pos
        record.note = "content_length"
    record.block = run.data[run.pos + start : run.pos + stop]
    if record.note or have < length:
        record.block = record.block[:-4] + record.block[-4:].rstrip(b"\r\n")
    if record.note is None and have < length:
        if run.fault or not (run.is_whole or record.block[-64:].rstrip().lower().endswith(b"</html>")):
            record.fault, record.detail = run.fault or "truncated_record", f"{stop - start} of {length} bytes"
        else:
            record.note = "content_length"
    run.move(stop)
    if record.fault:
        _move_to_head(run)


def _next_start(run: DecodedRun, offset: int) -> int | None:
    """Where the next record starts, or the run ends, with only line ends before it."""
    run.fill(offset + MOST_LINE_ENDS + (ARC_REACH if run.arc else 5))
    after = _LINE_ENDS.match(run.data, run.pos + offset).end()  # type: ignore[union-attr]
    if after == len(run.data) or _is_cut_head(run, after):
        return after - run.pos
    is_head = ARC_HEAD.match(run.data, after) if run.arc else run.data.startswith(b"WARC/", after)
    return after - run.pos if is_head else None


def _gap(run: DecodedRun, record: ArchiveRecord, skipped: int, reason: str) -> None:
    """Bytes that are no record, up to the next header after the first `skipped` ones."""
    run.move(skipped)
    skipped += _move_to_head(run)
    record.fault = reason if run.fill(1) else run.fault or reason
    record.detail = f"{skipped} bytes"


def _move_to_head(run: DecodedRun, most: int | None = None) -> int:
    """Moves to the next record header, or to the end, or by `most` bytes of a record's body; returns how far."""
    pattern, reach = _head_pattern(run)
    moved = 0
    while True:
        have = run.fill(SEARCH_BYTES, join=most is not None)
        end = have if most is None else min(have, most - moved)
        match = pattern.search(run.data, run.pos)
        if match is not None and match.start() - run.pos < end:
            step, is_done = match.start() - run.pos, True
        else:
            is_done = have < SEARCH_BYTES or end < have
            step = end if is_done else end - reach
        run.move(step)
        moved += step
        if is_done:
            return moved


def _head_pattern(run: DecodedRun) -> tuple[re.Pattern[bytes], int]:
    """What to search for, and how many bytes it may have."""
    return (ARC_SEARCH, ARC_REACH) if run.arc else (WARC_HEAD, WARC_REACH)
