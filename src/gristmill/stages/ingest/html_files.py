"""Reads files and trees of pages (HTML, XHTML), one document per file, for the step `extract`.

A page is decoded like a page of a web archive: by its byte order mark, its <meta>, or by detection. A single compressed
file (`page.html.gz`) is decompressed. A record's position is 0.
"""

import re
from collections.abc import Iterator

from gristmill.schema import Record, as_str
from gristmill.stages.contract import Piece
from gristmill.stages.ingest import pages, text, whole_file
from gristmill.stages.ingest.whole_file import one_record, tree_reader
from gristmill.stages.reading.decompress import ReadFault

_TEXT_ONLY = pages.Config()
_TAG = re.compile(r"<[a-zA-Z!/?]")


PAGE_PARTS = frozenset((".css", ".gif", ".ico", ".jpg", ".js", ".map", ".png", ".svg", ".ttf", ".woff", ".woff2"))
"""Suffixes of scripts, styles, pictures and fonts beside pages, which nobody expects to be read."""


class Config(whole_file.TreeConfig):
    suffixes: tuple[str, ...] = text.PAGE_SUFFIXES


def other_suffix(name: str, config: Config) -> str | None:
    """The suffix because of which a file is skipped, unless it is a part of pages."""
    suffix = whole_file.other_suffix(name, config)
    return None if suffix in PAGE_PARTS else suffix


def _parse(data: bytes, record: Record, config: Config) -> None:
    pages.document(record, data, None, _TEXT_ONLY)
    page = None if record.html is None else as_str(record.html)
    if page is not None and ("\0" in page or not _TAG.search(page)):
        raise ReadFault("not_html", f"{'zero bytes' if chr(0) in page else 'no tag'} in {len(page)} characters")


def read(piece: Piece, config: Config) -> Iterator[Record]:
    """Reasons: `not_html` (no tag, or zero bytes), `not_text` (a PDF, an image), `undecodable_charset`, and those of
    `one_record`."""
    yield from one_record(piece, config, "text/html", _parse)


STAGE = tree_reader(2, Config, read, ("resiliparse",), other_suffix=other_suffix, markup=True)
