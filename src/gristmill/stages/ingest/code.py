"""Reads trees of code: one document per file, with its programming language and its license.

The license is the file's own `SPDX-License-Identifier`, or that of the license files in the nearest folder upward that
has any. Those are other files, so the planner names them (`companions`) and the engine hashes them: the record only
depends on what the task reads. An unrecognised license text becomes `NOASSERTION`, which the recipe's default does not
replace. Without any license file, `license` is null and the recipe may fill it. Notebooks stay JSON text. The column
`repository` is the folder with a `.git` folder, or a part of the path; dedup steps keep all files that forks share
from one repository.

Files of records (`.jsonl`, `.csv`, `.parquet`, `.warc` and so on, compressed or not) and binary files (`.png`) are
skipped by name; a run counts them by suffix. Prose (`README`, `.txt`, Markdown), translations (`.po`), data (SVG),
other binary files and files without a known language become rows with the reason `not_code`, unless `languages`
includes them. `.json` is code.
"""

import re
from collections.abc import Iterator, Sequence
from difflib import get_close_matches
from functools import lru_cache
from pathlib import PurePosixPath
from typing import Any, Literal

import pyarrow as pa
from pydantic import field_validator

from gristmill.counted import counted
from gristmill.schema import Record
from gristmill.stages.contract import Bytes, Piece, Reader, StageConfig
from gristmill.stages.ingest import spdx
from gristmill.stages.ingest.decode import decode
from gristmill.stages.ingest.languages import BY_EXTENSION, BY_INTERPRETER, BY_NAME, language
from gristmill.stages.ingest.sniff import format_by_name
from gristmill.stages.ingest.whole_file import VCS_DIRS
from gristmill.stages.reading.decompress import ReadFault
from gristmill.stages.reading.fields import dump
from gristmill.stages.reading.stream import bounded, plain_chunks, without_compression_suffix

_DATA = frozenset(("csv", "jsonl", "parquet", "warc", "wet"))
"""Formats whose files hold many documents."""
_BINARY = frozenset(
    re.findall(
        r"\w+",
        "7z a avi bin bmp bz2 class db deb dll dylib egg eot exe flac gif gmo gz ico img iso jar jpeg jpg lib mo mov "
        "mp3 mp4 npy npz o obj ogg onnx otf pak pdf pickle pkl png psd pt pyc pyd pyo rar rpm so sqlite tar tgz tif "
        "tiff ttf war wasm wav webm webp whl woff woff2 xz zip zst",
    )
)
"""Suffixes of files that are never text."""
_PROSE = ("AsciiDoc", "Markdown", "Org", "reStructuredText", "Roff", "Text", "Textile", "Wikitext")
_NOT_CODE = frozenset((*_PROSE, "BibTeX", "CSV", "Diff", "G-code", "Gettext Catalog", "Go Checksums", "SVG", "TSV"))
"""Prose, translations and data among the languages in the table."""
_LANGUAGES = {name.lower(): name for table in (BY_EXTENSION, BY_NAME, BY_INTERPRETER) for name in table.values()}


class Config(StageConfig):
    """Which files of a tree are documents, and where licenses come from."""

    skip_dirs: tuple[str, ...] = (
        "node_modules",
        "bower_components",
        "jspm_packages",
        "vendor",
        "vendors",
        "third_party",
        "third-party",
        "thirdparty",
        "Pods",
        "Carthage",
        "site-packages",
        "venv",
        ".venv",
        ".tox",
        "__pycache__",
        "dist",
        "target",
    )
    """Names of folders, at any depth, that are skipped: dependencies with their own licenses, and build output. `build`
    is not in the list, since many projects keep build scripts there. Folders of version control are always skipped."""
    languages: Literal["code", "any"] | tuple[str, ...] = "code"
    """Which files are documents: `code` (programming, markup and configuration languages, but no prose, translations or
    data), `any` text file, or a list of languages by their GitHub names. Others are dropped as `not_code`."""
    license: Literal["from_files", "from_recipe"] = "from_files"
    """`from_files` finds licenses in the files; `from_recipe` leaves `license` to the recipe."""
    repository: str | None = "([^/]+)/"
    """The repository of a file is the nearest folder upward with a `.git` folder; where there is none, the group of
    this regular expression in its path below the source's folder. The default is the first folder: `([^/]+/[^/]+)/` is
    for OWNER/NAME. null: the source is no set of repositories."""
    max_record_bytes: Bytes = 64 << 20
    """A larger file is dropped as `record_too_large`. Bytes."""

    @field_validator("repository")
    @classmethod
    def _one_group(cls, value: str | None) -> str | None:
        if value is not None:
            try:
                groups = re.compile(value).groups
            except re.error as error:
                raise ValueError(f"{value!r} is not a regular expression: {error}") from None
            if groups != 1:
                raise ValueError(f"{value!r} has {counted(groups, 'group')}. Put parentheses around the name only")
        return value

    @field_validator("languages")
    @classmethod
    def _known(cls, value: Any) -> Any:
        """Accepts names in any case and returns them as the table writes them."""
        if isinstance(value, str):
            return value
        for name in value:
            if name.lower() not in _LANGUAGES:
                near = get_close_matches(name.lower(), _LANGUAGES, 1)
                hint = f"Did you mean {_LANGUAGES[near[0]]}?" if near else "Write it as GitHub names it."
                raise ValueError(f"{name} is not a known language, so no file would match it. {hint}")
        return tuple(_LANGUAGES[name.lower()] for name in value)

    def takes(self, name: str | None) -> bool:
        """Whether files in a language are documents; None: no known language."""
        if self.languages == "any":
            return True
        return name is not None and (name not in _NOT_CODE if self.languages == "code" else name in self.languages)


def is_git_head(name: str) -> bool:
    """Whether a file is the one that every `.git` folder has."""
    return PurePosixPath(name).parts[-2:] == (".git", "HEAD")


def wanted(name: str, config: Config) -> bool:
    """Whether the file with this path below the root is a document, decided by the path alone."""
    if is_git_head(name):  # not a document: it shows where a repository begins
        return config.repository is not None
    if skipped_folder(name, config) is not None or format_by_name(name) in _DATA:
        return False
    return PurePosixPath(name).suffix[1:].lower() not in _BINARY


def other_suffix(name: str, config: Config) -> str | None:
    """The suffix of a file that holds records, not code."""
    if skipped_folder(name, config) is not None or format_by_name(name) not in _DATA:
        return None
    return PurePosixPath(without_compression_suffix(name)).suffix.lower()


def skipped_folder(name: str, config: Config) -> str | None:
    """The outermost folder in the path that is skipped."""
    folders = PurePosixPath(name).parts[:-1]
    return next((folder for folder in folders if folder in VCS_DIRS or folder in config.skip_dirs), None)


def companions(names: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """For each file of a source, the license files of the nearest folder upward that has any, and the HEAD of the
    nearest `.git` folder; files without either are left out.
    """
    licenses: dict[PurePosixPath, list[str]] = {}
    heads: dict[PurePosixPath, str] = {}
    for name in names:
        if is_git_head(name):
            heads[PurePosixPath(name).parent.parent] = name
        elif spdx.is_license_file(name):
            licenses.setdefault(PurePosixPath(name).parent, []).append(name)
    nearest: dict[PurePosixPath, tuple[tuple[str, ...], str | None]] = {}

    def of(folder: PurePosixPath) -> tuple[tuple[str, ...], str | None]:
        if folder not in nearest:
            above = of(folder.parent) if folder.parent != folder else ((), None)
            nearest[folder] = tuple(sorted(licenses.get(folder, above[0]))), heads.get(folder, above[1])
        return nearest[folder]

    found = {name: of(PurePosixPath(name).parent) for name in names if not is_git_head(name)}
    return {name: (*files, *filter(None, (head,))) for name, (files, head) in found.items() if files or head}


def _repository(piece: Piece, companions: Sequence[Piece], config: Config) -> str | None:
    if config.repository is None:
        return None
    if head := next((file for file in companions if is_git_head(file.name)), None):
        return str(PurePosixPath(head.name).parent.parent)
    name = re.search(config.repository, piece.name)
    return name[1] if name else None


def read(piece: Piece, config: Config, companions: Sequence[Piece] = ()) -> Iterator[Record]:
    """Reasons: `not_code`, `empty_file`, `invalid_utf8`, `record_too_large`."""
    if piece.start > 0 or piece.stop == 0:
        return
    record = Record(0, more=(_repository(piece, companions, config),))
    if is_git_head(piece.name):
        record.drop, record.detail = "not_code", "it shows where a repository begins"
        yield record
        return
    try:
        with piece.open() as file:
            data = bounded(plain_chunks(file), config.max_record_bytes)
        text, record.charset = decode(data)
        if not text or text.isspace():
            raise ReadFault("empty_file", f"{len(data)} bytes, none of them visible")
        found = language(piece.name, text)
        if not config.takes(found[0] if found else None):
            raise ReadFault("not_code", found[0] if found else "no known language")
    except ReadFault as fault:
        binary = fault.reason == "binary_file"  # binary files among code are not damaged
        record.drop, record.detail = ("not_code", f"binary: {fault.detail}") if binary else (fault.reason, fault.detail)
        yield record
        return
    record.text = text
    meta: dict[str, str | int] = {"bytes": len(data)}
    if found:
        record.language_hint, meta["language_by"] = found
    if config.license == "from_files":
        if stated := spdx.header(text):
            record.license, meta["license_by"] = stated, "header"
        elif licenses := [file for file in companions if not is_git_head(file.name)]:
            record.license, meta["license_by"] = _license(licenses), "file"
    record.meta = dump(meta)
    yield record


_LICENSE_BYTES = 1 << 18


def _license(files: Sequence[Piece]) -> str:
    found = {file.name: name for file in files if (name := _recognised(file))}
    return spdx.combined(found) or "NOASSERTION"


def _recognised(file: Piece) -> str | None:
    # Cached by content, since every file of a repository needs the same license.
    return _recognise(file) if file.content is None else _recognise_cached(file)


@lru_cache(maxsize=4096)
def _recognise_cached(file: Piece) -> str | None:
    return _recognise(file)


def _recognise(file: Piece) -> str | None:
    """Reads only the start of a file that is longer than any license."""
    with file.open() as opened:
        try:
            return spdx.recognise(decode(opened.read(_LICENSE_BYTES))[0])
        except ReadFault:
            return None


STAGE = Reader(
    version=3,
    config=Config,
    libraries=("orjson", "resiliparse"),
    columns=pa.schema([("repository", pa.string())]),
    positions="the whole file",
    wanted=wanted,
    other_suffix=other_suffix,
    skipped_folder=skipped_folder,
    companions=companions,
    read=read,
)
