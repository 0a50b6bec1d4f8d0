"""How numbers, tables and progress look: bars on a terminal, plain lines in a log."""

import threading
import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn
from rich.text import Text

from gristmill.cli.shared.fitted_table import FittedTable
from gristmill.cli.shared.screen import HANDLER, Screen, log, log_shown, words
from gristmill.counted import counted
from gristmill.counted import size as size
from gristmill.counted import value_text as value_text
from gristmill.log import INFO, Log
from gristmill.printable import one_line
from gristmill.recipe.checks.mistakes import listed

if TYPE_CHECKING:
    from gristmill.engine.plan.graph import Node
    from gristmill.engine.work.task import Result, Task

T = TypeVar("T")
_LOG = Log("run")

LOG_EVERY_S = 5.0
"""Seconds between progress lines in a log."""
LOG_CHARS = 170
"""About how long such a line may be; stages that do not fit are counted."""
FEW_TASKS, FEW_SHARE = 5, 0.02
"""With fewer finished tasks than this, or a smaller share, a stage's time is not estimated from them."""
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


def table(
    columns: Sequence[str], rows: Sequence[Sequence[str | Text]], left: int = 1, spare: Sequence[str] = ()
) -> FittedTable:
    """A plain table. The first `left` columns are words, the others numbers; `spare` ones may be left out."""
    fitted = FittedTable(spare)
    for index, column in enumerate(columns):
        fitted.add_column(words(column), justify="left" if index < left else "right")
    for row in rows:
        fitted.add_row(*map(words, row))
    return fitted


@dataclass
class StageProgress:
    """The progress of one stage."""

    expected: int = 0
    """Known tasks."""
    done: int = 0
    cached: int = 0
    bytes_in: float = 0
    seconds: float = 0
    """Worker seconds, without compiling."""
    cost_s: float = 0
    """Worker seconds of all timed tasks; a cached task counts with its original time."""
    timed: int = 0
    """Finished tasks, without one that waited for workers to start."""
    more: bool = False
    """Whether there may be tasks that are not known yet."""
    before: tuple[int, float] = (0, 0.0)
    """Tasks of an earlier run and their seconds; for a command without tasks, those of earlier stages."""
    logged: tuple[int, int] = (0, 0)
    """Finished and cached tasks when the last log line was written."""
    bar: TaskID | None = None

    @property
    def is_running(self) -> bool:
        return 0 < self.done < self.expected

    @property
    def is_done(self) -> bool:
        return self.done == self.expected and not self.more

    @property
    def left(self) -> int:
        return self.expected - self.done

    @property
    def tasks_to_come(self) -> int | None:
        """Open tasks that are known, or that an earlier run had; None while neither is known."""
        if self.more and not self.before[0]:
            return None
        return max(self.left, self.before[0] - self.done if self.more else 0)

    @property
    def seconds_left(self) -> float | None:
        """Worker seconds, estimated from the tasks of this run or of an earlier one; None without an estimate."""
        to_come = self.tasks_to_come
        if not to_come:
            return to_come
        tasks, seconds = (self.timed, self.cost_s) if _says_enough(self.timed, self.expected) else self.before
        return to_come * seconds / tasks if tasks else None

    @property
    def rate(self) -> str:
        if self.seconds:
            return f"{size(self.bytes_in / self.seconds)}/s a worker"
        return "cached" if self.cached else ""


class Bars:
    """Progress of a run: on a terminal, one bar in all and one per running stage; in a log, what changed."""

    def __init__(self, quiet: bool = False) -> None:
        self.notes: list[str] = []
        self.stages: dict[str, StageProgress] = {}
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
        self._lock = threading.RLock()
        """Guards all counts, which a thread reads, too."""
        self._doing = "starting"
        """What happens before the first task is done."""
        self._worked_since: float | None = None
        """When the first task started that was not cached."""
        self._busy_s = 0.0
        """Seconds of all workers, with compiling."""

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
                moved = any(stage.logged[0] < stage.done for stage in self.stages.values())
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
        """Start with all stages: their number does not change."""
        with self._lock:
            for stage in self.stages.values():
                if stage.bar is not None:
                    self._progress.remove_task(stage.bar)
            self.stages = {node.id: StageProgress(more=True, before=_earlier(before.get(node.id))) for node in nodes}

    def settled(self, node: "Node") -> None:
        with self._lock:
            self.stages[node.id].more = False

    def doing(self, what: str) -> None:
        self._doing = what
        self._progress.update(self._all, status=what)

    def expect(self, node: "Node", tasks: int) -> None:
        self.promise(node.id, tasks)
        if not self._counts()[0]:
            self.doing(f"{one_line(node.id)}: {counted(tasks, 'task')} begun, none done yet")
        if self._live:
            self._draw(node.id, self.stages[node.id])

    def done(self, node: "Node", task: "Task", result: "Result", cached: bool) -> None:
        with self._lock:
            stage = self.stages[node.id]
            stage.done += 1
            stage.cached += cached
            took = result.cost.get("wall_s", 0)
            worked = took - result.cost.get("compile_s", 0)
            if cached:
                stage.cost_s += worked
                stage.timed += 1
            else:
                stage.bytes_in += result.metrics.get("bytes_in", 0)
                self._worked(stage, took, worked)
            self._moved(node.id, stage)

    def found(self, node: "Node", tasks: int, cost: Mapping[str, float]) -> None:
        with self._lock:
            stage = self.stages[node.id]
            stage.more = False
            stage.expected = stage.done = stage.cached = stage.timed = tasks
            stage.cost_s = cost.get("wall_s", 0) - cost.get("compile_s", 0)
            self._moved(node.id, stage)

    def track(self, name: str, items: Iterable[T], total: int) -> Iterator[T]:
        """The items, with progress, for a command that runs no tasks."""
        self.promise(name, total)
        yield from self.walk(name, items)

    def promise(self, name: str, total: int) -> None:
        """Announce how many items will follow, so that the remaining number is known from the start."""
        with self._lock:
            self.stages.setdefault(name, StageProgress()).expected += total

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
        enough = _says_enough(timed, sum(stage.expected for stage in stages))
        for stage in stages:
            stage.before = (timed, seconds) if enough else (0, 0.0)

    def _worked(self, stage: StageProgress, took_s: float, worked_s: float) -> None:
        stage.seconds += worked_s
        stage.cost_s += worked_s
        stage.timed += 1
        self._busy_s += took_s
        if self._worked_since is None:
            self._worked_since = time.monotonic() - took_s

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
        known = [stage.seconds_left for stage in self.stages.values()]
        if self._worked_since is None or None in known or all(stage.is_done for stage in self.stages.values()):
            return stages
        at_once = max(1.0, self._busy_s / max(time.monotonic() - self._worked_since, 1e-9))
        left = round(sum(one or 0.0 for one in known) / at_once)
        return f"{stages}, about {left // 60}:{left % 60:02} left"

    def line(self) -> str:
        """A log line: overall progress, then the stages that moved since the last line, as many as fit."""
        done, total = self._counts()
        moved, found = [], 0
        for name, stage in self.stages.items():
            cached = stage.cached - stage.logged[1]
            worked = stage.done - stage.logged[0] - cached
            found += cached
            stage.logged = stage.done, stage.cached
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
        if stage.bar is None:
            stage.bar = self._progress.add_task(one_line(name), total=0, status="", visible=False)
        self._progress.update(
            stage.bar, completed=stage.done, total=stage.expected, status=stage.rate, visible=stage.is_running
        )

    def _say(self, message: str) -> None:
        done, total = self._counts()
        _LOG(message, tasks_done=done, tasks=total, seconds=round(time.monotonic() - self._started, 1))

    def _show(self, message: str) -> None:
        if self._live:
            self._progress.console.print(message)
        else:
            log(f"[{time.monotonic() - self._started:6.1f}s] {message}")


def _says_enough(timed: int, expected: int) -> bool:
    """Whether enough tasks are timed to estimate the others."""
    return timed >= max(1, min(FEW_TASKS, FEW_SHARE * expected))


def _earlier(node: Mapping[str, Any] | None) -> tuple[int, float]:
    """Tasks of a stage in an earlier run and their seconds, without compiling."""
    if node is None:
        return 0, 0.0
    return node["executed"] + node["cached"], node["cost"].get("wall_s", 0) - node["cost"].get("compile_s", 0)
