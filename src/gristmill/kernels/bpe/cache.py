"""A cache of the ids of pre-tokens.

A cached result equals what merging gives, so the size of the cache changes no id.

- A pre-token of up to 15 bytes is its own key: two words, with the length in the last byte. Two entries of 32 bytes
  share a cache line. A new entry goes to the second place of its set, and a hit there moves it to the first: frequent
  words stay, and words that are seen once evict each other.
- A longer pre-token, up to LONGEST bytes, is found by a 64-bit hash and verified against its bytes. Bytes and ids are
  in a ring buffer that overwrites its oldest records. Positions in the ring only increase, so a record that is further
  back than the ring is long has been overwritten. The ring also holds the ids of short pre-tokens that have more than
  three.
"""

from typing import Any, NamedTuple

import numpy as np

from gristmill.kernels.bpe.merge import signed
from gristmill.kernels.compile import njit
from gristmill.kernels.memory import Bytes, Ints, Uint64s, byte_at, eight_bytes_at, four_bytes_at
from gristmill.kernels.memory_writes import put_byte, put_eight_bytes, put_four_bytes

Array = np.ndarray[Any, Any]

SHORT = 15
"""The most bytes of a pre-token that is its own key."""
LONGEST = 256
"""The most bytes of a pre-token that is cached: a longer one rarely repeats and would evict many others."""

_SHORT_ENTRY, _LONG_ENTRY = 4, 2
"""Words of an entry; a set has two entries."""

_ONE = np.uint64(1)
_FOUR = np.uint64(4)
_THREE = np.uint64(3)
_EIGHT = np.uint64(8)
_HALF = np.uint64(32)
_LAST = np.uint64(56)
_LOW = np.uint64(0xFFFFFFFF)
_ODD_ONE = np.uint64(0x9FB21C651E98DF25)
_ODD_TWO = np.uint64(0xC2B2AE3D27D4EB4F)


class PretokenCache(NamedTuple):
    """The tables of the cache; only one call at a time may use it."""

    short: Array
    """uint64: sets of two entries of four words: two words of key, then three ids and their number, or a position in
    the ring and the number of ids."""
    long: Array
    """uint64: sets of two entries of two words: the hash and the position in the ring."""
    ring: Array
    """uint32: records of length, number of ids, bytes and ids; or of ids only."""
    head: Array
    """uint64[1]: the position of the next record; it only increases."""


class Ring(NamedTuple):
    """The ring of a cache, in kernels."""

    records: Ints
    """A view of `PretokenCache.ring`."""
    words: np.uint64
    """The size of the ring, a power of two."""


class LongPretoken(NamedTuple):
    """A pre-token that is found by its hash."""

    text: Bytes
    at: int
    length: int
    mark: np.uint64
    """The hash of its bytes."""


def make_cache(size_bytes: int) -> PretokenCache:
    """Returns an empty cache of at most `size_bytes` (at least 8 KB): half for short pre-tokens, 1/8 for hashes, 1/4
    for the ring.
    """
    sets = 1 << max(6, (size_bytes // 2 // 64).bit_length() - 1)
    return PretokenCache(_zeros(sets * 8), _zeros(sets // 2 * 4), np.zeros(sets * 8, np.uint32), np.zeros(1, np.uint64))


def _zeros(words: int) -> Array:
    """Returns zeros that begin at a cache line."""
    room = np.zeros(words + 8, np.uint64)
    skip = (-room.ctypes.data % 64) // 8
    return room[skip : skip + words]


@njit(nogil=True, cache=True)
def key_of(text: Bytes, at: int, length: int, safe: int) -> tuple[np.uint64, np.uint64]:
    """Returns the key of a short pre-token. From positions up to `safe`, 16 bytes can be read at once."""
    one, two = np.uint64(0), np.uint64(length) << _LAST
    if at <= safe:
        one = eight_bytes_at(text, at)
        if length < 8:
            one &= (_ONE << (np.uint64(length) * _EIGHT)) - _ONE
        else:
            two |= eight_bytes_at(text, at + 8) & ((_ONE << (np.uint64(length - 8) * _EIGHT)) - _ONE)
        return one, two
    # Near the end of the data only single bytes may be read: the same two words, byte by byte.
    for place in range(length):
        bits = np.uint64(text[at + place]) << (np.uint64(place & 7) * _EIGHT)
        if place < 8:
            one |= bits
        else:
            two |= bits
    return one, two


@njit(nogil=True, cache=True)
def set_of(one: np.uint64, two: np.uint64, mask: np.uint64) -> np.uint64:
    """Returns the first word of the set of a key."""
    mixed = (one ^ two * _ODD_TWO) * _ODD_ONE
    return ((mixed >> _HALF) & mask) << _THREE


@njit(nogil=True, cache=True)
def recall_short(spot: Uint64s, one: np.uint64, two: np.uint64, ids: Ints, count: int) -> int:
    """Writes the ids of a short pre-token, whose set begins at `spot`, to `ids` from `count` on.

    Returns the new count, or the old one unless the pre-token is in the first place of its set and has at most three
    ids. Four places of `ids` are written.
    """
    high = spot[3]
    if spot[0] != one or spot[1] != two or high >= _FOUR << _HALF:
        return count
    put_eight_bytes(ids, count << 2, spot[2])
    put_eight_bytes(ids, (count << 2) + 8, high & _LOW)
    return count + signed(high >> _HALF)


@njit(nogil=True, cache=True)
def recall_second(
    spot: Uint64s,
    one: np.uint64,
    two: np.uint64,
    ring: Ring,
    head: np.uint64,
    ids: Ints,
    count: int,
) -> int:
    """Does the same for a pre-token in the second place, which moves to the first, or with its ids in the ring."""
    low, high = spot[2], spot[3]
    if spot[0] != one or spot[1] != two:
        if spot[4] != one or spot[5] != two:
            return count
        for at in range(_SHORT_ENTRY):
            spot[at], spot[_SHORT_ENTRY + at] = spot[_SHORT_ENTRY + at], spot[at]
        low, high = spot[2], spot[3]
    number = signed(high >> _HALF)
    if number <= 3:
        put_eight_bytes(ids, count << 2, low)
        put_eight_bytes(ids, (count << 2) + 8, high & _LOW)
        return count + number
    if low + ring.words < head:
        return count
    base = signed(low & (ring.words - _ONE))
    for place in range(number):
        ids[count + place] = ring.records[base + place]
    return count + number


@njit(nogil=True, cache=True)
def _room(head: np.uint64, words: np.uint64, wanted: np.uint64) -> np.uint64:
    """Returns the position of `wanted` contiguous words in the ring: its head, or its beginning if the rest is too
    short.
    """
    left = words - (head & (words - _ONE))
    return head if left >= wanted else head + left


@njit(nogil=True, cache=True)
def keep_short(
    spot: Uint64s,
    one: np.uint64,
    two: np.uint64,
    ring: Ring,
    head: np.uint64,
    ids: Ints,
    first: int,
    count: int,
) -> np.uint64:
    """Stores the ids from `first` to `count`; returns the new head of the ring."""
    number = count - first
    low, high = np.uint64(ids[first]) & _LOW, np.uint64(number) << _HALF
    if number > 3:
        low = _room(head, ring.words, np.uint64(number))
        head = low + np.uint64(number)
        base = signed(low & (ring.words - _ONE))
        for place in range(number):
            ring.records[base + place] = ids[first + place]
    else:
        if number > 1:
            low |= (np.uint64(ids[first + 1]) & _LOW) << _HALF
        if number > 2:
            high |= np.uint64(ids[first + 2]) & _LOW
    at = 0
    if spot[1] != 0 and (spot[0] != one or spot[1] != two):
        at = _SHORT_ENTRY
    spot[at], spot[at + 1], spot[at + 2], spot[at + 3] = one, two, low, high
    return head


@njit(nogil=True, cache=True)
def span_hash(text: Bytes, begin: int, end: int) -> np.uint64:
    """Hashes some bytes, eight at a time; the last eight overlap the ones before. Never 0."""
    mixed = np.uint64(end - begin) * _ODD_TWO
    if end - begin < 8:
        for at in range(begin, end):
            mixed = (mixed ^ np.uint64(text[at])) * _ODD_ONE
    else:
        # All whole groups of eight but the last, which is read so that it ends with the span.
        for at in range(begin, end - 8, 8):
            mixed = (mixed ^ eight_bytes_at(text, at)) * _ODD_ONE
            mixed ^= mixed >> _HALF
        mixed = (mixed ^ eight_bytes_at(text, end - 8)) * _ODD_ONE
    mixed ^= mixed >> _HALF
    return max(mixed * _ODD_TWO, _ONE)


@njit(nogil=True, cache=True)
def same(one: Bytes, begin: int, two: Bytes, start: int, length: int) -> bool:
    """Whether `length` bytes from byte `begin` of one view and from byte `start` of another on are equal."""
    # Fewer than eight bytes are compared one by one.
    for at in range(length if length < 8 else 0):
        if byte_at(one, begin + at) != byte_at(two, start + at):
            return False
    if length < 8:
        return True
    # Eight bytes at a time; the last eight overlap the ones before.
    for at in range(0, length - 8, 8):
        if eight_bytes_at(one, begin + at) != eight_bytes_at(two, start + at):
            return False
    return bool(eight_bytes_at(one, begin + length - 8) == eight_bytes_at(two, start + length - 8))


@njit(nogil=True, cache=True)
def recall_long(token: LongPretoken, spot: Uint64s, ring: Ring, head: np.uint64, ids: Ints, count: int) -> int:
    """Writes the ids of a long pre-token, whose set begins at `spot`; returns the new count."""
    # A set has two entries. One counts if the ring has not overwritten its place since.
    for way in range(0, 2 * _LONG_ENTRY, _LONG_ENTRY):
        place = spot[way + 1]
        if spot[way] == token.mark and place + ring.words >= head:
            base = signed(place & (ring.words - _ONE)) << 2
            length = token.length
            if four_bytes_at(ring.records, base) == length and same(
                token.text, token.at, ring.records, base + 8, length
            ):
                number = four_bytes_at(ring.records, base + 4)
                base += 8 + ((length + 3) >> 2 << 2)
                for one in range(number):
                    ids[count + one] = four_bytes_at(ring.records, base + (one << 2))
                return count + int(number)
    return count


@njit(nogil=True, cache=True)
def keep_long(
    token: LongPretoken, spot: Uint64s, ring: Ring, head: np.uint64, ids: Ints, first: int, count: int
) -> np.uint64:
    """Stores the ids from `first` to `count` in the first place of the set; the entry there moves to the second place.

    Returns the new head of the ring.
    """
    records, length = ring.records, token.length
    number, size = count - first, (length + 3) >> 2
    wanted = np.uint64(2 + size + number)
    if wanted > ring.words:
        return head
    place = _room(head, ring.words, wanted)
    base = signed(place & (ring.words - _ONE)) << 2
    put_four_bytes(records, base, length)
    put_four_bytes(records, base + 4, number)
    base += 8
    for byte in range(length):
        put_byte(records, base + byte, token.text[token.at + byte])
    base += size << 2
    for one in range(number):
        put_four_bytes(records, base + (one << 2), ids[first + one])
    spot[2], spot[3] = spot[0], spot[1]
    spot[0], spot[1] = token.mark, place
    return place + wanted
