"""Counting byte strings gives the result of Python's Counter, in one order for any order of the input."""

import random
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gristmill.kernels.bpe.pretoken_classes import class_table
from gristmill.kernels.bpe.pretoken_counts import count_pretokens
from gristmill.kernels.bpe.pretokenize import CL100K, GPT2, split
from gristmill.kernels.hash.word_counts import BLOCK, CountedWords, WordCounts, add_words, export, no_words
from gristmill.kernels.text.byte_strings import order_of
from lent_arrays import lent

# Lengths around 8 (one load), 15 (the longest inside a slot) and 16 and 24 (whole steps of a long one).
LENGTHS = [0, 1, 2, 7, 8, 9, 14, 15, 16, 17, 23, 24, 25, 40]
WORDS = st.lists(
    st.sampled_from(LENGTHS).flatmap(lambda size: st.text("\0a\xff", min_size=size, max_size=size)),
    max_size=60,
).map(lambda words: [word.encode("latin-1") for word in words])


def arrays(words: list[bytes]) -> tuple[np.ndarray, np.ndarray]:
    return np.frombuffer(b"".join(words) or b"\0", np.uint8).copy(), np.cumsum([0, *map(len, words)])


def add(table: WordCounts, words: list[bytes], counts: list[int] | None = None) -> WordCounts:
    return add_words(table, *arrays(words), np.array(counts if counts else [1] * len(words), np.int64))


def listed(words: CountedWords) -> list[tuple[bytes, int]]:
    ends = words.offsets.tolist()
    data = words.data.tobytes()
    return [(data[a:b], n) for a, b, n in zip(ends, ends[1:], words.counts.tolist(), strict=False)]


@given(WORDS, st.integers(1, 3))
def test_counts_are_those_of_a_counter_sorted_by_bytes(words, min_count):
    """Strings that differ in a zero byte, in length or in their last byte alone are counted apart."""
    wanted = sorted((word, count) for word, count in Counter(words).items() if count >= min_count)
    assert listed(export(add(no_words(), words), min_count)) == wanted


@settings(max_examples=50, deadline=None)
@given(WORDS, WORDS)
def test_two_tables_merge_into_the_table_of_both(some, others):
    """Counting in parts and adding the parts up gives the same arrays as counting all at once, in either order."""
    whole = export(add(no_words(), some + others))
    for first, second in ((some, others), (others, some)):
        merged = export(add_words(add(no_words(), first), *export(add(no_words(), second))))
        assert all(np.array_equal(one, other) for one, other in zip(whole, merged, strict=True))


def test_a_table_grows_through_many_words_of_all_lengths():
    """A hundred thousand distinct words with large counts survive every growth of the table and of the arena."""
    draw = random.Random(5)
    words = [b"%d" % number + b"x" * draw.choice(LENGTHS) for number in range(100_000)]
    counts = [draw.randint(1, 2**40) for _ in words]
    table = no_words(1)
    for first in range(0, len(words), 30_000):
        table = add(table, words[first : first + 30_000], counts[first : first + 30_000])
    assert listed(export(table)) == sorted(zip(words, counts, strict=True))


def test_words_at_the_end_of_memory_are_read_within_it():
    """The last bytes of the data are counted without reading past them: later bytes do not change the result."""
    words = [b"abc", b"de"]
    data, offsets = arrays(words)
    counted = []
    for filling in (0, 120):
        padded = np.concatenate([data, np.full(32, filling, np.uint8)])
        counted.append(listed(export(add_words(no_words(), padded[: len(data)], offsets, np.ones(2, np.int64)))))
    assert counted == [[(b"abc", 1), (b"de", 1)]] * 2


@settings(max_examples=100, deadline=None)
@given(WORDS)
def test_order_is_that_of_python_and_stable(words):
    """Strings are sorted as Python sorts bytes; equal ones keep the order of their rows."""
    assert order_of(*arrays(words)).tolist() == sorted(range(len(words)), key=lambda row: words[row])


@pytest.mark.parametrize("pattern", [CL100K, GPT2])
def test_pretokens_are_counted_as_the_scanner_cuts_them(pattern):
    """Over texts that fill several blocks, each pre-token is counted once, and none reaches over the end of a text."""
    draw = random.Random(7)
    texts = [
        " ".join(draw.choices(["don't", "Größe", "1234", "日本語", "\n\n", "== "], k=draw.randint(0, 40))).encode()
        for _ in range(200)
    ]
    data, offsets = arrays(texts)
    offsets = offsets.astype(np.int32)
    ends, _ = split(data, offsets, pattern, class_table())
    assert len(ends) > 3 * BLOCK
    wanted = Counter(data[a:b].tobytes() for a, b in zip([0, *ends.tolist()], ends.tolist(), strict=False))
    counted = count_pretokens(no_words(), *lent(data, offsets), pattern, class_table())
    assert listed(export(counted)) == sorted(wanted.items())
