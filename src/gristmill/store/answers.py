"""Answers of servers outside, each stored the moment it arrives, so that no answer is paid for twice.

    answers/<scope>/<writer>.log    answers as JSON, one after the other
    answers/<scope>/<writer>.keys   an entry of 64 bytes for each: the key of its request, a checksum, where it is

Every worker appends to its own two files: first the answer, then its entry. So several workers and machines write at
the same time without a lock, and a process that is killed leaves at most an answer without an entry, which counts as
absent. The checksum is over key and answer and is compared whenever the answer is used; one that does not match counts
as absent. An entry has the tokens of all answers up to it, so the last one says what the log cost. A scope is one model
with one set of sampling settings.

An object store has no files that grow: there, answers are written in batches, each as soon as the one before it is
written, and `close` merges the batches.

If two workers send the same request at the same moment, both answers are stored. The one with the smaller checksum is
used from then on.
"""

import hashlib
import os
import time
import uuid
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import orjson

from gristmill.store.store import Store

FOLDER = "answers"
_DIGEST_BYTES = 16
_ENTRY = np.dtype(
    [
        *(("first", ">u8"), ("last", ">u8"), ("digest", f"V{_DIGEST_BYTES}")),
        *(("offset", "<u8"), ("bytes", "<u8"), ("prompt_tokens", "<u8"), ("completion_tokens", "<u8")),
    ]
)
"""Both halves of the key; and the tokens of all answers of the log up to this one."""
_TOKENS = ("prompt_tokens", "completion_tokens")
SYNC_EVERY = 256
"""Answers after which a log is written through to the disk: a power cut loses at most this many."""
MOST_FRAMES = 32_768
"""Answers that are in memory before they are merged, in an object store."""


class Usage(NamedTuple):
    """What answers cost."""

    prompt_tokens: int = 0
    completion_tokens: int = 0
    answers: int = 0

    def plus(self, other: "Usage") -> "Usage":
        return Usage(*(one + more for one, more in zip(self, other, strict=True)))


class StoredAnswer(NamedTuple):
    """An answer in the store."""

    digest: bytes
    """The checksum of request and answer."""
    body: Any
    """A JSON value."""


class _AnswerFrame(NamedTuple):
    """An answer and what it cost."""

    digest: bytes
    key: bytes
    body: bytes
    usage: Usage


class _Log:
    """The answers of a log, by key."""

    def __init__(self, store: Store, name: str) -> None:
        """`name` is that of its entries."""
        self._store, self._name = store, f"{name.removesuffix('.keys')}.log"
        data = store.read_file(name) or b""
        self.entries = np.frombuffer(data, _ENTRY, len(data) // _ENTRY.itemsize)
        self._data: bytes | None = None

    def find(self, keys: Sequence[bytes]) -> Iterator[_AnswerFrame]:
        """Every valid answer to some requests."""
        known = {*keys}
        wanted, firsts = np.unique(np.frombuffer(b"".join(keys), ">u8")[::2]), self.entries["first"]
        nearest = np.minimum(np.searchsorted(wanted, firsts), len(wanted) - 1)
        for place in np.flatnonzero(wanted[nearest] == firsts).tolist():
            frame = self.at(place)
            if frame is not None and frame.key in known:
                yield frame

    def at(self, place: int) -> _AnswerFrame | None:
        """The answer of an entry; None if it is damaged."""
        entry = self.entries[place]
        key, offset, size = entry.tobytes()[:16], int(entry["offset"]), int(entry["bytes"])
        body, digest = self._read(offset, size), bytes(entry["digest"])
        before = self.entries[place - 1] if place else np.zeros(1, _ENTRY)[0]
        prompt, completion = (max(0, int(entry[name]) - int(before[name])) for name in _TOKENS)
        frame = _AnswerFrame(digest, key, body, Usage(prompt, completion, 1))
        return frame if _digest(key, body) == digest else None

    def _read(self, offset: int, size: int) -> bytes:
        if not self._store.is_local:
            if self._data is None:
                self._data = self._store.read_file(self._name) or b""
            return self._data[offset : offset + size]
        try:
            with open(f"{self._store.root}/{self._name}", "rb") as file:
                return os.pread(file.fileno(), min(size, max(0, os.fstat(file.fileno()).st_size - offset)), offset)
        except (OSError, OverflowError):
            return b""


class AnswerLog:
    """The answers of one scope: those in the store, and those that this worker adds."""

    def __init__(self, store: Store, scope: str, is_read_only: bool = False) -> None:
        self._store = store
        self.is_read_only = is_read_only
        """Whether only stored answers may be used."""
        self._folder = f"{FOLDER}/{scope}"
        self._name = ""
        """This worker's log, without a suffix."""
        self._files: tuple[int, int] | None = None
        """Open, on a disk: the answers and their entries."""
        self._end = 0
        self._usage = Usage()
        self._frames: list[_AnswerFrame] = []
        """What was added, in an object store."""
        self._flushed = 0
        self._batches: list[str] = []
        self._others = Usage()
        self._others_read = 0.0
        self.is_immediate = store.is_local
        """Whether `add` stores; otherwise `flush` does."""

    def find(self, keys: Sequence[bytes]) -> dict[bytes, StoredAnswer]:
        """The stored answers for some requests."""
        found = self._find(keys)
        return {key: StoredAnswer(frame.digest, orjson.loads(frame.body)) for key, frame in found.items()}

    def find_costs(self, keys: Sequence[bytes]) -> dict[bytes, Usage]:
        """What the stored answers for some requests cost."""
        return {key: frame.usage for key, frame in self._find(keys).items()}

    def _find(self, keys: Sequence[bytes]) -> dict[bytes, _AnswerFrame]:
        """The frame with the smallest checksum for each request that has one, in the order of the requests."""
        if len(self._frames) >= MOST_FRAMES:
            self.close()
        self.flush()
        found: dict[bytes, _AnswerFrame] = {}
        for name, _ in self._store.list_files(self._folder) if keys else ():
            if name.endswith(".keys"):
                for frame in _Log(self._store, name).find(keys):
                    found[frame.key] = min(frame, found.get(frame.key, frame))
        return {key: found[key] for key in keys if key in found}

    def add(self, key: bytes, body: object, prompt_tokens: int, completion_tokens: int) -> StoredAnswer:
        """Store an answer, a JSON value; with `is_immediate` it is stored now, else with the next `flush`."""
        packed = orjson.dumps(body)
        frame = _AnswerFrame(_digest(key, packed), key, packed, Usage(prompt_tokens, completion_tokens, 1))
        if self.is_immediate:
            self._append(frame)
        else:
            self._frames.append(frame)
            self._usage = self._usage.plus(frame.usage)
        return StoredAnswer(frame.digest, body)

    def _append(self, frame: _AnswerFrame) -> None:
        """Append an answer to this worker's log. What a full disk cuts short is overwritten by the next answer."""
        usage = self._usage.plus(frame.usage)
        try:
            if self._files is None:
                self._name = self._new_name()
                path = f"{self._store.root}/{self._name}"
                os.makedirs(os.path.dirname(path), exist_ok=True)
                flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
                self._files = os.open(f"{path}.log", flags, 0o666), os.open(f"{path}.keys", flags, 0o666)
                self._end = 0
            log, keys = self._files
            _write(log, frame.body, self._end)
            _write(keys, _pack(frame, self._end, usage), self._usage.answers * _ENTRY.itemsize)
            self._usage, self._end = usage, self._end + len(frame.body)
            if usage.answers % SYNC_EVERY == 0:
                os.fdatasync(log)
                os.fdatasync(keys)
        except OSError as error:
            raise self._store.unwritable_by(error) from None

    def _new_name(self) -> str:
        return f"{self._folder}/{uuid.uuid4().hex}"

    def flush(self) -> None:
        """Store what was added, in an object store."""
        if frames := self._frames[self._flushed :]:
            self._flushed = len(self._frames)
            self._batches.append(self._new_name())
            _write_log(self._store, self._batches[-1], frames)

    def close(self) -> None:
        """Complete the log: write it through to the disk, or merge its batches."""
        self.flush()
        if self._batches[1:]:
            _write_log(self._store, self._new_name(), self._frames)
            for name in self._batches:
                self._store.remove(f"{name}.keys")
                self._store.remove(f"{name}.log")
        if self._files is not None:
            files, self._files = self._files, None
            try:
                for file in files:
                    os.fdatasync(file)
            except OSError as error:
                raise self._store.unwritable_by(error) from None
            finally:
                for file in files:
                    os.close(file)
        self._frames, self._flushed, self._batches = [], 0, []
        self._usage, self._name = Usage(), ""
        self._others_read = 0.0  # the log is now one of the others

    def usage(self, every_s: float = 2.0) -> Usage:
        """The cost of all answers of the scope; those of other workers are read again after `every_s` seconds."""
        now = time.monotonic()
        if not self._others_read or now - self._others_read >= every_s:
            self._others = usage_in(self._store, self._folder, (self._name, *self._batches))
            self._others_read = now
        return self._usage.plus(self._others)


def usage_in(store: Store, folder: str = FOLDER, but: Iterable[str] = ()) -> Usage:
    """The cost of all answers below a folder: the last entry of a log has the sum of its tokens."""
    total = Usage()
    for name, size in store.list_files(folder):
        answers = size // _ENTRY.itemsize
        if name.endswith(".keys") and answers and name.removesuffix(".keys") not in but:
            start = (answers - 1) * _ENTRY.itemsize
            if store.is_local:
                with open(f"{store.root}/{name}", "rb") as file:
                    data = os.pread(file.fileno(), _ENTRY.itemsize, start)
            else:
                data = (store.read_file(name) or b"")[start : start + _ENTRY.itemsize]
            (entry,) = np.frombuffer(data, _ENTRY)
            total = total.plus(Usage(int(entry["prompt_tokens"]), int(entry["completion_tokens"]), answers))
    return total


def check_answers(store: Store) -> Iterator[tuple[str, str]]:
    """The name and fault of every damaged log. An answer without an entry, or half an entry, is no damage: the writer
    was killed, or is still writing.
    """
    for name, _ in store.list_files(FOLDER):
        if name.endswith(".keys"):
            log = _Log(store, name)
            lost = sum(log.at(place) is None for place in range(len(log.entries)))
            if lost:
                yield f"{name.removesuffix('.keys')}.log", f"has lost {lost:,} of {len(log.entries):,} answers"


def drop_damaged(store: Store, name: str) -> None:
    """Replace a damaged log by its valid answers."""
    stem = name.removesuffix(".log")
    log = _Log(store, f"{stem}.keys")
    _write_log(store, stem, [frame for place in range(len(log.entries)) if (frame := log.at(place)) is not None])


def _write_log(store: Store, name: str, frames: Sequence[_AnswerFrame]) -> None:
    """Write a whole log: the answers before their entries."""
    bodies, entries, usage, end = [], [], Usage(), 0
    for frame in frames:
        usage = usage.plus(frame.usage)
        bodies.append(frame.body)
        entries.append(_pack(frame, end, usage))
        end += len(frame.body)
    store.write_file(f"{name}.log", b"".join(bodies))
    store.write_file(f"{name}.keys", b"".join(entries))


def _pack(frame: _AnswerFrame, offset: int, usage: Usage) -> bytes:
    numbers = np.array([offset, len(frame.body), usage.prompt_tokens, usage.completion_tokens], "<u8")
    return frame.key + frame.digest + numbers.tobytes()


def _write(file: int, data: bytes, offset: int) -> None:
    view = memoryview(data)
    while view:
        written = os.pwrite(file, view, offset)
        view, offset = view[written:], offset + written


def _digest(key: bytes, body: bytes) -> bytes:
    return hashlib.blake2b(key + body, digest_size=_DIGEST_BYTES).digest()
