"""Reads page images with an OCR engine and puts the text in place of those pages, checked against their text layer.

    sources:
      scans: {kind: scans, read: {format: pdf, paths: [scans], images: true}}
    steps:
      scans: [ocr]

The readers `pdf` and `warc` keep an image of each page whose text cannot be trusted (`needs_ocr`, `garbled`) if they
have `images: true`.
The engine is rapidocr with the models in its package (extra `ocr`); nothing is downloaded. Other documents pass
unchanged. `ocr_pages` says for each page that was read where its text is, and what the check found: numbers that the
text layer lacks, lines that were cut because of them, and words that were cut as loops. A garbled text layer is not
compared. A document that still has no text is dropped as `no_text_on_images`.
"""

import importlib.util
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from gristmill.counted import counted
from gristmill.errors import UserError
from gristmill.stages.contract import Map, Resources, StageConfig
from gristmill.stages.ocr.engine import PageEngine
from gristmill.stages.ocr.verify import CheckedPage, checked

READS = ("text", "pages", "images")
_PAGE = pa.struct(
    [
        ("page", pa.int32()),
        ("start", pa.int64()),
        ("stop", pa.int64()),
        ("compared", pa.bool_()),
        ("new_numbers", pa.int32()),
        ("cut_lines", pa.int32()),
        ("looped_words", pa.int32()),
    ]
)
SCHEMA = pa.schema(
    [("text", pa.string()), ("ocr_pages", pa.list_(_PAGE)), ("drop", pa.string()), ("detail", pa.string())]
)
"""start and stop are in bytes of the new text."""
MEMORY = 1_500_000_000
"""Measured: 0.88 GB with rapidocr 3.10 on full pages of 4 million pixels, the most. In addition, two copies of the
largest images of a document (192 MiB)."""
_LIBRARIES = ("rapidocr", "onnxruntime")


class Config(StageConfig):
    pass


def libraries(config: Config) -> tuple[str, ...]:
    """The engine, where it is installed; `check` refuses a recipe where it is not."""
    return tuple(name for name in _LIBRARIES if importlib.util.find_spec(name) is not None)


def check(config: Config) -> None:
    """Raises UserError if the engine is not installed."""
    if missing := [name for name in _LIBRARIES if importlib.util.find_spec(name) is None]:
        raise UserError(
            f"{' and '.join(missing)} {'is' if len(missing) == 1 else 'are'} not installed, so no page image can be "
            "read. Install it with: pip install 'gristmill[ocr]', or remove the step ocr."
        )


def setup(config: Config) -> PageEngine:
    """The engine of a worker, which loads its models when it reads the first page."""
    return PageEngine()


def apply(batch: pa.RecordBatch, config: Config, *, loaded: PageEngine | None = None) -> pa.RecordBatch:
    """The text of each document with its page images read; documents without images stay as they are."""
    columns: list[list[Any]] = [[], [], [], []]
    for text, listed, scans in zip(*(batch.column(name).to_pylist() for name in READS), strict=True):
        row: tuple[str | None, Any, str | None, str | None] = (text, None, None, None)
        images = {number: png for number, png in enumerate(scans or ()) if png is not None}
        if images:
            row = _read(text or "", listed or [], images, loaded or PageEngine())
        for column, value in zip(columns, row, strict=True):
            column.append(value)
    arrays = [pa.array(values, field.type) for values, field in zip(columns, SCHEMA, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=SCHEMA)


def _read(
    text: str, pages: Sequence[Mapping[str, Any]], images: Mapping[int, bytes], engine: PageEngine
) -> tuple[str | None, list[dict[str, Any]], str | None, str | None]:
    """The new text of a document, its pages that were read, and the reason to drop it."""
    data = text.encode()
    starts = [*(page["start"] for page in pages), len(data)]
    segments = [data[begin:end].decode("utf-8", "replace") for begin, end in pairwise(starts)]
    numbers = sorted(images)
    layers = ["" if pages[number]["verdict"] == "garbled" else segments[number] for number in numbers]
    answers = dict(zip(numbers, checked([engine.read(images[number]) for number in numbers], layers), strict=True))
    parts = [data[: starts[0]].decode("utf-8", "replace").strip()]
    read = []
    at = len(parts[0].encode())
    for number, segment in enumerate(segments):
        answer = answers.get(number)
        part = (segment if answer is None else answer.text).strip()
        if part and at:
            parts.append("\n\n")
            at += 2
        size = len(part.encode())
        if answer is not None:
            read.append(_row(number, at, at + size, answer))
        parts.append(part)
        at += size
    if at == 0:
        return None, read, "no_text_on_images", f"{counted(len(images), 'page image')} read, no text found"
    return "".join(parts), read, None, None


def _row(number: int, start: int, stop: int, answer: CheckedPage) -> dict[str, Any]:
    return {
        "page": number,
        "start": start,
        "stop": stop,
        "compared": answer.is_compared,
        "new_numbers": answer.new_numbers,
        "cut_lines": answer.cut_lines,
        "looped_words": answer.looped_words,
    }


def metrics(batch: pa.RecordBatch, answers: pa.RecordBatch, config: Config) -> dict[str, Any]:
    """Counts the pages that were read, and what the check found on them."""
    pages = pc.list_flatten(answers.column("ocr_pages"))
    names = ("compared", "new_numbers", "cut_lines", "looped_words")
    sums = {name: int(pc.sum(pc.struct_field(pages, name).cast(pa.int64())).as_py() or 0) for name in names}
    return {"documents": batch.num_rows, "pages": len(pages), **sums}


def warnings(found: Mapping[str, Any], config: Config) -> Iterator[str]:
    """Warns if no document has page images (law 7)."""
    if found.get("documents") and not found.get("pages"):
        yield ("no document has a page that needs OCR, so nothing was read. The step ocr can be removed")


STAGE = Map(
    version=1,
    config=Config,
    libraries=libraries,
    reads=READS,
    schema=SCHEMA,
    apply=apply,
    setup=setup,
    metrics=metrics,
    check=check,
    warnings=lambda found, config: list(warnings(found, config)),
    resources=Resources(memory=MEMORY, cores=1),
)
