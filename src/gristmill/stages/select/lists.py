"""List files: one entry a line, a file or a folder of files, as sets that kernels look up.

    block_domains: bad.txt            one list
    block_domains: lists/             each file or sub-folder is a list:
        lists/adult.txt                   `adult`
        lists/spam/a.txt, spam/b.txt      `spam`
        lists/malware/domains             `malware`; `urls` beside it belongs to a field for URLs (the layout of UT1)

A list may be compressed (.gz, .bz2, .xz, .zst). Hidden files, READMEs and licenses are none. A process keeps the sets
that it has built, and builds one again when a file's size or time changes; nothing is written.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from gristmill.kernels.hash.hashset import HashSet, build, hash_digests, hash_words
from gristmill.kernels.urls.parts import hash_domain_lines, hash_url_lines
from gristmill.kernels.urls.words import hash_tokens, openings
from gristmill.places import system_of

Array = np.ndarray[Any, Any]

BLOCK_BYTES = 32 << 20
"""What is read of a list at a time: its text is never in memory as a whole."""
LONGEST_BYTES = 1 << 20
"""Of a line. The rest of a longer one is lost, or an entry by itself; it is a fault either way."""
KEPT_SETS = 32

HASHES: dict[str, Callable[[Array], tuple[Array, int]]] = {
    "domains": hash_domain_lines,
    "urls": hash_url_lines,
    "words": hash_tokens,
    "substrings": hash_words,
    "digests": hash_digests,
}
_SUFFIX = re.compile(r"(?i)(\.(txt|list|lst|csv|dat|conf|hosts))?(\.(gz|bz2|xz|zst))?$")
_NO_LIST = re.compile(r"(?i)(.*/)?(\..*|(readme|licen[sc]e|copying|changelog)(\.\w+)?)")
_UT1 = ("domains", "urls", "expressions", "very_restrictive_expression", "usage")


@dataclass(frozen=True)
class Lists:
    """The lists of one field of a config."""

    names: tuple[str, ...]
    """`field` of a single file, `field/list` of a folder."""
    entries: tuple[int, ...]
    """Entries of each list that no list before it has."""
    faults: tuple[int, ...]
    """Entries of each list that are not what the field asks for."""
    strings: HashSet
    pairs: Array
    lengths: Array
    """How words begin and how long they are, for a search inside of URLs."""


_kept: dict[tuple[str, str, str], tuple[Any, Lists]] = {}


def load(field: str, path: str, kind: str) -> Lists:
    """The lists at `path`, from memory where they are unchanged."""
    fs, root = system_of(path)
    found = _files(fs, root, kind)
    stamp = [(uri, *_stamp(info)) for _, uri, info in found]
    key = (field, path, kind)
    kept = _kept.pop(key, None)
    if kept is None or kept[0] != stamp:
        kept = (stamp, _build(fs, field, found, kind))
    _kept[key] = kept
    while len(_kept) > KEPT_SETS:
        del _kept[next(iter(_kept))]
    return kept[1]


def _stamp(info: dict[str, Any]) -> tuple[Any, ...]:
    times = [info.get(name) for name in ("mtime", "LastModified", "last_modified", "created", "ETag", "etag")]
    return (info.get("size"), *(str(time) for time in times if time is not None))


def _files(fs: Any, root: str, kind: str) -> list[tuple[str, str, dict[str, Any]]]:
    """(list, uri, info) of every file, sorted; the list of a single file has no name."""
    if not fs.isdir(root):
        return [("", root, fs.info(root))]
    listing = fs.find(root, detail=True)
    below = {uri[len(root.rstrip("/")) + 1 :]: uri for uri in listing}
    ut1 = {_folder(name) for name in below if _stem(name) in ("domains", "urls")}
    found = []
    for name, uri in sorted(below.items()):
        if _NO_LIST.fullmatch(name):
            continue
        if _folder(name) in ut1 and _stem(name) in _UT1 and _stem(name) != kind:
            continue
        top, slash, _ = name.partition("/")
        found.append((top if slash else _stem(name), uri, listing[uri]))
    return sorted(found, key=lambda entry: entry[:2])


def _folder(name: str) -> str:
    return name.rpartition("/")[0]


def _stem(name: str) -> str:
    return _SUFFIX.sub("", name.rpartition("/")[2])


def _build(fs: Any, field: str, found: list[tuple[str, str, dict[str, Any]]], kind: str) -> Lists:
    names = sorted({name for name, _, _ in found})
    faults = [0] * len(names)
    pairs, lengths = np.zeros(1 << 16, np.bool_), np.zeros(256, np.bool_)
    hashed: list[tuple[Array, int]] = []
    for name, uri, _ in found:
        label = names.index(name)
        for block in _blocks(fs, uri):
            hashes, bad = HASHES[kind](block)
            hashed.append((hashes, label))
            faults[label] += int(bad)
            if kind == "substrings":
                openings(block, pairs, lengths)
    strings, added = build(hashed)
    entries = [0] * len(names)
    for (_, label), new in zip(hashed, added, strict=True):
        entries[label] += new
    shown = tuple(f"{field}/{name}" if name else field for name in names)
    return Lists(shown, tuple(entries), tuple(faults), strings, pairs, lengths)


def _blocks(fs: Any, uri: str) -> Any:
    """The bytes of a file in blocks that end with a line."""
    rest = b""
    with fs.open(uri, "rb", compression="infer") as file:
        while block := file.read(BLOCK_BYTES):
            block = rest + block
            end = max(block.rfind(b"\n"), block.rfind(b"\r")) + 1
            # No entry is so long: of a line that goes on and on, as one in a compressed file may, the start counts.
            rest = block[end : end + LONGEST_BYTES]
            if end:
                yield np.frombuffer(block, np.uint8, end)
    if rest:
        yield np.frombuffer(rest, np.uint8)
