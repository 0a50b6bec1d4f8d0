"""Trains byte-pair encoding: from distinct pre-tokens and their counts to the list of merges.

Sennrich et al. 2016, on bytes: the most frequent pair of neighbours becomes a token, again and again. The merges equal
those of Hugging Face `tokenizers` 0.23 on the same counts (`BpeTrainer` with the byte alphabet), ties included, as long
as its 32-bit pair counts do not overflow; ours hold 2^39 occurrences of a word. The merges do not depend on the order
of the words. Pairs in a run are counted with overlaps ("aaaa" has three of "aa") and merged from the left.

All words are in one array with a cell between them. A cell has an id and the count of its word, so an occurrence is
just a position. A token of several bytes is in its first and its last cell: from any position, the token to the right
begins after the length of this one, and the token to the left ends one cell before. A merge visits only the positions
of its pair, in ascending order. The counts of its neighbours are first summed by neighbour, so the table of pairs is
read once for each distinct neighbour (1.7 million times for 128,000 merges on 134 MB of text) and not for each of the
10 million occurrences.
"""

from typing import Any

import numpy as np

from gristmill.kernels.bpe.pairs import FIRST, KEY, PLACES, Pairs, lower, no_pairs, pop, put, with_room
from gristmill.kernels.compile import njit

Array = np.ndarray[Any, Any]

_ID_BITS = 24
_NONE = (1 << _ID_BITS) - 1
_ID = np.int64(_NONE)

LARGEST_COUNT = (1 << 39) - 1
LARGEST_VOCABULARY = _NONE
LARGEST_BYTES = 1 << 30
"""The most bytes of all distinct words together: positions are 32-bit numbers."""


def byte_order() -> Array:
    """Returns the bytes in the order of the ids that `tokenizers` gives them: by the character that represents each
    byte.

    Printable Latin-1 bytes represent themselves; the others use the characters from U+0100 on. Ties between pairs are
    broken by these ids, so the order is part of the result.
    """
    shown = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    return np.array(shown + [byte for byte in range(256) if byte not in set(shown)], np.uint8)


@njit(nogil=True, cache=True)
def _lay_out(data: Array, offsets: Array, counts: Array, ids: Array, size: int) -> Array:
    """Returns the cells of all words that have a pair."""
    cells = np.empty(size, np.int64)
    cells[0] = _ID
    at = 1
    # A word of one byte has no pair, so it is left out. A cell has the count of its word and an id; _ID separates
    # words.
    for word in range(len(counts)):
        begin, end = offsets[word], offsets[word + 1]
        if end - begin > 1 and counts[word] > 0:
            # One cell for each byte.
            for place in range(begin, end):
                cells[at] = counts[word] << _ID_BITS | ids[data[place]]
                at += 1
            cells[at] = _ID
            at += 1
    return cells


@njit(nogil=True, cache=True)
def _first_pairs(cells: Array, floor: int) -> tuple[Pairs, Array, int, int]:
    """Returns all pairs of bytes that reach the floor, their positions, the number of positions, and the
    longest list.
    """
    sums, numbers = np.zeros(1 << 16, np.int64), np.zeros(1 << 16, np.int64)
    # Count all pairs of neighbours, weighted by word (`sums`) and by position (`numbers`).
    for at in range(1, len(cells) - 1):
        left, right = cells[at] & _ID, cells[at + 1] & _ID
        if left != _ID and right != _ID:
            sums[left << 8 | right] += cells[at] >> _ID_BITS
            numbers[left << 8 | right] += 1
    pairs = no_pairs(1 << 16)
    taken, longest = 0, 0
    starts = np.full(1 << 16, -1, np.int64)
    # Each pair that reaches the floor gets a place for the list of its positions.
    for pair in range(1 << 16):
        if numbers[pair] and sums[pair] >= floor:
            put(pairs, (pair >> 8) << 32 | (pair & 255), sums[pair], taken, numbers[pair])
            starts[pair] = taken
            taken += numbers[pair]
            longest = max(longest, numbers[pair])
    # A merge removes a cell and creates at most two pairs. Memory that is never written is never allocated by the
    # system.
    places = np.empty(taken + 2 * len(cells), np.int32)
    # Fill the lists in ascending order.
    for at in range(1, len(cells) - 1):
        left, right = cells[at] & _ID, cells[at + 1] & _ID
        if left != _ID and right != _ID and starts[left << 8 | right] >= 0:
            places[starts[left << 8 | right]] = at
            starts[left << 8 | right] += 1
    return pairs, places, taken, longest


@njit(nogil=True, cache=True, forceinline=True)
def _tally(sums: Array, numbers: Array, seen: Array, distinct: int, neighbour: int, count: int) -> int:
    """Counts one more occurrence beside a neighbour; returns the number of distinct neighbours."""
    if numbers[neighbour] == 0:
        seen[distinct] = neighbour
        distinct += 1
    numbers[neighbour] += 1
    sums[neighbour] += count
    return distinct


@njit(nogil=True, cache=True)
def _rewrite(
    cells: Array, lengths: Array, places: Array, pair: Array, hits: Array, sums: Array, numbers: Array, seen: Array
) -> tuple[int, int, int]:
    """Merges a pair at all its remaining positions.

    Fills `hits` (position, left neighbour, right neighbour) and the tallies of both sides; returns the number of hits
    and of distinct neighbours on either side. An occurrence is tallied when the next one is merged as well, so no
    neighbour is counted that disappears right after.
    """
    left, right, made = pair
    left_length, length = lengths[left], lengths[made]
    left_sums, right_sums, left_numbers, right_numbers = sums[0], sums[1], numbers[0], numbers[1]
    left_seen, right_seen = seen[0], seen[1]
    found, lefts, rights, waiting = 0, 0, 0, 0
    # One turn more than positions: each turn merges at its position, and tallies the one before.
    for number in range(len(places) + 1):
        at = 0
        if number < len(places):
            at = int(np.int64(places[number]))
            second = at + left_length
            if cells[at] & _ID != left or cells[second] & _ID != right:
                continue
            count = cells[at] >> _ID_BITS << _ID_BITS
            cells[second - 1] = count | _ID
            cells[second] = count | _ID
            cells[at] = count | made
            cells[at + length - 1] = count | made
        if waiting > 0:
            count = cells[waiting] >> _ID_BITS
            before, after = cells[waiting - 1] & _ID, cells[waiting + length] & _ID
            hits[found, 0], hits[found, 1], hits[found, 2] = waiting, before, after
            found += 1
            if before != _ID:
                lefts = _tally(left_sums, left_numbers, left_seen, lefts, before, count)
            if after != _ID and after != made:
                rights = _tally(right_sums, right_numbers, right_seen, rights, after, count)
        waiting = at
    return found, lefts, rights


@njit(nogil=True, cache=True)
def _settle(
    pairs: Pairs, pair: Array, floor: int, taken: int, sums: Array, numbers: Array, seen: Array, on_left: bool
) -> int:
    """Moves counts from the removed pairs to the new ones, on one side.

    Afterwards `numbers` has the begin of the list of each new pair, or -1 if the pair is too rare to need a list.
    """
    left, right, made = pair
    # Each neighbour had a pair with one of the merged symbols, and has one with the new symbol instead.
    for neighbour in seen:
        count, number = sums[neighbour], numbers[neighbour]
        if not on_left:
            lower(pairs, right << 32 | neighbour, count)
            key = made << 32 | neighbour
        else:
            lower(pairs, (right if neighbour == made else neighbour) << 32 | left, count)
            key = np.int64(neighbour) << 32 | made
        if count >= floor:
            put(pairs, key, count, taken, number)
            numbers[neighbour] = taken
            taken += number
        else:
            numbers[neighbour] = -1
    return taken


@njit(nogil=True, cache=True)
def _list_places(
    places: Array, lengths: Array, made: int, hits: Array, sums: Array, numbers: Array, seen: Array, rights: Array
) -> None:
    """Writes the positions of the new pairs, in ascending order, and clears the tallies."""
    # Each occurrence belongs to the list of its left pair and to that of its right pair, if these have lists.
    for hit in range(len(hits)):
        at, before, after = hits[hit, 0], hits[hit, 1], hits[hit, 2]
        if before != _NONE and numbers[0, before] >= 0:
            places[numbers[0, before]] = at - lengths[before]
            numbers[0, before] += 1
        if after != _NONE and after != made and numbers[1, after] >= 0:
            places[numbers[1, after]] = at
            numbers[1, after] += 1
    for neighbour in seen:
        sums[0, neighbour], numbers[0, neighbour] = 0, 0
    for neighbour in rights:
        sums[1, neighbour], numbers[1, neighbour] = 0, 0


@njit(nogil=True, cache=True)
def _merge(cells: Array, merges: int, floor: int) -> Array:
    """Returns the left and right id of each merge, at most `merges` of them."""
    pairs, places, taken, longest = _first_pairs(cells, floor)
    made = np.empty((merges, 2), np.int32)
    lengths = np.ones(256 + merges, np.int64)
    hits = np.empty((longest, 3), np.int32)
    sums, numbers = np.zeros((2, 256 + merges), np.int64), np.zeros((2, 256 + merges), np.int64)
    seen = np.empty((2, 256 + merges), np.int32)
    pair = np.empty(3, np.int64)
    # Each turn makes one merge: the most frequent pair that is left.
    for merge in range(merges):
        record = pop(pairs, floor)
        if record < 0:
            return made[:merge]
        key, first = pairs.records[record, KEY], pairs.records[record, FIRST]
        pair[0], pair[1], pair[2] = key >> 32, key & 0xFFFFFFFF, 256 + merge
        made[merge, 0], made[merge, 1] = pair[0], pair[1]
        lengths[256 + merge] = lengths[pair[0]] + lengths[pair[1]]
        listed = places[first : first + pairs.records[record, PLACES]]
        found, lefts, rights = _rewrite(cells, lengths, listed, pair, hits, sums, numbers, seen)
        pairs = with_room(pairs, lefts + rights)
        taken = _settle(pairs, pair, floor, taken, sums[0], numbers[0], seen[0, :lefts], True)
        taken = _settle(pairs, pair, floor, taken, sums[1], numbers[1], seen[1, :rights], False)
        _list_places(places, lengths, pair[2], hits[:found], sums, numbers, seen[0, :lefts], seen[1, :rights])
    return made


def _floor(data: Array, offsets: Array, counts: Array, merges: int) -> int:
    """Returns a count that every merge reaches, so that rarer pairs need no memory.

    While a word of two bytes or more has a pair left, some pair is at least as frequent as the word. So before any
    merge with a lower count, each word with this count is one token, created by its own merge: the count of merge
    number n is at least that of the n-th most frequent word. This holds for distinct words, which is checked.
    """
    longer = np.flatnonzero((np.diff(offsets) > 1) & (counts > 0))
    if merges == 0 or len(longer) < merges:
        return 1
    top = longer[np.argpartition(counts[longer], len(longer) - merges)[len(longer) - merges :]]
    words = {data[offsets[word] : offsets[word + 1]].tobytes() for word in top}
    return int(counts[top].min()) if len(words) == merges else 1


def train(
    data: Array, offsets: Array, counts: Array, merges: int, min_frequency: int = 0, order: Array | None = None
) -> tuple[Array, Array]:
    """Returns the first `merges` merges: the left and the right id of each (int32); fewer if no pair is left.

    `data` and `offsets` are the words, and `counts` (int64) is how often each occurs; a word with count 0 is ignored.
    The id of a byte is its rank in `order` (256 distinct bytes; by default `byte_order()`), and merge number n creates
    the id 256 + n. A pair that occurs fewer than `min_frequency` times is not merged.
    """
    order = byte_order() if order is None else np.asarray(order, np.uint8)
    offsets, counts = np.asarray(offsets, np.int64), np.asarray(counts, np.int64)
    if len(np.unique(order)) != 256 or len(order) != 256:
        raise ValueError("the order of the bytes must have each of the 256 bytes once")
    if len(offsets) != len(counts) + 1:
        raise ValueError(f"{len(counts)} counts do not fit {len(offsets) - 1} words")
    if merges < 0 or merges + 256 > LARGEST_VOCABULARY:
        raise ValueError(f"{merges} merges; 0 to {LARGEST_VOCABULARY - 256} are possible")
    if len(counts) and (counts.min() < 0 or counts.max() > LARGEST_COUNT):
        raise ValueError(f"a word occurs {counts.min()} or {counts.max()} times; 0 to {LARGEST_COUNT} are possible")
    spans = np.diff(offsets)
    used = (spans > 1) & (counts > 0)
    size = int((spans[used] + 1).sum()) + 1
    if size > LARGEST_BYTES:
        raise ValueError(f"{size} bytes of distinct words are too many; {LARGEST_BYTES} fit. Drop the rarest words")
    ids = np.empty(256, np.int64)
    ids[order] = np.arange(256)
    floor = max(1, min_frequency, _floor(data, offsets, counts, merges))
    made = np.asarray(_merge(_lay_out(data, offsets, counts, ids, size), merges, floor))
    return np.ascontiguousarray(made[:, 0]), np.ascontiguousarray(made[:, 1])


def spell(left: Array, right: Array, order: Array | None = None) -> list[bytes]:
    """Returns the bytes of every id, those of the single bytes first."""
    tokens = [bytes([byte]) for byte in (byte_order() if order is None else order)]
    for one, other in zip(left.tolist(), right.tolist(), strict=True):
        tokens.append(tokens[one] + tokens[other])
    return tokens
