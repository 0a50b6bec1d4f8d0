"""Reads Jupyter notebooks (formats 3 and 4), one document per file: Markdown cells, and code cells in fences.

Outputs are kept as text, up to a size; images and widgets are not text. `layout: script` writes the code with the
Markdown as comments instead. The language is that of the kernel, the title is the first heading.
"""

import re
from collections.abc import Iterator
from typing import Any, Literal

from gristmill.schema import Record
from gristmill.stages.contract import Bytes, Piece
from gristmill.stages.ingest.front_matter import first_heading, split_front_matter
from gristmill.stages.ingest.text import TreeConfig
from gristmill.stages.ingest.whole_file import one_record, tree_reader
from gristmill.stages.reading.decompress import ReadFault
from gristmill.stages.reading.json_value import parsed

_EMBEDDED = re.compile(r"\(data:[^()\s]*\)|(?<=src=\")data:[^\"\s]*|(?<=src=')data:[^'\s]*")
"""Images in Markdown, written out as base64."""
_COLOURS = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
_HANDLE = re.compile(
    r"\[?<[\w.]{1,200}(?:\(\S{0,40}\))?(?: \w{1,40})?(?: at 0x[0-9A-Fa-f]{1,16}| object)>\]?"
    r"|<Figure size [^\n]{1,60}>|<[\w.]{0,60}(?:Axes|Subplot)\w{0,20}:? ?[^\n]{0,300}>"
)
"""The text of an object, such as a picture: <matplotlib.figure.Figure at 0x10d0da080>, <Figure size 640x480>."""
_FENCES = re.compile("`{3,}")
_COMMENTS = {"javascript": "//", "typescript": "//", "java": "//", "c++": "//", "scala": "//", "rust": "//", "go": "//"}


class Config(TreeConfig):
    suffixes: tuple[str, ...] = (".ipynb",)
    layout: Literal["markdown", "script"] = "markdown"
    """`markdown`: prose and fenced code. `script`: code, with the prose as comments and without outputs."""
    max_output_bytes: Bytes = 2048
    """The text of a cell's outputs that is kept; the rest is cut. 0 keeps none. Bytes."""


def read(piece: Piece, config: Config) -> Iterator[Record]:
    """Reasons: `invalid_json`, `invalid_utf8`, `not_an_object`, `not_a_notebook`, and those of every file."""
    return one_record(piece, config, "application/x-ipynb+json", _parse)


def _parse(data: bytes, record: Record, config: Config) -> None:
    notebook = parsed(data, first=True)
    sheets = notebook.get("worksheets")
    old = [sheet.get("cells") for sheet in sheets if isinstance(sheet, dict)] if isinstance(sheets, list) else []
    cells = [cell for group in (notebook.get("cells"), *old) if isinstance(group, list) for cell in group]
    if not cells and "cells" not in notebook and "worksheets" not in notebook:
        raise ReadFault("not_a_notebook", "the object has no `cells` and no `worksheets`")
    language = _language(notebook)
    comment = _COMMENTS.get(language, "#")
    blocks = [_block(cell, language, comment, config) for cell in cells if isinstance(cell, dict)]
    text = "\n\n".join(block for block in blocks if block)
    record.text = text.encode(errors="replace").decode()  # "\ud800" in JSON is half a character
    record.language_hint = language or None
    facts, body = split_front_matter(record.text)  # of R Markdown, in a raw cell
    stated = facts.get("title")
    record.title = stated if isinstance(stated, str) else first_heading(body, "text/markdown")


def _language(notebook: dict[str, Any]) -> str:
    """The kernel's language in small letters: "" if the notebook does not state it."""
    facts = notebook.get("metadata")
    for name, field in (("language_info", "name"), ("kernelspec", "language")):
        found = facts.get(name) if isinstance(facts, dict) else None
        value = found.get(field) if isinstance(found, dict) else None
        if isinstance(value, str) and re.fullmatch(r"[\w+#.-]{1,40}", value):
            return value.lower()
    return ""


def _block(cell: dict[str, Any], language: str, comment: str, config: Config) -> str:
    kind = cell.get("cell_type")
    source = _joined(cell.get("source", cell.get("input"))).strip("\n")
    if kind == "heading":  # format 3
        level = cell.get("level")
        source = f"{'#' * (level if isinstance(level, int) and 0 < level < 7 else 1)} {source}"
    if kind != "code":
        source = _EMBEDDED.sub("()", source)
        if config.layout == "markdown" or not source:
            return source
        return "\n".join(f"{comment} {line}".rstrip() for line in source.split("\n"))
    if config.layout == "script":
        return source
    written = language or str(cell.get("language") or "")
    blocks = [_fenced(source, written)] if source else []
    if output := _outputs(cell.get("outputs"), config.max_output_bytes):
        blocks.append(_fenced(output, "output"))
    return "\n\n".join(blocks)


def _fenced(text: str, language: str) -> str:
    fence = "`" * max([3, *(len(one) + 1 for one in _FENCES.findall(text))])
    return f"{fence}{language}\n{text}\n{fence}"


def _outputs(outputs: Any, limit: int) -> str:
    """The text of a cell's outputs: streams, results and errors, without colours."""
    parts: list[str] = []
    for one in outputs if isinstance(outputs, list) and limit else ():
        if not isinstance(one, dict):
            continue
        data = one.get("data")
        found = one.get("text") or (data.get("text/plain") if isinstance(data, dict) else None)
        if one.get("output_type") in ("pyerr", "error"):
            found = f"{one.get('ename')}: {one.get('evalue')}"
        part = _COLOURS.sub("", _joined(found)).strip("\n")
        parts.append("" if _HANDLE.fullmatch(part.strip()) else part)
    text = "\n".join(part for part in parts if part.strip())
    whole = text.encode(errors="replace")
    if len(whole) <= limit:
        return text
    kept = whole[:limit].decode(errors="ignore")
    return (kept.rpartition("\n")[0] or kept) + "\n..."


def _joined(source: Any) -> str:
    """A string, or the lines of one."""
    if isinstance(source, list):
        return "".join(one for one in source if isinstance(one, str))
    return source if isinstance(source, str) else ""


STAGE = tree_reader(3, Config, read, ("orjson", "pyyaml"))
