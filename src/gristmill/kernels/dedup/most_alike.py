"""For each set of shingles the listed set that is most similar: exact, in work that is linear in the shingles.

Listed sets are numbered so that every filter is a range of numbers: first the sets that are searched *inside* another
set (a text of a request), then the sets that are compared *whole* (Jaccard), smallest first. The posting list of a
shingle has the numbers of the sets that contain it. Overlaps are counted by walking the posting lists.

A shingle of boilerplate is in thousands of sets, and walking its list for every document with the same boilerplate
would be quadratic. So a walk visits at most `most` sets of a list, those with the nearest smaller sizes, which are the
most similar to a document that is little more than boilerplate. Such a shingle is *common*: it only proposes
candidates, and whether a candidate has it is checked when the candidate is compared. Of the candidates, those that the
walks met most often are compared, at most `compared` of them. The comparison itself is always exact.
"""

from typing import Any, NamedTuple

import numpy as np

from gristmill.kernels.compile import njit

Array = np.ndarray[Any, Any]


class Postings(NamedTuple):
    """The listed sets, inverted."""

    sizes: Array
    """int64: the number of shingles of each set, by its number."""
    ranks: Array
    """int64, by number: among equally similar sets, the one with the least rank is the answer."""
    inside: int
    """The number of sets, the first ones, that are searched inside other sets."""
    values: Array
    """uint64: all shingles, sorted; a shingle of two sets is there twice."""
    owners: Array
    """int32: the number of the set of each shingle; sorted among equal shingles."""
    table: Array
    """bool, a power of two: whether any shingle ends in these bits."""


@njit(nogil=True, cache=True)
def _first(sorted_values: Array, low: int, high: int, wanted: Any) -> int:
    """Returns the first place from `low` on with at least `wanted`."""
    # Binary search.
    while low < high:
        middle = (low + high) // 2
        if sorted_values[middle] < wanted:
            low = middle + 1
        else:
            high = middle
    return low


@njit(nogil=True, cache=True)
def most_alike(
    ends: Array, values: Array, listed: Postings, over: int, under: int, most: int, compared: int
) -> tuple[Array, Array, Array]:
    """Returns for each set the number of the most similar listed set (-1: none reaches over / under), the number of
    shared shingles, and whether a listed set that reaches the threshold may have been missed.
    """
    rows, number = len(ends) - 1, len(listed.sizes)
    best, best_shared = np.full(rows, -1), np.zeros(rows, np.int64)
    cut = np.zeros(rows, np.bool_)
    shared, met = np.zeros(number, np.int64), np.zeros(number, np.int64)
    candidates = np.empty(number, np.int64)
    longest = 0
    for row in range(rows):
        longest = max(longest, ends[row + 1] - ends[row])
    common = np.empty((longest, 2), np.int64)  # posting lists of common shingles
    mask = np.uint64(len(listed.table) - 1)
    least_inside = listed.sizes[: listed.inside].min() if listed.inside else 0
    # For each set: count the shingles that it shares with listed sets, then compare the candidates.
    for row in range(rows):
        size = ends[row + 1] - ends[row]
        # Only sets of these sizes can reach over / under.
        low = _first(listed.sizes, listed.inside, number, -(-size * over // under))
        high = _first(listed.sizes, listed.inside, number, size * under // over + 1) if over else number
        found, commons, common_inside, common_whole = 0, 0, 0, 0
        # Walk the posting list of each shingle. Long lists are only begun, and noted in `common`.
        for at in range(ends[row], ends[row + 1]):
            value = values[at]
            if not listed.table[value & mask]:
                continue
            begin = _first(listed.values, 0, len(listed.values), value)
            end = begin
            if begin < len(listed.values) and listed.values[begin] == value:
                end = len(listed.values)
                if value != np.uint64(0xFFFFFFFFFFFFFFFF):
                    end = _first(listed.values, begin, end, value + np.uint64(1))
            inside_end = _first(listed.owners, begin, end, listed.inside)
            first = _first(listed.owners, inside_end, end, low)
            last = _first(listed.owners, first, end, high)
            is_common = inside_end - begin > most or last - first > most
            if is_common:
                common[commons, 0], common[commons, 1] = begin, end
                commons += 1
                common_inside += inside_end - begin > most
                common_whole += last - first > most
            # Sets that may be contained in the text come first in a list, then those compared by similarity.
            for start, stop in ((begin, min(inside_end, begin + most)), (first, min(last, first + most))):
                # Count the sets; the shares of common shingles are counted later, for candidates only.
                for place in range(start, stop):
                    owner = listed.owners[place]
                    shared[owner] += not is_common
                    if not met[owner]:
                        candidates[found] = owner
                        found += 1
                    met[owner] += 1
        # Without common shingles the counts are exact. With them, the sets that were met most often come first.
        some = candidates[:found]
        if commons and found > compared:
            some = some[np.argsort(-met[some], kind="mergesort")]
        left, best_whole = compared, 1
        # Find the most similar candidate that reaches the threshold.
        for owner in some:
            both = shared[owner]
            its_size = listed.sizes[owner]
            is_inside = owner < listed.inside
            # over / under of its_size, or of size + its_size - both: solved for the number of shared shingles.
            if is_inside:
                needed = -(-its_size * over // under)
            else:
                needed = -(-(size + its_size) * over // (over + under))
            if both + commons < needed:
                continue
            if commons:
                if left == 0:
                    cut[row] = True
                    break
                left -= 1
                # Complete the count: look for the candidate in the list of each common shingle.
                for place in range(commons):
                    there = _first(listed.owners, common[place, 0], common[place, 1], owner)
                    both += there < common[place, 1] and listed.owners[there] == owner
            if both < max(needed, 1):
                continue
            whole = its_size if is_inside else size + its_size - both
            ahead = both * best_whole - best_shared[row] * whole
            if best[row] < 0 or ahead > 0 or (ahead == 0 and listed.ranks[owner] < listed.ranks[best[row]]):
                best[row], best_shared[row], best_whole = owner, both, whole
        # Sets that share only common shingles were visited in part.
        cut[row] |= common_whole > 0 and common_whole * under >= size * over
        cut[row] |= common_inside > 0 and common_inside * under >= least_inside * over
        cut[row] &= best[row] < 0
        for place in range(found):
            shared[candidates[place]], met[candidates[place]] = 0, 0
    return best, best_shared, cut
