"""Which input files a source has, and how they become tasks.

A file's name is its path below the fixed part of the pattern that found it (`crawl/` for `crawl/*/*.warc.gz`), so
document ids survive a move of the data. Files are cut and grouped by their names and sizes alone: large files that
can be entered in the middle into stretches, runs of small files into groups. Where a group ends depends on the hash
of the next file's name, so that a new file changes the group that it falls into and leaves the others alone.
"""

import glob
import hashlib
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import fsspec
from fsspec.implementations.local import LocalFileSystem

from gristmill.engine.content import stamp_of
from gristmill.errors import UserError
from gristmill.recipe.model import Recipe, Source, is_regex
from gristmill.stages.contract import Piece

COMPRESSED = (".gz", ".zst", ".lz4", ".bz2", ".xz", ".parquet")
COMPRESSION = 4
"""What a compressed file is taken to hold per byte; text and markup compress to a third or less, records vary."""
MOST_STRETCHES = 64
"""Of one file. Where none but its start is a sure place to begin, a stretch costs as much as all before it."""


@dataclass(frozen=True)
class InputFile:
    """One file of a source."""

    uri: str
    name: str
    size: int
    snapshot: str | None
    stamp: str
    """Changes whenever the file may have changed: size, times and inode, or an object store's ETag."""
    seen: tuple[int, int] | None
    """(size, mtime in ns) of a local file."""

    @property
    def payload_guess(self) -> int:
        return self.size * (COMPRESSION if self.name.endswith(COMPRESSED) else 1)


@dataclass(frozen=True)
class Group:
    """What one read task reads."""

    snapshot: str | None
    pieces: tuple[Piece, ...]
    label: str


def list_files(source: Source, module: ModuleType, recipe: Recipe) -> list[InputFile]:
    """Every file of a source, sorted by name. A pattern that matches nothing is an error before any work."""
    where = f"{recipe.path}:{source.line}: sources.{source.name}"
    excluded = {uri for pattern in source.exclude for uri, _, _ in _expand(pattern)}
    own_store = recipe.store.rstrip("/") + "/"
    files: dict[str, InputFile] = {}
    for pattern in source.paths:
        found = [entry for entry in _expand(pattern) if entry[0] not in excluded and not entry[0].startswith(own_store)]
        if hasattr(module, "WANTED"):
            found = [entry for entry in found if module.WANTED(entry[1], source.config)]
        if not found:
            raise UserError(
                f"{where}: {pattern} matches no file, so there is nothing to read. "
                f"Check the path{' and `exclude`' if source.exclude else ''}; relative paths start at the recipe's "
                "folder."
            )
        for uri, name, info in found:
            name = name.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
            snapshot = source.snapshot_of(uri)
            if snapshot is None and source.snapshot is not None and is_regex(source.snapshot):
                raise UserError(
                    f"{where}: snapshot {source.snapshot!r} does not match {uri}, so its snapshot is unknown. "
                    "Change the pattern, or exclude the file."
                )
            file = _describe(uri, name, snapshot, info)
            if files.setdefault(name, file).uri != uri:
                raise UserError(
                    f"{where}: {files[name].uri} and {uri} are both called {name} below their patterns, so their "
                    "documents could not be told apart. Use one pattern from a common parent folder, or two sources."
                )
    return [files[name] for name in sorted(files)]


def _expand(pattern: str) -> list[tuple[str, str, dict[str, Any]]]:
    """(uri, name, info) of every file that a path, folder or glob stands for."""
    fs, path = fsspec.url_to_fs(pattern)
    scheme = "" if isinstance(fs, LocalFileSystem) else f"{pattern.split('://')[0]}://"
    literal = re.sub(r"\[([*?\[])\]", r"\1", path) if isinstance(fs, LocalFileSystem) else path
    try:
        if fs.isdir(literal):
            found = _below(literal) if isinstance(fs, LocalFileSystem) else fs.find(literal, detail=True)
            root = literal
        elif fs.exists(literal):
            found = {literal: {**fs.info(literal), "type": "file"}}
            root = os.path.dirname(literal)
        else:
            found = _matching(path) if isinstance(fs, LocalFileSystem) else fs.glob(path, detail=True)
            root = _fixed_part(path)
    except PermissionError as error:
        raise UserError(f"{error.filename or pattern} cannot be listed: {error.strerror}. Allow reading it.") from None
    root = root.rstrip("/") + "/"
    return [
        (
            scheme + name if scheme else name,
            name[len(root) :] if name.startswith(root) else name.lstrip("/"),
            info,
        )
        for name, info in sorted(found.items())
        if info["type"] == "file"
    ]


def _below(folder: str) -> dict[str, dict[str, Any]]:
    """Local files below a folder. Links are followed, to files and to folders, but never round in a circle."""
    found: dict[str, dict[str, Any]] = {}
    stack = [(folder.rstrip("/") or "/", frozenset[tuple[int, int]]())]
    while stack:
        here, above = stack.pop()
        stat = os.stat(here)
        if (stat.st_dev, stat.st_ino) in above:
            continue
        for entry in os.scandir(here):
            if entry.is_dir():
                stack.append((entry.path, above | {(stat.st_dev, stat.st_ino)}))
            elif entry.is_file():
                found[entry.path] = _LOCAL_FILE
    return found


def _matching(pattern: str) -> dict[str, dict[str, Any]]:
    """Local files that a glob matches, through links as a shell would."""
    names = glob.iglob(pattern, recursive=True, include_hidden=True)
    return {name: _LOCAL_FILE for name in names if os.path.isfile(name)}


_LOCAL_FILE: dict[str, Any] = {"type": "file", "ino": 0}
"""All that is asked of a local file here; the rest is looked up when it is described."""


def _fixed_part(path: str) -> str:
    """The folders of a glob before its first special character."""
    parts = []
    for part in path.split("/")[:-1]:
        plain = re.sub(r"\[([*?\[])\]", r"\1", part)
        if re.search(r"[*?\[]", re.sub(r"\[[*?\[]\]", "", part)):
            break
        parts.append(plain)
    return "/".join(parts)


def _describe(uri: str, name: str, snapshot: str | None, info: dict[str, Any]) -> InputFile:
    if "ino" not in info:
        return InputFile(uri, name, int(info["size"]), snapshot, stamp_of(uri, info), None)
    try:
        stat = os.stat(uri)
        stamp = stamp_of(uri, info)
    except OSError as error:
        raise UserError(f"{uri} cannot be read: {error.strerror}. Mend the file or exclude it.") from None
    if not os.access(uri, os.R_OK):
        raise UserError(f"{uri} cannot be read: Permission denied. Allow reading it, or exclude it.")
    return InputFile(uri, name, stat.st_size, snapshot, stamp, (stat.st_size, stat.st_mtime_ns))


def group_files(files: Sequence[InputFile], part_bytes: int, module: ModuleType) -> Iterator[Group]:
    """Cut and group files for read tasks of about one part each; a group never spans two snapshots."""
    for snapshot in sorted({file.snapshot for file in files}, key=lambda value: (value is not None, value)):
        group: list[InputFile] = []
        filled = 0
        for file in files:
            if file.snapshot != snapshot:
                continue
            if group and _ends_before(file, filled, part_bytes):
                yield _group_of(group)
                group, filled = [], 0
            if file.payload_guess > part_bytes:
                yield from _stretches(file, part_bytes, module)
            else:
                group.append(file)
                filled += file.payload_guess
        if group:
            yield _group_of(group)


def _ends_before(file: InputFile, filled: int, part_bytes: int) -> bool:
    if filled + file.payload_guess > part_bytes:
        return True
    if filled < part_bytes // 4:
        return False
    chance = int.from_bytes(hashlib.blake2b(file.name.encode(), digest_size=8).digest(), "big") / 2**64
    return chance < 2 * max(file.payload_guess, 1) / part_bytes


def _group_of(files: Sequence[InputFile]) -> Group:
    label = files[0].name if len(files) == 1 else f"{files[0].name} and {len(files) - 1} more"
    return Group(files[0].snapshot, tuple(Piece(file.uri, file.name) for file in files), label)


def _stretches(file: InputFile, part_bytes: int, module: ModuleType) -> Iterator[Group]:
    if not module.SPLITTABLE(file.name):
        yield _group_of([file])
        return
    step = max(1, part_bytes * file.size // file.payload_guess, -(-file.size // MOST_STRETCHES))
    count = max(1, round(file.size / step))
    for index in range(count):
        start = index * step
        stop = None if index == count - 1 else start + step
        label = f"{file.name} {index + 1}/{count}" if count > 1 else file.name
        yield Group(file.snapshot, (Piece(file.uri, file.name, start, stop),), label)
