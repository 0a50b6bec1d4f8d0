"""The live page: how far a run is, how fast it goes, what it drops, and what fails.

It reads the journal in the store (`engine/publish/journal.py`), so it works while a run goes on anywhere, and after it.
"""

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any, NamedTuple

from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.routing import Route

from gristmill.counted import counted
from gristmill.engine.publish.journal import FINISHED, KILLED, RUNNING, RunJournal, read_journals
from gristmill.stages import INGEST
from gristmill.store.store import Store
from gristmill_explore.app import PageGroup, is_fragment, render
from gristmill_explore.live.openmetrics import CONTENT_TYPE, metrics_text

LIVE, METRICS = "/live", "/metrics"
WIDTH, HEIGHT = 800, 120
PICTURES = (("bytes_per_s", "MB/s", 1e6), ("rows_per_s", "rows/s", 1.0))
"""What is drawn over time: the value, its unit, and how many make one."""
SILENT_S = 60
"""Seconds without a finished task after which the page says so."""


class Interval(NamedTuple):
    """The throughput in an interval of time."""

    begin_s: float
    end_s: float
    bytes_per_s: float
    rows_per_s: float
    tasks: int


class DroppedLine(NamedTuple):
    """Documents that a step dropped for a reason."""

    step: str
    reason: str
    so_far: int
    first: int
    """Those of them that have passed all steps, and that no earlier step dropped: the count of the funnel."""


class LivePages:
    """The page of a recipe's runs, and their metrics."""

    def __init__(self, store: Store, recipe: str) -> None:
        self._store, self._recipe = store, recipe

    def is_unfinished(self) -> bool:
        """Whether a run goes on, or the last one was stopped or killed."""
        journals = read_journals(self._store, self._recipe)
        return bool(journals) and journals[0].state != FINISHED

    def group(self, is_first: bool = False) -> PageGroup:
        """Its entry in the navigation. `is_first`: there are no other pages, so the address leads here."""
        routes = [Route(LIVE, self._show), Route(METRICS, self._show_metrics)]
        return PageGroup("Live", LIVE, [*routes, *([Route("/", _go_to_live)] if is_first else [])])

    def _show(self, request: Request) -> Response:
        journals = read_journals(self._store, self._recipe)
        is_part = is_fragment(request)
        template, paused = "_live.html" if is_part else "live.html", "pause" in request.query_params
        if not journals:
            return render(request, template, journal=None, paused=paused, intervals=[], is_part=is_part)
        record, now = journals[0].record, datetime.now(UTC)
        intervals = list(throughput(record))
        return render(
            request,
            template,
            journal=record,
            paused=paused,
            is_part=is_part,
            state=journals[0].state,
            sentence=state_sentence(journals[0], now),
            others=sum(journal.state == RUNNING for journal in journals[1:]),
            duration=duration,
            dropped=list(dropped_lines(record)),
            intervals=intervals,
            pictures=[_picture(intervals, *one) for one in PICTURES],
            running=[(one, duration(_between(one["begun"], now))) for one in record["running"]],
        )

    def _show_metrics(self, request: Request) -> Response:
        journals = read_journals(self._store, self._recipe)
        text = metrics_text(journals[0].record, journals[0].state) if journals else "# EOF\n"
        return PlainTextResponse(text, media_type=CONTENT_TYPE)


def _go_to_live(request: Request) -> Response:
    return RedirectResponse(LIVE, 303)


def state_sentence(journal: RunJournal, now: datetime) -> str:
    """What a person wants to know first: does it run, how far is it, does it move?"""
    record, stages = journal.record, journal.record["stages"].values()
    done, tasks = (sum(one[name] for one in stages) for name in ("done", "tasks"))
    kind = "known task" if any(one["more"] for one in stages) else "task"
    tasks_done = f"{done:,} of {counted(tasks, kind)} done"
    where = f"process {record['pid']} on {record['host']}"
    silent_s = _between(record["moved"], now)
    silence = f"No task has ended for {duration(silent_s)}"
    if journal.state == KILLED:
        return f"{silence}; {where} is gone. {tasks_done}. Run the recipe again: finished work is not repeated."
    if journal.state != RUNNING:
        took = duration(_between(record["started"], datetime.fromisoformat(record["written"])))
        if journal.state == FINISHED:
            return f"Finished after {took}: version {record['version']}. {tasks_done}."
        return f"Stopped after {took} ({where}). {tasks_done}. {record['error'] or 'Interrupted.'}"
    left = "" if record["seconds_left"] is None else f", about {duration(record['seconds_left'])} left"
    text = f"Running for {duration(_between(record['started'], now))} ({where}). {tasks_done}{left}."
    if not done and record["doing"]:
        text += f" Now: {record['doing']}."
    return f"{text} {silence}." if silent_s > SILENT_S else text


def duration(seconds: float) -> str:
    """`45 seconds`, `12 minutes`, `5.2 hours`."""
    seconds = max(0.0, seconds)
    if seconds < 120:
        return counted(round(seconds), "second")
    return counted(round(seconds / 60), "minute") if seconds < 7200 else f"{seconds / 3600:,.1f} hours"


def _between(begin: str, end: datetime) -> float:
    return (end - datetime.fromisoformat(begin)).total_seconds()


def throughput(record: Mapping[str, Any]) -> Iterator[Interval]:
    """The throughput of the run, by interval."""
    found = record["throughput"]
    width = found["interval_s"]
    for number, (bytes_in, rows, tasks) in enumerate(found["counts"]):
        yield Interval(number * width, (number + 1) * width, bytes_in / width, rows / width, tasks)


def _picture(intervals: list[Interval], name: str, unit: str, scale: float) -> dict[str, Any]:
    """Bars with their places, for the template."""
    values = [getattr(one, name) / scale for one in intervals]
    most = max(values, default=0) or 1
    step = WIDTH / max(1, len(values))
    bars = [
        {"x": number * step, "width": max(1.0, step - 1), "height": value / most * HEIGHT, "value": value, "at": one}
        for number, (value, one) in enumerate(zip(values, intervals, strict=True))
    ]
    return {"unit": unit, "most": most, "bars": bars, "width": WIDTH, "height": HEIGHT}


def dropped_lines(record: Mapping[str, Any]) -> Iterator[DroppedLine]:
    """What every step has dropped, in the order of the recipe, the most frequent reason first."""
    first: dict[tuple[str, str], int] = {}
    for source, funnel in record["funnel"].items():
        for step, reasons in funnel["first"].items():
            name = f"{source}/{INGEST}" if step == INGEST else step
            for reason, rows in reasons.items():
                first[name, reason] = first.get((name, reason), 0) + rows
    for name, stage in record["stages"].items():
        so_far = stage["dropped"]
        reasons = {*so_far, *(reason for step, reason in first if step == name)}
        for reason in sorted(reasons, key=lambda reason: (-so_far.get(reason, 0), reason)):
            yield DroppedLine(name, reason, so_far.get(reason, 0), first.get((name, reason), 0))
