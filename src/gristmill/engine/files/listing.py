"""Lists the input files of a source.

A file's name is its path below the fixed part of its pattern (`crawl/` for `crawl/*/*.warc.gz`), so document ids
survive a move of the data. Every file is read once: a second name of it (a link, a hard link) is skipped.
"""

import os
import re
import stat
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any

from gristmill.counted import counted
from gristmill.engine.files.archives import MemberGlobs, opens, split_at_archive
from gristmill.engine.files.content import stamp_of, stamp_of_path
from gristmill.engine.files.tree import (
    ANYTHING,
    BROKEN,
    OUTSIDE,
    SECOND,
    SPECIAL,
    FileEntry,
    Folders,
    Inode,
    Skipped,
    cannot_list,
    list_tree,
)
from gristmill.errors import NoInput, UserError
from gristmill.places import FileLocation, kind_of, local_path, shown, system_of
from gristmill.recipe.checks.mistakes import nearest_file
from gristmill.recipe.model import Recipe, Source
from gristmill.recipe.sections.snapshot import is_regex
from gristmill.recipe.stage_module import known_formats
from gristmill.stages.contract import Piece, Reader
from gristmill.stages.ingest.html_files import PAGE_PARTS
from gristmill.stages.ingest.sniff import format_by_name
from gristmill.stages.reading.archive import archive_glob, is_archive
from gristmill.stages.reading.stream import COMPRESSED_SUFFIXES, without_compression_suffix
from gristmill.stages.reading.views import View

COMPRESSED = (*COMPRESSED_SUFFIXES, ".lz4", ".parquet")
COMPRESSION = 4
"""Assumed uncompressed bytes per byte of a compressed file; text and markup compress to a third or less."""
EXCLUDED = "excluded"
"""The reason for files that `exclude` names."""
PASSED_OVER = {
    OUTSIDE: "links that lead out",
    BROKEN: "links to nothing",
    SECOND: "second names",
    SPECIAL: "pipes, sockets or devices",
}
"""The reason for entries that a listing skips."""


@dataclass(frozen=True, slots=True)
class InputFile:
    """One file of a source."""

    uri: str
    """Its location as text, unique within a source."""
    name: str
    size: int
    snapshot: str | None
    stamp: str
    """Changes whenever the file may have changed: size, times and inode, or an object store's ETag."""
    place: FileLocation | None
    """Where to open it."""
    view: View | None = None
    """What to read of it. For a member of an archive, `uri`, `stamp` and `place` are the archive's."""
    opens: MemberGlobs | None = None
    """For an archive that the recipe names: the members to read."""

    def piece(self, start: int = 0, stop: int | None = None) -> Piece:
        return Piece(self.uri, self.name, start, stop, self.place, view=self.view)

    @property
    def payload_guess(self) -> int:
        return self.size * (COMPRESSION if self.name.lower().endswith(COMPRESSED) else 1)


@dataclass(frozen=True)
class Unread:
    """Files among those of a source that are not read, for one reason."""

    files: int
    example: str


@dataclass(frozen=True)
class Listing:
    """The files that the patterns of a source match."""

    files: list[InputFile]
    """Sorted by name."""
    skipped: Skipped
    """Entries that were skipped: links, second names, entries that are not files."""
    others: Counter[str]
    """Suffix -> files that the reader skips for it although the recipe does not say so."""
    unread: dict[str, Unread]
    """Reason -> files that are not read, including skipped entries."""


@dataclass
class _Expansion:
    """The files that a pattern matches."""

    root: str
    files: dict[str, tuple[FileLocation, Any]] = field(default_factory=dict)
    """URI -> its location, and what the file system knows about it: a FileEntry on the disk, else fsspec's info."""
    skipped: Skipped = field(default_factory=dict)

    def name_of(self, uri: str) -> str:
        root = self.root.rstrip("/") + "/"
        return uri[len(root) :] if uri.startswith(root) else uri.lstrip("/")


def list_files(source: Source, reader: Reader[Any], recipe: Recipe, folders: Folders) -> Listing:
    """Every file of a source, and every file among them that is not read. A pattern that matches nothing is an error
    before any work. `folders` are the listings that the sources of a recipe share.
    """
    where = line_of("", source, recipe)
    excluded: set[str] = set()
    opened: dict[str, MemberGlobs] = {}
    for pattern in source.exclude:
        unwanted, inner = expand_pattern(pattern, source, recipe, folders)
        if inner is not None and inner != ANYTHING:
            opened |= {uri: opened.get(uri, MemberGlobs()).without(inner) for uri in unwanted.files}
            continue
        excluded.update((unwanted.root, *unwanted.files, *chain.from_iterable(unwanted.skipped.values())))
    skipped: dict[str, set[str]] = {}
    found: dict[str, tuple[str, FileLocation, Any]] = {}
    others: dict[str, str] = {}
    unread: dict[str, str] = {}
    for pattern in source.paths:
        expanded, inner = expand_pattern(pattern, source, recipe, folders)
        for why, paths in expanded.skipped.items():
            parts = PAGE_PARTS if reader.markup else ()
            named = (path for path in paths if os.path.splitext(path)[1].lower() not in parts)
            skipped.setdefault(why, set()).update(path for path in named if path not in excluded)
        wanted = {uri: expanded.name_of(uri) for uri in expanded.files if uri not in excluded}
        unread |= dict.fromkeys(expanded.files.keys() & excluded, EXCLUDED)
        there = wanted
        archives = set()
        if inner is not None:
            archives = {uri for uri, name in there.items() if opens(name, reader, source.config)}
            opened |= {uri: opened.get(uri, MemberGlobs()).plus(inner) for uri in archives}
        if reader.wanted is not None:
            wanted = {
                uri: name for uri, name in wanted.items() if uri in archives or reader.wanted(name, source.config)
            }
            unread |= {uri: why_unwanted(there[uri], source, reader) for uri in there.keys() - wanted.keys()}
        if reader.other_suffix is not None:
            for uri in there.keys() - wanted.keys():
                if (suffix := reader.other_suffix(there[uri], source.config)) is not None:
                    others[uri] = suffix
        if there and not wanted:
            raise UserError(
                f"{line_of(pattern, source, recipe)}: {shown(pattern)} matches {_count_of(there)}, but this reader "
                f"skips all of them because of their names, so there is nothing to read. {other_format(source, there)}"
            )
        if not wanted:
            near = _meant(pattern)
            also = " and `exclude`" if source.exclude else ""
            fix = f"Check the path{also}; relative paths start at the recipe's folder."
            if os.path.isdir(local_path(pattern) or "") and not expanded.files:
                fix = "The folder has no files: add some, or name another one."
            raise NoInput(
                f"{line_of(pattern, source, recipe)}: {shown(pattern)} matches no file, so there is nothing to read. "
                + (f"Did you mean {near}?" if near else f"{fix}{_skipped_entries(expanded.skipped)}"),
                is_slip=near is not None,
            )
        # The first pattern that matches a file determines its name.
        found = {uri: (name, *expanded.files[uri]) for uri, name in wanted.items()} | found
    files: dict[str, InputFile] = {}
    uris = list(_once(found, skipped))
    for uri, snapshot in zip(uris, source.snapshots_of(uris), strict=True):
        name, place, about = found[uri]
        if snapshot is None and source.snapshot is not None and is_regex(source.snapshot):
            raise UserError(
                f"{where}: snapshot {source.snapshot!r} does not match {shown(uri)}, so its snapshot is unknown. "
                "Change the pattern, or exclude the file."
            )
        file = describe(uri, name, None if snapshot is None else shown(snapshot), place, about)
        if (globs := opened.get(uri)) is not None and globs.wanted:
            file = replace(file, opens=globs)
        if files.setdefault(name, file).uri != uri:
            raise UserError(
                f"{where}: {shown(files[name].uri)} and {shown(uri)} are both called {shown(name)} below their "
                "patterns, so their documents could not be distinguished. Use one pattern from a common parent folder, "
                "or two sources."
            )
    passed_over = {why: sorted(paths) for why, paths in skipped.items() if paths}
    left = [(why, uri) for uri, why in unread.items() if uri not in found]  # another pattern may match it
    left += [(PASSED_OVER[why], uri) for why, uris in passed_over.items() for uri in uris]
    counts, examples = Counter(why for why, _ in left), dict(sorted(left, reverse=True))
    return Listing(
        [files[name] for name in sorted(files)],
        passed_over,
        Counter(others.values()),
        {why: Unread(count, shown(examples[why])) for why, count in counts.most_common()},
    )


def why_unwanted(name: str, source: Source, reader: Reader[Any]) -> str:
    folder = reader.skipped_folder(name, source.config) if reader.skipped_folder else None
    if folder is not None:
        return f"in {shown(folder)}"
    suffix = os.path.splitext(without_compression_suffix(name))[1].lower()
    return f"{shown(suffix)} files" if suffix else "without a suffix"


def _count_of(names: Mapping[str, str]) -> str:
    first = shown(next(iter(names.values())))
    return first if len(names) == 1 else f"{counted(len(names), 'file')} ({first}, ...)"


def other_format(source: Source, names: Mapping[str, str]) -> str:
    """The fix if a reader takes no file with these names."""
    first = next(iter(names.values()))
    if is_archive(first):
        glob = archive_glob(first)
        return f"A folder opens none of the archives in it: name them, as in `{glob}`, and their members are read."
    fits = format_by_name(first)
    if fits is not None and known_formats(fits).get(fits) != source.module:
        return f"Their names suggest `format: {fits}`."
    setting = next((name for name in ("suffixes", "skip_dirs") if name in type(source.config).model_fields), None)
    start = f"Set `{setting}` to the files that it should read, or name" if setting else "Name"
    return f"{start} another `format`."


def _meant(pattern: str) -> str | None:
    """A file with nearly the same name, if a path without wildcards does not exist."""
    path = local_path(pattern)
    near = nearest_file(path) if path is not None and not os.path.exists(path) else None
    return shown(near) if near else None


def line_of(pattern: str, source: Source, recipe: Recipe) -> str:
    """The line of one of a source's paths in the recipe, or else of the source."""
    return f"{recipe.path}:{source.path_lines.get(pattern, source.line)}: sources.{source.name}"


def _once(found: dict[str, tuple[str, FileLocation, Any]], skipped: dict[str, set[str]]) -> Iterator[str]:
    """The URIs without second names of a file: its own name is preferred to a link, then the first in the alphabet."""
    taken: dict[Inode, str] = {}
    ranked = sorted(found, key=lambda uri: (_is_linked(found[uri][2]), uri))
    for uri in ranked:
        about = found[uri][2]
        if isinstance(about, FileEntry):
            inode = about.stat.st_dev, about.stat.st_ino
            # A file with a single name is unique, even if a file system gives many files the same inode.
            if (about.linked or about.stat.st_nlink > 1) and inode in taken:
                skipped.setdefault(SECOND, set()).add(uri)
                continue
            taken.setdefault(inode, uri)
        yield uri


def _is_linked(about: object) -> bool:
    return isinstance(about, FileEntry) and about.linked


def _skipped_entries(skipped: Skipped) -> str:
    if not skipped:
        return ""
    count = sum(len(paths) for paths in skipped.values())
    first = min(path for paths in skipped.values() for path in paths)
    fact = f" Links out of it, second names, pipes and devices are skipped: {count:,}, the first is {shown(first)}."
    return fact + (" Set `links: follow` under `read` to follow links." if OUTSIDE in skipped else "")


def expand_pattern(
    pattern: str, source: Source, recipe: Recipe, folders: Folders
) -> tuple[_Expansion, tuple[str, ...] | None]:
    """The files that a path, folder or glob matches. If it names archives, also the glob of their members."""

    def expand(pattern: str) -> _Expansion:
        path = local_path(pattern)
        return _elsewhere(pattern, recipe) if path is None else _on_disk(path, source, recipe, folders)

    named = split_at_archive(pattern)
    if named is None:
        return expand(pattern), None
    outer, inner = named
    found = expand(outer)
    is_folder = os.path.isdir(local_path(outer) or "") or (inner != ANYTHING and not found.files)
    return (expand(pattern), None) if is_folder else (found, inner)


def _on_disk(path: str, source: Source, recipe: Recipe, folders: Folders) -> _Expansion:
    literal = re.sub(r"\[([*?\[])\]", r"\1", path)
    try:
        named = os.stat(literal)
    except (FileNotFoundError, NotADirectoryError):
        named = None
    except OSError as error:
        raise cannot_list(error, literal) from None
    if named is not None and not stat.S_ISDIR(named.st_mode):
        if not stat.S_ISREG(named.st_mode):
            raise UserError(
                f"{line_of(path, source, recipe)}: {shown(literal)} is {kind_of(named.st_mode)} and "
                "not a file, so it cannot be read. Name a file or a folder."
            )
        return _Expansion(os.path.dirname(literal), {literal: (FileLocation(literal), FileEntry(named, linked=False))})
    root, glob = (literal, ANYTHING) if named is not None else _fixed_part(path)
    if not os.path.isdir(root):
        return _Expansion(root)
    tree = list_tree(root, glob, source.links == "follow", folders, _own_store(recipe))
    return _Expansion(root, {path: (FileLocation(path), entry) for path, entry in tree.files.items()}, tree.skipped)


def _own_store(recipe: Recipe) -> frozenset[Inode]:
    """The inode of the store, which may be inside a folder of inputs but is not an input."""
    path = local_path(recipe.store)
    try:
        found = os.stat(path or "")
    except OSError:
        return frozenset()
    return frozenset([(found.st_dev, found.st_ino)])


def _elsewhere(pattern: str, recipe: Recipe) -> _Expansion:
    system, path = system_of(pattern)
    scheme = f"{pattern.split('://')[0]}://"
    try:
        if system.isdir(path):
            root, found = path, system.find(path, detail=True)
        elif system.exists(path):
            root, found = os.path.dirname(path), {path: {**system.info(path), "type": "file"}}
        else:
            root, found = _fixed_part(path)[0], system.glob(path, detail=True)
    except UserError:
        raise
    except Exception as error:  # the libraries of file systems raise anything
        why = str(error).rstrip(". ") or type(error).__name__
        fix = "Give read permission, or name others." if isinstance(error, PermissionError) else _FIXES.get(scheme, "")
        raise UserError(f"{shown(pattern)} cannot be listed: {why}. {fix or _CHECK}") from None
    own = recipe.store.rstrip("/") + "/"
    files = {
        scheme + name: (FileLocation(name, system), info)
        for name, info in found.items()
        if info["type"] == "file" and not (scheme + name).startswith(own)
    }
    return _Expansion(scheme + root, files)


_CHECK = "Check the location, the network and your permission to read it."
_FIXES = {"hf://": f"Locations are `hf://datasets/OWNER/NAME@REVISION/PATH`. {_CHECK}"}


def _fixed_part(path: str) -> tuple[str, tuple[str, ...]]:
    """The folders of a glob before its first special character, and the segments after them."""
    segments = path.split("/")
    parts = []
    for part in segments[:-1]:
        if re.search(r"[*?\[]", re.sub(r"\[[*?\[]\]", "", part)):
            break
        parts.append(re.sub(r"\[([*?\[])\]", r"\1", part))
    return "/".join(parts) or "/", tuple(segments[len(parts) :])


def describe(uri: str, name: str, snapshot: str | None, place: FileLocation, about: Any) -> InputFile:
    if not isinstance(about, FileEntry):
        return InputFile(uri, name, int(about["size"]), snapshot, stamp_of(about), place)
    if not os.access(place.path, os.R_OK):
        raise UserError(f"{shown(uri)} cannot be read: Permission denied. Give read permission, or exclude it.")
    return InputFile(uri, name, about.stat.st_size, snapshot, stamp_of_path(about.stat), place)
