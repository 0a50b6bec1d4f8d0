"""Shifts of measured columns between two versions: medians, quartiles, and the Kolmogorov-Smirnov distance, which is
the largest difference between the shares of documents below any value.

Only kept documents are compared; in a large corpus every k-th row, with the same rows in both versions, so that
sampling causes no difference. A step whose layers and final verdicts are the same in both versions is skipped.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from gristmill.engine.plan.graph import CORPUS
from gristmill.engine.schedule.corpus_view import CorpusView, DocumentPart
from gristmill.query.documents.columns import is_measured
from gristmill.store.parquet import PartReader

MOST_ROWS = 1 << 16
"""About how many values per step and version are compared: enough for an accuracy of half a percent."""
MOVED = 0.01
"""The smallest distance that is reported."""

Values = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Shift:
    """The shift of one column of one step, over the kept documents of each version."""

    column: str
    """`web/signals.words`."""
    before: tuple[float, float, float]
    now: tuple[float, float, float]
    """Lower quartile, median, upper quartile."""
    distance: float
    rows: tuple[int, int]
    """The number of compared documents in each version."""
    every: int
    """The sampling interval: one of `every` rows was compared."""


def find_shifts(before: CorpusView, now: CorpusView) -> list[Shift]:
    """The numeric columns that shifted, of the steps that both versions have, the largest shift first."""
    found = [shift for step in before.nodes if step in now.nodes for shift in _of_step(before, now, step)]
    return sorted(found, key=lambda shift: (-shift.distance, shift.column))


def _of_step(before: CorpusView, now: CorpusView, step: str) -> Iterator[Shift]:
    if before.nodes[step].kind != "map" or before.nodes[step].name == CORPUS:
        return
    sources = [source for source in before.nodes[step].sources if source in now.nodes[step].sources]
    sides = [(view, _parts(view, step, sources)) for view in (before, now)]
    hashes = [[(view.layer(step, one).hash, view.verdicts(one).hash) for one in parts] for view, parts in sides]
    if hashes[0] == hashes[1] or not all(hashes):
        return
    rows = max(sum(one.part.rows for source in sources for one in view.documents[source]) for view in (before, now))
    every = -(-rows // MOST_ROWS) or 1
    schemas = [PartReader(view.store, view.layer(step, parts[0])).schema for view, parts in sides]
    columns = [one.name for one in schemas[0] if is_measured(one.type) and one in list(schemas[1])]
    tables = [_kept(view, step, parts, columns, every) for view, parts in sides] if columns else []
    for column in columns:
        old, new = (_sorted(table[column]) for table in tables)
        if len(old) and len(new) and (moved := distance(old, new)) >= MOVED:
            yield Shift(f"{step}.{column}", _quartiles(old), _quartiles(new), moved, (len(old), len(new)), every)


def _parts(view: CorpusView, step: str, sources: Sequence[str]) -> list[DocumentPart]:
    """The document parts that a step has processed."""
    documents = (one for source in sources for one in view.documents.get(source, ()))
    return [one for one in documents if view.has_layer(step, one)]


def _kept(view: CorpusView, step: str, parts: Sequence[DocumentPart], columns: Sequence[str], every: int) -> pa.Table:
    """Columns of a step for the kept rows among every k-th row of each part; the first row depends on its hash."""
    found = []
    for document in parts:
        dropped = PartReader(view.store, view.verdicts(document)).read(["drop"])["drop"].is_valid()
        rows = np.arange(int(document.part.hash[:8], 16) % every, document.part.rows, every)
        table = PartReader(view.store, view.layer(step, document)).read(columns)
        found.append(table.take(pa.array(rows[~dropped.to_numpy()[rows]])))
    return pa.concat_tables(found)


def _sorted(column: pa.ChunkedArray) -> Values:
    found = column.drop_null().to_numpy().astype(np.float64)
    return np.sort(found[~np.isnan(found)])


def _quartiles(ordered: Values) -> tuple[float, float, float]:
    low, middle, high = (float(ordered[int(share * (len(ordered) - 1))]) for share in (0.25, 0.5, 0.75))
    return low, middle, high


def distance(old: Values, new: Values) -> float:
    """The Kolmogorov-Smirnov distance of two sorted arrays."""
    values = np.concatenate([old, new])
    shares = [np.searchsorted(one, values, "right") / len(one) for one in (old, new)]
    return float(np.abs(shares[0] - shares[1]).max())
