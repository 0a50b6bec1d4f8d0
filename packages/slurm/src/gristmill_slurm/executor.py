"""The Slurm executor: jobs connect to this process and run tasks until none are left.

Jobs are identical elements of arrays, not bound to tasks: another job takes over the work of a lost one, and a run uses
as many jobs as Slurm gives it. Their number follows from the waiting tasks, up to `jobs`. Tasks are assigned here, by
memory and by the remaining time of a job (`jobs.py` tracks the jobs).

The tasks of a lost job run elsewhere (`machine_lost`), whether it was lost by scancel, a node failure, a preemption or
its time limit. A job that failed, for example because it used too much memory, counts as a death of a worker: a task
that dies twice runs alone in a job, with all of its memory, or in one with the options under `alone`.

Jobs end when this process does. It cancels them when it ends or is stopped. If it is killed, running jobs end with
their connections; waiting ones are cancelled by the next run of the recipe, or end when they cannot connect.
"""

import asyncio
import itertools
import math
import pickle
import secrets
from bisect import insort
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

from gristmill.engine.executors.executor import Begun, StartWorker, WorkerDied
from gristmill.engine.executors.installation import installation
from gristmill.engine.work.needs import HOST_BYTES, declared_for, needs_of, rounded
from gristmill.engine.work.task import Result, Task
from gristmill.errors import UserError
from gristmill.recipe.sections.cluster import ClusterFields
from gristmill.stages.contract import Resources
from gristmill.stages.own_code import Code
from gristmill.store.store import Store
from gristmill_slurm import sbatch
from gristmill_slurm.job import AT, BEAT_S, KEY, MARKS, MODULE, NAME
from gristmill_slurm.jobs import ALONE, MANY, Jobs
from gristmill_slurm.member import Member
from gristmill_slurm.runs import COMMENT, cancel_dead, hosts
from gristmill_slurm.wire import NAME_BYTES, Unproven, accept

MARGIN_S = 30.0
"""A job with less than this many seconds left gets no task, however short tasks of that kind are."""
IDLE_S = 300.0
"""Seconds after which an idle job is ended if there are enough others."""
GATHER_S = 0.1
"""Seconds in which tasks are collected before jobs are requested."""
TIMEOUTS = 2
"""Whole jobs that may time out on one task before it counts as too long for a job."""


@dataclass(order=True)
class _QueuedTask:
    """A task that is not assigned to a job yet."""

    order: tuple[int, ...]
    number: int
    task: Task = field(compare=False)
    memory: int = field(compare=False)
    assigned: asyncio.Future[Member] = field(compare=False)
    kind: str = field(default=MANY, compare=False)
    """The kind of jobs that can run it."""


class SlurmExecutor:
    """Runs tasks in Slurm jobs. A step that declares the needs of its tasks gets jobs of that size."""

    several_machines = True

    def __init__(
        self,
        store: Store,
        workers: int | None,
        modules: Sequence[str] = (),
        code: Code | None = None,
        note: Callable[[str], None] = lambda _: None,
        cluster: ClusterFields | None = None,
        recipe: str = "run",
        begun: Begun = lambda *_: None,
        **_: Any,
    ) -> None:
        sbatch.require()
        self._cluster = cluster or ClusterFields()
        jobs = self._cluster.jobs if workers is None else math.ceil(workers / self._cluster.cpus)
        self.slots = workers or jobs * self._cluster.cpus
        self._store = store
        self._modules = tuple(modules)
        self._code = code or {}
        self._note = note
        self._hear_of_begun = begun
        self._notes: set[str] = set()
        self._name = secrets.token_hex(NAME_BYTES // 2)
        self._secret = secrets.token_bytes(32)
        self._mark = b""
        """The content of a file in the store: the address of this run, and a random number that is not secret."""
        self._jobs = Jobs(self._cluster, f"gristmill-{recipe}", jobs, self._note_once)
        self._members: set[Member] = set()
        self._waiting: list[_QueuedTask] = []
        self._reservations: list[tuple[str, asyncio.Future[Member]]] = []
        """Requests for a job alone, by kind of job."""
        self._alone_now: Counter[str] = Counter()
        self._counter = itertools.count(1)
        self._kind_alone = ALONE if self._cluster.alone else MANY
        self._longest_s: dict[str, float] = {}
        """By step: the longest time that one of its tasks took."""
        self._timeouts: dict[str, int] = {}
        """By task: whole jobs that timed out on it."""
        self._begun: asyncio.Task[None] | None = None
        self._server: asyncio.Server | None = None
        self._background: set[asyncio.Task[None]] = set()
        self._stirred = asyncio.Event()
        self._failure: BaseException | None = None
        self._is_closed = False

    # The interface of an executor

    async def run(self, task: Task) -> Result:
        await self._begin()
        loop = asyncio.get_running_loop()
        needs = needs_of(task.work)
        kind = MANY if declared_for(task.work) is None else self._kind_of(needs)
        waiting = _QueuedTask(task.order, next(self._counter), task, needs.memory, loop.create_future(), kind)
        insort(self._waiting, waiting)
        self._hand_out()
        self._stirred.set()
        try:
            member = await waiting.assigned
        except BaseException:
            with suppress(ValueError):
                self._waiting.remove(waiting)
            if waiting.assigned.done() and not waiting.assigned.cancelled() and waiting.assigned.exception() is None:
                waiting.assigned.result().release(waiting.number)
            raise
        begun = loop.time()
        self._hear_of_begun(task, member.node)
        try:
            result = await member.call("task", pickle.dumps(task))
            assert isinstance(result, Result)
            self._longest_s[task.node] = max(self._longest_s.get(task.node, 0.0), loop.time() - begun)
            return result
        except WorkerDied as death:
            self._count_timeouts(task, member, death)
            raise
        finally:
            member.release(waiting.number)
            self._hand_out()

    def lacks(self, needs: Resources) -> str | None:
        """Slurm itself refuses jobs that are too large for every node."""
        return None

    def _kind_of(self, declared: Resources) -> str:
        """The kind of jobs for tasks with these needs."""
        memory = rounded(declared.memory + HOST_BYTES)
        kind = f"{declared.cores} cores, {memory >> 20} MB, {declared.gpus} GPUs"
        self._jobs.declared.setdefault(kind, declared.model_copy(update={"memory": memory}))
        return kind

    @property
    def _kinds(self) -> list[str]:
        return [*dict.fromkeys((MANY, self._kind_alone)), *self._jobs.declared]

    @asynccontextmanager
    async def alone(self, needs: Resources) -> AsyncIterator[StartWorker]:
        """A job for one task. Other tasks continue in other jobs, which have their own memory."""
        await self._begin()
        held: list[Member] = []
        kind = self._kind_of(needs) if needs.gpus else self._kind_alone

        async def start() -> _Worker:
            if not held or held[-1].is_gone:
                held.append(await self._reserve(kind))
            number = await held[-1].call("start")
            assert isinstance(number, int)
            return _Worker(held[-1], number)

        self._alone_now[kind] += 1
        try:
            yield start
        finally:
            self._alone_now[kind] -= 1
            for member in held:
                if not member.is_gone:
                    member.post("together")
                member.is_reserved = False
            self._hand_out()

    def close(self) -> None:
        if self._is_closed:
            return
        self._is_closed = True
        for task in self._background:
            task.cancel()
        idle = {member.job for member in self._members if member.is_idle}
        for member in self._members:
            member.dismiss()
        if self._server is not None:
            self._server.close()
            self._jobs.cancel(but=idle)
            with suppress(Exception):  # an unwritable store has been reported already
                self._store.remove(f"{MARKS}/{self._name}")

    # Starting

    async def _begin(self) -> None:
        if self._begun is None:
            self._begun = asyncio.create_task(self._open())
        await asyncio.shield(self._begun)
        if self._failure is not None:
            raise self._failure

    async def _open(self) -> None:
        """Listen, write a mark to the store, clean up after dead runs, and start to request jobs."""
        try:
            self._server = await asyncio.start_server(self._admit, "0.0.0.0", self._cluster.port, backlog=1024)
        except OSError as error:
            raise UserError(
                f"Cannot listen for jobs on port {self._cluster.port} ({error.strerror or error}), so nothing was "
                "run. Set another port under cluster in the recipe, or in the profile; 0 uses a free one."
            ) from None
        port = self._server.sockets[0].getsockname()[1]
        addresses = [f"{host}:{port}" for host in hosts(self._cluster.host)]
        self._mark = f"{addresses[0]} {secrets.token_hex(16)}".encode()
        await asyncio.to_thread(self._store.write_file, f"{MARKS}/{self._name}", self._mark)
        useless = await cancel_dead(self._store, self._name, self._jobs.name)
        if useless:
            self._note_once(f"cancelled jobs of a run that was killed: {', '.join(map(str, sorted(useless)))}")
        environment = {AT: ",".join(addresses), NAME: self._name, KEY: self._secret.hex()}
        self._jobs.open(sbatch.script(self._cluster, MODULE), f"{COMMENT}{self._name}@{addresses[0]}", environment)
        for work in (self._supply(), self._beat()):
            self._keep(asyncio.create_task(work))

    def _keep(self, task: asyncio.Task[None]) -> None:
        """Run it in the background; if it fails, the run fails."""
        self._background.add(task)
        task.add_done_callback(self._end)

    def _end(self, task: asyncio.Task[None]) -> None:
        self._background.discard(task)
        failure = None if task.cancelled() else task.exception()
        if failure is not None:
            self._fail(failure)

    def _note_once(self, message: str) -> None:
        """Log a message once: a thousand jobs may send it."""
        if message not in self._notes:
            self._notes.add(message)
            self._note(f"slurm: {message}")

    def _fail(self, failure: BaseException) -> None:
        self._failure = self._failure or failure
        requests = [waiting.assigned for waiting in self._waiting] + [job for _, job in self._reservations]
        for request in requests:
            if not request.done():
                request.set_exception(self._failure)

    # Adding and removing jobs

    async def _supply(self) -> None:
        """Watch the jobs, and request missing ones, as long as the run continues."""
        while True:
            self._stirred.clear()
            await asyncio.sleep(GATHER_S)
            await self._jobs.poll({member.job for member in self._members})
            self._end_idle()
            await self._jobs.order({kind: self._wanted(kind) for kind in self._kinds})
            for member in list(self._members):
                self._jobs.update_time(member)
            self._hand_out()
            with suppress(TimeoutError):
                async with asyncio.timeout(self._jobs.pause_s()):
                    await self._stirred.wait()

    def _wanted(self, kind: str) -> int:
        """The number of jobs of a kind that there is work for."""
        alone = self._alone_now[kind]
        if kind == ALONE:
            return alone
        tasks = sum(waiting.kind == kind for waiting in self._waiting)
        tasks += sum(len(member.held) for member in self._members if member.kind == kind)
        at_once = 1 if kind in self._jobs.declared else self._cluster.cpus
        return min(self._jobs.most, math.ceil(tasks / at_once) + alone)

    def _end_idle(self) -> None:
        now = asyncio.get_running_loop().time()
        for kind in self._kinds:
            of_kind = [member for member in self._members if member.kind == kind]
            surplus = len(of_kind) - self._wanted(kind)
            for member in of_kind:
                patience_s = 0.0 if kind == ALONE else IDLE_S
                if surplus > 0 and member.is_idle and now - member.idle_since > patience_s:
                    surplus -= 1
                    self._dismiss(member)

    def _dismiss(self, member: Member) -> None:
        self._members.discard(member)
        self._jobs.dismissed(member.job)
        member.dismiss()

    async def _beat(self) -> None:
        while True:
            await asyncio.sleep(BEAT_S)
            for member in list(self._members):
                member.beat(self._jobs.has_ended(member.job))

    def _admit(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._keep(asyncio.create_task(self._attend(reader, writer)))

    async def _attend(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Handle the connection of a job, from its first message to its last."""
        try:
            wire = await accept(reader, writer, self._name, self._secret)
            member = Member(wire, await wire.receive())
            if member.kind in self._jobs.declared:
                member.slots = 1
        except (Unproven, EOFError):
            writer.close()
            return
        about = (self._store.uri, self._mark, self._modules, self._code, installation())
        member.send(0, "welcome", *about)
        try:
            while True:
                said, *rest = await member.hear()
                if said == "ready":
                    self._jobs.reported(member.job)
                    self._jobs.update_time(member)
                    self._members.add(member)
                    self._hand_out()
                elif said == "answer":
                    member.answered(*rest)
                elif said == "note":
                    self._note_once(rest[0])
                elif said == "unfit":
                    self._fail(UserError(f"Node {member.node} {rest[0]}, and run again."))
                elif said == "leaving":
                    member.said_why = "Slurm ended it"
                    self._jobs.left(member.job)
        except EOFError:
            pass
        finally:
            writer.close()
            self._members.discard(member)
            if not self._is_closed and not member.is_gone:
                self._keep(asyncio.create_task(self._mourn(member)))

    async def _mourn(self, member: Member) -> None:
        """Report the fate of a lost job to its tasks."""
        self._jobs.hurry()
        self._stirred.set()
        state = await self._jobs.fate(member)
        member.lose(state)
        self._hand_out()
        self._stirred.set()

    def _count_timeouts(self, task: Task, member: Member, death: WorkerDied) -> None:
        """Give up a task that used the whole time of several jobs: it would use that of every job."""
        if member.ran_out and member.done == 0:
            self._timeouts[task.key] = self._timeouts.get(task.key, 0) + 1
            if self._timeouts[task.key] >= TIMEOUTS:
                raise UserError(
                    f"{task.node}, {task.label}: it did not finish within the time of a whole job, {TIMEOUTS} times. "
                    "It was not stored; finished tasks are kept. Give jobs more time (sbatch: {time: ...} "
                    "under cluster in the recipe, or in the profile), or make parts smaller, and run again."
                ) from death

    # Assigning tasks to jobs

    async def _reserve(self, kind: str) -> Member:
        """A job without other tasks."""
        job: asyncio.Future[Member] = asyncio.get_running_loop().create_future()
        self._reservations.append((kind, job))
        self._hand_out()
        self._stirred.set()
        try:
            return await job
        finally:
            if (kind, job) in self._reservations:
                self._reservations.remove((kind, job))

    def _hand_out(self) -> None:
        """Assign tasks, in order, to jobs with enough memory and time. Requests for a job alone come first.

        A task that does not fit blocks those after it, so that a large one is not delayed forever. A task that needs
        more time than any job has left does not block others.
        """
        if self._is_closed or self._failure is not None:
            return
        self._give_alone()
        for kind in self._kinds:
            self._hand_out_to(kind)

    def _hand_out_to(self, kind: str) -> None:
        free = [member for member in self._members if member.has_slot and member.kind == kind]
        at = 0
        while free and at < len(self._waiting):
            waiting = self._waiting[at]
            if waiting.kind != kind:
                at += 1
                continue
            if waiting.assigned.done():
                del self._waiting[at]
                continue
            needed_s = max(self._longest_s.get(waiting.task.node, 0.0), MARGIN_S)
            in_time = [member for member in free if member.has_time(needed_s)]
            fitting = [member for member in in_time if member.has_room(waiting.memory)]
            if fitting:
                chosen = max(fitting, key=lambda member: (member.slots - len(member.held), member.node))
                self._warn_of_memory(waiting, chosen)
                chosen.hold(waiting.number, waiting.memory)
                waiting.assigned.set_result(chosen)
                del self._waiting[at]
                if not chosen.has_slot:
                    free.remove(chosen)
                continue
            if in_time:
                break
            at += 1
            for member in free:
                if member.is_idle:
                    self._dismiss(member)  # a new job with its full time replaces it
            free = [member for member in free if not member.is_gone]

    def _give_alone(self) -> None:
        for kind, job in list(self._reservations):
            candidates = [member for member in self._members if member.kind == kind and not member.is_reserved]
            if job.done() or not candidates:
                continue
            chosen = min(candidates, key=lambda member: len(member.held))
            if not chosen.held:
                chosen.is_reserved = True
                job.set_result(chosen)
                self._reservations.remove((kind, job))
            else:
                for member in candidates:
                    member.is_draining = member is chosen

    def _warn_of_memory(self, waiting: _QueuedTask, member: Member) -> None:
        if member.memory is not None and waiting.memory > member.memory:
            self._note_once(
                f"{waiting.task.node}: a task may need {waiting.memory / 1e9:.1f} GB, but jobs have "
                f"{member.memory / 1e9:.1f} GB, so it runs alone in a job. To give jobs more, set mem under sbatch"
            )


@dataclass
class _Worker:
    """A process in a job that does nothing else."""

    member: Member
    number: int

    async def ask(self, task: Task) -> Result:
        result = await self.member.call("ask", self.number, pickle.dumps(task))
        assert isinstance(result, Result)
        return result

    def kill(self) -> None:
        if not self.member.is_gone:
            self.member.post("kill", self.number)
