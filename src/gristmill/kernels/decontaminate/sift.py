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
from gristmill.kernels.memory import Ints, Uint64s, view
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
    """Candidates that passed the filter."""
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
    filter: Uint64s
    filter_shift: np.uint64
    """A seed shifted right by this many bits is its index in the filter."""
    slots: Uint64s
    slot_bits: int


class TextSearch(NamedTuple):
    """Views of everything that `read_text` looks up; built once for all texts by `text_search`."""

    words: WordTables
    seeds: SeedLookup
    short_seeds: SeedLookup
    """For units with seeds of one word."""


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
    return SeedLookup(
        seed_words,
        shingles.roll_power(seed_words),
        np.uint64(seed_words) * layout.LENGTH,
        view(units.filter),
        np.uint64(64 - table_bits(len(units.filter))),
        view(units.slots),
        table_bits(len(units.slots)),
    )


@njit(nogil=True, cache=True)
def text_search(tables: WordTables, units: Units, short: Units) -> TextSearch:
    """Views for `read_text` of arrays that the caller's caller keeps alive; `short`: units with seeds of one word."""
    return TextSearch(view(tables), _lookup_of(units, units.seed_words), _lookup_of(short, 1))


@njit(nogil=True, cache=True)
def _seed_at(sums: Uint64s, at: int, lookup: SeedLookup) -> np.uint64:
    """The seed of the window that begins at word `at`."""
    return window_sum(sums, at, lookup.seed_words, lookup.power) + lookup.kind


@njit(nogil=True, cache=True)
def _passes(filter_: Uint64s, shift: np.uint64, seed: np.uint64) -> bool:
    """Whether the three bits of a seed are set in the filter."""
    bits = three_bits(seed)
    return bool(filter_[np.int64(seed >> shift)] & bits == bits)


@njit(nogil=True, cache=True)
def _find_leads(sums: Uint64s, count: int, lookup: SeedLookup, maybe: Uint64s, leads: Ints) -> int:
    """Writes the words where a seed begins to `leads`; returns the number of leads."""
    led = known = 0
    shift, mask = np.uint64(64 - lookup.slot_bits), (1 << lookup.slot_bits) - 1
    # Each window costs one look into the filter, without a branch: it is always written, and counted only if it passes.
    for at in range(count - lookup.seed_words + 1):
        seed = _seed_at(sums, at, lookup)
        maybe[known] = at
        known += int(_passes(lookup.filter, lookup.filter_shift, seed))
    # Request the memory of all slots before the first one is read.
    for k in range(known):
        seed = _seed_at(sums, int(np.int64(maybe[k])), lookup)
        prefetch(lookup.slots, _UINT64_BYTES * np.int64(seed * layout.GOLDEN >> shift))
    for k in range(known):
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
    sums, maybe = view(buffers.sums), view(buffers.maybe)
    count = shingles.scan_words(view(data), begin, end, len(data), search.words, sums, 0, buffers.edge)
    leads = _find_leads(sums, count, search.seeds, maybe, view(buffers.leads))
    return TextCounts(count, leads, _find_leads(sums, count, search.short_seeds, maybe, view(buffers.leads_short)))
