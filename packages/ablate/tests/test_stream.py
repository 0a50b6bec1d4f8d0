"""The order of a training: the same for a seed, from any step on, and alike for corpora that share documents."""

from collections import Counter
from itertools import pairwise

import numpy as np
import pytest

from gristmill_ablate.proxy.pool import Pool
from gristmill_ablate.proxy.stream import Stream, Training, rate_at


def pool_of(pieces, phases=None, decay=(False,)):
    """Pieces of (key, tokens)."""
    starts = np.cumsum([0, *(len(tokens) for _, tokens in pieces)])
    return Pool(
        np.concatenate([tokens for _, tokens in pieces]).astype(np.uint16),
        starts,
        np.array([key for key, _ in pieces], np.uint64),
        np.array(phases or [0] * len(pieces), np.int32),
        np.array(decay),
        vocab=1000,
        end=1,
    )


def some(count, seed=0):
    random = np.random.default_rng(seed)
    return [(key, np.full(random.integers(2, 9), key)) for key in range(2, 2 + count)]


def test_every_token_comes_once_and_no_label_crosses_documents():
    """All pieces are there, whole; the token after the last of a document is nobody's label."""
    pieces = some(40)
    stream = Stream(pool_of(pieces), 3, 5)
    whole = stream.tokens // 5
    tokens, labels, documents = stream.batch(0, whole)
    left = Counter(np.concatenate([held for _, held in pieces]).tolist())
    left.subtract(tokens.flatten().tolist())
    assert (min(left.values()), sum(left.values())) == (0, stream.tokens - tokens.size)
    follows = np.append(tokens.flatten()[1:], -1)
    same = np.append(documents.flatten()[1:] == documents.flatten()[:-1], False)
    assert (labels.flatten()[:-1] == np.where(same, follows, -100)[:-1]).all()


def test_a_batch_is_the_same_from_wherever_it_is_reached():
    """A training that resumes sees what it would have seen; behind the end it begins again."""
    stream = Stream(pool_of(some(40)), 3, 4)
    long = stream.batch(0, 30)[0].flatten()
    assert (stream.batch(40, 5)[0].flatten() == long[40:60]).all()
    assert (stream.batch(stream.tokens, 5)[0] == stream.batch(0, 5)[0]).all()


def test_shared_documents_come_in_the_same_order():
    """And another seed has another order."""
    shared, more = some(40), [(key, np.full(3, key)) for key in range(500, 540)]
    first, second = (Stream(pool_of(pieces), 1, 4) for pieces in (shared, [*more, *shared[::-1]]))

    def order(stream):
        tokens = stream.batch(0, stream.tokens // 4)[0].flatten()
        return [token for token in dict.fromkeys(tokens.tolist()) if token < 500]

    assert order(first)[:30] == order(second)[:30]
    assert order(first) != order(Stream(pool_of(shared), 2, 4))


def test_phases_stay_in_order():
    pieces = some(20)
    stream = Stream(pool_of(pieces, [number % 2 for number in range(20)], (False, True)), 0, 1)
    tokens = stream.batch(0, stream.tokens)[0].flatten()
    assert {int(token) % 2 for token in tokens[: int(stream.phase_ends[0])]} == {0}


@pytest.mark.parametrize("decay_from", [0.7, 0.9])
def test_the_rate_rises_stays_and_falls_to_zero(decay_from):
    config = Training("3m", tokens=1000 * 512, batch=512, rate=1.0)
    rates = [rate_at(config, step, decay_from) for step in range(1000)]
    assert rates[0] == pytest.approx(0.02)
    assert rates[100] == rates[int(1000 * decay_from) - 1] == 1.0
    assert rates[-1] == 0.0
    assert all(later <= earlier for earlier, later in pairwise(rates[100:]))
