"""Sets of tens of millions of strings as flat arrays, built from the bytes of a list file.

A string is hashed to 128 bits. One half determines its slot in a table with open addressing; the other half, the mark,
is stored in the slot. So an entry costs 8 bytes, 2 bytes for a label, and the empty slots between: 15 bytes at a load
of 2/3. A lookup compares its mark with the few slots of one run (5 on average for a missing string), not with every
entry: it is wrong with probability 3e-19, whatever the size of the set. For 10 billion pages with five domain suffixes
each that is 1e-8 wrong answers in all; a set of plain 64-bit hashes with 50M entries would give 0.14, and the strings
themselves would take three times the memory.
"""

from typing import Any, NamedTuple

import numpy as np

from gristmill.kernels.compile import njit
from gristmill.kernels.hash.splitmix import mix
from gristmill.kernels.memory import Bytes, view
from gristmill.kernels.text.ascii import CR, HASH, LF, SP

Array = np.ndarray[Any, Any]

SEED = (np.uint64(0x243F6A8885A308D3), np.uint64(0x13198A2E03707344))  # the first digits of pi
_ODD_ONE = np.uint64(0x9FB21C651E98DF25)
_ODD_TWO = np.uint64(0xC2B2AE3D27D4EB4F)
_MIX_ONE = np.uint64(0xBF58476D1CE4E5B9)
_MIX_TWO = np.uint64(0x94D049BB133111EB)
_HALF = np.uint64(32)
_EMPTY = np.uint64(0)

LARGEST = 1 << 31
"""The most entries of one set: slots are found with 32 bits of the hash."""


class HashSet(NamedTuple):
    """A set of strings, each with the number of the first list that has it."""

    marks: Array
    """uint64: the mark in each slot, 0 if it is empty."""
    labels: Array
    """uint16: the number of the list."""

    @property
    def nbytes(self) -> int:
        return int(self.marks.nbytes + self.labels.nbytes)


@njit(nogil=True, cache=True)
def feed(one: np.uint64, two: np.uint64, byte: int) -> tuple[np.uint64, np.uint64]:
    """Returns two hashes with one more byte. Both steps are one-to-one, so every byte matters."""
    value = np.uint64(byte + 1)
    return (one ^ value) * _ODD_ONE, (two + value) * _ODD_TWO


@njit(nogil=True, cache=True)
def finish(one: np.uint64, two: np.uint64) -> tuple[np.uint64, np.uint64]:
    """Returns place and mark of a string. The mark is never 0."""
    two = (two ^ (two >> np.uint64(31))) * _MIX_TWO
    two = (two ^ (two >> np.uint64(28))) * _MIX_ONE
    return mix(one), max(two ^ (two >> _HALF), np.uint64(1))


@njit(nogil=True, cache=True)
def hash_span(data: Bytes, begin: int, end: int) -> tuple[np.uint64, np.uint64]:
    """Returns place and mark of some bytes; `data` is a view."""
    one, two = SEED
    for at in range(begin, end):
        one, two = feed(one, two, data[at])
    return finish(one, two)


@njit(nogil=True, cache=True)
def next_entry(data: Bytes, at: int, stop: int) -> tuple[int, int, int]:
    """Returns begin and end of the entry in the line at `at`, and where the next line begins. Begin equals end if there
    is none.

    Lines end with LF, CR or both. Spaces around an entry and a byte order mark are ignored, and so is a comment: `#` at
    the start of a line or after a space (inside an entry, it is the fragment of a URL).
    """
    begin = at
    if stop - begin >= 3 and data[begin] == 0xEF and data[begin + 1] == 0xBB:
        begin += 3 if data[begin + 2] == 0xBF else 0
    while begin < stop and data[begin] <= SP and data[begin] != LF and data[begin] != CR:
        begin += 1
    after, end, before = begin, -1, 32
    # Go to the end of the line; a comment ends the entry before it.
    while after < stop:
        byte = data[after]
        if byte <= HASH:
            if byte == LF or byte == CR:
                break
            if byte == HASH and end < 0 and before <= SP:
                end = after
        before = byte
        after += 1
    if end < 0:
        end = after
    while end > begin and data[end - 1] <= SP:
        end -= 1
    return begin, end, after + 1


@njit(nogil=True, cache=True)
def count_lines(data: Array) -> int:
    """Returns an upper bound on the number of entries."""
    count = 1
    # Each line end can end one entry.
    for byte in data:
        if byte == LF or byte == CR:
            count += 1
    return count


@njit(nogil=True, cache=True)
def _slot(place: np.uint64, slots: int) -> np.int64:
    return np.int64(((place >> _HALF) * np.uint64(slots)) >> _HALF)


@njit(nogil=True, cache=True)
def _insert(marks: Array, labels: Array, hashes: Array, label: int) -> int:
    slots = len(marks)
    added = 0
    # Each entry goes into its slot, or is there already.
    for row in range(len(hashes)):
        mark = hashes[row, 1]
        slot = _slot(hashes[row, 0], slots)
        # Open addressing, around the end of the table.
        while marks[slot] != _EMPTY and marks[slot] != mark:
            slot += np.int64(1)
            if slot == slots:
                slot = np.int64(0)
        if marks[slot] == _EMPTY:
            marks[slot] = mark
            labels[slot] = label
            added += 1
    return added


@njit(nogil=True, cache=True)
def label_of(marks: Array, labels: Array, place: np.uint64, mark: np.uint64) -> np.int64:
    """Returns the number of the list of a string, or -1."""
    slots = len(marks)
    slot = _slot(place, slots)
    # The same search: the mark or a free slot ends it.
    while marks[slot] != _EMPTY and marks[slot] != mark:
        slot += np.int64(1)
        if slot == slots:
            slot = np.int64(0)
    return np.int64(labels[slot]) if marks[slot] == mark else np.int64(-1)


@njit(nogil=True, cache=True)
def _labels_of(marks: Array, labels: Array, hashes: Array) -> Array:
    found = np.empty(len(hashes), np.int32)
    for row in range(len(hashes)):
        found[row] = label_of(marks, labels, hashes[row, 0], hashes[row, 1])
    return found


def build(lists: list[tuple[Array, int]]) -> tuple[HashSet, list[int]]:
    """Builds one set of the hashes of many lists, each with its number; also returns how many new entries each list
    added.

    A string in several lists belongs to the first.
    """
    entries = sum(len(hashes) for hashes, _ in lists)
    if entries > LARGEST:
        raise ValueError(f"{entries} entries are too many for one set; {LARGEST} fit")
    slots = max(4, entries * 3 // 2 + 1)
    made = HashSet(np.zeros(slots, np.uint64), np.zeros(slots, np.uint16))
    added = [int(_insert(made.marks, made.labels, hashes, label)) for hashes, label in lists]
    return made, added


def labels_of(strings: HashSet, hashes: Array) -> Array:
    """Returns for each string, by its place and mark, the number of its list, or -1; int32.

    This is a separate loop after all strings are hashed: it is so short that the processor waits for several slots at
    once.
    """
    return np.asarray(_labels_of(strings.marks, strings.labels, hashes))


@njit(nogil=True, cache=True)
def hash_strings(data: Array, offsets: Array) -> Array:
    """Returns place and mark of each string of an Arrow array."""
    hashes = np.empty((len(offsets) - 1, 2), np.uint64)
    text = view(data)
    for row in range(len(hashes)):
        hashes[row, 0], hashes[row, 1] = hash_span(text, offsets[row], offsets[row + 1])
    return hashes
