"""Finds places in texts that may be personal data or a secret, in one pass over the bytes.

A *candidate* is a span with a certain shape: an `@` with a name before it, digits in groups, hexadecimal groups with
colons, a word that begins like an API key. The caller decides what it is, with checksums and context. Candidates are
rare, so the cost is that of the pass: 64 bytes at once become bits (`@`, digits, colons, dashes, words), and only set
bits are examined.

Every search around a place is bounded, or ends where the last one of its kind ended: no byte is read more than a
constant number of times, whatever the text. The shapes are in shapes.py.
"""

from typing import Any

import numpy as np

from gristmill.kernels.compile import njit
from gristmill.kernels.memory import trailing_zeros, view
from gristmill.kernels.memory_blocks import BLOCK, bytes_in, word_bits
from gristmill.kernels.scrub import shapes
from gristmill.kernels.text import ascii as sign

Array = np.ndarray[Any, Any]

_ONE = np.uint64(1)
_TOP = np.uint64(1 << 63)
_TOP_3 = np.uint64(7 << 61)
_2, _3, _61, _62, _63 = np.uint64(2), np.uint64(3), np.uint64(61), np.uint64(62), np.uint64(63)


@njit(nogil=True, cache=True)
def _put(found: Array, count: int, row: int, shape: tuple[int, int, int]) -> tuple[Array, int]:
    """Adds a candidate."""
    if count == len(found):
        found = np.concatenate((found, np.empty((count, 4), np.int64)))
    found[count, 0], found[count, 1], found[count, 2], found[count, 3] = row, shape[0], shape[1], shape[2]
    return found, count + 1


@njit(nogil=True, cache=True)
def _scan(
    text: Array,
    row: int,
    begin: int,
    end: int,
    classes: Array,
    opened: Array,
    edge: Array,
    long_words: bool,
    found: Array,
    count: int,
) -> tuple[Array, int]:
    data, kinds, table = view(text), view(classes), view(opened)
    size = len(text)
    at = begin
    covered, last_at, last_colon = begin, begin, begin
    word, digit = False, False  # whether the byte before the block is a word byte
    last = np.uint64(0)  # `words` of the block before
    # A block of 64 bytes becomes masks, with a bit for each byte; each kind of candidate has seeds, which are visited
    # in turn.
    while at < end:
        block, place = data, at
        if at + BLOCK > size:
            for k in range(BLOCK):
                edge[k] = data[at + k] if at + k < size else 0
            block, place = view(edge), 0
        words = word_bits(block, place)
        digits = bytes_in(block, place, 0, 48, 11)  # and `:`, which is not part of a word
        signs = bytes_in(block, place, 0x24, 100, 1)  # `@` and backticks, and the letter d
        dashes = bytes_in(block, place, 0, 45, 1)
        closers = bytes_in(block, place, 0x74, 0x7D, 1) & ~words  # `)`, `]`, `}`, and `-`, `=` and two control signs
        limit = min(BLOCK, end - at)
        if limit < BLOCK:
            mask = (_ONE << np.uint64(limit)) - _ONE
            words &= mask
            digits &= mask
            signs &= mask
            dashes &= mask
        colons, digits = digits & ~words, digits & words
        signs, ds = signs & ~words, signs & words
        runs = words & (words >> _ONE)
        runs &= runs >> np.uint64(2)
        runs &= runs >> np.uint64(4)
        runs &= runs >> np.uint64(2)  # ten word bytes: one side of every word of twenty that a block boundary splits
        seeds = digits & ~(digits << _ONE | np.uint64(digit)) | runs & ~(runs << _ONE)
        # Digits at the begin of a run, and runs of ten word bytes: numbers and long words.
        while seeds:
            here = at + trailing_zeros(seeds)
            seeds &= seeds - _ONE
            if here < covered:
                continue
            if here > begin and data[here - 1] == sign.PERCENT:
                shape = shapes.at_sign(data, here - 1, 3, begin, end, kinds, begin)
                if shape[0] >= 0:
                    found, count = _put(found, count, row, shape)
            rest = ~words >> np.uint64(here - at)
            if rest and here > at and not digits >> np.uint64(here - at) & (rest & (~rest + _ONE)) - _ONE:
                stop = here + trailing_zeros(rest)
                if stop - here < shapes.MIN_TOKEN:  # a word of the block without a digit, as most identifiers
                    covered = stop
                    continue
            start = shapes.skip_back(data, here, covered, kinds, shapes.WORD)
            stop = shapes.skip(data, start, end, kinds, shapes.DIGIT)
            if stop > start and (stop == end or not shapes.is_in(kinds, data[stop], shapes.WORD)):
                shape = shapes.number_at(data, start, stop, begin, end, kinds)
            else:
                stop = shapes.skip(data, max(stop, here), end, kinds, shapes.WORD)
                shape = shapes.word_at(data, start, stop, begin, end, kinds, table, long_words)
            covered = max(stop, shape[2])
            if shape[0] >= 0:
                found, count = _put(found, count, row, shape)
        # Signs of an e-mail address.
        while signs:
            here = at + trailing_zeros(signs)
            signs &= signs - _ONE
            if data[here] == sign.AT_SIGN:
                shape = shapes.at_sign(data, here, 1, begin, end, kinds, last_at)
                last_at = here + 1
                if shape[0] >= 0:
                    found, count = _put(found, count, row, shape)
        inner = colons & (words << _ONE | np.uint64(word)) & (words >> _ONE | colons >> _ONE | _TOP)
        # Colons between word bytes: groups of hexadecimal digits.
        while inner:
            here = at + trailing_zeros(inner)
            inner &= inner - _ONE
            after = data[here + 1] if here + 1 < end else 0
            if here >= last_colon and (after == sign.COLON or shapes.is_in(kinds, after, shapes.WORD)):
                shape = shapes.colons_at(data, here, max(begin, last_colon), end, kinds)
                last_colon = shape[2]
                if shape[0] >= 0:
                    found, count = _put(found, count, row, shape)
        pairs = dashes & (dashes >> _ONE | _TOP) & ~(dashes << _ONE)
        # Pairs of hyphens: the begin of a PEM block.
        while pairs:
            here = at + trailing_zeros(pairs)
            pairs &= pairs - _ONE
            if (here == begin or data[here - 1] != sign.HYPHEN) and shapes.is_key(data, here, end):
                found, count = _put(found, count, row, (shapes.KEY, here, here + 11))
        # `dot` is a word of three letters; after `at`, of two, a bracket closes
        one, two, three = words << _ONE | last >> _63, words << _2 | last >> _62, words << _3 | last >> _61
        spelt = ds & ~one & (words >> _2 | _TOP_3) & ~(words >> _3)
        ats = one & two & ~three & ~words & (closers | closers >> _ONE | _TOP)
        # Addresses with `dot` and `at` written as words.
        while spelt | ats:
            here = at + trailing_zeros(spelt) if spelt else at + trailing_zeros(ats) - 2
            ats &= ats - _ONE if not spelt else ats
            spelt &= spelt - _ONE if spelt else spelt
            if shapes.is_spelt(data, here, begin, end, kinds):
                found, count = _put(found, count, row, (shapes.SPELT, here, here + 2))
        last = words
        word = words >> np.uint64(63) != 0
        digit = digits >> np.uint64(63) != 0
        at += BLOCK
    return found, count


@njit(nogil=True, cache=True)
def find_candidates(text: Array, offsets: Array, classes: Array, opened: Array, edge: Array, long_words: bool) -> Array:
    """Returns rows of (row, kind, start, stop), bytes of `text`, row by row.

    `classes`: CLASSES; `opened`: `openings(prefixes)`; `edge`: uint8, 64 bytes of scratch.
    """
    found = np.empty((64, 4), np.int64)
    count = 0
    # Rows are independent of each other.
    for row in range(len(offsets) - 1):
        begin, end = int(offsets[row]), int(offsets[row + 1])
        found, count = _scan(text, row, begin, end, classes, opened, edge, long_words, found, count)
    return found[:count]
