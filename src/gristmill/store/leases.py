"""Leases show which processes use a store. A lease is a record in locks/ that is renewed every few seconds.

On the machine (and in the container) that wrote it, a lease ends with its process. Other machines cannot see that
process, so for them a lease is alive as long as its file is fresh. The age of a lease is the difference between its
time and the time of a file written just now, both set by the store, so the clocks of machines need not agree.

A run claims a task with its lease before it starts the task, so that another run on the same store waits instead of
doing the work twice. A claim is only valid while its lease is alive: the tasks of a dead run are free again.
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
"""How long the end of a run waits for a renewal in progress."""
DEAD_SECONDS = 90.0
"""The age at which a lease from another machine counts as dead: nine missed renewals."""

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
    """The process id from `processes.name_of_self`."""
    what: str
    """The name of the recipe."""

    def __str__(self) -> str:
        doing = _DOING.get(self.purpose, f"a run of {self.what}")
        return f"{doing} ({self.host} process {self.pid})"


@contextmanager
def hold(store: Store, purpose: Purpose, what: str) -> Iterator[Lease]:
    """Hold a lease on the store. Raises UserError before any work if the store cannot be written."""
    lease = Lease(uuid.uuid4().hex, purpose, socket.gethostname(), os.getpid(), name_of_self(), what)
    try:
        _write(store, lease)
    except (OSError, ValueError, UserError) as error:
        why = error.why if isinstance(error, Unwritable | Unreachable) else error
        raise Unwritable(
            f"The store {store.uri} cannot be written ({why}). Nothing was run or removed. Reading "
            f"works: {hint('look')}. To run, set a folder that you can write with `store:` in the "
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
        with contextlib.suppress(FileNotFoundError, Unreachable):  # a lease that is not renewed expires
            store.remove(_path(lease.id))


def holders(store: Store, but: Lease | None = None) -> list[Lease]:
    """The live leases of other users; dead ones are removed. Raises DamagedRecord if a lease cannot be read."""
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
    """Wait until garbage collection has ended: it needs the store for itself to decide which files are unused."""
    is_noted = False
    while any(other.purpose == "gc" for other in holders(store, but=lease)):
        if not is_noted:
            note(f"the store {store.uri} is being cleaned by `gristmill gc`; waiting for it to end", WARNING)
        is_noted = True
        time.sleep(TURN_SECONDS)


def find(store: Store, lease_id: str) -> Lease | None:
    """The lease with this id, if it is alive; a dead one is removed."""
    lease = _read(store, lease_id)
    if lease is None or _lives(store, lease):
        return lease
    with contextlib.suppress(FileNotFoundError):
        store.remove(_path(lease_id))
    return None


def is_alive(store: Store, lease_id: str) -> bool:
    """Whether the lease with this id is alive. Changes nothing, so it works on a store that cannot be written."""
    with contextlib.suppress(DamagedRecord):
        lease = _read(store, lease_id)
        return lease is not None and _lives(store, lease)
    return False


def _read(store: Store, lease_id: str) -> Lease | None:
    record = store.read_record(_path(lease_id))
    try:
        return None if record is None else Lease(**record)
    except TypeError:
        raise store.damaged(_path(lease_id)) from None


def _lives(store: Store, lease: Lease) -> bool:
    alive = runs(lease.process)
    if alive is None:
        age = store.age_seconds(_path(lease.id))
        # A time in the future means that the clock was set back since: such a lease is no longer renewed.
        alive = age is not None and abs(age) < DEAD_SECONDS
    return alive


def claim(store: Store, key: str, lease: Lease) -> Lease | None:
    """Claim a task for a run. Returns None on success, else the lease of the run that already works on it."""
    while True:
        taken_by = store.mark(f"claims/{key}", lease.id)
        if taken_by in (None, lease.id):
            return None
        with contextlib.suppress(DamagedRecord):
            holder = find(store, taken_by)
            if holder is not None:
                return holder
        # Its run is dead. Two runs may both see this and both continue: the task then runs twice, with the same result.
        store.unmark(f"claims/{key}")


def _path(lease_id: str) -> str:
    return f"locks/{lease_id}.json"


def _write(store: Store, lease: Lease) -> None:
    store.write_json(_path(lease.id), {name: getattr(lease, name) for name in Lease.__dataclass_fields__})


def _renew(store: Store, lease: Lease, over: threading.Event) -> None:
    while not over.wait(BEAT_SECONDS):
        # The store may be unreachable for a while; the run stops only when it needs the store.
        with contextlib.suppress(Exception):
            _write(store, lease)
