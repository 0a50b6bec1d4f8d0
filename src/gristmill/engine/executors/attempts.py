"""The deaths of one task's workers: how long to go on, and the message when the run stops."""

import asyncio
import random
from collections import Counter

from gristmill.counted import counted
from gristmill.engine.executors.executor import StartWorker, WorkerDied
from gristmill.engine.work.task import Build, Collect, FitWork, MapWork, Read, Reduce, Result, Scatter, Task, Work
from gristmill.errors import UserError
from gristmill.log import WARNING, Note
from gristmill.places import shown
from gristmill.stages import contract, own_code
from gristmill.stages.declarations import stage_of

MOST_KILLS = 16
"""Workers of one task that may die from outside before the run stops, which is about a minute of pauses."""
MOST_MACHINES = 100
"""Machines that one task may lose before the run stops."""
PAUSE_S = 0.1
"""Seconds of the first pause; doubles each time."""
LONGEST_PAUSE_S = 5.0


class Attempts:
    """The attempts at one task."""

    def __init__(self, task: Task, note: Note) -> None:
        self.task = task
        self._note = note
        self._causes: Counter[str] = Counter()
        self._kills = self._machines = self._peak_rss_bytes = 0

    def note(self, message: str, *level: int) -> None:
        self._note(f"{self.task.node}, {self.task.label}: {message}", *level)

    async def record(self, death: WorkerDied) -> None:
        """Count a death, and pause if it came from outside. Raises UserError after too many of those."""
        self._causes[death.cause] += 1
        self._peak_rss_bytes = max(self._peak_rss_bytes, death.peak_rss_bytes)
        if death.inside:
            return
        self._kills += not death.machine_lost
        self._machines += death.machine_lost
        if self._kills > MOST_KILLS or self._machines > MOST_MACHINES:
            raise self.stop("no document appears to be the cause")
        # The pause is random, so that the tasks of a lost machine do not all come back at once.
        await asyncio.sleep(min(PAUSE_S * 2 ** max(self._kills - 1, 0), LONGEST_PAUSE_S) * (1 + random.random()))

    async def in_new_worker(self, task: Task, start: StartWorker) -> Result | WorkerDied:
        """The result of a task in a worker that has run nothing before, or the death that the worker itself caused."""
        while True:
            try:
                worker = await start()
                try:
                    return await worker.ask(task)
                finally:
                    worker.kill()
            except WorkerDied as death:
                await self.record(death)
                if death.inside:
                    return death
                self.note(f"the worker {death}, alone; trying again", WARNING)

    def stop(self, blame: str) -> UserError:
        """The message that ends the run."""
        causes = ", ".join(f"{cause} {counted(count, 'time')}" for cause, count in self._causes.most_common())
        work, module = self.task.work, self.task.module
        own = f"They ran your own code, {module}: look there first. " if own_code.is_own(module) else ""
        advice = (
            f"A worker held up to {self._peak_rss_bytes / 1e9:.1f} GB of memory. If memory is short, free some "
            f"({_knob(work)}); if something else kills processes here, stop it; then run again."
        )
        if all(cause.startswith("exit code") for cause in self._causes):
            advice = "A process that ends with an exit code was not killed: something that it ran ended it."
        return UserError(
            f"{self.task.node}, {self.task.label}: its workers keep dying ({causes}), and {blame}. No output of the "
            f"task was stored, no document was given up, and finished work is kept. {_records(work)}{own}{advice}"
        )


def _records(work: Work) -> str:
    """The range of records that a task reads, as a sentence."""
    if isinstance(work, Read):
        first, last = work.pieces[0], work.pieces[-1]
        end = "the end" if last.stop is None else f"position {last.stop:,}"
        return f"The task reads from position {first.start:,} of {shown(first.name)} to {end} of {shown(last.name)}. "
    if isinstance(work, MapWork):
        return f"The task reads {counted(work.layers[0].rows, 'document')}. "
    return ""


def _knob(work: Work) -> str:
    """The settings that reduce the memory of a task of this kind, or leave more for it."""
    stage = stage_of(work.module) if isinstance(work, Reduce | Build | FitWork) else None
    field = stage.memory_field if isinstance(stage, contract.Exchange | contract.Sink | contract.Fit) else None
    if isinstance(work, Read | MapWork | Scatter | Collect):
        return "fewer workers, smaller part_bytes of the source"
    return "fewer workers" if field is None else f"fewer workers, smaller {field} of the step"
