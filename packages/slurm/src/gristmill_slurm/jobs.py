"""The Slurm jobs of a run: their number, their states, and when more are requested."""

import asyncio
import math
from collections.abc import Callable, Mapping, Set
from contextlib import suppress
from dataclasses import dataclass

from gristmill.counted import counted
from gristmill.errors import UserError
from gristmill.recipe.sections.cluster import ClusterFields, Value
from gristmill.stages.contract import Resources
from gristmill_slurm import sbatch
from gristmill_slurm.job import KIND
from gristmill_slurm.member import Member
from gristmill_slurm.sbatch import Busy, Job

ALONE, MANY = "alone", "many"
"""Kinds of jobs."""
SIZES = ("cpus-per-task", "mem", "gres", "mem-per-cpu", "mem-per-gpu", "cpus-per-gpu", "gpus", "gpus-per-node")
"""Options of sbatch that set the size of a job."""
FIRST_POLL_S, LONGEST_POLL_S = 0.25, 30.0
"""Seconds between polls of the queue: doubled each time, and reset when something changed."""
STILLBORN = 3
"""Jobs in a row that may end before they connect."""
PENDING_S = 60.0
"""Seconds without a running job after which a note says that jobs wait; repeated when the time has doubled."""
BUSY_S = 300.0
"""Seconds that Slurm may accept no job, while none runs, before the run stops."""
FATE_S = 15.0
"""Seconds to wait for the final state of a job whose connection ended."""
NO_FAULT = {"CANCELLED", "PREEMPTED", "NODE_FAIL", "REVOKED", "DEADLINE"}
"""States of a job that was ended but did not fail."""
MORE_PAUSES_S = (10.0, 600.0)
"""Seconds without new requests after jobs ended at once while others work: the first pause, the longest."""


@dataclass
class _JobState:
    """The state of one job."""

    kind: str
    since: float
    state: str = "PENDING"
    node: str = ""
    left_s: float = math.inf
    reason: str = ""
    is_over: bool = False


class Jobs:
    """All jobs of a run."""

    def __init__(self, cluster: ClusterFields, name: str, most: int, note: Callable[[str], None]) -> None:
        self.name = name
        self.most = most
        self.declared: dict[str, Resources] = {}
        """Kinds of jobs that run one task at a time, for steps that declare what a task needs."""
        self._cluster = cluster
        self._note = note
        self._text = self._comment = ""
        self._environment: Mapping[str, str] = {}
        self._entries: dict[str, _JobState] = {}
        """States by job id."""
        self._reported: set[str] = set()
        self._polled = asyncio.Event()
        """Set, and replaced, after every poll."""
        self._clock: Callable[[], float] = lambda: 0.0
        self._pause = FIRST_POLL_S
        self._next_poll = 0.0
        self._max_array = 0
        self._stillborn: list[str] = []
        self._not_before = 0.0
        self._failures = 0
        self._busy_since: float | None = None
        self._alive_since = 0.0
        self._next_note_s = PENDING_S
        self._is_closed = False

    def open(self, text: str, comment: str, environment: Mapping[str, str]) -> None:
        """Allow requests for jobs, with this script, comment and environment."""
        self._text, self._comment, self._environment = text, comment, environment
        self._clock = asyncio.get_running_loop().time
        self._alive_since = self._clock()

    def pause_s(self) -> float:
        """Seconds until the next poll."""
        return max(self._next_poll - self._clock(), 0.0)

    def hurry(self) -> None:
        """Poll soon, because something changed."""
        self._pause = FIRST_POLL_S
        self._next_poll = min(self._next_poll, self._clock() + self._pause)

    def cancel(self, but: Set[str]) -> None:
        """Cancel all jobs that are not over, and those being submitted; `but` end on their own."""
        self._is_closed = True
        alive = {job for job, entry in list(self._entries.items()) if not entry.is_over}
        whole = {job.partition("_")[0] for job in alive} - {job.partition("_")[0] for job in but}
        sbatch.cancel(whole | {job for job in alive - but if job.partition("_")[0] not in whole})

    # States of jobs

    async def poll(self, members: Set[str]) -> None:
        """Query Slurm; `members` are the connected jobs. Raises UserError if jobs keep ending at once."""
        if self.pause_s() > 0 or not self._entries:
            return
        found = await asyncio.to_thread(sbatch.jobs_of, self.name)
        now = self._clock()
        self._next_poll = now + self._pause
        self._pause = min(2 * self._pause, LONGEST_POLL_S)
        if found is None:
            return
        stillborn = len(self._stillborn)
        for job, entry in self._entries.items():
            seen = found.get(job)
            if not entry.is_over and (seen is not None or now - entry.since > LONGEST_POLL_S):
                self._see(job, entry, seen)
        self._polled.set()
        self._polled = asyncio.Event()
        if members:
            self._alive_since, self._next_note_s = now, PENDING_S
        else:
            self._note_pending(now - self._alive_since)
        if len(self._stillborn) >= STILLBORN and len(self._stillborn) > stillborn:
            failure = await asyncio.to_thread(self._stop)
            if not members:
                raise failure
            self._note(f"{failure} Other jobs work, so more are requested later.")

    def _see(self, job: str, entry: _JobState, seen: Job | None) -> None:
        if seen is not None:
            entry.state, entry.node, entry.left_s, entry.reason = seen.state, seen.node, seen.left_s, seen.reason
        if seen is None or seen.ended:
            entry.is_over = True
            if seen is not None and job not in self._reported and seen.state not in NO_FAULT:
                self._stillborn.append(job)
                self._failures += 1
                first, longest = MORE_PAUSES_S
                self._not_before = self._clock() + min(first * 2 ** (self._failures - 1), longest)

    def _stop(self) -> UserError:
        job = self._stillborn[-1]
        entry = self._entries[job]
        return UserError(
            f"{counted(len(self._stillborn), 'Slurm job')} ended before they did anything (the last, {job}, on "
            f"{entry.node or 'no node'}: {entry.state}), so no more are requested. Finished tasks are kept. See the "
            "log: setup and python under cluster in the recipe, or in the profile, must give a Python with "
            f"Gristmill. {sbatch.log_of(job)}"
        )

    def _note_pending(self, since_s: float) -> None:
        waiting = [entry for entry in self._entries.values() if not entry.is_over and entry.state in sbatch.WAITS]
        if waiting and since_s >= self._next_note_s:
            reasons = ", ".join(sorted({entry.reason for entry in waiting if entry.reason not in ("", "None")}))
            self._note(
                f"no job has run for {since_s / 60:.0f} min; {len(waiting):,} in the queue"
                f"{f' ({reasons})' if reasons else ''}; squeue --me -n {self.name} shows them"
            )
            self._next_note_s = 2 * since_s

    def reported(self, job: str) -> None:
        """Record that a job has connected and can work."""
        self._stillborn.clear()
        self._reported.add(job)
        entry = self._entries.get(job)
        if entry is not None:
            entry.is_over, entry.state = False, "RUNNING"

    def update_time(self, member: Member) -> None:
        """Set the remaining time of a job."""
        entry = self._entries.get(member.job)
        if entry is not None and entry.left_s < math.inf:
            member.set_time(entry.left_s)
            entry.left_s = math.inf

    def left(self, job: str) -> None:
        """Record that Slurm ended a job. Unless it may be requeued, another one can be requested at once."""
        if not self._cluster.sbatch.get("requeue"):
            self.dismissed(job)

    def dismissed(self, job: str) -> None:
        entry = self._entries.get(job)
        if entry is not None:
            entry.is_over = True

    def has_ended(self, job: str) -> bool:
        entry = self._entries.get(job)
        return entry is not None and entry.is_over

    async def fate(self, member: Member) -> str:
        """The final state of a job whose connection ended, from the next polls; empty if it reported why."""
        entry = self._entries.get(member.job)
        if entry is None or member.said_why:
            return ""
        with suppress(TimeoutError):
            async with asyncio.timeout(FATE_S):
                while not entry.is_over and entry.state not in sbatch.WAITS:
                    await self._polled.wait()
        return entry.state

    # Requesting jobs

    async def order(self, wanted: Mapping[str, int]) -> None:
        """Request the missing jobs of each kind. Raises UserError if Slurm refuses them."""
        if self._clock() < self._not_before and len(self._stillborn) >= STILLBORN:
            return
        for kind, count in wanted.items():
            there = sum(entry.kind == kind and not entry.is_over for entry in self._entries.values())
            if count > there:
                await asyncio.to_thread(self._submit, kind, count - there)

    def options_of(self, kind: str) -> dict[str, Value]:
        """Options of sbatch for jobs of a kind. Declared needs of tasks override those in the recipe."""
        if (needs := self.declared.get(kind)) is None:
            return {**self._cluster.sbatch, **(self._cluster.alone if kind == ALONE else {})}
        own = {name: value for name, value in self._cluster.sbatch.items() if name not in SIZES}
        own |= {"cpus-per-task": needs.cores, "mem": f"{needs.memory >> 20}M"}
        return own | ({"gres": f"gpu:{needs.gpus}"} if needs.gpus else {})

    def _submit(self, kind: str, count: int) -> None:
        """Submit jobs, in a thread. Jobs submitted while everything ends are cancelled at once."""
        self._max_array = self._max_array or sbatch.max_array()
        options = self.options_of(kind)
        environment = {**self._environment, KIND: kind}
        for some in sbatch.split(count, self._max_array):
            if self._is_closed:
                return
            try:
                array = sbatch.submit(self._text, options, self.name, self._comment, some, environment)
            except Busy as busy:
                self._wait_for_slurm(str(busy))
                return
            self._busy_since = None
            if self._is_closed:
                sbatch.cancel({array})
                return
            now = self._clock()
            self._entries |= {f"{array}_{index}": _JobState(kind, now) for index in range(some)}
            self.hurry()

    def _wait_for_slurm(self, reason: str) -> None:
        now = self._clock()
        self._busy_since = self._busy_since or now
        self._note(f"no job can be submitted now ({reason}); trying again")
        if now - self._busy_since > BUSY_S and all(entry.is_over for entry in self._entries.values()):
            raise UserError(
                f"Slurm has accepted no job for {BUSY_S / 60:.0f} minutes ({reason}), and none runs. Finished tasks "
                "are kept. Run again later, or request fewer or smaller jobs under cluster in the recipe, or "
                "in the profile."
            )
