"""The jobs that a run asked Slurm for: how many there are, what became of them, and when more are asked for."""

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
"""Options of sbatch that say how large a job is."""
FIRST_LOOK_S, LONGEST_LOOK_S = 0.25, 30.0
"""Seconds between looks at the queue: twice as many each time, and the first again when something changed."""
STILLBORN = 3
"""Jobs in a row that may end before they report for work."""
PENDING_S = 60.0
"""Seconds without any job after which it is told that they wait; told again each time that it is twice as long."""
BUSY_S = 300.0
"""Seconds that Slurm may take no job, and none runs, before the run stops."""
FATE_S = 15.0
"""Seconds that it is waited for how a job ended whose connection did."""
NO_FAULT = {"CANCELLED", "PREEMPTED", "NODE_FAIL", "REVOKED", "DEADLINE"}
"""States of a job that was ended and did not fail."""
MORE_PAUSES_S = (10.0, 600.0)
"""Seconds that no job is asked for after some ended at once, beside others that work: the first pause, the longest."""


@dataclass
class _Asked:
    """One job."""

    kind: str
    since: float
    state: str = "PENDING"
    node: str = ""
    left_s: float = math.inf
    reason: str = ""
    is_over: bool = False


class Jobs:
    """All jobs of a run."""

    def __init__(self, cluster: ClusterFields, name: str, most: int, tell: Callable[[str], None]) -> None:
        self.name = name
        self.most = most
        self.declared: dict[str, Resources] = {}
        """Kinds of jobs that do one task at a time, of steps that declare what a task needs."""
        self._cluster = cluster
        self._tell = tell
        self._text = self._comment = ""
        self._environment: Mapping[str, str] = {}
        self._asked: dict[str, _Asked] = {}
        """By id."""
        self._reported: set[str] = set()
        self._looked = asyncio.Event()
        """Done, and replaced, with every look."""
        self._clock: Callable[[], float] = lambda: 0.0
        self._pause = FIRST_LOOK_S
        self._next_look = 0.0
        self._max_array = 0
        self._stillborn: list[str] = []
        self._not_before = 0.0
        self._failures = 0
        self._busy_since: float | None = None
        self._alive_since = 0.0
        self._next_told_s = PENDING_S
        self._is_closed = False

    def open(self, text: str, comment: str, environment: Mapping[str, str]) -> None:
        """From here on jobs may be asked for: with this script, comment and environment."""
        self._text, self._comment, self._environment = text, comment, environment
        self._clock = asyncio.get_running_loop().time
        self._alive_since = self._clock()

    def pause_s(self) -> float:
        """Seconds until the next look."""
        return max(self._next_look - self._clock(), 0.0)

    def hurry(self) -> None:
        """Something changed: look soon."""
        self._pause = FIRST_LOOK_S
        self._next_look = min(self._next_look, self._clock() + self._pause)

    def cancel(self, but: Set[str]) -> None:
        """Take back all that are not over, and those that are just being asked for; `but` end by themselves."""
        self._is_closed = True
        alive = {job for job, asked in list(self._asked.items()) if not asked.is_over}
        whole = {job.partition("_")[0] for job in alive} - {job.partition("_")[0] for job in but}
        sbatch.cancel(whole | {job for job in alive - but if job.partition("_")[0] not in whole})

    # What became of them

    async def look(self, members: Set[str]) -> None:
        """Ask Slurm; `members` are those that work. Raises UserError where jobs end at once, again and again."""
        if self.pause_s() > 0 or not self._asked:
            return
        found = await asyncio.to_thread(sbatch.jobs_of, self.name)
        now = self._clock()
        self._next_look = now + self._pause
        self._pause = min(2 * self._pause, LONGEST_LOOK_S)
        if found is None:
            return
        stillborn = len(self._stillborn)
        for job, asked in self._asked.items():
            seen = found.get(job)
            if not asked.is_over and (seen is not None or now - asked.since > LONGEST_LOOK_S):
                self._see(job, asked, seen)
        self._looked.set()
        self._looked = asyncio.Event()
        if members:
            self._alive_since, self._next_told_s = now, PENDING_S
        else:
            self._tell_pending(now - self._alive_since)
        if len(self._stillborn) >= STILLBORN and len(self._stillborn) > stillborn:
            failure = await asyncio.to_thread(self._stop)
            if not members:
                raise failure
            self._tell(f"{failure} Others work, so some are asked for later.")

    def _see(self, job: str, asked: _Asked, seen: Job | None) -> None:
        if seen is not None:
            asked.state, asked.node, asked.left_s, asked.reason = seen.state, seen.node, seen.left_s, seen.reason
        if seen is None or seen.ended:
            asked.is_over = True
            if seen is not None and job not in self._reported and seen.state not in NO_FAULT:
                self._stillborn.append(job)
                self._failures += 1
                first, longest = MORE_PAUSES_S
                self._not_before = self._clock() + min(first * 2 ** (self._failures - 1), longest)

    def _stop(self) -> UserError:
        job = self._stillborn[-1]
        asked = self._asked[job]
        return UserError(
            f"{counted(len(self._stillborn), 'job')} of Slurm ended before they did anything (the last, {job}, on "
            f"{asked.node or 'no node'}: {asked.state}), so no more are asked for; what is finished is kept. Mend what "
            "the log says: setup and python under cluster in the recipe, or in the profile, must give a Python that "
            f"has Gristmill. {sbatch.log_of(job)}"
        )

    def _tell_pending(self, since_s: float) -> None:
        waiting = [asked for asked in self._asked.values() if not asked.is_over and asked.state in sbatch.WAITS]
        if waiting and since_s >= self._next_told_s:
            reasons = ", ".join(sorted({asked.reason for asked in waiting if asked.reason not in ("", "None")}))
            self._tell(
                f"no job runs, and {len(waiting):,} in the queue, for {since_s / 60:.0f} min now"
                f"{f' ({reasons})' if reasons else ''}; squeue --me -n {self.name} shows them"
            )
            self._next_told_s = 2 * since_s

    def reported(self, job: str) -> None:
        """A job is there and can work."""
        self._stillborn.clear()
        self._reported.add(job)
        asked = self._asked.get(job)
        if asked is not None:
            asked.is_over, asked.state = False, "RUNNING"

    def tell_time(self, member: Member) -> None:
        """Tell a job what is left of its time."""
        asked = self._asked.get(member.job)
        if asked is not None and asked.left_s < math.inf:
            member.set_time(asked.left_s)
            asked.left_s = math.inf

    def left(self, job: str) -> None:
        """A job ends because it was told to; unless Slurm may queue it again, another can be asked for at once."""
        if not self._cluster.sbatch.get("requeue"):
            self.dismissed(job)

    def dismissed(self, job: str) -> None:
        asked = self._asked.get(job)
        if asked is not None:
            asked.is_over = True

    def has_ended(self, job: str) -> bool:
        asked = self._asked.get(job)
        return asked is not None and asked.is_over

    async def fate(self, member: Member) -> str:
        """The state that a job has come to whose connection ended, at the next looks; one that said why is believed."""
        asked = self._asked.get(member.job)
        if asked is None or member.said_why:
            return ""
        with suppress(TimeoutError):
            async with asyncio.timeout(FATE_S):
                while not asked.is_over and asked.state not in sbatch.WAITS:
                    await self._looked.wait()
        return asked.state

    # More of them

    async def order(self, wanted: Mapping[str, int]) -> None:
        """Ask for the jobs of each kind that are lacking. Raises UserError where Slurm refuses them."""
        if self._clock() < self._not_before and len(self._stillborn) >= STILLBORN:
            return
        for kind, count in wanted.items():
            there = sum(asked.kind == kind and not asked.is_over for asked in self._asked.values())
            if count > there:
                await asyncio.to_thread(self._submit, kind, count - there)

    def options_of(self, kind: str) -> dict[str, Value]:
        """Options of sbatch for jobs of a kind: what their tasks declare takes the place of what the recipe says."""
        if (needs := self.declared.get(kind)) is None:
            return {**self._cluster.sbatch, **(self._cluster.alone if kind == ALONE else {})}
        own = {name: value for name, value in self._cluster.sbatch.items() if name not in SIZES}
        own |= {"cpus-per-task": needs.cores, "mem": f"{needs.memory >> 20}M"}
        return own | ({"gres": f"gpu:{needs.gpus}"} if needs.gpus else {})

    def _submit(self, kind: str, count: int) -> None:
        """In a thread. What was asked for while everything ended is taken back at once."""
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
            self._asked |= {f"{array}_{index}": _Asked(kind, now) for index in range(some)}
            self.hurry()

    def _wait_for_slurm(self, said: str) -> None:
        now = self._clock()
        self._busy_since = self._busy_since or now
        self._tell(f"no job can be submitted now ({said}); trying again")
        if now - self._busy_since > BUSY_S and all(asked.is_over for asked in self._asked.values()):
            raise UserError(
                f"Slurm has taken no job for {BUSY_S / 60:.0f} minutes ({said}), and none runs. What is finished is "
                "kept. Run again when it does, or ask for fewer jobs, or less of them, under cluster in the recipe, or "
                "in the profile."
            )
