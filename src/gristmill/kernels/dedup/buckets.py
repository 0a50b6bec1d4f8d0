"""Buckets of documents that share a band: they decide which documents are compared.

A candidate group is a set of documents whose texts are compared. Buckets with the same members are one group, whichever
band they come from: the number of a group is a hash of its members, so a pair that shares all bands is compared once,
not 14 times. A small bucket whose members all share a larger one is dropped (`needless`). A bucket over the cap
(boilerplate) is cut into chunks by the top bits of the documents' hashes; its first few documents, the representatives,
go to every chunk. So the work is linear in the number of documents.
"""

from typing import Any

import numpy as np

from gristmill.kernels.compile import njit
from gristmill.kernels.hash.splitmix import GOLDEN, mix

Array = np.ndarray[Any, Any]

SIZES = 32
"""Length of the histogram of bucket sizes: entry k counts buckets of 2^(k-1)+1 to 2^k documents."""


@njit(nogil=True, cache=True)
def mixed(values: Array) -> Array:
    """Returns every value with its bits mixed."""
    out = np.empty(len(values), np.uint64)
    for at in range(len(values)):
        out[at] = mix(values[at])
    return out


@njit(nogil=True, cache=True)
def members_of(keys: Array, documents: Array, most: int) -> tuple[Array, Array]:
    """For each record that is kept: the sorted members of its bucket, if there are at most `most`.

    Returns offsets and values; `keys` and `documents` are those of the records, in the order of `groups_of`.
    """
    offsets = np.zeros(len(keys) + 1, np.int64)
    start = 0
    # First the sizes, a bucket at a time; one that is too large gets none.
    while start < len(keys):
        stop = _stop_of(keys, start)
        for place in range(start, stop):
            offsets[place + 1] = offsets[place] + (stop - start if stop - start <= most else 0)
        start = stop
    values = np.empty(offsets[-1], np.uint64)
    start = 0
    # Then the members: each record of a bucket gets all of them.
    while start < len(keys):
        stop = _stop_of(keys, start)
        if stop - start <= most:
            members = np.sort(documents[start:stop])
            # Copy the sorted members for each record.
            for place in range(start, stop):
                for number in range(stop - start):
                    values[offsets[place] + number] = members[number]
        start = stop
    return offsets, values


@njit(nogil=True, cache=True)
def needless(groups: Array, offsets: Array, values: Array) -> Array:
    """Returns the records whose bucket is contained in a larger bucket of the same document.

    `groups` is where the records of each document begin, and the end. Every member sees both buckets, so all of them
    drop it.
    """
    found = np.zeros(len(offsets) - 1, np.bool_)
    # Each document's buckets are compared with each other.
    for group in range(len(groups) - 1):
        # The number of bands bounds both loops.
        for one in range(groups[group], groups[group + 1]):
            size = offsets[one + 1] - offsets[one]
            # Only a larger bucket can contain this one.
            for other in range(groups[group], groups[group + 1]):
                if size and offsets[other + 1] - offsets[other] > size and not found[one]:
                    found[one] = _within(values, offsets[one], offsets[one + 1], offsets[other], offsets[other + 1])
    return found


@njit(nogil=True, cache=True)
def _within(values: Array, start: int, stop: int, begin: int, end: int) -> bool:
    """Whether sorted values[start:stop] are all in sorted values[begin:end]."""
    # Merge both lists; a value that is missing decides.
    while start < stop:
        while begin < end and values[begin] < values[start]:
            begin += 1
        if begin == end or values[begin] != values[start]:
            return False
        start += 1
    return True


@njit(nogil=True, cache=True)
def _stop_of(keys: Array, start: int) -> int:
    stop = start + 1
    while stop < len(keys) and keys[stop] == keys[start]:
        stop += 1
    return stop


@njit(nogil=True, cache=True)
def _chunk_bits(members: int, most: int) -> int:
    """A bucket over the cap has 2^bits chunks, so that a chunk has at most `most` documents on average."""
    bits = 0
    while most << bits < members:
        bits += 1
    return bits


@njit(nogil=True, cache=True)
def groups_of(
    keys: Array, documents: Array, most: int, representatives: int, elsewhere: int, leaders: Array
) -> tuple[Array, Array, Array, Array, Array]:
    """For sorted keys of bands: the records that are kept, each with its group, and a histogram of bucket sizes.

    Returns the index of the record, its group, the key of its bucket if that is over the cap (else 0), and whether the
    record goes there as a representative. If the records are a piece of one bucket, the rest of it has `elsewhere`
    documents, and `leaders` are the smallest of those, as many as there are representatives; the bucket is counted
    where its smallest document is.
    """
    total, start = 0, 0
    sizes = np.zeros(SIZES, np.int64)
    # First count: the sizes of the buckets and of the result.
    while start < len(keys):
        stop = _stop_of(keys, start)
        members = stop - start + elsewhere
        if members >= 2:
            if len(leaders) == 0 or documents[start:stop].min() < leaders.min():
                power = 1
                while 1 << power < members:
                    power += 1
                sizes[power] += 1
            chunks = 1 << _chunk_bits(members - representatives, most) if members > most else 0
            total += stop - start + representatives * chunks
        start = stop
    index, group = np.empty(total, np.int64), np.empty(total, np.uint64)
    bucket, leads = np.zeros(total, np.uint64), np.zeros(total, np.bool_)
    start, at = 0, 0
    # Then write the records, a bucket at a time.
    while start < len(keys):
        stop = _stop_of(keys, start)
        members = stop - start + elsewhere
        if 2 <= members <= most:
            together = np.uint64(members) * GOLDEN
            for place in range(start, stop):
                together += mix(documents[place] ^ GOLDEN)
            # A small bucket is one group, whose key depends on its members, so that equal buckets of other bands are
            # equal.
            for place in range(start, stop):
                index[at], group[at] = place, mix(together)
                at += 1
        elif members > most:
            bits = _chunk_bits(members - representatives, most)
            smallest = np.sort(np.concatenate((documents[start:stop], leaders)))[:representatives]
            last, ties = smallest[-1], 0
            for place in range(len(smallest)):
                ties += smallest[place] == last
            # A large bucket is cut into chunks by the bits of its documents; the smallest documents go into all chunks.
            for place in range(start, stop):
                document = documents[place]
                # Two shifts, since a shift by 64 is undefined.
                chunk = np.int64((document >> np.uint64(1)) >> np.uint64(63 - bits))
                is_lead = document < last or (document == last and ties > 0)
                ties -= document == last
                # A representative goes into every chunk, any other document into its own.
                for one in range(1 << bits) if is_lead else range(chunk, chunk + 1):
                    index[at], group[at] = place, mix(keys[start] + np.uint64(one + 1) * GOLDEN)
                    bucket[at], leads[at] = keys[start], is_lead
                    at += 1
        start = stop
    return index[:at], group[:at], bucket[:at], leads[:at], sizes
