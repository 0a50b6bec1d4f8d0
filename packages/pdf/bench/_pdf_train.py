"""Trains the model of the kinds of PDF lines: `python -m bench._pdf_train GOLD`, with PAGES=150.

GOLD is a folder of gold rows (bench/_pdf_gold.py and bench/_pdf_typeset.py): `train` and `kinds`. Tables, captions,
notes and the beginning of items are found by rules, so lines of tables and captions are left out, and items
and notes are text. The same GOLD gives the same bytes.
"""

import sys
from pathlib import Path

import numpy as np
from bench.pdf_kinds import gold_sets, known_lines

from gristmill_extractor.boosting import BoostingSettings, train
from gristmill_pdf.layout.kinds import KINDS, MODEL, write_model

MOST_LINES = 3_000
"""A set with more lines weighs as much as one with so many."""
SETTINGS = BoostingSettings(
    trees=60, depth=5, learning_rate=0.2, l2=5, min_leaf_weight=5, feature_share=0.4, row_share=0.6
)


def main(folders: list[Path]) -> None:
    columns, labels, weights, groups = [], [], [], []
    for folder in folders:
        for rows in gold_sets(folder).values():
            listed = [(number, one) for number, row in enumerate(rows) for one in known_lines(row)]
            first = groups[-1] + 1 if groups else 0
            for number, one in listed:
                if one.gold not in ("table", "caption") and one.kind != "table":
                    columns.append(one.features)
                    labels.append(one.gold if one.gold in KINDS else "text")
                    weights.append(min(1.0, MOST_LINES / len(listed)))
                    groups.append(first + number)
    table = np.ascontiguousarray(np.array(columns).T)
    found = [
        train(table, np.array([one == kind for one in labels]), np.array(weights), SETTINGS, np.array(groups), 2).trees
        for kind in KINDS
    ]
    MODEL.write_bytes(write_model(found))


if __name__ == "__main__":
    main([Path(sys.argv[1]) / part for part in ("train", "kinds")])
