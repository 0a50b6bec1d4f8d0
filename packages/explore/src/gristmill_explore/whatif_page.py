"""A slider on a threshold: which documents come and go, at once."""

import math
import threading
from typing import Any

import pyarrow as pa
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from gristmill.errors import UserError
from gristmill.query.removal.changes import number_settings, parse_changes, step_with
from gristmill.query.removal.whatif import Affected, Replay, StepEffect
from gristmill_explore.app import PageGroup, is_fragment, render
from gristmill_explore.explorer import Explorer, beginning
from gristmill_explore.filters import DocumentFilter
from gristmill_explore.histogram_page import HistogramPages, drawn

SHOWN = 8
"""Documents shown of those that come, and of those that go."""
EXCERPT = 160
WIDEST = 10
"""On a logarithmic scale, a slider ends at so many times the value of the recipe."""
STEPS = 400
"""Positions of a slider."""
ALL = 1 << 62
PLACES = pa.schema([("part", pa.int32()), ("row", pa.int32()), ("side", pa.string())])


class WhatIfPages:
    """The list of settings, a setting with its slider, and the effect of a value."""

    def __init__(self, explorer: Explorer) -> None:
        self._explorer = explorer
        self._settings = {} if explorer.what_if is None else number_settings(explorer.what_if[0])
        self._replay: tuple[str, Replay] | None = None
        self._lock = threading.Lock()  # one replay is in memory at a time

    def group(self) -> PageGroup:
        routes = [Route("/whatif", self.page), Route("/whatif/documents", self.documents)]
        return PageGroup("What if", "/whatif", routes)

    def page(self, request: Request) -> Response:
        """All settings; or one with its slider; for htmx, the effect of a value."""
        setting, given = (request.query_params.get(name, "") for name in ("setting", "value"))
        if setting == "":
            is_recipe = self._explorer.what_if is not None
            return render(request, "whatif.html", settings=self._settings, is_recipe=is_recipe)
        now = self._now(setting)
        value = _text(now) if given == "" else given
        effect = self._effect(setting, value, SHOWN)
        shown: dict[str, Any] = {"effect": effect, "come": self._rows(effect.come), "go": self._rows(effect.go)}
        shared: dict[str, Any] = {
            "setting": setting,
            "value": value,
            "now": _text(now),
            **self._entry(setting, value),
            **shown,
        }
        if is_fragment(request):
            return render(request, "_effect.html", **shared)
        return render(request, "slider.html", **shared, **self._slider(setting, now))

    def documents(self, request: Request) -> Response:
        """The list of all documents that come, or that go."""
        setting, value, side = (request.query_params.get(name, "") for name in ("setting", "value", "side"))
        self._now(setting)
        effect = self._effect(setting, value, ALL)
        index = self._explorer.index
        numbers = {document: number for number, document in enumerate(index.parts)}
        places = [
            {"part": numbers[document], "row": row, "side": name}
            for name, affected in (("come", effect.come), ("go", effect.go))
            for document, row in affected.samples
        ]
        given = pa.Table.from_pylist(places, PLACES)
        index.replace("affected", "select number, side from given join documents using (part, row)", given)
        return RedirectResponse(f"/?{DocumentFilter(side=side).address()}", 303)

    def _now(self, setting: str) -> float:
        if setting not in self._settings:
            raise UserError(f"{setting} is not a number that can be moved. Choose one from the list of settings.")
        return self._settings[setting]

    def _entry(self, setting: str, value: str) -> dict[str, Any]:
        """The whole step as the recipe has it, with the other value, and where it is."""
        assert self._explorer.what_if is not None
        entry, line = step_with(self._explorer.what_if[0], setting, value)
        return {"yaml": entry, "step_id": setting.partition(".")[0], "line": line}

    def _effect(self, setting: str, value: str, most_samples: int) -> StepEffect:
        assert self._explorer.what_if is not None
        mill, run = self._explorer.what_if
        (change,) = parse_changes(mill, [f"{setting}={value}"])
        with self._lock:
            if self._replay is None or self._replay[0] != setting:
                self._replay = None  # before the next one needs its memory
                self._replay = (setting, Replay(mill, run, change))
            return self._replay[1].effect(change, most_samples)

    def _rows(self, affected: Affected) -> list[tuple[int | None, dict[str, str], str]]:
        """Documents with their numbers in the index and the beginnings of their texts."""
        index = self._explorer.index
        numbers = {document: number for number, document in enumerate(index.parts)}
        found = []
        for place, row in zip(affected.samples, self._explorer.texts(affected.samples), strict=True):
            at = index.ask("select number from documents where part = ? and row = ?", [numbers[place[0]], place[1]])
            found.append((at[0][0] if at else None, row, beginning(row["text"], EXCERPT)))
        return found

    def _slider(self, setting: str, now: float) -> dict[str, Any]:
        """The range of the slider: that of the values in the corpus, where a histogram has them."""
        matching = (
            one
            for one in self._explorer.index.measures.values()
            for limit, name in one.thresholds.items()
            if limit == now and setting.endswith(f".{name}")
        )
        measure = next(matching, None)
        wanted = DocumentFilter(score="" if measure is None else measure.title, through=setting.partition(".")[0])
        histogram = None if measure is None else HistogramPages(self._explorer).counted(measure, wanted)
        low, high = (0.0, 1.0) if isinstance(now, float) and 0 <= now <= 1 else (min(0.0, 4 * now), max(4 * now, 10.0))
        if histogram is not None:
            low, high = float(histogram.edges[0]), float(histogram.edges[-1])
            high = min(high, WIDEST * now) if histogram.is_log and now > 0 else high
        step = 1.0 if isinstance(now, int) else float(f"{(high - low) / STEPS:.1g}") or 0.01
        low, high = math.floor(low / step) * step, math.ceil(high / step) * step
        outside = 0 if histogram is None else histogram.outside
        picture = {**drawn(histogram, wanted), "measure": measure, "outside": outside, "wanted": wanted}
        return {"low": _text(low), "high": _text(high), "step": _text(step), **picture}


def _text(value: float) -> str:
    return str(value) if isinstance(value, int) else f"{value:.12g}"
