"""Reads web archives: WARC (0.17 to 1.1), WET and ARC files, plain or compressed with gzip, zstd or lz4.

The first bytes of a file decide its format, not its name. Every record becomes a row, and so does every range of bytes
without a record. These are kept, as `html` or `text`: HTTP responses with status 200 or 203, resource records of a type
in `html_types` or `text_types`, and conversion records (WET). 206 is a fragment, and other 2xx have no
page. Everything else has a `drop`:

    warcinfo_record, request_record, …    the record's type         http_status       the status is the detail
    not_text           the type is the detail                       empty_body
    robots_txt         kept in `text`, for the stage that obeys it  body_too_large    see `max_record_bytes`
    bad_http_header    no HTTP response in a response record        bad_content_encoding
    undecodable_charset                                             bad_warc_header
    truncated_gzip     a frame that ends early (also _zstd)        corrupt_gzip      a frame with an error (_zstd, _lz4)
    truncated_record   the file ends within the record              unreadable_bytes  bytes without a record
    empty_file, not_an_archive                                      no_record         an index names a record here

and the reasons of the formats in `bodies`.

Records with a fault that a browser would tolerate are kept, and `meta.salvage` lists the faults: `not_chunked`,
`missing_last_chunk`, `bad_chunking`, `not_encoded` and `truncated_encoding` for a body that contradicts its HTTP
header; `content_length` for a record that does not end where its header says; `no_http_header` for a page that lost its
header. A page that the crawler cut (WARC-Truncated) is kept, and `meta.truncated` says why it was cut. If several
records share a damaged frame, the complete records that are followed by another one are kept, although no checksum
covers them any more; everything that touches the damage is dropped.

Positions are byte offsets in the file. If a frame holds several records, the n-th has the frame's offset plus n, and
the key `offset+n`.
"""

from collections.abc import Iterator, Mapping
from typing import IO, Any, cast

from gristmill.schema import Record
from gristmill.stages.contract import Bytes, Piece, Reader, StageConfig
from gristmill.stages.ingest import bodies, pages
from gristmill.stages.ingest.frames import MAGIC, container, fault_before, next_frame, skippable, zstd_dictionary
from gristmill.stages.ingest.source import ByteSource
from gristmill.stages.ingest.tape import FrameTape, Tape
from gristmill.stages.ingest.walk import walk
from gristmill.stages.reading.stream import COMPRESSED_SUFFIXES
from gristmill.stages.reading.views import Window

BESIDE = pages.BESIDE


class Config(StageConfig):
    """What is kept of an archive."""

    max_record_bytes: Bytes = 64 << 20
    """Largest record body, stored and decoded (bytes); larger ones are dropped as body_too_large."""
    html_types: tuple[str, ...] = ("text/html", "application/xhtml+xml")
    """Media types that are kept as markup for an extractor."""
    text_types: tuple[str, ...] = ("text/plain",)
    """Media types that are kept as plain text."""
    bodies: Mapping[str, Any] | None = None
    """Formats that read bodies of their media types, with their settings: `{pdf: {}}` reads PDF files (docs/pdf.md).
    Other bodies are dropped as `not_text`."""
    statuses: tuple[int, ...] = (200, 203)
    """HTTP statuses whose bodies are documents."""
    max_replacement_share: float = 0.1
    """Largest share of characters (0 to 1) that decoding may replace by U+FFFD; above: undecodable_charset."""


def splittable(name: str) -> bool:
    """Only plain archives can be read from the middle."""
    return not name.lower().endswith((*COMPRESSED_SUFFIXES, ".lz4"))


def read(piece: Piece, config: Config) -> Iterator[Record]:
    if piece.ranges is not None:
        yield from _read_ranges(piece, piece.ranges, config)
        return
    with ByteSource(piece) as source:
        stop = source.size + 1 if piece.stop is None else piece.stop
        if source.size == 0:
            if piece.start <= 0 < stop:
                yield Record(0, drop="empty_file")
            return
        kind = container(source, piece.name)
        found = False
        for row in _read(source, kind, piece.start, stop, config):
            found = True
            yield row
        if not found and piece.start <= 0 < stop and not any(_read(source, kind, 0, source.size + 1, config)):
            yield Record(0, drop="empty_file", detail="empty lines and frames, no record")


def _read_ranges(piece: Piece, ranges: list[tuple[int, int]], config: Config) -> Iterator[Record]:
    """The records of some ranges, each read alone. Positions are those of the whole file."""
    with piece.open() as file:
        at = 0
        for start, stop in ranges:
            size = stop - start
            if start >= piece.start and (piece.stop is None or start < piece.stop):
                yield from _read_range(cast(IO[bytes], Window(file, at, size, closes=False)), piece.name, start, config)
            at += size


def _read_range(file: IO[bytes], name: str, start: int, config: Config) -> Iterator[Record]:
    with ByteSource(file) as source:
        found = _read(source, container(source, name), 0, source.size + 1, config) if source.size else ()
        is_empty = True
        for row in found:
            if row.drop in ("unreadable_bytes", "not_an_archive") and row.position == 0:
                row.drop, row.detail = "no_record", f"no record begins at byte {start}, where the index names one"
            if row.key is not None:
                frame, _, index = row.key.partition("+")
                row.key = f"{start + int(frame)}+{index}"
            row.position += start
            is_empty = False
            yield row
        if is_empty:
            yield Record(start, drop="no_record", detail=f"the index names a record at byte {start}; there is none")


def _read(source: ByteSource, kind: str, start: int, stop: int, config: Config) -> Iterator[Record]:
    if kind == "plain":
        return _read_plain(source, start, stop, config)
    return _read_frames(source, kind, start, stop, config)


def _read_plain(source: ByteSource, start: int, stop: int, config: Config) -> Iterator[Record]:
    # Always from the start of the file: skipping bodies is cheap, and only from the start is it certain that a header
    # is not part of an archive inside a record.
    tape = Tape(source)
    for found in walk(tape, config.max_record_bytes):
        if found.offset >= stop:
            return
        if found.offset >= start:
            row = pages.record(found.offset, found, tape, config)
            if row.drop == "unreadable_bytes" and (found.offset, found.stop) == (0, source.size):
                row.drop = "not_an_archive"
            yield row


def _read_frames(source: ByteSource, kind: str, start: int, stop: int, config: Config) -> Iterator[Record]:
    dictionary = zstd_dictionary(source) if kind == "zstd" else None
    # A range begins at a record, whose frame is there unless it holds several: then all is read from the start.
    at = start if start > 0 and next_frame(source, kind, start, dictionary, start + 1) == start else 0
    while at < min(stop, source.size):
        if not source.read(at, 4).startswith(MAGIC[kind]):
            if (end := skippable(source, at)) is not None:
                at = end
                continue
            after = next_frame(source, kind, at, dictionary)
            if at >= start:
                yield Record(at, drop="unreadable_bytes", detail=f"{after - at} bytes")
            at = after
            continue
        tape = FrameTape(source, kind, at, dictionary)
        position, resumed, fault = at, source.size, None
        for index, found in enumerate(walk(tape, config.max_record_bytes)):
            # Stays within this frame, even with many records in a few bytes.
            position = min(at + min(index, max(tape.taken - 1, 0)), resumed - 1)
            if position >= stop:
                return
            if tape.fault and found.fault == tape.fault:
                if fault is None:  # the next frame may begin within the bytes of a broken one
                    resumed = next_frame(source, kind, max(tape.last.next_start, position + 1), dictionary)
                    fault = fault_before(source, tape.last, resumed)
                found.fault = fault
            if position < start:
                continue
            row = pages.record(position, found, tape, config)
            row.key = f"{at}+{index}" if index else None
            if row.drop == "unreadable_bytes" and (at, index, tape.last.end) == (0, 0, source.size):
                row.drop = "not_an_archive" if found.stop == tape.known else row.drop
            yield row
        if tape.last.end is not None:
            at = tape.last.end
        elif fault is not None:
            at = resumed
        else:
            at = next_frame(source, kind, max(tape.last.next_start, position + 1), dictionary)


STAGE = Reader(
    version=13,
    config=Config,
    libraries=("fastwarc", "resiliparse", "brotli", "zstandard"),
    others=lambda config: config.bodies or {},
    columns=lambda config: bodies.columns(config.bodies or {}),
    resources=lambda config, part_bytes: bodies.resources(config.bodies or {}, part_bytes),
    metrics=lambda batch, config: bodies.metrics(batch, config.bodies or {}),
    warnings=lambda counts, config: list(bodies.warnings(counts, config.bodies)),
    fixes=lambda config: bodies.fixes(config.bodies or {}),
    positions="bytes of the file",
    beside=BESIDE,
    used=("robots_txt",),
    splittable=splittable,
    read=read,
)
