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
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa

from gristmill.counted import counted
from gristmill.kernels.hash.hashset import HashSet, build, hash_strings, labels_of
from gristmill.places import system_of
from gristmill.stages.buffers import bytes_of
from gristmill.stages.shared.urls import UrlForm, domains_of, normal_form, parse
from gristmill.warned import Warnings

Array = np.ndarray[Any, Any]

BLOCK_BYTES = 8 << 20
"""How much of a list is read at a time: its text is never in memory as a whole."""
LONGEST_BYTES = 1 << 20
"""The longest line. The rest of a longer one is lost, or counts as another entry; it is a fault either way."""
KEPT_SETS = 32

_PLAIN_HOST = re.compile(r"(?:[a-z0-9_-]+\.)+[a-z][a-z0-9-]*")
_WORD = re.compile(r"[a-z0-9\x80-\U0010ffff]+")
_SUFFIX = re.compile(r"(?i)(\.(txt|list|lst|csv|dat|conf|hosts))?(\.(gz|bz2|xz|zst))?$")
_NO_LIST = re.compile(r"(?i)(?:(?!\.)[^/]*+/)*+(\..*|(readme|licen[sc]e|copying|changelog)(\.\w+)?)")
_COMMENT = re.compile(r"(?m)(?:^|(?<=[\x00-\x20]))#.*")
_WHITE = "".join(map(chr, range(33)))
_UT1 = ("domains", "urls", "expressions", "very_restrictive_expression", "usage")


def _domain(entry: str) -> str | None:
    """`.example.com`, `*.example.com` and `http://example.com/` are `example.com`; of a line of several words the last
    one counts, as in hosts files (`0.0.0.0 example.com`). An entry with a path would block a whole site for one page.
    """
    word = entry.rpartition("\t")[2].rpartition(" ")[2]
    if _PLAIN_HOST.fullmatch(word):
        return word
    url = parse(word.replace("*.", "", 1).lstrip("."))
    return url.host if url.host and not url.query and not url.path.strip("/") else None


def _url(entry: str) -> str | None:
    return normal_form(entry, _FORM) if parse(entry).host else None


_FORM = UrlForm()


def _word(entry: str) -> str | None:
    return entry.lower() if _WORD.fullmatch(entry.lower()) else None


def _digest(entry: str, digits: tuple[int, ...] = (32, 64)) -> bytes | None:
    try:
        return bytes.fromhex(entry) if len(entry) in digits else None
    except ValueError:
        return None


def _any_digest(entry: str) -> bytes | None:
    """An MD5, a SHA-1 or a SHA-256."""
    return _digest(entry, (32, 40, 64))


KINDS: dict[str, Callable[[str], Any]] = {
    "domains": _domain,
    "urls": _url,
    "words": _word,
    "substrings": str.lower,
    "digests": _digest,
    "hashes": _any_digest,
}
"""For each kind of list, what an entry means; None if it is not valid."""
_TYPES = {"domains": pa.string(), "urls": pa.string(), "digests": pa.binary(), "hashes": pa.binary()}


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
    words: Mapping[str, int]
    """The list of each word or substring."""
    sizes: frozenset[int]
    """The lengths of entries."""
    heads: frozenset[str]
    """The first characters of all words, as many as the shortest has."""

    def labels(self, values: pa.Array) -> Array:
        """The number of the list of each string, or -1."""
        return labels_of(self.strings, hash_strings(*bytes_of(values)))

    def domains(self, hosts: Sequence[str]) -> dict[str, tuple[int, str]]:
        """For each host that is on a list, or below a domain that is, the number of the list and the domain. Of several
        domains the shortest one counts: it makes the others redundant.
        """
        pairs = [(host, domain) for host in dict.fromkeys(hosts) for domain in domains_of(host)]
        labels = self.labels(pa.array([domain for _, domain in pairs], pa.string())).tolist()
        listed: dict[str, tuple[int, str]] = {}
        for (host, domain), label in zip(pairs, labels, strict=True):
            if label >= 0:
                listed.setdefault(host, (label, domain))
        return listed

    def words_in(self, text: str) -> list[str]:
        """The different words of the lists in a text, in their order."""
        return list(dict.fromkeys(word for word in _WORD.findall(text) if word in self.words))

    def substrings_in(self, text: str) -> list[str]:
        """The first entry that a text contains, if it contains any; of several at one place, the shortest."""
        sizes = sorted(self.sizes)
        for start in range(len(text) if sizes else 0):
            if text[start : start + sizes[0]] in self.heads:
                for size in sizes:
                    if start + size <= len(text) and text[start : start + size] in self.words:
                        return [text[start : start + size]]
        return []


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
    faults, entries = [0] * len(names), [0] * len(names)
    hashed: list[tuple[Array, int]] = []
    words: dict[str, int] = {}
    sizes: set[int] = set()
    for name, uri, _ in found:
        label = names.index(name)
        for block in blocks(fs, uri):
            values = list(map(KINDS[kind], entries_of(block)))
            valid = [value for value in values if value is not None]
            faults[label] += len(values) - len(valid)
            sizes.update(map(len, valid))
            if kind in ("words", "substrings"):
                words = dict.fromkeys(valid, label) | words
            else:
                hashed.append((hash_strings(*bytes_of(pa.array(valid, _TYPES[kind]))), label))
    strings, added = build(hashed)
    for label, new in [*zip((label for _, label in hashed), added, strict=True), *Counter(words.values()).items()]:
        entries[label] += new
    shown = tuple(f"{field}/{name}" if name else field for name in names)
    heads = frozenset(word[: min(sizes)] for word in words)
    return Lists(shown, tuple(entries), tuple(faults), strings, words, frozenset(sizes), heads)


def entries_of(block: Array) -> Iterator[str]:
    """The entries of lines that end with LF, CR or both. `#` begins a comment at the start of a line or after a space;
    elsewhere it is the fragment of a URL.
    """
    text = block.tobytes().decode("utf-8", "replace").replace("\r", "\n").removeprefix("\ufeff")
    text = _COMMENT.sub("", text) if "#" in text else text
    return (entry for line in text.split("\n") if (entry := line.strip(_WHITE)))


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
