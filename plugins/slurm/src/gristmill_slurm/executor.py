"""The Slurm executor: jobs that dial this process and do tasks until none are left.

Jobs are elements of arrays, all the same, and bound to no task: one that is lost is another one's work, and a run takes
whatever number of them Slurm gives it at a time. How many there are follows from the tasks that wait, up to `jobs`. Who
gets which task is decided here (`jobs.py` knows the jobs), by memory and by the rest of a job's time.

A job that goes takes its tasks with it, and they are done elsewhere (`machine_lost`), whatever took it: scancel, a
node, a preemption, its time limit. One that failed, as when Slurm ends it for its memory, did not vanish: that is a
death like others, and a task that dies so twice is done alone in a job, with all that this has, or in one with the
options under `alone`.

Jobs end when this process does. It cancels them when it ends or is stopped; when it is killed, those that run end with
their connections, and those that wait are cancelled by the next run of the recipe, or find nobody there and end.
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

from gristmill.engine.executors.executor import StartWorker, WorkerDied
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
"""Seconds of a job's time within which it is given no task, however short tasks of that kind are."""
IDLE_S = 300.0
"""Seconds after which a job without a task, beside enough others, is sent away."""
GATHER_S = 0.1
"""Seconds in which tasks come together before jobs are asked for."""
TIMEOUTS = 2
"""Whole jobs that may pass over one task before it is taken to need more time than a job has."""


@dataclass(order=True)
class _Waiting:
    """A task that no job has yet."""

    order: tuple[int, ...]
    number: int
    task: Task = field(compare=False)
    memory: int = field(compare=False)
    place: asyncio.Future[Member] = field(compare=False)
    kind: str = field(default=MANY, compare=False)
    """Of the jobs that can do it."""


class SlurmExecutor:
    """Runs tasks in jobs of Slurm. A step that declares what its tasks need has jobs of that size."""

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
        self._told: set[str] = set()
        self._name = secrets.token_hex(NAME_BYTES // 2)
        self._secret = secrets.token_bytes(32)
        self._mark = b""
        """What lies in the store: where this run listens, and what cannot be guessed and is no secret."""
        self._jobs = Jobs(self._cluster, f"gristmill-{recipe}", jobs, self._tell)
        self._members: set[Member] = set()
        self._waiting: list[_Waiting] = []
        self._reservations: list[tuple[str, asyncio.Future[Member]]] = []
        """The kind of job that somebody waits to have alone."""
        self._alone_now: Counter[str] = Counter()
        self._counter = itertools.count(1)
        self._kind_alone = ALONE if self._cluster.alone else MANY
        self._longest_s: dict[str, float] = {}
        """By step: the longest that one of its tasks took."""
        self._timeouts: dict[str, int] = {}
        """By task: whole jobs whose time ended over it."""
        self._begun: asyncio.Task[None] | None = None
        self._server: asyncio.Server | None = None
        self._background: set[asyncio.Task[None]] = set()
        self._stirred = asyncio.Event()
        self._failure: BaseException | None = None
        self._is_closed = False

    # What an executor does

    async def run(self, task: Task) -> Result:
        await self._begin()
        loop = asyncio.get_running_loop()
        needs = needs_of(task.work)
        kind = MANY if declared_for(task.work) is None else self._kind_of(needs)
        waiting = _Waiting(task.order, next(self._counter), task, needs.memory, loop.create_future(), kind)
        insort(self._waiting, waiting)
        self._hand_out()
        self._stirred.set()
        try:
            member = await waiting.place
        except BaseException:
            with suppress(ValueError):
                self._waiting.remove(waiting)
            if waiting.place.done() and not waiting.place.cancelled() and waiting.place.exception() is None:
                waiting.place.result().release(waiting.number)
            raise
        begun = loop.time()
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
        """Slurm itself refuses jobs that no node is large enough for."""
        return None

    def _kind_of(self, declared: Resources) -> str:
        """The jobs for tasks that need that much."""
        memory = rounded(declared.memory + HOST_BYTES)
        kind = f"{declared.cores} cores, {memory >> 20} MB, {declared.gpus} GPUs"
        self._jobs.declared.setdefault(kind, declared.model_copy(update={"memory": memory}))
        return kind

    @property
    def _kinds(self) -> list[str]:
        return [*dict.fromkeys((MANY, self._kind_alone)), *self._jobs.declared]

    @asynccontextmanager
    async def alone(self, needs: Resources) -> AsyncIterator[StartWorker]:
        """A job for one task. Others go on in other jobs: they have memory of their own."""
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
            with suppress(Exception):  # a store that cannot be written has been told of
                self._store.remove(f"{MARKS}/{self._name}")

    # The beginning

    async def _begin(self) -> None:
        if self._begun is None:
            self._begun = asyncio.create_task(self._open())
        await asyncio.shield(self._begun)
        if self._failure is not None:
            raise self._failure

    async def _open(self) -> None:
        """Listen, leave a mark in the store, take away what dead runs left, and begin to ask for jobs."""
        try:
            self._server = await asyncio.start_server(self._admit, "0.0.0.0", self._cluster.port, backlog=1024)
        except OSError as error:
            raise UserError(
                f"Jobs cannot be listened for at port {self._cluster.port} ({error.strerror or error}), so nothing was "
                "run. Set another port under cluster in the recipe, or in the profile; 0 takes one that is free."
            ) from None
        port = self._server.sockets[0].getsockname()[1]
        places = [f"{host}:{port}" for host in hosts(self._cluster.host)]
        self._mark = f"{places[0]} {secrets.token_hex(16)}".encode()
        await asyncio.to_thread(self._store.write_file, f"{MARKS}/{self._name}", self._mark)
        useless = await cancel_dead(self._store, self._name, self._jobs.name)
        if useless:
            self._tell(f"cancelled what was left of a run that was killed: {', '.join(map(str, sorted(useless)))}")
        environment = {AT: ",".join(places), NAME: self._name, KEY: self._secret.hex()}
        self._jobs.open(sbatch.script(self._cluster, MODULE), f"{COMMENT}{self._name}@{places[0]}", environment)
        for work in (self._supply(), self._beat()):
            self._keep(asyncio.create_task(work))

    def _keep(self, task: asyncio.Task[None]) -> None:
        """Let it go on beside the run, which fails where it does."""
        self._background.add(task)
        task.add_done_callback(self._end)

    def _end(self, task: asyncio.Task[None]) -> None:
        self._background.discard(task)
        failure = None if task.cancelled() else task.exception()
        if failure is not None:
            self._fail(failure)

    def _tell(self, message: str) -> None:
        """The same only once: a thousand jobs may say it."""
        if message not in self._told:
            self._told.add(message)
            self._note(f"slurm: {message}")

    def _fail(self, failure: BaseException) -> None:
        self._failure = self._failure or failure
        places = [waiting.place for waiting in self._waiting] + [place for _, place in self._reservations]
        for place in places:
            if not place.done():
                place.set_exception(self._failure)

    # Jobs come and go

    async def _supply(self) -> None:
        """Look after the jobs, and ask for those that are lacking, as long as the run goes on."""
        while True:
            self._stirred.clear()
            await asyncio.sleep(GATHER_S)
            await self._jobs.look({member.job for member in self._members})
            self._send_idle_away()
            await self._jobs.order({kind: self._wanted(kind) for kind in self._kinds})
            for member in list(self._members):
                self._jobs.tell_time(member)
            self._hand_out()
            with suppress(TimeoutError):
                async with asyncio.timeout(self._jobs.pause_s()):
                    await self._stirred.wait()

    def _wanted(self, kind: str) -> int:
        """How many jobs of a kind there is work for."""
        alone = self._alone_now[kind]
        if kind == ALONE:
            return alone
        tasks = sum(waiting.kind == kind for waiting in self._waiting)
        tasks += sum(len(member.held) for member in self._members if member.kind == kind)
        at_once = 1 if kind in self._jobs.declared else self._cluster.cpus
        return min(self._jobs.most, math.ceil(tasks / at_once) + alone)

    def _send_idle_away(self) -> None:
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
        """A job, from its first word to its last."""
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
                    self._jobs.tell_time(member)
                    self._members.add(member)
                    self._hand_out()
                elif said == "answer":
                    member.answered(*rest)
                elif said == "note":
                    self._tell(rest[0])
                elif said == "unfit":
                    self._fail(UserError(f"Node {member.node} {rest[0]}, and run again."))
                elif said == "leaving":
                    member.said_why = "it was told to end"
                    self._jobs.left(member.job)
        except EOFError:
            pass
        finally:
            writer.close()
            self._members.discard(member)
            if not self._is_closed and not member.is_gone:
                self._keep(asyncio.create_task(self._mourn(member)))

    async def _mourn(self, member: Member) -> None:
        """Tell those whose tasks a job had what became of it."""
        self._jobs.hurry()
        self._stirred.set()
        state = await self._jobs.fate(member)
        member.lose(state)
        self._hand_out()
        self._stirred.set()

    def _count_timeouts(self, task: Task, member: Member, death: WorkerDied) -> None:
        """A task that takes a job's whole time, more than once, would take that of every job."""
        if member.ran_out and member.done == 0:
            self._timeouts[task.key] = self._timeouts.get(task.key, 0) + 1
            if self._timeouts[task.key] >= TIMEOUTS:
                raise UserError(
                    f"{task.node}, {task.label}: the whole time of a job was not enough for it, {TIMEOUTS} times. "
                    "Nothing of it was stored, and what is finished is kept. Give jobs more time (sbatch: {time: ...} "
                    "under cluster in the recipe, or in the profile), or make parts smaller, and run again."
                ) from death

    # Tasks and jobs meet

    async def _reserve(self, kind: str) -> Member:
        """A job that is at nothing else."""
        place: asyncio.Future[Member] = asyncio.get_running_loop().create_future()
        self._reservations.append((kind, place))
        self._hand_out()
        self._stirred.set()
        try:
            return await place
        finally:
            if (kind, place) in self._reservations:
                self._reservations.remove((kind, place))

    def _hand_out(self) -> None:
        """Give tasks, in order, to jobs that have room and time for them; first, jobs to those that want one alone.

        A task that finds no room holds up those behind it, so that a large one is not passed over for ever. One that
        needs more time than any job has left holds up nobody.
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
            if waiting.place.done():
                del self._waiting[at]
                continue
            needed_s = max(self._longest_s.get(waiting.task.node, 0.0), MARGIN_S)
            in_time = [member for member in free if member.has_time(needed_s)]
            fitting = [member for member in in_time if member.has_room(waiting.memory)]
            if fitting:
                chosen = max(fitting, key=lambda member: (member.slots - len(member.held), member.node))
                self._warn_of_memory(waiting, chosen)
                chosen.hold(waiting.number, waiting.memory)
                waiting.place.set_result(chosen)
                del self._waiting[at]
                if not chosen.has_slot:
                    free.remove(chosen)
                continue
            if in_time:
                break
            at += 1
            for member in free:
                if member.is_idle:
                    self._dismiss(member)  # another takes its place, with all its time
            free = [member for member in free if not member.is_gone]

    def _give_alone(self) -> None:
        for kind, place in list(self._reservations):
            candidates = [member for member in self._members if member.kind == kind and not member.is_reserved]
            if place.done() or not candidates:
                continue
            chosen = min(candidates, key=lambda member: len(member.held))
            if not chosen.held:
                chosen.is_reserved = True
                place.set_result(chosen)
                self._reservations.remove((kind, place))
            else:
                for member in candidates:
                    member.is_draining = member is chosen

    def _warn_of_memory(self, waiting: _Waiting, member: Member) -> None:
        if member.memory is not None and waiting.memory > member.memory:
            self._tell(
                f"{waiting.task.node}: a task may need {waiting.memory / 1e9:.1f} GB, and jobs have "
                f"{member.memory / 1e9:.1f} GB, so it has a job to itself. More comes by mem among sbatch's options"
            )


@dataclass
class _Worker:
    """A process in a job that is at nothing else."""

    member: Member
    number: int

    async def ask(self, task: Task) -> Result:
        result = await self.member.call("ask", self.number, pickle.dumps(task))
        assert isinstance(result, Result)
        return result

    def kill(self) -> None:
        if not self.member.is_gone:
            self.member.post("kill", self.number)
