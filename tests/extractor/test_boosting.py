"""Boosting of symmetric trees: against a loop written from its definition, what it learns, what makes no difference."""

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


def oracle_tree(columns, labels, weights, bias, asked, chosen):
    """Features, thresholds and leaves of the first tree, one row at a time."""
    chance = int(chances()[(bias + 16384) >> 3])
    counts = np.rint(weights * 256).astype(int).tolist()
    slopes = [count * ((label << 20) - chance) for count, label in zip(counts, labels.tolist(), strict=True)]
    bends = [count * (chance * (2**20 - chance) >> 20) for count in counts]
    shift = max(0, sum(map(abs, slopes)).bit_length() - 30)
    half = (1 << shift) >> 1
    unit = UNIT / (1 << shift)
    l2, least = asked.l2 * unit, asked.min_leaf_weight * unit
    leaf = [0] * len(slopes)
    features, thresholds = [0] * asked.depth, [255] * asked.depth
    for level in range(asked.depth):
        best = 0.0
        for feature in chosen:
            column = columns[feature].tolist()
            for threshold in (0, 1, 2, 3, 4, 5, 254):  # columns hold 0, 3, 4 and 255
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
    for one in range(2**asked.depth):
        for depth in range(asked.depth, -1, -1):
            mine = [row for row, other in enumerate(leaf) if (other ^ one) & (2**depth - 1) == 0]
            slope, bend = sum(slopes[row] for row in mine), sum(bends[row] for row in mine)
            if bend >= asked.min_leaf_weight * UNIT or depth == 0:
                break
        leaves.append(round(ONE * asked.learning_rate * slope / (bend + asked.l2 * UNIT)))
    return features, thresholds, leaves


@settings(max_examples=25)
@given(st.integers(0, 2**32), st.integers(1, 12), st.sampled_from([0.0, 0.3, 2.0]), st.sampled_from([0.25, 1.0]))
def test_a_tree_is_that_of_the_definition(seed, rows, least, l2):
    """Among equal gains the lowest feature and the lowest threshold; light leaves are not told apart."""
    draw = np.random.default_rng(seed)
    columns = draw.choice([0, 3, 4, 255], (3, rows)).astype(np.uint8)
    columns[2] = columns[0]  # asks the same as the first
    labels, weights = draw.integers(0, 2, rows), draw.choice([0.5, 1.0, 3.3], rows) + 1
    asked = PLAIN._replace(depth=2, min_leaf_weight=least, l2=l2)
    made = train(columns, labels, weights, asked).trees
    features, thresholds, leaves = oracle_tree(columns, labels, weights, made.bias, asked, range(3))
    assert made.features[0].tolist() == features
    assert made.thresholds[0].tolist() == thresholds
    assert made.leaves[0].tolist() == leaves
    assert 2 not in features


def rows_of(seed: int, count: int, columns: int = 6):
    draw = np.random.default_rng(seed)
    return draw, draw.integers(0, 256, (columns, count)).astype(np.uint8)


def right(made, columns, labels) -> float:
    """The share of rows on the right side of 0."""
    found = np.empty(columns.shape[1], np.int32)
    score(made, columns, found)
    return float(((found > 0) == labels).mean())


def test_it_learns_a_threshold():
    """From one tree on, with the right question first and a logit of the right sign."""
    _, columns = rows_of(1, 400)
    labels = (columns[4] > 99).astype(np.int64)
    made = train(columns, labels, np.ones(400), PLAIN)
    assert (made.trees.features[0, 0], made.trees.thresholds[0, 0]) == (4, columns[4][columns[4] <= 99].max())
    assert made.trees.thresholds[0, 1:].tolist() == [255, 255]  # nothing is left to ask
    assert made.gains[0, 0] > 50
    assert made.gains[0, 1:].tolist() == [0, 0]
    assert right(made.trees, columns, labels) == 1.0


def test_it_learns_what_no_question_says_alone():
    """Exclusive or, with other columns of noise: rows that it never saw too."""
    _, columns = rows_of(2, 4000)
    labels = ((columns[1] > 127) ^ (columns[3] > 63)).astype(np.int64)
    seen, held = np.ascontiguousarray(columns[:, :3000]), np.ascontiguousarray(columns[:, 3000:])
    made = train(seen, labels[:3000], np.ones(3000), BoostingSettings(trees=60, depth=4, learning_rate=0.3))
    assert right(made.trees, held, labels[3000:]) > 0.97
    by_feature = np.bincount(made.trees.features.ravel(), made.gains.ravel(), 6)
    assert set(np.argsort(by_feature)[-2:]) == {1, 3}


def test_the_loss_falls_by_about_what_the_gains_say():
    """A level's gain is in nats: the first tree, at a small learning rate, by the first order of it."""
    draw, columns = rows_of(3, 3000)
    labels = (columns[0] + draw.normal(0, 80, 3000) > 128).astype(np.int64)
    rate = 1 / 64
    made = train(columns, labels, np.ones(3000), PLAIN._replace(learning_rate=rate))

    def loss(trees) -> float:
        found = np.empty(3000, np.int32)
        score(trees, columns, found)
        return float(np.log1p(np.exp(np.where(labels, -found, found) / ONE)).sum())

    before = made.trees._replace(leaves=np.zeros_like(made.trees.leaves))
    assert loss(before) - loss(made.trees) == pytest.approx(2 * rate * made.gains.sum(), rel=0.05)


def test_weights_count_as_copies_do():
    """A row of weight 3 is three rows; one of weight 0 is none."""
    draw, columns = rows_of(4, 300)
    labels = (columns[0] + draw.normal(0, 60, 300) > 128).astype(np.int64)
    counts = draw.integers(0, 4, 300)
    asked = BoostingSettings(trees=5, depth=3)
    copies = train(np.repeat(columns, counts, axis=1), np.repeat(labels, counts), np.ones(counts.sum()), asked)
    weighed = train(columns, labels, counts, asked)
    assert digest(weighed) == digest(copies)


def digest(made) -> str:
    arrays = (made.trees.features, made.trees.thresholds, made.trees.leaves, made.gains)
    return hashlib.sha256(b"".join(one.tobytes() for one in arrays) + str(made.trees.bias).encode()).hexdigest()


def drawn(threads: int = 1, order: np.ndarray | None = None, **other: float) -> str:
    """The digest of a training with all that is drawn by lot."""
    columns = np.arange(7 * 500, dtype=np.uint64).reshape(7, 500) * np.uint64(0x9E3779B97F4A7C15) >> np.uint64(56)
    columns = columns.astype(np.uint8)
    labels, groups = (columns[0] > 100) ^ (columns[5] > columns[1]), np.arange(500) // 7
    if order is not None:
        columns, labels, groups = np.ascontiguousarray(columns[:, order]), labels[order], groups[order]
    asked = BoostingSettings(trees=12, depth=5, feature_share=0.6, row_share=0.7, seed=9)._replace(**other)
    return digest(train(columns, labels, np.full(500, 1.3), asked, groups, threads))


def test_the_same_bytes_with_any_number_of_threads():
    """More than there are columns, too."""
    assert len({drawn(threads) for threads in (1, 2, 3, 20)}) == 1


def test_the_same_bytes_in_any_order_of_rows():
    """Groups are drawn by their numbers, and sums have no order."""
    assert drawn(order=np.random.default_rng(1).permutation(500)) == drawn()


def test_the_same_bytes_on_every_machine():
    """Made on ARM and written down here."""
    assert drawn()[:16] == "256ed07171969e43"


def test_the_same_bytes_in_another_process():
    """One that hashes otherwise and has more threads."""
    code = "from tests.extractor.test_boosting import drawn; print(drawn(2))"
    environment = {**os.environ, "PYTHONHASHSEED": "77", "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == drawn()


@pytest.mark.parametrize("other", [{"seed": 10}, {"row_share": 0.6}, {"feature_share": 0.3}, {"l2": 2.0}])
def test_every_setting_matters(other):
    """None is read and forgotten."""
    assert drawn(**other) != drawn()


def test_groups_are_taken_or_left_as_a_whole():
    """Rows of groups that are left have no part in a tree, so their labels do not matter."""
    _, columns = rows_of(6, 600)
    groups = np.repeat(np.arange(6), 100)
    asked = PLAIN._replace(row_share=0.5)
    labels = (columns[0] > 100).astype(np.int64)
    whole = train(columns, labels, np.ones(600), asked, groups).trees
    free = []
    for group in range(6):
        turned = labels.copy()
        turned[groups == group] = np.roll(
            labels[groups == group], 1
        )  # as many of either label, so the bias is the same
        free.append((train(columns, turned, np.ones(600), asked, groups).trees.leaves == whole.leaves).all())
    assert 0 < sum(free) < 6


def test_chances_are_those_of_the_logistic_function():
    """Symmetric, rising, and within half a step of what floating point says."""
    found = chances()
    assert (found + found[::-1] == 1 << 20).all()
    assert (np.diff(found) >= 0).all()
    for entry in range(0, 4096, 37):
        logit = (8 * entry + 4 - 16384) / ONE
        assert abs(int(found[entry]) - 2**20 / (1 + math.exp(-logit))) <= 0.5 + 1e-6


def test_no_addition_is_contracted_with_a_multiplication():
    """A fused operation rounds once where two round twice, and not every machine has it."""
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
    ("name", "value", "said"),
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
def test_what_cannot_be_trained_on_is_refused(name, value, said):
    train(**GOOD)
    with pytest.raises(ValueError, match=said):
        train(**{**GOOD, name: value})
