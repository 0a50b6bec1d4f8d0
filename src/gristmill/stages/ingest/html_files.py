"""Reads files and trees of pages (HTML, XHTML), one document per file, for the step `extract`.

A page is decoded like a page of a web archive: by its byte order mark, its <meta>, or by detection. A single compressed
file (`page.html.gz`) is decompressed. A record's position is 0.
"""

import re
from collections.abc import Iterator

from gristmill.schema import Record, as_str
from gristmill.stages.contract import Piece, Reader
from gristmill.stages.ingest import pages, text
from gristmill.stages.reading.decompress import UNPACKING, ReadFault
from gristmill.stages.reading.stream import bounded, decompressed

_TEXT_ONLY = pages.Config()
_TAG = re.compile(r"<[a-zA-Z!/?]")


PAGE_PARTS = frozenset((".css", ".gif", ".ico", ".jpg", ".js", ".map", ".png", ".svg", ".ttf", ".woff", ".woff2"))
"""Suffixes of scripts, styles, pictures and fonts beside pages, which nobody expects to be read."""


class Config(text.TreeConfig):
    suffixes: tuple[str, ...] = text.PAGE_SUFFIXES


def other_suffix(name: str, config: Config) -> str | None:
    """The suffix because of which a file is skipped, unless it is a part of pages."""
    suffix = text.other_suffix(name, config)
    return None if suffix in PAGE_PARTS else suffix


def read(piece: Piece, config: Config) -> Iterator[Record]:
    """Reasons: `empty_file`, `not_html` (no tag, or zero bytes), `not_text` (a PDF, an image), `undecodable_charset`,
    `record_too_large`, and `truncated_` or `corrupt_` with `gzip`, `zstd`, `bzip2`, `xz`.
    """
    if piece.start > 0 or piece.stop == 0:
        return
    record = Record(0, content_type="text/html")
    try:
        with piece.open() as file:
            data = bounded(decompressed(file)[1], config.max_record_bytes)
        if not data.strip():
            raise ReadFault("empty_file", f"{len(data)} bytes, none of them visible")
        pages.document(record, data, None, _TEXT_ONLY)
        if record.html is not None:
            page = as_str(record.html)
            if "\0" in page or not _TAG.search(page):
                raise ReadFault("not_html", f"{'zero bytes' if chr(0) in page else 'no tag'} in {len(page)} characters")
    except ReadFault as fault:
        record.html, record.drop, record.detail = None, fault.reason, fault.detail
    yield record


STAGE = Reader(
    version=1,
    config=Config,
    libraries=("resiliparse", *UNPACKING),
    positions=text.POSITIONS,
    markup=True,
    wanted=text.wanted,
    other_suffix=other_suffix,
    skipped_folder=text.skipped_folder,
    read=read,
)
