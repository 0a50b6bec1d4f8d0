"""How numbers, tables and progress look: bars on a terminal, plain lines in a log."""

import time
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from gristmill.cli.screen import Screen, log, words
from gristmill.engine.graph import Node
from gristmill.engine.task import Result, Task
from gristmill.printable import one_line

LOG_EVERY_S = 5.0
"""Seconds between progress lines in a log."""


def console(stderr: bool = False) -> Screen:
    """Where a command shows its answer, or says something beside it."""
    return Screen(stderr)


def size(count: float) -> str:
    for unit in ("B", "KB", "MB", "GB"):
        if abs(count) < 1000:
            return f"{count:.0f} {unit}" if unit == "B" or count >= 100 else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:.1f} TB"


def value_text(value: Any) -> str:
    """A value of a column in a few characters: bytes are hexadecimal, a list is its items."""
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, datetime):
        return value.isoformat(sep=" ", timespec="seconds")
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, Mapping):
        return ", ".join(f"{name}: {value_text(inner)}" for name, inner in value.items())
    if isinstance(value, list | tuple):
        return ", ".join(map(value_text, value)) or "none"
    return str(value)


def table(columns: Sequence[str], rows: Sequence[Sequence[str | Text]], left: int = 1) -> Table:
    """A plain table: the first `left` columns are words, the others numbers."""
    made = Table(box=None, pad_edge=False, header_style="bold")
    for index, column in enumerate(columns):
        made.add_column(words(column), justify="left" if index < left else "right", overflow="fold")
    for row in rows:
        made.add_row(*map(words, row))
    return made


def funnel_table(funnels: Mapping[str, Any]) -> Table:
    """For each source: what came in, what each step took and why, what is left."""
    rows = []
    for source, funnel in funnels.items():
        read, kept = funnel["read"], funnel["kept"]
        rows.append((source, "read", "", f"{read['rows']:,}", "100.0%", size(read["bytes"])))
        for step, reasons in funnel["first"].items():
            for reason, count in sorted(reasons.items(), key=lambda item: -item[1]["rows"]):
                share = f"{-100 * count['rows'] / read['rows']:.1f}%"
                rows.append(
                    (
                        "",
                        step,
                        reason,
                        f"-{count['rows']:,}",
                        share,
                        f"-{size(count['bytes'])}" if count["bytes"] else "",
                    )
                )
        share = f"{100 * kept['rows'] / read['rows']:.1f}%" if read["rows"] else ""
        rows.append(("", "kept", "", f"{kept['rows']:,}", share, size(kept["text_bytes"])))
    return table(("source", "step", "reason", "documents", "share", "bytes"), rows, left=3)


class Bars:
    """Progress of a run: a bar for each stage on a terminal, a line every few seconds elsewhere."""

    def __init__(self, quiet: bool = False) -> None:
        self.notes: list[str] = []
        self._console = Screen(stderr=True)
        self._quiet = quiet
        self._live = self._console.is_terminal and not quiet
        self._progress = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=30),
            MofNCompleteColumn(),
            TextColumn("{task.fields[rate]}", markup=False),
            TimeRemainingColumn(compact=True),
            console=self._console,
            transient=True,
            redirect_stdout=False,  # what others print is guarded as it is, and rich would obey its colours
            redirect_stderr=False,
        )
        self._bars: dict[str, Any] = {}
        self._counts: dict[str, list[float]] = {}
        self._started = time.monotonic()
        self._said = self._started

    def __enter__(self) -> "Bars":
        if self._live:
            self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._live:
            self._progress.stop()

    def expect(self, node: Node, tasks: int) -> None:
        counts = self._counts.setdefault(node.id, [0, 0, 0, 0])
        counts[0] += tasks
        if self._live:
            if node.id not in self._bars:
                self._bars[node.id] = self._progress.add_task(one_line(node.id), total=0, rate="")
            self._progress.update(self._bars[node.id], total=counts[0])

    def done(self, node: Node, task: Task, result: Result, cached: bool) -> None:
        counts = self._counts[node.id]
        counts[1] += 1
        counts[2] += 0 if cached else result.metrics.get("bytes_in", 0)
        counts[3] += 0 if cached else result.cost.get("wall_s", 0)
        if self._live:
            rate = f"{size(counts[2] / counts[3])}/s a worker" if counts[3] else "cached"
            self._progress.update(self._bars[node.id], completed=counts[1], rate=rate)
        elif not self._quiet and time.monotonic() - self._said > LOG_EVERY_S:
            self._said = time.monotonic()
            self._say(", ".join(f"{name} {c[1]:.0f}/{c[0]:.0f}" for name, c in self._counts.items()))

    def note(self, message: str) -> None:
        self.notes.append(message)
        self._say(message)

    def _say(self, message: str) -> None:
        if self._live:
            self._progress.console.print(message)
        else:
            log(f"[{time.monotonic() - self._started:6.1f}s] {message}")
