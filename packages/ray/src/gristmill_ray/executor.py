"""The Ray executor: runs the tasks of a run as tasks of a Ray cluster.

Ray gets what a task needs, cores and memory, and decides where and when it runs. The Ray process that takes it hosts a
worker (`host.py`). Ray never retries (max_retries=0): this module distinguishes a lost node, an out-of-memory kill
and a crash, and reports them; the engine decides (`insist.py`).

At most two tasks per core of the cluster are submitted at once: no core waits for this process, an autoscaler sees work
for as many cores again, and the other tasks wait here, in the order of the run. As the cluster grows, more tasks are
submitted, until all run or the cluster stops growing.

When a driver ends or is killed, its tasks end, too: Ray ends the processes of a driver that is gone, and their workers
end with them.
"""

import asyncio
import os
import pickle
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any

import ray

from gristmill.engine.executors.executor import Begun, StageFailed, StartWorker, Worker, WorkerDied, in_thread, lacking
from gristmill.engine.executors.turns import Turns
from gristmill.engine.work.needs import HOST_BYTES, kept_for, needs_of, rounded
from gristmill.engine.work.task import Hash, IndexInput, Merge, Result, Task
from gristmill.errors import UserError
from gristmill.log import WARNING, Note
from gristmill.stages.contract import Resources
from gristmill.stages.declarations import stage_of
from gristmill.stages.own_code import Code
from gristmill.store.store import Store
from gristmill_ray import host
from gristmill_ray.connection import connect
from gristmill_ray.host import About

AHEAD = 2
"""Submitted tasks per core of the cluster."""
LEAST_SLOTS = 16
"""The least number of submitted tasks: a cluster may start without a core, and grow."""
CHECK_EVERY_S = 5.0
"""Seconds between checks of the nodes of the cluster."""
SILENT_S = 40.0
"""Seconds without an answer after which the cluster counts as lost; after 60, Ray would end this process."""
LOST, ENDED, NO_MEMORY = "its node was lost", "its Ray process ended", "out of memory: ended by Ray"
"""The ways in which a host dies."""
OTHERS_S = 30.0
"""Seconds to wait for other users' tasks on a node to end, once ours have ended, before sharing the node."""


class RayExecutor:
    """Runs tasks on the Ray cluster at an address; None or `auto` means RAY_ADDRESS, or this machine's cluster."""

    several_machines = True

    def __init__(
        self,
        store: Store,
        workers: int | None,
        modules: Sequence[str] = (),
        code: Code | None = None,
        note: Note = lambda *_: None,
        address: str | None = None,
        begun: Begun = lambda *_: None,
        **_: Any,
    ) -> None:
        self._ray: Any = ray
        self._is_ours = not self._ray.is_initialized()
        """Whether to close the connection with this executor."""
        if self._is_ours:
            connect(self._ray, address)
        self._note = note
        self._begun = begun
        self._workers = workers
        self._turns = Turns(0)
        self.slots = 0
        self._nodes: dict[str, float] = {}
        """Memory of each live node that has a core."""
        self._gpus: dict[str, float] = {}
        self._most_cores = 0.0
        """The most cores of one node."""
        self._probe = _leave_probe(store)
        self._about = pickle.dumps(About(store, self._probe, modules, code or {}))
        self._work = self._ray.remote(max_retries=0, scheduling_strategy="SPREAD")(_work(self._about))
        # A process that used a GPU holds GPU memory until it ends.
        self._work_on_gpu = self._ray.remote(max_retries=0, max_calls=1)(_work(self._about, is_last=True))
        self._wishes: dict[str, int] = {}
        """The memory to request for tasks that ran out of it."""
        self._running: set[Any] = set()
        self._reserved: set[Any] = set()
        """Actors that have a node to themselves."""
        self._one_alone = asyncio.Lock()
        self._watcher: asyncio.Task[None] | None = None
        self._lost: asyncio.Future[None] | None = None
        """Fails when the cluster no longer answers."""
        self._update(self._ray.nodes())
        if not self._nodes:
            note("the Ray cluster has no core yet; tasks wait for it to grow", WARNING)

    async def run(self, task: Task) -> Result:
        async with self._turns.turn(task.order):
            name, needs = task.key or task.label, needs_of(task.work)
            wanted = max(needs.memory + HOST_BYTES, self._wishes.get(name, 0))
            memory = self._at_most(rounded(wanted))
            cores = int(min(needs.cores, self._most_cores or needs.cores))
            options = {"num_cpus": cores, "num_gpus": needs.gpus, "memory": memory, "name": task.node}
            work = self._work_on_gpu if needs.gpus else self._work
            self._begun(task)
            try:
                result: Result = await self._answer(
                    work.options(**options).remote(_versions(task), pickle.dumps(task), kept_for(task.node, task.work))
                )
            except WorkerDied as death:
                if not death.inside and not death.machine_lost:  # perhaps it ran out of memory
                    self._wishes[name] = 2 * max(wanted, death.peak_rss_bytes)
                raise
            self._wishes.pop(name, None)
            return result

    def lacks(self, needs: Resources) -> str | None:
        """A cluster without a node may grow. A task that needs nearly all memory of a node gets all of it."""
        gpus, most = int(max(self._gpus.values(), default=0)), max(self._nodes.values(), default=0)
        where = "the largest node of the Ray cluster"
        return lacking(needs, most, gpus, where) if self._nodes else None

    @asynccontextmanager
    async def alone(self, needs: Resources) -> AsyncIterator[StartWorker]:
        """Workers on a node that runs nothing else of this run; the other nodes continue."""
        async with self._one_alone:
            node = _Reserved(self, needs.gpus)
            try:
                yield node.start
            finally:
                node.end()

    def close(self) -> None:
        if self._watcher is not None:
            self._watcher.cancel()
        if self._is_ours:
            self._is_ours = False
            self._ray.shutdown()
        elif self._ray.is_initialized():
            for ref in self._running:
                self._ray.cancel(ref, force=True)
            for actor in self._reserved:
                self._ray.kill(actor)
        self._running.clear()
        self._reserved.clear()
        _remove_probe(self._probe)

    async def _answer(self, ref: Any, node: str | None = None) -> Any:
        """The result of a Ray task; raises an exception that it returns as its value. `node` is where it runs, if that
        is known.
        """
        lost = self._watch()
        self._running.add(ref)
        done = asyncio.wrap_future(ref.future())
        try:
            await asyncio.wait({done, lost}, return_when=asyncio.FIRST_COMPLETED)
            if not done.done():
                lost.result()
            answer = done.result()
        except self._ray.exceptions.RayError as error:
            raise await self._death(error, node) from None
        finally:
            if not done.done():
                done.cancel()
                self._cancel(ref)
            self._running.discard(ref)
        if isinstance(answer, BaseException):
            raise answer
        return answer

    def _cancel(self, ref: Any) -> None:
        if self._ray.is_initialized():
            with suppress(Exception):  # for instance a task of an actor, which ends with the actor
                self._ray.cancel(ref, force=True)

    async def _death(self, error: Exception, node: str | None) -> Exception:
        """Ray reports the same error for an actor whether its process or its node was lost, so check the node."""
        if node is not None and isinstance(error, self._ray.exceptions.ActorDiedError):
            self._update(await in_thread(self._ray.nodes))
            if node not in self._nodes:
                return WorkerDied(LOST, machine_lost=True)
        return self._translated(error)

    def _translated(self, error: Exception) -> Exception:
        """Translate Ray's errors into those of an executor."""
        text, kinds = str(error), self._ray.exceptions
        if isinstance(error, kinds.OutOfMemoryError):
            return WorkerDied(NO_MEMORY)
        if isinstance(error, kinds.LocalRayletDiedError):
            return _lost_cluster("the Ray process on this machine has ended")
        lost = (kinds.NodeDiedError, kinds.ObjectLostError, kinds.ActorUnschedulableError, kinds.ActorUnavailableError)
        if isinstance(error, lost):
            return WorkerDied(LOST, machine_lost=True)
        if isinstance(error, kinds.WorkerCrashedError | kinds.ActorDiedError):
            return WorkerDied(ENDED)
        if isinstance(error, ImportError):
            return UserError(
                f"A node of the Ray cluster cannot import what tasks need ({error.args[0] if error.args else error}), "
                "so it cannot run any. Finished work is kept. Install the same Gristmill on all nodes "
                "(pip install ./packages/ray), and run again."
            )
        if isinstance(error, kinds.RayTaskError):
            return StageFailed(f"on a node of the Ray cluster:\n{text}")
        return UserError(
            f"Ray cannot run tasks: {' '.join(text.split())[:600]} Finished work is kept. Fix that, and run again."
        )

    def _at_most(self, memory: int) -> int:
        """No more memory than the largest node has: Ray would wait forever for a larger one."""
        largest = max(self._nodes.values(), default=0)
        return int(min(memory, largest)) if largest else memory

    def _update(self, nodes: Sequence[Mapping[str, Any]]) -> None:
        alive = [node for node in nodes if node["Alive"] and node["Resources"].get("CPU")]
        cores = int(sum(node["Resources"]["CPU"] for node in alive))
        self._nodes = {node["NodeID"]: node["Resources"].get("memory", 0) for node in alive}
        self._gpus = {node["NodeID"]: node["Resources"].get("GPU", 0) for node in alive}
        self._most_cores = max((node["Resources"]["CPU"] for node in alive), default=0.0)
        self.slots = self._turns.slots = self._workers or max(LEAST_SLOTS, AHEAD * cores)
        self._turns.hand_out()

    def _watch(self) -> asyncio.Future[None]:
        """Start to watch the cluster, if that has not happened yet; the future fails when the cluster is lost."""
        if self._lost is None or self._watcher is None:
            self._lost = asyncio.get_running_loop().create_future()
            self._lost.add_done_callback(lambda done: done.cancelled() or done.exception())  # perhaps nothing awaits it
            self._watcher = asyncio.create_task(self._check_nodes(self._lost))
        return self._lost

    async def _check_nodes(self, lost: asyncio.Future[None]) -> None:
        while True:
            await asyncio.sleep(CHECK_EVERY_S)
            try:
                async with asyncio.timeout(SILENT_S):
                    self._update(await in_thread(self._ray.nodes))
            except Exception as error:
                lost.set_exception(_lost_cluster(f"it has not answered for {SILENT_S:.0f} s ({type(error).__name__})"))
                return


class _Reserved:
    """A node for one task at a time, and the actor that reserves its memory."""

    def __init__(self, executor: RayExecutor, gpus: int) -> None:
        self._executor = executor
        self._gpus = gpus
        self._actor: Any = None
        self._node = ""

    async def start(self) -> Worker:
        if self._actor is None:
            await self._take_node()
        number = await self.ask(self._actor.start)
        return _ReservedWorker(self, self._actor, number)

    async def ask(self, method: Any, *about: Any) -> Any:
        try:
            return await self._executor._answer(method.remote(*about), self._node)
        except WorkerDied as death:
            if death.cause in (LOST, ENDED, NO_MEMORY):  # the actor itself died, with all of its workers
                self.end()
            raise

    async def _take_node(self) -> None:
        """Reserve the largest node. No task starts until it is reserved, because a stream of small tasks would keep it
        full; after that, other tasks continue elsewhere.
        """
        executor = self._executor
        while not (fit := {node: memory for node, memory in executor._nodes.items() if self._has_gpus(node)}):
            executor._watch()
            await asyncio.sleep(CHECK_EVERY_S)
        self._node, memory = max(fit.items(), key=lambda item: (item[1], item[0]))
        with executor._turns.held_back():
            self._actor = self._make(memory)
            ready = asyncio.ensure_future(self.ask(self._actor.__ray_ready__))
            free = asyncio.ensure_future(executor._turns.all_done())
            try:
                await asyncio.wait({ready, free}, return_when=asyncio.FIRST_COMPLETED)
                await asyncio.wait({ready}, timeout=OTHERS_S)
                if ready.done():
                    ready.result()
                    return
            finally:
                for wait in (ready, free):
                    wait.cancel()
            self.end()  # tasks of other users run there and do not end
            self._actor = self._make(0)

    def _has_gpus(self, node: str) -> bool:
        return self._executor._gpus.get(node, 0) >= self._gpus

    def _make(self, memory: float) -> Any:
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        executor = self._executor
        options = executor._ray.remote(host.Reserved).options(
            num_cpus=1,
            num_gpus=self._gpus,
            memory=int(memory),
            max_restarts=0,
            scheduling_strategy=NodeAffinitySchedulingStrategy(self._node, soft=False),
        )
        actor = options.remote(executor._about)
        executor._reserved.add(actor)
        return actor

    def end(self) -> None:
        """End the actor, also one that is gone: the next worker gets a new one, on a live node."""
        if self._actor is not None:
            self._executor._reserved.discard(self._actor)
            with suppress(Exception):
                self._executor._ray.kill(self._actor)
            self._actor = None


class _ReservedWorker:
    """One worker on a reserved node."""

    def __init__(self, node: _Reserved, actor: Any, number: int) -> None:
        self._node = node
        self._actor = actor
        self._number = number

    async def ask(self, task: Task) -> Result:
        result: Result = await self._node.ask(self._actor.ask, self._number, _versions(task), pickle.dumps(task))
        return result

    def kill(self) -> None:
        with suppress(Exception):  # nothing waits for it, and a dead actor has no workers
            self._actor.kill.remote(self._number)


def _work(about: bytes, is_last: bool = False) -> Callable[[Mapping[str, str], bytes, str], Any]:
    """The function that Ray runs. Ray sends it to each of its processes once, with everything it captures."""

    def perform(versions: Any, packed: bytes, step: str = "") -> Any:
        from gristmill_ray import host

        return host.perform(about, versions, packed, step, is_last)

    return perform


def _versions(task: Task) -> dict[str, str]:
    """The versions that a node must share with this machine to run a task: those of distributions."""
    work = task.work
    libraries = {} if isinstance(work, Hash | IndexInput | Merge) else stage_of(work.module).libraries_of(work.config)
    shared = {name: version for name, version in libraries.items() if host.version(name) == version}
    return {"gristmill": host.sources(), **shared}


def _leave_probe(store: Store) -> str | None:
    """A file in a local store, by which a node recognizes the store; an object store is recognized by its address."""
    if not store.is_local:
        return None
    probe = store.temporary("nodes")
    try:
        open(probe, "x").close()
    except OSError as error:
        raise store.unwritable_by(error, probe) from None
    return probe


def _remove_probe(probe: str | None) -> None:
    if probe is not None:
        with suppress(OSError):
            os.unlink(probe)


def _lost_cluster(fact: str) -> UserError:
    return UserError(
        f"The Ray cluster is lost: {fact}. Finished work is kept. Check its head node (`ray status`), and run the "
        "same command to continue."
    )
