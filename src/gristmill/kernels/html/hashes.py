"""Hashes of spans of a page: equal texts, the words of its title, and a table that no page can make slow."""

from typing import Any

import numpy as np

from gristmill.kernels.compile import njit
from gristmill.kernels.html.names import HASH_BASIS, HASH_MIX, HASH_PRIME
from gristmill.kernels.memory import Bytes, eight_bytes_at
from gristmill.kernels.text.ascii import NINE, ZERO

TITLE_SLOTS = 256
MAX_TRIES = 64


@njit(nogil=True, cache=True, forceinline=True)
def mixed(text: Bytes, begin: int, stop: int, code: Any) -> Any:
    """Mixes bytes into a number, eight at a time."""
    # Eight bytes at a time.
    while begin + 8 <= stop:
        code = (code ^ eight_bytes_at(text, begin)) * HASH_MIX
        code ^= code >> np.uint64(29)
        begin += 8
    # The rest byte by byte.
    while begin < stop:
        code = (code ^ np.uint64(text[begin])) * HASH_PRIME
        begin += 1
    return code ^ code >> np.uint64(32)


@njit(nogil=True, cache=True)
def text_hash(text: Bytes, begin: int, stop: int) -> Any:
    return mixed(text, begin, stop, np.uint64(stop - begin) * HASH_MIX) * HASH_MIX


@njit(nogil=True, cache=True, forceinline=True)
def slot_of(keys: np.ndarray, key: Any, mask: int) -> Any:
    """Returns the place of a key in a table that has room for it. After some tries keys share a place: a page could be
    made to have all its keys in a row, and the time would grow with the square of its size.
    """
    slot = np.int64(np.uint64(key) * HASH_MIX >> np.uint64(20)) & mask
    # Open addressing, within the bound on tries.
    for _ in range(MAX_TRIES):
        if keys[slot] == -1 or keys[slot] == key:
            break
        slot = (slot + 1) & mask
    if keys[slot] == -1:
        keys[slot] = key
    return slot


@njit(nogil=True, cache=True)
def title_words(data: np.ndarray, begin: int, stop: int, slots: np.ndarray) -> int:
    """Puts the words of the title into a small set; returns their number."""
    for slot in range(TITLE_SLOTS):
        slots[slot] = 0
    found = 0
    code = HASH_BASIS
    size = 0
    # The first 400 bytes; one turn more ends the last word.
    for at in range(begin, min(stop, begin + 400) + 1):
        byte = data[at] if at < stop else np.uint8(0x20)
        letter = byte | 0x20
        if (0x61 <= letter <= 0x7A) or ZERO <= byte <= NINE or byte >= 0x80:
            code = (code ^ np.uint64(letter if byte < 0x80 else byte)) * HASH_PRIME
            size += 1
        elif size:
            slots[np.int64(code * HASH_MIX >> np.uint64(56))] = np.int64(code >> np.uint64(1))
            found += 1
            code = HASH_BASIS
            size = 0
    return found


@njit(nogil=True, cache=True)
def in_title(text: Bytes, begin: int, stop: int, slots: np.ndarray) -> int:
    """Returns the share of a block's words that are in the title, of 255."""
    found = words = size = 0
    code = HASH_BASIS
    # One turn more ends the last word.
    for at in range(begin, stop + 1):
        byte = text[at] if at < stop else 0x20
        letter = byte | 0x20
        if (0x61 <= letter <= 0x7A) or ZERO <= byte <= NINE or byte >= 0x80:
            code = (code ^ np.uint64(letter if byte < 0x80 else byte)) * HASH_PRIME
            size += 1
        elif size:
            found += slots[np.int64(code * HASH_MIX >> np.uint64(56))] == np.int64(code >> np.uint64(1))
            words += 1
            code = HASH_BASIS
            size = 0
    return min(255, 255 * found // words) if words > 0 else 0
