"""Measures a trained classifier on texts of sites that were held out.

The report has AUC (ties count half), precision and recall, calibration, the most informative n-grams of each class, and
counterfactuals: the held-out texts are changed in a way that does not change their quality, and scored again. If most
of the separation (the difference between the classes' mean scores) disappears, the classifier has learned a shortcut.

    passages without runs of five words that many texts of one class share and few of the other: a footer, a menu
    ngrams   without the most informative n-grams: a few words define the classes
    signs    without markup and words that contain no letter: the classes differ by how they were extracted
    length   all cut to the same number of words: the classes differ by length

Sums are exact (`math.fsum`) and stored values are rounded, so a report is the same on every CPU.
"""

import math
import re
from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np

from gristmill.kernels.quality.features import (
    Shape,
    TextRows,
    WordRows,
    count_words,
    cut_words,
    passages,
    rows_of,
)
from gristmill.kernels.quality.train import chances_of, score_rows, texts_with
from gristmill.stages.quality.classifier_examples import Examples

Array = np.ndarray[Any, Any]

THRESHOLDS = (0.1, 0.25, 0.5, 0.75, 0.9)
BINS = 10
STRIPPED = 50
"""n-grams of each class that are removed: a footer of 15 words has 31 words and pairs of words."""
SHOWN = 20
SHORTEST_CUT = 20
"""Words. The scores of shorter texts are not comparable."""
MOST_LOST = {"passages": 0.08, "ngrams": 0.6, "signs": 0.5, "length": 0.3}
"""Share of the separation that may be lost; measured on real classes and planted shortcuts (docs/quality.md)."""
PASSAGE_WORDS = 5
PASSAGE_SHARE = 0.2
"""Share of a class's texts that have a passage. Prose from many sites has no such passage."""
PASSAGE_TIMES = 4
"""How much more frequent it is than in the other class."""
_PASSAGE_TEXTS = 1_000
"""Texts of each class that are searched for passages."""
_PASSAGE_ROWS = 1 << 23
_NAMED_EXAMPLES = 4_000
"""Training examples that are searched for the words of hashed n-grams."""
_MARKUP = re.compile(
    rb"<[^<>]{1,400}>|\{\{[^{}]{0,400}\}\}|&[A-Za-z0-9#]{1,10};|https?://\S{1,400}|\\[A-Za-z]{1,40}|\[\[?|\]\]?|[`*#|_=~{}<>\\]"
)
_NO_LETTERS = re.compile(rb"(?<![^\s\x00])[\x21-\x40\x5b-\x60\x7b-\x7e]+(?![^\s\x00])")


class Judge:
    """A trained classifier, for the report."""

    def __init__(self, words: WordRows, shape: Shape, weights: Array) -> None:
        self.words, self.shape, self.weights = words, shape, weights

    def rows(self, data: Array, starts: Array, ends: Array, with_spans: bool = False) -> TextRows:
        return rows_of(self.words, self.shape, data, starts, ends, with_spans)

    def scores(self, data: Array, starts: Array, ends: Array) -> Array:
        rows = self.rows(data, starts, ends)
        return np.asarray(score_rows(rows.rows, rows.firsts, self.weights))


def judged(
    judge: Judge, training: TextRows, texts: Any, high: Array, known: Examples, held: Examples
) -> dict[str, Any]:
    """The report. `training` are the rows of the examples, `texts` (bytes, starts, ends) their texts, and `known` the
    documents that they were cut from."""
    telling = _telling(judge, training, high)
    report: dict[str, Any] = {"telling": _named(judge, telling, texts)}
    if held.high.all() or not held.high.any():
        return report
    scores = judge.scores(*held[:3])
    report |= _measures(scores, held)
    report["counterfactuals"] = _counterfactuals(judge, telling, _shared(known), held, scores)
    words = count_words(*held[:3])
    alone = area(words, held.high)
    report["length_alone"] = {"auc": _rounded(max(alone, 1 - alone))}
    return report


def area(scores: Array, high: Array) -> float:
    """The probability that a positive scores above a negative, with ties counted half (AUC)."""
    _, of, counts = np.unique(scores, return_inverse=True, return_counts=True)
    twice_rank = 2 * np.cumsum(counts) - counts + 1  # twice the mean rank, an integer
    positives, negatives = int(high.sum()), int((~high).sum())
    wins = int(twice_rank[of][high].sum()) - positives * (positives + 1)
    return wins / (2 * positives * negatives)


def _measures(scores: Array, held: Examples) -> dict[str, Any]:
    high, chances = held.high, chances_of(scores)
    thresholds = {}
    for threshold in THRESHOLDS:
        over = chances >= threshold
        right, named = int((over & high).sum()), int(over.sum())
        thresholds[str(threshold)] = {
            **({"precision": _rounded(right / named)} if named else {}),
            "recall": _rounded(right / int(high.sum())),
        }
    bins, error = {}, 0.0
    place = np.minimum((chances * BINS).astype(np.int64), BINS - 1)
    for one in range(BINS):
        inside = place == one
        n = int(inside.sum())
        if n:
            predicted, actual = math.fsum(chances[inside].tolist()) / n, math.fsum(held.targets[inside].tolist()) / n
            error += n * abs(predicted - actual) / len(high)
            bins[str(one)] = {"documents": n, "said": _rounded(predicted), "is_so": _rounded(actual)}
    brier = math.fsum(((chances - held.targets) ** 2).tolist()) / len(high)
    return {
        "auc": _rounded(area(scores, high)),
        "separation": _rounded(_separation(scores, high)),
        "thresholds": thresholds,
        "calibration": {"bins": bins, "expected_error": _rounded(error), "brier": _rounded(brier)},
    }


def _separation(scores: Array, high: Array) -> float:
    means = [math.fsum(scores[side].tolist()) / max(int(side.sum()), 1) for side in (high, ~high)]
    return means[0] - means[1]


def _telling(judge: Judge, training: TextRows, high: Array) -> dict[str, Array]:
    """The most informative rows of each class: weight times the difference between the shares of texts with them."""
    found = texts_with(training.rows, training.firsts, high.astype(np.int8), len(judge.weights))
    shares = found / np.maximum([[int((~high).sum())], [int(high.sum())]], 1)
    value = judge.weights.astype(np.float64) * (shares[1] - shares[0])
    best = {}
    for name, side in (("high", judge.weights > 0), ("low", judge.weights < 0)):
        mine = np.flatnonzero(side & (value > 0))
        best[name] = mine[np.lexsort((mine, -value[mine]))[:STRIPPED]]
    return best


def _shared(known: Examples) -> Array:
    """Passages that many texts of one class have, and few of the other."""
    mine = np.concatenate([np.flatnonzero(side)[:_PASSAGE_TEXTS] for side in (known.high, ~known.high)])
    some = known.take(mine)
    rows, firsts, _, _ = passages(*some[:3], PASSAGE_WORDS, _PASSAGE_ROWS)
    found = texts_with(rows, firsts, some.high.astype(np.int8), _PASSAGE_ROWS)
    there = np.flatnonzero(found.any(axis=0))
    shares = found[:, there] / np.maximum([[int((~some.high).sum())], [int(some.high.sum())]], 1)
    high, low = shares.max(axis=0), shares.min(axis=0)
    chosen: Array = there[(high >= PASSAGE_SHARE) & (high > PASSAGE_TIMES * low)]
    return chosen


def _named(judge: Judge, telling: dict[str, Array], texts: tuple[Array, Array, Array]) -> dict[str, Any]:
    """The words of these n-grams; if several share a row, the most frequent one in some examples."""
    data, starts, ends = texts
    rows = judge.rows(data, starts[:_NAMED_EXAMPLES], ends[:_NAMED_EXAMPLES], with_spans=True)
    wanted = np.flatnonzero(np.isin(rows.rows, np.concatenate([mine[:SHOWN] for mine in telling.values()])))
    spellings: dict[int, Counter[str]] = {}
    for at in wanted.tolist():
        text = data[rows.begins[at] : rows.ends[at]].tobytes().decode("utf-8", "replace")
        spellings.setdefault(int(rows.rows[at]), Counter())[" ".join(text.split()) or "(end)"] += 1
    names = {row: min(found, key=lambda one: (-found[one], one)) for row, found in spellings.items()}
    return {
        side: [
            {"ngram": names[row], "weight": _rounded(float(judge.weights[row]))}
            for row in mine.tolist()
            if row in names
        ][:SHOWN]
        for side, mine in telling.items()
    }


def _counterfactuals(
    judge: Judge, telling: dict[str, Array], shared: Array, held: Examples, scores: Array
) -> dict[str, Any]:
    """How AUC and separation change."""
    before = _separation(scores, held.high)
    found = {}
    for name, changed in _changed(judge, telling, shared, held):
        after = judge.scores(*changed)
        lost = 1 - _separation(after, held.high) / before if before > 0 else 0.0
        found[name] = {
            "auc_before": _rounded(area(scores, held.high)),
            "auc_after": _rounded(area(after, held.high)),
            "separation_lost": _rounded(lost),
        }
    return found


def _changed(
    judge: Judge, telling: dict[str, Array], shared: Array, held: Examples
) -> Iterator[tuple[str, tuple[Array, Array, Array]]]:
    """The held-out texts with each change. Removed text becomes spaces, so that offsets stay valid."""
    data, starts, ends = held[:3]
    found, _, begins, stops = passages(data, starts, ends, PASSAGE_WORDS, _PASSAGE_ROWS)
    blank = data.copy()
    for at in np.flatnonzero(np.isin(found, shared)).tolist():
        blank[begins[at] : stops[at]] = 32
    yield "passages", (blank, starts, ends)
    rows = judge.rows(data, starts, ends, with_spans=True)
    blank = data.copy()
    for at in np.flatnonzero(np.isin(rows.rows, np.concatenate(list(telling.values())))).tolist():
        blank[rows.begins[at] : rows.ends[at]] = 32
    yield "ngrams", (blank, starts, ends)
    blank = data.copy()
    for start, end in zip(starts.tolist(), ends.tolist(), strict=True):
        plain = _MARKUP.sub(lambda found: b" " * len(found[0]), data[start:end].tobytes())
        plain = _NO_LETTERS.sub(lambda found: b" " * len(found[0]), plain)
        blank[start:end] = np.frombuffer(plain, np.uint8)
    yield "signs", (blank, starts, ends)
    words = max(int(np.sort(count_words(data, starts, ends))[len(starts) // 20]), SHORTEST_CUT)
    begins, stops, owners = cut_words(data, starts, ends, words, 1)
    short, until = starts.copy(), starts.copy()
    short[owners], until[owners] = begins, stops
    yield "length", (data, short, until)


def _rounded(value: float) -> float:
    return round(float(value), 6)
