"""Counts n-grams for modified Kneser-Ney smoothing (Chen and Goodman 1999), from sorted streams.

After Heafield, Pouzyrevsky, Clark and Koehn 2013, "Scalable modified Kneser-Ney language model estimation": n-grams of
the highest order are sorted by their last word, then the one before it, and so on. Then the n-grams of every lower
order are adjacent, too, and one pass over them counts all orders. The count of a lower-order n-gram is the number of
different words before it; one that begins a sentence has none before it, and its count is how often it was seen.

An n-gram is five word numbers, 21 bits each, in two numbers of 64 bits: the last word highest, 0 if it is shorter. Rows
are uint64: these two, and a value.
"""

from typing import Any

import numpy as np

from gristmill.kernels.compile import njit
from gristmill.kernels.ngram.tables import HIGHEST_ORDER

Array = np.ndarray[Any, Any]

NOTHING, UNKNOWN, BEGIN, END, FIRST_WORD = range(5)
"""Word numbers: before the beginning of a sentence; <unk>; <s>; </s>; and the first of a vocabulary."""
WORD_BITS = 21
MOST_WORDS = (1 << WORD_BITS) - FIRST_WORD
COUNTED = 4
"""The numbers of n-grams with counts up to this one determine the discounts."""

_ONE = np.uint64(1)
_BITS = np.uint64(WORD_BITS)
_TWO_WORDS = np.uint64(2 * WORD_BITS)
_WORD = np.uint64((1 << WORD_BITS) - 1)
_THREE = np.uint64((1 << 3 * WORD_BITS) - 1)
_ZERO = np.uint64(0)


@njit(nogil=True, cache=True, forceinline=True)
def word_at(high: np.uint64, low: np.uint64, place: int) -> np.uint64:
    """Returns the number of a word of an n-gram; place 0 is its last word, 1 the one before it."""
    if place < 3:
        return (high >> np.uint64((2 - place) * WORD_BITS)) & _WORD
    return (low >> np.uint64((4 - place) * WORD_BITS)) & _WORD


@njit(nogil=True, cache=True, forceinline=True)
def shared(high: np.uint64, low: np.uint64, other_high: np.uint64, other_low: np.uint64) -> int:
    """Counts the last words that two n-grams have in common."""
    # Compare word by word, from the last one backward.
    for place in range(HIGHEST_ORDER):
        if word_at(high, low, place) != word_at(other_high, other_low, place):
            return place
    return HIGHEST_ORDER


@njit(nogil=True, cache=True, forceinline=True)
def last_words(high: np.uint64, low: np.uint64, order: int) -> tuple[np.uint64, np.uint64]:
    """Returns the n-gram of the last `order` words."""
    if order <= 3:
        return high >> np.uint64((3 - order) * WORD_BITS) << np.uint64((3 - order) * WORD_BITS), _ZERO
    shift = np.uint64((5 - order) * WORD_BITS)
    return high, low >> shift << shift


@njit(nogil=True, cache=True)
def windows(ids: Array, firsts: Array, order: int, rows: Array) -> int:
    """Writes the n-gram that ends with each word, and with the end of each sentence, and a count of 1; returns their
    number.

    `ids` are the word numbers of whole sentences; `firsts` says whether a sentence begins there. `rows` has room for
    two rows per word. Words further back than `order`, and those before a sentence, are NOTHING.
    """
    low_bits = np.uint64(max(5 - order, 0) * WORD_BITS)
    count = 0
    high, low = _ZERO, _ZERO
    # One turn more than words, for the end of the last sentence.
    for at in range(len(ids) + 1):
        ends = at == len(ids) or firsts[at]
        # First the n-gram that ends with the end of a sentence, then that of the word itself.
        for step in range(2):
            if step == 0 and (not ends or at == 0):
                continue
            if step == 1 and at == len(ids):
                continue
            if step == 1 and ends:
                high, low = np.uint64(BEGIN) << _TWO_WORDS, _ZERO
            word = np.uint64(END) if step == 0 else np.uint64(ids[at])
            low = (high & _WORD) << _BITS | low >> _BITS
            high = word << _TWO_WORDS | high >> _BITS
            if order >= 3:
                low = low >> low_bits << low_bits
            kept_high, kept_low = last_words(high, low, order)
            rows[count, 0], rows[count, 1], rows[count, 2] = kept_high, kept_low, _ONE
            count += 1
    return count


@njit(nogil=True, cache=True)
def rows_up_to(rows: Array, high: np.uint64, low: np.uint64) -> int:
    """Counts the sorted rows with a key up to this one."""
    begin, end = 0, len(rows)
    # Binary search.
    while begin < end:
        middle = (begin + end) >> 1
        if rows[middle, 0] < high or (rows[middle, 0] == high and rows[middle, 1] <= low):
            begin = middle + 1
        else:
            end = middle
    return begin


@njit(nogil=True, cache=True)
def whole_contexts(rows: Array) -> int:
    """Counts the first rows, sorted by context, that belong to contexts before the last one."""
    end = len(rows)
    # Go back from the end to the first row of the last context.
    while end > 0:
        end -= 1
        last = rows[len(rows) - 1]
        if rows[end, 0] != last[0] or rows[end, 1] >> _BITS != last[1] >> _BITS:
            return end + 1
    return 0


@njit(nogil=True, cache=True)
def combine(rows: Array) -> int:
    """Sums the last number of neighbours with equal first two numbers; returns the number of remaining rows."""
    kept = 0
    # Equal n-grams are neighbours; each is added to the first of them.
    for at in range(len(rows)):
        if kept and rows[at, 0] == rows[kept - 1, 0] and rows[at, 1] == rows[kept - 1, 1]:
            rows[kept - 1, 2] += rows[at, 2]
        else:
            for column in range(rows.shape[1]):
                rows[kept, column] = rows[at, column]
            kept += 1
    return kept


@njit(nogil=True, cache=True)
def _close(
    order: int, highest: int, state: Array, least: Array, counts: Array, out: Array, found: Array, length: int
) -> None:
    """Outputs the n-gram of an order that is complete."""
    high, low = last_words(state[0, 0], state[0, 1], order)
    times, before = state[order, 0], state[order, 1]
    counted = times if order == highest or length == order else before
    pruned = times < least[order - 1]
    has_unknown = False
    for place in range(order):
        has_unknown |= word_at(high, low, place) == np.uint64(UNKNOWN)
    if counted <= np.uint64(COUNTED) and not (order == 1 and has_unknown):
        counts[order - 1, np.int64(counted) - 1] += 1
    row = found[order - 1]
    out[order - 1, row, 0], out[order - 1, row, 1] = high, low
    out[order - 1, row, 2] = counted << _ONE | np.uint64(pruned or has_unknown)
    found[order - 1] = row + 1


@njit(nogil=True, cache=True)
def _length(high: np.uint64, low: np.uint64, highest: int) -> int:
    length = highest
    while length > 0 and word_at(high, low, length - 1) == _ZERO:
        length -= 1
    return length


@njit(nogil=True, cache=True)
def adjust(rows: Array, highest: int, least: Array, state: Array, counts: Array, out: Array, is_end: bool) -> Array:
    """From sorted n-grams of the highest order and their counts: the n-grams of all orders, each with twice its count,
    plus 1 if it is pruned: seen fewer times than `least` (uint64, by order), or with <unk> in it.

    `state` (uint64, [order + 1, 2], zeros at first) continues from block to block. `counts` (int64, [order, COUNTED])
    becomes the numbers of n-grams of an order with a count of 1, 2, ... `out` (uint64, [order, rows + 1, 3]) gets the
    n-grams; their number per order is returned. `is_end`: this is the last block.
    """
    found = np.zeros(highest, np.int64)
    # Rows are sorted from their last word on, so an n-gram is complete when a row differs from it. One turn more at the
    # end closes what is open.
    for at in range(len(rows) + is_end):
        before = _length(state[0, 0], state[0, 1], highest)
        same = 0
        if at < len(rows):
            same = shared(rows[at, 0], rows[at, 1], state[0, 0], state[0, 1]) if before else 0
        # Close the n-grams that this row does not continue.
        for order in range(before, same, -1):
            _close(order, highest, state, least, counts, out, found, before)
            state[order, 0] = state[order, 1] = 0
        if at == len(rows):
            break
        length = _length(rows[at, 0], rows[at, 1], highest)
        if same:
            state[same, 1] += _ONE
        # Add the count to all suffixes of the n-gram, and begin those that are new.
        for order in range(1, length + 1):
            state[order, 0] += rows[at, 2]
            if same < order < length:
                state[order, 1] = _ONE
        state[0, 0], state[0, 1] = rows[at, 0], rows[at, 1]
    return found


@njit(nogil=True, cache=True)
def by_context(rows: Array) -> None:
    """Reorders n-grams so that they sort by the words before the last one, and then by the last word."""
    # Move the last word to the end of the key.
    for at in range(len(rows)):
        high, low = rows[at, 0], rows[at, 1]
        rows[at, 0] = (high << _BITS) & _THREE | low >> _BITS
        rows[at, 1] = (low & _WORD) << _BITS | high >> _TWO_WORDS


@njit(nogil=True, cache=True, error_model="numpy")
def weigh(rows: Array, discounts: Array, out: Array, backoffs: Array) -> tuple[int, int]:
    """For n-grams of whole contexts, sorted by context: writes n-gram, own probability and the share that the context
    leaves to shorter n-grams to `out`, for those that are not pruned; and the share of each context that has such
    n-grams to `backoffs`. Returns the number of rows of each.

    `discounts` (float64) are for counts of 1, of 2, and of more. Probabilities are float64, written as bits.
    """
    written = contexts = begin = 0
    shares = np.empty(2, np.float64)
    bits = shares.view(np.uint64)
    # Each turn takes all n-grams of one context.
    while begin < len(rows):
        end, total, left, kept = begin, 0, 0, np.zeros(3, np.int64)
        # Add up the counts of the context, and count those seen once, twice and more often.
        while end < len(rows) and rows[end, 0] == rows[begin, 0] and rows[end, 1] >> _BITS == rows[begin, 1] >> _BITS:
            count = int(np.int64(rows[end, 2] >> _ONE))
            total += count
            if rows[end, 2] & _ONE:
                left += count
            else:
                kept[min(count, 3) - 1] += 1
            end += 1
        if kept[0] + kept[1] + kept[2]:
            taken = discounts[0] * kept[0] + discounts[1] * kept[1] + discounts[2] * kept[2] + left
            shares[1] = taken / total
            backoffs[contexts, 0], backoffs[contexts, 1] = rows[begin, 0], rows[begin, 1] >> _BITS << _BITS
            backoffs[contexts, 2] = bits[1]
            contexts += 1
            # Subtract the discount of its count from each n-gram that is not pruned.
            for at in range(begin, end):
                if rows[at, 2] & _ONE:
                    continue
                count = int(np.int64(rows[at, 2] >> _ONE))
                shares[0] = (count - discounts[min(count, 3) - 1]) / total
                high, low = rows[at, 0], rows[at, 1]
                out[written, 0] = (low & _WORD) << _TWO_WORDS | high >> _BITS
                out[written, 1] = (high & _WORD) << _BITS | low >> _BITS
                out[written, 2], out[written, 3] = bits[0], bits[1]
                written += 1
        begin = end
    return written, contexts


@njit(nogil=True, cache=True)
def interpolate(rows: Array, at: int, order: int, shorter: Array, place: int, first: int) -> tuple[int, int]:
    """Adds to the own probability of n-grams, from row `at` on, their share of the probability of the n-gram without
    the first word, which is in `shorter`, from `place` on; the share is replaced by the number of that n-gram, counted
    from `first`. Returns how far it came in both: one is at its end, or a row has no shorter n-gram (then `at` stays).
    """
    own = rows.view(np.float64)
    theirs = shorter.view(np.float64)
    # Merge both sorted lists.
    while at < len(rows) and place < len(shorter):
        high, low = last_words(rows[at, 0], rows[at, 1], order - 1)
        if shorter[place, 0] == high and shorter[place, 1] == low:
            own[at, 2] += own[at, 3] * theirs[place, 2]
            rows[at, 3] = first + place
            at += 1
        elif shorter[place, 0] < high or (shorter[place, 0] == high and shorter[place, 1] < low):
            place += 1
        else:
            break
    return at, place


@njit(nogil=True, cache=True)
def take_backoffs(rows: Array, at: int, backoffs: Array, place: int, found: Array) -> tuple[int, int]:
    """Writes the values in `backoffs` of n-grams, both sorted, to `found` (float64); others keep their values."""
    shares = backoffs.view(np.float64)
    # Merge both sorted lists; an n-gram without backoff keeps its value.
    while at < len(rows) and place < len(backoffs):
        if backoffs[place, 0] == rows[at, 0] and backoffs[place, 1] == rows[at, 1]:
            found[at] = shares[place, 2]
            at += 1
            place += 1
        elif backoffs[place, 0] < rows[at, 0] or (
            backoffs[place, 0] == rows[at, 0] and backoffs[place, 1] < rows[at, 1]
        ):
            place += 1
        else:
            at += 1
    return at, place


def discounts_of(counts: Array) -> Array:
    """Returns the discounts for counts of 1, of 2, and of more, from the numbers of n-grams of an order with a count of
    1 to 4.

    They are 0.5, 1 and 1.5 if the counts of too little text give none (`lmplz --discount_fallback` does the same).
    """
    fallback = np.array([0.5, 1.0, 1.5])
    if (counts[:COUNTED] <= 0).any():
        return fallback
    one, two, three, four = (float(count) for count in counts[:COUNTED])
    share = one / (one + 2 * two)
    found = np.array([1 - 2 * share * two / one, 2 - 3 * share * three / two, 3 - 4 * share * four / three])
    if (found < 0).any() or (found > np.array([1.0, 2.0, 3.0])).any():
        return fallback
    return found
