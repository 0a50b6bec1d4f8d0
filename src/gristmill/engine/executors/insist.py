"""Runs a task to its end although workers die.

A death that the worker's process did not cause (a kill, too little memory, a lost machine) says nothing about the
task: it runs again, from the third time on alone, so that it has all the memory. After too many such deaths the run
stops. A process that ends itself (a crash in C, an exit) has its cause in a record or in the step: `isolate.py` finds
the record, which is given up only after it ended three of three new workers.
"""

from gristmill.engine.executors.attempts import Attempts
from gristmill.engine.executors.executor import Executor, WorkerDied
from gristmill.engine.executors.isolate import Search
from gristmill.engine.work.needs import needs_of
from gristmill.engine.work.task import MapWork, Read, Result, Task
from gristmill.log import WARNING, Note

ATTEMPTS = 2
"""Workers that a task may lose next to other tasks before it runs alone."""
CRASHES = 3
"""Crashes of the task alone that no single record explains, after which the stage is to blame."""
MOST_POISONED = 16
"""Records of one task that may be given up before the stage or the machine is to blame."""


async def insist(task: Task, executor: Executor, note: Note) -> Result:
    """The result of a task, without the records that kill its worker. Raises UserError, CorruptPart, or StageFailed."""
    for _ in range(MOST_POISONED + 1):
        attempts = Attempts(task, note)
        found = await _beside_others(attempts, executor) or await _alone(attempts, executor)
        if isinstance(found, Result):
            if isinstance(task.work, Read | MapWork):
                found.poisoned = [list(record) for record in task.work.poisoned]
            return found
        attempts.note("found the record; it gets the reason worker_crashed", WARNING)
        task = found
    raise attempts.stop(f"more than {MOST_POISONED} of its documents kill a worker on their own")


async def _beside_others(attempts: Attempts, executor: Executor) -> Result | None:
    tries = 0
    while tries < ATTEMPTS:
        try:
            return await executor.run(attempts.task)
        except WorkerDied as death:
            attempts.note(f"the worker {death}; trying again", WARNING)
            await attempts.record(death)
            tries += not death.machine_lost
    return None


async def _alone(attempts: Attempts, executor: Executor) -> Result | Task:
    """The result, or the task without the record that ends its worker."""
    async with executor.alone(needs_of(attempts.task.work)) as start:
        for _ in range(CRASHES):
            result = await attempts.in_new_worker(attempts.task, start)
            if isinstance(result, Result):
                return result
            attempts.note(f"the worker {result}, alone", WARNING)
            if (task := await Search(attempts, start).find()) is not None:
                return task
    raise attempts.stop("no single record is the cause")
