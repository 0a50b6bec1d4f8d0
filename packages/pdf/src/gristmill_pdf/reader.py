"""Reads files and trees of PDF files, one document per file, with its text in reading order.

Columns are read one after the other, running heads and page numbers are removed, hyphenated words and paragraphs are
joined across lines, columns and pages, tables become Markdown rows. `pages` says where each page begins in the text,
and how far its text can be trusted; `blocks` says where each paragraph is on its page. A single compressed file
(`paper.pdf.gz`) is decompressed. A record's position is 0.
"""

import hashlib
import zlib
from collections.abc import Iterator, Mapping
from datetime import datetime
from functools import cache
from typing import Annotated, Any

import pyarrow as pa
import pyarrow.compute as pc
from pydantic import Field

from gristmill.counted import counted
from gristmill.schema import Record
from gristmill.stages.contract import AsCount, BodyFormat, Bytes, Piece, Reader, Resources
from gristmill.stages.ingest import whole_file
from gristmill.stages.ingest.sniff import ZIP, beginning
from gristmill.stages.reading.decompress import UNPACKING, ReadFault
from gristmill.stages.reading.fields import dump
from gristmill.stages.reading.stream import bounded, decompressed
from gristmill.warned import Warned
from gristmill_pdf import FOR_OCR
from gristmill_pdf.layout.child import PageImages, PdfChild
from gristmill_pdf.layout.kinds import MODEL
from gristmill_pdf.pages import RENDERED_PAGE, VIEWS

SUFFIX = ".pdf"
MAGIC = b"%PDF-"
HEAD_BYTES = 1024
"""Viewers accept files in which the magic bytes begin this late."""
MEDIA_TYPE = "application/pdf"
_FIX = "Read them by OCR: `images: true`, and the step `ocr`"

_BOX = [(edge, pa.int32()) for edge in ("left", "top", "right", "bottom")]
_PAGE = pa.struct(
    [
        *(("start", pa.int64()), ("width", pa.int32()), ("height", pa.int32())),
        *(("confidence", pa.float32()), ("verdict", pa.string())),
    ]
)
_BLOCK = pa.struct([("start", pa.int64()), ("page", pa.int32()), *_BOX, ("kind", pa.string())])
COLUMNS = pa.schema([("pages", pa.list_(_PAGE)), ("blocks", pa.list_(_BLOCK))])
"""Offsets are in bytes of the text; sizes and boxes are in points, from the upper left corner of a page."""

_IMAGES = pa.schema([("images", pa.list_(pa.binary()))])
"""For each page its image as PNG, or null."""

IMAGE_MEMORY = 1_700_000_000
"""Measured for a document with 190 MiB of images, the most: 1.2 GB while it is written, and 0.36 GB in the process that
renders them."""

_child = PdfChild()


def opens_pdf(data: bytes) -> bool:
    """Whether a file is PDF, whatever it claims to be: only white space is before its magic bytes."""
    return data[:HEAD_BYTES].lstrip().startswith(MAGIC)


@cache
def _model_hash() -> str:
    return hashlib.sha256(MODEL.read_bytes()).hexdigest()[:16]


class Config(whole_file.TreeConfig):
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


def libraries(config: Config) -> tuple[str | tuple[str, str], ...]:
    """Libraries, and the model of lines, that change what is read of a PDF file."""
    images = (("zlib", zlib.ZLIB_RUNTIME_VERSION),) if config.images else ()
    return (("kinds.model", _model_hash()), "pypdfium2", "unicode", *UNPACKING, *images)


def resources(config: Config, part_bytes: int) -> Resources | None:
    """The memory of a task that keeps page images; other tasks declare nothing."""
    return Resources(memory=IMAGE_MEMORY + 2 * part_bytes) if config.images else None


def columns(config: Config) -> pa.Schema:
    """The columns of PDF files."""
    return pa.unify_schemas([COLUMNS, _IMAGES]) if config.images else COLUMNS


def metrics(batch: pa.RecordBatch, config: Config) -> dict[str, int]:
    """Counts the pages of documents that stay, whose text cannot be trusted, and which no step can read."""
    if config.images:
        return {}
    pages = pc.list_flatten(batch.column("pages").filter(pc.is_null(batch.column("drop"))))
    is_bad = pc.is_in(pc.struct_field(pages, "verdict"), value_set=pa.array(FOR_OCR))
    return {"unread_pages": pc.sum(is_bad).as_py() or 0}


def warnings(counts: Mapping[str, Any], config: Config) -> list[str]:
    """Warns of pages without a text that can be trusted."""
    pages = counts.get("unread_pages")
    text = "of documents that were read are pictures, or have other characters than they show"
    return [Warned("unread_pages", f"{counted(pages, 'page')} {text}. {_FIX}")] if pages else []


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
        fill(record, data, config)
    except ReadFault as fault:
        reason = "too_large" if fault.reason == "record_too_large" else fault.reason
        record.drop, record.detail = reason, fault.detail
    yield record


def fill(record: Record, data: bytes, config: Config) -> dict[str, object]:
    """Fills a record with the text and the columns of a PDF file; returns its other metadata, if it has any.

    A record that is dropped because of its pages keeps the text that they have.
    """
    if MAGIC not in data[:HEAD_BYTES]:
        kind = "is a zip file, such as .docx" if data.startswith(ZIP) else f"begins with {beginning(data, 8)}"
        record.drop, record.detail = "not_pdf", f"the file {kind}"
        return {}
    page = RENDERED_PAGE.get()
    if page is not None:
        found = _child.render(data, page)
        record.drop, record.detail = found.get("drop"), found.get("detail")
        record.more = (found.get("images"), *[None] * (len(columns(config)) - 1))
        return {}
    found = _child.read(data, config.max_pages, config.markdown, config.images)
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
    record.more = (found.get("pages"), found.get("blocks"), *((found.get("images"),) if config.images else ()))
    return meta


STAGE = Reader(
    version=9,
    config=Config,
    libraries=libraries,
    positions=whole_file.POSITIONS,
    columns=columns,
    resources=resources,
    metrics=metrics,
    warnings=warnings,
    fixes=dict.fromkeys(FOR_OCR, _FIX),
    body=BodyFormat(media_types=(MEDIA_TYPE, "application/x-pdf"), opens=opens_pdf, fill=fill),
    pages=VIEWS,
    wanted=whole_file.wanted,
    other_suffix=whole_file.other_suffix,
    skipped_folder=whole_file.skipped_folder,
    read=read,
)
