"""Boosting of symmetric trees: compared with a loop from its definition; what it learns; what changes nothing."""

import hashlib
import math
import os
import re
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numba import njit

from gristmill.kernels.html.trees import ONE, score
from gristmill_extractor import boosting
from gristmill_extractor.boosting import BoostingSettings, chances, train

PLAIN = BoostingSettings(trees=1, depth=3, learning_rate=1.0, l2=1.0, min_leaf_weight=0.0)
UNIT = 2.0**28


def oracle_tree(columns, labels, weights, bias, params, chosen):
    """Features, thresholds and leaves of the first tree, one row at a time."""
    chance = int(chances()[(bias + 16384) >> 3])
    counts = np.rint(weights * 256).astype(int).tolist()
    slopes = [count * ((label << 20) - chance) for count, label in zip(counts, labels.tolist(), strict=True)]
    bends = [count * (chance * (2**20 - chance) >> 20) for count in counts]
    shift = max(0, sum(map(abs, slopes)).bit_length() - 30)
    half = (1 << shift) >> 1
    unit = UNIT / (1 << shift)
    l2, least = params.l2 * unit, params.min_leaf_weight * unit
    leaf = [0] * len(slopes)
    features, thresholds = [0] * params.depth, [255] * params.depth
    for level in range(params.depth):
        best = 0.0
        for feature in chosen:
            column = columns[feature].tolist()
            for threshold in (0, 1, 2, 3, 4, 5, 254):  # columns contain 0, 3, 4 and 255
                gain = 0.0
                for one in range(2**level):
                    parts = [[0, 0], [0, 0]]
                    for row, mine in enumerate(leaf):
                        if mine == one:
                            parts[column[row] > threshold][0] += (slopes[row] + half) >> shift
                            parts[column[row] > threshold][1] += (bends[row] + half) >> shift
                    (low, low_bend), (high, high_bend) = [(float(slope), float(bend)) for slope, bend in parts]
                    if low_bend >= least and high_bend >= least:
                        before = (low + high) * (low + high) / (low_bend + high_bend + l2)
                        gain += low * low / (low_bend + l2) + high * high / (high_bend + l2) - before
                if gain > best:
                    best, features[level], thresholds[level] = gain, feature, threshold
        if best == 0.0:
            break
        column = columns[features[level]].tolist()
        leaf = [mine + 2**level * (column[row] > thresholds[level]) for row, mine in enumerate(leaf)]
    leaves = []
    for one in range(2**params.depth):
        for depth in range(params.depth, -1, -1):
            mine = [row for row, other in enumerate(leaf) if (other ^ one) & (2**depth - 1) == 0]
            slope, bend = sum(slopes[row] for row in mine), sum(bends[row] for row in mine)
            if bend >= params.min_leaf_weight * UNIT or depth == 0:
                break
        leaves.append(round(ONE * params.learning_rate * slope / (bend + params.l2 * UNIT)))
    return features, thresholds, leaves


@settings(max_examples=25)
@given(st.integers(0, 2**32), st.integers(1, 12), st.sampled_from([0.0, 0.3, 2.0]), st.sampled_from([0.25, 1.0]))
def test_a_tree_matches_the_definition(seed, rows, least, l2):
    """Among equal gains the lowest feature and threshold win; leaves with little weight are merged."""
    draw = np.random.default_rng(seed)
    columns = draw.choice([0, 3, 4, 255], (3, rows)).astype(np.uint8)
    columns[2] = columns[0]  # splits like the first column
    labels, weights = draw.integers(0, 2, rows), draw.choice([0.5, 1.0, 3.3], rows) + 1
    params = PLAIN._replace(depth=2, min_leaf_weight=least, l2=l2)
    model = train(columns, labels, weights, params).trees
    features, thresholds, leaves = oracle_tree(columns, labels, weights, model.bias, params, range(3))
    assert model.features[0].tolist() == features
    assert model.thresholds[0].tolist() == thresholds
    assert model.leaves[0].tolist() == leaves
    assert 2 not in features


def rows_of(seed: int, count: int, columns: int = 6):
    draw = np.random.default_rng(seed)
    return draw, draw.integers(0, 256, (columns, count)).astype(np.uint8)


def accuracy(model, columns, labels) -> float:
    """The share of rows with a logit of the right sign."""
    found = np.empty(columns.shape[1], np.int32)
    score(model, columns, found)
    return float(((found > 0) == labels).mean())


def test_it_learns_a_threshold():
    """One tree is enough: the right split comes first and the logit has the right sign."""
    _, columns = rows_of(1, 400)
    labels = (columns[4] > 99).astype(np.int64)
    model = train(columns, labels, np.ones(400), PLAIN)
    assert (model.trees.features[0, 0], model.trees.thresholds[0, 0]) == (4, columns[4][columns[4] <= 99].max())
    assert model.trees.thresholds[0, 1:].tolist() == [255, 255]  # nothing is left to split
    assert model.gains[0, 0] > 50
    assert model.gains[0, 1:].tolist() == [0, 0]
    assert accuracy(model.trees, columns, labels) == 1.0


def test_it_learns_what_no_single_feature_shows():
    """Exclusive or, with noise in other columns, also on rows that it never saw."""
    _, columns = rows_of(2, 4000)
    labels = ((columns[1] > 127) ^ (columns[3] > 63)).astype(np.int64)
    training, held = np.ascontiguousarray(columns[:, :3000]), np.ascontiguousarray(columns[:, 3000:])
    model = train(training, labels[:3000], np.ones(3000), BoostingSettings(trees=60, depth=4, learning_rate=0.3))
    assert accuracy(model.trees, held, labels[3000:]) > 0.97
    by_feature = np.bincount(model.trees.features.ravel(), model.gains.ravel(), 6)
    assert set(np.argsort(by_feature)[-2:]) == {1, 3}


def test_the_loss_falls_by_about_the_sum_of_the_gains():
    """The gain of a level is in nats: at a small learning rate it is the first-order change of the loss."""
    draw, columns = rows_of(3, 3000)
    labels = (columns[0] + draw.normal(0, 80, 3000) > 128).astype(np.int64)
    rate = 1 / 64
    model = train(columns, labels, np.ones(3000), PLAIN._replace(learning_rate=rate))

    def loss(trees) -> float:
        found = np.empty(3000, np.int32)
        score(trees, columns, found)
        return float(np.log1p(np.exp(np.where(labels, -found, found) / ONE)).sum())

    before = model.trees._replace(leaves=np.zeros_like(model.trees.leaves))
    assert loss(before) - loss(model.trees) == pytest.approx(2 * rate * model.gains.sum(), rel=0.05)


def test_a_weight_equals_copies_of_a_row():
    """A row of weight 3 equals three rows; a row of weight 0 equals no row."""
    draw, columns = rows_of(4, 300)
    labels = (columns[0] + draw.normal(0, 60, 300) > 128).astype(np.int64)
    counts = draw.integers(0, 4, 300)
    params = BoostingSettings(trees=5, depth=3)
    copies = train(np.repeat(columns, counts, axis=1), np.repeat(labels, counts), np.ones(counts.sum()), params)
    weighed = train(columns, labels, counts, params)
    assert digest(weighed) == digest(copies)


def digest(model) -> str:
    arrays = (model.trees.features, model.trees.thresholds, model.trees.leaves, model.gains)
    return hashlib.sha256(b"".join(one.tobytes() for one in arrays) + str(model.trees.bias).encode()).hexdigest()


def drawn(threads: int = 1, order: np.ndarray | None = None, **other: float) -> str:
    """The digest of a training run that uses every random choice."""
    columns = np.arange(7 * 500, dtype=np.uint64).reshape(7, 500) * np.uint64(0x9E3779B97F4A7C15) >> np.uint64(56)
    columns = columns.astype(np.uint8)
    labels, groups = (columns[0] > 100) ^ (columns[5] > columns[1]), np.arange(500) // 7
    if order is not None:
        columns, labels, groups = np.ascontiguousarray(columns[:, order]), labels[order], groups[order]
    params = BoostingSettings(trees=12, depth=5, feature_share=0.6, row_share=0.7, seed=9)._replace(**other)
    return digest(train(columns, labels, np.full(500, 1.3), params, groups, threads))


def test_the_same_bytes_with_any_number_of_threads():
    """This includes more threads than there are columns."""
    assert len({drawn(threads) for threads in (1, 2, 3, 20)}) == 1


def test_the_same_bytes_in_any_order_of_rows():
    """Groups are drawn by their numbers, and sums do not depend on order."""
    assert drawn(order=np.random.default_rng(1).permutation(500)) == drawn()


def test_the_same_bytes_on_every_machine():
    """The digest comes from an ARM machine."""
    assert drawn()[:16] == "256ed07171969e43"


def test_the_same_bytes_in_another_process():
    """The other process has another hash seed and more threads."""
    code = "from test_boosting import drawn; print(drawn(2))"
    environment = {
        **os.environ,
        "PYTHONHASHSEED": "77",
        "PYTHONPATH": os.pathsep.join([os.path.dirname(__file__), *sys.path]),
    }
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == drawn()


@pytest.mark.parametrize("other", [{"seed": 10}, {"row_share": 0.6}, {"feature_share": 0.3}, {"l2": 2.0}])
def test_every_setting_changes_the_result(other):
    """No setting is read and ignored."""
    assert drawn(**other) != drawn()


def test_groups_are_sampled_as_a_whole():
    """The rows of groups that are not drawn do not affect a tree, so their labels do not matter."""
    _, columns = rows_of(6, 600)
    groups = np.repeat(np.arange(6), 100)
    params = PLAIN._replace(row_share=0.5)
    labels = (columns[0] > 100).astype(np.int64)
    whole = train(columns, labels, np.ones(600), params, groups).trees
    free = []
    for group in range(6):
        turned = labels.copy()
        # A roll keeps the number of each label, so the bias is the same.
        turned[groups == group] = np.roll(labels[groups == group], 1)
        free.append((train(columns, turned, np.ones(600), params, groups).trees.leaves == whole.leaves).all())
    assert 0 < sum(free) < 6


def test_probabilities_match_the_logistic_function():
    """They are symmetric, increasing, and within half a step of the floating-point value."""
    found = chances()
    assert (found + found[::-1] == 1 << 20).all()
    assert (np.diff(found) >= 0).all()
    for entry in range(0, 4096, 37):
        logit = (8 * entry + 4 - 16384) / ONE
        assert abs(int(found[entry]) - 2**20 / (1 + math.exp(-logit))) <= 0.5 + 1e-6


def test_no_addition_is_contracted_with_a_multiplication():
    """A fused operation rounds once instead of twice, and not every machine has it."""
    best = njit(error_model="numpy")(boosting._best.py_func)
    found = best(np.arange(256) << 32 | 5, np.zeros(1, np.int64), 1.0, 0.0, np.empty(256))
    assert found[0] > 0
    (code,) = best.inspect_asm().values()
    assert re.search(r"\b(fn?mul|v?muls?[sp]?d)\b", code)
    assert not re.search(r"\bv?fn?m(add|sub|la|ls)", code)


GOOD = {
    "columns": np.zeros((2, 3), np.uint8),
    "labels": np.array([0, 1, 1]),
    "weights": np.ones(3),
    "settings": PLAIN,
}


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("columns", np.zeros((2, 3), np.int16), "contiguous uint8"),
        ("columns", np.zeros((3, 2), np.uint8).T, "contiguous uint8"),
        ("columns", np.zeros((0, 3), np.uint8), "contiguous uint8"),
        ("labels", np.array([0, 1]), "different lengths"),
        ("groups", np.array([0, 1]), "different lengths"),
        ("labels", np.array([0, 1, 2]), "labels must be 0 or 1"),
        ("weights", np.array([1, -1, 1]), "weights start at"),
        ("weights", np.array([1, np.nan, 1]), "weights start at"),
        ("weights", np.zeros(3), "weights start at"),
        ("weights", np.array([1, 0.001, 0]), "below 1/512 would be rounded to 0"),
        ("weights", np.full(3, 2.0**60), "weights start at"),
        ("settings", PLAIN._replace(depth=9), "of depth 9"),
        ("settings", PLAIN._replace(trees=0), "0 trees"),
        ("settings", PLAIN._replace(l2=0.0), "l2"),
        ("settings", PLAIN._replace(row_share=1.5), "row_share"),
        ("threads", 0, "threads is 0"),
    ],
)
def test_invalid_training_data_is_rejected(name, value, message):
    train(**GOOD)
    with pytest.raises(ValueError, match=message):
        train(**{**GOOD, name: value})
