"""Reads files and trees of PDF files, one document per file, with its text in reading order.

Columns are read one after the other, running heads and page numbers are removed, hyphenated words and paragraphs are
joined across lines, columns and pages, tables become Markdown rows. `pages` says where each page begins in the text,
and how far its text can be trusted; `blocks` says where each paragraph is on its page. A single compressed file
(`paper.pdf.gz`) is decompressed. A record's position is 0.
"""

from collections.abc import Iterator
from contextvars import ContextVar
from datetime import datetime
from typing import Annotated

import pyarrow as pa
from pydantic import Field

from gristmill.schema import Record
from gristmill.stages.contract import AsCount, Bytes, Piece, Reader, Resources
from gristmill.stages.ingest import text
from gristmill.stages.ingest.sniff import ZIP, beginning
from gristmill.stages.pdf.child import PageImages, PdfChild
from gristmill.stages.reading.decompress import ReadFault
from gristmill.stages.reading.fields import dump
from gristmill.stages.reading.stream import bounded, decompressed

SUFFIX = ".pdf"
MAGIC = b"%PDF-"
HEAD_BYTES = 1024
"""Viewers accept files in which the magic bytes begin this late."""
MEDIA_TYPE = "application/pdf"

_BOX = [(edge, pa.int32()) for edge in ("left", "top", "right", "bottom")]
COLUMNS = pa.schema(
    [
        pa.field(
            "pages",
            pa.list_(
                pa.struct(
                    [
                        ("start", pa.int64()),
                        ("width", pa.int32()),
                        ("height", pa.int32()),
                        ("confidence", pa.float32()),
                        ("verdict", pa.string()),
                    ]
                )
            ),
        ),
        pa.field(
            "blocks",
            pa.list_(pa.struct([("start", pa.int64()), ("page", pa.int32()), *_BOX, ("kind", pa.string())])),
        ),
    ]
)
"""Offsets are in bytes of the text; sizes and boxes are in points, from the upper left corner of a page."""

_IMAGES = pa.schema([("images", pa.list_(pa.binary()))])
"""For each page its image as PNG, or null."""

IMAGE_MEMORY = 1_700_000_000
"""Measured for a document with 190 MiB of images, the most: 1.2 GB while it is written, and 0.36 GB in the process that
renders them."""

_child = PdfChild()

RENDERED_PAGE: ContextVar[int | None] = ContextVar("RENDERED_PAGE", default=None)
"""While a page number (from 0) is set, records have the image of that page, and nothing else: see `query/lineage`."""


def opens_pdf(data: bytes) -> bool:
    """Whether a file is PDF, whatever it claims to be: only white space is before its magic bytes."""
    return data[:HEAD_BYTES].lstrip().startswith(MAGIC)


def libraries(images: PageImages) -> tuple[str, ...]:
    """Libraries, and the model, that change what is read of a PDF file."""
    return ("kinds.model", "pypdfium2", "unicode", *(("zlib",) if images else ()))


def resources(images: PageImages, part_bytes: int) -> Resources | None:
    """The memory of a task that keeps page images; other tasks declare nothing."""
    return Resources(memory=IMAGE_MEMORY + 2 * part_bytes) if images else None


def columns(images: PageImages) -> pa.Schema:
    """The columns of PDF files."""
    return pa.unify_schemas([COLUMNS, _IMAGES]) if images else COLUMNS


class Config(text.TreeConfig):
    suffixes: tuple[str, ...] = (SUFFIX,)
    max_record_bytes: Bytes = 256 << 20
    """A larger file is dropped as `too_large`. Bytes, decompressed."""
    max_pages: Annotated[int, AsCount] = Field(10_000, gt=0)
    """A file with more pages is dropped as `too_large`."""
    markdown: bool = False
    """Write headings and code as Markdown. Tables always are."""
    images: PageImages = False
    """Keep images of pages whose text cannot be trusted, for the step `ocr`. Their documents are not dropped. `scans`:
    also of pages whose text is invisible, because an OCR engine wrote it under a picture."""


def read(piece: Piece, config: Config) -> Iterator[Record]:
    """Reasons: `empty_file`, `not_pdf`, `corrupt_pdf`, `encrypted` (it needs a password), `too_large` (bytes or pages),
    `needs_ocr` (most pages are pictures), `garbled` (the fonts of most pages do not tell the characters), `empty_text`,
    `unreadable_page` (most pages), `pdf_crashed`, and `truncated_` or `corrupt_` with `gzip`, `zstd`, `bzip2`, `xz`.
    """
    if piece.start > 0 or piece.stop == 0:
        return
    record = Record(0, content_type=MEDIA_TYPE)
    try:
        with piece.open() as file:
            data = bounded(decompressed(file)[1], config.max_record_bytes)
        if not data.strip():
            raise ReadFault("empty_file", f"{len(data)} bytes, none of them visible")
        if MAGIC not in data[:HEAD_BYTES]:
            kind = "is a zip file, such as .docx" if data.startswith(ZIP) else f"begins with {beginning(data, 8)}"
            raise ReadFault("not_pdf", f"the file {kind}")
        fill(record, data, config.max_pages, config.markdown, config.images)
    except ReadFault as fault:
        reason = "too_large" if fault.reason == "record_too_large" else fault.reason
        record.drop, record.detail = reason, fault.detail
    yield record


def fill(
    record: Record, data: bytes, max_pages: int, markdown: bool = False, images: PageImages = False
) -> dict[str, object]:
    """Fills a record with the text and the columns of a PDF file; returns its other metadata, if it has any.

    A record that is dropped because of its pages keeps the text that they have.
    """
    page = RENDERED_PAGE.get()
    if page is not None:
        found = _child.render(data, page)
        record.drop, record.detail, record.more = found.get("drop"), found.get("detail"), (found.get("images"),)
        return {}
    found = _child.read(data, max_pages, markdown, images)
    record.content_type = MEDIA_TYPE
    record.drop, record.detail = found.get("drop"), found.get("detail")
    record.text = found.get("text") or None
    record.title = found.get("title")
    record.language_hint = found.get("language") or record.language_hint
    meta: dict[str, object] = {
        name: found[name] for name in ("author", "subject", "producer", "created") if found.get(name)
    }
    if record.timestamp_us is None and found.get("created"):
        record.timestamp_us = int(datetime.fromisoformat(found["created"]).timestamp()) * 1_000_000
    record.meta = dump(meta) if meta else None
    record.more = (found.get("pages"), found.get("blocks"), *((found.get("images"),) if images else ()))
    return meta


STAGE = Reader(
    version=9,
    config=Config,
    libraries=lambda config: (*libraries(config.images), "zstandard"),
    positions=text.POSITIONS,
    columns=lambda config: columns(config.images),
    resources=lambda config, part_bytes: resources(config.images, part_bytes),
    splittable=text.splittable,
    wanted=text.wanted,
    other_suffix=text.other_suffix,
    skipped_folder=text.skipped_folder,
    read=read,
)
