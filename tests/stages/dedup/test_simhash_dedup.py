"""SimHash links exactly the pairs within the distance."""

import itertools
import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from exchanged import run_step
from gristmill.kernels.dedup.shingles import word_tables
from gristmill.kernels.dedup.simhash import distance, fingerprints
from gristmill.kernels.dedup.sketch import shingle_sets
from gristmill.stages.buffers import bytes_of
from gristmill.stages.dedup import simhash_dedup
from gristmill.stages.dedup.simhash_dedup import Config
from stages.dedup.test_near_dedup import WORDS, table


@settings(deadline=None)
@given(st.lists(st.integers(0, 2**64 - 1), min_size=1, max_size=60, unique=True))
def test_a_fingerprint_is_the_majority_of_bits(values):
    """Bit k is set if more than half of the shingles have it."""
    expected = sum(1 << bit for bit in range(64) if 2 * sum(value >> bit & 1 for value in values) > len(values))
    found = fingerprints(np.array([0, len(values)]), np.array(values, np.uint64))
    assert int(found[0]) == expected


@settings(deadline=None)
@given(st.integers(0, 2**64 - 1), st.integers(0, 2**64 - 1))
def test_distance_counts_bits(one, other):
    assert distance(np.uint64(one), np.uint64(other)) == (one ^ other).bit_count()


def texts_with_variants(seed):
    draw = random.Random(seed)
    texts = []
    for _ in range(30):
        words = draw.choices(WORDS, k=draw.randint(60, 200))
        texts.append(" ".join(words))
        for _ in range(3):
            words = list(words)
            words[draw.randrange(len(words))] = draw.choice(WORDS)
            texts.append(" ".join(words))
    return texts


@settings(max_examples=6, deadline=None)
@given(st.integers(0, 1000), st.sampled_from([(3, 4), (3, 5), (0, 1), (5, 8)]))
def test_clusters_are_those_of_all_pairs_within_the_distance(seed, bits_and_blocks):
    """No pair within the distance is missed, for any blocks, and no other pair is linked."""
    most, blocks = bits_and_blocks
    texts = texts_with_variants(seed)
    documents = table(texts)
    layers, _ = run_step(simhash_dedup, Config(max_distance=most, blocks=blocks), [documents])
    clusters = layers[0]["cluster"].to_pylist()
    data, offsets = bytes_of(documents["text"].combine_chunks())
    prints = fingerprints(*shingle_sets(data, offsets, 3, word_tables()))
    component = list(range(len(texts)))
    close = [
        (one, other)
        for one, other in itertools.combinations(range(len(texts)), 2)
        if (int(prints[one]) ^ int(prints[other])).bit_count() <= most
    ]
    for _ in texts:
        for one, other in close:
            component[one] = component[other] = min(component[one], component[other])
    for one, other in itertools.combinations(range(len(texts)), 2):
        together = clusters[one] is not None and clusters[one] == clusters[other]
        assert together == (component[one] == component[other])


def test_short_documents_are_linked_only_if_they_are_equal():
    """The fingerprint of a few words carries little information, so the documents must be equal."""
    texts = ["The mill grinds corn", "the MILL grinds corn!", "the mill grinds rye", "", "", "a b c d e f"]
    layers, _ = run_step(simhash_dedup, Config(max_distance=3), [table(texts)])
    clusters = layers[0]["cluster"].to_pylist()
    assert clusters[0] == clusters[1] is not None
    assert clusters[3] == clusters[4] is not None
    assert clusters[2] is clusters[5] is None


def test_parts_and_order_change_nothing():
    documents = table(texts_with_variants(4))
    whole, _ = run_step(simhash_dedup, Config(), [documents])
    order = random.Random(1).sample(range(documents.num_rows), documents.num_rows)
    shuffled = documents.take(order)
    parts = [shuffled.slice(0, 31).combine_chunks(), shuffled.slice(31).combine_chunks()]
    layers, _ = run_step(simhash_dedup, Config(), parts)
    again = [row for layer in layers for row in layer.to_pylist()]
    expected = whole[0].to_pylist()
    assert again == [expected[at] for at in order]


def test_too_few_blocks_are_refused():
    with pytest.raises(ValidationError, match="blocks must be more than max_distance"):
        Config(max_distance=4, blocks=4)
