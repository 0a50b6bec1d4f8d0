"""What a report is made of: a version with its values, and its sections, each with a chart and a table."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gristmill.engine.schedule.corpus_view import CorpusView
from gristmill.query.documents.histograms import draw, find_measures
from gristmill.query.removal.funnel import funnels, languages
from gristmill.report import charts

MOST_BARS = 16
"""Bars of a chart; its table has all rows."""


@dataclass(frozen=True)
class Facet:
    """One of the small charts of a section."""

    caption: str
    ticks: Sequence[str]
    """The numbers at the left end, in the middle and at the right end of its axis."""
    bins: Sequence[tuple[str, ...]]
    """Its numbers: from, to, and the documents in it."""


@dataclass(frozen=True)
class Section:
    title: str
    text: str
    head: tuple[str, ...]
    rows: Sequence[tuple[str, ...]]
    chart: charts.Spec | None = None
    facets: Sequence[Facet] = ()
    """If the chart consists of small charts."""
    word_columns: int = 1
    """How many of the first columns hold words; the others hold numbers."""
    key_columns: int | None = None
    """How many of the first columns identify a row; None: those that hold words."""


class ReportedCorpus:
    """A version with the values that its charts need."""

    def __init__(self, view: CorpusView) -> None:
        self.view = view
        self.funnels, self.languages = funnels(view), languages(view)
        self.measures = find_measures(view, every_number=True)
        self.drawn = draw(view, self.measures)

    def metrics(self, name: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
        """The metrics of every step of this name that has run."""
        for node in self.view.named(name):
            if metrics := self.view.states[node.id].metrics:
                yield node.id, metrics

    @property
    def totals(self) -> dict[tuple[str, str], int]:
        """Documents read and kept, bytes of text kept, and tokens in the shards; each by its name, for one and many."""
        found = self.funnels.values()
        return {
            ("document read", "documents read"): sum(one["read"]["rows"] for one in found),
            ("document kept", "documents kept"): sum(one["kept"]["rows"] for one in found),
            ("of text kept", "of text kept"): self.kept_bytes,
            ("token", "tokens"): self.tokens,
        }

    @property
    def kept_bytes(self) -> int:
        return sum(one["kept"]["text_bytes"] for one in self.funnels.values())

    @property
    def tokens(self) -> int:
        """Tokens in the shards."""
        return sum(metrics.get("tokens", 0) for _, metrics in self.metrics("shards"))


def first_bars(rows: Collection[Any]) -> str:
    return f" The chart shows the first {MOST_BARS} of {len(rows):,}." if len(rows) > MOST_BARS else ""
