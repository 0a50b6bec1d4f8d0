"""Merges equal those of Hugging Face `tokenizers` and of the definition, ties included."""

import json
import random
from collections import Counter
from collections.abc import Iterable
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer
from tokenizers.models import BPE
from tokenizers.pre_tokenizers import ByteLevel, Sequence, Split
from tokenizers.trainers import BpeTrainer

from gristmill.kernels.bpe.train import LARGEST_COUNT, byte_order, spell, train

# Two letters and a two-byte character: nearly every choice is a tie, and runs such as aaaa and abab are common.
TIES = st.lists(st.text(st.sampled_from("aabé"), min_size=1, max_size=14), min_size=1, max_size=30)
CHARACTERS = dict(zip(byte_order().tolist(), sorted(ByteLevel.alphabet()), strict=True))


def merges_of(counts: dict[bytes, int], merges: int, min_frequency: int = 0) -> list[tuple[bytes, bytes]]:
    words = list(counts)
    data, offsets = np.frombuffer(b"".join(words) or b"\0", np.uint8).copy(), np.cumsum([0, *map(len, words)])
    left, right = train(data, offsets, np.array(list(counts.values()), np.int64), merges, min_frequency)
    tokens = spell(left, right)
    return [(tokens[one], tokens[other]) for one, other in zip(left, right, strict=True)]


def library_merges(
    texts: Iterable[str], merges: int, min_frequency: int = 0, special: Iterable[str] = ()
) -> list[tuple[str, str]]:
    """What `tokenizers` learns from texts whose words are set apart by spaces."""
    tokenizer = Tokenizer(BPE())
    tokenizer.pre_tokenizer = Sequence([Split(" ", "removed"), ByteLevel(add_prefix_space=False, use_regex=False)])
    trainer = BpeTrainer(
        vocab_size=256 + len(list(special)) + merges,
        min_frequency=min_frequency,
        special_tokens=list(special),
        initial_alphabet=ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    return [(left, right) for left, right in json.loads(tokenizer.to_str())["model"]["merges"]]


def as_library(merges: list[tuple[bytes, bytes]]) -> list[tuple[str, str]]:
    """Each byte as the character that represents it in `tokenizers`."""

    def shown(token: bytes) -> str:
        return "".join(CHARACTERS[byte] for byte in token)

    return [(shown(left), shown(right)) for left, right in merges]


def words_of(texts: Iterable[str]) -> dict[bytes, int]:
    return dict(Counter(word.encode() for text in texts for word in text.split(" ") if word))


def defined_merges(counts: dict[bytes, int], merges: int) -> list[tuple[bytes, bytes]]:
    """The definition: count all pairs, take the most frequent one with the smallest ids, replace from the left."""
    tokens = [bytes([byte]) for byte in byte_order()]
    words = {word: [tokens.index(bytes([byte])) for byte in word] for word in counts}
    made = []
    for _ in range(merges):
        pairs: Counter[tuple[int, int]] = Counter()
        for word, ids in words.items():
            for pair in pairwise(ids):
                pairs[pair] += counts[word]
        if not pairs:
            break
        best = min(pairs, key=lambda pair: (-pairs[pair], pair))
        made.append((tokens[best[0]], tokens[best[1]]))
        for word, ids in words.items():
            joined, at = [], 0
            while at < len(ids):
                found = tuple(ids[at : at + 2]) == best
                joined.append(len(tokens) if found else ids[at])
                at += 1 + found
            words[word] = joined
        tokens.append(tokens[best[0]] + tokens[best[1]])
    return made


@given(TIES, st.sampled_from([1, 2, 3, 8, 30, 500]), st.sampled_from([0, 1, 2, 4]))
def test_merges_equal_the_library_where_everything_ties(words, merges, min_frequency):
    """Words of few letters, runs and repeats: the same merges in the same order, and the same end of the list."""
    text = " ".join(words)
    ours = merges_of(words_of([text]), merges, min_frequency)
    assert as_library(ours) == library_merges([text], merges, min_frequency)


@pytest.mark.slow
@given(
    st.dictionaries(st.binary(max_size=8) | st.text("ab", max_size=12).map(str.encode), st.integers(0, 5)),
    st.integers(0, 40),
)
def test_merges_equal_the_definition_for_any_bytes(counts, merges):
    """Includes bytes that are not UTF-8, which the library does not accept; empty and uncounted words do nothing."""
    wanted = defined_merges({word: count for word, count in counts.items() if count}, merges)
    assert merges_of(counts, merges) == wanted


def test_merges_equal_the_library_on_prose():
    """Thousands of merges over Python's documentation, and special tokens before the bytes change none of them."""
    from pydoc_data import topics

    texts = [text.replace("\n", " ") for text in topics.topics.values()]
    ours = as_library(merges_of(words_of(texts), 6000, 2))
    assert len(ours) > 4000
    assert ours == library_merges(texts, 6000, 2)
    assert ours[:2000] == library_merges(texts, 2000, 2, ["<|one|>", "<|two|>"])


def test_merges_equal_the_library_beyond_ascii():
    """Every byte of UTF-8 in made-up words: the order of ids is that of the library's characters, not of the bytes."""
    draw = random.Random(11)
    letters = [chr(point) for point in (*range(0x80, 0x900, 7), *range(0x3041, 0x3100), *range(0x1F600, 0x1F640))]
    texts = [" ".join("".join(draw.choices(letters, k=draw.randint(1, 6))) for _ in range(400)) for _ in range(20)]
    ours = merges_of(words_of(texts), 3000)
    assert len({byte for pair in ours for token in pair for byte in token}) > 90
    assert as_library(ours) == library_merges(texts, 3000)


@settings(max_examples=50, deadline=None)
@given(TIES, st.randoms(use_true_random=False))
def test_the_order_of_the_words_does_not_matter(words, draw):
    """The same counts in another order, or with a word given in two halves, give the same merges."""
    counts = words_of([" ".join(words)])
    shuffled = list(counts.items())
    draw.shuffle(shuffled)
    assert merges_of(dict(shuffled), 50) == merges_of(counts, 50)
    twice = [word for word, _ in shuffled for _ in range(2)]
    offsets = np.cumsum([0, *map(len, twice)])
    halves = np.array([count for _, count in shuffled for _ in range(2)], np.int64)
    tokens = spell(*(both := train(np.frombuffer(b"".join(twice), np.uint8).copy(), offsets, halves, 50)))
    doubled = {word: 2 * count for word, count in counts.items()}
    assert [(tokens[one], tokens[other]) for one, other in zip(*both, strict=True)] == merges_of(doubled, 50)


def test_counts_beyond_32_bits_are_exact():
    """A pair that leads by one in 2^38 comes first; the library's counts would have wrapped."""
    many = LARGEST_COUNT // 2
    assert merges_of({b"zy": many + 1, b"ab": many, b"abq": 0}, 2) == [(b"z", b"y"), (b"a", b"b")]
    assert merges_of({b"zy": many, b"ab": many}, 2) == [(b"a", b"b"), (b"z", b"y")]


def test_the_order_of_the_bytes_decides_ties():
    """With the ids reversed, the tie falls to the other pair."""
    data, offsets, counts = np.frombuffer(b"abxy", np.uint8).copy(), np.array([0, 2, 4]), np.array([1, 1])
    assert spell(*train(data, offsets, counts, 1))[256] == b"ab"
    order = byte_order()[::-1]
    assert spell(*train(data, offsets, counts, 1, order=order), order)[256] == b"xy"


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"counts": np.array([-1])}, "occurs -1"),
        ({"counts": np.array([LARGEST_COUNT + 1])}, "are possible"),
        ({"counts": np.array([1, 2])}, "do not fit"),
        ({"merges": 1 << 24}, "merges"),
        ({"order": np.zeros(256, np.uint8)}, "each of the 256"),
    ],
)
def test_what_cannot_be_trained_on_is_refused(change, said):
    """A count, a size or an order that would silently give other merges is an error that says so."""
    given = {"data": np.frombuffer(b"ab", np.uint8), "offsets": np.array([0, 2]), "counts": np.array([1]), "merges": 1}
    with pytest.raises(ValueError, match=said):
        train(**(given | change))
