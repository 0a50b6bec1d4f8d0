"""Where tasks run. An executor takes a task and gives its result; how and where is its own affair.

To add one (Ray, Slurm): write a class with these three members in a file of its own. It must not retry: a worker
that dies is reported, and the engine decides. Priorities are a wish, not a promise; results never depend on them.
"""

import asyncio
from typing import Protocol

from gristmill.engine.perform import perform
from gristmill.engine.task import Result, Task
from gristmill.store.store import Store


class WorkerDied(Exception):
    """The process that ran a task ended without an answer: killed, out of memory, a crash in C."""


class StageFailed(Exception):
    """A stage raised: a bug, shown with the worker's traceback."""


class Executor(Protocol):
    """Runs tasks somewhere."""

    slots: int
    """How many tasks it runs at once."""

    async def run(self, task: Task) -> Result:
        """The task's result. Raises WorkerDied, CorruptPart, UserError, or StageFailed."""

    def close(self) -> None:
        """End every worker now. Nothing that is half done may look finished."""


class InlineExecutor:
    """Runs tasks in this process, one after the other: for a store that no other process can see."""

    slots = 1

    def __init__(self, store: Store) -> None:
        self._store = store

    async def run(self, task: Task) -> Result:
        await asyncio.sleep(0)
        return perform(task, self._store)

    def close(self) -> None:
        return
