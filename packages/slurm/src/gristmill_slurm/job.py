"""A Slurm job: it connects to the process that runs the recipe, and runs the tasks that it receives in its own
processes (`LocalExecutor`), until none are left.

    python -m gristmill_slurm.job

The death of a worker is reported as on one machine. The job and its workers end with the connection: a killed run
leaves no running jobs. SIGTERM (a preemption, scancel, a node shutdown) is reported before the job ends; a job that
Slurm requeues starts again.
"""

import asyncio
import math
import os
import random
import signal
import socket
import sys
import time
import traceback
from collections.abc import Callable
from contextlib import AsyncExitStack, suppress
from typing import TYPE_CHECKING, Any

from gristmill.printable import printable
from gristmill_slurm.wire import Unproven, Wire, dial

if TYPE_CHECKING:
    from gristmill.engine.executors.executor import StartWorker, Worker
    from gristmill.engine.executors.local import LocalExecutor
    from gristmill.store.store import Store

MODULE = "gristmill_slurm.job"
AT, NAME, KEY, KIND = "GRISTMILL_SLURM_AT", "GRISTMILL_SLURM_NAME", "GRISTMILL_SLURM_KEY", "GRISTMILL_SLURM_KIND"
"""In the environment of a job: addresses, the name of the listener, the secret, and the kind of job."""
BEAT_S = 15.0
"""Seconds between heartbeats, in both directions."""
SILENCE_S = 180.0
"""Seconds without a heartbeat after which the other side counts as gone."""
DIALS = 4
"""How often all addresses are tried."""
PAUSE_S = 1.0
"""Seconds after the first attempt. Each pause is twice as long as the one before."""
STORE_READS = 5
"""How often a job tries to read a new file in the store: some stores take seconds to show it."""
MARKS = "cluster"
"""The folder of the store where each run on a cluster writes a file, by which a job checks that it sees the store."""


def main() -> int | str:
    """Run the job. Returns the exit code, 0 if nothing is left to do, or a message, for exit code 1."""
    try:
        name, secret = os.environ[NAME], bytes.fromhex(os.environ.pop(KEY))
        addresses = [address.rpartition(":") for address in os.environ[AT].split(",")]
    except (KeyError, ValueError):
        return f"{MODULE} is started by the slurm executor of a run, not by hand."
    return asyncio.run(_main([(host, int(port)) for host, _, port in addresses], name, secret))


async def _main(addresses: list[tuple[str, int]], name: str, secret: bytes) -> int | str:
    stopped = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopped.set)
    leaving = asyncio.create_task(stopped.wait())
    dialling = asyncio.create_task(_dial(addresses, name, secret))
    await asyncio.wait({leaving, dialling}, return_when=asyncio.FIRST_COMPLETED)
    if not dialling.done():
        return 128 + signal.SIGTERM
    wire = dialling.result()
    if isinstance(wire, str):
        return wire
    host = _Host(wire)
    serving = asyncio.create_task(host.serve())
    await asyncio.wait({leaving, serving}, return_when=asyncio.FIRST_COMPLETED)
    if leaving.done():
        wire.send(("leaving",))
        with suppress(TimeoutError):
            async with asyncio.timeout(1.0):
                await wire.flush()
    host.close()
    wire.close()
    if not serving.done():
        return 128 + signal.SIGTERM
    serving.result()
    return 0


async def _dial(addresses: list[tuple[str, int]], name: str, secret: bytes) -> Wire | str:
    """The connection to the run, or a message if there is none."""
    for attempt in range(DIALS):
        why = []
        for host, port in addresses:
            try:
                return await dial(host, port, name, secret)
            except Unproven:
                why.append(f"{host}:{port} is another process")
            except OSError as error:
                why.append(f"{host}:{port} {error.strerror or error or type(error).__name__}")
        if attempt + 1 < DIALS:  # a thousand jobs may start at once
            await asyncio.sleep(PAUSE_S * 2**attempt * (0.5 + random.random()))
    return printable(
        f"The run of this job cannot be reached from {socket.gethostname()} ({'; '.join(why)}). If it has "
        "ended, nothing is left to do. Otherwise, set host (and port, if there is a firewall) under cluster in "
        "the recipe, or in the profile, to an address that nodes can reach."
    )


def _allotted() -> tuple[int, int | None]:
    """CPUs and bytes of memory of this job; None if Slurm set no limit."""
    cpus = int(os.environ.get("SLURM_CPUS_ON_NODE", 0)) or os.cpu_count() or 1
    whole, each = os.environ.get("SLURM_MEM_PER_NODE"), os.environ.get("SLURM_MEM_PER_CPU")
    megabytes = int(whole) if whole else int(each) * cpus if each else 0
    return cpus, megabytes << 20 or None


class _Host:
    """The tasks of one job."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire
        self._executor: LocalExecutor
        self._store: Store
        self._modules: tuple[str, ...] = ()
        self._doing: set[asyncio.Task[None]] = set()
        self._alone = AsyncExitStack()
        self._start: StartWorker | None = None
        self._workers: dict[int, Worker] = {}

    async def serve(self) -> None:
        """Handle messages until the connection ends or the run says goodbye."""
        beats = asyncio.create_task(self._beat())
        try:
            self._hello()
            first = True
            while True:
                async with asyncio.timeout(SILENCE_S):
                    number, verb, *about = await self._wire.receive()
                if verb == "bye":
                    return
                if first:
                    first = False
                    if not await self._welcome(*about):
                        return
                elif verb != "beat":
                    doing = asyncio.create_task(self._do(number, verb, about))
                    self._doing.add(doing)
                    doing.add_done_callback(self._doing.discard)
        except (EOFError, TimeoutError):
            return
        finally:
            beats.cancel()

    def close(self) -> None:
        if hasattr(self, "_executor"):
            self._executor.close()

    def _hello(self) -> None:
        from gristmill.engine.work.memory import available_bytes

        cpus, memory = _allotted()
        bounds = [bound for bound in (memory, available_bytes()) if bound is not None]
        end = float(os.environ.get("SLURM_JOB_END_TIME") or math.inf)
        self._wire.send(
            {
                "job": f"{os.environ.get('SLURM_ARRAY_JOB_ID', 0)}_{os.environ.get('SLURM_ARRAY_TASK_ID', 0)}",
                "node": os.environ.get("SLURMD_NODENAME") or socket.gethostname(),
                "kind": os.environ.get(KIND, ""),
                "slots": cpus,
                "memory_bytes": min(bounds) if bounds else None,
                "left_s": end - time.time(),
            }
        )

    async def _beat(self) -> None:
        while True:
            await asyncio.sleep(BEAT_S)
            self._wire.send(("beat",))

    async def _welcome(self, uri: str, mark: bytes, modules: tuple[str, ...], code: Any, here: dict[str, str]) -> bool:
        """Set up what tasks need. Returns false, and reports why, if this machine cannot run them."""
        try:
            from gristmill.engine.executors.installation import differences, installation
            from gristmill.engine.executors.local import LocalExecutor
            from gristmill.stages import own_code
            from gristmill.store.store import Store

            unlike = differences(here, installation())
            if unlike:
                raise _Unfit(
                    f"has {', '.join(unlike)}, so tasks could give other results there. Install the same versions for "
                    f"{sys.executable}, or set another python under cluster in the recipe, or in the profile"
                )
            self._store = Store(uri)
            if not await asyncio.to_thread(self._sees, mark):
                raise _Unfit(
                    f"does not see the store {uri}: a file written there is not found, so it can run no tasks. "
                    "Put the store where all nodes have it under the same path, or in an object store (store: in the "
                    "recipe)"
                )
            own_code.use(code)
            self._modules = modules
            self._executor = LocalExecutor(self._store, _allotted()[0], modules, code, self._note)
        except _Unfit as unfit:
            self._wire.send(("unfit", str(unfit)))
        except Exception as error:
            reason = "".join(traceback.format_exception_only(error)).strip()
            self._wire.send(("unfit", f"cannot run tasks ({reason}). Fix that"))
        else:
            self._wire.send(("ready",))
            return True
        await self._wire.flush()
        return False

    def _sees(self, mark: bytes) -> bool:
        for attempt in range(STORE_READS):
            if self._store.read_file(f"{MARKS}/{os.environ[NAME]}") == mark:
                return True
            time.sleep(attempt)
        return False

    def _note(self, message: str) -> None:
        self._wire.send(("note", message))

    async def _do(self, number: int, verb: str, about: list[Any]) -> None:
        from gristmill.engine.executors.executor import StageFailed

        verbs: dict[str, Callable[..., Any]] = {
            "task": self._task,
            "start": self._start_worker,
            "ask": self._ask,
            "kill": self._kill,
            "together": self._together,
        }
        try:
            answer = await verbs[verb](*about)
        except asyncio.CancelledError:
            raise
        except Exception as error:
            known = type(error).__module__.startswith("gristmill.")
            answer = error if known else StageFailed(traceback.format_exc())
        self._wire.send(("answer", number, answer))
        await self._wire.flush()

    async def _task(self, pickled: bytes) -> Any:
        from gristmill.engine.executors.worker import unpickled

        return await self._executor.run(unpickled(pickled))

    async def _start_worker(self) -> int:
        from gristmill.stages.contract import Resources

        if self._start is None:
            self._start = await self._alone.enter_async_context(self._executor.alone(Resources()))
        number = len(self._workers)
        self._workers[number] = await self._start()
        return number

    async def _ask(self, worker: int, pickled: bytes) -> Any:
        from gristmill.engine.executors.worker import unpickled

        return await self._workers[worker].ask(unpickled(pickled))

    async def _kill(self, worker: int) -> None:
        self._workers[worker].kill()

    async def _together(self) -> None:
        """End the mode in which one task runs alone."""
        self._start = None
        self._workers.clear()
        await self._alone.aclose()


class _Unfit(Exception):
    """Why this machine cannot run tasks."""


if __name__ == "__main__":
    sys.exit(main())
