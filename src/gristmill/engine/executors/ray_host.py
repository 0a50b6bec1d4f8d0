"""What runs on a node of a Ray cluster: a process of Ray's that hosts a local executor with one worker.

So a crash in C, a kill, memory and code of the user's own are seen and told as on one machine, and only the loss of the
host itself is Ray's to tell. The worker stays warm between the tasks of a run; it ends with its host, which ends with
the driver. Whatever comes of a task goes back as a value.

A node must be what the driver is: the same Gristmill, and of the libraries that a task's key names, the same versions.
Otherwise other bytes would lie under the same key. And it must see the driver's store.
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
from gristmill.engine.executors.shared_kernels import fetch_once, keep
from gristmill.engine.work.task import Hash, Result, Task
from gristmill.errors import UserError
from gristmill.kernels.ahead import to_compile
from gristmill.stages.contract import Resources
from gristmill.stages.library_versions import version_of
from gristmill.stages.own_code import Code
from gristmill.store.store import CorruptPart, Store

ONE_BYTE = Resources(memory=1)
"""What a task needs here: Ray has seen to the rest."""
SEEN_S = 20.0
"""Seconds that a network file system may take to show a node a new file."""

Answer = Result | WorkerDied | CorruptPart | UserError | StageFailed


@dataclass(frozen=True)
class About:
    """What all tasks of a run have in common."""

    store: Store
    probe: str | None
    """A file of a store on a disk, which every node has to see."""
    modules: Sequence[str]
    code: Code


@dataclass(frozen=True)
class _Packed(Task):
    """A task as it came, for the worker to open: code of the user's own is imported there and not in the host."""

    packed: bytes = b""

    def __reduce__(self) -> tuple[Any, ...]:
        return pickle.loads, (self.packed,)


def sources() -> str:
    """A hash of all code of Gristmill: two checkouts of one version may differ."""
    return f"of sources {installation()['gristmill']}"


def perform(about: bytes, versions: Mapping[str, str], asked: bytes, step: str = "", is_last: bool = False) -> Answer:
    """Have a task done here. `about` is an About, and `asked` a task, as the driver packed them; `step`: the one that
    the worker is kept for, if it is. `is_last`: Ray ends this process after the task.
    """
    try:
        compare(versions)
        answer = _loop().run_until_complete(_host(about).do(asked, step))
        if is_last:
            _host(about).executor.close()
        return answer
    except UserError as error:
        return error


class Reserved:
    """An actor that has a node to itself: workers that have done nothing yet are started and asked one by one."""

    def __init__(self, about: bytes) -> None:
        self._about = about
        self._host: Host | None = None
        self._workers: dict[int, Any] = {}
        self._number = 0

    async def start(self) -> int | UserError:
        """A new worker's number."""
        self._number += 1
        number = self._number
        try:
            self._host = self._host or Host(self._about)
            self._workers[number] = await self._host.executor._start()
        except UserError as error:
            return error
        return number

    async def ask(self, number: int, versions: Mapping[str, str], asked: bytes) -> Answer:
        try:
            compare(versions)
        except UserError as error:
            return error
        return await _answer(self._workers[number].ask(_packed(asked)))

    async def kill(self, number: int) -> None:
        self._workers.pop(number).kill()


class Host:
    """The local executor of one run in this process."""

    def __init__(self, packed: bytes) -> None:
        about: About = pickle.loads(packed)
        _see(about)
        self.about = packed
        # No memory for several: what another step loaded is released before a task.
        self.executor = LocalExecutor(about.store, 1, about.modules, about.code, memory=0)
        self._store, self._modules = about.store, about.modules
        self._compiles = fetch_once(about.store, about.modules)
        """Whether this machine will have kernels that the store has not."""

    async def do(self, asked: bytes, step: str) -> Answer:
        answer = await _answer(self.executor.run_for(step, ONE_BYTE, _packed(asked)))
        if self._compiles and not to_compile(self._modules):
            keep(self._store, self._modules)
            self._compiles = False
        return answer


_HOSTS: dict[str, Any] = {}
"""The loop and the host of this process."""


def _loop() -> asyncio.AbstractEventLoop:
    if "loop" not in _HOSTS:
        _HOSTS["loop"] = asyncio.new_event_loop()
    loop: asyncio.AbstractEventLoop = _HOSTS["loop"]
    return loop


def _host(about: bytes) -> Host:
    """The host of a run; a driver that begins another one has done with that before."""
    host: Host | None = _HOSTS.get("host")
    if host is None or host.about != about:
        if host is not None:
            host.executor.close()
        host = _HOSTS["host"] = Host(about)
    return host


def _packed(asked: bytes) -> Task:
    return _Packed("", "", "", Hash(()), packed=asked)


async def _answer(work: Any) -> Answer:
    try:
        result: Result = await work
        return result
    except (WorkerDied, CorruptPart, UserError, StageFailed) as error:
        return error


def compare(versions: Mapping[str, str]) -> None:
    """Refuse to work for a driver that is not of the same versions."""
    different = [
        f"{name} is {mine} there and {theirs} here"
        for name, theirs in versions.items()
        if (mine := _version(name)) != theirs
    ]
    if different:
        raise UserError(
            f"{_node()} of the Ray cluster has other versions than this machine: {', '.join(different)}. What it made "
            "would not be the same bytes, so it was given nothing to do; what is finished is kept. Install the same on "
            "all nodes, and run again."
        )


@cache
def _version(name: str) -> str:
    if name == "gristmill":
        return sources()
    try:
        return version_of(name)
    except Exception:  # whatever a broken installation raises
        return "missing"


def _see(about: About) -> None:
    """Refuse to work on a folder that only has the name of the driver's store."""
    probe, until = about.probe, time.monotonic() + SEEN_S
    while probe is not None and not os.path.exists(probe):
        if not os.path.isdir(os.path.dirname(probe)) or time.monotonic() > until:
            raise UserError(
                f"{_node()} of the Ray cluster does not see the store {about.store.uri}: that is a folder of another "
                "machine. What is finished is kept. Use a folder that all nodes share, or an object store: "
                "store: s3://bucket/prefix"
            )
        time.sleep(0.5)


def _node() -> str:
    return f"Node {socket.gethostname()}"
