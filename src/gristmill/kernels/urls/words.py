"""Finds words in URLs: whole words, pairs of suspicious words, and letters anywhere.

A URL is searched as host, path and query without scheme, user name and port, with ASCII letters in lower case and `%XX`
decoded (non-Latin words are encoded). Its words are the runs of ASCII letters, digits and bytes above 127.
"""

from typing import Any

import numpy as np

from gristmill.kernels.compile import njit
from gristmill.kernels.hash.hashset import (
    SEED,
    HashSet,
    count_lines,
    feed,
    finish,
    hash_folded,
    hash_span,
    hex_digit,
    label_of,
    lower,
    next_entry,
)
from gristmill.kernels.memory import Bytes, view
from gristmill.kernels.text.ascii import COMMA, LOWER_A, LOWER_Z, NINE, PERCENT, SP, ZERO
from gristmill.kernels.urls.parts import HOST, HOST_END, REST, REST_END

Array = np.ndarray[Any, Any]

MOST_SOFT = 16
"""The most different words that can be required at once."""


@njit(nogil=True, cache=True)
def _fold(data: Bytes, begin: int, end: int, out: Array, size: int) -> int:
    """Appends a span to `out` in the form that is searched; returns the new size."""
    at = begin
    # Resolve escapes, so that they cannot hide a word.
    while at < end:
        byte = data[at]
        at += 1
        if byte == PERCENT and at + 1 < end:
            high, low = hex_digit(data[at]), hex_digit(data[at + 1])
            if high >= 0 and low >= 0:
                byte = high << 4 | low
                at += 2
        out[size] = lower(byte)
        size += 1
    return size


@njit(nogil=True, cache=True)
def _in_word(byte: int) -> bool:
    return LOWER_A <= byte <= LOWER_Z or ZERO <= byte <= NINE or byte >= 128


@njit(nogil=True, cache=True)
def hash_tokens(data: Array) -> tuple[Array, int]:
    """Returns place and mark of every word of a list, in lower case, and the number of entries that are not one word:
    no URL has those.
    """
    hashes = np.empty((count_lines(data), 2), np.uint64)
    text, stop, at, count, faults = view(data), len(data), 0, 0, 0
    # Each turn takes one line of the list.
    while at < stop:
        begin, end, at = next_entry(text, at, stop)
        good = True
        for place in range(begin, end):
            good = good and _in_word(lower(text[place]))
        if not good:
            faults += 1
        elif begin < end:
            hashes[count, 0], hashes[count, 1] = hash_folded(text, begin, end)
            count += 1
    return hashes[:count], faults


@njit(nogil=True, cache=True)
def _find(
    data: Array, spans: Array, marks: Array, labels: Array, wanted: int, folded: Array
) -> tuple[Array, Array, Array]:
    found = np.full(len(spans), -1, np.int32)
    offsets = np.zeros(len(spans) + 1, np.int32)
    texts = np.empty(len(data) + 2 * len(spans) * MOST_SOFT, np.uint8)
    seen = np.empty((wanted, 3), np.uint64)
    text, form = view(data), view(folded)
    written = 0
    # Rows are independent of each other.
    for row in range(len(spans)):
        size = _fold(text, spans[row, HOST], spans[row, HOST_END], folded, 0)
        size = _fold(text, spans[row, REST], spans[row, REST_END], folded, size)
        count = 0
        at = 0
        # Each turn takes one word of the URL, until enough different ones of the list are found.
        while at < size and count < wanted:
            while at < size and not _in_word(folded[at]):
                at += 1
            begin = at
            while at < size and _in_word(folded[at]):
                at += 1
            if begin == at:
                break
            place, mark = hash_span(form, begin, at)
            label = label_of(marks, labels, place, mark)
            if label < 0:
                continue
            new = True
            for other in range(count):
                new = new and seen[other, 0] != mark
            if new:
                seen[count, 0], seen[count, 1], seen[count, 2] = mark, np.uint64(begin), np.uint64(at)
                found[row] = label if count == 0 else found[row]
                count += 1
        if count < wanted:
            found[row] = -1
        else:
            # The words that were found are written, separated by commas.
            for other in range(count):
                if other:
                    texts[written], texts[written + 1] = COMMA, SP
                    written += 2
                # Copy the word.
                for place_of in range(np.int64(seen[other, 1]), np.int64(seen[other, 2])):
                    texts[written] = folded[place_of]
                    written += 1
        offsets[row + 1] = written
    return found, offsets, texts[:written].copy()


def _room_for_one(data: Array) -> Array:
    """Returns the bytes that any one URL of `data` takes in the form that is searched, plus one."""
    return np.empty(len(data) + 1, np.uint8)


def find_words(words: HashSet, data: Array, spans: Array, wanted: int = 1) -> tuple[Array, Array, Array]:
    """Returns for each URL with `wanted` different words of a set the list of the first word, or -1, and the words as
    text (offsets and bytes of an Arrow array).
    """
    found, offsets, texts = _find(data, spans, words.marks, words.labels, wanted, _room_for_one(data))
    return found, offsets, texts


@njit(nogil=True, cache=True)
def openings(data: Array, pairs: Array, lengths: Array) -> None:
    """Marks the first two bytes of the entries of a list (bool[65536]), and their lengths (bool[256]).

    An entry of more than 255 bytes is too long for a URL, and is not marked.
    """
    text, stop, at = view(data), len(data), 0
    # Each turn takes one line of the list.
    while at < stop:
        begin, end, at = next_entry(text, at, stop)
        size = end - begin
        if 0 < size < 256:
            lengths[size] = True
            first = lower(text[begin]) << 8
            if size > 1:
                pairs[first | lower(text[begin + 1])] = True
            else:
                pairs[first : first + 256] = True


@njit(nogil=True, cache=True)
def _find_inside(
    data: Array, spans: Array, marks: Array, labels: Array, pairs: Array, lengths: Array, folded: Array
) -> tuple[Array, Array, Array]:
    found = np.full(len(spans), -1, np.int32)
    offsets = np.zeros(len(spans) + 1, np.int32)
    texts = np.empty(len(data), np.uint8)
    text, form = view(data), view(folded)
    longest = 0
    for size in range(256):
        longest = size if lengths[size] else longest
    written = 0
    # Rows are independent of each other.
    for row in range(len(spans)):
        stop = _fold(text, spans[row, HOST], spans[row, HOST_END], folded, 0)
        stop = _fold(text, spans[row, REST], spans[row, REST_END], folded, stop)
        folded[stop] = 0
        # Only where two bytes begin some entry, the hash of longer and longer pieces is looked up.
        for begin in range(stop):
            if not pairs[np.int64(folded[begin]) << 8 | folded[begin + 1]]:
                continue
            one, two = SEED
            # Only lengths that occur in the list are looked up.
            for size in range(1, min(longest, stop - begin) + 1):
                one, two = feed(one, two, form[begin + size - 1])
                if lengths[size]:
                    place, mark = finish(one, two)
                    found[row] = label_of(marks, labels, place, mark)
                    if found[row] >= 0:
                        # Copy the entry that was found.
                        for at in range(begin, begin + size):
                            texts[written] = folded[at]
                            written += 1
                        break
            if found[row] >= 0:
                break
        offsets[row + 1] = written
    return found, offsets, texts[:written].copy()


def find_inside(words: HashSet, pairs: Array, lengths: Array, data: Array, spans: Array) -> tuple[Array, Array, Array]:
    """Returns for each URL that contains an entry of a set the list of the first such entry, or -1, and the entry as
    text. `pairs` and `lengths` are those of `openings`.
    """
    room = _room_for_one(data)
    found, offsets, texts = _find_inside(data, spans, words.marks, words.labels, pairs, lengths, room)
    return found, offsets, texts
