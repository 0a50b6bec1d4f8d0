"""The trial of a record that seems to kill its worker: it runs alone, repeatedly, next to a control that must survive.

The death of a worker is weak evidence. The kernel's out-of-memory killer, a cluster's scheduler or a person may have
killed it, and the record that it processed may be innocent. So the record is tried:

- No other task of the run is running: the record has all memory of the machine.
- Two new workers are started, in alternating order. One reads the control, a neighbour of the record that is not
  suspected; then the other reads the record; then, after as much time again as the trial took so far, the first reads
  the control again.
- If the record's worker survives, the record is acquitted, and there is no further trial.
- If the control's worker dies, or the record's worker died before it began, or it was killed while memory was short,
  the trial proves nothing, and earlier trials are discarded: there is a storm of kills, and we wait for it to pass.
- A record is given up after INSIDE_TRIALS deaths in a row that a process causes itself (a crash in C), or
  OUTSIDE_TRIALS in a row of any cause, with longer and longer pauses between them.

Could a storm of random kills produce that result? It never sends SIGSEGV, so it must win OUTSIDE_TRIALS times in a row.
Say it kills each worker with probability p within the time that the record takes. For a trial to count, the record's
worker must die and the control's, which lives at least twice as long, must not: p(1-p)². A trial ends with an acquittal
with probability 1-p, and is repeated otherwise. So a trial goes wrong with probability p(1-p)/(1+p(1-p)), which is at
most 1/5 (at p = 1/2), and all eight with 3 in a million, after the same storm also misled the search to the record. A
killer of the youngest or the oldest process hits the control's worker in every second trial, because the order of
starts alternates; a killer of workers of a certain age hits both.
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
"""Share of the memory that must be free for a possible out-of-memory kill to count."""
OWN_SHARE = 0.5
"""Share of the free memory that a worker must have held for a kill to be its own fault."""
PAUSE_S = 0.1
"""Seconds of the first pause; doubles each time."""
LONGEST_PAUSE_S = 10.0
MOST_PAUSES = 12
"""Disturbances of one task after which the run stops, which is about a minute of pauses."""
MOST_MACHINES = 100
"""Machines that one task may lose before the run stops."""


class Storm(Exception):
    """Workers die no matter what they do."""


class _Disturbed(Exception):
    """A trial that proves nothing."""


@dataclass
class Patience:
    """What happened to one task's workers, and how long to wait for it to pass."""

    pauses: int = 0
    machines_lost: int = 0
    causes: Counter[str] = field(default_factory=Counter)
    peak_rss_bytes: int = 0
    memory: Memory | None = None
    """The memory of the machine that the last worker died on, when it received the task; None before any death."""

    def record(self, death: WorkerDied) -> None:
        self.causes[death.cause] += 1
        self.memory = death.memory or self.memory or memory_now()  # not for every task: it reads a dozen files
        self.peak_rss_bytes = max(self.peak_rss_bytes, death.peak_rss_bytes)

    async def lost_machine(self) -> None:
        """Pause before the task goes to another machine. Raises Storm if too many machines were lost."""
        self.machines_lost += 1
        if self.machines_lost > MOST_MACHINES:
            raise Storm
        # The pause is random, so that the tasks of a lost machine do not all come back at once.
        await asyncio.sleep(PAUSE_S * (1 + random.random()))

    async def pause(self) -> None:
        """Wait for a storm to pass. Raises Storm after too many pauses."""
        self.pauses += 1
        if self.pauses > MOST_PAUSES:
            raise Storm
        await sleep_before(self.pauses)


@dataclass(frozen=True)
class Evidence:
    """Why a record was given up."""

    detail: str
    """For the record's row; it is the same in every run."""
    trials: list[dict[str, Any]]
    disturbed: int
    """Trials that proved nothing."""

    def of(self, *record: object) -> dict[str, Any]:
        """The evidence for the task's record; it differs from run to run."""
        return {"record": list(record), "trials": self.trials, "disturbed_trials": self.disturbed}


async def sleep_before(attempt: int) -> None:
    await asyncio.sleep(min(PAUSE_S * 2 ** (attempt - 1), LONGEST_PAUSE_S))


async def ask_new(task: Task, start: StartWorker, patience: Patience) -> Result:
    """Have a new worker run a task."""
    while True:
        try:
            worker = await start()
            try:
                return await worker.ask(task)
            finally:
                worker.kill()
        except WorkerDied as death:
            patience.record(death)
            if not death.machine_lost:
                raise
            await patience.lost_machine()


async def try_record(
    probe: Task, control: Task, described: str, start: StartWorker, patience: Patience
) -> Evidence | None:
    """Evidence that the one record that `probe` reads kills its worker; None if it does not.

    `described` says what the control is. Raises Storm.
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
    detail = f"killed its worker {times} of {times} times alone ({cause}); {times} of {times} {described} survived"
    return Evidence(detail, [facts for _, facts in counted], disturbed)


async def _trial(
    probe: Task, control: Task, start: StartWorker, patience: Patience, control_first: bool
) -> tuple[WorkerDied, dict[str, Any]] | None:
    """How the record's worker died while the control's worker survived; None if it did not die."""
    clock = asyncio.get_running_loop().time
    begun = clock()
    workers = []
    try:
        workers.append(await start())
        workers.append(await start())
        tried, other = reversed(workers) if control_first else workers
        await other.ask(control)
        try:
            await tried.ask(probe)
            return None
        except WorkerDied as died:
            death = died
        patience.record(death)
        await asyncio.sleep(clock() - begun)
        await other.ask(control)
    except WorkerDied as unrelated:
        patience.record(unrelated)
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
    """Whether a worker crashed, or ran out of memory that it took itself although there was enough."""
    if death.inside or death.machine_lost or not death.reached:
        return death.inside
    free = death.memory.free_bytes if death.memory else None
    took_most = free is not None and death.peak_rss_bytes >= OWN_SHARE * free
    return _is_enough(death.memory) and (death.cause == "MemoryError" or took_most)


def _is_enough(memory: Memory | None) -> bool:
    if memory is None or memory.free_bytes is None or memory.whole_bytes is None:
        return True
    return memory.free_bytes >= FREE_SHARE * memory.whole_bytes
