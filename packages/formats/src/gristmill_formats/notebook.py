"""Reads Jupyter notebooks (formats 3 and 4), one document per file: Markdown cells, and code cells in fences.

Outputs are kept as text, up to a size; images and widgets are not text. Formulas and Markdown among the outputs are
written as they are. `layout: script` writes the code with the Markdown as comments instead. The language is that of the
kernel; a cell may have another one. The title is the first heading.
"""

import re
from collections.abc import Iterator
from itertools import groupby
from typing import Any, Literal

from gristmill.schema import Record
from gristmill.stages.contract import Bytes, Piece
from gristmill.stages.ingest.front_matter import first_heading, split_front_matter
from gristmill.stages.ingest.languages import BY_EXTENSION
from gristmill.stages.ingest.whole_file import TreeConfig, one_record, tree_reader
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
_FORMULA = re.compile(r"\s*(?:\$|\\[\[(]|\\begin\{(?:align|equation|gather|multline|eqnarray)\*?\})")
"""LaTeX that is a formula. Tables of numbers are LaTeX, too, and their plain text is easier to read."""
_MAGIC = re.compile(r"\s*%%(\w{1,20})")
_MAGICS = {"js": "javascript", "python2": "python", "python3": "python", "sh": "bash", "bigquery": "sql"} | {
    name: name
    for name in re.findall(r"\w+", "bash cython html javascript julia latex markdown octave perl python r ruby sql")
}
"""Cells that begin with %%bash are in another language than the kernel's."""
_NOTED = (("vscode", "languageId"), ("polyglot_notebook", "kernelName"), ("dotnet_interactive", "language"))
"""Where editors for several languages note the language of a cell."""
_KERNELS = {"python": "python", "xpython": "python", "ir": "r", "julia": "julia", "bash": "bash"}
"""Kernels by the letters that their names begin with, for notebooks that name no language."""
_GITHUB_NAMES = {name.lower(): name for name in BY_EXTENSION.values()}
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
    record.language_hint = _GITHUB_NAMES.get(language, language) or None
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
    kernel = facts.get("kernelspec") if isinstance(facts, dict) else None
    name = str(kernel.get("name")) if isinstance(kernel, dict) else ""
    return _KERNELS.get(re.split(r"[^a-z]", name.lower())[0], "")


def _language_of(cell: dict[str, Any], source: str, language: str) -> str:
    """The language of a cell: that of its %%magic, else the one that an editor has noted."""
    magic = _MAGIC.match(source)
    facts = cell.get("metadata")
    for name, field in _NOTED:
        found = facts.get(name) if isinstance(facts, dict) else None
        value = found.get(field) if isinstance(found, dict) else None
        if isinstance(value, str) and re.fullmatch(r"[\w+#.-]{1,40}", value):
            language = value.lower()
    return _MAGICS.get(magic[1].lower(), language) if magic else language or str(cell.get("language") or "")


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
    blocks = [_fenced(source, _language_of(cell, source, language))] if source else []
    return "\n\n".join([*blocks, *_outputs(cell.get("outputs"), config.max_output_bytes)])


def _fenced(text: str, language: str) -> str:
    fence = "`" * max([3, *(len(one) + 1 for one in _FENCES.findall(text))])
    return f"{fence}{language}\n{text}\n{fence}"


def _outputs(outputs: Any, limit: int) -> list[str]:
    """The outputs of a cell: streams, results and errors in fences; Markdown and formulas as they are."""
    shown = [_output(one) for one in outputs if isinstance(one, dict)] if isinstance(outputs, list) else []
    blocks: list[str] = []
    for is_markup, group in groupby((one for one in shown if one[1].strip()), lambda one: one[0]):
        text = ("\n\n" if is_markup else "\n").join(one for _, one in group)
        whole = text.encode(errors="replace")
        if limit <= 0:
            break
        if len(whole) > limit:
            kept = whole[:limit].decode(errors="ignore")
            text = "..." if is_markup else (kept.rpartition("\n")[0] or kept) + "\n..."  # no half formula
        blocks.append(text if is_markup else _fenced(text, "output"))
        limit -= len(whole)
    return blocks


def _output(one: dict[str, Any]) -> tuple[bool, str]:
    """Whether an output is markup, and its text: "" if it is the description of a picture, a widget or an object."""
    if one.get("output_type") in ("pyerr", "error"):
        return False, _COLOURS.sub("", f"{one.get('ename')}: {one.get('evalue')}")
    stated = one.get("data")
    data: dict[str, Any] = stated if isinstance(stated, dict) else {}
    if any(name.endswith("widget-view+json") for name in data):
        return False, ""
    plain = _COLOURS.sub("", _joined(one.get("text") or data.get("text/plain"))).strip("\n")
    plain = "" if _HANDLE.fullmatch(plain.strip()) else _overwritten(plain)
    latex, markdown = _joined(data.get("text/latex") or one.get("latex")), _joined(data.get("text/markdown"))
    if _FORMULA.match(latex) or (latex.strip() and not plain):
        return True, latex.replace("\\displaystyle ", "").strip()
    return (True, _EMBEDDED.sub("()", markdown).strip("\n")) if markdown.strip() and not plain else (False, plain)


def _overwritten(text: str) -> str:
    """What a terminal shows: a carriage return begins the line again, as progress bars do."""
    return "\n".join(line.rstrip("\r").rpartition("\r")[2] for line in text.split("\n"))


def _joined(source: Any) -> str:
    """A string, or the lines of one."""
    if isinstance(source, list):
        return "".join(one for one in source if isinstance(one, str))
    return source if isinstance(source, str) else ""


STAGE = tree_reader(4, Config, read, ("orjson", "pyyaml"))
