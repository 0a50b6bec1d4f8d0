"""Sets of strings as flat arrays answer as Python's own sets do."""

import random
import re

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from gristmill.kernels.hash.hashset import build, hash_digests, hash_strings, hash_words, labels_of
from gristmill.stages.buffers import bytes_of
from lent_arrays import lent

LINES = st.text("abAB#é. \t\r\n", max_size=40)


def as_array(data: bytes) -> np.ndarray:
    return np.frombuffer(data or b"\n", np.uint8)


def arrow(values: list[bytes]) -> tuple[np.ndarray, np.ndarray]:
    (offsets,) = lent(np.cumsum([0, *map(len, values)]).astype(np.int32))
    return as_array(b"".join(values)), offsets


def entries_of(text: str) -> set[bytes]:
    """The syntax of a list, with regular expressions."""
    found = set()
    for line in re.split("\r|\n", text):
        entry = re.sub(r"(^|(?<=[ \t]))#.*", "", line.removeprefix("\ufeff").strip(" \t")).strip(" \t")
        if entry:
            found.add(re.sub("[A-Z]", lambda letter: letter[0].lower(), entry).encode())
    return found


@given(LINES, st.booleans())
def test_a_list_is_its_lines_without_comments_spaces_and_case(text, marked):
    """The set contains what a plain reader of the file finds, and no other piece of the file."""
    text = "\ufeff" * marked + text
    wanted = entries_of(text)
    hashes, faults = hash_words(as_array(text.encode()))
    strings, added = build([(hashes, 0)])
    pieces = sorted(wanted | {piece.encode() for line in text.splitlines() for piece in (line, *line.split())} | {b""})
    found = labels_of(strings, hash_strings(*arrow(pieces))) == 0
    assert dict(zip(pieces, found.tolist(), strict=True)) == {piece: piece in wanted for piece in pieces}
    assert (faults, added) == (0, [len(wanted)])


def test_a_large_set_has_its_own_strings_and_no_others():
    """A hundred thousand strings that differ by one digit are all found; as many neighbours are not."""
    inside = [f"host{number}.example".encode() for number in range(0, 200_000, 2)]
    outside = [f"host{number}.example".encode() for number in range(1, 200_000, 2)]
    strings, added = build([(hash_words(as_array(b"\n".join(inside)))[0], 7)])
    assert added == [len(inside)]
    assert set(labels_of(strings, hash_strings(*arrow(inside))).tolist()) == {7}
    assert set(labels_of(strings, hash_strings(*arrow(outside))).tolist()) == {-1}


def test_an_entry_costs_no_more_than_16_bytes():
    """Fifty million entries must fit into memory next to the pages of a worker."""
    data = as_array("\n".join(map(str, range(100_000))).encode())
    strings, _ = build([(hash_words(data)[0], 0)])
    assert strings.nbytes <= 16 * 100_000


@settings(max_examples=50, deadline=None)
@given(st.lists(st.sets(st.sampled_from([bytes([letter]) * 3 for letter in b"abcdefgh"]), max_size=6), max_size=5))
def test_an_entry_of_several_lists_belongs_to_the_first(groups):
    """Labels do not depend on how full the table is or on the order within a list."""
    draw = random.Random(1)
    lists = [
        (hash_words(as_array(b"\n".join(draw.sample(sorted(group), len(group)))))[0], n)
        for n, group in enumerate(groups)
    ]
    strings, added = build(lists)
    wanted = {entry: label for label in range(len(groups) - 1, -1, -1) for entry in groups[label]}
    entries = sorted({bytes([letter]) * 3 for letter in b"abcdefgh"})
    found = labels_of(strings, hash_strings(*arrow(entries)))
    assert found.tolist() == [wanted.get(entry, -1) for entry in entries]
    assert sum(added) == len(wanted)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.binary(min_size=1, max_size=34), max_size=8), st.booleans())
def test_digests_are_16_or_32_bytes_and_all_else_is_a_fault(values, upper):
    """Hexadecimal in any case means its bytes; other lengths and other letters are counted, not used."""
    texts = [value.hex().upper() if upper else value.hex() for value in values]
    good = {value for value in values if len(value) in (16, 32)}
    hashes, faults = hash_digests(as_array("\n".join([*texts, "g" * 32]).encode()))
    strings, _ = build([(hashes, 0)])
    assert faults == 1 + sum(value not in good for value in values)
    found = labels_of(strings, hash_strings(*arrow(values))) if values else np.zeros(0)
    assert [label == 0 for label in found.tolist()] == [value in good for value in values]


def test_strings_of_a_slice_are_those_of_the_slice():
    """Offsets need not start at 0: Arrow slices share their bytes."""
    column = pa.array(["x", "abc", "abd", "y"]).slice(1, 2)
    hashes = hash_strings(*bytes_of(column))
    assert (hashes == hash_strings(*arrow([b"abc", b"abd"]))).all()
