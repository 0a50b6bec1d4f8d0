"""Computes the group of the t-th sample of a phase without a table, in as many steps as the tree is deep.

The groups are the leaves of a Huffman tree by weight. A fork with weights A (left) and N (both) sends its j-th visitor,
counted from 0, to the left if L(j + 1) > L(j), where L(j) = (j·A + N//2) // N is how many of the first j went left. So
of N visitors exactly A go left, spread evenly. The error over a stretch of visitors is less than one at each fork, and
the error inherited from above shrinks with the fork's share; in a Huffman tree an inner child has at most two thirds of
its fork, so the error over any stretch is less than three samples, however many groups there are.

The two items with the smallest (weight, name) are joined first; a fork has the smallest name below it, and the lighter
child is on the left.
"""

import heapq
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
_SAFE = 2**62


@dataclass(frozen=True, slots=True)
class Leaf:
    """A group, by its number."""

    group: int
    weight: int


@dataclass(frozen=True, slots=True)
class Fork:
    """Two subtrees."""

    left: "Tree"
    right: "Tree"
    weight: int


Tree = Leaf | Fork


def grow(weights: Mapping[str, int], numbers: Mapping[str, int]) -> Tree:
    """The tree of the groups with a weight above 0; `numbers` maps groups to their numbers."""
    heap: list[tuple[int, str, Tree]] = [
        (weight, name, Leaf(numbers[name], weight)) for name, weight in weights.items() if weight > 0
    ]
    heapq.heapify(heap)
    while len(heap) > 1:
        first, first_name, left = heapq.heappop(heap)
        second, second_name, right = heapq.heappop(heap)
        weight = first + second
        heapq.heappush(heap, (weight, min(first_name, second_name), Fork(left, right, weight)))
    return heap[0][2]


def place(tree: Tree, visitor: int) -> tuple[int, int]:
    """(group, number of earlier samples of the group) for one sample of the phase."""
    while isinstance(tree, Fork):
        left, weight = tree.left.weight, tree.weight
        gone, rest = divmod(visitor * left + weight // 2, weight)
        if rest + left >= weight:
            tree, visitor = tree.left, gone
        else:
            tree, visitor = tree.right, visitor - gone
    return tree.group, visitor


def drawn(tree: Tree, samples: int) -> Iterator[tuple[int, int]]:
    """(group, its samples) among the first `samples` samples of the phase."""
    waiting = [(tree, samples)]
    while waiting:
        node, visitors = waiting.pop()
        if isinstance(node, Leaf):
            yield node.group, visitors
        else:
            gone = (visitors * node.left.weight + node.weight // 2) // node.weight
            waiting += ((node.left, gone), (node.right, visitors - gone))


def places(tree: Tree, first: int, offsets: Array) -> tuple[Array, Array]:
    """`place` for the samples first + offsets (int64, not negative): groups (int32) and indices (int64).

    Products stay below 2^63: the part that grows with `first` is reduced modulo N in Python integers first.
    """
    groups, indices = np.empty(len(offsets), np.int32), np.empty(len(offsets), np.int64)
    waiting: list[tuple[Tree, int, Array, Array]] = [(tree, first, offsets, np.arange(len(offsets)))]
    while waiting:
        node, base, steps, slots = waiting.pop()
        if not len(slots):
            continue
        if isinstance(node, Leaf):
            groups[slots], indices[slots] = node.group, steps + base
            continue
        left, weight = node.left.weight, node.weight
        gone, rest = divmod(base * left + weight // 2, weight)
        if (int(steps.max()) + 2) * weight < _SAFE:
            more, over = np.divmod(steps * left + rest, weight)
            goes_left = over >= weight - left
        else:
            more, goes_left = _slowly(steps, left, rest, weight)
        stays = ~goes_left
        waiting.append((node.left, gone, more[goes_left], slots[goes_left]))
        waiting.append((node.right, base - gone, (steps - more)[stays], slots[stays]))
    return groups, indices


def _slowly(steps: Array, left: int, rest: int, weight: int) -> tuple[Array, Array]:
    """The same with Python integers, for weights whose products exceed 64 bits."""
    both = [divmod(step * left + rest, weight) for step in steps.tolist()]
    return np.array([more for more, _ in both], np.int64), np.array([over >= weight - left for _, over in both])
