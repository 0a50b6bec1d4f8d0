"""Lists the files below a folder, or those that a glob matches below it, on this machine's disk.

A path that a user names may be a link. Links below it are data, and data must not lead out: a link is followed if its
target is below the folder, or if the source sets `links: follow`. Every folder is entered once, by device and inode,
under its own name rather than through a link, so cycles end and the work is linear in the number of entries. Pipes,
sockets and devices are never opened. Skipped entries are counted and reported.

Sources may share a folder. `Folders` lists each folder once, and a glob only visits names with its fixed prefix, so the
work is linear in sources and files.
"""

import errno
import fnmatch
import heapq
import os
import re
import stat
import threading
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from gristmill.errors import UserError
from gristmill.places import kind_of, shown

ANYTHING = ("**",)
"""The glob of every file at any depth."""
OUTSIDE, BROKEN, SECOND, SPECIAL = "outside", "broken", "second", "special"
"""Why an entry is skipped: a link that leads out of the folder; a link to nothing or in a cycle; a second name of a
file or folder; not a file."""
MOST_CONFIG_FILES = 100_000

Skipped = dict[str, list[str]]
"""Reason -> the paths."""
Inode = tuple[int, int]


class ListingStopped(Exception):
    """The listing is no longer needed."""


class FileEntry(NamedTuple):
    """A file in a listing."""

    stat: os.stat_result
    linked: bool
    """Whether a link leads to it."""


@dataclass
class FolderTree:
    """The result of a listing."""

    files: dict[str, FileEntry] = field(default_factory=dict)
    skipped: Skipped = field(default_factory=dict)

    def skip(self, why: str, path: str) -> None:
        self.skipped.setdefault(why, []).append(path)


class Folders:
    """Listings of folders, each made once per plan. Several threads may use them."""

    def __init__(self) -> None:
        self.stopped = threading.Event()
        """Set when listings are no longer needed: they end with ListingStopped."""
        self._listed: dict[str, list[os.DirEntry[str]]] = {}
        self._locks: dict[str, threading.Lock] = {}

    def entries(self, folder: str, prefixes: Sequence[str]) -> Iterator[os.DirEntry[str]]:
        """The entries whose name has one of these prefixes, sorted by name. No prefix may be a prefix of another."""
        if self.stopped.is_set():
            raise ListingStopped
        with self._locks.setdefault(folder, threading.Lock()):
            if folder not in self._listed:
                self._listed[folder] = sorted(_entries(folder), key=_name)
            found = self._listed[folder]
        for prefix in prefixes:
            at = bisect_left(found, prefix, key=_name)
            while at < len(found) and found[at].name.startswith(prefix):
                yield found[at]
                at += 1


def list_tree(
    root: str, glob: Sequence[str], follow: bool, folders: Folders, closed: frozenset[Inode] = frozenset()
) -> FolderTree:
    """Files below `root` whose path matches `glob`, segment by segment; `closed` folders are not entered."""
    return _Walk(root, Glob(glob), follow, folders, closed).go()


class Glob:
    """A glob as a state machine: states are the segments that may come next; `**` matches any number of folders."""

    def __init__(self, segments: Sequence[str]) -> None:
        self._segments = [None if text == "**" else re.compile(fnmatch.translate(text)) for text in segments]
        self._prefixes = [re.split(r"[*?\[]", text, maxsplit=1)[0] for text in segments]
        self.start = self._closure({0})

    def _closure(self, states: set[int]) -> frozenset[int]:
        for state in sorted(states):
            while self._segments[state] is None and state + 1 < len(self._segments):
                state += 1
                states.add(state)
        return frozenset(states)

    def prefixes(self, states: frozenset[int]) -> list[str]:
        """The prefixes of names that may match, sorted; none is a prefix of another."""
        found: list[str] = []
        for prefix in sorted({self._prefixes[state] for state in states}):
            if not found or not prefix.startswith(found[-1]):
                found.append(prefix)
        return found

    def takes(self, states: frozenset[int], name: str) -> bool:
        """Whether a file of that name matches the whole glob."""
        last = len(self._segments) - 1
        segment = self._segments[last]
        return last in states and (segment is None or segment.match(name) is not None)

    def below(self, states: frozenset[int], name: str) -> frozenset[int]:
        """The states inside a folder of that name; empty if nothing below it can match."""
        found = set()
        for state in states:
            segment = self._segments[state]
            if segment is None:
                found.add(state)
            elif state + 1 < len(self._segments) and segment.match(name):
                found.add(state + 1)
        return self._closure(found)

    def matches(self, path: str) -> bool:
        """Whether a path, or a folder above it, matches the whole glob."""
        states = self.start
        for part in path.split("/"):
            if self.takes(states, part):
                return True
            states = self.below(states, part)
        return False


class _Walk:
    def __init__(self, root: str, glob: Glob, follow: bool, folders: Folders, closed: frozenset[Inode]) -> None:
        self._root = root.rstrip("/") or "/"
        self._real = os.path.realpath(root).rstrip("/") + "/"
        self._glob = glob
        self._follow = follow
        self._closed = closed
        self._folders = folders
        self._entered: set[tuple[Inode, frozenset[int]]] = set()
        self._links: list[tuple[str, bool, tuple[int, ...]]] = []
        self._tree = FolderTree()

    def go(self) -> FolderTree:
        self._enter(self._root, self._glob.start, linked=False)
        # Paths without a link come first, so that a new link never replaces a file's own name.
        while self._links:
            path, wanted, states = heapq.heappop(self._links)
            self._through(path, wanted, frozenset(states))
        return self._tree

    def _enter(self, folder: str, states: frozenset[int], linked: bool) -> None:
        stack = [(folder, states)]
        while stack:
            here, states = stack.pop()
            try:
                inode = _inode(os.stat(here))
                if inode in self._closed:
                    continue
                if (inode, states) in self._entered:
                    self._tree.skip(SECOND, here)
                    continue
                self._entered.add((inode, states))
                entries = self._folders.entries(here, self._glob.prefixes(states))
                found = [(entry, self._visit(entry, states, linked)) for entry in entries]
            except OSError as error:
                raise cannot_list(error, here) from None
            stack += [(entry.path, below) for entry, below in reversed(found) if below]

    def _visit(self, entry: os.DirEntry[str], states: frozenset[int], linked: bool) -> frozenset[int]:
        """Add a file, or return the states for a folder to enter."""
        wanted, below = self._glob.takes(states, entry.name), self._glob.below(states, entry.name)
        if entry.is_symlink():
            if wanted or below:
                heapq.heappush(self._links, (entry.path, wanted, tuple(sorted(below))))
        elif entry.is_dir(follow_symlinks=False):
            return below
        elif wanted:
            self._take(entry.path, os.lstat(entry.path), linked)  # `entry.stat` would be cached as long as the listing
        return frozenset()

    def _take(self, path: str, found: os.stat_result, linked: bool) -> None:
        if stat.S_ISREG(found.st_mode):
            self._tree.files[path] = FileEntry(found, linked)
        else:
            self._tree.skip(SPECIAL, path)

    def _through(self, path: str, wanted: bool, below: frozenset[int]) -> None:
        target = os.path.realpath(path)
        if not self._follow and not f"{target}/".startswith(self._real):
            self._tree.skip(OUTSIDE, path)
            return
        try:
            found = os.stat(path)
        except OSError as error:
            if error.errno not in (errno.ENOENT, errno.ELOOP, errno.ENOTDIR):
                raise cannot_list(error, path) from None
            self._tree.skip(BROKEN, path)
            return
        if not stat.S_ISDIR(found.st_mode):
            if wanted:
                self._take(path, found, linked=True)
        elif below and _inode(found) not in self._closed:
            if (_inode(found), below) in self._entered:
                self._tree.skip(SECOND, path)
            else:
                self._enter(path, below, linked=True)


def _inode(found: os.stat_result) -> Inode:
    return found.st_dev, found.st_ino


def _name(entry: os.DirEntry[str]) -> str:
    return entry.name


def _entries(folder: str) -> list[os.DirEntry[str]]:
    with os.scandir(folder) as entries:
        return list(entries)


def folder_files(folder: str) -> Iterator[str]:
    """Every file of a folder that a config names, by its path below it. Links are the user's own and are followed, each
    under its name; a folder is not entered from inside itself.
    """
    count = 0
    stack = [(folder, "", frozenset[Inode]())]
    while stack:
        here, name, above = stack.pop()
        try:
            inode = _inode(os.stat(here))
            if inode in above:
                continue
            entries = _entries(here)
        except OSError as error:
            raise cannot_list(error, here) from None
        for entry in entries:
            count += 1
            if count > MOST_CONFIG_FILES:
                raise UserError(
                    f"{shown(folder)} has more than {MOST_CONFIG_FILES:,} files, perhaps through links in a cycle, so "
                    "it is not a folder of lists. Name the files that you mean."
                )
            if entry.is_dir():
                stack.append((entry.path, f"{name}{entry.name}/", above | {inode}))
            elif entry.is_file():
                yield name + entry.name
            else:
                raise UserError(
                    f"{shown(entry.path)} is {_kind(entry.path)} and not a file, so it cannot be read. "
                    "Remove it from the folder."
                )


def _kind(path: str) -> str:
    try:
        return kind_of(os.stat(path).st_mode)
    except OSError:
        return "a link to nothing"


def cannot_list(error: OSError, path: str) -> UserError:
    return UserError(
        f"{shown(str(error.filename or path))} cannot be listed: {error.strerror}. Give read permission, or exclude "
        "it by naming other paths."
    )
