"""suite.lock: which items a suite had when it was pinned, and which were added later.

Items of one generation are scanned for together. If a suite grows by ten items, these are a new generation, so that
documents that were already scanned for the others are scanned only for these ten.
"""

import os
import re
from collections.abc import Collection, Sequence
from typing import NamedTuple

import orjson

from gristmill.errors import UserError

NAME = "suite.lock"
MOST_BYTES = 512 << 20
_DIGEST = re.compile("[0-9a-f]{32}")


class Lock(NamedTuple):
    """The state of a suite when it was pinned."""

    suite: str
    version: str
    hash: str
    generations: tuple[tuple[str, ...], ...]
    """The sorted item digests of each generation, the oldest generation first."""


def read_lock(folder: str) -> Lock | None:
    """Read the lock in a folder; None if there is no lock."""
    path = os.path.join(folder, NAME)
    if os.path.lexists(path) and not os.path.isfile(path):
        raise UserError(f"{path}: not a regular file, so the lock cannot be read. Remove it.")
    try:
        with open(path, "rb") as file:
            data = file.read(MOST_BYTES + 1)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise UserError(f"{path}: the lock cannot be read: {error.strerror}. Make it readable.") from None
    try:
        held = orjson.loads(data if len(data) <= MOST_BYTES else b"")
        lock = Lock(**{name: held[name] for name in Lock._fields})
        generations = tuple(tuple(digests) for digests in lock.generations)
        digests = [digest for generation in generations for digest in generation]
        texts = [lock.suite, lock.version, lock.hash, *digests]
        is_whole = all(isinstance(text, str) for text in texts) and all(map(_DIGEST.fullmatch, digests))
        if is_whole and len(set(digests)) == len(digests):
            return lock._replace(generations=generations)
    except (orjson.JSONDecodeError, KeyError, TypeError):
        pass
    raise UserError(
        f"{path}: the lock is damaged, so the new items of the suite are unknown. Restore the file, or delete it and "
        "run gristmill suite pin again; the next run then scans for the whole suite."
    )


def has_lock(folder: str) -> bool:
    """Whether the suite in a folder was ever pinned. Only then can it have new items."""
    return os.path.exists(os.path.join(folder, NAME))


def generations_of(digests: Sequence[str], lock: Lock | None) -> list[int]:
    """The generation of each item; items that are not in the lock form the next generation."""
    if lock is None:
        return [0] * len(digests)
    known = {digest: number for number, held in enumerate(lock.generations) for digest in held}
    return [known.get(digest, len(lock.generations)) for digest in digests]


def grown(before: Lock | None, digests: Collection[str], compact: bool) -> tuple[tuple[str, ...], ...]:
    """The new generations of a suite: without removed items, and with the added items last."""
    earlier = () if before is None or compact else before.generations
    there = set(digests)
    known = {digest for generation in earlier for digest in generation}
    kept = [tuple(digest for digest in generation if digest in there) for generation in earlier]
    return tuple(generation for generation in (*kept, tuple(sorted(there - known))) if generation)


def write_lock(folder: str, lock: Lock) -> str:
    """Write the lock atomically and return its path."""
    path = os.path.join(folder, NAME)
    data = orjson.dumps(lock._asdict(), option=orjson.OPT_INDENT_2) + b"\n"
    try:
        with open(f"{path}.tmp", "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(f"{path}.tmp", path)
    except OSError as error:
        raise UserError(f"{path}: the lock cannot be written: {error.strerror}. Nothing was pinned.") from None
    return path
