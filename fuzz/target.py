"""A fuzz target: seeds to start from, words of its format, and a check that raises when a law is broken."""

import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

Mutation = Callable[[random.Random, bytes], bytes]


class Broken(AssertionError):
    """A law that the target promises does not hold."""


def hold(law: bool, words: str) -> None:
    if not law:
        raise Broken(words)


def words(text: bytes) -> tuple[bytes, ...]:
    """Splits the words of a format at `|`."""
    return tuple(text.split(b"|"))


@dataclass(frozen=True)
class Target:
    """One kind of file, and its reader."""

    name: str
    seeds: Callable[[], Iterable[bytes]]
    check: Callable[[bytes, Path], None]
    """Reads the bytes (with a folder for files) and checks the result against the reader's laws."""
    words: tuple[bytes, ...] = ()
    """Words of the format, which are inserted at random positions."""
    mutations: tuple[Mutation, ...] = field(default=())
    """Mutations in addition to those that fit any file."""
    work_per_byte: int = 2_000
    """More than any honest input costs per byte; an input that costs more is a hang."""
    size: Callable[[bytes], int] = len
    """The size of an input in bytes; for compressed inputs, the size of their content."""
