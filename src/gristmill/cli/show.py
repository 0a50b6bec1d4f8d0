"""How numbers, tables and progress look: bars on a terminal, plain lines in a log."""

import sys
import time
from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from gristmill.engine.graph import Node
from gristmill.engine.task import Result, Task

LOG_EVERY_S = 5.0
"""Seconds between progress lines in a log."""


def console(stderr: bool = False) -> Console:
    """Output that a pipe gets at full width: a table cut to 80 columns is of no use in a log."""
    made = Console(stderr=stderr, highlight=False, soft_wrap=False)
    if not made.is_terminal:
        made.width = 160
    return made


def size(count: float) -> str:
    for unit in ("B", "KB", "MB", "GB"):
        if abs(count) < 1000:
            return f"{count:.0f} {unit}" if unit == "B" or count >= 100 else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:.1f} TB"


def table(columns: Sequence[str], rows: Sequence[Sequence[str]], left: int = 1) -> Table:
    """A plain table: the first `left` columns are words, the others numbers."""
    made = Table(box=None, pad_edge=False, header_style="bold")
    for index, column in enumerate(columns):
        made.add_column(column, justify="left" if index < left else "right", overflow="fold")
    for row in rows:
        made.add_row(*row)
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
        self._console = console(stderr=True)
        self._quiet = quiet
        self._live = self._console.is_terminal and not quiet
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=30),
            MofNCompleteColumn(),
            TextColumn("{task.fields[rate]}"),
            TimeRemainingColumn(compact=True),
            console=self._console,
            transient=True,
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
                self._bars[node.id] = self._progress.add_task(node.id, total=0, rate="")
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
            self._progress.console.print(message, markup=False)
        else:
            print(f"[{time.monotonic() - self._started:6.1f}s] {message}", file=sys.stderr, flush=True)
