"""List files: one entry per line, in a file or a folder of files, as sets for the kernels.

    block_domains: bad.txt            one list
    block_domains: lists/             each file or sub-folder is a list:
        lists/adult.txt                   `adult`
        lists/spam/a.txt, spam/b.txt      `spam`
        lists/malware/domains             `malware`; `urls` next to it belongs to a field for URLs (the layout of UT1)

A list may be compressed (.gz, .bz2, .xz, .zst). Hidden files, READMEs and licenses are not lists. A process caches the
sets that it has built, and rebuilds one if a file's size or time changes; nothing is written.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa

from gristmill.counted import counted
from gristmill.kernels.hash.hashset import HashSet, build, hash_all_digests, hash_digests, hash_words
from gristmill.kernels.urls.parts import hash_domain_lines, hash_url_lines
from gristmill.kernels.urls.words import hash_tokens, openings
from gristmill.places import system_of
from gristmill.stages.shared.url_forms import plain_urls
from gristmill.warned import Warnings

Array = np.ndarray[Any, Any]

BLOCK_BYTES = 8 << 20
"""How much of a list is read at a time: its text is never in memory as a whole."""
LONGEST_BYTES = 1 << 20
"""The longest line. The rest of a longer one is lost, or counts as another entry; it is a fault either way."""
KEPT_SETS = 32

HASHES: dict[str, Callable[[Array], tuple[Array, int]]] = {
    "domains": hash_domain_lines,
    "urls": hash_url_lines,
    "words": hash_tokens,
    "substrings": hash_words,
    "digests": hash_digests,
    "hashes": hash_all_digests,
}
_SUFFIX = re.compile(r"(?i)(\.(txt|list|lst|csv|dat|conf|hosts))?(\.(gz|bz2|xz|zst))?$")
_NO_LIST = re.compile(r"(?i)(?:(?!\.)[^/]*+/)*+(\..*|(readme|licen[sc]e|copying|changelog)(\.\w+)?)")
_BETWEEN = re.compile(r"([\x00-\x20]+[*.]*)")
"""Separators of words, with the `*.` before a domain."""
_UT1 = ("domains", "urls", "expressions", "very_restrictive_expression", "usage")


@dataclass(frozen=True)
class Lists:
    """The lists of one field of a config."""

    names: tuple[str, ...]
    """`field` for a single file, `field/list` for a folder."""
    entries: tuple[int, ...]
    """Entries of each list that no earlier list has."""
    faults: tuple[int, ...]
    """Entries of each list that are not valid for the field."""
    strings: HashSet
    pairs: Array
    lengths: Array
    """The first bytes of words, for a search within URLs, and the lengths of words or digests."""


Built = TypeVar("Built")
_kept: dict[tuple[Any, ...], tuple[Any, Any]] = {}


def load(field: str, path: str, kind: str, only: tuple[str, ...] | None = None) -> Lists:
    """The lists at `path`, or those with these names, from memory if they are unchanged."""
    fs, root = system_of(path)
    found = [one for one in files(fs, root, kind) if only is None or one[0] in only]
    return keep((field, path, kind, only), stamp_of(found), lambda: _build(fs, field, found, kind))


def keep(key: tuple[Any, ...], stamp: object, make: Callable[[], Built]) -> Built:
    """The cached value of this key; it is built again if the stamp of its files has changed."""
    kept = _kept.pop(key, None)
    if kept is None or kept[0] != stamp:
        kept = (stamp, make())
    _kept[key] = kept
    while len(_kept) > KEPT_SETS:
        del _kept[next(iter(_kept))]
    built: Built = kept[1]
    return built


def stamp_of(found: list[tuple[str, str, dict[str, Any]]]) -> list[tuple[Any, ...]]:
    """A stamp that changes when a file does."""
    return [(uri, *_stamp(info)) for _, uri, info in found]


def _stamp(info: dict[str, Any]) -> tuple[Any, ...]:
    times = [info.get(name) for name in ("mtime", "LastModified", "last_modified", "created", "ETag", "etag")]
    return (info.get("size"), *(str(time) for time in times if time is not None))


def files(fs: Any, root: str, kind: str) -> list[tuple[str, str, dict[str, Any]]]:
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


def _build(fs: object, field: str, found: list[tuple[str, str, dict[str, Any]]], kind: str) -> Lists:
    names = sorted({name for name, _, _ in found})
    faults = [0] * len(names)
    pairs, lengths = np.zeros(1 << 16, np.bool_), np.zeros(256, np.bool_)
    hashed: list[tuple[Array, int]] = []
    for name, uri, _ in found:
        label = names.index(name)
        for block in blocks(fs, uri):
            hashes, bad = HASHES[kind](_plain(block) if kind in ("domains", "urls") else block)
            hashed.append((hashes, label))
            faults[label] += int(bad)
            if kind in ("substrings", "hashes"):
                openings(block, pairs, lengths)
    strings, added = build(hashed)
    entries = [0] * len(names)
    for (_, label), new in zip(hashed, added, strict=True):
        entries[label] += new
    shown = tuple(f"{field}/{name}" if name else field for name in names)
    return Lists(shown, tuple(entries), tuple(faults), strings, pairs, lengths)


def _plain(block: Array) -> Array:
    """The same lines with hosts in their IDN form, as `plain_urls` returns those of documents."""
    if block.max(initial=0) < 0x80:
        return block
    words = _BETWEEN.split("\n" + block.tobytes().decode(errors="replace"))
    words[::2] = plain_urls(pa.array(words[::2], pa.string())).to_pylist()
    return np.frombuffer("".join(words).encode(), np.uint8)


def blocks(fs: Any, uri: str) -> Any:
    """The bytes of a file in blocks that end with a line."""
    rest = b""
    with fs.open(uri, "rb", compression="infer") as file:
        while block := file.read(BLOCK_BYTES):
            block = rest + block
            end = max(block.rfind(b"\n"), block.rfind(b"\r")) + 1
            # No entry is this long. Only the start of an endless line, as in some compressed files, counts.
            rest = block[end : end + LONGEST_BYTES]
            if end:
                yield np.frombuffer(block, np.uint8, end)
    if rest:
        yield np.frombuffer(rest, np.uint8)


def list_faults(loaded: Mapping[str, Lists]) -> dict[str, Any]:
    """For the metrics of a batch, by field: lists without entries, and invalid entries."""
    empty = {n: 1 for one in loaded.values() for n, size in zip(one.names, one.entries, strict=True) if not size}
    empty |= {field: 1 for field, one in loaded.items() if not one.names}
    faults = {n: bad for one in loaded.values() for n, bad in zip(one.names, one.faults, strict=True) if bad}
    return {"batches": 1, "empty_lists": empty, "bad_entries": faults}


def list_warnings(found: Mapping[str, Any], why: Callable[[str], str]) -> list[str]:
    """Warnings from the metrics of all batches; `why` says what is wrong with the entries of a list."""
    messages = Warnings([f"{name} is an empty list" for name in found.get("empty_lists", {})])
    for name, bad in found.get("bad_entries", {}).items():
        messages.add(
            "list_entries",
            f"{name} has {counted(bad // found['batches'], 'entry', 'entries')} without effect: {why(name)}",
        )
    return messages
