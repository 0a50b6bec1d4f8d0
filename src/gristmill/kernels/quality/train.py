"""A linear binary classifier over rows of features, trained by AdaGrad (Duchi, Hazan, Singer 2011).

fastText gives each feature a vector, takes their mean and multiplies it with one vector for each class. With two
classes only the difference of those matters. So whatever the dimension, the score of a text is the mean of one number
for each of its features. That number is trained here: a hundredth of the memory traffic of a hundred dimensions, for
the same functions of a text.

Every row has its own step size, which shrinks with the squares of its gradients, so rare features learn as fast as
frequent ones. The sum of squares is next to the weight: one cache miss for both. With one thread, sums in a fixed
order, and only operations that IEEE 754 defines to the bit, every CPU gives the same weights.
"""

from typing import Any

import numpy as np

from gristmill.kernels.compile import njit
from gristmill.kernels.dedup.exact_hash import hash_span
from gristmill.kernels.hash.splitmix import GOLDEN, mix
from gristmill.kernels.memory import view
from gristmill.kernels.text.fasttext_output import exponential

Array = np.ndarray[Any, Any]

_START = np.float32(1.0)
"""Initial sum of squares: without it, the first step of a row would be the same for texts that are already classified
well."""


@njit(nogil=True, cache=True)
def hash_pieces(data: Array, starts: Array, ends: Array) -> Array:
    """Returns a hash of each text data[start:end], uint64."""
    text = view(data)
    found = np.empty(starts.size, np.uint64)
    for at in range(starts.size):
        found[at] = hash_span(text, starts[at], ends[at])[0]
    return found


@njit(nogil=True, cache=True, error_model="numpy")
def _epoch(
    state: Array, rows: Array, firsts: Array, order: Array, targets: Array, weights: Array, rate: np.float32
) -> None:
    # One step of AdaGrad for each example, in the given order.
    for place in range(order.size):
        example = order[place]
        first, last = firsts[example], firsts[example + 1]
        if first == last:
            continue
        total = 0.0
        for at in range(first, last):
            total += state[rows[at], 0]
        chance = 1.0 / (1.0 + exponential(-total / (last - first)))
        slope = np.float32((chance - targets[example]) * weights[example])
        square, step = np.float32(slope * slope), np.float32(rate * slope)
        # Each row has its own rate: the step divided by the root of its squared slopes.
        for at in range(first, last):
            row = rows[at]
            squares = np.float32(state[row, 1] + square)
            state[row, 1] = squares
            state[row, 0] = np.float32(state[row, 0] - np.float32(step / np.sqrt(squares)))


def train_weights(
    rows: Array,
    firsts: Array,
    size: int,
    targets: Array,
    weights: Array,
    hashes: Array,
    epochs: int,
    learning_rate: float,
    seed: int,
) -> Array:
    """Returns the weight of each of `size` rows, float32; a text's score is the mean of those of its rows.

    `targets` (float64, 0 to 1) is the desired probability of the high class, `weights` (float64) the weight of an
    example, `hashes` those of the examples' texts: the order of training follows from hash, seed and epoch, so the
    order of the input does not matter.
    """
    state = np.zeros((size, 2), np.float32)
    state[:, 1] = _START
    # Each epoch has its own order.
    for epoch in range(epochs):
        turn: Any = np.array([(seed * epochs + epoch + 1) % 2**64], np.uint64)
        keys = mix.py_func(hashes ^ np.asarray(mix.py_func(turn * GOLDEN)))  # type: ignore[arg-type]
        order = np.lexsort((weights, targets, keys))
        _epoch(state, rows, firsts, order, targets, weights, np.float32(learning_rate))
    return np.ascontiguousarray(state[:, 0])


@njit(nogil=True, cache=True, error_model="numpy")
def score_rows(rows: Array, firsts: Array, weights: Array) -> Array:
    """Returns the mean of the weights of each text's rows, float64; 0 for a text without a row."""
    scores = np.zeros(firsts.size - 1)
    # Texts are independent of each other.
    for text in range(scores.size):
        first, last = firsts[text], firsts[text + 1]
        for at in range(first, last):
            scores[text] += weights[rows[at]]
        scores[text] /= max(last - first, 1)
    return scores


@njit(nogil=True, cache=True, error_model="numpy")
def chances_of(scores: Array) -> Array:
    """Returns the probability of the high class for each score, float64."""
    found = np.empty(scores.size)
    for at in range(scores.size):
        found[at] = 1.0 / (1.0 + exponential(-scores[at]))
    return found
