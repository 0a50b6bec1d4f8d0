"""A keyed permutation of 0 … n-1 of which any single place is computed by itself: no table, nothing to store.

A Feistel network over a grid of a × b >= n cells (Black and Rogaway 2002, *Ciphers with arbitrary finite domains*),
with a the square root of n rounded up: a number is a row and a column; in turn the row is moved by a hash of the column
and the column by a hash of the row. A result outside 0 … n-1 is put in again until it falls inside (cycle walking); the
grid is larger than n by less than a row, so that happens about once in sqrt(n).
Eight rounds: every place goes everywhere equally often, and so does every pair; sixteen change nothing that
20,000 keys could show, and a place costs 15 us in plain Python with eight.
"""

import hashlib
from functools import lru_cache
from math import isqrt
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]

ROUNDS = 8
GOLDEN = 0x9E3779B97F4A7C15
_ALL = 2**64 - 1
_FIRST, _SECOND = 0xBF58476D1CE4E5B9, 0x94D049BB133111EB


def key_of(seed: int, group: str, epoch: int, shard: int | None = None) -> int:
    """The key of an order: of the samples in a shard, or, without one, of the shards of a group."""
    words = ("gristmill order", str(seed), str(epoch), "shards" if shard is None else str(shard), group)
    return int.from_bytes(hashlib.sha256("\n".join(words).encode()).digest()[:8], "little")


def permuted(place: int, count: int, key: int) -> int:
    """Where the permutation of 0 … count-1 sends one place."""
    rows, columns = sides(count)
    keys = round_keys(key)
    while True:
        row, column = divmod(place, columns)
        for turn in range(0, ROUNDS, 2):
            row = (row + ((_mixed(column ^ keys[turn]) >> 32) * rows >> 32)) % rows
            column = (column + ((_mixed(row ^ keys[turn + 1]) >> 32) * columns >> 32)) % columns
        place = row * columns + column
        if place < count:
            return place


def permuted_all(places: Array, counts: Array, keys: Array) -> Array:
    """The same for arrays: places (int64), and a count and a key (uint64) for each of them or one for all."""
    wide = np.broadcast_to(np.asarray(counts, np.uint64), places.shape)
    rows, columns = _sides_all(np.asarray(counts, np.uint64))
    turns = _round_keys_all(np.asarray(keys, np.uint64))
    done = _walked(places.astype(np.uint64), rows, columns, turns)
    again = np.flatnonzero(done >= wide)
    while len(again):
        part = [np.asarray(turn)[again] if np.ndim(turn) else turn for turn in turns]
        high, across = (side[again] if np.ndim(side) else side for side in (rows, columns))
        done[again] = _walked(done[again], high, across, part)
        again = again[done[again] >= wide[again]]
    return done.astype(np.int64)


def sides(count: int) -> tuple[int, int]:
    """Rows and columns of the grid."""
    rows = isqrt(count - 1) + 1
    return rows, -(-count // rows)


@lru_cache(maxsize=4096)
def round_keys(key: int) -> tuple[int, ...]:
    """Eight keys out of one: the stream of SplitMix64 (Steele, Lea, Flood 2014)."""
    return tuple(_mixed(key + turn * GOLDEN & _ALL) for turn in range(1, ROUNDS + 1))


def _mixed(value: int) -> int:
    value = (value ^ value >> 30) * _FIRST & _ALL
    value = (value ^ value >> 27) * _SECOND & _ALL
    return value ^ value >> 31


def _sides_all(counts: Array) -> tuple[Any, Any]:
    if counts.size == 1:
        rows, columns = sides(int(counts.reshape(-1)[0]))
        return np.uint64(rows), np.uint64(columns)
    found, back = np.unique(counts, return_inverse=True)
    both = np.array([sides(int(count)) for count in found], np.uint64)[back]
    return both[:, 0], both[:, 1]


def _round_keys_all(keys: Array) -> list[Any]:
    if keys.size == 1:
        return [np.uint64(key) for key in round_keys(int(keys.reshape(-1)[0]))]
    return [_mixed_all(keys + np.uint64(turn * GOLDEN & _ALL)) for turn in range(1, ROUNDS + 1)]


def _walked(places: Array, rows: Any, columns: Any, turns: list[Any]) -> Array:
    """Once through all rounds."""
    row: Array = places // columns
    column = places - row * columns
    for turn in range(0, ROUNDS, 2):
        _move(row, _mixed_all(column ^ turns[turn]), rows)
        _move(column, _mixed_all(row ^ turns[turn + 1]), columns)
    row *= columns
    row += column
    return row


def _move(side: Array, hashes: Array, size: Any) -> None:
    hashes >>= np.uint64(32)
    hashes *= size
    hashes >>= np.uint64(32)
    side += hashes
    np.minimum(side, side - size, out=side)  # below the size, the difference wraps around and is larger


def _mixed_all(values: Array) -> Array:
    """`_mixed` in place, on an array that nobody else holds."""
    values ^= values >> np.uint64(30)
    values *= np.uint64(_FIRST)
    values ^= values >> np.uint64(27)
    values *= np.uint64(_SECOND)
    values ^= values >> np.uint64(31)
    return values
