"""Main text, title and stated language of a page; plain text passes through. All text leaves in one plain form.

`resiliparse` (Bevendorff et al. 2018, Elastic ChatNoir) is the default: a rule-based extractor over the lexbor parser,
17 times as fast as `trafilatura` (Barbaresi 2021), which is the more precise of the two. bench/extraction.py
scores both.

A page is measured before it is parsed (kernels/html/bounds.py), because parts of both tools are quadratic and an
extractor that hangs cannot be told from one that works. Measured with resiliparse 1.1 on one core; nothing overflows
the C stack, a million nested elements included:

    nested <div>, <dl>, <ul>      parse 0.01 s at 3,000 deep, 2 to 13 s at 30,000, more than 25 s at 100,000
    unclosed <b id=1> <b id=2>    8 s and 3 GB at 3,000: every paragraph opens all earlier ones anew
    attributes of one element     0.01 s at 3,000, 2.2 s at 30,000, more than 25 s at 100,000
    distinct attribute names      0.03 s at 20,000, more than 25 s at 300,000
    lines of output               4 s at 40,000 lines of 40 bytes, 14 s at 400,000 <br>: each copies all before it
    text inside nested <div>      16 s for 2 MB of text 500 deep: each <div> collects all text inside it

trafilatura (2.3, lxml 6.1) takes 0.1 ms an element, but 1 s for 10,000 table cells and 13 s for 40,000; it is as slow
with attributes.
"""

import importlib.util
from collections.abc import Iterator
from typing import Annotated, Any, Literal

import numpy as np
import pyarrow as pa
from pydantic import Field
from resiliparse.extract.html2text import extract_plain_text
from resiliparse.parse.html import HTMLTree

from gristmill.errors import WrongSetting
from gristmill.kernels.html import names as markup
from gristmill.kernels.html.bounds import scan
from gristmill.kernels.text.edges import take_spans, trim
from gristmill.stages.contract import AsCount, Bytes, Count, StageConfig
from gristmill.stages.extract.facts import language_tag, one_line
from gristmill.stages.extract.normalise import normalise_rows

VERSION = 1
READS = ("html", "text", "title", "language_hint")
SCHEMA = pa.schema([(name, pa.string()) for name in ("text", "title", "language_hint", "drop", "detail")])

MAX_DETAIL_CHARS = 200
MAX_NODES = {"resiliparse": 200_000, "trafilatura": 30_000}
MAX_NAMES = 30_000
"""Distinct names of attributes and unknown elements in a page. Pages of a crawl have some 50."""


class Config(StageConfig):
    tool: Literal["resiliparse", "trafilatura"] = "resiliparse"
    """The extractor. trafilatura keeps less that is not the article, and takes 17 times as long."""
    trim_edges: bool = True
    """Cut short lines before the first and after the last line that reads like prose or code (resiliparse only)."""
    max_blank_lines: Annotated[int, AsCount] = Field(1, ge=0)
    """Blank lines in a row that are kept; more are folded."""
    max_html_bytes: Bytes = Field(10_000_000, gt=0)
    """Bytes of UTF-8 markup; a larger page is dropped as html_too_large. Common Crawl cuts pages at 1 to 5 MB."""
    max_nodes: Count | None = None
    """Elements of a page; more: too_many_nodes. None: 200,000 (0.5 s), or 30,000 with trafilatura (10 s)."""
    max_depth: Annotated[int, AsCount] = Field(512, ge=8, le=5_000)
    """Elements inside each other; more: nested_too_deep. Browsers cut there too; 3,353 real pages reach 68."""
    max_attributes: Annotated[int, AsCount] = Field(1_000, gt=0)
    """Attributes of one element; more: too_many_attributes. 8 s if a page of 10 MB had nothing else."""
    max_copied_bytes: Bytes = Field(64_000_000_000, gt=0)
    """Bytes that resiliparse would copy, 8 s; more: too_many_lines, or nested_too_deep if the nesting is to blame."""


def libraries(config: Config) -> tuple[str, ...]:
    """Titles come from resiliparse with either tool; `unicode` is what NFC depends on."""
    return ("resiliparse", "unicode", *(("trafilatura", "lxml") if config.tool == "trafilatura" else ()))


def check(config: Config) -> None:
    """Raises WrongSetting where the config asks for an extractor that is not installed."""
    if config.tool == "trafilatura" and importlib.util.find_spec("trafilatura") is None:
        raise WrongSetting(
            "tool",
            "trafilatura is not installed, so no page can be extracted. "
            "Install it with: pip install 'gristmill[trafilatura]', or set tool: resiliparse.",
        )


def apply(batch: pa.RecordBatch, config: Config) -> pa.RecordBatch:
    """Text, title, language and verdict for each row; a row with neither markup nor text is none of our business."""
    check(config)
    pages = _pages(batch.column("html"), config)
    rows = [
        _row(page, text.as_py(), title.as_py(), language_hint.as_py(), config)
        for page, text, title, language_hint in zip(pages, *map(batch.column, READS[1:]), strict=True)
    ]
    if not rows:
        return pa.RecordBatch.from_pylist([], schema=SCHEMA)
    raw, titles, languages, reasons, details = map(list, zip(*rows, strict=True))
    text, empty = _texts(raw, titles, batch.column("html"), config)
    for row in empty:
        reasons[row] = "no_main_content" if batch.column("html")[row].is_valid else "empty_text"
    columns = [text, *(pa.array(column, pa.string()) for column in (titles, languages, reasons, details))]
    return pa.RecordBatch.from_arrays(columns, schema=SCHEMA)


def _texts(
    raw: list[bytes | None], titles: list[str | None], html: pa.StringArray, config: Config
) -> tuple[pa.StringArray, list[int]]:
    """The texts in their plain form, trimmed where they were pages; and the rows of which nothing is left."""
    data, starts, stops = normalise_rows([text or b"" for text in raw], config.max_blank_lines)
    if config.tool == "resiliparse" and config.trim_edges:
        names = [(title or "").encode("utf-8", "surrogatepass") for title in titles]
        title_offsets = np.zeros(len(names) + 1, np.int64)
        np.cumsum([len(name) for name in names], out=title_offsets[1:])
        pages = html.is_valid().to_numpy(zero_copy_only=False)
        trim(data, starts, stops, np.frombuffer(b"".join(names), np.uint8), title_offsets, pages)
    kept, offsets = take_spans(data, starts, stops)
    valid = starts < stops
    buffers = [pa.py_buffer(np.packbits(valid, bitorder="little")), pa.py_buffer(offsets), pa.py_buffer(kept)]
    # By way of 64 bits: a batch that is too large for 32 is refused then, and not written with wrong offsets.
    texts = pa.LargeStringArray.from_buffers(len(raw), buffers[1], buffers[2], buffers[0]).cast(pa.string())
    return texts, [row for row in np.flatnonzero(~valid).tolist() if raw[row] is not None]


_Row = tuple[bytes | None, str | None, str | None, str | None, str | None]
"""Text as it was found, title, language, reason and detail."""
_Fault = tuple[str, str]


def _row(
    page: str | _Fault | None, text: str | None, title: str | None, language_hint: str | None, config: Config
) -> _Row:
    if isinstance(page, tuple):
        return None, title, language_hint, *page
    if page is None:
        return text.encode() if text is not None else None, title, language_hint, None, None
    try:
        return _extract(page, title, language_hint, config)
    except Exception as error:  # whatever a library raises on one page, MemoryError and RecursionError included
        return None, title, language_hint, "extractor_error", f"{type(error).__name__}: {error}"[:MAX_DETAIL_CHARS]


def _extract(html: str, title: str | None, language_hint: str | None, config: Config) -> _Row:
    tree = HTMLTree.parse(html)
    title = _title(tree) or title
    language_hint = _language(tree, html) or language_tag(language_hint) or language_hint
    if config.tool == "resiliparse":
        # Comments off: +3 points of F1. Alternative texts off: +1; they describe pictures that nobody sees.
        raw = extract_plain_text(tree, main_content=True, alt_texts=False, comments=False)
    else:
        raw = _trafilatura(html)
    return raw.encode("utf-8", "surrogatepass"), title, language_hint, None, None


def _trafilatura(html: str) -> str:
    from trafilatura import extract  # an extra, and half a second to import

    # Its deduplication remembers earlier pages, so a page's text would depend on what was extracted before it.
    return extract(html, favor_precision=True, include_comments=False, deduplicate=False) or ""


def _pages(html: pa.StringArray, config: Config) -> Iterator[str | _Fault | None]:
    """The markup of each row; the bound that it breaks, as reason and detail, before anybody parses it; or None."""
    if html.null_count == len(html):
        yield from [None] * len(html)
        return
    offsets = np.frombuffer(html.buffers()[1], np.int32)[html.offset : html.offset + len(html) + 1]
    data = html.buffers()[2]
    rows, cuts, ends = scan(np.frombuffer(data, np.uint8), offsets, config.max_depth)
    faults = _faults(np.diff(offsets.astype(np.int64)), rows, config)
    view, starts, marks = memoryview(data), offsets.tolist(), ends.tolist()
    for row in range(len(html)):
        if not html[row].is_valid:
            yield None
        elif row in faults:
            yield faults[row]
        elif config.tool == "trafilatura" or marks[row] == marks[row + 1]:
            yield html[row].as_py()
        else:
            # resiliparse takes the inside of a script for text when it weighs the links of a <div>.
            edges = [starts[row], *cuts[marks[row] : marks[row + 1]].ravel().tolist(), starts[row + 1]]
            yield b"".join(view[a:b] for a, b in zip(edges[::2], edges[1::2], strict=True)).decode()


def _faults(sizes: np.ndarray, rows: np.ndarray, config: Config) -> dict[int, _Fault]:
    # 120: a byte that is collected from many nodes costs as much as 120 that are copied in one stretch.
    nested = rows[:, markup.NESTED] * 120
    lines = rows[:, markup.TEXT] * rows[:, markup.BLOCKS] // 2
    limits = (
        ("html_too_large", sizes, config.max_html_bytes, "bytes"),
        ("too_many_attributes", rows[:, markup.ATTRIBUTES], config.max_attributes, "attributes of one element"),
        ("too_many_attributes", rows[:, markup.NAMES], MAX_NAMES, "names of attributes"),
        ("nested_too_deep", rows[:, markup.DEPTH], config.max_depth, "elements or more inside each other"),
        ("too_many_nodes", rows[:, markup.ELEMENTS], config.max_nodes or MAX_NODES[config.tool], "elements"),
        ("nested_too_deep", nested, config.max_copied_bytes, "bytes to copy for nested elements"),
        ("too_many_lines", lines, config.max_copied_bytes, "bytes to copy for lines"),
    )
    faults: dict[int, _Fault] = {}
    for reason, found, limit, unit in limits:
        for row in np.flatnonzero(found > limit).tolist():
            faults.setdefault(row, (reason, f"{found[row]} {unit}, limit {limit}"))
    return faults


def _title(tree: Any) -> str | None:
    """<title>, else og:title, else the first <h1>; on one line."""
    title = one_line(tree.title)
    if not title and tree.head:
        meta = tree.head.query_selector('meta[property="og:title"]')
        title = one_line(meta.getattr("content")) if meta else ""
    if not title and tree.body:
        heading = tree.body.query_selector("h1")
        title = one_line(heading.text) if heading else ""
    return title or None


def _language(tree: Any, html: str) -> str | None:
    """<html lang>, else <meta http-equiv="content-language">."""
    root = tree.document.first_element_child
    language = language_tag(root.getattr("lang") or root.getattr("xml:lang")) if root else None
    if language is None and ("ontent-" in html or "ONTENT-" in html) and tree.head:
        meta = tree.head.query_selector('meta[http-equiv="content-language" i]')
        language = language_tag(meta.getattr("content")) if meta else None
    return language
