"""The words that a language model knows, by their hashes, and texts as word numbers."""

from typing import Any, NamedTuple

import numpy as np

from gristmill.kernels.compile import njit
from gristmill.kernels.hash.splitmix import mix
from gristmill.kernels.memory import view
from gristmill.kernels.ngram.cut import LONGEST, ROOM, CutTables, cut_some
from gristmill.kernels.text.words import hash_bytes
from gristmill_ngram.kernels.counts import FIRST_WORD, UNKNOWN

Array = np.ndarray[Any, Any]


class NumberedWords(NamedTuple):
    """Words by number, and a hash table of their numbers."""

    slots: Array
    """int32: a hash table of word numbers; at least half of it is 0."""
    hashes: Array
    """uint64, by number."""
    begins: Array
    """int64, by number: where the bytes of a word begin; -1 until it is seen."""
    ends: Array
    arena: Array
    """uint8."""
    used: Array
    """int64, one: bytes of the arena that are in use."""


def vocabulary_of(hashes: Array) -> NumberedWords:
    """Returns words of these hashes (uint64), numbered in their order, from FIRST_WORD on."""
    numbered = np.concatenate([np.zeros(FIRST_WORD, np.uint64), hashes])
    slots = np.zeros(1 << max(2 * len(hashes), 2).bit_length(), np.int32)
    _fill(slots, numbered)
    begins, ends = np.full(len(numbered), -1, np.int64), np.zeros(len(numbered), np.int64)
    # memory is only allocated where it is written, and words are short
    arena = np.empty(len(hashes) * LONGEST, np.uint8)
    return NumberedWords(slots, numbered, begins, ends, arena, np.zeros(1, np.int64))


@njit(nogil=True, cache=True)
def _fill(slots: Array, hashes: Array) -> None:
    mask = len(slots) - 1
    # Open addressing: into the first free slot.
    for number in range(FIRST_WORD, len(hashes)):
        at = np.int64(mix(hashes[number])) & mask
        while slots[at]:
            at = (at + 1) & mask
        slots[at] = number


@njit(nogil=True, cache=True)
def number_texts(
    data: Array, offsets: Array, tables: CutTables, words: Array, spans: Array, known: NumberedWords
) -> tuple[Array, Array]:
    """Returns the number of every word of all texts, and whether a sentence begins with it; the bytes of a new word are
    added to the vocabulary. Scratch as in `cut_texts`.
    """
    text, bytes_ = view(data), view(words)
    views = view(tables)
    slots, hashes, begins, ends, arena, used = known
    mask = len(slots) - 1
    room = (offsets[-1] - offsets[0]) // 2 + len(offsets) + ROOM
    ids, firsts = np.empty(room, np.int32), np.empty(room, np.bool_)
    found = 0
    # Each text is cut alone.
    for row in range(len(offsets) - 1):
        at, stop, is_first = offsets[row], offsets[row + 1], True
        # Each turn cuts up to ROOM words.
        while at < stop:
            at, count, is_first = cut_some(text, at, stop, views, bytes_, spans, is_first)
            # Look each word up; the bytes of a known one are stored the first time.
            for word in range(count):
                begin, end = spans[word, 0], spans[word, 1]
                number = 0
                if end - begin <= LONGEST:
                    hashed = hash_bytes(bytes_, begin, end)
                    place = np.int64(mix(hashed)) & mask
                    while slots[place] and hashes[slots[place]] != hashed:
                        place = (place + 1) & mask
                    number = slots[place]
                if number and begins[number] < 0:
                    begins[number] = used[0]
                    # Words are short, so they are copied byte by byte.
                    for byte in range(begin, end):
                        arena[used[0]] = words[byte]
                        used[0] += 1
                    ends[number] = used[0]
                ids[found] = number if number else UNKNOWN
                firsts[found] = spans[word, 2] != 0
                found += 1
    return ids[:found].copy(), firsts[:found].copy()
