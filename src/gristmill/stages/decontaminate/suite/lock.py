"""suite.lock: which items a suite had when it was pinned, and which came later.

Items of a generation are scanned for together. A suite that grew by ten items has them in a generation of their own, so
that documents which were compared with the others are compared with these ten alone.
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
    """What a suite was when it was pinned."""

    suite: str
    version: str
    hash: str
    generations: tuple[tuple[str, ...], ...]
    """Digests of the items, sorted; the first are those that were pinned first."""


def read_lock(folder: str) -> Lock | None:
    """The lock in a folder; None where there is none."""
    path = os.path.join(folder, NAME)
    if os.path.lexists(path) and not os.path.isfile(path):
        raise UserError(f"{path}: this is no plain file, so no lock can be read from it. Take it away.")
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
        f"{path}: this is not what gristmill suite pin writes, so it is not known which items are new. Restore the "
        "file, or take it away and pin the suite again; the whole suite is then scanned for once more."
    )


def has_lock(folder: str) -> bool:
    """Whether the suite in a folder was ever pinned: only then there may be items that came later."""
    return os.path.exists(os.path.join(folder, NAME))


def generations_of(digests: Sequence[str], lock: Lock | None) -> list[int]:
    """The generation of each item; those that no lock knows are one more than its last."""
    if lock is None:
        return [0] * len(digests)
    known = {digest: number for number, held in enumerate(lock.generations) for digest in held}
    return [known.get(digest, len(lock.generations)) for digest in digests]


def grown(before: Lock | None, digests: Collection[str], compact: bool) -> tuple[tuple[str, ...], ...]:
    """The generations that a suite has from now on: what is gone is taken out, what is new comes last."""
    earlier = () if before is None or compact else before.generations
    there = set(digests)
    known = {digest for generation in earlier for digest in generation}
    kept = [tuple(digest for digest in generation if digest in there) for generation in earlier]
    return tuple(generation for generation in (*kept, tuple(sorted(there - known))) if generation)


def write_lock(folder: str, lock: Lock) -> str:
    """Where it was written; all of it, or nothing."""
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
