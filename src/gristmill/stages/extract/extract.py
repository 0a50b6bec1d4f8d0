"""Extracts the main text and the metadata of a page; plain text passes through. All text is normalised.

There are three tools. `gristmill`, the default, is our own: it cuts a page into blocks, and a small model, trained on
pages with gold text, decides which blocks are content. Its work is linear in the size of a page. `resiliparse`
(Bevendorff et al. 2018, Elastic ChatNoir) is rule-based, on the lexbor parser. `trafilatura` (Barbaresi 2021) has the
better rules and is the slowest.
"""

import importlib.util
from collections.abc import Iterator, Sequence
from typing import Annotated, Any, Literal

import numpy as np
import pyarrow as pa
from pydantic import Field

from gristmill.errors import UserError, WrongSetting
from gristmill.install_command import install_extra
from gristmill.kernels.html.bounds import as_words
from gristmill.kernels.html.page import MAX_BLOCKS
from gristmill.stages.buffers import read_only
from gristmill.stages.contract import AsCount, Bytes, Count, File, Map, StageConfig
from gristmill.stages.extract.facts import facts, language_tag
from gristmill.stages.extract.formulas import Delimiters, WrittenText
from gristmill.stages.extract.main_text import Extractor, TooManyBlocks, cached_model, default_model
from gristmill.stages.extract.other_tools import ExtractFault, bounded_pages, by_resiliparse, by_trafilatura
from gristmill.stages.reading.markup import count_markup, markup_warnings
from gristmill.stages.shared.formulas import find_formulas
from gristmill.stages.shared.normalise import normalise_rows

READS = ("html", "text", "title", "language_hint")
_METADATA = ("author", "date", "canonical_url", "site")
_STRINGS = ("text", "title", "language_hint", *_METADATA, "drop", "detail")
_COUNTS = ("formulas", "formula_chars")
SCHEMA = pa.schema(
    [
        *((name, pa.string()) for name in _STRINGS),
        *((name, pa.int32()) for name in _COUNTS),
        ("expected_f1", pa.float32()),
    ]
)

MAX_DETAIL_CHARS = 200
MAX_NODES = {"gristmill": MAX_BLOCKS, "resiliparse": 200_000, "trafilatura": 30_000}


class Config(StageConfig):
    tool: Literal["gristmill", "resiliparse", "trafilatura"] = "gristmill"
    """The extractor: our own, or a library. trafilatura takes 50 times as long, resiliparse three times."""
    comments: bool = False
    """Keep readers' comments below an article."""
    whole: bool = False
    """Keep all text instead of the main text: for posts, mails and other markup without menus around it (only with
    tool: gristmill)."""
    markdown: bool = False
    """Write headings, lists, tables, code, links and emphasis as Markdown (not with resiliparse)."""
    formula_delimiters: Delimiters = "dollars"
    """The signs around TeX. dollars: `$x$`, and `$$x$$` on its own line; brackets: `\\(x\\)` and `\\[x\\]`."""
    model: File | None = None
    """A model from `gristmill extractor train`, instead of the built-in one (only with tool: gristmill)."""
    max_blank_lines: Annotated[int, AsCount] = Field(1, ge=0)
    """Consecutive blank lines that are kept; further ones are removed."""
    max_html_bytes: Bytes = Field(10_000_000, gt=0)
    """Bytes of UTF-8 markup; a larger page is dropped as html_too_large. Common Crawl cuts pages at 1 to 5 MB."""
    max_nodes: Count | None = None
    """Elements of a page, or blocks with gristmill; more: too_many_nodes. None: 200,000, or 30,000 with trafilatura."""


def libraries(config: Config) -> tuple[str, ...]:
    """`unicode` determines NFC and the names of letters in formulas."""
    others = {"gristmill": (), "resiliparse": ("resiliparse",), "trafilatura": ("trafilatura", "lxml")}
    return ("unicode", *others[config.tool])


def check(config: Config) -> None:
    """Raises WrongSetting if the tool is not installed or does not support a setting, or if the model is not valid."""
    if config.tool == "trafilatura" and importlib.util.find_spec("trafilatura") is None:
        raise WrongSetting(
            "tool",
            "trafilatura is not installed, so no page can be extracted. Set tool: gristmill, or install it: "
            + install_extra("trafilatura"),
        )
    if config.markdown and config.tool == "resiliparse":
        raise WrongSetting(
            "markdown", "resiliparse does not write Markdown, so it cannot extract pages this way. Set tool: gristmill."
        )
    if config.whole and (config.tool != "gristmill" or config.model is not None):
        raise WrongSetting(
            "whole",
            "only gristmill keeps all text, and it needs no model for that. Set tool: gristmill and remove model.",
        )
    if config.model is not None and config.tool != "gristmill":
        raise WrongSetting(
            "model",
            f"{config.tool} uses no model, so this setting has no effect. Set tool: gristmill, or remove model.",
        )
    if config.model is not None:
        try:
            cached_model(config.model)
        except UserError as error:
            raise WrongSetting("model", error) from None


def apply(batch: pa.RecordBatch, config: Config) -> pa.RecordBatch:
    """Text, drop reason and metadata for each row. A row with neither markup nor text stays as it is."""
    check(config)
    html = batch.column("html")
    if not len(batch):
        return pa.RecordBatch.from_pylist([], schema=SCHEMA)
    found = list(_by_gristmill(html, config) if config.tool == "gristmill" else _by_library(html, config))
    metadata = _metadata(html)
    given = dict(zip(READS, map(batch.column, READS), strict=True))
    faults = [one if isinstance(one, tuple) and not isinstance(one, WrittenText) else (None, None) for one in found]
    reasons: list[str | None] = [reason for reason, _ in faults]
    details = [detail for _, detail in faults]
    raw: list[bytes | None] = []
    formulas: list[tuple[int, int] | None] = []
    expected = [one.expected_f1 if isinstance(one, WrittenText) and not config.whole else None for one in found]
    for row, one in enumerate(found):
        text = given["text"][row].as_py() if one is None else None
        if isinstance(one, WrittenText):
            raw.append(one.text)
            formulas.append((one.formulas, one.formula_chars))
        elif text is not None:
            spans = find_formulas(text)
            raw.append(text.encode())
            formulas.append((len(spans), sum(len(span.tex) for span in spans)))
        else:
            raw.append(one if isinstance(one, bytes) else None)
            formulas.append(None)
    titles = [new or old for new, old in zip(metadata["title"], given["title"].to_pylist(), strict=True)]
    languages = [
        _language(new, old, page.is_valid)
        for new, old, page in zip(metadata["language"], given["language_hint"].to_pylist(), html, strict=True)
    ]
    texts, empty = _texts(raw, config)
    for row in empty:
        reasons[row] = "no_main_content" if html[row].is_valid else "empty_text"
    others = (titles, languages, *(metadata[name] for name in _METADATA), reasons, details)
    strings = (pa.array(column, pa.string()) for column in others)
    counts = (pa.array([pair and pair[place] for pair in formulas], pa.int32()) for place in range(len(_COUNTS)))
    expected_f1 = pa.array([value if value is None else value / 1000 for value in expected], pa.float32())
    return pa.RecordBatch.from_arrays([texts, *strings, *counts, expected_f1], schema=SCHEMA)


def metrics(batch: pa.RecordBatch, answers: pa.RecordBatch, config: Config) -> dict[str, int]:
    return count_markup(batch)


def warnings(found: dict[str, Any], config: Config) -> Sequence[str]:
    return markup_warnings(found, "plain text", "plain texts", "text is only extracted from pages.")


def _language(metadata: str | None, hint: str | None, is_page: bool) -> str | None:
    return (metadata or language_tag(hint) or hint) if is_page else hint


def _metadata(html: pa.StringArray) -> dict[str, list[str | None]]:
    if html.null_count == len(html):
        return {name: [None] * len(html) for name in ("title", "language", *_METADATA)}
    data, offsets = _bytes_of(html)
    found: dict[str, list[str | None]] = facts(data, offsets).to_pydict()
    return found


def _bytes_of(html: pa.StringArray) -> tuple[np.ndarray, np.ndarray]:
    offsets = np.frombuffer(html.buffers()[1], np.int32)[html.offset : html.offset + len(html) + 1]
    return read_only(html.buffers()[2], np.uint8), offsets.astype(np.int64)


def _by_gristmill(html: pa.StringArray, config: Config) -> Iterator[WrittenText | ExtractFault | None]:
    """The text of each page, or the reason why it has none, or None for rows that are not pages."""
    if html.null_count == len(html):
        yield from [None] * len(html)
        return
    model = cached_model(config.model) if config.model is not None else default_model(config.whole)
    extractor = Extractor(
        model, config.comments, config.markdown, config.max_nodes or MAX_BLOCKS, config.formula_delimiters
    )
    data, offsets = _bytes_of(html)
    data, words = as_words(data)
    valid, places = html.is_valid().to_pylist(), offsets.tolist()
    for row, is_page in enumerate(valid):
        begin, stop = places[row], places[row + 1]
        if not is_page:
            yield None
        elif stop - begin > config.max_html_bytes:
            yield "html_too_large", f"{stop - begin} bytes, limit {config.max_html_bytes}"
        else:
            try:
                yield extractor.text_with_formulas(data, words, begin, stop)
            except TooManyBlocks:
                yield "too_many_nodes", f"more than {extractor.max_blocks} blocks of text"


def _by_library(html: pa.StringArray, config: Config) -> Iterator[bytes | ExtractFault | None]:
    most = config.max_nodes or MAX_NODES[config.tool]
    for page in bounded_pages(html, config.max_html_bytes, most, config.tool == "resiliparse"):
        if not isinstance(page, str):
            yield page
            continue
        try:
            if config.tool == "resiliparse":
                text = by_resiliparse(page, config.comments)
            else:
                text = by_trafilatura(page, config.comments, config.markdown)
            yield text.encode("utf-8", "surrogatepass")
        except Exception as error:  # a library may raise anything on one page, including MemoryError and RecursionError
            yield "extractor_error", f"{type(error).__name__}: {error}"[:MAX_DETAIL_CHARS]


def _texts(raw: list[bytes | None], config: Config) -> tuple[pa.StringArray, list[int]]:
    """The normalised texts, and the rows of which nothing is left."""
    data, starts, stops = normalise_rows([text or b"" for text in raw], config.max_blank_lines)
    whole = data.tobytes()
    kept = [whole[start:stop] or None for start, stop in zip(starts.tolist(), stops.tolist(), strict=True)]
    # Cast from 64 bits: a batch that is too large for 32 bits then fails instead of getting wrong offsets.
    texts = pa.array(kept, pa.large_binary()).cast(pa.large_string()).cast(pa.string())
    return texts, [row for row, text in enumerate(kept) if text is None and raw[row] is not None]


STAGE = Map(
    version=11,
    config=Config,
    libraries=libraries,
    reads=READS,
    schema=SCHEMA,
    apply=apply,
    metrics=metrics,
    check=check,
    warnings=warnings,
)
