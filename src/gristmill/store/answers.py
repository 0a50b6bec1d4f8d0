"""Answers of servers outside, each stored the moment it arrives, so that no answer is paid for twice.

    answers/<scope>/<writer>.log    frames in the order of arrival: the key of the request, and the answer
    answers/<scope>/<writer>.keys   the sorted keys with the offsets of their frames; written when the log is complete

Every worker appends to its own log. A frame has a checksum over key and answer. It is compared whenever the answer is
used, and a frame that does not match counts as absent. A process that is killed leaves a log whose last frame may be
cut short; the others are valid. The head of a log has the tokens that its answers cost. A scope is one model with one
set of sampling settings, so a look-up opens the keys of that scope only.

An object store has no files that grow: there, answers are written in batches, each as soon as the one before it is
written, and `close` merges the batches.

If two workers send the same request at the same moment, both answers are stored. The one with the smaller checksum is
used from then on.
"""

import hashlib
import mmap
import os
import struct
import time
from array import array
from collections.abc import Iterable, Iterator, Sequence
from itertools import count
from typing import Any, NamedTuple

import numpy as np
import orjson

from gristmill.processes import name_of_self, runs
from gristmill.store.store import Store

FOLDER = "answers"
_HEAD = struct.Struct("<8sQQQ")
"""Magic, prompt tokens, completion tokens, answers."""
_LOG = b"answers1"
_FRAME = struct.Struct("<4sIII16s16s")
"""Mark, bytes of the answer, prompt tokens, completion tokens, key, checksum."""
_MARK = b"\xf1\x9a\xc3\x17"
_ENTRY = np.dtype([("first", ">u8"), ("last", ">u8"), ("at", "<u8")])
_DIGEST_BYTES = 16
SYNC_EVERY = 256
"""Answers after which a log is written through to the disk: a power cut loses at most this many."""
MOST_OPEN = 32_768
"""Answers of an open log, whose offsets are in memory (about 200 bytes each); then the next look-up completes it."""
LEFT_S = 3600
"""Seconds without a write after which a log of another machine counts as complete."""
_serial = count()


class Usage(NamedTuple):
    """What answers cost."""

    prompt_tokens: int = 0
    completion_tokens: int = 0
    answers: int = 0


class StoredAnswer(NamedTuple):
    """An answer in the store."""

    digest: bytes
    """The checksum of request and answer."""
    body: Any
    """A JSON value."""


class _AnswerFrame(NamedTuple):
    """An answer in a log."""

    key: bytes
    digest: bytes
    body: bytes
    prompt_tokens: int
    completion_tokens: int


class _Log:
    """The frames of one log, by key."""

    def __init__(self, data: object, keys: bytes | None) -> None:
        self.data = data
        self.index = _read_keys(keys) if keys is not None else None
        self.is_indexed = self.index is not None
        if self.index is None:
            self.index = _index_of(data)
        elif len(more := _index_of(data, int(self.index["at"].max(initial=0)))) > 1:
            # The keys were written by a process to which the writer seemed dead: their clocks may differ.
            self.index = np.unique(np.concatenate([self.index, more]))

    def find(self, key: bytes, at: int) -> Iterator[_AnswerFrame]:
        """Every valid frame of a key; `at` is its position among the sorted keys."""
        index, first = self.index, int.from_bytes(key[:8], "big")
        while index is not None and at < len(index) and index["first"][at] == first:
            frame = _frame_at(self.data, int(index["at"][at]))
            if frame is not None and frame.key == key:
                yield frame
            at += 1


class AnswerLog:
    """The answers of one scope: those in the store, and those that this worker adds."""

    def __init__(self, store: Store, scope: str, is_read_only: bool = False) -> None:
        self._store = store
        self.is_read_only = is_read_only
        """Whether only stored answers may be used."""
        self._folder = f"{FOLDER}/{scope}"
        self._own: dict[bytes, int | bytes] = {}
        """By key: the offset of a frame in this worker's log or, in an object store, the frame."""
        self._name = ""
        self._file: int | None = None
        self._end = 0
        self._pending: list[bytes] = []
        self._batches: list[str] = []
        self._usage = Usage()
        self._others = Usage()
        self._others_read = 0.0
        self.is_immediate = store.is_local
        """Whether `add` stores; otherwise `flush` does."""

    # Look-up

    def find(self, keys: Sequence[bytes]) -> dict[bytes, StoredAnswer]:
        """The stored answers for some requests."""
        if len(self._own) >= MOST_OPEN:
            self.close()
        found = self._find_frames(keys)
        return {key: StoredAnswer(frame.digest, orjson.loads(frame.body)) for key, frame in found.items()}

    def find_costs(self, keys: Sequence[bytes]) -> dict[bytes, Usage]:
        """What the stored answers for some requests cost."""
        return {key: Usage(*frame[3:], 1) for key, frame in self._find_frames(keys).items()}

    def _find_frames(self, keys: Sequence[bytes]) -> dict[bytes, _AnswerFrame]:
        """The frame with the smallest checksum for each request that has one."""
        found: dict[bytes, _AnswerFrame] = {}
        firsts = np.frombuffer(b"".join(keys), ">u8")[::2].astype(np.uint64)
        for log in self._logs():
            index = log.index
            if index is None or not len(index):
                continue
            places = np.searchsorted(index["first"], firsts)
            there = np.flatnonzero(index["first"][np.minimum(places, len(index) - 1)] == firsts)
            for number in there.tolist():
                for one in log.find(keys[number], int(places[number])):
                    found[keys[number]] = min(one, found.get(keys[number], one))
        for key in keys:
            if key in self._own and (own := self._own_frame(key)) is not None:
                found[key] = min(own, found.get(key, own))
        return found

    def _logs(self) -> Iterator[_Log]:
        """The logs of the scope, except this worker's own; one at a time, so that memory does not grow with them."""
        files = dict(self._store.list_files(self._folder))
        for name in files:
            if not name.endswith(".log") or name == self._name or name in self._batches:
                continue
            keys = f"{name.removesuffix('.log')}.keys"
            log = _Log(_open_log(self._store, name), self._store.read_file(keys) if keys in files else None)
            if not log.is_indexed and not self.is_read_only and self._is_left(name):
                self._store.write_file(keys, _pack_keys(log.index))
            yield log

    def _is_left(self, name: str) -> bool:
        """Whether nobody writes to a log any more."""
        alive = runs(name.rpartition("/")[2].rpartition(".")[0].rpartition("-")[0])
        if alive is not None:
            return not alive
        return (self._store.age_seconds(name) or 0) > LEFT_S

    def _own_frame(self, key: bytes) -> _AnswerFrame | None:
        kept = self._own[key]
        if isinstance(kept, int):
            assert self._file is not None
            size = _FRAME.unpack(os.pread(self._file, _FRAME.size, kept))[1]
            kept = os.pread(self._file, _FRAME.size + size, kept)
        return _frame_at(kept, 0)

    # Additions

    def add(self, key: bytes, body: object, prompt_tokens: int, completion_tokens: int) -> StoredAnswer:
        """Store an answer, a JSON value; with `is_immediate` it is stored now, else with the next `flush`."""
        packed = orjson.dumps(body)
        frame, digest = _pack(key, packed, prompt_tokens, completion_tokens)
        before = self._usage
        usage = Usage(before[0] + prompt_tokens, before[1] + completion_tokens, before[2] + 1)
        if self.is_immediate:
            self._own[key] = self._append(frame, usage)
        else:
            self._usage = usage
            self._pending.append(frame)
            self._own[key] = frame
        return StoredAnswer(digest, body)

    def _append(self, frame: bytes, usage: Usage) -> int:
        """Append a frame to this worker's log, whose answers then cost `usage`; returns its offset."""
        try:
            if self._file is None:
                self._name = self._new_name()
                path = f"{self._store.root}/{self._name}"
                os.makedirs(os.path.dirname(path), exist_ok=True)
                self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
                os.pwrite(self._file, _HEAD.pack(_LOG, 0, 0, 0), 0)
                self._end = _HEAD.size
            at, end = self._end, self._end + len(frame)
            view = memoryview(frame)
            while view:
                view = view[os.pwrite(self._file, view, end - len(view)) :]
            os.pwrite(self._file, _HEAD.pack(_LOG, *usage), 0)
            self._usage, self._end = usage, end  # a frame that was cut short by a full disk is overwritten by the next
            if usage.answers % SYNC_EVERY == 0:
                os.fdatasync(self._file)
        except OSError as error:
            raise self._store.unwritable_by(error) from None
        return at

    def _new_name(self) -> str:
        return f"{self._folder}/{name_of_self()}-{os.urandom(4).hex()}{next(_serial)}.log"

    def flush(self) -> None:
        """Store what was added, in an object store."""
        if frames := self._pending:
            self._pending = []
            name = self._new_name()
            self._batches.append(name)
            self._store.write_file(name, _HEAD.pack(_LOG, *_usage_of(frames)) + b"".join(frames))

    def close(self) -> None:
        """Complete the log: write its keys."""
        self.flush()
        if self._batches:
            data = [self._store.read_file(name) or b"" for name in self._batches]
            whole = _HEAD.pack(_LOG, *self._usage) + b"".join(one[_HEAD.size :] for one in data)
            self._name = self._new_name()
            self._store.write_file(self._name, whole)
            self._complete(whole)
            for name in self._batches:
                self._store.remove(name)
            self._batches = []
        elif self._file is not None:
            file, self._file = self._file, None
            try:
                os.fdatasync(file)
            except OSError as error:
                raise self._store.unwritable_by(error) from None
            finally:
                os.close(file)
            self._complete(_open_log(self._store, self._name))
        self._own.clear()
        self._usage, self._name = Usage(), ""
        self._others_read = 0.0  # the log is now one of the others

    def _complete(self, data: object) -> None:
        self._store.write_file(f"{self._name.removesuffix('.log')}.keys", _pack_keys(_index_of(data)))

    # Costs

    def usage(self, every_s: float = 2.0) -> Usage:
        """The cost of all answers of the scope; those of other workers are read again after `every_s` seconds."""
        now = time.monotonic()
        if not self._others_read or now - self._others_read >= every_s:
            self._others, self._others_read = self._read_usage(), now
        return Usage(*(own + other for own, other in zip(self._usage, self._others, strict=True)))

    def _read_usage(self) -> Usage:
        return usage_in(self._store, self._folder, (self._name, *self._batches))


def usage_in(store: Store, folder: str = FOLDER, but: Iterable[str] = ()) -> Usage:
    """The cost of all answers below a folder."""
    total = Usage()
    for name, size in store.list_files(folder):
        if name.endswith(".log") and name not in but and size >= _HEAD.size:
            usage = _answers_in(_read_head(store, name)) or Usage()
            total = Usage(*(one + more for one, more in zip(total, usage, strict=True)))
    return total


def check_answers(store: Store) -> Iterator[tuple[str, str]]:
    """The name and fault of every damaged file of answers. A last frame that is cut short is no damage: its writer was
    killed, or is still writing.
    """
    for name, _ in store.list_files(FOLDER):
        if name.endswith(".keys") and _read_keys(store.read_file(name) or b"") is None:
            yield name, "is damaged"
        elif name.endswith(".log"):
            stated = _answers_in(_read_head(store, name))  # before its frames, since it may grow
            data = _open_log(store, name)
            valid, end, is_whole = 0, _HEAD.size, True
            for at, frame in _frames(data):
                is_whole &= at == end
                valid, end = valid + 1, at + _FRAME.size + len(frame.body)
            if stated is None:
                yield name, "has a damaged head"
            elif valid < stated.answers:
                yield name, f"has lost {stated.answers - valid:,} of {stated.answers:,} answers"
            elif not is_whole:
                yield name, "has damaged bytes between its answers"


def drop_damaged(store: Store, name: str) -> None:
    """Replace a damaged log by its valid frames, and remove damaged keys, which are made again."""
    keys = f"{name.rpartition('.')[0]}.keys"
    if name.endswith(".log"):
        data = _open_log(store, name)
        frames = [bytes(data[at : at + _FRAME.size + len(frame.body)]) for at, frame in _frames(data)]
        store.write_file(name, _HEAD.pack(_LOG, *_usage_of(frames)) + b"".join(frames))
    if store.read_file(keys) is not None:
        store.remove(keys)


def _open_log(store: Store, name: str) -> Any:
    """The bytes of a log; a local one is mapped, not copied."""
    if not store.is_local:
        return store.read_file(name) or b""
    with open(f"{store.root}/{name}", "rb") as file:
        return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) if os.fstat(file.fileno()).st_size else b""


def _read_head(store: Store, name: str) -> bytes:
    if not store.is_local:
        return (store.read_file(name) or b"")[: _HEAD.size]
    with open(f"{store.root}/{name}", "rb") as file:
        return file.read(_HEAD.size)


def _answers_in(head: bytes) -> Usage | None:
    """The cost of the answers of a log; None if its head is damaged."""
    return Usage(*_HEAD.unpack(head)[1:]) if len(head) == _HEAD.size and head.startswith(_LOG) else None


def _pack(key: bytes, body: bytes, prompt_tokens: int, completion_tokens: int) -> tuple[bytes, bytes]:
    digest = _digest(key, body)
    return _FRAME.pack(_MARK, len(body), prompt_tokens, completion_tokens, key, digest) + body, digest


def _digest(key: bytes, body: bytes) -> bytes:
    return hashlib.blake2b(key + body, digest_size=_DIGEST_BYTES).digest()


def _usage_of(frames: Iterable[bytes]) -> Usage:
    costs = [_FRAME.unpack_from(frame)[2:4] for frame in frames]
    return Usage(sum(cost[0] for cost in costs), sum(cost[1] for cost in costs), len(costs))


def _frame_at(data: Any, at: int) -> _AnswerFrame | None:
    """The frame at an offset; None if there is no valid frame."""
    if at < 0 or at + _FRAME.size > len(data):
        return None
    mark, size, prompt_tokens, completion_tokens, key, digest = _FRAME.unpack_from(data, at)
    if mark != _MARK or at + _FRAME.size + size > len(data):
        return None
    body = bytes(data[at + _FRAME.size : at + _FRAME.size + size])
    return _AnswerFrame(key, digest, body, prompt_tokens, completion_tokens) if _digest(key, body) == digest else None


def _frames(data: Any, at: int = _HEAD.size) -> Iterator[tuple[int, _AnswerFrame]]:
    """The valid frames of a log, from an offset on. After damaged bytes, the next mark is searched for."""
    while at + _FRAME.size <= len(data):
        frame = _frame_at(data, at)
        if frame is not None:
            yield at, frame
            at += _FRAME.size + len(frame.body)
        elif (at := data.find(_MARK, at + 1)) < 0:
            return


def _index_of(data: object, start: int = 0) -> Any:
    keys, places = bytearray(), array("Q")
    for at, frame in _frames(data, max(start, _HEAD.size)):
        keys += frame.key
        places.append(at)
    found = np.empty(len(places), _ENTRY)
    halves = np.frombuffer(keys, ">u8")
    found["first"], found["last"], found["at"] = halves[::2], halves[1::2], places
    return np.sort(found, order=("first", "last", "at"))


def _pack_keys(index: Any) -> bytes:
    data: bytes = index.tobytes()
    return data + hashlib.blake2b(data, digest_size=_DIGEST_BYTES).digest()


def _read_keys(data: bytes) -> Any:
    """The sorted keys; None if the file is damaged."""
    entries, digest = data[:-_DIGEST_BYTES], data[-_DIGEST_BYTES:]
    if len(entries) % _ENTRY.itemsize or hashlib.blake2b(entries, digest_size=_DIGEST_BYTES).digest() != digest:
        return None
    return np.frombuffer(entries, _ENTRY)
