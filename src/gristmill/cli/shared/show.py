"""How numbers, tables and progress look: bars on a terminal, plain lines in a log."""

import threading
import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from gristmill.cli.shared.screen import HANDLER, Screen, log, log_shown, words
from gristmill.counted import counted
from gristmill.counted import size as size
from gristmill.counted import value_text as value_text
from gristmill.engine.schedule.progress import RunProgress, StageProgress, says_enough
from gristmill.log import INFO, Log
from gristmill.printable import one_line
from gristmill.recipe.checks.mistakes import listed

if TYPE_CHECKING:
    from gristmill.engine.plan.graph import Node
    from gristmill.engine.work.task import Result, Task

T = TypeVar("T")
_LOG = Log("run")

LEAST_WIDTH, LEAST_WORDS = 80, 12
"""The narrowest usual screen, and the cells that the widest column of words needs on it."""
LOG_EVERY_S = 5.0
"""Seconds between progress lines in a log."""
LOG_CHARS = 170
"""About how long such a line may be; stages that do not fit are counted."""
FIRST_S = 2.0
"""Seconds after which a log says what happens before the first task."""
SILENCE_S = 30.0
"""Seconds after which a log says that nothing has changed."""


def console(stderr: bool = False) -> Screen:
    """The console for a command's answer, or for its remarks (`stderr`)."""
    return Screen(stderr)


def listed_steps(ids: Iterable[str], sources: Collection[str]) -> str:
    """Steps by their ids. A step that several sources have is named once."""
    found: dict[str, list[str]] = {}
    for step in ids:
        route, _, name = step.partition("/")
        found.setdefault(name if route in sources else step, []).append(step)
    named = (f"{name} of {counted(len(steps), 'source')}" if steps[1:] else steps[0] for name, steps in found.items())
    return listed(named, 10)


def table(columns: Sequence[str], rows: Sequence[Sequence[str | Text]], left: int = 1) -> Table:
    """A plain table. The first `left` columns are words, the others numbers. On a narrow screen the widest column of
    words is broken, and others only if they leave it no room.
    """
    cells = [[words(cell) for cell in column] for column in zip(columns, *rows, strict=True)]
    widths = [max(cell.cell_len for cell in column) for column in cells]
    widest = max(range(left), key=widths.__getitem__, default=-1)
    has_room = sum(widths) - widths[widest] + 2 * len(widths) <= LEAST_WIDTH - LEAST_WORDS
    shown = Table(box=None, pad_edge=False, header_style="bold")
    for index, column in enumerate(cells):
        is_whole = index >= left or (has_room and index != widest)
        shown.add_column(column[0], justify="left" if index < left else "right", overflow="fold", no_wrap=is_whole)
    for row in zip(*(column[1:] for column in cells), strict=True):
        shown.add_row(*row)
    return shown


class Bars(RunProgress):
    """Progress of a run: on a terminal, one bar in all and one per running stage; in a log, what changed."""

    def __init__(self, quiet: bool = False) -> None:
        super().__init__()
        self.notes: list[str] = []
        self._console = Screen(stderr=True)
        self._quiet = quiet
        self._live = self._console.is_terminal and not quiet
        self._progress = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=30),
            MofNCompleteColumn(),
            TextColumn("{task.fields[status]}", markup=False),
            TimeElapsedColumn(),
            console=self._console,
            transient=True,
            redirect_stdout=False,  # text that others print is guarded already, and rich would obey its colours
            redirect_stderr=False,
        )
        self._all = self._progress.add_task("all", total=0, status="")
        self._started = time.monotonic()
        self._said = self._started
        self._over = threading.Event()
        self._bars: dict[str, TaskID] = {}
        self._logged: dict[str, tuple[int, int]] = {}
        """Finished and cached tasks of each stage when the last log line was written."""
        self._doing = "starting"
        """What happens before the first task is done."""

    def __enter__(self) -> "Bars":
        self._log = log_shown()
        self._log.__enter__()
        HANDLER.show = self._show
        if self._live:
            self._progress.start()
        elif not self._quiet:
            threading.Thread(target=self._break_silence, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        if self._live:
            self._progress.stop()
        HANDLER.show = None
        self._log.__exit__(None, None, None)

    def _break_silence(self) -> None:
        """Log a line now and then, so that one long task does not look like a hang."""
        wait_s, last = FIRST_S, ""
        while not self._over.wait(wait_s):
            wait_s = LOG_EVERY_S
            with self._lock:
                silent_s = time.monotonic() - self._said
                moved = any(self._logged.get(name, (0, 0))[0] < stage.done for name, stage in self.stages.items())
                if moved and silent_s >= LOG_EVERY_S:
                    self._said = time.monotonic()
                    self._say(self.line())
                elif last != self._doing and not self._counts()[0]:
                    self._said, last = time.monotonic(), self._doing
                    self._say(last)
                elif silent_s >= SILENCE_S:
                    self._said = time.monotonic()
                    self._say(f"{self.line()}; still working, no task finished since the last line")

    def begin(self, nodes: Iterable["Node"], before: Mapping[str, Mapping[str, Any]]) -> None:
        with self._lock:
            for bar in self._bars.values():
                self._progress.remove_task(bar)
            self._bars.clear()
            self._logged.clear()
            super().begin(nodes, before)

    def doing(self, what: str) -> None:
        self._doing = what
        self._progress.update(self._all, status=what)

    def expect(self, node: "Node", tasks: int) -> None:
        super().expect(node, tasks)
        if not self._counts()[0]:
            self.doing(f"{one_line(node.id)}: {counted(tasks, 'task')} begun, none done yet")
        if self._live:
            self._draw(node.id, self.stages[node.id])

    def done(self, node: "Node", task: "Task", result: "Result", cached: bool) -> None:
        with self._lock:
            super().done(node, task, result, cached)
            self._moved(node.id, self.stages[node.id])

    def found(self, node: "Node", tasks: int, cost: Mapping[str, float]) -> None:
        with self._lock:
            super().found(node, tasks, cost)
            self._moved(node.id, self.stages[node.id])

    def track(self, name: str, items: Iterable[T], total: int) -> Iterator[T]:
        """The items, with progress, for a command that runs no tasks."""
        self.promise(name, total)
        yield from self.walk(name, items)

    def walk(self, name: str, items: Iterable[T]) -> Iterator[T]:
        """Promised items. Each is done when the next one is requested.

        The very first is not timed: it may have waited for workers to start or for code to be compiled.
        """
        stage = self.stages[name]
        for item in items:
            begun = time.monotonic()
            yield item
            took = time.monotonic() - begun
            with self._lock:
                stage.done += 1
                if self._counts()[0] > 1:
                    self._worked(stage, took, took)
                    self._compare()
                self._moved(name, stage)

    def _compare(self) -> None:
        """Estimate unstarted items of any name by the finished ones, since all items are alike."""
        stages = self.stages.values()
        timed, seconds = sum(stage.timed for stage in stages), sum(stage.cost_s for stage in stages)
        enough = says_enough(timed, sum(stage.expected for stage in stages))
        for stage in stages:
            stage.before = (timed, seconds) if enough else (0, 0.0)

    def _moved(self, name: str, stage: StageProgress) -> None:
        if self._live:
            self._draw(name, stage)
        elif not self._quiet and time.monotonic() - self._said >= LOG_EVERY_S:
            self._said = time.monotonic()
            self._say(self.line())

    def note(self, message: str, level: int = INFO, /) -> None:
        self.notes.append(message)
        _LOG(message, level)

    def summary(self) -> str:
        """`12 of 30 stages done, about 1:20 left`. No time is shown while a stage has no estimate."""
        stages = f"{sum(one.is_done for one in self.stages.values()):,} of {counted(len(self.stages), 'stage')} done"
        if self.seconds_left is None:
            return stages
        left = round(self.seconds_left)
        return f"{stages}, about {left // 60}:{left % 60:02} left"

    def line(self) -> str:
        """A log line: overall progress, then the stages that moved since the last line, as many as fit."""
        done, total = self._counts()
        moved, found = [], 0
        for name, stage in self.stages.items():
            done_then, cached_then = self._logged.get(name, (0, 0))
            cached = stage.cached - cached_then
            worked = stage.done - done_then - cached
            found += cached
            self._logged[name] = stage.done, stage.cached
            if worked:
                moved.append(f"{one_line(name)} {stage.done:,}/{stage.expected:,} ({worked:,} new)")
        tasks = f"{counted(done, 'task')} done" if total is None else f"{done:,} of {counted(total, 'task')}"
        line = f"{tasks}, {self.summary()}"
        line += f"; {found:,} found in the store" if found else ""
        for number, one in enumerate(moved):
            if len(line) + len(one) > LOG_CHARS:
                return f"{line}, and {len(moved) - number} more"
            line += f"{', ' if number else '; '}{one}"
        return line

    def _counts(self) -> tuple[int, int | None]:
        """Tasks done, and tasks in all; None while some stage does not know its tasks."""
        stages = self.stages.values()
        done, to_come = sum(stage.done for stage in stages), [stage.tasks_to_come for stage in stages]
        return done, None if None in to_come else done + sum(filter(None, to_come))

    def _draw(self, name: str, stage: StageProgress) -> None:
        """Finished stages are folded into the first line, which counts stages while the number of tasks is unknown."""
        done, total = self._counts()
        if total is None:
            done, total = sum(one.is_done for one in self.stages.values()), len(self.stages)
        self._progress.update(self._all, completed=done, total=total, status=self.summary())
        if name not in self._bars:
            self._bars[name] = self._progress.add_task(one_line(name), total=0, status="", visible=False)
        bar, visible = self._bars[name], stage.is_running
        self._progress.update(bar, completed=stage.done, total=stage.expected, status=stage.rate, visible=visible)

    def _say(self, message: str) -> None:
        done, total = self._counts()
        _LOG(message, tasks_done=done, tasks=total, seconds=round(time.monotonic() - self._started, 1))

    def _show(self, message: str) -> None:
        if self._live:
            self._progress.console.print(message)
        else:
            log(f"[{time.monotonic() - self._started:6.1f}s] {message}")
