"""Runs a task to its end although workers die.

If a machine is lost, its tasks run elsewhere; that says nothing about them. Any other death is first treated as a kill
from outside, and the task runs again; from the third time on it runs alone, so that it has all the memory. If it still
dies, its records are suspected, unless the step dies on any of them by its own fault (`dies_on_anything`), which stops
the run. A record is given up only after a trial (`trial.py`). If the workers of a task keep dying and no record is to
blame, the run stops, and no output of the task is stored.
"""

from typing import Any

from gristmill.counted import counted
from gristmill.engine.executors.executor import Executor, StartWorker, WorkerDied
from gristmill.engine.executors.isolate import Isolated, Search, dies_on_anything
from gristmill.engine.executors.trial import Patience, Storm, ask_new
from gristmill.engine.work.needs import needs_of
from gristmill.engine.work.task import Build, Collect, FitWork, MapWork, Read, Reduce, Result, Scatter, Task, Work
from gristmill.errors import UserError
from gristmill.log import WARNING, Note
from gristmill.stages import contract, own_code
from gristmill.stages.declarations import stage_of

ATTEMPTS = 2
"""Workers that a task may lose next to other tasks before it runs alone."""
KILLS = 3
"""Deaths in a row of the task alone, possibly kills from outside, before records are suspected."""
ROUNDS = 3
"""Rounds (the task alone, then a search for a record) that end in a crash, after which the stage is to blame."""
MOST_POISONED = 16
"""Records of one task that may be given up before the stage or the machine is to blame."""


async def insist(task: Task, executor: Executor, note: Note) -> Result:
    """The result of a task, without the records that kill its worker. Raises UserError, CorruptPart, or StageFailed."""
    evidence: list[dict[str, Any]] = []
    while True:
        patience = Patience()
        try:
            found = await _with_others(task, executor, patience, note) or await _alone(task, executor, patience, note)
        except Storm:
            raise _stop(task, patience, "no document appears to be the cause") from None
        if isinstance(found, Result):
            found.poisoned = _poisoned(task)
            found.evidence = evidence
            return found
        if len(evidence) == MOST_POISONED:
            raise _stop(task, patience, f"more than {MOST_POISONED} of its documents kill a worker on their own")
        note(f"{task.node}, {task.label}: found the record; it gets the reason worker_crashed", WARNING)
        task = found[0]
        evidence.append(found[1])


async def _with_others(task: Task, executor: Executor, patience: Patience, note: Note) -> Result | None:
    attempts = 0
    while attempts < ATTEMPTS:
        try:
            return await executor.run(task)
        except WorkerDied as death:
            patience.record(death)
            note(f"{task.node}, {task.label}: the worker {death}; trying again", WARNING)
            if death.machine_lost:
                await patience.lost_machine()
            else:
                attempts += 1
    return None


async def _alone(task: Task, executor: Executor, patience: Patience, note: Note) -> Result | Isolated:
    crashes = rounds = 0
    while True:
        async with executor.alone(needs_of(task.work)) as start:
            found = await _round(task, start, patience, note, rounds)
        if not isinstance(found, WorkerDied):
            return found
        rounds += 1
        crashes += found.inside
        if crashes == ROUNDS:
            raise _stop(task, patience, "no single record is the cause")
        if not found.inside:
            await patience.pause()


async def _round(
    task: Task, start: StartWorker, patience: Patience, note: Note, rounds: int
) -> Result | Isolated | WorkerDied:
    """Run the task alone on its machine; if it dies, search for the record that kills it."""
    try:
        return await ask_new(task, start, patience)
    except WorkerDied as death:
        note(f"{task.node}, {task.label}: the worker {death}, alone", WARNING)
        if await dies_on_anything(task, death, start, patience):
            raise _stop(task, patience, "any single document is enough, so the step is the cause") from None
        if not death.inside and rounds + 1 < KILLS:
            return death
        if isinstance(task.work, Read | MapWork):
            note(f"{task.node}, {task.label}: searching for the record that kills its worker")
        return await Search(task, start, patience).find() or death


def _poisoned(task: Task) -> list[list[Any]]:
    return [list(record) for record in task.work.poisoned] if isinstance(task.work, Read | MapWork) else []


def _knob(work: Work) -> str:
    """The settings that reduce the memory of a task of this kind, or leave more for it."""
    stage = stage_of(work.module) if isinstance(work, Reduce | Build | FitWork) else None
    field = stage.memory_field if isinstance(stage, contract.Exchange | contract.Sink | contract.Fit) else None
    if isinstance(work, Read | MapWork | Scatter | Collect):
        return "fewer workers, smaller part_bytes of the source"
    return "fewer workers" if field is None else f"fewer workers, smaller {field} of the step"


def _stop(task: Task, patience: Patience, blame: str) -> UserError:
    causes = ", ".join(f"{cause} {counted(count, 'time')}" for cause, count in patience.causes.most_common())
    held = f"; a worker held up to {patience.peak_rss_bytes / 1e9:.1f} GB" if patience.peak_rss_bytes else ""
    module = task.module
    own = f"They ran your own code, {module}: look there first. " if own_code.is_own(module) else ""
    from_outside = (
        f"{patience.memory}{held}. If memory is short, free some ({_knob(task.work)}); if something else kills "
        "processes here, stop it; then run again."
    )
    if all(cause.startswith("exit code") for cause in patience.causes):
        from_outside = "A process that ends with an exit code was not killed: something that it ran ended it."
    return UserError(
        f"{task.node}, {task.label}: its workers keep dying ({causes}), and {blame}. No output of the task was "
        f"stored, no document was given up, and finished work is kept. {own}{from_outside}"
    )
