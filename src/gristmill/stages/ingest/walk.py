"""Finds one record after the other on a tape, and the next readable record after damage.

The result depends on the tape alone, never on which records the caller wants. So reading a file in pieces gives the
same records as reading it whole.

A record's stated length is trusted if a record, or the end, follows it. Otherwise the record ends at the next record
header, if there is one before the stated end. If there is none, the bytes up to the next header are a gap.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

from gristmill.stages.ingest.tape import Tape
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

FIRST_READ_BYTES = 1 << 12
SEARCH_BYTES = 1 << 20
MOST_LINE_ENDS = 1 << 12


@dataclass(slots=True)
class ArchiveRecord:
    """A record of an archive, or a range of bytes without one: then `fields` is empty and `fault` is set."""

    offset: int
    start: int
    """First byte of the body on the tape."""
    stop: int
    fields: dict[bytes, bytes] = field(default_factory=dict)
    fault: str | None = None
    detail: str | None = None
    note: str | None = None
    """What was wrong with a record that can still be used."""


def walk(tape: Tape, max_record_bytes: int) -> Iterator[ArchiveRecord]:
    if (only := _only_record(tape.whole_frame(), max_record_bytes)) is not None:
        yield only
        return
    offset = 0
    is_reported = False
    while data := tape.at(offset, FIRST_READ_BYTES):
        if data[0] in b"\r\n":
            offset += len(data) - len(data.lstrip(b"\r\n"))
            tape.forget(offset)
            continue
        tape.forget(offset)
        if _cut_head(tape, data):
            tape.must(offset, FIRST_READ_BYTES)
            data = tape.at(offset, FIRST_READ_BYTES)
        if tape.arc:
            found, after = _arc_record(tape, offset, data, max_record_bytes)
        elif data.startswith(b"WARC/"):
            found, after = _warc_record(tape, offset, data, max_record_bytes)
        else:
            found, after = _gap(tape, offset, offset, "unreadable_bytes")
        if found.fault and found.fault == tape.fault:
            is_reported = True
        yield found
        offset = after
    if tape.fault and not is_reported:
        yield ArchiveRecord(
            offset, offset, offset, fault=tape.fault, detail="no record could be read from the frame's end"
        )


def _only_record(data: bytes, limit: int) -> ArchiveRecord | None:
    """The record that fills the whole tape, as in most archives: the result of `_warc_record` without its checks.

    None if it is not that simple.
    """
    if not (data.startswith(b"WARC/") and data.endswith(b"\r\n\r\n")):
        return None
    head = data[:FIRST_READ_BYTES]
    span = blank_line(head)
    if span is None or WARC_HEAD.search(head, 5, span[0]):
        return None
    fields, _ = warc_fields(head[: span[0]])
    length = fields.get(b"content-length", b"")
    if not length.isdigit() or len(length) > 15 or int(length) > limit or span[1] + int(length) + 4 != len(data):
        return None
    return ArchiveRecord(0, span[1], len(data) - 4, fields)


def _warc_record(tape: Tape, offset: int, data: bytes, limit: int) -> tuple[ArchiveRecord, int]:
    # A header contains no other header. If it seems to, its end is lost, and searching for the end after the other
    # headers, for each of them, would take unbounded work.
    inner = WARC_HEAD.search(data, 5)
    span = blank_line(data[: inner.start()] if inner else data)
    while span is None and inner is None and len(data) < MAX_HEAD_BYTES:
        tape.must(offset, len(data) * 4)
        longer = tape.at(offset, len(data) * 4)
        if len(longer) == len(data):
            break
        data = longer
        inner = WARC_HEAD.search(data, 5)
        span = blank_line(data[: inner.start()] if inner else data)
    if span is None and inner:
        return _gap(tape, offset, offset + inner.start(), "bad_warc_header")
    if span is None:
        ended = len(data) < FIRST_READ_BYTES or len(tape.at(offset, len(data) + 1)) == len(data)
        reason = (tape.fault or "truncated_record") if ended and len(data) < MAX_HEAD_BYTES else "bad_warc_header"
        return _gap(tape, offset, offset + 5, reason)
    fields, clean = warc_fields(data[: span[0]])
    length = fields.get(b"content-length", b"")
    if not length.isdigit() or len(length) > 15:
        return _gap(tape, offset, offset + 5, "bad_warc_header", fields)
    found, after = _bounded(tape, ArchiveRecord(offset, offset + span[1], 0, fields), int(length), limit)
    if not clean and (found.note or found.fault):
        found.fault, found.detail = "bad_warc_header", "a line without a colon, and the length does not fit"
    return found, after


def _arc_record(tape: Tape, offset: int, data: bytes, limit: int) -> tuple[ArchiveRecord, int]:
    # The longest line is long, but most are short, so the first check is short.
    line = ARC_HEAD.match(data if b"\n" in data else tape.at(offset, ARC_REACH))
    if line is None:
        return _gap(tape, offset, offset, "unreadable_bytes")
    fields = {name.encode(): value for name, value in line.groupdict().items()}
    if not line["length"].isdigit():
        return _gap(tape, offset, offset + line.end() - 1, "bad_arc_header", fields)
    return _bounded(tape, ArchiveRecord(offset, offset + line.end(), 0, fields), int(line["length"]), limit)


def _bounded(tape: Tape, found: ArchiveRecord, length: int, limit: int) -> tuple[ArchiveRecord, int]:
    """Sets where the body ends, and returns where the next record should start."""
    start, stop = found.start, found.start + length
    if tape.jumps:
        complete = tape.must(start, length) == length
    else:
        have = tape.must(start, min(length, limit + 1))
        if have > limit:
            return _skip_large_body(tape, found, stop)
        complete = have == length
    after = _next_start(tape, stop) if complete else None
    if after is not None:
        found.stop = stop
        found.fault = tape.fault if after >= tape.known else None  # the frame's checksum came last
    elif (inner := find_head(tape, start, stop)) is not None:
        found.stop = _without_end(tape, start, inner)
        found.note = "content_length"
        found.fault = tape.damage()
        after = inner
    elif complete:
        found.stop = after = stop
        if damage := tape.damage():
            found.fault = damage
            following = find_head(tape, stop, None, forget=True)
            after = tape.known if following is None else following
    else:
        after = min(stop, tape.known)
        found.stop = _without_end(tape, start, after)
        ends_page = tape.at(max(start, after - 64), 64).rstrip().lower().endswith(b"</html>")
        if tape.fault or not (tape.whole or ends_page):
            found.fault = tape.fault or "truncated_record"
            found.detail = f"{after - start} of {length} bytes"
        else:
            found.note = "content_length"
    if found.fault is None and found.stop - start > limit:
        found.fault, found.detail = "body_too_large", f"{found.stop - start} bytes"
    return found, after


def _without_end(tape: Tape, start: int, stop: int) -> int:
    """`stop` without the two empty lines that end a record."""
    tail = tape.at(max(start, stop - 4), min(4, stop - start))
    return stop - len(tail) + len(tail.rstrip(b"\r\n"))


def _cut_head(tape: Tape, data: bytes) -> bool:
    """Whether these last bytes of a frame may be the start of a header that continues in the next frame."""
    if tape.arc:
        return len(data) < FIRST_READ_BYTES and b"\n" not in data
    return len(data) < 5 and b"WARC/".startswith(data)


def _next_start(tape: Tape, offset: int) -> int | None:
    """Where the next record starts, or the tape ends, with only line ends before it. Their number is limited, since any
    number of records may claim to end before the same run."""
    last = offset + MOST_LINE_ENDS
    while data := tape.peek(offset, 256):
        rest = data.lstrip(b"\r\n")
        offset += len(data) - len(rest)
        if offset > last:
            return None
        if rest:
            rest = tape.peek(offset, FIRST_READ_BYTES if tape.arc else 5)
            if tape.arc and b"\n" not in rest:
                rest = tape.peek(offset, ARC_REACH)
            good = ARC_HEAD.match(rest) if tape.arc else rest == b"WARC/"
            return offset if good or _cut_head(tape, rest) else None
    return offset


def _skip_large_body(tape: Tape, found: ArchiveRecord, stop: int) -> tuple[ArchiveRecord, int]:
    """Skips a body that is too large, in frames that cannot be read twice. It ends at its length or the next header."""
    found.fault = "body_too_large"
    inner = find_head(tape, found.start, stop, forget=True)
    after = inner if inner is not None else min(stop, tape.known)
    if inner is None and after < stop:
        found.fault = tape.fault or "truncated_record"
    found.stop = after
    found.detail = f"{after - found.start} bytes"
    return found, after


def _gap(
    tape: Tape, offset: int, search: int, reason: str, fields: dict[bytes, bytes] | None = None
) -> tuple[ArchiveRecord, int]:
    after = find_head(tape, search, None, forget=True)
    if after is None:
        after = tape.known
        reason = tape.fault or reason
    detail = f"{after - offset} bytes"
    return ArchiveRecord(offset, offset, after, fields or {}, reason, detail), after


def find_head(tape: Tape, start: int, stop: int | None, forget: bool = False) -> int | None:
    """Offset of the first record header in [start, stop), or up to the end."""
    pattern, reaches = (ARC_SEARCH, (WARC_REACH, ARC_REACH)) if tape.arc else (WARC_HEAD, (WARC_REACH,))
    range_bytes = FIRST_READ_BYTES // 2
    while stop is None or start < stop:
        range_bytes = min(2 * range_bytes, SEARCH_BYTES)  # the next header may be some bytes away, or a gigabyte
        length = range_bytes if stop is None else min(range_bytes, stop - start)
        if stop is not None:
            tape.must(start, length)
        for reach in reaches:
            data = tape.at(start, length + reach)
            if found := pattern.search(data):
                at = start + found.start()
                return at if stop is None or at < stop else None
            if len(data) < length + reach:
                return None
        start += length
        if forget:
            tape.forget(start)
    return None
