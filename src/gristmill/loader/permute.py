"""A keyed permutation of 0 … n-1 that computes any single position without a table.

A Feistel network over a grid of a × b >= n cells (Black and Rogaway 2002, *Ciphers with arbitrary finite domains*),
with a the square root of n rounded up: a number is a row and a column; in turn the row is moved by a hash of the column
and the column by a hash of the row. A result outside 0 … n-1 is permuted again until it is inside (cycle walking); the
grid is larger than n by less than a row, so that happens about once in sqrt(n).
With eight rounds, every position and every pair is mapped everywhere equally often; sixteen change nothing that
20,000 keys could show. A position costs 15 us in plain Python.
"""

import hashlib
from functools import lru_cache
from math import isqrt
from typing import Any

import numpy as np

from gristmill.shardformat.splitmix import ALL, GOLDEN, mix_all, mixed

Array = np.ndarray[Any, Any]

ROUNDS = 8


def key_of(seed: int, group: str, epoch: int, shard: int | None = None) -> int:
    """The key of an order of samples in a shard or, without a shard, of the shards of a group."""
    words = ("gristmill order", str(seed), str(epoch), "shards" if shard is None else str(shard), group)
    return int.from_bytes(hashlib.sha256("\n".join(words).encode()).digest()[:8], "little")


def permuted(place: int, count: int, key: int) -> int:
    """The image of one position under the permutation of 0 … count-1."""
    rows, columns = sides(count)
    keys = round_keys(key)
    while True:
        row, column = divmod(place, columns)
        for turn in range(0, ROUNDS, 2):
            row = (row + ((mixed(column ^ keys[turn]) >> 32) * rows >> 32)) % rows
            column = (column + ((mixed(row ^ keys[turn + 1]) >> 32) * columns >> 32)) % columns
        place = row * columns + column
        if place < count:
            return place


def permuted_all(places: Array, which: Array | None, counts: list[int], keys: list[int]) -> Array:
    """The images of an array of positions (int64) under several permutations, each with a count and a key.

    `which` gives the permutation of each position; None: there is only one.
    """
    rows, columns = np.array([sides(count) for count in counts], np.uint64).reshape(-1, 2).T.copy()
    table = np.array([round_keys(key) for key in keys], np.uint64).reshape(-1, ROUNDS).T.copy()
    limits = np.array(counts, np.uint64)
    mine: Any = 0 if which is None else which
    done = _walked(places.astype(np.uint64), rows.take(mine), columns.take(mine), table, mine)
    left = np.flatnonzero(done >= limits[mine])
    while len(left):
        mine = 0 if which is None else which[left]
        done[left] = _walked(done[left], rows.take(mine), columns.take(mine), table, mine)
        left = left[done[left] >= limits[mine]]
    return done.astype(np.int64)


def sides(count: int) -> tuple[int, int]:
    """Rows and columns of the grid."""
    rows = isqrt(count - 1) + 1
    return rows, -(-count // rows)


@lru_cache(maxsize=4096)
def round_keys(key: int) -> tuple[int, ...]:
    """Eight keys out of one: the stream of SplitMix64 (Steele, Lea, Flood 2014)."""
    return tuple(mixed(key + turn * GOLDEN & ALL) for turn in range(1, ROUNDS + 1))


def _walked(places: Array, rows: object, columns: object, table: Array, mine: object) -> Array:
    """One pass of all rounds, with the round keys in columns `mine` of the table."""
    row: Array = places // columns
    column = places - row * columns
    for turn in range(0, ROUNDS, 2):
        _move(row, mix_all(column ^ table[turn].take(mine)), rows)
        _move(column, mix_all(row ^ table[turn + 1].take(mine)), columns)
    row *= columns
    row += column
    return row


def _move(side: Array, hashes: Array, size: object) -> None:
    hashes >>= np.uint64(32)
    hashes *= size
    hashes >>= np.uint64(32)
    side += hashes
    np.minimum(side, side - size, out=side)  # below the size, the difference wraps around and is larger
