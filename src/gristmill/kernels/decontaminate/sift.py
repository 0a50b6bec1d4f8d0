"""Finds the places of a text where a unit may begin: reads the words, filters them, and looks up their postings.

The loops that run for every word are in this file. About one in a hundred words passes the filters.
"""

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from gristmill.kernels.compile import njit
from gristmill.kernels.decontaminate import units as layout
from gristmill.kernels.decontaminate.units import Units, table_bits, three_bits
from gristmill.kernels.dedup import shingles
from gristmill.kernels.dedup.shingles import WordTables, room_for, window_sum
from gristmill.kernels.memory import Ints, Uint64s, tail, view
from gristmill.kernels.memory_blocks import BLOCK, prefetch

Array = np.ndarray[Any, Any]

_UINT64_BYTES = 8


class TextBuffers(NamedTuple):
    """What `read_text` writes for one text; `make_buffers` allocates it."""

    sums: npt.NDArray[np.uint64]
    """Rolled sums of the words, as `shingles.sums_of` has them."""
    edge: npt.NDArray[np.uint8]
    """Scratch of `scan_words`."""
    maybe: npt.NDArray[np.uint64]
    """Candidates that passed the first half of the filter."""
    leads: npt.NDArray[np.int64]
    """Pairs of the word where a seed begins in the text, and the first posting of the seed."""
    leads_short: npt.NDArray[np.int64]
    """The same for units with seeds of one word."""


class TextCounts(NamedTuple):
    """How many entries of `TextBuffers` one text has filled."""

    words: int
    leads: int
    leads_short: int


class SeedLookup(NamedTuple):
    """Views of the filter and the hash table of `Units`, with the constants to look up a seed."""

    seed_words: int
    power: np.uint64
    """`shingles.roll_power(seed_words)`."""
    kind: np.uint64
    """Added to a rolled sum, so that seeds of different lengths differ."""
    first_filter: Uint64s
    second_filter: Uint64s
    filter_shift: np.uint64
    """A seed shifted right by this many bits is its index in a half of the filter."""
    slots: Uint64s
    slot_bits: int


class TextSearch(NamedTuple):
    """Views of everything that `read_text` looks up; built once for all texts by `text_search`."""

    words: WordTables
    seeds: SeedLookup
    short_seeds: SeedLookup
    """For units with seeds of one word."""
    gate: Uint64s
    gate_shift: np.uint64
    """A seed shifted right by this many bits is the number of its bit in the gate."""


@njit(nogil=True, cache=True)
def make_buffers(longest: int) -> TextBuffers:
    """Allocates buffers for texts of up to `longest` bytes."""
    words = room_for(longest)
    sums = np.empty(words, np.uint64)
    sums[0] = 0
    return TextBuffers(
        sums,
        np.empty(BLOCK, np.uint8),
        np.empty(words, np.uint64),
        np.empty((words, 2), np.int64),
        np.empty((words, 2), np.int64),
    )


@njit(nogil=True, cache=True)
def _lookup_of(units: Units, seed_words: int) -> SeedLookup:
    half = len(units.filter) // 2
    return SeedLookup(
        seed_words,
        shingles.roll_power(seed_words),
        np.uint64(seed_words) * layout.LENGTH,
        view(units.filter),
        tail(view(units.filter), half),
        np.uint64(64 - table_bits(half)),
        view(units.slots),
        table_bits(len(units.slots)),
    )


@njit(nogil=True, cache=True)
def text_search(tables: WordTables, units: Units, short: Units) -> TextSearch:
    """Views for `read_text` of arrays that the caller's caller keeps alive; `short`: units with seeds of one word."""
    # A number of the gate has 64 bits: its index takes six bits fewer than that of a bit.
    gate_shift = np.uint64(58 - table_bits(len(short.gate)))
    long_seeds, short_seeds = _lookup_of(units, units.seed_words), _lookup_of(short, 1)
    return TextSearch(view(tables), long_seeds, short_seeds, view(short.gate), gate_shift)


@njit(nogil=True, cache=True)
def _seed_at(sums: Uint64s, at: int, lookup: SeedLookup) -> np.uint64:
    """The seed of the window that begins at word `at`."""
    return window_sum(sums, at, lookup.seed_words, lookup.power) + lookup.kind


@njit(nogil=True, cache=True)
def _passes(filter_: Uint64s, shift: np.uint64, seed: np.uint64) -> bool:
    """Whether the three bits of a seed are set in one half of the filter."""
    bits = three_bits(seed)
    return bool(filter_[np.int64(seed >> shift)] & bits == bits)


@njit(nogil=True, cache=True)
def _bit(gate: Uint64s, shift: np.uint64, seed: np.uint64) -> int:
    """The bit of a seed in the gate: 1 if the seed may be one of a unit."""
    place = seed >> shift
    bits = gate[np.int64(place >> np.uint64(6))]
    return int(np.int64(bits >> (place & np.uint64(63)) & np.uint64(1)))


@njit(nogil=True, cache=True)
def _follow(sums: Uint64s, lookup: SeedLookup, maybe: Uint64s, known: int, leads: Ints) -> int:
    """Writes those of `known` candidates whose window is a seed to `leads`; returns the number
    of leads.
    """
    led = 0
    shift, mask = np.uint64(64 - lookup.slot_bits), (1 << lookup.slot_bits) - 1
    # The second half of the filter. A candidate is always written and counted only if it passes: no branch.
    passed = 0
    # One look for each candidate.
    for k in range(known):
        at = int(np.int64(maybe[k]))
        maybe[passed] = at
        passed += int(_passes(lookup.second_filter, lookup.filter_shift, _seed_at(sums, at, lookup) * layout.GOLDEN))
    # Request the memory of all slots before the first one is read.
    for k in range(passed):
        seed = _seed_at(sums, int(np.int64(maybe[k])), lookup)
        prefetch(lookup.slots, _UINT64_BYTES * np.int64(seed * layout.GOLDEN >> shift))
    # Look up the seeds that are left.
    for k in range(passed):
        at = int(np.int64(maybe[k]))
        seed = _seed_at(sums, at, lookup)
        place = int(np.int64(seed * layout.GOLDEN >> shift))
        slot = lookup.slots[place]
        # Open addressing: the upper half of a slot has to be that of the seed.
        while slot and (slot ^ seed) & layout.UPPER:
            place = (place + 1) & mask
            slot = lookup.slots[place]
        if slot:
            leads[2 * led], leads[2 * led + 1] = at, np.int64(slot & layout.LOWER) - 1
            led += 1
    return led


@njit(nogil=True, cache=True)
def read_text(data: Array, begin: int, end: int, search: TextSearch, buffers: TextBuffers) -> TextCounts:
    """Reads data[begin:end] into `buffers` and returns the number of entries there."""
    sums, maybe, seeds = view(buffers.sums), view(buffers.maybe), search.seeds
    count = shingles.scan_words(view(data), begin, end, len(data), search.words, sums, 0, buffers.edge)
    known = 0
    before = np.uint64(0)
    # Seeds of one word: each word costs one look into the gate, a bitmap.
    for at in range(count):
        after = sums[at + 1]
        if _bit(search.gate, search.gate_shift, after - before * shingles.ROLL + layout.LENGTH):
            maybe[known] = at
            known += 1
        before = after
    led_short = _follow(sums, search.short_seeds, maybe, known, view(buffers.leads_short))
    known = 0
    # Longer seeds: each window costs one look into the first half of the filter, without a branch.
    for at in range(count - seeds.seed_words + 1):
        maybe[known] = at
        known += int(_passes(seeds.first_filter, seeds.filter_shift, _seed_at(sums, at, seeds)))
    led = _follow(sums, seeds, maybe, known, view(buffers.leads))
    return TextCounts(count, led, led_short)
