"""What a fuzz target is: seeds to start from, words that its format knows, a check that raises where a law breaks."""

import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

Mutation = Callable[[random.Random, bytes], bytes]


class Broken(AssertionError):
    """A law that the target promises did not hold."""


def hold(law: bool, words: str) -> None:
    if not law:
        raise Broken(words)


def words(text: bytes) -> tuple[bytes, ...]:
    """Words of a format, written with `|` between them."""
    return tuple(text.split(b"|"))


@dataclass(frozen=True)
class Target:
    """One kind of file, and who reads it."""

    name: str
    seeds: Callable[[], Iterable[bytes]]
    check: Callable[[bytes, Path], None]
    """Reads the bytes (there is a folder for files) and holds the result to the reader's laws."""
    words: tuple[bytes, ...] = ()
    """What the format is made of, to be put in at random places."""
    mutations: tuple[Mutation, ...] = field(default=())
    """Beside those that fit any file."""
    work_per_byte: int = 2_000
    """More than any honest input costs a byte; a hang is what costs more."""
    size: Callable[[bytes], int] = len
    """Bytes of an input; for what is compressed, those that it holds."""
