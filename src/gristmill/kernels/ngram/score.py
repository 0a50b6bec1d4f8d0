"""Scores texts with a language model: the sum of the logarithms of the probabilities of their words.

Every lookup reads a random cache line. So words are handled by the hundred, and order by order: the lookups of one
order do not wait for each other, no branch depends on their results, and the processor has many in flight at once
(prefetching made it no faster).
"""

from typing import Any, NamedTuple

import numpy as np

from gristmill.kernels.compile import njit
from gristmill.kernels.hash.splitmix import mix
from gristmill.kernels.memory import Bytes, borrow, view
from gristmill.kernels.ngram.cut import LONGEST, ROOM, ROOM_BYTES, CutTables, cut_some
from gristmill.kernels.ngram.tables import STEPS, Tables, find, longer
from gristmill.kernels.text.fasttext_output import exponential
from gristmill.kernels.text.words import hash_bytes

Array = np.ndarray[Any, Any]

_BEFORE = 8
"""Tokens in front of those that are scored at once: no n-gram is longer."""
_TOKENS = 3 * ROOM + 2 * _BEFORE
_LOW = np.uint64(0xFFFF)
_16 = np.uint64(16)
_EMPTY = np.uint64(0)
_ONE = np.uint64(1)


class Scratch(NamedTuple):
    """Arrays that `score` writes to; all but the first two are by token. The last tokens of the previous block are in
    front.
    """

    words: Array
    spans: Array
    hashes: Array
    """uint64: the hash of the word."""
    rolled: Array
    """uint64: the hash of the n-gram that is looked up."""
    lengths: Array
    """int64: the length of the longest known n-gram that ends with the token."""
    steps: Array
    """int64: the probability of that n-gram."""
    left: Array
    """int64, [tokens, 8]: the sum of the backoffs of these n-grams, up to each length."""
    mixed: Array
    """uint64: the mixed hashes of the n-grams that are looked up, consecutively."""
    waiting: Array
    """uint64: tokens whose next longer n-gram is looked up."""


def scratch() -> Scratch:
    return Scratch(
        np.empty(ROOM_BYTES, np.uint8),
        np.empty((ROOM, 3), np.int64),
        np.zeros(_TOKENS, np.uint64),
        np.zeros(_TOKENS, np.uint64),
        np.zeros(_TOKENS, np.int64),
        np.zeros(_TOKENS, np.int64),
        np.zeros((_TOKENS, 8), np.int64),
        np.zeros(_TOKENS, np.uint64),
        np.zeros(_TOKENS, np.uint64),
    )


@njit(nogil=True, cache=True)
def _look_up(
    tokens: int, slots: Array, shape: Array, unknown: np.uint64, begin: np.uint64, spare: Scratch, waiting: Array
) -> int:
    """Finds the longest n-gram that ends with each token, from the first new one on; returns the number of unknown
    words.

    It goes order by order: a longer n-gram exists only if the two that are one word shorter do. Indexes are unsigned:
    each use of a signed one checks whether it counts from the end.
    """
    hashes, rolled, lengths = borrow(spare.hashes), borrow(spare.rolled), borrow(spare.lengths)
    steps, left, mixed, queue = borrow(spare.steps), borrow(spare.left), borrow(spare.mixed), borrow(waiting)
    table = view(slots)
    first, places, walk = shape[0, 0], shape[0, 1], shape[0, 2]
    begun, ended = np.uint64(_BEFORE), np.uint64(tokens)
    for at in range(begun, ended):
        rolled[at] = mix(hashes[at])
    missing = 0
    count = np.uint64(0)
    # Single words: an unknown one is scored as <unk>, and no n-gram is looked up for the begin of a sentence.
    for at in range(begun, ended):
        slot = find(table, first, places, walk, rolled[at])
        if slot == _EMPTY:
            missing += 1
            hashes[at] = unknown
            slot = find(table, first, places, walk, mix(unknown))
        rolled[at] = hashes[at]
        lengths[at] = 1
        steps[at] = np.int64(slot >> _16 & _LOW)
        left[at, _ONE] = np.int64(np.int16(slot & _LOW))
        queue[count] = at
        count += np.uint64(hashes[at] != begin)
    # Each turn looks for n-grams that are one word longer.
    for order in range(1, len(shape)):
        first, places, walk = shape[order, 0], shape[order, 1], shape[order, 2]
        back = np.uint64(order)
        kept = np.uint64(0)
        # Hash those whose shorter context exists, first all of them, so that the lookups overlap.
        for place in range(count):
            at = queue[place]
            rolled[at] = longer(rolled[at], hashes[at - back])
            mixed[kept] = mix(rolled[at])
            queue[kept] = at
            kept += np.uint64(lengths[at - _ONE] >= order)
        count, kept = kept, np.uint64(0)
        # Look them up; those that exist wait for the next order.
        for place in range(count):
            at = queue[place]
            slot = find(table, first, places, walk, mixed[place])
            is_there = slot != _EMPTY  # no branch: it would be unpredictable
            lengths[at] += np.int64(is_there)
            steps[at] = np.int64(slot >> _16 & _LOW) if is_there else steps[at]
            left[at, back + _ONE] = left[at, back] + np.int64(np.int16(slot & _LOW))
            queue[kept] = at
            kept += np.uint64(is_there)
        count = kept
    return missing


@njit(nogil=True, cache=True)
def _sum_up(
    tokens: int, orders: int, begin: np.uint64, hashes: Array, lengths: Array, steps: Array, left: Array
) -> int:
    """Sums the steps of all tokens: those of their n-grams, and the backoffs of the longer contexts."""
    total = 0
    # The backoffs of the contexts that are longer than the n-gram found are part of its probability.
    for at in range(_BEFORE, tokens):
        if hashes[at] != begin:
            longest = max(min(lengths[at - 1], orders - 1), lengths[at] - 1)
            total += steps[at] - left[at - 1, longest] + left[at - 1, lengths[at] - 1]
    return total


@njit(nogil=True, cache=True)
def _keep_last(tokens: int, hashes: Array, lengths: Array, left: Array) -> None:
    """Moves the last tokens to the front, before the next ones."""
    # These are the words before the next token.
    for place in range(_BEFORE):
        hashes[place] = hashes[tokens - _BEFORE + place]
        lengths[place] = lengths[tokens - _BEFORE + place]
    for length in range(left.shape[1]):
        left[_BEFORE - 1, length] = left[tokens - 1, length]


@njit(nogil=True, cache=True)
def _score_text(
    text: Bytes, at: int, stop: int, tables: Tables, cut: CutTables, bytes_: Bytes, spare: Scratch
) -> tuple[int, int, int]:
    """Returns for one text: steps, words and sentence ends, unknown words."""
    spans, hashes = spare.spans, spare.hashes
    unknown, begin_of, end_of = tables.special[0], tables.special[1], tables.special[2]
    is_first, is_open = True, False
    total = words = missing = 0
    # Each turn scores up to ROOM words.
    while at < stop:
        at, count, is_first = cut_some(text, at, stop, cut, bytes_, spans, is_first)
        tokens = _BEFORE
        # Add the begin and end of each sentence.
        for word in range(count):
            if spans[word, 2]:
                if is_open:
                    hashes[tokens] = end_of
                    words += 1
                    tokens += 1
                hashes[tokens] = begin_of
                tokens += 1
                is_open = True
            begin, end = spans[word, 0], spans[word, 1]
            hashes[tokens] = hash_bytes(bytes_, begin, end) if end - begin <= LONGEST else np.uint64(0)
            tokens += 1
        words += count
        if is_open and at >= stop:
            hashes[tokens] = end_of
            words += 1
            tokens += 1
        missing += _look_up(tokens, tables.slots, tables.shape, unknown, begin_of, spare, spare.waiting)
        total += _sum_up(tokens, len(tables.shape), begin_of, hashes, spare.lengths, spare.steps, spare.left)
        _keep_last(tokens, hashes, spare.lengths, spare.left)
    return total, words, missing


@njit(nogil=True, cache=True)
def score(data: Array, begins: Array, ends: Array, tables: Tables, cut: CutTables, spare: Scratch) -> Array:
    """Returns for each text, from begin to end: the sum of the base-10 logarithms of the probabilities of its words and
    sentence ends, in steps, negated; the number of those; and the number of unknown words. int64, [texts, 3].
    """
    found = np.zeros((len(begins), 3), np.int64)
    views = view(cut)
    for row in range(len(begins)):
        found[row] = _score_text(view(data), begins[row], ends[row], tables, views, view(spare.words), spare)
    return found


@njit(nogil=True, cache=True, error_model="numpy")
def perplexities(found: Array) -> Array:
    """Returns 10 ** (mean of the result of `score`), float64; NaN for a text without a word."""
    result = np.empty(len(found), np.float64)
    # Scores are decimal logarithms in STEPS; 2.302... is the natural logarithm of ten.
    for row in range(len(found)):
        if found[row, 1] == 0:
            result[row] = np.nan
        else:
            mean = found[row, 0] / np.float64(found[row, 1] * STEPS)
            result[row] = exponential(mean * 2.302585092994046)
    return result
