"""Reads lines of ARPA files, the common format of n-gram language models: probability, words, backoff."""

from typing import Any

import numpy as np

from gristmill.kernels.compile import njit
from gristmill.kernels.hash.splitmix import mix
from gristmill.kernels.memory import Bytes, view
from gristmill.kernels.ngram.tables import longer
from gristmill.kernels.text.ascii import (
    BACKSLASH,
    CR,
    DOT,
    GREATER,
    HYPHEN,
    LESS,
    LF,
    LOWER_E,
    NINE,
    PLUS,
    SP,
    TAB,
    ZERO,
)
from gristmill.kernels.text.words import hash_bytes

Array = np.ndarray[Any, Any]

FINE, NO_NUMBER, NO_WORD, TOO_MANY, TOO_LARGE = range(5)
"""The faults of a line."""
MOST_ORDER = 8
_TENS = np.array([10.0**power for power in range(23)])


@njit(nogil=True, cache=True, error_model="numpy")
def _number(data: Bytes, begin: int, end: int) -> tuple[float, bool]:
    """Returns a decimal number, and whether it is one. 15 digits count; after them only the magnitude does."""
    at = begin
    sign = 1.0
    if at < end and (data[at] == HYPHEN or data[at] == PLUS):
        sign = -1.0 if data[at] == HYPHEN else 1.0
        at += 1
    value, digits, scale, seen, is_behind = 0.0, 0, 0, False, False
    # Digits, with one point among them.
    while at < end:
        byte = data[at]
        if byte == DOT and not is_behind:
            is_behind = True
        elif ZERO <= byte <= NINE:
            seen = True
            if digits < 15:
                value = value * 10.0 + (byte - 48)
                digits += 1 if value > 0.0 else 0
                scale -= 1 if is_behind else 0
            else:
                scale += 0 if is_behind else 1
        else:
            break
        at += 1
    if seen and at < end and data[at] | 32 == LOWER_E:
        at += 1
        lower = at < end and data[at] == HYPHEN
        if at < end and (data[at] == HYPHEN or data[at] == PLUS):
            at += 1
        exponent, seen = 0, False
        # The exponent is bounded, so it cannot overflow.
        while at < end and ZERO <= data[at] <= NINE:
            exponent = min(exponent * 10 + data[at] - 48, 10_000)
            seen = True
            at += 1
        scale += -exponent if lower else exponent
    if not seen or at != end:
        return 0.0, False
    # Divide by exact powers of ten.
    while scale < 0 and value != 0.0:
        value /= _TENS[min(-scale, 22)]
        scale += min(-scale, 22)
    # Multiply by exact powers of ten; a number that large is refused anyway.
    while scale > 0 and value < 1e30 and value != 0.0:
        value *= _TENS[min(scale, 22)]
        scale -= min(scale, 22)
    return sign * value, True


@njit(nogil=True, cache=True, forceinline=True)
def _is_gap(byte: int) -> bool:
    return byte == SP or byte == TAB or byte == CR


@njit(nogil=True, cache=True)
def _is_unknown(text: Bytes, begin: int, end: int) -> bool:
    """Whether it is <unk> or <UNK>."""
    if end - begin != 5 or text[begin] != LESS or text[end - 1] != GREATER:
        return False
    middle = text[begin + 1] << 16 | text[begin + 2] << 8 | text[begin + 3]
    return middle | 0x202020 == 0x756E6B


@njit(nogil=True, cache=True)
def read_ngrams(
    data: Array, at: int, order: int, most: int, hashes: Array, numbers: Array, spans: Array, special: Array
) -> tuple[int, int, int, int]:
    """Reads lines from byte `at` on until one is empty or begins with a backslash, `most` have been read, or the data
    ends without the end of a line.

    For each line: the mixed hash of its n-gram, its probability and backoff (numbers: float64, [most, 2]), and, for
    single words, their spans. Returns where to continue, the number of n-grams, the number of lines, and the fault of
    the next line. `special` are the hashes of <unk>, <s> and </s>, which variants like <UNK> are read as.
    """
    text = view(data)
    read = lines = 0
    begins, ends = np.empty(MOST_ORDER + 3, np.int64), np.empty(MOST_ORDER + 3, np.int64)
    # Each turn reads one line.
    while read < most:
        stop = at
        while stop < len(data) and text[stop] != LF:
            stop += 1
        if stop == len(data):
            break
        fields, place = 0, at
        # Split the line at spaces and tabs.
        while True:
            while place < stop and _is_gap(text[place]):
                place += 1
            if place == stop:
                break
            if fields == order + 2:
                return at, read, lines, TOO_MANY
            begins[fields] = place
            while place < stop and not _is_gap(text[place]):
                place += 1
            ends[fields] = place
            fields += 1
        if fields == 0 or (text[begins[0]] == BACKSLASH and fields == 1):
            break
        probability, is_number = _number(text, begins[0], ends[0])
        if not is_number:
            return at, read, lines, NO_NUMBER
        if fields < order + 1:
            return at, read, lines, NO_WORD
        backoff = 0.0
        if fields == order + 2:
            backoff, is_number = _number(text, begins[order + 1], ends[order + 1])
            if not is_number:
                return at, read, lines, NO_NUMBER
        if probability > 0.0 or not abs(backoff) < 1e6:
            return at, read, lines, TOO_LARGE
        hashed = np.uint64(0)
        # The hash of an n-gram begins with its last word.
        for word in range(order, 0, -1):
            one = hash_bytes(text, begins[word], ends[word])
            if _is_unknown(text, begins[word], ends[word]):
                one = special[0]
            hashed = one if word == order else longer(hashed, one)
        hashes[read] = mix(hashed)
        numbers[read, 0], numbers[read, 1] = probability, backoff
        if order == 1:
            spans[read, 0], spans[read, 1] = begins[1], ends[1]
        read += 1
        lines += 1
        at = stop + 1
    return at, read, lines, FINE
