"""Sets of strings as flat arrays answer as Python's own sets do."""

import random

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from gristmill.kernels.hash.hashset import build, hash_strings, labels_of
from gristmill.stages.buffers import bytes_of
from lent_arrays import lent


def as_array(data: bytes) -> np.ndarray:
    return np.frombuffer(data or b"\n", np.uint8)


def arrow(values: list[bytes]) -> tuple[np.ndarray, np.ndarray]:
    (offsets,) = lent(np.cumsum([0, *map(len, values)]).astype(np.int32))
    return as_array(b"".join(values)), offsets


def test_a_large_set_has_its_own_strings_and_no_others():
    """A hundred thousand strings that differ by one digit are all found; as many neighbours are not."""
    inside = [f"host{number}.example".encode() for number in range(0, 200_000, 2)]
    outside = [f"host{number}.example".encode() for number in range(1, 200_000, 2)]
    strings, added = build([(hash_strings(*arrow(inside)), 7)])
    assert added == [len(inside)]
    assert set(labels_of(strings, hash_strings(*arrow(inside))).tolist()) == {7}
    assert set(labels_of(strings, hash_strings(*arrow(outside))).tolist()) == {-1}


def test_an_entry_costs_no_more_than_16_bytes():
    """Fifty million entries must fit into memory next to the pages of a worker."""
    strings, _ = build([(hash_strings(*arrow([str(number).encode() for number in range(100_000)])), 0)])
    assert strings.nbytes <= 16 * 100_000


@settings(max_examples=50, deadline=None)
@given(st.lists(st.sets(st.sampled_from([bytes([letter]) * 3 for letter in b"abcdefgh"]), max_size=6), max_size=5))
def test_an_entry_of_several_lists_belongs_to_the_first(groups):
    """Labels do not depend on how full the table is or on the order within a list."""
    draw = random.Random(1)
    lists = [
        (hash_strings(*arrow(draw.sample(sorted(group), len(group)))), label) for label, group in enumerate(groups)
    ]
    strings, added = build(lists)
    wanted = {entry: label for label in range(len(groups) - 1, -1, -1) for entry in groups[label]}
    entries = sorted({bytes([letter]) * 3 for letter in b"abcdefgh"})
    found = labels_of(strings, hash_strings(*arrow(entries)))
    assert found.tolist() == [wanted.get(entry, -1) for entry in entries]
    assert sum(added) == len(wanted)


def test_strings_of_a_slice_are_those_of_the_slice():
    """Offsets need not start at 0: Arrow slices share their bytes."""
    column = pa.array(["x", "abc", "abd", "y"]).slice(1, 2)
    hashes = hash_strings(*bytes_of(column))
    assert (hashes == hash_strings(*arrow([b"abc", b"abd"]))).all()
