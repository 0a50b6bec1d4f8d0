"""Leases: who uses a store now. A lease is a record in locks/ whose file is touched every few seconds.

On the machine (and in the container) that wrote it, a lease ends with its process. From elsewhere nobody can see that
process, so a lease lives as long as its file is fresh. Ages are differences of two times that the store itself
gave, to the lease and to a file written just now: clocks of machines need not agree.

A task that a run is about to carry out is claimed with the run's lease, so that another run on the same store waits
for it instead of doing the work twice. A claim is only as good as its lease: whatever a dead run had claimed is free.
"""

import contextlib
import os
import socket
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal

from gristmill.errors import UserError
from gristmill.hints import hint, option
from gristmill.log import WARNING, Note
from gristmill.objects.patience import Unreachable
from gristmill.processes import name_of_self, runs
from gristmill.store.faults import Unwritable
from gristmill.store.records import DamagedRecord
from gristmill.store.store import Store

BEAT_SECONDS = 10.0
"""How often a lease is renewed."""
END_SECONDS = 10.0
"""How long the end of a run waits for a renewal that is under way."""
DEAD_SECONDS = 90.0
"""The age at which a lease that nobody here can check is taken for dead: nine beats missed."""

Purpose = Literal["run", "gc", "catalog"]
_DOING = {"gc": "garbage collection", "catalog": "a change of its versions"}
TURN_SECONDS = 0.2


@dataclass(frozen=True)
class Lease:
    """One user of a store."""

    id: str
    purpose: Purpose
    host: str
    pid: int
    process: str
    """As `processes.name_of_self` tells it."""
    what: str
    """The recipe that is run."""

    def __str__(self) -> str:
        doing = _DOING.get(self.purpose, f"a run of {self.what}")
        return f"{doing} ({self.host} process {self.pid})"


@contextmanager
def hold(store: Store, purpose: Purpose, what: str) -> Iterator[Lease]:
    """Be known as a user of the store; UserError before any work where the store cannot be written."""
    lease = Lease(uuid.uuid4().hex, purpose, socket.gethostname(), os.getpid(), name_of_self(), what)
    try:
        _write(store, lease)
    except (OSError, ValueError, UserError) as error:
        why = error.why if isinstance(error, Unwritable | Unreachable) else error
        raise Unwritable(
            f"The store {store.uri} cannot be written ({why}). Nothing was run, and nothing removed. Looking needs no "
            f"writing: {hint('look')}. To run, give a folder that you may write with `store:` in the "
            f"recipe or {option('store')}.",
            str(why),
            isinstance(error, Unwritable) and error.is_full,
        ) from None
    over = threading.Event()
    beat = threading.Thread(target=_renew, args=(store, lease, over), daemon=True)
    beat.start()
    try:
        yield lease
    finally:
        over.set()
        beat.join(END_SECONDS)  # a store that does not answer must not hold up the end of a run
        with contextlib.suppress(FileNotFoundError, Unreachable):  # a lease that nobody renews ends by itself
            store.remove(_path(lease.id))


def holders(store: Store, but: Lease | None = None) -> list[Lease]:
    """The other users of the store that are alive; what dead ones left is taken away. DamagedRecord where one cannot
    be read.
    """
    found = []
    for name, _ in list(store.list_files("locks")):
        try:
            lease = find(store, name.split("/")[-1].removesuffix(".json"))
        except DamagedRecord:
            if but and os.path.basename(name).startswith(but.id):
                continue
            raise
        if lease is not None and lease != but:
            found.append(lease)
    return found


def await_collection(store: Store, lease: Lease, note: Note) -> None:
    """Garbage collection decides what nothing needs while nobody else uses the store, so others let it end first."""
    told = False
    while any(other.purpose == "gc" for other in holders(store, but=lease)):
        if not told:
            note(f"the store {store.uri} is being cleaned by `gristmill gc`; waiting for its end", WARNING)
        told = True
        time.sleep(TURN_SECONDS)


def find(store: Store, lease_id: str) -> Lease | None:
    """A lease that is alive, by its id."""
    record = store.read_record(_path(lease_id))
    if record is None:
        return None
    try:
        lease = Lease(**record)
    except TypeError:
        raise store.damaged(_path(lease_id)) from None
    alive = runs(lease.process)
    if alive is None:
        age = store.age_seconds(_path(lease_id))
        # A time in the future was given by a clock that has been set back since: nobody renews such a lease.
        alive = age is not None and abs(age) < DEAD_SECONDS
    if alive:
        return lease
    with contextlib.suppress(FileNotFoundError):
        store.remove(_path(lease_id))
    return None


def claim(store: Store, key: str, lease: Lease) -> Lease | None:
    """Take a task for a run. None: it is taken; otherwise who is at it already."""
    while True:
        taken_by = store.mark(f"claims/{key}", lease.id)
        if taken_by in (None, lease.id):
            return None
        with contextlib.suppress(DamagedRecord):
            holder = find(store, taken_by)
            if holder is not None:
                return holder
        # Its run is dead. Two runs that both see this may both go on: then a task is done twice, which changes nothing.
        store.unmark(f"claims/{key}")


def _path(lease_id: str) -> str:
    return f"locks/{lease_id}.json"


def _write(store: Store, lease: Lease) -> None:
    store.write_json(_path(lease.id), {name: getattr(lease, name) for name in Lease.__dataclass_fields__})


def _renew(store: Store, lease: Lease, over: threading.Event) -> None:
    while not over.wait(BEAT_SECONDS):
        # A store that is away for a while is no reason to stop a run that may not need it now.
        with contextlib.suppress(Exception):
            _write(store, lease)
