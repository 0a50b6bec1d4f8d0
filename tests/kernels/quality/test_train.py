"""Training against a loop written from its definition, bit for bit, and what it must not depend on."""

import math

import numpy as np
import pytest

from gristmill.kernels.hash.splitmix import GOLDEN, mix
from gristmill.kernels.quality.train import chances_of, hash_pieces, score_rows, train_weights

SIZE = 50


@pytest.fixture(scope="module")
def examples():
    """Rows of some random texts, one of them empty."""
    draw = np.random.default_rng(3)
    lengths = draw.integers(1, 20, 40)
    lengths[7] = 0
    firsts = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    targets = draw.choice([0.0, 0.4, 1.0], 40)
    return {
        "rows": draw.integers(0, SIZE, firsts[-1]).astype(np.uint32),
        "firsts": firsts,
        "size": SIZE,
        "targets": targets,
        "weights": np.where(targets > 0.5, 1.5, 0.75),
        "hashes": draw.integers(0, 2**63, 40).astype(np.uint64),
    }


def oracle(rows, firsts, size, targets, weights, hashes, epochs, learning_rate, seed):
    """AdaGrad on the logistic loss, an example at a time, each row as often as it occurs."""
    single = np.float32
    weight, squares = [single(0)] * size, [single(1)] * size
    for epoch in range(epochs):
        salt = mix.py_func(np.uint64(seed * epochs + epoch + 1) * GOLDEN)
        order = sorted(range(len(targets)), key=lambda at: int(mix.py_func(hashes[at] ^ salt)))
        for at in order:
            mine = rows[firsts[at] : firsts[at + 1]].tolist()
            if not mine:
                continue
            total = 0.0
            for row in mine:
                total += float(weight[row])
            chance = float(chances_of(np.array([total / len(mine)]))[0])
            slope = single((chance - targets[at]) * weights[at])
            for row in mine:
                squares[row] = single(squares[row] + single(slope * slope))
                step = single(single(learning_rate) * slope)
                weight[row] = single(weight[row] - single(step / np.sqrt(squares[row])))
    return np.array(weight, np.float32)


def test_weights_are_those_of_the_definition(examples):
    with np.errstate(over="ignore"):
        expected = oracle(**examples, epochs=3, learning_rate=2.0, seed=5)
    found = train_weights(**examples, epochs=3, learning_rate=2.0, seed=5)
    assert found.tobytes() == expected.tobytes()
    assert abs(found).max() > 0.5


def test_the_order_of_examples_changes_nothing_and_the_seed_does(examples):
    """They are gone through by their hashes."""
    order = np.random.default_rng(1).permutation(40)
    firsts, lengths = examples["firsts"], np.diff(examples["firsts"])[order]
    moved = {name: examples[name][order] for name in ("targets", "weights", "hashes")}
    moved["rows"] = np.concatenate([examples["rows"][firsts[at] : firsts[at + 1]] for at in order])
    moved["firsts"] = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    rest = {"size": SIZE, "epochs": 2, "learning_rate": 1.0}
    found = train_weights(**moved, **rest, seed=0).tobytes()
    assert found == train_weights(**{**examples, **rest}, seed=0).tobytes()
    assert found != train_weights(**{**examples, **rest}, seed=1).tobytes()


def test_scores_and_chances():
    rows, firsts = np.array([0, 1, 1, 2], np.uint32), np.array([0, 3, 3, 4], np.int64)
    scores = score_rows(rows, firsts, np.array([1, 4, -2], np.float32))
    assert scores.tolist() == [3.0, 0.0, -2.0]
    assert chances_of(scores) == pytest.approx([1 / (1 + math.exp(-score)) for score in scores], abs=1e-10)


def test_equal_pieces_have_equal_hashes():
    data = np.frombuffer(b"one two one", np.uint8)
    found = hash_pieces(data, np.array([0, 4, 8]), np.array([3, 7, 11]))
    assert found[0] == found[2] != found[1]
