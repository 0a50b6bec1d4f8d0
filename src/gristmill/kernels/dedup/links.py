"""Verified links: pairs whose exact similarity reaches the threshold, and the forests that they form.

Within a group, documents are sorted best first. Each is compared with those before it, but not with one that it is
already linked to, by any chain: a cluster of n costs about n comparisons. Still, the clusters are those of all pairs,
as long as the budget of comparisons per document is not exhausted.
"""

from typing import Any

import numpy as np

from gristmill.kernels.compile import njit
from gristmill.kernels.dedup.sketch import jaccard, reaches

Array = np.ndarray[Any, Any]


@njit(nogil=True, cache=True)
def root_of(parents: Array, at: int) -> int:
    # Each step halves the path, so later searches are short.
    while parents[at] != at:
        parents[at] = parents[parents[at]]
        at = parents[at]
    return at


@njit(nogil=True, cache=True)
def join(parents: Array, one: int, other: int) -> None:
    """Joins two trees; the root is the smaller of the two roots."""
    first, second = root_of(parents, one), root_of(parents, other)
    parents[max(first, second)] = min(first, second)


@njit(nogil=True, cache=True)
def link_sets(
    groups: Array, offsets: Array, values: Array, over: int, under: int, most_comparisons: int
) -> tuple[Array, Array, Array, int, int]:
    """Links the sets of each group with a Jaccard of at least over / under; `groups` is where each begins, and the end.

    Returns the two ends of each link and its Jaccard, the number of compared pairs, and the number of sets that
    exhausted their budget.
    """
    number = len(offsets) - 1
    parents = np.arange(number)
    ones, others, shares = np.empty(number, np.int64), np.empty(number, np.int64), np.empty(number, np.float32)
    links, compared, used_up = 0, 0, 0
    # Groups are independent of each other.
    for group in range(len(groups) - 1):
        # Compare each set with those before it, and not with those it is linked to already.
        for one in range(groups[group] + 1, groups[group + 1]):
            budget = most_comparisons
            mine = values[offsets[one] : offsets[one + 1]]
            # A pair costs budget only if its sizes allow the threshold.
            for other in range(groups[group], one):
                if root_of(parents, one) == root_of(parents, other):
                    continue
                its = values[offsets[other] : offsets[other + 1]]
                if min(len(mine), len(its)) * under < max(len(mine), len(its)) * over:
                    continue
                if budget == 0:
                    used_up += 1
                    break
                budget -= 1
                compared += 1
                if not reaches(mine, its, over, under):
                    continue
                both, either = jaccard(mine, its)
                ones[links], others[links], shares[links] = one, other, both / either
                links += 1
                join(parents, one, other)
    return ones[:links], others[:links], shares[:links], compared, used_up


@njit(nogil=True, cache=True)
def forest(ones: Array, others: Array, lengths: Array, number: int) -> tuple[Array, Array, Array]:
    """Returns the trees that edges form of `number` nodes; if edges close a cycle, the earlier ones are kept.

    For each node: the smallest node of its tree, the distance to it (the sum of lengths), and the first edge of the
    path to it (-1 for the smallest node).
    """
    parents = np.arange(number)
    kept = np.empty(min(len(ones), number), np.int64)
    edges = 0
    starts = np.zeros(number + 1, np.int64)
    # Keep the edges that connect two trees, and count the edges of each node.
    for edge in range(len(ones)):
        if root_of(parents, ones[edge]) != root_of(parents, others[edge]):
            join(parents, ones[edge], others[edge])
            kept[edges] = edge
            edges += 1
            starts[ones[edge] + 1] += 1
            starts[others[edge] + 1] += 1
    for node in range(number):
        starts[node + 1] += starts[node]
    places = starts[:number].copy()
    ends = np.empty(2 * edges, np.int64)
    # List the edges of each node.
    for edge in kept[:edges]:
        # An edge is in the lists of both ends.
        for node in (ones[edge], others[edge]):
            ends[places[node]] = edge
            places[node] += 1
    steps, first = np.full(number, -1), np.full(number, -1)
    queue = np.empty(number, np.int64)
    ahead, behind = 0, 0
    # Begin at the roots, the smallest nodes of their trees.
    for node in range(number):
        parents[node] = root_of(parents, node)
        if parents[node] == node:
            steps[node] = 0
            queue[behind] = node
            behind += 1
    # Breadth first from the roots to the leaves.
    while ahead < behind:
        node = queue[ahead]
        ahead += 1
        # Visit the neighbours that have no distance yet.
        for edge in ends[starts[node] : starts[node + 1]]:
            other = others[edge] if ones[edge] == node else ones[edge]
            if steps[other] < 0:
                steps[other], first[other] = steps[node] + lengths[edge], edge
                queue[behind] = other
                behind += 1
    return parents, steps, first
