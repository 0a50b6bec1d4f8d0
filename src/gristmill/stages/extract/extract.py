"""Main text, title and stated language of a page; plain text passes through. All text leaves in one plain form.

`resiliparse` (Bevendorff et al. 2018, Elastic ChatNoir) is the default: a rule-based extractor over the lexbor parser,
some 30 times as fast as `trafilatura` (Barbaresi 2021), which is the more precise of the two. Scores: bench/extraction.py.

A page is measured before it is parsed (kernels/html.py), because parts of both tools are quadratic and an extractor that
hangs cannot be told from one that works. Measured with resiliparse 1.1 on one core; none of it overflows the C stack,
1,000,000 nested elements included:

    nested <div>, <dl>, <ul>      parse 0.01 s at 3,000 deep, 2 to 13 s at 30,000, minutes at 100,000
    unclosed <b id=1> <b id=2>    8 s and 3 GB at 3,000: every paragraph opens all earlier ones anew
    attributes of one element     0.01 s at 3,000, 2.2 s at 30,000
    distinct attribute names      0.03 s at 20,000, more than 25 s at 300,000
    lines of output               each copies all output before it: 4 s at 40,000 lines of 40 bytes, 14 s for 400,000 <br>
    text inside nested <div>      each <div> collects all text inside it: 16 s for 2 MB of text 500 deep

trafilatura (2.3, lxml 6.1) is linear in the elements, 0.1 ms each, and as slow with attributes.
"""

import importlib.util
import re
from typing import Any, Literal

import numpy as np
import pyarrow as pa
from pydantic import Field
from resiliparse.extract.html2text import extract_plain_text
from resiliparse.parse.html import HTMLTree

from gristmill.errors import UserError
from gristmill.kernels import html as markup
from gristmill.stages.contract import Bytes, StageConfig
from gristmill.stages.extract.normalise import normalise

VERSION = 1
LIBRARIES = ("resiliparse", *(name for name in ("trafilatura", "lxml") if importlib.util.find_spec(name)))
READS = ("html", "text", "title", "language_hint")
SCHEMA = pa.schema([(name, pa.string()) for name in ("text", "title", "language_hint", "drop", "detail")])

MAX_TITLE_CHARS = 300
MAX_DETAIL_CHARS = 200
MAX_NAMES = 30_000
"""Distinct names of attributes and unknown elements in a page. Pages of a crawl have some 50."""


class Config(StageConfig):
    tool: Literal["resiliparse", "trafilatura"] = "resiliparse"
    """The extractor. trafilatura keeps less that is not the article, and takes 30 times as long."""
    trim_edges: bool = True
    """Cut short lines before the first and after the last line that reads like prose or code (resiliparse only)."""
    max_blank_lines: int = Field(1, ge=0)
    """Blank lines in a row that are kept; more are folded."""
    max_html_bytes: Bytes = Field(10_000_000, gt=0)
    """Bytes of UTF-8 markup; a larger page is dropped as html_too_large. Common Crawl cuts pages at 1 to 5 MB."""
    max_nodes: int = Field(200_000, gt=0)
    """Elements of a page; more: too_many_nodes. 0.5 s of resiliparse, 20 s of trafilatura."""
    max_depth: int = Field(512, ge=8, le=5_000)
    """Elements inside each other; more: nested_too_deep. Browsers cut there too; 3,353 real pages reach 68."""
    max_attributes: int = Field(1_000, gt=0)
    """Attributes of one element; more: too_many_attributes."""
    max_copied_bytes: Bytes = Field(64_000_000_000, gt=0)
    """Bytes that resiliparse would copy; more: too_many_lines or, where the nesting is to blame, nested_too_deep. 8 s."""


def check(config: Config) -> None:
    """Raises UserError where the config asks for an extractor that is not installed."""
    if config.tool == "trafilatura" and importlib.util.find_spec("trafilatura") is None:
        raise UserError(
            "extract: tool is trafilatura, which is not installed, so no page can be extracted. "
            "Install it with: pip install 'gristmill[trafilatura]', or set tool: resiliparse"
        )


def apply(batch: pa.RecordBatch, config: Config) -> pa.RecordBatch:
    """Text, title, language and verdict for each row; a row with neither markup nor text is none of our business."""
    check(config)
    faults = _faults(batch.column("html"), config)
    rows = [_row(*given, config) for given in zip(*map(batch.column, READS), faults, strict=True)]
    columns = zip(*rows, strict=True) if rows else ((),) * len(SCHEMA)
    return pa.RecordBatch.from_arrays([pa.array(column, pa.string()) for column in columns], schema=SCHEMA)


_Row = tuple[str | None, str | None, str | None, str | None, str | None]


def _row(
    html: pa.StringScalar,
    text: pa.StringScalar,
    title: pa.StringScalar,
    language_hint: pa.StringScalar,
    fault: tuple[str, str] | None,
    config: Config,
) -> _Row:
    known = title.as_py(), language_hint.as_py()
    if fault is not None:
        return None, *known, *fault
    if not html.is_valid:
        if not text.is_valid:
            return None, *known, None, None
        plain = normalise(text.as_py(), config.max_blank_lines)
        return (plain, *known, None, None) if plain else (None, *known, "empty_text", None)
    try:
        return _extract(html.as_py(), *known, config)
    except Exception as error:  # whatever a library raises on one page, MemoryError and RecursionError included
        return None, *known, "extractor_error", f"{type(error).__name__}: {error}"[:MAX_DETAIL_CHARS]


def _extract(html: str, title: str | None, language_hint: str | None, config: Config) -> _Row:
    tree = HTMLTree.parse(html)
    title = _title(tree) or title
    language_hint = _language(tree) or language_tag(language_hint) or language_hint
    if config.tool == "resiliparse":
        # Comments off: +3 points of F1. Alternative texts off: +1; they describe pictures that nobody sees.
        raw = extract_plain_text(tree, main_content=True, alt_texts=False, comments=False)
    else:
        raw = _trafilatura(html)
    text = normalise(raw, config.max_blank_lines)
    if config.tool == "resiliparse" and config.trim_edges:
        text = trim_edges(text)
    return (text, title, language_hint, None, None) if text else (None, title, language_hint, "no_main_content", None)


def _trafilatura(html: str) -> str:
    from trafilatura import extract  # an extra, and half a second to import

    # Its deduplication remembers earlier pages, so a page's text would depend on what was extracted before it.
    return extract(html, favor_precision=True, include_comments=False, deduplicate=False) or ""


def _faults(html: pa.StringArray, config: Config) -> list[tuple[str, str] | None]:
    """For each page the reason and the detail of the bound that it breaks, before anybody parses it."""
    if html.null_count == len(html):
        return [None] * len(html)
    offsets = np.frombuffer(html.buffers()[1], np.int32)[html.offset : html.offset + len(html) + 1]
    rows = markup.measure(np.frombuffer(html.buffers()[2], np.uint8), offsets, config.max_depth)
    # 120 and 8: see the table above; a byte that is collected costs as much as 120 that are copied in a stretch.
    lines = rows[:, markup.TEXT] * rows[:, markup.BLOCKS] // 2
    nested = rows[:, markup.NESTED] * 120
    limits = (
        ("html_too_large", np.diff(offsets.astype(np.int64)), config.max_html_bytes, "bytes"),
        ("too_many_attributes", rows[:, markup.ATTRIBUTES], config.max_attributes, "attributes of one element"),
        ("too_many_attributes", rows[:, markup.NAMES], MAX_NAMES, "names of attributes"),
        ("nested_too_deep", rows[:, markup.DEPTH], config.max_depth, "elements or more inside each other"),
        ("too_many_nodes", rows[:, markup.ELEMENTS], config.max_nodes, "elements"),
        ("nested_too_deep", nested, config.max_copied_bytes, "bytes to copy for nested elements"),
        ("too_many_lines", lines, config.max_copied_bytes, "bytes to copy for lines"),
    )
    faults: list[tuple[str, str] | None] = [None] * len(html)
    for reason, found, limit, unit in limits:
        for row in np.flatnonzero(found > limit).tolist():
            if faults[row] is None and html[row].is_valid:
                faults[row] = reason, f"{found[row]} {unit}, limit {limit}"
    return faults


def _title(tree: Any) -> str | None:
    """<title>, else og:title, else the first <h1>; on one line."""
    title = _one_line(tree.title)
    if not title and tree.head:
        meta = tree.head.query_selector('meta[property="og:title"]')
        title = _one_line(meta.getattr("content")) if meta else ""
    if not title and tree.body:
        heading = tree.body.query_selector("h1")
        title = _one_line(heading.text) if heading else ""
    return title or None


def _one_line(text: str | None) -> str:
    return " ".join(normalise(text).split())[:MAX_TITLE_CHARS].rstrip() if text else ""


def _language(tree: Any) -> str | None:
    """<html lang>, else <meta http-equiv="content-language">."""
    root = tree.document.first_element_child
    language = language_tag(root.getattr("lang") or root.getattr("xml:lang")) if root else None
    if language is None and tree.head:
        meta = tree.head.query_selector('meta[http-equiv="content-language" i]')
        language = language_tag(meta.getattr("content")) if meta else None
    return language


_TAG = re.compile(r"[a-z]{2,8}(-[a-z0-9]{1,8}){0,4}")


def language_tag(stated: str | None) -> str | None:
    """The first language tag of a list, in lower case ("en_US, fr" is "en-us"), or None where there is none."""
    first = re.split(r"[\s,;]", (stated or "").strip(), maxsplit=1)[0].lower().replace("_", "-")
    return first if _TAG.fullmatch(first) else None


_MARK = re.compile("[.,;:!?…。，、；：！？]")
_SENTENCE_END = re.compile("[.!?…。！？][\"'”’»)」』]*$")
_CODE = re.compile(r"[{};=]|\(\)|->|::|^(?: {4}|\t)\s*[^\s•]")


def _reads_on(line: str) -> bool:
    """Whether a line is prose or code, and not one of a menu: lengths are bytes, so that Chinese counts three a letter."""
    size = len(line.encode())
    if line.lstrip().startswith("•"):
        return size >= 100 and _MARK.search(line) is not None
    return bool(
        (size >= 100 and _MARK.search(line)) or (size >= 60 and _SENTENCE_END.search(line)) or _CODE.search(line)
    )


def trim_edges(text: str) -> str:
    """`text` from the heading of its first line that reads on to its last such line; all of it where there is none.

    What resiliparse leaves of menus, bylines and teasers stands before and after the article: +3 points of F1.
    """
    lines = text.split("\n")
    first, last = 0, len(lines) - 1
    while first <= last and not _reads_on(lines[first]):
        first += 1
    if first > last:
        return text
    while not _reads_on(lines[last]):
        last -= 1
    heading = first - 1
    while heading > 0 and not lines[heading]:
        heading -= 1
    return "\n".join(lines[max(heading, 0) : last + 1])
