"""How numbers, tables and progress look: bars on a terminal, plain lines in a log."""

import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from statistics import median
from typing import Any, TypeVar

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from gristmill.cli.screen import Screen, log, words
from gristmill.engine.graph import Node
from gristmill.engine.task import Result, Task
from gristmill.printable import one_line

T = TypeVar("T")

LOG_EVERY_S = 5.0
"""Seconds between progress lines in a log."""
LOG_CHARS = 180
"""Characters of such a line, about: what does not fit is counted."""
SILENCE_S = 30.0
"""Seconds after which a log says that nothing has changed."""


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


@dataclass
class Stage:
    """How far one stage has come."""

    expected: int = 0
    """Tasks that are known so far."""
    done: int = 0
    cached: int = 0
    bytes_in: float = 0
    seconds: float = 0
    """Of its workers together, without compiling."""
    told: tuple[int, int] = (0, 0)
    """Tasks that were done, and of them cached, when a log last spoke of it."""
    bar: TaskID | None = None

    @property
    def is_running(self) -> bool:
        return 0 < self.done < self.expected

    @property
    def left(self) -> int:
        return self.expected - self.done

    @property
    def worked(self) -> int:
        """Tasks that were carried out."""
        return self.done - self.cached

    @property
    def rate(self) -> str:
        if self.seconds:
            return f"{size(self.bytes_in / self.seconds)}/s a worker"
        return "cached" if self.cached else ""


class Bars:
    """Progress of a run: on a terminal a bar for all of it and one for each stage under way, in a log what changed."""

    def __init__(self, quiet: bool = False) -> None:
        self.notes: list[str] = []
        self.stages: dict[str, Stage] = {}
        self._console = Screen(stderr=True)
        self._quiet = quiet
        self._live = self._console.is_terminal and not quiet
        self._progress = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=30),
            MofNCompleteColumn(),
            TextColumn("{task.fields[told]}", markup=False),
            TimeElapsedColumn(),
            console=self._console,
            transient=True,
            redirect_stdout=False,  # what others print is guarded as it is, and rich would obey its colours
            redirect_stderr=False,
        )
        self._all = self._progress.add_task("all", total=0, told="")
        self._started = time.monotonic()
        self._said = self._started
        self._over = threading.Event()
        self._lock = threading.RLock()
        """Of all that is counted: a thread looks at it too."""
        self._worked_since: float | None = None
        """When the first task began that was carried out."""
        self._busy_s = 0.0
        """Of all workers, with compiling."""
        self._compiled = False

    def __enter__(self) -> "Bars":
        if self._live:
            self._progress.start()
        elif not self._quiet:
            threading.Thread(target=self._break_silence, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        if self._live:
            self._progress.stop()

    def _break_silence(self) -> None:
        """One long task, or many waiting for one, must not look like a program that hangs."""
        while not self._over.wait(LOG_EVERY_S):
            with self._lock:
                silent_s = time.monotonic() - self._said
                moved = any(stage.told[0] < stage.done for stage in self.stages.values())
                if moved and silent_s >= LOG_EVERY_S:
                    self._said = time.monotonic()
                    self._say(self.line())
                elif silent_s >= SILENCE_S:
                    self._said = time.monotonic()
                    self._say(f"{self.line()}; at work, nothing finished meanwhile")

    def expect(self, node: Node, tasks: int) -> None:
        self.promise(node.id, tasks)
        if self._live:
            self._draw(node.id, self.stages[node.id])

    def done(self, node: Node, task: Task, result: Result, cached: bool) -> None:
        with self._lock:
            stage = self.stages[node.id]
            stage.done += 1
            stage.cached += cached
            if not cached:
                took, compiled = result.cost.get("wall_s", 0), result.cost.get("compile_s", 0)
                stage.bytes_in += result.metrics.get("bytes_in", 0)
                self._compiled = self._compiled or compiled > 0
                self._worked(stage, took, took - compiled)
            self._moved(node.id, stage)

    def track(self, name: str, items: Iterable[T], total: int) -> Iterator[T]:
        """The items, with progress for a command that runs no tasks: one item is one of `total`."""
        self.promise(name, total)
        yield from self.walk(name, items)

    def promise(self, name: str, total: int) -> None:
        """Say how many items there will be to walk through, so that what is left is known from the start."""
        with self._lock:
            self.stages.setdefault(name, Stage()).expected += total

    def walk(self, name: str, items: Iterable[T]) -> Iterator[T]:
        """Items that were promised, each of them done when the next one is asked for."""
        stage = self.stages[name]
        for item in items:
            begun = time.monotonic()
            yield item
            took = time.monotonic() - begun
            with self._lock:
                stage.done += 1
                self._worked(stage, took, took)
                self._moved(name, stage)

    def _worked(self, stage: Stage, took_s: float, worked_s: float) -> None:
        stage.seconds += worked_s
        self._busy_s += took_s
        if self._worked_since is None:
            self._worked_since = time.monotonic() - took_s

    def _moved(self, name: str, stage: Stage) -> None:
        if self._live:
            self._draw(name, stage)
        elif not self._quiet and time.monotonic() - self._said >= LOG_EVERY_S:
            self._said = time.monotonic()
            self._say(self.line())

    def note(self, message: str) -> None:
        self.notes.append(message)
        self._say(message)

    def summary(self) -> str:
        """`12 of 30 stages done, about 1:20 left`: what is known so far; stages that follow may bring more tasks."""
        stages = f"{sum(one.done == one.expected for one in self.stages.values())} of {len(self.stages)} stages done"
        if self._compiled and any(stage.left and not stage.done for stage in self.stages.values()):
            return f"{stages}, time left not known"  # a stage that has not begun may have kernels to compile
        left = self._seconds_left()
        return stages if left is None else f"{stages}, about {left // 60}:{left % 60:02} left"

    def _seconds_left(self) -> int | None:
        """From what a task of each stage takes: those of other stages say little, and those that were cached nothing.

        A stage whose tasks were all cached so far is taken to go on like that; one that has not begun is like the rest.
        """
        if self._worked_since is None or not any(stage.left for stage in self.stages.values()):
            return None
        usual = median(stage.seconds / stage.worked for stage in self.stages.values() if stage.worked)
        left = 0.0
        for stage in self.stages.values():
            each = stage.seconds / stage.worked if stage.worked else 0.0 if stage.done else usual
            left += each * stage.left
        at_once = max(1.0, self._busy_s / max(time.monotonic() - self._worked_since, 1e-9))
        return round(left / at_once)

    def line(self) -> str:
        """For a log: all of it, then what was worked at since the last line, and by how much, as far as a line goes."""
        done, left = self._counts()
        moved, found = [], 0
        for name, stage in self.stages.items():
            cached = stage.cached - stage.told[1]
            worked = stage.done - stage.told[0] - cached
            found += cached
            stage.told = stage.done, stage.cached
            if worked:
                moved.append(f"{one_line(name)} {stage.done}/{stage.expected} (+{worked})")
        line = f"{done} of {done + left} tasks, {self.summary()}" + (f"; {found} found in the store" if found else "")
        for number, one in enumerate(moved):
            if len(line) + len(one) > LOG_CHARS:
                return f"{line}, and {len(moved) - number} more"
            line += f"{', ' if number else '; '}{one}"
        return line

    def _counts(self) -> tuple[int, int]:
        """Tasks done, tasks left."""
        stages = self.stages.values()
        return sum(stage.done for stage in stages), sum(stage.left for stage in stages)

    def _draw(self, name: str, stage: Stage) -> None:
        """Finished stages are folded into the first line."""
        done, left = self._counts()
        self._progress.update(self._all, completed=done, total=done + left, told=self.summary())
        if stage.bar is None:
            stage.bar = self._progress.add_task(one_line(name), total=0, told="", visible=False)
        self._progress.update(
            stage.bar, completed=stage.done, total=stage.expected, told=stage.rate, visible=stage.is_running
        )

    def _say(self, message: str) -> None:
        if self._live:
            self._progress.console.print(message)
        else:
            log(f"[{time.monotonic() - self._started:6.1f}s] {message}")
