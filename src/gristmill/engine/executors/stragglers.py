"""An executor for several machines that runs stragglers twice.

A machine that is slow but not lost (a failing disk, a neighbour that uses its cores) holds up a barrier, and so all
others. A task that takes several times as long as tasks of its kind take for as many bytes is run a second time, if a
slot is free and no task waits for it. The first result counts. The other result is the same by law, with parts of the
same names; its run continues as long as its slot is not needed, and if its parts differ, a note says which step is not
a pure function. The records of the run and its claims know of one task.

The time that a task has run counts from the moment when no task waits: one that waited before would look slow.
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
"""A task that takes more than this many times as long as its kind is a straggler."""
LEAST_S = 10.0
"""Seconds that a straggler must have run: less is not worth a second run."""
ENOUGH, RECENT = 5, 101
"""Tasks of a kind that must have ended before predictions are made, and how many of the last ones are remembered."""
CHECK_EVERY_S = 2.0
LAST = (1,)
"""The order of a second run: after all others, whose orders begin with 0 or less."""


@dataclass(eq=False)
class _Running:
    """A task that a caller awaits, and its runs: one, or two."""

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
        """Runs that continue although the other one has answered."""
        self._submitted = 0
        """Runs that the executor has not answered yet."""
        self._none_waits_since: float | None = None
        self._ratios: dict[tuple[str, type, str], deque[float]] = {}
        """By kind: the seconds that its last tasks took per expected second."""
        self._next_check: asyncio.TimerHandle | None = None

    @property
    def slots(self) -> int:
        """The slots of the executor, which change as machines join and leave."""
        return self._executor.slots

    async def run(self, task: Task) -> Result:
        if self._submitted >= self._executor.slots:
            self._end_beaten()
        loop = asyncio.get_running_loop()
        one = _Running(task, loop.time(), loop.create_future())
        self._running.add(one)
        self._submit(one, task)
        if self._next_check is None:
            self._next_check = loop.call_later(CHECK_EVERY_S, self._check)
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
        if self._next_check is not None:
            self._next_check.cancel()
            self._next_check = None
        self._executor.close()

    def _end_beaten(self) -> None:
        for run in self._beaten:
            run.cancel()

    def _submit(self, one: _Running, task: Task) -> None:
        run = asyncio.get_running_loop().create_task(self._executor.run(task))
        one.runs.append(run)
        run.add_done_callback(partial(self._ended, one))
        self._count(1)

    def _count(self, more: int) -> None:
        self._submitted += more
        if self._submitted > self._executor.slots:
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
        elif not one.runs or not isinstance(error, WorkerDied):  # the other run may survive
            one.answer.set_exception(error)

    def _learn(self, task: Task, result: Result) -> None:
        seconds = result.cost.get("wall_s", 0.0) - result.cost.get("compile_s", 0.0)
        if task.expected_s and seconds > 0:
            self._ratios.setdefault(task.kind, deque(maxlen=RECENT)).append(seconds / task.expected_s)

    def _predicted_s(self, task: Task) -> float | None:
        """Seconds that a task should take, judged by others of its kind; None if too little is known."""
        ratios = self._ratios.get(task.kind, ())
        return median(ratios) * task.expected_s if task.expected_s and len(ratios) >= ENOUGH else None

    def _check(self) -> None:
        """Run tasks again that take too long, the oldest first, as far as slots are free."""
        loop = asyncio.get_running_loop()
        since = self._none_waits_since
        for one in sorted(self._running, key=lambda one: one.begun) if since is not None else ():
            if self._submitted >= self._executor.slots:
                break
            predicted = self._predicted_s(one.task)
            seconds = loop.time() - max(one.begun, since or 0.0)
            if not one.is_doubled and predicted is not None and seconds > max(LEAST_S, TIMES * predicted):
                one.is_doubled = True
                self._note(
                    f"{one.task.node}, {one.task.label}: running for {seconds:.0f} s, while others of its kind take "
                    f"about {predicted:.0f} s; running it a second time elsewhere, and the first result counts"
                )
                self._submit(one, replace(one.task, order=LAST))
        self._next_check = loop.call_later(CHECK_EVERY_S, self._check) if self._running else None

    def _compare(self, task: Task, first: Result, second: Result) -> None:
        here, there = ([part.hash for part in result.parts] for result in (first, second))
        if here != there:
            self._note(
                f"{task.node}, {task.label}: two runs wrote different bytes, so the step is not a pure function (or "
                "machines have different versions of libraries); the first result is kept"
            )
