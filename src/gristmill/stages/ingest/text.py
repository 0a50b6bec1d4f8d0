"""Reads trees of text (plain text, Markdown, reStructuredText and similar), one document per file.

YAML front matter of Markdown goes to `meta`. The title is the front matter's, or the first heading. A single compressed
file (`notes.md.gz`) is decompressed. A record's position is 0.
"""

from collections.abc import Iterator
from pathlib import PurePosixPath
from typing import Literal

from gristmill.errors import WrongSetting
from gristmill.schema import Record
from gristmill.stages.contract import Piece
from gristmill.stages.ingest.decode import decode
from gristmill.stages.ingest.front_matter import first_heading, split_front_matter
from gristmill.stages.ingest.whole_file import TreeConfig, one_record, tree_reader
from gristmill.stages.reading.fields import dump
from gristmill.stages.reading.stream import without_compression_suffix

PAGE_SUFFIXES = (".html", ".htm", ".xhtml")
_TYPES = {
    "text/markdown": (".md", ".markdown", ".mdown", ".mkd", ".mdx", ".qmd", ".rmd"),
    "text/x-rst": (".rst", ".rest"),
    "text/asciidoc": (".adoc", ".asciidoc"),
    "text/org": (".org",),
    "text/x-tex": (".tex", ".latex"),
}
_TYPE_OF = {suffix: kind for kind, suffixes in _TYPES.items() for suffix in suffixes}


class Config(TreeConfig):
    suffixes: tuple[str, ...] = (".txt", ".text", *_TYPE_OF)
    front_matter: Literal["strip", "keep"] = "strip"
    """Whether YAML front matter stays in the text. Its title is read in both cases."""


def check(config: Config) -> None:
    """Raises WrongSetting for the suffixes of pages, since their markup would be read as text."""
    if any(suffix.lower() in PAGE_SUFFIXES for suffix in config.suffixes):
        raise WrongSetting(
            "suffixes",
            f"{', '.join(PAGE_SUFFIXES)} files are web pages, and `format: text` would keep their markup as text. Read "
            "them in a source with `format: html` and add the step extract.",
        )


def _parse(data: bytes, record: Record, config: Config) -> None:
    text, record.charset = decode(data)
    meta, body = split_front_matter(text) if record.content_type == "text/markdown" else ({}, text)
    title = meta.get("title")
    if isinstance(title, str) and title:
        record.title = title.encode(errors="replace").decode()  # YAML's "\ud800" is half a character
    else:
        record.title = first_heading(body, record.content_type or "")
    record.meta = dump(meta) if meta else None
    if body.strip():
        record.text = body if config.front_matter == "strip" else text


def read(piece: Piece, config: Config) -> Iterator[Record]:
    """Reasons: `binary_file`, `invalid_utf8`, and those of `one_record`; `empty_text` if only front matter is there."""
    suffix = PurePosixPath(without_compression_suffix(piece.name)).suffix.lower()
    yield from one_record(piece, config, _TYPE_OF.get(suffix, "text/plain"), _parse)


STAGE = tree_reader(3, Config, read, ("orjson", "pyyaml", "resiliparse"), check=check)
