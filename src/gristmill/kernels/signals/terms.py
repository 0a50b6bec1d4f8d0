"""Stop words and blocked terms: sets of hashes in which the scan looks up tokens."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from gristmill.kernels.compile import njit
from gristmill.kernels.memory import Bytes, view
from gristmill.kernels.text.ascii import UPPER_A, UPPER_Z
from gristmill.kernels.text.unicode_classes import (
    UnicodeTables,
    lower_change,
    unicode_tables,
)
from gristmill.kernels.text.utf8 import put_utf8
from gristmill.kernels.text.words import decode, hash_bytes, scan_tokens

MAX_TERM_BYTES = 256
"""Longer tokens are not looked up among stop words and blocked terms."""
_JOIN = np.uint64(0xC2B2AE3D27D4EB4F)
_SHIFT = np.uint64(29)


@njit(nogil=True, cache=True)
def join_hashes(first: np.uint64, second: np.uint64) -> np.uint64:
    """Returns the hash of a sequence of tokens and one more; the order matters; never 0."""
    state = (first ^ (second >> _SHIFT)) * _JOIN + second
    return max(state ^ (state >> _SHIFT), np.uint64(1))


@njit(nogil=True, cache=True)
def lower_hash(
    data: Bytes,
    begin: int,
    end: int,
    unicode: UnicodeTables,
    buffer: npt.NDArray[np.uint8],
) -> np.uint64:
    """hash_bytes of the token with each character replaced by its one-character lower case."""
    size, out = 0, view(buffer)
    at = begin
    # Write the lower case, character by character.
    while at < end:
        byte = data[at]
        if byte < 0x80:
            out[size] = byte + 32 if UPPER_A <= byte <= UPPER_Z else byte
            size += 1
            at += 1
            continue
        point, at = decode(data, at, end)
        size = put_utf8(out, size, point + lower_change(unicode, point))
    return hash_bytes(out, 0, size)


@njit(nogil=True, cache=True)
def find_key(keys: npt.NDArray[np.uint64], key: np.uint64) -> int | np.int64:
    """Returns the slot of `key` in a set with open addressing whose size is a power of two and where 0 is empty; -1 if
    it is missing.
    """
    mask = np.uint64(len(keys) - 1)
    slot = key & mask
    # Open addressing: the key or a free slot ends the search.
    while keys[slot]:
        if keys[slot] == key:
            return np.int64(slot)
        slot = (slot + np.uint64(1)) & mask
    return -1


@njit(nogil=True, cache=True)
def count_blocked(
    ids: npt.NDArray[np.int32],
    tokens: int,
    term_tokens: npt.NDArray[np.int32],
    lower_keys: npt.NDArray[np.uint64],
    terms: npt.NDArray[np.uint64],
) -> int:
    """Counts the tokens inside blocked terms: at each position the longest term, then the search continues after it."""
    blocked = 0
    at = 0
    # Each turn begins at the next token that is not inside a term.
    while at < tokens:
        longest = 0
        key = lower_keys[ids[at]]
        # Only as many tokens as the longest term that begins with this one has.
        for size in range(1, min(term_tokens[ids[at]], tokens - at) + 1):
            if size > 1:
                key = join_hashes(key, lower_keys[ids[at + size - 1]])
            if find_key(terms, key) >= 0:
                longest = size
        blocked += longest
        at += max(longest, 1)
    return blocked


class WordSets(NamedTuple):
    """Stop words and blocked terms as sets of hashes for `measure`."""

    stop_words: npt.NDArray[np.uint64]
    term_heads: npt.NDArray[np.uint64]
    """Hashes of the first tokens of terms."""
    term_sizes: npt.NDArray[np.int32]
    """In the slot of a head: tokens of the longest term that starts with it."""
    terms: npt.NDArray[np.uint64]
    """Joined hashes of all the tokens of a term."""


def hash_set(keys: set[int]) -> npt.NDArray[np.uint64]:
    """Returns a set with open addressing for `find_key`; no key is 0."""
    size = 1 << max(2, (2 * len(keys)).bit_length())
    slots = np.zeros(size, np.uint64)
    # In the order of keys, so that equal sets are equal arrays.
    for key in sorted(keys):
        slot = key & (size - 1)
        while slots[slot]:
            slot = (slot + 1) & (size - 1)
        slots[slot] = key
    return slots


@njit(nogil=True, cache=True)
def _lower_hashes(text: npt.NDArray[np.uint8], tables: UnicodeTables) -> npt.NDArray[np.uint64]:
    buffer = np.zeros(4 * MAX_TERM_BYTES, np.uint8)
    spans = scan_tokens(text, tables)
    hashes = np.zeros(len(spans), np.uint64)
    # Tokens that are too long keep 0, which is in no set.
    for k in range(len(spans)):
        if spans[k, 1] - spans[k, 0] <= MAX_TERM_BYTES:
            hashes[k] = lower_hash(view(text), spans[k, 0], spans[k, 1], view(tables), buffer)
    return hashes


def token_hashes(text: str) -> list[int]:
    """Returns hashes of the tokens of `text` in lower case, as the scan looks them up; 0 for one that is too long."""
    return [int(key) for key in _lower_hashes(np.frombuffer(text.encode(), np.uint8), unicode_tables())]


def word_sets(stop_words: Sequence[str], blocked_terms: Sequence[str]) -> WordSets:
    """Returns sets for `measure`. Stop words are single tokens; a blocked term is a sequence of tokens."""
    stops = set()
    # A stop word has to be one token.
    for word in stop_words:
        hashes = token_hashes(word)
        if len(hashes) != 1:
            raise ValueError(f"stop word {word!r} is {len(hashes)} tokens, so it would never be found; give one token")
        stops.add(hashes[0])
    sizes: dict[int, int] = {}
    terms = set()
    # A term is stored by the hash of all its tokens, and found by its first one.
    for term in blocked_terms:
        hashes = token_hashes(term)
        if not hashes or 0 in hashes:
            raise ValueError(
                f"blocked term {term!r} has no token, or one above {MAX_TERM_BYTES} bytes, so it would never be found; "
                "remove it"
            )
        sizes[hashes[0]] = max(sizes.get(hashes[0], 0), len(hashes))
        key = np.uint64(hashes[0])
        for later in hashes[1:]:
            key = np.uint64(join_hashes(key, np.uint64(later)))
        terms.add(int(key))
    heads = hash_set(set(sizes))
    term_sizes = np.array([sizes.get(int(key), 0) for key in heads], np.int32)
    return WordSets(hash_set(stops), heads, term_sizes, hash_set(terms))
