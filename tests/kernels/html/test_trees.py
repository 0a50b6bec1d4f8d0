"""Scores of symmetric trees against a loop written from their definition."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numba import njit

from gristmill.kernels.html.trees import DEEPEST, Trees, score, score_columns


def ensemble(draw: np.random.Generator, trees: int, depth: int, columns: int) -> Trees:
    """Trees of every kind: levels that separate nothing, leaves at both ends of their range."""
    leaves = draw.choice([-(2**15), -700, -1, 0, 3, 2**15 - 1], (trees, 1 << depth)).astype(np.int16)
    return Trees(
        draw.integers(0, columns, (trees, depth)).astype(np.uint16),
        draw.choice([0, 1, 90, 127, 128, 254, 255], (trees, depth)).astype(np.uint8),
        leaves,
        int(draw.integers(-(2**20), 2**20)),
        columns,
    )


def oracle(trees: Trees, columns: np.ndarray) -> list[int]:
    """One row at a time, one question at a time."""
    found = []
    for row in columns.T.tolist():
        total = trees.bias
        for tree, features in enumerate(trees.features.tolist()):
            leaf = 0
            for level, feature in enumerate(features):
                if row[feature] > int(trees.thresholds[tree, level]):
                    leaf += 2**level
            total += int(trees.leaves[tree, leaf])
        found.append(total)
    return found


@given(
    st.integers(0, 2**32),
    st.integers(1, 11),
    st.integers(1, DEEPEST),
    st.integers(1, 300),
    st.sampled_from([0, 1, 7, 8, 9, 15, 16, 17, 31, 33, 150, 255, 256, 257, 300]),
    st.sampled_from([0, 3, 40]),
)
def test_scores_are_those_of_the_definition(seed, trees, depth, columns, rows, longer):
    """This holds for any number of rows around the size of a block."""
    draw = np.random.default_rng(seed)
    made = ensemble(draw, trees, depth, columns)
    data = draw.choice([0, 1, 2, 90, 91, 127, 128, 129, 254, 255], (columns, rows + longer)).astype(np.uint8)
    around = np.full(rows + 2, 77, np.int32)
    score(made, data, around[1:-1])
    assert around[1:-1].tolist() == oracle(made, data[:, :rows])
    assert around[[0, -1]].tolist() == [77, 77]


def test_the_largest_ensemble_stays_in_its_integers():
    """This holds for any leaves: 4096 of the largest trees."""
    made = Trees(
        np.zeros((4096, 1), np.uint16), np.zeros((4096, 1), np.uint8), np.full((4096, 2), 2**15 - 1, np.int16), 2**28, 1
    )
    found = np.zeros(3, np.int32)
    score(made, np.zeros((1, 3), np.uint8), found)
    assert found.tolist() == [2**28 + 4096 * (2**15 - 1)] * 3


def test_compiled_code_calls_it_with_arrays():
    draw = np.random.default_rng(5)
    made, data = ensemble(draw, 3, 6, 9), draw.integers(0, 256, (9, 40)).astype(np.uint8)

    @njit
    def caller(trees, columns):
        found = np.empty(columns.shape[1], np.int32)
        score_columns(trees.features, trees.thresholds, trees.leaves, trees.bias, columns, found)
        return found

    assert caller(made, data).tolist() == oracle(made, data)


@pytest.mark.parametrize(
    ("columns", "out"),
    [
        (np.zeros((4, 9), np.uint8), np.zeros(9, np.int32)),
        (np.zeros((5, 8), np.uint8), np.zeros(9, np.int32)),
        (np.zeros((5, 9), np.int8), np.zeros(9, np.int32)),
        (np.zeros((5, 9), np.uint8), np.zeros(9, np.int64)),
        (np.zeros((9, 5), np.uint8).T, np.zeros(9, np.int32)),
    ],
)
def test_arrays_that_do_not_fit_are_refused(columns, out):
    """The loop would read past their end."""
    made = ensemble(np.random.default_rng(1), 2, 3, 5)
    with pytest.raises(ValueError, match="do not fit trees over 5 columns"):
        score(made, columns, out)
