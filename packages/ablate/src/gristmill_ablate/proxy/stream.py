"""How a proxy is trained: its settings, the order of the documents, the learning rate. No torch."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from gristmill_ablate.proxy.pool import Pool, mixed

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Training:
    """All that decides how a model comes out, with its pool."""

    size: str
    """A name in SIZES."""
    tokens: int
    """Tokens to train on; whole steps, at most so many."""
    seed: int = 0
    """Of the initialisation and of the order of documents."""
    device: str = "cpu"
    """cpu: float32. cuda: bfloat16, compiled."""
    sequence: int = 512
    """Tokens of a sequence."""
    batch: int = 16_384
    """Tokens of a step."""
    rate: float = 1e-3
    """The peak learning rate."""
    warm_up: float = 0.05
    """The share of the steps in which the rate rises."""
    decay: float = 0.3
    """The share of the steps in which it falls to zero, where the mixture has no phase for that."""

    shares: tuple[float, ...] = ()
    """Of the domains of the pool; none: the pool as it is."""

    @property
    def steps(self) -> int:
        return max(1, self.tokens // self.batch)


class Stream:
    """The pieces of a pool in the order of a seed, cut into sequences.

    Within a phase, pieces are sorted by a hash of their content, their occurrence and the seed. So two corpora give the
    documents that they share at about the same time.
    """

    def __init__(self, pool: Pool, seed: int, sequence: int) -> None:
        occurrence = occurrences(pool.keys)
        salt = np.uint64((seed * 0x9E3779B97F4A7C15 + 1) % 2**64)
        order = np.lexsort((mixed(pool.keys ^ mixed(occurrence.astype(np.uint64) + salt)), pool.phases))
        self._pool, self._order, self._sequence = pool, order, sequence
        lengths = np.diff(pool.starts)[order]
        self._ends = np.cumsum(lengths)
        self.tokens = int(self._ends[-1]) if len(lengths) else 0
        self.phase_ends = np.cumsum(np.bincount(pool.phases[order], lengths, len(pool.decay)))

    def pieces(self, documents: Array) -> Array:
        """The numbers in the pool of what `batch` gives as documents."""
        return np.asarray(self._order[documents])

    def batch(self, start: int, sequences: int) -> tuple[Array, Array, Array]:
        """Tokens, labels and documents from a token on; behind the last token it begins again."""
        count, pool = sequences * self._sequence, self._pool
        tokens = np.empty(count + 1, np.int64)
        documents = np.empty(count + 1, np.int32)
        position, filled = start % self.tokens, 0
        piece = int(np.searchsorted(self._ends, position, "right"))
        while filled <= count:
            number = self._order[piece]
            stop = int(pool.starts[number + 1])
            first = stop - int(self._ends[piece] - position)
            taken = min(stop - first, count + 1 - filled)
            tokens[filled : filled + taken] = pool.tokens[first : first + taken]
            documents[filled : filled + taken] = piece
            filled, position, piece = filled + taken, position + taken, piece + 1
            if piece == len(self._order):
                piece = position = 0
        labels = np.where(documents[1:] == documents[:-1], tokens[1:], -100)
        shape = (sequences, self._sequence)
        return tokens[:-1].reshape(shape), labels.reshape(shape), documents[:-1].reshape(shape)


def occurrences(keys: Array) -> Array:
    """Which occurrence of its key each one is: 0, 1, ..."""
    order = np.argsort(keys, kind="stable")
    sorted_keys = keys[order]
    first = np.r_[True, sorted_keys[1:] != sorted_keys[:-1]] if len(keys) else np.zeros(0, bool)
    places = np.arange(len(keys))
    counted = np.empty(len(keys), np.int64)
    counted[order] = places - np.maximum.accumulate(np.where(first, places, 0))
    return counted


def rate_at(config: Training, step: int, decay_from: float) -> float:
    """The learning rate: up, level, and linearly down to zero behind `decay_from`, a share of the steps."""
    share = (step + 1) / config.steps
    up = min(1.0, share / config.warm_up) if config.warm_up else 1.0
    down = min(1.0, (1 - share) / (1 - decay_from)) if decay_from < 1 else 1.0
    return config.rate * min(up, max(down, 0.0))
