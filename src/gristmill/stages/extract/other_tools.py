"""Main text by the libraries resiliparse and trafilatura.

A page is measured before it is parsed (kernels/html/bounds.py), because parts of both tools are quadratic, and an
extractor that hangs looks like one that works. Measured with resiliparse 1.1 on one core; nothing overflows the C
stack, not even a million nested elements:

    nested <div>, <dl>, <ul>      parse 0.01 s at 3,000 deep, 2 to 13 s at 30,000, more than 25 s at 100,000
    unclosed <b id=1> <b id=2>    8 s and 3 GB at 3,000: every paragraph reopens all earlier ones
    attributes of one element     0.01 s at 3,000, 2.2 s at 30,000, more than 25 s at 100,000
    distinct attribute names      0.03 s at 20,000, more than 25 s at 300,000
    lines of output               4 s at 40,000 lines of 40 bytes, 14 s at 400,000 <br>: each copies all before it
    text inside nested <div>      16 s for 2 MB of text 500 deep: each <div> collects all text inside it

trafilatura (2.3, lxml 6.1) takes 0.1 ms per element, but 1 s for 10,000 table cells and 13 s for 40,000. Attributes
slow it down as much.
"""

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from gristmill.kernels.html import names as markup
from gristmill.kernels.html.bounds import scan
from gristmill.stages.buffers import read_only

MAX_NAMES = 30_000
"""Distinct names of attributes and unknown elements in a page. Pages of a crawl have about 50."""
MAX_DEPTH = 512
"""Open elements, including unclosed ones. 3,353 real pages reach 430."""
MAX_ATTRIBUTES = 1_000
"""Attributes of one element: a page of 10 MB of them would take 8 s."""
MAX_COPIED_BYTES = 64_000_000_000
"""Bytes that resiliparse would copy, in 8 s."""

ExtractFault = tuple[str, str]
"""Reason and detail."""


def by_resiliparse(html: str, comments: bool) -> str:
    from resiliparse.extract.html2text import extract_plain_text
    from resiliparse.parse.html import HTMLTree

    # Without comments, F1 is 3 points higher. Without alternative texts, which describe pictures, it is 1 point higher.
    found: str = extract_plain_text(HTMLTree.parse(html), main_content=True, alt_texts=False, comments=comments)
    return found


def by_trafilatura(html: str, comments: bool, markdown: bool) -> str:
    from trafilatura import extract  # an extra, and half a second to import

    # Its deduplication remembers earlier pages, so a page's text would depend on what was extracted before it.
    form = "markdown" if markdown else "txt"
    return extract(html, favor_precision=True, include_comments=comments, deduplicate=False, output_format=form) or ""


def bounded_pages(
    html: pa.StringArray, max_html_bytes: int, max_nodes: int, cut_scripts: bool
) -> Iterator[str | ExtractFault | None]:
    """The markup of each row; or, before it is parsed, the reason and detail of the bound that it exceeds; or None.

    `cut_scripts` removes the content of scripts, styles and comments.
    """
    if html.null_count == len(html):
        yield from [None] * len(html)
        return
    offsets = read_only(html.buffers()[1], np.int32)[html.offset : html.offset + len(html) + 1]
    data = html.buffers()[2]
    rows, cuts, ends = scan(read_only(data, np.uint8), offsets, MAX_DEPTH)
    faults = _faults(np.diff(offsets.astype(np.int64)), rows, max_html_bytes, max_nodes)
    view, starts, marks = memoryview(data), offsets.tolist(), ends.tolist()
    for row in range(len(html)):
        if not html[row].is_valid:
            yield None
        elif row in faults:
            yield faults[row]
        elif not cut_scripts or marks[row] == marks[row + 1]:
            yield html[row].as_py()
        else:
            # resiliparse takes the content of a script for text when it weighs the links of a <div>.
            edges = [starts[row], *cuts[marks[row] : marks[row + 1]].ravel().tolist(), starts[row + 1]]
            yield b"".join(view[a:b] for a, b in zip(edges[::2], edges[1::2], strict=True)).decode()


def _faults(sizes: np.ndarray, rows: np.ndarray, max_html_bytes: int, max_nodes: int) -> dict[int, ExtractFault]:
    # 120: a byte collected from many nodes costs as much as 120 bytes copied at once.
    nested = rows[:, markup.NESTED] * 120
    lines = rows[:, markup.TEXT] * rows[:, markup.BLOCKS] // 2
    bounds = (
        ("html_too_large", sizes, max_html_bytes, "bytes"),
        ("too_many_attributes", rows[:, markup.ATTRIBUTES], MAX_ATTRIBUTES, "attributes of one element"),
        ("too_many_attributes", rows[:, markup.NAMES], MAX_NAMES, "names of attributes"),
        ("nested_too_deep", rows[:, markup.DEPTH], MAX_DEPTH, "elements or more inside each other"),
        ("nested_too_deep", rows[:, markup.ESCAPES], 0, "tags that may break out of <svg>, <math> or <select>"),
        ("too_many_nodes", rows[:, markup.ELEMENTS], max_nodes, "elements"),
        ("nested_too_deep", nested, MAX_COPIED_BYTES, "bytes to copy for nested elements"),
        ("too_many_lines", lines, MAX_COPIED_BYTES, "bytes to copy for lines"),
    )
    faults: dict[int, ExtractFault] = {}
    for reason, found, limit, unit in bounds:
        for row in np.flatnonzero(found > limit).tolist():
            faults.setdefault(row, (reason, f"{found[row]} {unit}, limit {limit}"))
    return faults
