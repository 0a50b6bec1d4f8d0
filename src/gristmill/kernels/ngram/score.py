"""What a language model says of texts: the sum of the logarithms of the probabilities of their words.

Every look-up is a line of memory from anywhere. So words are taken by the hundred: all places are known, and asked for,
some words before they are read, and the processor has many on the way at once.
"""

from typing import Any, NamedTuple

import numpy as np
from numba import njit

from gristmill.kernels.hash.splitmix import mix
from gristmill.kernels.memory import address_of
from gristmill.kernels.memory_blocks import prefetch
from gristmill.kernels.ngram.cut import LONGEST, ROOM, ROOM_BYTES, CutTables, cut_some
from gristmill.kernels.ngram.tables import STEPS, Tables, find, longer, place_of
from gristmill.kernels.text.fasttext_output import exponential
from gristmill.kernels.text.words import hash_bytes

Array = np.ndarray[Any, Any]

_AHEAD = 12
"""Words between asking for a line and reading it."""
_ORDERS = 8
_UNKNOWN, _BEGIN, _END = range(3)
_LOW = np.uint64(0xFFFF)
_16 = np.uint64(16)
_EMPTY = np.uint64(0)
_TOKENS = 3 * ROOM + 16
"""Words and ends of sentences that are scored at once; the last ones of before stand in front of them."""


class Scratch(NamedTuple):
    """Arrays that `score` writes to."""

    words: Array
    spans: Array
    hashes: Array
    known: Array
    mixed: Array


def scratch() -> Scratch:
    return Scratch(
        np.empty(ROOM_BYTES, np.uint8),
        np.empty((ROOM, 3), np.int64),
        np.zeros(_TOKENS, np.uint64),
        np.empty(_TOKENS, np.int64),
        np.empty((_TOKENS, _ORDERS), np.uint64),
    )


@njit(nogil=True, cache=True, forceinline=True)
def _ask(slots: int, shape: Array, order: int, mixed: np.uint64) -> None:
    prefetch(slots, 8 * (shape[order, 0] + place_of(mixed, shape[order, 1])))


@njit(nogil=True, cache=True)
def _mix_longer(at: int, orders: int, hashes: Array, known: Array, mixed: Array, shape: Array, slots: int) -> None:
    """Hashes of the n-grams that end with a token, and a request for their lines."""
    hashed = hashes[at]
    for order in range(1, min(orders, known[at] + 1)):
        hashed = longer(hashed, hashes[at - order])
        mixed[at, order] = mix(hashed)
        _ask(slots, shape, order, mixed[at, order])


@njit(nogil=True, cache=True)
def _score_tokens(
    count: int, hashes: Array, known: Array, mixed: Array, tables: Tables, carry: Array, slots: int
) -> tuple[int, int]:
    """Scores tokens _ORDERS to _ORDERS + count of `hashes`; before them stand the last ones of before. known[i]: how
    many tokens of its sentence are before a token; -1: it is the beginning of one, and is not scored.

    `carry`: how long an n-gram ends with the last token, and the backoffs of those that do. The sum of the steps, and
    how many words the model does not know.
    """
    shape, array = tables.shape, tables.slots
    orders = len(shape)
    unknown = tables.special[_UNKNOWN]
    first, places, walk = shape[0, 0], shape[0, 1], shape[0, 2]
    begin, end = _ORDERS, _ORDERS + count
    for at in range(begin, end):
        mixed[at, 0] = mix(hashes[at])
        _ask(slots, shape, 0, mixed[at, 0])
    missing = 0
    for at in range(begin, end):
        slot = find(array, first, places, walk, mixed[at, 0])
        if slot == _EMPTY:
            missing += 1
            hashes[at] = unknown
            slot = find(array, first, places, walk, mix(unknown))
        mixed[at, 0] = slot
    for at in range(begin, min(begin + _AHEAD, end)):
        _mix_longer(at, orders, hashes, known, mixed, shape, slots)
    total = 0
    for at in range(begin, end):
        if at + _AHEAD < end:
            _mix_longer(at + _AHEAD, orders, hashes, known, mixed, shape, slots)
        slot = mixed[at, 0]
        before = carry[0]
        context = min(known[at], orders - 1)
        carry[0] = 0
        length = 0
        while True:
            best = slot
            back = np.int64(np.int16(slot & _LOW))
            length += 1
            if length > context or length > before:
                # No n-gram is longer than its context, with one word more, is.
                break
            slot = find(array, shape[length, 0], shape[length, 1], shape[length, 2], mixed[at, length])
            if slot == _EMPTY:
                break
            carry[_ORDERS + length] = back
        if known[at] >= 0:
            total += np.int64(best >> _16 & _LOW)
            for order in range(length, min(before, context) + 1):
                total -= carry[order]
        carry[_ORDERS + length] = back
        for order in range(1, length + 1):
            carry[order] = carry[_ORDERS + order]
        carry[0] = length
    return total, missing


@njit(nogil=True, cache=True)
def score(data: Array, begins: Array, ends: Array, tables: Tables, cut: CutTables, spare: Scratch) -> Array:
    """Of each text, from begin to end: the sum of the logarithms to the base 10 of the probabilities of its words and
    ends of sentences, in steps, down; how many these are; how many words the model does not know. int64, [texts, 3].
    """
    spans, hashes, known, mixed = spare.spans, spare.hashes, spare.known, spare.mixed
    found = np.zeros((len(begins), 3), np.int64)
    text, bytes_, array = address_of(data), address_of(spare.words), address_of(tables.slots)
    addresses = (
        address_of(cut.plain),
        address_of(cut.pages),
        address_of(cut.classes),
        address_of(cut.lower_pages),
        address_of(cut.lowers),
    )
    carry = np.zeros(2 * _ORDERS, np.int64)
    begin_of, end_of = tables.special[_BEGIN], tables.special[_END]
    for row in range(len(begins)):
        at, stop = begins[row], ends[row]
        is_first, since = True, -1
        while at < stop:
            at, count, is_first = cut_some(text, at, stop, addresses, bytes_, spans, is_first)
            tokens = _ORDERS
            for word in range(count + 1):
                is_break = word < count and spans[word, 2] != 0
                if since >= 0 and (is_break or (word == count and at >= stop)):
                    hashes[tokens], known[tokens] = end_of, since
                    found[row, 1] += 1
                    tokens += 1
                    since = -1
                if word == count:
                    break
                if is_break:
                    hashes[tokens], known[tokens] = begin_of, -1
                    tokens += 1
                    since = 1
                begin, end = spans[word, 0], spans[word, 1]
                hashes[tokens] = hash_bytes(bytes_, begin, end) if end - begin <= LONGEST else np.uint64(0)
                known[tokens] = since
                found[row, 1] += 1
                since += 1
                tokens += 1
            total, missing = _score_tokens(tokens - _ORDERS, hashes, known, mixed, tables, carry, array)
            found[row, 0] += total
            found[row, 2] += missing
            for place in range(_ORDERS):
                hashes[place] = hashes[tokens - _ORDERS + place]
    return found


@njit(nogil=True, cache=True, error_model="numpy")
def perplexities(found: Array) -> Array:
    """10 ** (mean of what `score` found), float64; NaN for a text without a word."""
    result = np.empty(len(found), np.float64)
    for row in range(len(found)):
        if found[row, 1] == 0:
            result[row] = np.nan
        else:
            mean = found[row, 0] / np.float64(found[row, 1] * STEPS)
            result[row] = exponential(mean * 2.302585092994046)
    return result
