"""The trial of a record that seems to kill its worker: alone, again and again, beside a control that must survive.

A worker that dies says little. The kernel's out-of-memory killer, a cluster's scheduler or a person may have killed it,
and the record that it was at had nothing to do with that. So the record is tried:

- Nothing else of the run is at work: the record has the memory of the machine.
- Two workers are started that have done nothing yet, in turns this one and that one first. One reads the control, a
  neighbour of the record that nobody suspects; then the other reads the record; then, after as much time again as the
  whole trial took until then, the first reads the control once more.
- If the record's worker lives, the record is acquitted: no further trial.
- If the control's worker dies, or the record's did before it had begun, or it was killed while memory was short, the
  trial tells nothing, and what was counted is forgotten: there is a storm, which is waited out.
- A record is given up after INSIDE_TRIALS deaths in a row that a process brings upon itself (a crash in C), or
  OUTSIDE_TRIALS in a row by any cause, with longer and longer pauses between them.

What would a storm of random kills have to do to fake that? It never sends SIGSEGV, so it must win OUTSIDE_TRIALS times
in a row. Let it kill each worker in any stretch as long as the record's with probability p. For a trial to count, the
record's worker must die and the control's, which lives at least twice as long, must not: p(1-p)². A trial ends with an
acquittal with 1-p, and is repeated otherwise. So it goes the wrong way with p(1-p)/(1+p(1-p)), which is at most 1/5 (at
p = 1/2), and all eight with 3 in a million, after the same storm also led the search to the record. A killer of the
youngest or of the oldest takes the control's worker in every second trial, as the two are started in turns; a killer of
workers of a certain age takes both.
"""

import asyncio
import itertools
import random
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from gristmill.engine.executors.executor import StartWorker, WorkerDied
from gristmill.engine.work.memory import Memory, memory_now
from gristmill.engine.work.task import Result, Task

INSIDE_TRIALS = 3
OUTSIDE_TRIALS = 8
FREE_SHARE = 0.25
"""Share of the memory that must be free for a death that may be for want of memory to count."""
OWN_SHARE = 0.5
"""Share of the free memory that a worker must have held for a kill to be its own doing."""
PAUSE_S = 0.1
"""Seconds of the first pause. Each is twice as long as the one before."""
LONGEST_PAUSE_S = 10.0
MOST_PAUSES = 12
"""Disturbances of one task after which the run stops: a minute of pauses."""
MOST_MACHINES = 100
"""Machines that one task may lose before the run stops."""


class Storm(Exception):
    """Workers die whatever they do."""


class _Disturbed(Exception):
    """A trial that tells nothing."""


@dataclass
class Patience:
    """What happened to one task's workers, and how long that is waited out."""

    pauses: int = 0
    machines_lost: int = 0
    causes: Counter[str] = field(default_factory=Counter)
    peak_rss_bytes: int = 0
    memory: Memory = field(default_factory=memory_now)
    """Of the machine that the last worker died on, when it was given the task."""

    def saw(self, death: WorkerDied) -> None:
        self.causes[death.cause] += 1
        self.memory = death.memory or self.memory
        self.peak_rss_bytes = max(self.peak_rss_bytes, death.peak_rss_bytes)

    async def lost_machine(self) -> None:
        """A machine that went says nothing of the task, which goes to another. Raises Storm when none stays."""
        self.machines_lost += 1
        if self.machines_lost > MOST_MACHINES:
            raise Storm
        # Not all tasks of a machine that went come back at once.
        await asyncio.sleep(PAUSE_S * (1 + random.random()))

    async def pause(self) -> None:
        """Let a storm pass. Raises Storm when there were too many."""
        self.pauses += 1
        if self.pauses > MOST_PAUSES:
            raise Storm
        await sleep_before(self.pauses)


@dataclass(frozen=True)
class Evidence:
    """Why a record was given up."""

    detail: str
    """For the record's row: the same in every run."""
    trials: list[dict[str, Any]]
    disturbed: int
    """Trials that told nothing."""

    def of(self, *record: Any) -> dict[str, Any]:
        """For the task's record: different in every run."""
        return {"record": list(record), "trials": self.trials, "disturbed_trials": self.disturbed}


async def sleep_before(attempt: int) -> None:
    await asyncio.sleep(min(PAUSE_S * 2 ** (attempt - 1), LONGEST_PAUSE_S))


async def ask_new(task: Task, start: StartWorker, patience: Patience) -> Result:
    """Have a task done by a worker that has done nothing before."""
    while True:
        try:
            worker = await start()
            try:
                return await worker.ask(task)
            finally:
                worker.kill()
        except WorkerDied as death:
            patience.saw(death)
            if not death.machine_lost:
                raise
            await patience.lost_machine()


async def try_record(
    probe: Task, control: Task, beside: str, start: StartWorker, patience: Patience
) -> Evidence | None:
    """Evidence that the one record that `probe` reads kills its worker; None if it does not.

    `beside` says what the control is. Raises Storm.
    """
    counted: list[tuple[WorkerDied, dict[str, Any]]] = []
    disturbed = 0
    for number in itertools.count():
        try:
            found = await _trial(probe, control, start, patience, control_first=number % 2 == 0)
        except _Disturbed:
            counted.clear()
            disturbed += 1
            await patience.pause()
            continue
        if found is None:
            return None
        counted.append(found)
        last = counted[-INSIDE_TRIALS:]
        if len(last) == INSIDE_TRIALS and all(death.inside for death, _ in last):
            counted = last
            break
        if len(counted) == OUTSIDE_TRIALS:
            break
        if not found[0].inside:
            await sleep_before(len(counted))
    times, causes = len(counted), {death.cause for death, _ in counted}
    cause = causes.pop() if len(causes) == 1 else "in more than one way"
    detail = f"killed its worker {times} of {times} times alone ({cause}); {times} of {times} {beside} survived"
    return Evidence(detail, [facts for _, facts in counted], disturbed)


async def _trial(
    probe: Task, control: Task, start: StartWorker, patience: Patience, control_first: bool
) -> tuple[WorkerDied, dict[str, Any]] | None:
    """How the record's worker died while the control's lived; None if it did not."""
    clock = asyncio.get_running_loop().time
    begun = clock()
    workers = []
    try:
        workers.append(await start())
        workers.append(await start())
        tried, beside = reversed(workers) if control_first else workers
        await beside.ask(control)
        try:
            await tried.ask(probe)
            return None
        except WorkerDied as died:
            death = died
        patience.saw(death)
        await asyncio.sleep(clock() - begun)
        await beside.ask(control)
    except WorkerDied as other:
        patience.saw(other)
        raise _Disturbed from None
    finally:
        for worker in workers:
            worker.kill()
    if death.machine_lost or not death.reached or not (death.inside or _is_enough(death.memory)):
        raise _Disturbed
    free = death.memory.free_bytes if death.memory else None
    facts = {"death": death.cause, "peak_rss_bytes": death.peak_rss_bytes, "free_bytes": free}
    return death, facts


def is_own_doing(death: WorkerDied) -> bool:
    """Whether a worker crashed, or ran out of memory that it took itself while there was enough."""
    if death.inside or death.machine_lost or not death.reached:
        return death.inside
    free = death.memory.free_bytes if death.memory else None
    took_most = free is not None and death.peak_rss_bytes >= OWN_SHARE * free
    return _is_enough(death.memory) and (death.cause == "MemoryError" or took_most)


def _is_enough(memory: Memory | None) -> bool:
    if memory is None or memory.free_bytes is None or memory.whole_bytes is None:
        return True
    return memory.free_bytes >= FREE_SHARE * memory.whole_bytes
