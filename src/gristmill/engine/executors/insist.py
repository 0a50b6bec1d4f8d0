"""Having a task done although workers die.

A machine that goes takes its tasks with it, and they are done elsewhere; that says nothing of them. Any other death is
first taken for a kill from outside, and the task is done again; from the third time on with nothing else of the run at
work, so that it has all the memory. If it still dies, its records are suspected, unless the step brings about its own
end on any of them (`dies_on_anything`), which stops the run. A record is given up only after a trial (`trial.py`); a
task whose workers keep dying without one to blame stops the run, and nothing of it is stored.
"""

from typing import Any

from gristmill.counted import counted
from gristmill.engine.executors.executor import Executor, StartWorker, WorkerDied
from gristmill.engine.executors.isolate import Found, Search, dies_on_anything
from gristmill.engine.executors.trial import Patience, Storm, ask_new
from gristmill.engine.work.needs import needs_of
from gristmill.engine.work.task import Build, Collect, Fit, Map, Read, Reduce, Result, Scatter, Task, Work
from gristmill.errors import UserError
from gristmill.log import WARNING, Note
from gristmill.stages import contract, own_code
from gristmill.stages.declarations import stage_of

ATTEMPTS = 2
"""Workers that a task may lose beside others before it gets the machine to itself."""
KILLS = 3
"""Workers that may have been killed from outside, one after the other, alone, before records are suspected."""
ROUNDS = 3
"""Rounds (the task alone, the search for a record) of crashes from inside after which the fault is the stage's."""
MOST_POISONED = 16
"""Records of one task that may be given up before the fault is taken to be the stage's or the machine's."""


async def insist(task: Task, executor: Executor, note: Note) -> Result:
    """The result of a task, without records that kill their worker. Raises UserError, CorruptPart, or StageFailed."""
    evidence: list[dict[str, Any]] = []
    while True:
        patience = Patience()
        try:
            found = await _in_company(task, executor, patience, note) or await _alone(task, executor, patience, note)
        except Storm:
            raise _stop(task, patience, "no document is to blame as far as can be told") from None
        if isinstance(found, Result):
            found.poisoned = _poisoned(task)
            found.evidence = evidence
            return found
        if len(evidence) == MOST_POISONED:
            raise _stop(task, patience, f"{MOST_POISONED} of its documents die alone, and there are more")
        note(f"{task.node}, {task.label}: found it; it becomes a row with the reason worker_crashed", WARNING)
        task = found[0]
        evidence.append(found[1])


async def _in_company(task: Task, executor: Executor, patience: Patience, note: Note) -> Result | None:
    attempts = 0
    while attempts < ATTEMPTS:
        try:
            return await executor.run(task)
        except WorkerDied as death:
            patience.saw(death)
            note(f"{task.node}, {task.label}: the worker {death}; trying again", WARNING)
            if death.machine_lost:
                await patience.lost_machine()
            else:
                attempts += 1
    return None


async def _alone(task: Task, executor: Executor, patience: Patience, note: Note) -> Result | Found:
    crashes = rounds = 0
    while True:
        async with executor.alone(needs_of(task.work)) as start:
            found = await _round(task, start, patience, note, rounds)
        if not isinstance(found, WorkerDied):
            return found
        rounds += 1
        crashes += found.inside
        if crashes == ROUNDS:
            raise _stop(task, patience, "no single record is to blame")
        if not found.inside:
            await patience.pause()


async def _round(
    task: Task, start: StartWorker, patience: Patience, note: Note, rounds: int
) -> Result | Found | WorkerDied:
    """The task with the machine to itself; if it dies there, the search for the record that kills it."""
    try:
        return await ask_new(task, start, patience)
    except WorkerDied as death:
        note(f"{task.node}, {task.label}: the worker {death}, alone", WARNING)
        if await dies_on_anything(task, death, start, patience):
            raise _stop(task, patience, "any single document is enough, so the step is to blame") from None
        if not death.inside and rounds + 1 < KILLS:
            return death
        if isinstance(task.work, Read | Map):
            note(f"{task.node}, {task.label}: looking for the record that kills its worker")
        return await Search(task, start, patience).find() or death


def _poisoned(task: Task) -> list[list[Any]]:
    return [list(record) for record in task.work.poisoned] if isinstance(task.work, Read | Map) else []


def _knob(work: Work) -> str:
    """What makes a task of this kind need less memory, or leaves it more."""
    stage = stage_of(work.module) if isinstance(work, Reduce | Build | Fit) else None
    field = stage.memory_field if isinstance(stage, contract.Exchange | contract.Sink | contract.Fit) else None
    if isinstance(work, Read | Map | Scatter | Collect):
        return "fewer workers, smaller part_bytes of the source"
    return "fewer workers" if field is None else f"fewer workers, smaller {field} of the step"


def _stop(task: Task, patience: Patience, blame: str) -> UserError:
    causes = ", ".join(f"{cause} {counted(count, 'time')}" for cause, count in patience.causes.most_common())
    held = f"; a worker held up to {patience.peak_rss_bytes / 1e9:.1f} GB" if patience.peak_rss_bytes else ""
    module = getattr(task.work, "module", "")
    own = f"What they ran is code of your own, {module}: look there first. " if own_code.is_own(module) else ""
    from_outside = (
        f"{patience.memory}{held}. If memory is short, give it more ({_knob(task.work)}); if something else kills "
        "processes here, end that; then run again."
    )
    if all(cause.startswith("exit code") for cause in patience.causes):
        from_outside = "A process that ends with an exit code was not killed: something that it ran ended it."
    return UserError(
        f"{task.node}, {task.label}: its workers die again and again ({causes}), and {blame}. Nothing of it was "
        f"stored, no document was given up, and what is finished is kept. {own}{from_outside}"
    )
