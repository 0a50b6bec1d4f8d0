"""Training of symmetric trees: Newton boosting on the logistic loss over histograms of bytes, in integers.

A tree is grown level by level. The split of a level is the one with the largest total gain over all leaves (CatBoost,
Prokhorenkova and others 2018). For that, slope and curvature are summed for each leaf and byte value; of two leaves
from one parent only the smaller is summed, the other is the difference (LightGBM, Ke and others 2017).

Every machine and number of threads gives the same bytes: probabilities come from an exact table, slopes and curvatures
are integers, so the order of a sum does not matter, and floating point (gains, leaves) uses only additions,
multiplications and divisions in a fixed order, which Numba does not contract without `fastmath`.
"""

from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal, localcontext
from functools import cache
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numba import njit

from gristmill.kernels.hash.splitmix import GOLDEN, mix
from gristmill.kernels.html.trees import DEEPEST, MOST_TREES, ONE, Trees

Array = np.ndarray[Any, Any]

CHANCE_BITS = 20
"""A probability of 1 is 2^20."""
WEIGHT_BITS = 8
"""Weights are rounded to multiples of 1/256."""
_ENTRY_BITS, _ENTRIES = 3, 4096
"""The table of probabilities has one entry per 8 scores, 1/128 of a logit, and covers logits from -16 to 16."""
_REACH = _ENTRIES << _ENTRY_BITS >> 1
_UNIT = float(1 << (CHANCE_BITS + WEIGHT_BITS))
"""The largest slope of a row of weight 1."""
_PACKED_BITS = 30
"""Each sum over all rows fits in half of an int64, including rounding."""
MOST_ROWS = 1 << 28
LARGEST_SUM = 1 << 34
"""The largest sum of weights: slopes are summed in int64."""


class BoostingSettings(NamedTuple):
    trees: int = 200
    depth: int = 6
    learning_rate: float = 0.1
    l2: float = 1.0
    """Added to the curvature of a leaf; a row's is weight * p * (1 - p), at most a quarter."""
    min_leaf_weight: float = 1.0
    """Curvature that a leaf needs, so rows that are already fitted hardly count. A lighter leaf gets the value of its
    parent.
    """
    feature_share: float = 1.0
    """Share of the columns that a tree may use."""
    row_share: float = 1.0
    """Share of the groups of rows that a tree is trained on."""
    seed: int = 0


class TrainedTrees(NamedTuple):
    trees: Trees
    gains: Array
    """float64 (trees, depth): the loss reduction of each level (nats times weight), at a learning rate of 1."""


class Levels(NamedTuple):
    """The levels of one tree: a row of the arrays of all trees."""

    features: Array
    thresholds: Array
    gains: Array


class Listed(NamedTuple):
    """Rows to be summed."""

    rows: Array
    """uint32."""
    slots: Array
    """uint8: the slot with the sums of their leaf."""
    values: Array
    """int64: slope and curvature, packed."""


@cache
def chances() -> Array:
    """The probability of label 1 by score, int32: entry i is for scores from 8 i - 16384 on, at their middle.

    `Decimal.exp` is correctly rounded on every machine.
    """
    found = np.empty(_ENTRIES, np.int32)
    with localcontext() as context:
        context.prec = 30
        for entry in range(_ENTRIES):
            logit = Decimal(2 * ((entry << _ENTRY_BITS) - _REACH) + (1 << _ENTRY_BITS)) / (2 * ONE)
            found[entry] = round(Decimal(1 << CHANCE_BITS) / (1 + (-logit).exp()))
    return found


@njit(nogil=True, cache=True)
def _slopes(
    table: Array, scores: Array, labels: Array, weights: Array, taken: Array, slopes: Array, bends: Array
) -> int:
    """Compute slope and curvature of the loss of each row; 0 for unused rows. Returns the sum of all |slopes|."""
    total = 0
    for row in range(scores.size):
        entry = min(max((scores[row] + _REACH) >> _ENTRY_BITS, 0), _ENTRIES - 1)
        chance = np.int64(table[entry])
        weight = weights[row] if taken[row] else 0
        slopes[row] = weight * ((labels[row] << CHANCE_BITS) - chance)
        bends[row] = weight * ((chance * ((1 << CHANCE_BITS) - chance)) >> CHANCE_BITS)
        total += abs(slopes[row])
    return total


@njit(nogil=True, cache=True)
def _pack(slopes: Array, bends: Array, shift: int, packed: Array) -> None:
    """Pack slope and curvature into one number, so that one addition sums both; rounded to multiples of 2^shift."""
    half = (1 << shift) >> 1
    for row in range(slopes.size):
        packed[row] = (((slopes[row] + half) >> shift) << 32) + ((bends[row] + half) >> shift)


@njit(nogil=True, cache=True)
def _answer(column: Array, threshold: int, level: int, leaf: Array) -> None:
    """Set the bit of a level in the leaf number of each row."""
    bit = np.uint8(1 << level)
    for row in range(leaf.size):
        leaf[row] |= bit if column[row] > threshold else np.uint8(0)


@njit(nogil=True, cache=True)
def _count(leaf: Array, taken: Array, counts: Array) -> None:
    for row in range(leaf.size):
        counts[leaf[row]] += taken[row]


@njit(nogil=True, cache=True)
def _gather(leaf: Array, taken: Array, packed: Array, place: Array, rows: Array, slots: Array, values: Array) -> int:
    """List the rows of leaves to be summed, with the slot of each. Returns their number."""
    found = 0
    for row in range(leaf.size):
        slot = place[leaf[row]]
        rows[found], slots[found], values[found] = row, slot, packed[row]
        found += taken[row] and slot >= 0
    return found


@njit(nogil=True, cache=True)
def _sum_up(column: Array, rows: Array, slots: Array, values: Array, sums: Array) -> None:
    for at in range(rows.size):
        sums[(np.int64(slots[at]) << 8) + column[rows[at]]] += values[at]


@njit(nogil=True, cache=True, error_model="numpy")
def _best(sums: Array, order: Array, l2: float, least: float, gains: Array) -> tuple[float, int]:
    """Gain and threshold of the best split of one column, the lowest among equals; `order`: the slots by leaf.

    A leaf with slope G and curvature H lowers the loss by G^2 / 2 (H + l2); the caller halves the gain.
    """
    for value in range(256):
        gains[value] = 0.0
    for at in range(order.size):
        first = np.int64(order[at]) << 8
        whole = np.int64(0)
        for value in range(256):
            whole += sums[first + value]
        slope, bend = float(whole >> 32), float(whole & 0xFFFFFFFF)
        if bend < 2.0 * least:
            continue
        before = slope * slope / (bend + l2)
        low, gain = np.int64(0), 0.0
        for value in range(256):
            here = sums[first + value]
            if here != 0:
                low += here
                low_slope, low_bend = float(low >> 32), float(low & 0xFFFFFFFF)
                high_slope, high_bend = slope - low_slope, bend - low_bend
                gain = 0.0
                if low_bend >= least and high_bend >= least:
                    gain = low_slope * low_slope / (low_bend + l2) + high_slope * high_slope / (high_bend + l2) - before
            gains[value] += gain
    best, threshold = 0.0, 255
    for value in range(255):
        if gains[value] > best:
            best, threshold = gains[value], value
    return best, threshold


@njit(nogil=True, cache=True, error_model="numpy")
def _ask(
    columns: Array, features: Array, listed: Listed, sums: Array, order: Array, l2: float, least: float, found: Array
) -> None:
    """For some features: the sums of the new leaves, and the best split (gain, threshold) into `found`.

    The larger half of a leaf stays in its slot; the smaller, which is summed, goes into the upper half of the slots.
    """
    gains = np.empty(256)
    old, new = (order.size >> 1) << 8, order.size << 8
    for at in range(features.size):
        mine = sums[at]
        mine[old:new] = 0
        _sum_up(columns[features[at]], listed.rows, listed.slots, listed.values, mine)
        mine[:old] -= mine[old : 2 * old]
        found[at, 0], found[at, 1] = _best(mine, order, l2, least, gains)


@njit(nogil=True, cache=True)
def _sum_leaves(leaf: Array, slopes: Array, bends: Array, sums: Array) -> None:
    for row in range(leaf.size):
        sums[0, leaf[row]] += slopes[row]
        sums[1, leaf[row]] += bends[row]


@njit(nogil=True, cache=True)
def _add_leaves(leaf: Array, values: Array, scores: Array) -> None:
    for row in range(leaf.size):
        scores[row] += values[leaf[row]]


def train(
    columns: Array,
    labels: Array,
    weights: Array,
    settings: BoostingSettings,
    groups: Array | None = None,
    threads: int = 1,
) -> TrainedTrees:
    """Train trees that separate rows of label 1 from rows of label 0.

    `columns` is uint8 (columns, rows), `weights` has the weight of each row (rounded to 1/256), `groups` a number per
    row: rows of a group are sampled together if `row_share` is below 1. Without it each row is a group.
    """
    _check(columns, labels, weights, groups, settings)
    if threads < 1:
        raise ValueError(f"threads is {threads}; at least 1 is needed")
    rows, depth = columns.shape[1], settings.depth
    counts = np.rint(np.asarray(weights, np.float64) * (1 << WEIGHT_BITS)).astype(np.int64)
    truth = np.asarray(labels).astype(np.int64)
    keys = np.arange(rows, dtype=np.uint64) if groups is None else np.asarray(groups).astype(np.uint64)
    bias = _bias(int((counts * truth).sum()), int(counts.sum()))
    scores = np.full(rows, bias, np.int32)
    trees = Trees(
        np.zeros((settings.trees, depth), np.uint16),
        np.full((settings.trees, depth), 255, np.uint8),
        np.zeros((settings.trees, 1 << depth), np.int16),
        bias,
        len(columns),
    )
    gains = np.zeros((settings.trees, depth))
    slopes, bends, packed = (np.empty(rows, np.int64) for _ in range(3))
    used = max(1, round(len(columns) * settings.feature_share))
    grower = _Grower(columns, used, settings, threads)
    last = np.uint64(max(int(settings.row_share * 2**64) - 1, 0))
    with ThreadPoolExecutor(threads) as pool:
        for tree in range(settings.trees):
            taken = _drawn(keys, settings.seed, 2 * tree) <= last
            ranked = np.argsort(_drawn(np.arange(len(columns), dtype=np.uint64), settings.seed, 2 * tree + 1))
            features = np.sort(ranked[:used])
            total = _slopes(chances(), scores, truth, counts, taken, slopes, bends)
            shift = max(0, total.bit_length() - _PACKED_BITS)
            _pack(slopes, bends, shift, packed)
            into = Levels(trees.features[tree], trees.thresholds[tree], gains[tree])
            leaf = grower.grow(pool, features, taken, packed, _UNIT / (1 << shift), into)
            sums = np.zeros((2, 1 << depth), np.int64)
            _sum_leaves(leaf, slopes, bends, sums)
            trees.leaves[tree] = _values(sums, settings)
            _add_leaves(leaf, trees.leaves[tree], scores)
    return TrainedTrees(trees, gains)


class _Grower:
    """Grows trees one after another in the same memory."""

    def __init__(self, columns: Array, used: int, settings: BoostingSettings, threads: int) -> None:
        rows = columns.shape[1]
        self.columns, self.settings = columns, settings
        bounds = [used * part // threads for part in range(threads + 1)]
        self.parts = [slice(low, high) for low, high in pairwise(bounds)]
        self.sums = np.empty((used, 256 << (settings.depth - 1)), np.int64)
        self.found = np.empty((used, 2))
        self.lists = Listed(np.empty(rows, np.uint32), np.empty(rows, np.uint8), np.empty(rows, np.int64))

    def grow(
        self, pool: ThreadPoolExecutor, features: Array, taken: Array, packed: Array, unit: float, into: Levels
    ) -> Array:
        """The leaf of each row in a new tree, whose levels are written `into` the arrays of all trees."""
        leaf = np.zeros(packed.size, np.uint8)
        order, place = np.zeros(1, np.int64), np.zeros(1, np.int64)
        for level in range(self.settings.depth):
            count = _gather(leaf, taken, packed, place, *self.lists)
            self._ask_all(pool, features, Listed(*(rows[:count] for rows in self.lists)), order, unit)
            best = int(np.argmax(self.found[:, 0]))  # the first of equals
            if self.found[best, 0] <= 0.0:
                break  # later levels cannot gain anything either
            feature, threshold = features[best], int(self.found[best, 1])
            into.features[level], into.thresholds[level] = feature, threshold
            into.gains[level] = self.found[best, 0] / unit / 2
            _answer(self.columns[feature], threshold, level, leaf)
            order, place = _halved(order, leaf, taken)
        return leaf

    def _ask_all(self, pool: ThreadPoolExecutor, features: Array, listed: Listed, order: Array, unit: float) -> None:
        """Find the best split per feature. Threads have separate features, so the result does not depend on timing."""
        l2, least = self.settings.l2 * unit, self.settings.min_leaf_weight * unit

        def ask(part: slice) -> None:
            _ask(self.columns, features[part], listed, self.sums[part], order, l2, least, self.found[part])

        list(pool.map(ask, self.parts))


def _halved(order: Array, leaf: Array, taken: Array) -> tuple[Array, Array]:
    """The slot of each leaf after a split of all, and of those to be summed; -1 for the others."""
    half = order.size
    counts = np.zeros(2 * half, np.int64)
    _count(leaf, taken, counts)
    upper_is_smaller = counts[half:] <= counts[:half]
    upper = np.where(upper_is_smaller, order + half, order)
    lower = np.where(upper_is_smaller, order, order + half)
    found = np.concatenate([lower, upper])
    return found, np.where(found >= half, found, -1)


def _values(sums: Array, settings: BoostingSettings) -> Array:
    """The leaf values of a tree, from slope and curvature: a Newton step times the learning rate.

    Bit d of a leaf's number is the result of level d, so the parent of a leaf lacks its highest bit.
    """
    parts = [sums]
    while parts[-1].shape[1] > 1:
        half = parts[-1].shape[1] // 2
        parts.append(parts[-1][:, :half] + parts[-1][:, half:])
    found: Any = np.zeros(1)
    for slope, bend in reversed(parts):
        steps = ONE * settings.learning_rate * slope / (bend + settings.l2 * _UNIT)
        heavy = bend >= settings.min_leaf_weight * _UNIT
        found = np.where(heavy, steps, np.tile(found, 2)) if slope.size > 1 else steps
    leaves: Array = np.clip(np.rint(found), -(2**15), 2**15 - 1).astype(np.int16)
    return leaves


def _bias(high: int, all_rows: int) -> int:
    """The initial score, from the share of rows with label 1."""
    entry = int(np.searchsorted(chances(), (high << CHANCE_BITS) // all_rows))
    return (min(entry, _ENTRIES - 1) << _ENTRY_BITS) - _REACH + (1 << _ENTRY_BITS >> 1)


def _drawn(keys: Array, seed: int, turn: int) -> Array:
    """A random number (uint64) for each key, different at each turn."""
    mixed: Any = mix.py_func
    both = np.array([seed % 2**64, turn], np.uint64) + GOLDEN
    salt = mixed(mixed(both[:1]) + mixed(both[1:]))
    drawn: Array = mixed(mixed(keys + GOLDEN) ^ salt)
    return drawn


def _check(columns: Array, labels: Array, weights: Array, groups: Array | None, settings: BoostingSettings) -> None:
    if columns.dtype != np.uint8 or columns.ndim != 2 or not columns.flags.c_contiguous or not columns.size:
        raise ValueError(f"columns are {columns.dtype} {columns.shape}; contiguous uint8 (columns, rows) is needed")
    if len(columns) > 2**16 or columns.shape[1] > MOST_ROWS:
        raise ValueError(f"{columns.shape} columns and rows are too many; at most {2**16} and {MOST_ROWS}")
    sizes = {len(labels), len(weights), columns.shape[1], *([] if groups is None else [len(groups)])}
    if len(sizes) > 1:
        raise ValueError(f"columns, labels, weights and groups have different lengths: {sorted(sizes)}")
    if not np.isin(labels, (0, 1)).all():
        raise ValueError("labels must be 0 or 1")
    total = float(np.sum(weights, dtype=np.float64))
    if not (np.min(weights) >= 0 and 0 < total <= LARGEST_SUM):
        raise ValueError(
            f"weights start at {np.min(weights)} and sum to {total}; they must not be negative or exceed {LARGEST_SUM}"
        )
    if ((weights > 0) & (np.asarray(weights) * 2 < 2.0**-WEIGHT_BITS)).any():
        raise ValueError(f"a weight below 1/{2 << WEIGHT_BITS} would be rounded to 0: scale all weights up")
    if not (1 <= settings.depth <= DEEPEST and 1 <= settings.trees <= MOST_TREES):
        raise ValueError(
            f"{settings.trees} trees of depth {settings.depth}; 1 to {MOST_TREES} of 1 to {DEEPEST} are allowed"
        )
    if not (settings.l2 > 0 and settings.learning_rate > 0 and settings.min_leaf_weight >= 0):
        raise ValueError("l2 and learning_rate must be above 0, min_leaf_weight 0 or more")
    if not (0 < settings.feature_share <= 1 and 0 < settings.row_share <= 1):
        raise ValueError("feature_share and row_share must be above 0 and at most 1")
