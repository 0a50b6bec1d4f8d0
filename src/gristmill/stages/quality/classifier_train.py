"""Trains a classifier on labelled texts, measures it on texts of other sites, and writes it as a fastText model.

The measures are AUC, precision and recall, and calibration. Their sums are exact (`math.fsum`) and they are rounded, so
they are the same on every CPU.
"""

import math
import struct
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from gristmill.errors import UserError
from gristmill.kernels.quality.features import WordRows, count_words, cut_words, rows_of, vocabulary
from gristmill.kernels.quality.train import chances_of, hash_pieces, score_rows, train_weights
from gristmill.stages.quality.classifier_settings import Options
from gristmill.stages.quality.classifier_texts import Examples, clean, hold_out

Array = np.ndarray[Any, Any]

MOST_WORDS = 1_000_000
"""Words with their own row; the most frequent ones get it."""
MOST_EXAMPLES = 64
"""Examples from one text, from its start."""
LABELS = ("__label__high", "__label__low")
THRESHOLDS = (0.1, 0.25, 0.5, 0.75, 0.9)
BINS = 10
_MAGIC, _VERSION, _SOFTMAX, _SUPERVISED = 793712314, 12, 3, 3
"""Of fastText's file format."""


class TrainedClassifier(NamedTuple):
    """A trained classifier."""

    model: bytes
    """The model file."""
    metrics: dict[str, Any]


def train(examples: pa.Table, options: Options) -> TrainedClassifier:
    """Trains on `examples`, which has the columns of classifier_texts.SCHEMA, in any order of rows."""
    texts, removed = clean(examples, options.min_words)
    is_held, apart = hold_out(texts, options.held_out_share, options.seed)
    training, held_out = texts.take(~is_held), texts.take(is_held)
    _refuse_a_missing_side(training, removed)
    starts, ends, owners = cut_words(*training[:3], options.example_words, MOST_EXAMPLES)
    high, targets = training.high[owners], training.targets[owners]
    words = vocabulary(texts.data, starts, ends, options.min_count, MOST_WORDS)
    buckets = options.buckets if options.word_ngrams > 1 else 0
    rows, firsts = rows_of(words, options.word_ngrams, buckets, texts.data, starts, ends)
    weights = train_weights(
        rows,
        firsts,
        len(words.starts) + buckets,
        targets,
        _balanced(high),
        hash_pieces(texts.data, starts, ends),
        options.epochs,
        options.learning_rate,
        options.seed,
    )
    scores = score_rows(*rows_of(words, options.word_ngrams, buckets, *held_out[:3]), weights)
    counts = int(high.sum()), int((~high).sum())
    metrics = {
        "texts": {"training": _sides(training), "held_out": _sides(held_out)},
        "removed": removed,
        "examples": dict(zip(("high", "low"), counts, strict=True)),
        "words": len(words.starts),
        "held_out_by_site": int(apart),
        **measures(scores, held_out),
    }
    return TrainedClassifier(model_bytes(words, options.word_ngrams, buckets, weights, options.epochs, counts), metrics)


def _balanced(high: Array) -> Array:
    """Weights that make both classes count the same, with a mean of 1."""
    sides = np.array([int((~high).sum()), int(high.sum())], np.float64)
    weights: Array = (len(high) / 2 / sides)[high.astype(int)]
    return weights


def _sides(texts: Examples) -> dict[str, Any]:
    sizes = texts.ends - texts.starts
    return {
        name: {
            "documents": int(side.sum()),
            "bytes": int(sizes[side].sum()),
            "sites": len(np.unique(texts.groups[side])),
        }
        for name, side in (("high", texts.high), ("low", ~texts.high))
    }


def _refuse_a_missing_side(training: Examples, removed: dict[str, int]) -> None:
    for name, is_there in (("positives", training.high.any()), ("negatives", (~training.high).any())):
        if not is_there:
            best = float(training.targets.max()) if name == "positives" and len(training.targets) else 1.0
            if best < 0.5:
                raise UserError(
                    f"no text has half of the best score, so there are no positives and no classifier: the best text "
                    f"has {best:.0%} of it. Set best_score in the labels (default 5)."
                )
            gone = ", ".join(f"{count:,} {reason}" for reason, count in removed.items() if count) or "none"
            raise UserError(
                f"no {name} are left to train on (removed in cleaning: {gone}), so there is no classifier. "
                f"Add texts under {name}, or lower min_words."
            )


def measures(scores: Array, held_out: Examples) -> dict[str, Any]:
    """The measures of held-out texts with these scores; none if they lack a class."""
    if held_out.high.all() or not held_out.high.any():
        return {}
    chances = chances_of(scores)
    of_length = area(count_words(*held_out[:3]), held_out.high)
    return {
        "auc": _rounded(area(scores, held_out.high)),
        "auc_of_length": _rounded(max(of_length, 1 - of_length)),
        "thresholds": {str(threshold): _at_threshold(chances >= threshold, held_out.high) for threshold in THRESHOLDS},
        "calibration": _calibration(chances, held_out.targets),
    }


def area(scores: Array, high: Array) -> float:
    """The probability that a positive scores above a negative, with ties counted half (AUC)."""
    _, of, counts = np.unique(scores, return_inverse=True, return_counts=True)
    twice_rank = 2 * np.cumsum(counts) - counts + 1  # twice the mean rank, an integer
    positives, negatives = int(high.sum()), int((~high).sum())
    wins = int(twice_rank[of][high].sum()) - positives * (positives + 1)
    return wins / (2 * positives * negatives)


def _at_threshold(above: Array, high: Array) -> dict[str, float]:
    right, count = int((above & high).sum()), int(above.sum())
    precision = {"precision": _rounded(right / count)} if count else {}
    return {**precision, "recall": _rounded(right / int(high.sum()))}


def _calibration(chances: Array, targets: Array) -> dict[str, Any]:
    """How far the predicted probabilities are from the targets, in bins of the prediction."""
    bins, error = {}, 0.0
    bin_of = np.minimum((chances * BINS).astype(np.int64), BINS - 1)
    for number in range(BINS):
        inside = bin_of == number
        count = int(inside.sum())
        if count:
            predicted, actual = (math.fsum(values[inside].tolist()) / count for values in (chances, targets))
            error += count * abs(predicted - actual) / len(targets)
            bins[str(number)] = {"documents": count, "predicted": _rounded(predicted), "actual": _rounded(actual)}
    brier = math.fsum(((chances - targets) ** 2).tolist()) / len(targets)
    return {"bins": bins, "expected_error": _rounded(error), "brier": _rounded(brier)}


def _rounded(value: float) -> float:
    return round(value, 6)


def model_bytes(
    words: WordRows, word_ngrams: int, buckets: int, weights: Array, epochs: int, examples: tuple[int, int]
) -> bytes:
    """A supervised model of one dimension: the score of a text is half the distance from `low` to `high`.

    `examples`: the number of examples in the high and in the low class.
    """
    # dim, ws, epoch, minCount, neg, wordNgrams, loss, model, bucket, minn, maxn, lrUpdateRate, t
    arguments = struct.pack("<12id", 1, 5, epochs, 1, 5, word_ngrams, _SOFTMAX, _SUPERVISED, buckets, 0, 0, 100, 1e-4)
    entries = len(words.starts) + len(LABELS)
    sizes = struct.pack("<iiiqq", entries, len(words.starts), len(LABELS), int(words.counts.sum()), -1)
    parts = [struct.pack("<ii", _MAGIC, _VERSION), arguments, sizes]
    text = words.data.tobytes()
    spans = zip(words.starts.tolist(), words.ends.tolist(), words.counts.tolist(), strict=True)
    parts += [text[start:end] + b"\0" + struct.pack("<qb", count, 0) for start, end, count in spans]
    labels = zip(LABELS, examples, strict=True)
    parts += [label.encode() + b"\0" + struct.pack("<qb", count, 1) for label, count in labels]
    parts += [struct.pack("<?qq", False, len(weights), 1), weights.astype("<f4").tobytes()]
    parts += [struct.pack("<?qq", False, len(LABELS), 1), np.array([0.5, -0.5], "<f4").tobytes()]
    return b"".join(parts)
