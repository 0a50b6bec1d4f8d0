"""Byte-level BPE: the bytes of many documents to token ids, and back.

Strings that are tokens as a whole (special tokens) are cut out first, where there are any to look for. The text between
is cut into pre-tokens. One that was seen before has its ids in the cache (`cache`); the others are merged
(`merge`).
"""

from typing import Any, NamedTuple

import numpy as np

from gristmill.kernels.bpe.cache import (
    LONGEST,
    SHORT,
    PretokenCache,
    keep_long,
    keep_short,
    key_of,
    recall_long,
    recall_second,
    recall_short,
    same,
    set_of,
    span_hash,
)
from gristmill.kernels.bpe.merge import (
    FEW,
    Merges,
    MergeViews,
    make_bench,
    merge_few,
    merge_many,
    merge_views,
    signed,
)
from gristmill.kernels.bpe.pretokenize import next_ends
from gristmill.kernels.compile import njit
from gristmill.kernels.memory import Bytes, Ints, borrow, tail, view
from gristmill.kernels.memory_blocks import prefetch

Array = np.ndarray[Any, Any]

SLACK = 4
"""Places behind the last id that are written to."""
BLOCK = 128
"""Pre-tokens that are scanned before the first of them is looked up, at most. Their lines of memory are 8 KB."""
TEXT = -2
"""In a trie: a string that ends here is found, so no other begins inside it, but stays text."""

_HALF = np.uint64(32)
_ONE = np.uint64(1)
_TWO = np.uint64(2)
_THREE = np.uint64(3)


class TokenTables(NamedTuple):
    """What decides the ids, as tables."""

    merges: Merges
    whole: Array
    """int32: ids of the tokens that a whole pre-token may be without any merge, by the hash of their bytes; -1 is an
    empty slot. One empty slot where merges alone decide."""
    data: Array
    """uint8: the bytes of all tokens."""
    offsets: Array
    """int64: where those of each id begin; one more than there are ids."""


class Trie(NamedTuple):
    """Strings to cut out of the text. Node 0 is the root; where it is the only node there are no strings."""

    byte: Array
    """uint8: the byte that leads to the node."""
    child: Array
    """int32: the first node below, 0 for none."""
    sibling: Array
    """int32: the next node beside, 0 for none."""
    token: Array
    """int32: the id of the string that ends here, TEXT, or -1 where none ends."""


class Space(NamedTuple):
    """Where the kernel works; one call at a time."""

    bench: Array
    """Of `merge.make_bench`."""
    cuts: Array
    """int64: ends of a block of pre-tokens."""
    keys: Array
    """uint64: two words of key and the word of the cache where its set begins, for each of them."""


def make_space() -> Space:
    return Space(make_bench(), np.zeros(BLOCK, np.int64), np.zeros(3 * BLOCK, np.uint64))


def build_trie(strings: dict[bytes, int]) -> Trie:
    """A trie of strings with the id of each, or TEXT."""
    byte, child, sibling, token = [0], [0], [0], [-1]
    for string, number in strings.items():
        node = 0
        for value in string:
            below = child[node]
            while below and byte[below] != value:
                below = sibling[below]
            if not below:
                below = len(byte)
                byte.append(value)
                child.append(0)
                sibling.append(child[node])
                token.append(-1)
                child[node] = below
            node = below
        token[node] = number
    numbers = (np.array(values, np.int32) for values in (child, sibling, token))
    return Trie(np.array(byte, np.uint8), *numbers)


@njit(nogil=True, cache=True)
def _fill_whole(slots: Array, data: Array, offsets: Array, wanted: Array) -> None:
    text, mask = view(data), np.uint64(len(slots) - 1)
    for token in wanted:
        slot = (span_hash(text, offsets[token], offsets[token + 1]) >> _HALF) & mask
        while slots[slot] >= 0:
            slot = (slot + _ONE) & mask
        slots[slot] = token


def build_whole(data: Array, offsets: Array, wanted: Array) -> Array:
    """The table of the tokens that a pre-token may be as a whole."""
    slots = np.full(1 << (2 * len(wanted)).bit_length() if len(wanted) else 1, -1, np.int32)
    if len(wanted):
        _fill_whole(slots, data, offsets, wanted)
    return slots


@njit(nogil=True, cache=True)
def _whole_token(text: Bytes, begin: int, end: int, whole: Array, data: Bytes, offsets: Array) -> int:
    """The token that has exactly these bytes, or -1."""
    mask = np.uint64(len(whole) - 1)
    slot = (span_hash(text, begin, end) >> _HALF) & mask
    while whole[slot] >= 0:
        start = offsets[whole[slot]]
        length = offsets[whole[slot] + 1] - start
        if length == end - begin and same(text, begin, data, start, length):
            return signed(whole[slot])
        slot = (slot + _ONE) & mask
    return signed(-1)


@njit(nogil=True, cache=True)
def _next_string(text: Bytes, at: int, stop: int, trie: Trie) -> tuple[int, int, int]:
    """Begin, end and id of the leftmost string of the trie, the longest that begins there; or stop, stop, -1."""
    while at < stop:
        place, node, end, found = at, signed(0), at, signed(-1)
        while place < stop:
            node = signed(trie.child[node])
            while node != 0 and trie.byte[node] != text[place]:
                node = signed(trie.sibling[node])
            if node == 0:
                break
            place += 1
            if trie.token[node] != -1:
                end, found = place, signed(trie.token[node])
        if found >= 0:
            return at, end, found
        at = end if found == TEXT else at + 1
    return stop, stop, signed(-1)


@njit(nogil=True, cache=True)
def _merge(
    text: Bytes,
    begin: int,
    end: int,
    tables: MergeViews,
    bench: Array,
    whole: Array,
    tokens: Bytes,
    offsets: Array,
    ids: Ints,
    count: int,
) -> int:
    """Writes the ids of a pre-token that is not in the cache; returns the new count."""
    if len(whole) > 1:
        token = _whole_token(text, begin, end, whole, tokens, offsets)
        if token >= 0:
            ids[count] = token
            return count + 1
    if end - begin <= FEW:
        return merge_few(text, begin, end, tables, bench, ids, count)
    return merge_many(text, begin, end, tables, ids, count)


@njit(nogil=True, cache=True)
def encode_rows(
    data: Array,
    starts: Array,
    pattern: int,
    table: Array,
    vocabulary: TokenTables,
    trie: Trie,
    cache: PretokenCache,
    space: Space,
    ids: Array,
    ends: Array,
) -> int:
    """Ids of all rows one after the other, and where those of each row end; returns how many there are.

    `table` is `pretoken_classes.class_table()`, `pattern` as in `pretokenize`. `ids` (int32) has a place for every byte
    of the rows and SLACK more. Text is valid UTF-8.

    A block of pre-tokens is scanned before the first of them is looked up, and the place of each in the cache is asked
    for when it is known: so the processor waits for many lines of memory at once.
    """
    text, classes, safe = view(data), view(table), len(data) - 16
    whole, tokens, offsets = borrow(vocabulary.whole), view(vocabulary.data), borrow(vocabulary.offsets)
    tables, bench = merge_views(vocabulary.merges), borrow(space.bench)
    strings = Trie(borrow(trie.byte), borrow(trie.child), borrow(trie.sibling), borrow(trie.token))
    short, long, ring, head = view(cache.short), view(cache.long), view(cache.ring), cache.head[0]
    words = np.uint64(len(cache.ring))
    short_mask, long_mask = np.uint64(len(cache.short) // 8 - 1), np.uint64(len(cache.long) // 4 - 1)
    cuts, keys, out = borrow(space.cuts), view(space.keys), view(ids)
    count = 0
    for row in range(len(starts) - 1):
        begin, last = starts[row], starts[row + 1]
        while begin < last:
            stop, resume, special = last, last, -1
            if len(strings.byte) > 1:
                stop, resume, special = _next_string(text, begin, last, strings)
            while begin < stop:
                found = next_ends(text, begin, stop, pattern, classes, cuts)
                at = begin
                for number in range(found):
                    if cuts[number] - at <= SHORT:
                        one, two = key_of(text, at, cuts[number] - at, safe)
                        where = set_of(one, two, short_mask)
                        prefetch(short, where << _THREE)
                        keys[3 * number], keys[3 * number + 1], keys[3 * number + 2] = one, two, where
                    at = cuts[number]
                for number in range(found):
                    end, first = cuts[number], count
                    length = end - begin
                    if length <= SHORT:
                        one, two = keys[3 * number], keys[3 * number + 1]
                        spot = tail(short, keys[3 * number + 2])
                        count = recall_short(spot, one, two, out, count)
                        if count == first:
                            count = recall_second(spot, one, two, ring, words, head, out, count)
                            if count == first:
                                count = _merge(text, begin, end, tables, bench, whole, tokens, offsets, out, count)
                                head = keep_short(spot, one, two, ring, words, head, out, first, count)
                    elif length <= LONGEST:
                        mark = span_hash(text, begin, end)
                        spot = tail(long, (mark >> _HALF & long_mask) << _TWO)
                        count = recall_long(text, begin, length, mark, spot, ring, words, head, out, count)
                        if count == first:
                            count = _merge(text, begin, end, tables, bench, whole, tokens, offsets, out, count)
                            head = keep_long(text, begin, length, mark, spot, ring, words, head, out, first, count)
                    else:
                        count = _merge(text, begin, end, tables, bench, whole, tokens, offsets, out, count)
                    begin = end
            if special >= 0:
                out[count] = special
                count += 1
            begin = resume
        ends[row] = count
    cache.head[0] = head
    return count


@njit(nogil=True, cache=True)
def decoded_bytes(ids: Array, offsets: Array) -> int:
    """How many bytes the tokens have together; or, for the first id that there is not, -1 less its place."""
    total = 0
    for place in range(len(ids)):
        if ids[place] < 0 or ids[place] >= len(offsets) - 1:
            return -1 - place
        total += offsets[ids[place] + 1] - offsets[ids[place]]
    return int(total)


@njit(nogil=True, cache=True)
def decode_ids(ids: Array, data: Array, offsets: Array, out: Array) -> None:
    """The bytes of the tokens one after the other."""
    at = 0
    for token in ids:
        for place in range(offsets[token], offsets[token + 1]):
            out[at] = data[place]
            at += 1
