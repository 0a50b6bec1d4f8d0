"""The last layer of fastText, from scores to labels: softmax, one-vs-all, negative sampling, a Huffman tree.

There are only additions, multiplications and divisions in a fixed order, and an exponential made of them, so every CPU
gives the same bits.
"""

from typing import Any

import numpy as np

from gristmill.kernels.compile import njit

Array = np.ndarray[Any, Any]

HIERARCHICAL, NEGATIVE, SOFTMAX, ONE_VS_ALL = 1, 2, 3, 4
"""Losses, as model files number them."""

_FLOOR = 1e-5  # fastText adds it to every probability before the logarithm
_INVERSES = np.array([0.0, *(1.0 / n for n in range(1, 11))])
_POW2 = np.ldexp(1.0, np.arange(-1022, 1024))


@njit(nogil=True, cache=True, error_model="numpy")
def exponential(x: float) -> float:
    """Returns e**x with a relative error below 1e-11, the same bits on every CPU; system libraries differ."""
    if not x >= -708.0:
        return 0.0
    x = min(x, 709.0)
    k = np.floor(x * 1.4426950408889634 + 0.5)
    # ln 2 in two parts, the first with 33 bits, so that k times it is exact (Cody and Waite)
    r = (x - k * 0.6931471803691238) - k * 1.9082149292705877e-10
    total = 1.0
    for n in range(10, 0, -1):  # |r| <= ln 2 / 2: the first term left out is below 1e-12
        total = 1.0 + total * (r * _INVERSES[n])
    return total * _POW2[np.int64(k) + 1022]  # type: ignore[no-any-return]


@njit(nogil=True, cache=True, forceinline=True)
def offer(label: int, p: float, found: int, labels: Array, doc: int, best: Array) -> int:
    """Puts a label among the best k, best first; among equals the later one is first, as in fastText's heap."""
    k = best.size
    if found < k or p >= best[k - 1]:
        at = min(found, k - 1)
        # Move smaller ones down.
        while at > 0 and best[at - 1] <= p:
            best[at], labels[doc, at] = best[at - 1], labels[doc, at - 1]
            at -= 1
        best[at], labels[doc, at] = p, label
        found = min(found + 1, k)
    return found


@njit(nogil=True, cache=True)
def sigmoid(score: float) -> float:
    """Returns a value of a table of 512 steps over [-8, 8], without interpolation, in float32, as fastText does."""
    x = np.float32(score)
    if x < -8.0:
        return 0.0
    if x > 8.0:
        return 1.0
    step = np.floor(np.float32(x + np.float32(8.0)) * np.float32(32.0))
    return 1.0 / (1.0 + exponential(8.0 - step / 32.0))


@njit(nogil=True, cache=True, error_model="numpy", forceinline=True)
def flat(loss: int, scores: Array, labels: Array, doc: int, best: Array) -> None:
    """Finds the best labels by softmax, or by a sigmoid of each score (one-vs-all, negative sampling)."""
    top, z = scores[0], 0.0
    for label in range(scores.size):
        top = max(top, scores[label])
    # The largest score is subtracted first, so that nothing overflows.
    for label in range(scores.size):
        scores[label] = exponential(scores[label] - top) if loss == SOFTMAX else sigmoid(scores[label])
        z += scores[label]
    found = 0
    # Offer them in order: among equals the later one is first.
    for label in range(scores.size):
        p = scores[label] / z if loss == SOFTMAX else scores[label]
        found = offer(label, p + _FLOOR, found, labels, doc, best)


@njit(nogil=True, cache=True, error_model="numpy", forceinline=True)
def walk_tree(tree: Array, scores: Array, stack: Array, chances: Array, labels: Array, doc: int, best: Array) -> None:
    """Finds the best leaves of the Huffman tree, left before right, skipping subtrees that cannot contain them."""
    leaves = (tree.shape[0] + 1) // 2
    found = 0
    stack[0], chances[0] = tree.shape[0] - 1, 1.0
    depth = 1
    # Depth first; the left subtree is on top of the stack.
    while depth > 0:
        depth -= 1
        node, p = stack[depth], chances[depth]
        if p < _FLOOR or (found == best.size and p < best[found - 1]):
            continue
        if node < leaves:
            found = offer(node, p, found, labels, doc, best)
            continue
        right = 1.0 / (1.0 + exponential(-scores[node - leaves]))
        stack[depth], chances[depth] = tree[node, 1], p * (right + _FLOOR)
        stack[depth + 1], chances[depth + 1] = tree[node, 0], p * ((1.0 - right) + _FLOOR)
        depth += 2


@njit(nogil=True, cache=True, error_model="numpy")
def two_labels(scores: Array, k: int) -> Any:
    """Returns the k best of two labels of a softmax and their probabilities (int32 and float32); `scores` are by how
    much the first is ahead of the second; -1 and 0 if that is unknown.
    """
    labels = np.full((scores.size, k), -1, np.int32)
    chances = np.zeros((scores.size, k), np.float32)
    # Documents are independent of each other.
    for doc in range(scores.size):
        if scores[doc] - scores[doc] == 0.0:
            first = np.int32(0 if scores[doc] > 0.0 else 1)  # among equals the later one is first
            less = exponential(-abs(scores[doc]))
            # One label or both.
            for place in range(k):
                labels[doc, place] = first if place == 0 else 1 - first
                chances[doc, place] = min((1.0 if place == 0 else less) / (1.0 + less) + _FLOOR, 1.0)
    return labels, chances
