"""Runs on a cluster as other processes see them: their addresses, and whether they are alive."""

import asyncio
import socket
from contextlib import suppress

from gristmill.store.store import Store
from gristmill_slurm import sbatch
from gristmill_slurm.job import MARKS
from gristmill_slurm.wire import answers

COMMENT = "gristmill:"
"""The prefix of a job's comment; `name@host:port` of its run follows."""


def hosts(given: str | None) -> list[str]:
    """Addresses by which jobs may reach this machine, the likeliest first."""
    if given is not None:
        return [given]
    found = [socket.gethostname(), socket.getfqdn()]
    with suppress(OSError), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect(("192.0.2.1", 9))  # nothing is sent: the system only chooses an interface
        found.append(probe.getsockname()[0])
    return list(dict.fromkeys(host for host in found if host))


async def cancel_dead(store: Store, me: str, jobs: str) -> set[int]:
    """Cancel jobs of this name whose run is dead, and remove the marks of such runs. Returns the cancelled arrays.

    A run that cannot be reached may be alive and is skipped; if it is dead, its jobs end on their own.
    """
    arrays = {
        array: comment.removeprefix(COMMENT).partition("@")[::2]
        for array, comment in (await asyncio.to_thread(sbatch.comments_of, jobs)).items()
        if comment.startswith(COMMENT)
    }
    runs = sorted({*arrays.values(), *await asyncio.to_thread(_marks, store, me)})
    there = await asyncio.gather(*(_answers(name, address) for name, address in runs))
    dead = {run for run, is_there in zip(runs, there, strict=True) if is_there is False}
    for name, _ in dead:
        with suppress(Exception):  # a mark that cannot be removed stays
            await asyncio.to_thread(store.remove, f"{MARKS}/{name}")
    useless = {array for array, run in arrays.items() if run in dead}
    await asyncio.to_thread(sbatch.cancel, useless)
    return useless


def _marks(store: Store, me: str) -> list[tuple[str, str]]:
    """The other runs with a mark in the store: their names and addresses."""
    names = [path.rpartition("/")[2] for path, _ in store.list_files(MARKS)]
    marks = [(name, store.read_file(f"{MARKS}/{name}") or b"") for name in names if name != me]
    return [(name, mark.decode(errors="replace").partition(" ")[0]) for name, mark in marks]


async def _answers(name: str, address: str) -> bool | None:
    host, _, port = address.rpartition(":")
    return await answers(host, int(port), name) if port.isdigit() else False
