"""Trains a classifier on labelled texts and measures it on texts of other sites."""

from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from gristmill.errors import UserError
from gristmill.kernels.quality.features import Shape, cut_words, rows_of, vocabulary
from gristmill.kernels.quality.train import hash_pieces, train_weights
from gristmill.stages.quality.classifier_config import Options
from gristmill.stages.quality.classifier_examples import Examples, clean, hold_out
from gristmill.stages.quality.classifier_file import model_bytes, with_report
from gristmill.stages.quality.classifier_report import Judge, judged

Array = np.ndarray[Any, Any]


class TrainedClassifier(NamedTuple):
    """A trained classifier."""

    model: bytes
    """The model file, including the report."""
    report: dict[str, Any]


def train(examples: pa.Table, options: Options) -> TrainedClassifier:
    """Trains on `examples`, which has the columns of classifier_examples.SCHEMA, in any order of rows."""
    found, removed = clean(examples, options.min_words)
    held, apart = hold_out(found, options.held_out_share, options.seed)
    training, test = found.take(~held), found.take(held)
    _refuse_a_missing_side(training, removed)
    begins, ends, owners = cut_words(*training[:3], options.example_words, options.examples_per_document)
    high, targets = training.high[owners], training.targets[owners]
    words = vocabulary(found.data, begins, ends, options.min_count, options.max_words)
    minn, maxn = options.char_ngrams
    buckets = options.buckets if options.word_ngrams > 1 or maxn else 0
    shape = Shape(options.word_ngrams, minn, maxn, buckets)
    rows = rows_of(words, shape, found.data, begins, ends)
    weights = train_weights(
        rows.rows,
        rows.firsts,
        len(words.starts) + buckets,
        targets,
        _weights(high) if options.balance else np.ones(len(high)),
        hash_pieces(found.data, begins, ends),
        options.epochs,
        options.learning_rate,
        options.seed,
    )
    report = {
        "texts": {"training": _sides(training), "held_out": _sides(test)},
        "removed": removed,
        "examples": {"high": int(high.sum()), "low": int((~high).sum())},
        "words": len(words.starts),
        "held_out_by_site": int(apart),
        **judged(Judge(words, shape, weights), rows, (found.data, begins, ends), high, training, test),
    }
    counts = int(high.sum()), int((~high).sum())
    model = model_bytes(words, shape, weights, options.epochs, counts)
    return TrainedClassifier(with_report(model, report), report)


def _weights(high: Array) -> Array:
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
    for name, there in (("positives", training.high.any()), ("negatives", (~training.high).any())):
        if not there:
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
