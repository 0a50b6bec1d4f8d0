"""Shifts of measured columns between two versions: medians, quartiles, and the Kolmogorov-Smirnov distance, which is
the largest difference between the shares of documents below any value.

Only kept documents are compared; in a large corpus every k-th row, with the same rows in both versions, so that
sampling causes no difference. A layer that both versions share is read once, and skipped if they keep the same
documents.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from gristmill.engine.plan.graph import CORPUS
from gristmill.engine.schedule.corpus_view import CorpusView, DocumentPart
from gristmill.query.versions.diff import shared_parts
from gristmill.store.parquet import PartReader
from gristmill.store.store import Part

MOST_ROWS = 1 << 16
"""About how many values per step and version are compared: enough for an accuracy of half a percent."""
MOVED = 0.01
"""The smallest distance that is reported."""

Values = npt.NDArray[np.float64]
_Known = dict[tuple[str, int], pa.Array]
"""(part of final verdicts, sampling interval) -> its kept rows."""


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
    known: _Known = {}
    found = [shift for step in before.nodes if step in now.nodes for shift in _of_step(before, now, step, known)]
    return sorted(found, key=lambda shift: (-shift.distance, shift.column))


@dataclass(frozen=True)
class _Piece:
    """The layers of a document part in both versions, and the rows to compare."""

    layers: tuple[tuple[CorpusView, Part] | None, tuple[CorpusView, Part] | None]
    kept: tuple[Any, Any]

    @property
    def is_same(self) -> bool:
        old, new = self.layers
        return old is not None and new is not None and old[1].hash == new[1].hash and self.kept[0] is self.kept[1]


def _of_step(before: CorpusView, now: CorpusView, step: str, known: _Known) -> Iterator[Shift]:
    if before.nodes[step].kind != "map" or before.nodes[step].name == CORPUS:
        return
    sources = [source for source in before.nodes[step].sources if source in now.nodes[step].sources]
    rows = max(sum(one.part.rows for source in sources for one in view.documents[source]) for view in (before, now))
    every = -(-rows // MOST_ROWS) or 1
    pieces = [piece for source in sources for piece in _pieces(before, now, step, source, every, known)]
    if all(piece.is_same for piece in pieces):
        return
    columns = _numbers(pieces)
    values: tuple[list[pa.Table], list[pa.Table]] = ([], [])
    for piece in pieces if columns else ():
        last: tuple[str, pa.Table] | None = None
        for side, (layer, kept) in enumerate(zip(piece.layers, piece.kept, strict=True)):
            if layer is not None:
                if last is None or last[0] != layer[1].hash:
                    last = (layer[1].hash, PartReader(layer[0].store, layer[1]).read(columns))
                values[side].append(last[1].take(kept))
    if not values[0] or not values[1]:
        return
    tables = [pa.concat_tables(some) for some in values]
    for column in columns:
        old, new = (_sorted(table[column]) for table in tables)
        if len(old) and len(new):
            shift = Shift(
                f"{step}.{column}", _quartiles(old), _quartiles(new), distance(old, new), (len(old), len(new)), every
            )
            if shift.distance >= MOVED:
                yield shift


def _pieces(before: CorpusView, now: CorpusView, step: str, source: str, every: int, known: _Known) -> Iterator[_Piece]:
    for pair in shared_parts(before, now, source):
        layers: list[tuple[CorpusView, Part] | None] = []
        kept: list[pa.Array | None] = []
        for view, document in zip((before, now), pair, strict=True):
            at = None if document is None else (source, document.order)
            if at is None or at not in view.states[step].layers:
                layers.append(None)
                kept.append(None)
                continue
            assert document is not None
            corpus = view.states[f"{source}/{CORPUS}"].layers[at][0]
            if (corpus.hash, every) not in known:
                known[corpus.hash, every] = _kept_rows(view, document, corpus, every)
            kept.append(known[corpus.hash, every])
            layers.append((view, view.states[step].layers[at][0]))
        yield _Piece((layers[0], layers[1]), (kept[0], kept[1]))


def _kept_rows(view: CorpusView, document: DocumentPart, corpus: Part, every: int) -> pa.Array:
    """The kept rows among every k-th row of a part; the first row depends on its hash."""
    dropped = PartReader(view.store, corpus).read(["drop"])["drop"].is_valid()
    rows = np.arange(int(document.part.hash[:8], 16) % every, document.part.rows, every)
    return pa.array(rows[~dropped.to_numpy()[rows]])


def _numbers(pieces: Sequence[_Piece]) -> list[str]:
    """Numeric columns, without hashes, that both versions of the layer have."""
    schemas: dict[bool, dict[str, pa.DataType]] = {}
    for piece in pieces:
        for side, layer in enumerate(piece.layers):
            if layer is not None and bool(side) not in schemas:
                schema = PartReader(layer[0].store, layer[1]).schema
                schemas[bool(side)] = {item.name: item.type for item in schema}
    if len(schemas) < 2:
        return []
    return [name for name, kind in schemas[False].items() if _is_number(kind) and schemas[True].get(name) == kind]


def _is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_floating(kind) or (pa.types.is_integer(kind) and kind != pa.uint64()))


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
