"""Reads trees of text (plain text, Markdown, reStructuredText and similar), one document per file.

YAML front matter of Markdown goes to `meta`. The title is the front matter's, or the first heading. A single compressed
file (`notes.md.gz`) is decompressed. A record's position is 0.
"""

from collections.abc import Iterator
from pathlib import PurePosixPath
from typing import Any, Literal

from gristmill.errors import WrongSetting
from gristmill.schema import Record
from gristmill.stages.contract import Bytes, Piece, Reader, StageConfig
from gristmill.stages.ingest.decode import decode
from gristmill.stages.ingest.front_matter import first_heading, split_front_matter
from gristmill.stages.reading.decompress import UNPACKING, ReadFault
from gristmill.stages.reading.fields import dump
from gristmill.stages.reading.stream import bounded, decompressed, without_compression_suffix

POSITIONS = "the whole file"

VCS_DIRS = frozenset((".git", ".hg", ".svn", ".bzr", "CVS", "_darcs"))
"""Folders in which version control keeps its own files. They are never documents."""

PAGE_SUFFIXES = (".html", ".htm", ".xhtml")
_TYPES = {
    "text/markdown": (".md", ".markdown", ".mdown", ".mkd", ".mdx", ".qmd", ".rmd"),
    "text/x-rst": (".rst", ".rest"),
    "text/asciidoc": (".adoc", ".asciidoc"),
    "text/org": (".org",),
    "text/x-tex": (".tex", ".latex"),
}
_TYPE_OF = {suffix: kind for kind, suffixes in _TYPES.items() for suffix in suffixes}


class TreeConfig(StageConfig):
    """Which files of a tree are documents."""

    suffixes: tuple[str, ...]
    """Suffixes of the files to read, with the dot, in any case. A compression suffix may follow. `""` selects files
    without a suffix (README)."""
    max_record_bytes: Bytes = 64 << 20
    """A larger file is dropped as `record_too_large`. Bytes, decompressed."""


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


def wanted(name: str, config: TreeConfig) -> bool:
    """Whether the file with this path below the root is a document, decided by its name alone."""
    path = PurePosixPath(without_compression_suffix(name))
    wanted = {suffix.lower() for suffix in config.suffixes}
    return path.suffix.lower() in wanted and skipped_folder(name, config) is None


def other_suffix(name: str, config: TreeConfig) -> str | None:
    """The suffix because of which a file is skipped, unless the recipe lists suffixes. Hidden files do not count."""
    path = PurePosixPath(without_compression_suffix(name))
    hidden = any(part.startswith(".") for part in path.parts) or skipped_folder(name, config) is not None
    return None if hidden or "suffixes" in config.model_fields_set else path.suffix.lower()


def skipped_folder(name: str, config: TreeConfig) -> str | None:
    """The outermost version control folder in the path."""
    return next((folder for folder in PurePosixPath(name).parts[:-1] if folder in VCS_DIRS), None)


def read(piece: Piece, config: Config) -> Iterator[Record]:
    """Reasons: `empty_file`, `empty_text` (nothing but front matter), `binary_file`, `invalid_utf8`,
    `record_too_large`, and `truncated_` or `corrupt_` with `gzip`, `zstd`, `bzip2`, `xz`.
    """
    if piece.start > 0 or piece.stop == 0:
        return
    suffix = PurePosixPath(without_compression_suffix(piece.name)).suffix.lower()
    record = Record(0, content_type=_TYPE_OF.get(suffix, "text/plain"))
    try:
        with piece.open() as file:
            data = bounded(decompressed(file)[1], config.max_record_bytes)
        text, record.charset = decode(data)
        if not text or text.isspace():
            raise ReadFault("empty_file", f"{len(data)} bytes, none of them visible")
        meta: dict[Any, Any] = {}
        body = text
        if record.content_type == "text/markdown":
            meta, body = split_front_matter(text)
        title = meta.get("title")
        if isinstance(title, str) and title:
            record.title = title.encode(errors="replace").decode()  # YAML's "\ud800" is half a character
        else:
            record.title = first_heading(body, record.content_type or "")
        record.meta = dump(meta) if meta else None
        if not body or body.isspace():
            raise ReadFault("empty_text", "front matter and no text")
        record.text = body if config.front_matter == "strip" else text
    except ReadFault as fault:
        record.drop, record.detail = fault.reason, fault.detail
    yield record


STAGE = Reader(
    version=2,
    config=Config,
    libraries=("orjson", "pyyaml", "resiliparse", *UNPACKING),
    positions=POSITIONS,
    wanted=wanted,
    other_suffix=other_suffix,
    skipped_folder=skipped_folder,
    read=read,
    check=check,
)
