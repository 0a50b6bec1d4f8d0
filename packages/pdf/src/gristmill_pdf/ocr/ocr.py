"""Reads page images with an OCR engine and puts the text in place of those pages, checked against their text layer.

    sources:
      library: {kind: scans, read: {format: pdf, paths: [scans], images: true}}
    steps:
      scans: [ocr]

With `images: true` the reader keeps an image of each page whose text cannot be trusted (`needs_ocr`, `garbled`). The
engine is rapidocr with the models in its package (`gristmill-pdf[ocr]`); nothing is downloaded. With `model`, it is a
vision model on OpenAI-compatible servers, and its answers are stored, retried and paid for as those of `generate`.
Other documents pass unchanged. `ocr_pages` says for each page that was read where its text and the blocks of it are (a
model tells no blocks), and what the check found: numbers that the text layer lacks, sentences that were cut because of
them, and words that were cut as loops. A garbled text layer is not compared, nor is a poor one. A page without a usable
answer has a `fault`, and keeps its text layer, unless that is garbled. A page of whose answer nothing is left keeps it,
too. A document that still has no text is dropped as `no_text_on_images`.
"""

import hashlib
import importlib.metadata
import importlib.util
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from gristmill.counted import counted
from gristmill.errors import UserError, WrongSetting
from gristmill.install_command import install_package
from gristmill.stages.calls import StoredAnswers
from gristmill.stages.contract import Map, Resources
from gristmill.stages.derived import TAKEN_DOWN, UNSENT
from gristmill.warned import Warned, idle
from gristmill_generate import generate
from gristmill_generate.ask import Ask
from gristmill_generate.generate import judge, obtain, unsent_in
from gristmill_generate.serve import LocalServer
from gristmill_generate.settings import RequestConfig, Sampling
from gristmill_pdf.layout.assemble import PlacedBlock
from gristmill_pdf.ocr.engine import PageEngine, ReadImage
from gristmill_pdf.ocr.layout import PageText, page_texts
from gristmill_pdf.ocr.verify import CheckedPage, checked
from gristmill_pdf.ocr.vision import page_ask, text_of

READS = ("text", "pages", "images")
_BLOCK = pa.struct(
    [("start", pa.int64()), *((edge, pa.int32()) for edge in ("left", "top", "right", "bottom")), ("kind", pa.string())]
)
_PAGE = pa.struct(
    [
        ("page", pa.int32()),
        ("start", pa.int64()),
        ("stop", pa.int64()),
        ("compared", pa.bool_()),
        ("new_numbers", pa.int32()),
        ("cut_sentences", pa.int32()),
        ("looped_words", pa.int32()),
        ("fault", pa.string()),
        ("blocks", pa.list_(_BLOCK)),
    ]
)
SCHEMA = pa.schema(
    [("text", pa.string()), ("ocr_pages", pa.list_(_PAGE)), ("drop", pa.string()), ("detail", pa.string())]
)
"""start and stop are in bytes of the new text; fault is the reason why a page has no answer; blocks are as in `pdf`."""
MEMORY = 1_500_000_000
"""Measured: 0.88 GB with rapidocr 3.10 on full pages of 4 million pixels, the most. In addition, two copies of the
largest images of a document (192 MiB)."""
_LIBRARIES = ("rapidocr", "onnxruntime")


Reading = tuple[PageText, str | None]
"""What was read on a page image, and the reason why nothing was."""


class Config(RequestConfig):
    model: str = ""
    """A vision model, as its servers know it. Without one, rapidocr reads the pages on this machine."""
    sampling: Sampling = Sampling(temperature=0, max_tokens=4096)
    """How the model samples."""


def libraries(config: Config) -> tuple[str, ...]:
    """The engine, where it is installed; `check` refuses a recipe where it is not."""
    return () if config.model else tuple(name for name in _LIBRARIES if importlib.util.find_spec(name) is not None)


def check(config: Config) -> None:
    """Raises UserError if the engine is not installed, or the model has no server."""
    if config.model:
        generate.check_servers(config)
        return
    if config.servers or config.serve is not None:
        raise WrongSetting(
            "model", "servers need the name of a vision model. Without servers, rapidocr reads the pages."
        )
    if missing := [name for name in _LIBRARIES if importlib.util.find_spec(name) is None]:
        raise UserError(
            f"{' and '.join(missing)} {'is' if len(missing) == 1 else 'are'} not installed, so no page image can be "
            f"read. Remove the step ocr, or run: {install_package('pdf', 'ocr')}"
        )


def scope_of(config: Config) -> str | None:
    """The scope of the stored answers of a model."""
    return generate.scope_of(config) if config.model else None


def kept(config: Config) -> str | None:
    """The folder of what the engine read: other versions and other machines may read other text."""
    if config.model or any(importlib.util.find_spec(name) is None for name in _LIBRARIES):
        return None
    return "-".join(f"{name}-{importlib.metadata.version(name)}" for name in _LIBRARIES)


def setup(config: Config) -> Iterator[PageEngine | LocalServer | None]:
    """The engine of a worker, which loads its models when it reads the first page, or the server that it starts."""
    if config.model:
        yield from generate.setup(config)
    else:
        yield PageEngine()


def resources(config: Config, part_bytes: int) -> Resources:
    serve = config.serve
    return Resources(
        memory=MEMORY + (0 if serve is None else serve.memory), cores=1, gpus=0 if serve is None else serve.gpus
    )


def _images(batch: pa.RecordBatch) -> list[dict[int, bytes]]:
    """For each document, its page images by the number of the page."""
    return [
        {number: png for number, png in enumerate(pages or ()) if png is not None}
        for pages in batch.column("images").to_pylist()
    ]


def requests(batch: pa.RecordBatch, config: Config) -> list[Ask]:
    """The requests for some documents, each once, except those that must not be sent."""
    if UNSENT in batch.schema.names:
        batch = batch.filter(batch.column(UNSENT).is_null())
    asks = (page_ask(png, config) for images in _images(batch) for png in images.values())
    return list({ask.key: ask for ask in asks}.values())


def apply(
    batch: pa.RecordBatch, config: Config, *, answers: StoredAnswers | None = None, loaded: Any = None
) -> pa.RecordBatch:
    """The text of each document with its page images read; documents without images stay as they are."""
    images = _images(batch)
    texts, pages = (batch.column(name).to_pylist() for name in ("text", "pages"))
    if config.model:
        assert answers is not None
        read = _asked(images, unsent_in(batch), config, answers, loaded)
    else:
        engine: PageEngine = loaded or PageEngine()
        read = [_laid_out(one, listed or [], engine, answers) for one, listed in zip(images, pages, strict=True)]
    columns: list[list[Any]] = [[], [], [], []]
    for text, listed, numbers, readings in zip(texts, pages, images, read, strict=True):
        row: tuple[str | None, Any, str | None, str | None] = (text, None, None, None)
        if numbers:
            row = _replaced(text or "", listed or [], dict(zip(numbers, readings, strict=True)))
        for column, value in zip(columns, row, strict=True):
            column.append(value)
    arrays = [pa.array(values, field.type) for values, field in zip(columns, SCHEMA, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=SCHEMA)


def _laid_out(
    images: Mapping[int, bytes],
    pages: Sequence[Mapping[str, Any]],
    engine: PageEngine,
    answers: StoredAnswers | None,
) -> list[Reading]:
    """What the engine reads on the images of a document."""
    read = {number: _read_once(png, engine, answers) for number, png in images.items()}
    found = page_texts(read, {number: (pages[number]["width"], pages[number]["height"]) for number in read})
    return [(found[number], None) for number in images]


def _read_once(png: bytes, engine: PageEngine, answers: StoredAnswers | None) -> ReadImage:
    """What the engine reads on a page image, which is stored at once: a page takes seconds."""
    if answers is None:
        return engine.read(png)
    key = hashlib.blake2b(png, digest_size=16).digest()
    found = answers.find([key])
    if key not in found:
        found = {key: answers.add(key, engine.read(png), 0, 0)}
        answers.flush()
    image: ReadImage = found[key][1]
    return image


def _asked(
    images: Sequence[Mapping[int, bytes]],
    unsent: Sequence[str | None],
    config: Config,
    answers: StoredAnswers,
    server: LocalServer | None,
) -> list[list[Reading]]:
    """What the model reads on the images of each document."""
    asks = [[page_ask(png, config) for png in one.values()] for one in images]
    both = zip(asks, unsent, strict=True)
    stored = obtain([(ask, why is None) for some, why in both for ask in some], config, answers, server)

    def reading(ask: Ask) -> Reading:
        answer = stored.get(ask.key)
        text, fault, _ = (None, TAKEN_DOWN, None) if answer is None else judge(answer[1], text_of)
        return PageText(text or ""), fault

    return [[reading(ask) for ask in some] for some in asks]


def _replaced(
    text: str, pages: Sequence[Mapping[str, Any]], readings: Mapping[int, Reading]
) -> tuple[str | None, list[dict[str, Any]], str | None, str | None]:
    """The new text of a document, its pages that were read, and the reason to drop it."""
    data = text.encode()
    starts = [*(page["start"] for page in pages), len(data)]
    segments = [data[begin:end].decode("utf-8", "replace") for begin, end in pairwise(starts)]
    layers = {number: "" if pages[number]["verdict"] == "garbled" else segments[number] for number in readings}
    said = [layers[number] if fault else found.text for number, (found, fault) in readings.items()]
    trust = [pages[number]["confidence"] for number in readings]
    answers = dict(zip(readings, checked(said, list(layers.values()), trust), strict=True))
    parts = [data[: starts[0]].decode("utf-8", "replace").strip()]
    read = []
    at = len(parts[0].encode())
    glue: str | None = None
    for number, segment in enumerate(segments):
        answer = answers.get(number)
        found, fault = readings.get(number, (PageText(""), None))
        is_kept = answer is not None and bool(answer.text) and not fault
        part = (segment if answer is None else answer.text or layers[number]).strip()
        if part and at:
            between = glue if glue is not None and is_kept else "\n\n"
            parts.append(between)
            at += len(between)
        size = len(part.encode())
        glue = found.glue if is_kept else None
        if answer is not None:
            blocks = list(_blocks(found.blocks, answer, at)) if is_kept else []
            read.append(_row(number, at, at + size, answer) | {"fault": fault, "blocks": blocks})
        parts.append(part)
        at += size
    if at == 0:
        unread = sum(fault is not None for _, fault in readings.values())
        more = f", {unread:,} of them without a usable answer" if unread else ""
        return None, read, "no_text_on_images", f"{counted(len(readings), 'page image')} read, no text found{more}"
    return "".join(parts), read, None, None


def _blocks(blocks: Sequence[PlacedBlock], answer: CheckedPage, at: int) -> Iterator[dict[str, Any]]:
    """The blocks of which something was kept, with their places in the text of the document."""
    size = len(answer.text.encode())
    starts = [*(min(answer.moved(block.start), size) for block in blocks), size]
    for block, (start, stop) in zip(blocks, pairwise(starts), strict=True):
        if start < stop:
            edges = zip(("left", "top", "right", "bottom"), block.box, strict=True)
            yield {"start": at + start, **dict(edges), "kind": block.kind}


def _row(number: int, start: int, stop: int, answer: CheckedPage) -> dict[str, Any]:
    return {
        "page": number,
        "start": start,
        "stop": stop,
        "compared": answer.is_compared,
        "new_numbers": answer.new_numbers,
        "cut_sentences": answer.cut_sentences,
        "looped_words": answer.looped_words,
    }


def metrics(batch: pa.RecordBatch, answers: pa.RecordBatch, config: Config) -> dict[str, Any]:
    """Counts the pages that were read, and what the check found on them."""
    pages = pc.list_flatten(answers.column("ocr_pages"))
    names = ("compared", "new_numbers", "cut_sentences", "looped_words")
    sums = {name: int(pc.sum(pc.struct_field(pages, name).cast(pa.int64())).as_py() or 0) for name in names}
    faults = {
        one["values"]: one["counts"] for one in pc.struct_field(pages, "fault").drop_null().value_counts().to_pylist()
    }
    return {"documents": batch.num_rows, "pages": len(pages), **sums, "faults": faults}


def warnings(found: Mapping[str, Any], config: Config) -> Iterator[Warned]:
    """Warns if no document has page images, or pages have no usable answer (law 7)."""
    if faults := {reason: count for reason, count in found.get("faults", {}).items() if reason != TAKEN_DOWN}:
        reasons = ", ".join(f"{reason} {count:,}" for reason, count in sorted(faults.items()))
        yield Warned(
            "unusable_answers",
            f"{sum(faults.values()):,} of {counted(found['pages'], 'page image')} have no usable answer ({reasons}), "
            "so their pages keep what text they have. Check max_tokens and the server; `again: 1` asks again what "
            "servers failed to answer",
        )
    text = "no document has a page that needs OCR, so nothing was read. The step ocr can be removed"
    yield from idle(found.get("documents"), found.get("pages"), text)


STAGE = Map(
    version=5,
    config=Config,
    libraries=libraries,
    reads=READS,
    schema=SCHEMA,
    apply=apply,
    setup=setup,
    metrics=metrics,
    check=check,
    warnings=lambda found, config: list(warnings(found, config)),
    resources=resources,
    may_read=(UNSENT,),
    only_kept=True,
    answers=scope_of,
    kept=kept,
    requests=requests,
)
