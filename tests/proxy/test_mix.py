"""`gristmill mix propose`, and whether both methods find what is wrong with a mixture. Training needs torch."""

import numpy as np
import pytest

from gristmill.proxy.domains import DomainPool, shared_documents
from gristmill.proxy.items import Items
from gristmill.proxy.stream import Training
from gristmill.proxy.swarm import Space, propose
from proxy.test_ablate import needs_torch

NAMES = ("a", "b", "c", "copy", "noise", "precious")
VOCAB, WINDOW = 256, 64


def chain(number, count, draw):
    """Texts of one of several languages: each token has three followers, one of them likely."""
    base = 1 + 24 * number
    followers = np.stack([np.random.default_rng([number, at]).permutation(24)[:3] for at in range(24)])
    choices = draw.choice(3, (WINDOW, count), p=[0.7, 0.2, 0.1])
    texts, at = np.empty((count, WINDOW), np.int64), np.zeros(count, np.int64)
    for place in range(WINDOW):
        at = followers[at, choices[place]]
        texts[:, place] = base + at
    return texts


@pytest.fixture(scope="module")
def six():
    """Three languages, a copy of the first, random tokens, and a small language; and held-out texts of each."""
    draw, each, held = np.random.default_rng(0), 60, 8
    texts = {name: chain(number, each + held, draw) for number, name in enumerate("abc")}
    texts |= {"copy": texts["a"], "noise": draw.integers(1, VOCAB, (each + held, WINDOW))}
    texts["precious"] = chain(3, 10 + held, draw)
    pieces = np.concatenate([texts[name][held:] for name in NAMES])
    domain = np.concatenate([np.full(len(texts[name]) - held, number) for number, name in enumerate(NAMES)])
    keys = np.unique(pieces, axis=0, return_inverse=True)[1].astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    apart = np.concatenate([texts[name][:held] for name in NAMES])
    return DomainPool(
        pieces.astype(np.uint16).flatten(),
        np.arange(len(pieces) + 1) * WINDOW,
        keys,
        np.zeros(len(pieces), np.int32),
        np.zeros(1, bool),
        VOCAB,
        0,
        NAMES,
        domain,
        apart.flatten(),
        np.arange(len(apart) + 1) * WINDOW,
        np.repeat(range(6), held),
        shared_documents(keys, domain, 6),
    )


@pytest.fixture
def tiny(monkeypatch):
    from gristmill.proxy import model

    monkeypatch.setitem(model.SIZES, "tiny", model.Size(1, 64))


def space_of(pool, epochs=4):
    natural = np.bincount(pool.domain) / len(pool.domain)
    return Space(NAMES, natural, np.zeros(6), natural * epochs)


def check(shares, natural):
    """The useless domain falls, the small one rises, and a text does not count twice because it is there twice."""
    found, was = (dict(zip(NAMES, values, strict=True)) for values in (shares, natural))
    assert found["noise"] < was["noise"] / 2
    assert found["precious"] > 2 * was["precious"]
    assert found["a"] + found["copy"] < 0.9 * (found["b"] + found["c"])


@needs_torch
@pytest.mark.slow
@pytest.mark.usefixtures("tiny")
def test_a_swarm_finds_the_useless_the_copied_and_the_precious_domain(six):
    """21 trainings of a few seconds in all; left-out runs are predicted in the right order."""
    from gristmill.proxy.evaluate import score
    from gristmill.proxy.train import train

    count = len(six.held_domain)
    rows = np.column_stack([np.zeros(count, np.int64), six.held_tokens.reshape(count, WINDOW)])
    starts, ones = np.arange(count + 1) * (WINDOW + 1), np.ones(count, np.int64)
    numbers, size = np.arange(count), np.full(count, WINDOW)
    items = Items(
        NAMES, (), six.held_domain, 0 * ones, rows.flatten(), starts, ones, numbers, numbers, size, ones.astype(bool)
    )
    space = space_of(six)
    tried = space.design(21)
    scores = []
    for row in tried:
        drawn, _ = six.draw(row, 10_240)
        snapshots, _ = train(drawn, Training("tiny", 10_240, sequence=WINDOW, batch=512, rate=1e-2))
        scores.append(np.bincount(six.held_domain, score(snapshots, "tiny", VOCAB, items, "cpu")[0]))
    by_domain = dict(zip(NAMES, np.array(scores).T, strict=True))
    found = propose(space, tried, by_domain, dict(zip(NAMES, 1 / six.shared.sum(1), strict=True)))
    check(found.shares, space.natural)
    assert found.gain[2] < 0
    assert found.rank_correlation > 0.8


@needs_torch
@pytest.mark.slow
@pytest.mark.usefixtures("tiny")
def test_doremi_finds_them_too(six, tmp_path, monkeypatch):
    """With a reference on equal shares; a run that was stopped ends with the same weights, bit by bit."""
    from gristmill.proxy import doremi
    from gristmill.proxy.train import train

    config = Training("tiny", 25_600, sequence=WINDOW, batch=128, rate=3e-3)
    space = space_of(six)
    equal = space.project(np.full(6, 1 / 6))
    reference = train(six.draw(equal, config.tokens)[0], config)[0][-1]
    alphas = doremi.reweigh(six, config, equal, reference)
    assert alphas.shape == (200, 6)
    assert alphas.sum(1) == pytest.approx(np.ones(200), abs=1e-5)
    check(alphas.mean(0), space.natural)
    short = Training("tiny", 8 * 128, sequence=WINDOW, batch=128)
    whole = doremi.reweigh(six, short, equal, reference)
    monkeypatch.setattr(doremi, "CHECKPOINT_STEPS", 3)
    rate_at = doremi.rate_at
    monkeypatch.setattr(doremi, "rate_at", lambda config, step, at: 1 / 0 if step == 5 else rate_at(config, step, at))
    with pytest.raises(ZeroDivisionError):
        doremi.reweigh(six, short, equal, reference, str(tmp_path))
    monkeypatch.setattr(doremi, "rate_at", rate_at)
    assert (doremi.reweigh(six, short, equal, reference, str(tmp_path)) == whole).all()
