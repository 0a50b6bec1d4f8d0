"""How well `expected_f1` finds pages whose text is bad: `python -m bench._expected_f1 FOLDER...`.

The folders have gold text that the built-in model has not learned from. For each folder, and for all: the number of
pages, those with an F1 below BAD, and the AUC, the share of pairs of a bad page and another one in which the bad one
has the lower value.
"""

import sys
from pathlib import Path

import numpy as np
import pyarrow as pa

from gristmill.stages.extract import extract
from gristmill_extractor.gold import read_gold

BAD = 0.8


def scored(folder: Path) -> list[tuple[float, float]]:
    """The expected F1 and the F1 of each page."""
    found = []
    for page in read_gold(folder):
        columns = [pa.array([value], pa.string()) for value in (page.html, None, None, None)]
        batch = extract.apply(pa.RecordBatch.from_arrays(columns, names=list(extract.READS)), extract.Config())
        (row,) = batch.to_pylist()
        if row["expected_f1"] is not None:
            found.append((row["expected_f1"], page.score(row["text"] or "").value))
    return found


def auc(pages: list[tuple[float, float]]) -> float:
    expected, values = np.array(pages).T
    bad, others = expected[values < BAD], expected[values >= BAD]
    pairs = bad[:, None] - others[None, :]
    return float(((pairs < 0).sum() + 0.5 * (pairs == 0).sum()) / pairs.size)


if __name__ == "__main__":
    by_folder = {name: scored(Path(name)) for name in sys.argv[1:]}
    for name, pages in {**by_folder, "all": [page for some in by_folder.values() for page in some]}.items():
        print(f"{name}: {len(pages):,} pages, {sum(value < BAD for _, value in pages)} bad, AUC {auc(pages):.3f}")
