"""Histograms of scores: each bar leads to its documents."""

from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from starlette.requests import Request
from starlette.responses import Response

from gristmill.query.documents.histograms import KEPT, REMOVED, DrawnValues, Histogram, Measure, count
from gristmill_explore.app import is_fragment, render
from gristmill_explore.explorer import Explorer
from gristmill_explore.filters import DocumentFilter

WIDTH, HEIGHT = 800, 220


class Bar(NamedTuple):
    """A bin: kept documents below, removed ones on top."""

    low: float
    high: float
    kept: int
    removed: int
    x: float
    """The left edge in the picture."""
    width: float
    kept_height: float
    removed_height: float
    address: str
    """The list of its documents."""


class HistogramPages:
    """The page of histograms."""

    def __init__(self, explorer: Explorer) -> None:
        self._explorer = explorer

    def histogram(self, request: Request) -> Response:
        """The histogram of one score, of the documents that match a filter."""
        explorer = self._explorer
        wanted = DocumentFilter.of(request.query_params)
        if not wanted.score:
            wanted = DocumentFilter.of({**request.query_params, "score": next(iter(explorer.index.measures))})
        measure = explorer.index.measures.get(wanted.score)
        histogram = None if measure is None else self.counted(measure, wanted)
        return render(
            request,
            "_histogram.html" if is_fragment(request) else "histograms.html",
            wanted=wanted,
            facets=explorer.facets(),
            index=explorer.index,
            measure=measure,
            outside=0 if histogram is None else histogram.outside,
            **drawn(histogram, wanted),
        )

    def counted(self, measure: Measure, wanted: DocumentFilter) -> Histogram | None:
        """The histogram of the documents that match a filter; its range of the score is left out."""
        index = self._explorer.index
        condition, values = wanted.without("score", "low", "high").condition(index)
        scores = index.scores(measure.title)
        found = index.arrays(
            f"select value, reason is null as kept from documents join {scores} using (number) "
            f"where hidden is null and {condition}",
            values,
        )
        return count(measure, DrawnValues({measure.title: found["value"]}, found["kept"].astype(bool), [], [], [], 1))


def drawn(histogram: Histogram | None, wanted: DocumentFilter) -> dict[str, Any]:
    """Bars and thresholds, with their places in the picture."""
    if histogram is None:
        return {"bars": [], "limits": [], "width": WIDTH, "height": HEIGHT, "highest": 0}
    edges, title = histogram.edges, histogram.measure.title
    kept, removed = (histogram.counts[name] for name in (KEPT, REMOVED))
    highest = int((kept + removed).max())
    scale = HEIGHT / max(1, highest)
    width = WIDTH / (len(edges) - 1)
    last = len(edges) - 2
    bars = []
    for n, (low, high) in enumerate(pairwise(edges.tolist())):
        most = high if n == last else float(np.nextafter(high, -np.inf))  # a bin does not have its upper edge
        heights = (float(kept[n] * scale), float(removed[n] * scale))
        address = wanted.without("text").address(score=title, low=repr(low), high=repr(most))
        bars.append(Bar(low, high, int(kept[n]), int(removed[n]), n * width, max(width - 1, 1), *heights, address))
    scaled = np.log1p if histogram.is_log else np.asarray
    places = np.linspace(0, WIDTH, len(edges))
    limits = [
        (name, limit, float(np.interp(scaled(limit), scaled(edges), places)))
        for limit, name in histogram.measure.thresholds.items()
    ]
    return {"bars": bars, "limits": limits, "width": WIDTH, "height": HEIGHT, "highest": highest}
