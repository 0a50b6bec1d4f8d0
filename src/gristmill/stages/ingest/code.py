"""Reads trees of code: one document a file, with its programming language and its license.

The license is the file's own `SPDX-License-Identifier`, else that of the license files in the nearest folder upward
that has any. Those are other files, so the planner names them (`companions`) and the engine hashes them: the record
stays a function of what the task reads. A license text that nobody recognises is `NOASSERTION`, which no default of the
recipe may paper over; no license file at all leaves `license` null, for the recipe to fill. Notebooks stay JSON text.

Files of records (`.jsonl`, `.csv`, `.parquet`, `.warc` and the like, compressed or not) are data and no code: each
would be one document. They are not read, and a run says how many there are; a source of their own reads them. `.json`
is code.
"""

from collections.abc import Iterator, Sequence
from functools import lru_cache
from pathlib import PurePosixPath
from typing import Literal

from gristmill.schema import Record
from gristmill.stages.contract import Bytes, Piece, StageConfig
from gristmill.stages.ingest import spdx
from gristmill.stages.ingest.decode import decode
from gristmill.stages.ingest.decompress import Fault
from gristmill.stages.ingest.fields import dump
from gristmill.stages.ingest.languages import language
from gristmill.stages.ingest.sniff import format_by_name
from gristmill.stages.ingest.stream import bounded, plain_chunks, without_compression_suffix
from gristmill.stages.ingest.text import VCS_DIRS

VERSION = 1
LIBRARIES = ("orjson", "resiliparse")
POSITIONS = "the whole file"

_DATA = frozenset(("csv", "jsonl", "parquet", "warc", "wet"))
"""Formats whose files hold many documents."""


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
    """Names of folders, at any depth, whose files are no documents of this source: dependencies that live elsewhere
    under licenses of their own, and what a build wrote. `build` is not among them: many keep build scripts there.
    Folders of version control are always left out."""
    license: Literal["from_files", "from_recipe"] = "from_files"
    """Whether to look for licenses in the files, or leave `license` to the recipe."""
    max_record_bytes: Bytes = 64 << 20
    """A larger file is dropped as `record_too_large`. Bytes."""


def SPLITTABLE(name: str) -> bool:
    """A file is one document."""
    return False


def WANTED(name: str, config: Config) -> bool:
    """Whether the file of that path below the root is a document; by its path alone."""
    return SKIPPED_FOLDER(name, config) is None and format_by_name(name) not in _DATA


def OTHER_SUFFIX(name: str, config: Config) -> str | None:
    """The suffix of a file that holds records, not code."""
    if SKIPPED_FOLDER(name, config) is not None or format_by_name(name) not in _DATA:
        return None
    return PurePosixPath(without_compression_suffix(name)).suffix.lower()


def SKIPPED_FOLDER(name: str, config: Config) -> str | None:
    """The outermost folder of that path which is not entered."""
    folders = PurePosixPath(name).parts[:-1]
    return next((folder for folder in folders if folder in VCS_DIRS or folder in config.skip_dirs), None)


def companions(names: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """For each file of a source, the license files of the nearest folder upward that has any; files that have none
    above them are left out.
    """
    licenses: dict[PurePosixPath, list[str]] = {}
    for name in names:
        if spdx.is_license_file(name):
            licenses.setdefault(PurePosixPath(name).parent, []).append(name)
    nearest: dict[PurePosixPath, tuple[str, ...]] = {}

    def of(folder: PurePosixPath) -> tuple[str, ...]:
        if folder not in nearest:
            if folder in licenses:
                nearest[folder] = tuple(sorted(licenses[folder]))
            else:
                nearest[folder] = of(folder.parent) if folder.parent != folder else ()
        return nearest[folder]

    return {name: found for name in names if (found := of(PurePosixPath(name).parent))}


def read(piece: Piece, config: Config, companions: Sequence[Piece] = ()) -> Iterator[Record]:
    """Reasons: `empty_file`, `binary_file`, `invalid_utf8`, `record_too_large`. Compressed files are binary here: in a
    tree of code they are data.
    """
    if piece.start > 0 or piece.stop == 0:
        return
    record = Record(0)
    try:
        with piece.open() as file:
            data = bounded(plain_chunks(file), config.max_record_bytes)
        text, record.charset = decode(data)
        if not text or text.isspace():
            raise Fault("empty_file", f"{len(data)} bytes, none of them visible")
    except Fault as fault:
        record.drop, record.detail = fault.reason, fault.detail
        yield record
        return
    record.text = text
    meta: dict[str, str | int] = {"bytes": len(data)}
    if found := language(piece.name, text):
        record.language_hint, meta["language_by"] = found
    if config.license == "from_files":
        if stated := spdx.header(text):
            record.license, meta["license_by"] = stated, "header"
        elif companions:
            record.license, meta["license_by"] = _license(companions), "file"
    record.meta = dump(meta)
    yield record


_LICENSE_BYTES = 1 << 18


def _license(files: Sequence[Piece]) -> str:
    found = {file.name: name for file in files if (name := _recognised(file))}
    return spdx.combined(found) or "NOASSERTION"


def _recognised(file: Piece) -> str | None:
    # Kept by content: every file of a repository asks for the same license.
    return _recognise(file) if file.content is None else _kept(file)


@lru_cache(maxsize=4096)
def _kept(file: Piece) -> str | None:
    return _recognise(file)


def _recognise(file: Piece) -> str | None:
    """Longer texts than any license are read for their start only."""
    with file.open() as opened:
        try:
            return spdx.recognise(decode(opened.read(_LICENSE_BYTES))[0])
        except Fault:
            return None
