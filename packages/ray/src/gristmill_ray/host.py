"""Runs on a node of a Ray cluster: a Ray process that hosts a local executor with one worker.

So crashes in C, kills, memory and user code are handled and reported as on one machine, and Ray only reports the loss
of the host itself. The worker stays warm between the tasks of a run; it ends with its host, which ends with the driver.
Every outcome of a task is returned as a value.

A node must have the same Gristmill as the driver, and the same versions of the libraries that a task's key names.
Otherwise the same key could get different bytes. It must also see the driver's store.
"""

import asyncio
import os
import pickle
import socket
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from gristmill.engine.executors.executor import StageFailed, WorkerDied
from gristmill.engine.executors.installation import installation
from gristmill.engine.executors.local import LocalExecutor
from gristmill.engine.work.task import Hash, Result, Task
from gristmill.errors import UserError
from gristmill.stages.contract import Resources, version_of
from gristmill.stages.own_code import Code
from gristmill.store.store import CorruptPart, Store

ONE_BYTE = Resources(memory=1)
"""What a task needs here: Ray has already reserved the rest."""
VISIBLE_S = 20.0
"""Seconds that a network file system may take until a node sees a new file."""

Answer = Result | WorkerDied | CorruptPart | UserError | StageFailed


@dataclass(frozen=True)
class About:
    """What all tasks of a run share."""

    store: Store
    probe: str | None
    """A file in a local store, which every node must see."""
    modules: Sequence[str]
    code: Code


@dataclass(frozen=True)
class _Packed(Task):
    """A pickled task for the worker to unpickle: the worker imports the user's code, and the host does not."""

    packed: bytes = b""

    def __reduce__(self) -> tuple[Any, ...]:
        return pickle.loads, (self.packed,)


def sources() -> str:
    """A hash of Gristmill's code: two checkouts of one version may differ."""
    return f"of sources {installation()['gristmill']}"


def perform(about: bytes, versions: Mapping[str, str], packed: bytes, step: str = "", is_last: bool = False) -> Answer:
    """Run a task here. `about` is a pickled About, and `packed` a pickled task; `step` is the one that the worker is
    kept for, if any. `is_last`: Ray ends this process after the task.
    """
    try:
        compare(versions)
        answer = _loop().run_until_complete(_host(about).do(packed, step))
        if is_last:
            _host(about).executor.close()
        return answer
    except UserError as error:
        return error


class Reserved:
    """An actor that has a node to itself: it starts new workers and gives them tasks one by one."""

    def __init__(self, about: bytes) -> None:
        self._about = about
        self._host: Host | None = None
        self._workers: dict[int, Any] = {}
        self._number = 0

    async def start(self) -> int | UserError:
        """Start a new worker and return its number."""
        self._number += 1
        number = self._number
        try:
            self._host = self._host or Host(self._about)
            self._workers[number] = await self._host.executor._start()
        except UserError as error:
            return error
        return number

    async def ask(self, number: int, versions: Mapping[str, str], packed: bytes) -> Answer:
        try:
            compare(versions)
        except UserError as error:
            return error
        return await _answer(self._workers[number].ask(_packed(packed)))

    async def kill(self, number: int) -> None:
        self._workers.pop(number).kill()


class Host:
    """The local executor of one run in this process."""

    def __init__(self, packed: bytes) -> None:
        about: About = pickle.loads(packed)
        _check_store(about)
        self.about = packed
        # With no memory for several steps, what another step loaded is released before a task.
        self.executor = LocalExecutor(about.store, 1, about.modules, about.code, memory=0)

    async def do(self, packed: bytes, step: str) -> Answer:
        return await _answer(self.executor.run_for(step, ONE_BYTE, _packed(packed)))


_HOSTS: dict[str, Any] = {}
"""The event loop and the host of this process."""


def _loop() -> asyncio.AbstractEventLoop:
    if "loop" not in _HOSTS:
        _HOSTS["loop"] = asyncio.new_event_loop()
    loop: asyncio.AbstractEventLoop = _HOSTS["loop"]
    return loop


def _host(about: bytes) -> Host:
    """The host of a run; a driver that begins another run is done with the one before."""
    host: Host | None = _HOSTS.get("host")
    if host is None or host.about != about:
        if host is not None:
            host.executor.close()
        host = _HOSTS["host"] = Host(about)
    return host


def _packed(task: bytes) -> Task:
    return _Packed("", "", "", Hash(()), packed=task)


async def _answer(work: Any) -> Answer:
    try:
        result: Result = await work
        return result
    except (WorkerDied, CorruptPart, UserError, StageFailed) as error:
        return error


def compare(versions: Mapping[str, str]) -> None:
    """Refuse to work for a driver with different versions."""
    different = [
        f"{name} is {mine} there and {theirs} here"
        for name, theirs in versions.items()
        if (mine := version(name)) != theirs
    ]
    if different:
        raise UserError(
            f"{_node()} of the Ray cluster has other versions than this machine: {', '.join(different)}. Its results "
            "would not be the same bytes, so it got no task. Finished work is kept. Install the same versions on "
            "all nodes, and run again."
        )


@cache
def version(name: str) -> str:
    """The version of a distribution on this machine."""
    if name == "gristmill":
        return sources()
    try:
        return version_of(name)
    except Exception:  # a broken installation may raise anything
        return "missing"


def _check_store(about: About) -> None:
    """Refuse to work on a folder that only has the same path as the driver's store."""
    probe, until = about.probe, time.monotonic() + VISIBLE_S
    while probe is not None and not os.path.exists(probe):
        if not os.path.isdir(os.path.dirname(probe)) or time.monotonic() > until:
            raise UserError(
                f"{_node()} of the Ray cluster does not see the store {about.store.uri}: it is a folder of another "
                "machine. Finished work is kept. Use a folder that all nodes share, or an object store: "
                "store: s3://bucket/prefix"
            )
        time.sleep(0.5)


def _node() -> str:
    return f"Node {socket.gethostname()}"
