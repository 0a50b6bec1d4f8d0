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

from collections.abc import Iterator
from typing import IO, NamedTuple, cast

from gristmill.schema import Record
from gristmill.stages.contract import Piece, Reader
from gristmill.stages.ingest import bodies, pages
from gristmill.stages.ingest.frames import DecodedRun, container, feed_of, is_frame, next_frame, zstd_dictionary
from gristmill.stages.ingest.pages import Config as Config
from gristmill.stages.ingest.walk import ArchiveRecord, walk
from gristmill.stages.reading.decompress import UNPACKING
from gristmill.stages.reading.views import Window

BESIDE = pages.BESIDE
MOST_POSITION = 1 << 63


def read(piece: Piece, config: Config) -> Iterator[Record]:
    with piece.open() as file:
        stop = MOST_POSITION if piece.stop is None else piece.stop
        if piece.ranges is None:
            yield from _rows(file, piece.name, piece.start, stop, config)
            return
        offset = 0
        for first, end in piece.ranges:
            if piece.start <= first < stop:
                window = cast(IO[bytes], Window(file, offset, end - first, closes=False))
                yield from _rows_of_range(window, piece.name, first, config)
            offset += end - first


def _rows(file: IO[bytes], name: str, start: int, stop: int, config: Config) -> Iterator[Record]:
    """The rows of the records from `start` to `stop`. All before them are found first, and none of them is decoded."""
    size, is_empty = file.seek(0, 2), True
    for found in _records(file, name, size, config.max_record_bytes):
        if found.position >= stop:
            return
        is_empty = False
        if found.position >= start:
            row = pages.row_of(found.position, found.record, found.is_arc, config)
            row.key = found.key
            yield row
    if is_empty and start <= 0 < stop:
        yield Record(0, drop="empty_file", detail="empty lines and frames, no record" if size else None)


def _rows_of_range(window: IO[bytes], name: str, first: int, config: Config) -> Iterator[Record]:
    """The rows of a range, with positions in the whole file."""
    for row in _rows(window, name, 0, MOST_POSITION, config):
        if row.position == 0 and row.drop in ("unreadable_bytes", "not_an_archive", "empty_file"):
            row.drop, row.detail = "no_record", f"the index names a record at byte {first}; there is none"
        if row.key is not None:
            frame, _, index = row.key.partition("+")
            row.key = f"{first + int(frame)}+{index}"
        row.position += first
        yield row


class _Found(NamedTuple):
    """A record, and where it is."""

    position: int
    key: str | None
    record: ArchiveRecord
    is_arc: bool = False


def _records(file: IO[bytes], name: str, size: int, limit: int) -> Iterator[_Found]:
    kind = container(file, name)
    dictionary = zstd_dictionary(file) if kind == "zstd" else None
    start, feed = 0, feed_of(file, 0)
    while start < size:
        if not is_frame(feed, kind):
            following = next_frame(file, kind, start, dictionary) or size
            yield _Found(start, None, ArchiveRecord(0, fault="unreadable_bytes", detail=f"{following - start} bytes"))
            start, feed = following, feed_of(file, following)
            continue
        run = DecodedRun(file, kind, start, dictionary, feed)
        position, resumed = start, None
        for index, record in enumerate(walk(run, limit)):
            if run.fault is not None and resumed is None:
                # The next frame may begin within the bytes of a broken one.
                resumed = next_frame(file, kind, max(run.next_search, position + 1), dictionary) or size
            # Positions stay within the frames of this run, even with many records in a few bytes.
            last = run.last_position if resumed is None else resumed - 1
            position = record.offset if kind == "plain" else min(start + index, last)
            if record.fault == "unreadable_bytes" and start == index == 0 and run.end == size and not run.fill(1):
                record.fault = "not_an_archive"
            yield _Found(position, f"{start}+{index}" if index and kind != "plain" else None, record, run.arc)
        start = size if run.end is None else run.end
        if resumed is not None:
            start, feed = resumed, feed_of(file, resumed)


STAGE = Reader(
    version=14,
    config=Config,
    libraries=("resiliparse", "brotli", "lz4", *UNPACKING),
    others=lambda config: config.bodies or {},
    columns=lambda config: bodies.columns(config.bodies or {}),
    resources=lambda config, part_bytes: bodies.resources(config.bodies or {}, part_bytes),
    metrics=lambda batch, config: bodies.metrics(batch, config.bodies or {}),
    warnings=lambda counts, config: list(bodies.warnings(counts, config.bodies)),
    fixes=lambda config: bodies.fixes(config.bodies or {}),
    positions="bytes of the file",
    beside=BESIDE,
    used=("robots_txt",),
    read=read,
)
