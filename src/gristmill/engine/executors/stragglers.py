"""An executor of several machines, on which stragglers are run twice.

A machine that is slow and not lost (a failing disk, a neighbour that takes its cores) holds up a barrier, and so all
others. A task that takes several times what its kind takes for as many bytes is run a second time, where a slot is free
and nothing waits for one. The first result counts. The other is the same by law, and its parts have the same names; its
run goes on as long as nobody needs the slot, and where it comes out with other parts, a note says which step is no pure
function. The records of the run and its claims know of one task.

How long a task has run is known from the moment on when none waits: one that waited before would look slow.
"""

import asyncio
from collections import deque
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field, replace
from functools import partial
from statistics import median

from gristmill.engine.executors.executor import Executor, StartWorker, WorkerDied
from gristmill.engine.work.task import Result, Task
from gristmill.log import Note
from gristmill.stages.contract import Resources

TIMES = 3.0
"""What its kind takes: a task that takes more is a straggler."""
LEAST_S = 10.0
"""Seconds that it must have run: less is not worth a second run."""
SEEN, RECENT = 5, 101
"""Tasks of a kind that must have ended before it says anything, and the last ones that are remembered."""
LOOK_EVERY_S = 2.0
LAST = (1,)
"""The order of a second run: behind all others, whose orders begin with 0 or less."""

Kind = tuple[str, type, str]


@dataclass(eq=False)
class _Running:
    """A task that somebody waits for, and its runs: one, or two."""

    task: Task
    begun: float
    answer: asyncio.Future[Result]
    runs: list[asyncio.Task[Result]] = field(default_factory=list)
    is_doubled: bool = False


class Stragglers:
    """Runs tasks by another executor, some of them twice."""

    def __init__(self, executor: Executor, note: Note) -> None:
        self.several_machines = executor.several_machines
        self._executor = executor
        self._note = note
        self._running: set[_Running] = set()
        self._beaten: set[asyncio.Task[Result]] = set()
        """Runs that go on although the other one has answered."""
        self._asked = 0
        """Runs that the executor has not answered."""
        self._none_waits_since: float | None = None
        self._ratios: dict[Kind, deque[float]] = {}
        """Of a kind: seconds that its last tasks took, for each second that was expected."""
        self._next_look: asyncio.TimerHandle | None = None

    @property
    def slots(self) -> int:
        """They come and go with machines."""
        return self._executor.slots

    async def run(self, task: Task) -> Result:
        if self._asked >= self._executor.slots:
            self._end_beaten()
        loop = asyncio.get_running_loop()
        one = _Running(task, loop.time(), loop.create_future())
        self._running.add(one)
        self._ask(one, task)
        if self._next_look is None:
            self._next_look = loop.call_later(LOOK_EVERY_S, self._look)
        try:
            result = await one.answer
        except BaseException:
            for run in one.runs:
                run.cancel()
            raise
        finally:
            self._running.discard(one)
        self._beaten.update(one.runs)
        return result

    def lacks(self, needs: Resources) -> str | None:
        return self._executor.lacks(needs)

    def alone(self, needs: Resources) -> AbstractAsyncContextManager[StartWorker]:
        self._end_beaten()
        return self._executor.alone(needs)

    def close(self) -> None:
        self._end_beaten()
        if self._next_look is not None:
            self._next_look.cancel()
            self._next_look = None
        self._executor.close()

    def _end_beaten(self) -> None:
        for run in self._beaten:
            run.cancel()

    def _ask(self, one: _Running, task: Task) -> None:
        run = asyncio.get_running_loop().create_task(self._executor.run(task))
        one.runs.append(run)
        run.add_done_callback(partial(self._ended, one))
        self._count(1)

    def _count(self, more: int) -> None:
        self._asked += more
        if self._asked > self._executor.slots:
            self._none_waits_since = None
        elif self._none_waits_since is None:
            self._none_waits_since = asyncio.get_running_loop().time()

    def _ended(self, one: _Running, run: asyncio.Task[Result]) -> None:
        one.runs.remove(run)
        self._beaten.discard(run)
        self._count(-1)
        if run.cancelled():
            if not one.runs and not one.answer.done():
                one.answer.cancel()
            return
        error = run.exception()
        if one.answer.done():
            if error is None and not one.answer.cancelled() and one.answer.exception() is None:
                self._compare(one.task, one.answer.result(), run.result())
        elif error is None:
            self._learn(one.task, run.result())
            one.answer.set_result(run.result())
        elif not one.runs or not isinstance(error, WorkerDied):  # the other run may live
            one.answer.set_exception(error)

    def _learn(self, task: Task, result: Result) -> None:
        seconds = result.cost.get("wall_s", 0.0) - result.cost.get("compile_s", 0.0)
        if task.expected_s and seconds > 0:
            self._ratios.setdefault(_kind(task), deque(maxlen=RECENT)).append(seconds / task.expected_s)

    def _predicted_s(self, task: Task) -> float | None:
        """Seconds that a task should take, by others of its kind; None where too little is known."""
        ratios = self._ratios.get(_kind(task), ())
        return median(ratios) * task.expected_s if task.expected_s and len(ratios) >= SEEN else None

    def _look(self) -> None:
        """Run those again that take too long, the oldest first, as far as there is room."""
        loop = asyncio.get_running_loop()
        since = self._none_waits_since
        for one in sorted(self._running, key=lambda one: one.begun) if since is not None else ():
            if self._asked >= self._executor.slots:
                break
            predicted = self._predicted_s(one.task)
            seconds = loop.time() - max(one.begun, since or 0.0)
            if not one.is_doubled and predicted is not None and seconds > max(LEAST_S, TIMES * predicted):
                one.is_doubled = True
                self._note(
                    f"{one.task.node}, {one.task.label}: at work for {seconds:.0f} s, where others of its kind would "
                    f"take about {predicted:.0f} s; run a second time elsewhere, and the first result counts"
                )
                self._ask(one, replace(one.task, order=LAST))
        self._next_look = loop.call_later(LOOK_EVERY_S, self._look) if self._running else None

    def _compare(self, task: Task, first: Result, second: Result) -> None:
        here, there = ([part.hash for part in result.parts] for result in (first, second))
        if here != there:
            self._note(
                f"{task.node}, {task.label}: run twice, it came out with other bytes the second time, so the step is "
                "not a pure function (or machines have libraries of different versions); what came first is kept"
            )


def _kind(task: Task) -> Kind:
    return task.node, type(task.work), getattr(task.work, "function", "")
