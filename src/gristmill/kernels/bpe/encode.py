"""Byte-level BPE: turns the bytes of many documents into token ids, and back.

Special tokens, strings that are one token as a whole, are cut out first. The text between them is split into
pre-tokens. If a pre-token was seen before, its ids are in the cache (`cache`); otherwise it is merged (`merge`).
"""

from typing import Any, NamedTuple

import numpy as np

from gristmill.kernels.bpe import cache as token_cache
from gristmill.kernels.bpe.merge import (
    FEW,
    Merges,
    make_bench,
    merge_few,
    merge_many,
    signed,
)
from gristmill.kernels.bpe.pretokenize import next_ends
from gristmill.kernels.compile import njit
from gristmill.kernels.memory import Bytes, Ints, borrow, tail, view
from gristmill.kernels.memory_blocks import prefetch

Array = np.ndarray[Any, Any]

SLACK = 4
"""Places after the last id that may be overwritten."""
BLOCK = 128
"""The most pre-tokens that are scanned before the first one is looked up. Their cache lines are 8 KB."""
TEXT = -2
"""In a trie: a string that ends here is found, so that no other string begins inside it, but it stays text."""

_HALF = np.uint64(32)
_ONE = np.uint64(1)
_TWO = np.uint64(2)
_THREE = np.uint64(3)


class TokenTables(NamedTuple):
    """The tables that determine the ids."""

    merges: Merges
    whole: Array
    """int32: a hash table of the ids of tokens that a whole pre-token may be without a merge, by the hash of their
    bytes; -1 is an empty slot. It has one empty slot if only merges count."""
    data: Array
    """uint8: the bytes of all tokens."""
    offsets: Array
    """int64: where the bytes of each id begin; one more than there are ids."""


class Trie(NamedTuple):
    """Strings to cut out of the text. Node 0 is the root; if it is the only node, there are no strings."""

    byte: Array
    """uint8: the byte that leads to the node."""
    child: Array
    """int32: the first child node, or 0."""
    sibling: Array
    """int32: the next sibling node, or 0."""
    token: Array
    """int32: the id of the string that ends here, or TEXT, or -1 if no string ends here."""


class Space(NamedTuple):
    """Scratch memory of `encode_rows`; only one call at a time may use it."""

    bench: Array
    """The scratch array of `merge.make_bench`."""
    cuts: Array
    """int64: the ends of a block of pre-tokens."""
    keys: Array
    """uint64: for each pre-token of a block, two words of key and the first word of its set in the cache."""


def make_space() -> Space:
    return Space(make_bench(), np.zeros(BLOCK, np.int64), np.zeros(3 * BLOCK, np.uint64))


def build_trie(strings: dict[bytes, int]) -> Trie:
    """Returns a trie of strings with the id of each, or TEXT."""
    byte, child, sibling, token = [0], [0], [0], [-1]
    # Walk each string from the root and add the nodes that are missing.
    for string, number in strings.items():
        node = 0
        # The children of a node are a linked list: first `child`, then `sibling`.
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
    # Open addressing: a token goes into the first free slot after its own.
    for token in wanted:
        slot = (token_cache.span_hash(text, offsets[token], offsets[token + 1]) >> _HALF) & mask
        while slots[slot] >= 0:
            slot = (slot + _ONE) & mask
        slots[slot] = token


def build_whole(data: Array, offsets: Array, wanted: Array) -> Array:
    """Returns the hash table of the tokens that a whole pre-token may be."""
    slots = np.full(1 << (2 * len(wanted)).bit_length() if len(wanted) else 1, -1, np.int32)
    if len(wanted):
        _fill_whole(slots, data, offsets, wanted)
    return slots


@njit(nogil=True, cache=True)
def _whole_token(text: Bytes, begin: int, end: int, whole: Array, data: Bytes, offsets: Array) -> int:
    """Returns the token that has exactly these bytes, or -1."""
    mask = np.uint64(len(whole) - 1)
    slot = (token_cache.span_hash(text, begin, end) >> _HALF) & mask
    # Follow the chain of slots to the first free one.
    while whole[slot] >= 0:
        start = offsets[whole[slot]]
        length = offsets[whole[slot] + 1] - start
        if length == end - begin and token_cache.same(text, begin, data, start, length):
            return signed(whole[slot])
        slot = (slot + _ONE) & mask
    return signed(-1)


@njit(nogil=True, cache=True)
def _next_string(text: Bytes, at: int, stop: int, trie: Trie) -> tuple[int, int, int]:
    """Returns begin, end and id of the leftmost string of the trie, the longest one there; or stop, stop, -1."""
    # Try each position; a string of plain text (TEXT) is skipped whole, so nothing in it is found.
    while at < stop:
        place, node, end, found = at, signed(0), at, signed(-1)
        # Descend as far as the text matches, and keep the last node that ends a string.
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
def _merge(text: Bytes, begin: int, end: int, tables: TokenTables, bench: Array, ids: Ints, count: int) -> int:
    """Writes the ids of a pre-token that is not in the cache; returns the new count."""
    if len(tables.whole) > 1:
        token = _whole_token(text, begin, end, tables.whole, tables.data, tables.offsets)
        if token >= 0:
            ids[count] = token
            return count + 1
    if end - begin <= FEW:
        return merge_few(text, begin, end, tables.merges, bench, ids, count)
    return merge_many(text, begin, end, tables.merges, ids, count)


@njit(nogil=True, cache=True)
def encode_rows(
    data: Array,
    starts: Array,
    pattern: int,
    table: Array,
    vocabulary: TokenTables,
    trie: Trie,
    cache: token_cache.PretokenCache,
    space: Space,
    ids: Array,
    ends: Array,
) -> int:
    """Writes the ids of all rows, concatenated, and where those of each row end; returns the number of ids.

    `table` is `pretoken_classes.class_table()`; `pattern` is one of `pretokenize`. `ids` (int32) has one place per byte
    of the rows and SLACK more. The text must be valid UTF-8.

    A block of pre-tokens is scanned before the first one is looked up, and the cache entry of each is prefetched as
    soon as its key is known. So the processor waits for many cache lines at once.
    """
    text, classes, safe = view(data), view(table), len(data) - 16
    tables = TokenTables(
        view(vocabulary.merges), borrow(vocabulary.whole), view(vocabulary.data), borrow(vocabulary.offsets)
    )
    bench = borrow(space.bench)
    strings = Trie(borrow(trie.byte), borrow(trie.child), borrow(trie.sibling), borrow(trie.token))
    short, long, head = view(cache.short), view(cache.long), cache.head[0]
    ring = token_cache.Ring(view(cache.ring), np.uint64(len(cache.ring)))
    short_mask, long_mask = np.uint64(len(cache.short) // 8 - 1), np.uint64(len(cache.long) // 4 - 1)
    cuts, keys, out = borrow(space.cuts), view(space.keys), view(ids)
    count = 0
    # Each row is cut at its special strings; the text between two of them is encoded in blocks.
    for row in range(len(starts) - 1):
        begin, last = starts[row], starts[row + 1]
        # Each turn takes the text up to the next special string, then the string itself.
        while begin < last:
            stop, resume, special = last, last, -1
            if len(strings.byte) > 1:
                stop, resume, special = _next_string(text, begin, last, strings)
            # Each turn takes one block of pre-tokens.
            while begin < stop:
                found = next_ends(text, begin, stop, pattern, classes, cuts)
                at = begin
                # First pass: the keys of short pre-tokens; the memory of their cache sets is requested.
                for number in range(found):
                    if cuts[number] - at <= token_cache.SHORT:
                        one, two = token_cache.key_of(text, at, cuts[number] - at, safe)
                        where = token_cache.set_of(one, two, short_mask)
                        prefetch(short, where << _THREE)
                        keys[3 * number], keys[3 * number + 1], keys[3 * number + 2] = one, two, where
                    at = cuts[number]
                # Second pass: look up each pre-token; if the cache does not have it, merge it and keep the result.
                for number in range(found):
                    end, first = cuts[number], count
                    length = end - begin
                    if length <= token_cache.SHORT:
                        one, two = keys[3 * number], keys[3 * number + 1]
                        spot = tail(short, keys[3 * number + 2])
                        count = token_cache.recall_short(spot, one, two, out, count)
                        if count == first:
                            count = token_cache.recall_second(spot, one, two, ring, head, out, count)
                            if count == first:
                                count = _merge(text, begin, end, tables, bench, out, count)
                                head = token_cache.keep_short(spot, one, two, ring, head, out, first, count)
                    elif length <= token_cache.LONGEST:
                        token = token_cache.LongPretoken(text, begin, length, token_cache.span_hash(text, begin, end))
                        spot = tail(long, (token.mark >> _HALF & long_mask) << _TWO)
                        count = token_cache.recall_long(token, spot, ring, head, out, count)
                        if count == first:
                            count = _merge(text, begin, end, tables, bench, out, count)
                            head = token_cache.keep_long(token, spot, ring, head, out, first, count)
                    else:
                        count = _merge(text, begin, end, tables, bench, out, count)
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
    """Returns the total number of bytes of the tokens; for the first unknown id, -1 minus its place."""
    total = 0
    # Add up the lengths until an id is not in the vocabulary.
    for place in range(len(ids)):
        if ids[place] < 0 or ids[place] >= len(offsets) - 1:
            return -1 - place
        total += offsets[ids[place] + 1] - offsets[ids[place]]
    return int(total)


@njit(nogil=True, cache=True)
def decode_ids(ids: Array, data: Array, offsets: Array, out: Array) -> None:
    """Writes the bytes of the tokens, concatenated."""
    at = 0
    # Copy token by token.
    for token in ids:
        # Tokens are a few bytes long, so single bytes are fast enough.
        for place in range(offsets[token], offsets[token + 1]):
            out[at] = data[place]
            at += 1
