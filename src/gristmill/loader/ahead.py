"""Read-ahead from an object store: the shard that each group needs next is fetched while the present one is used."""

import threading
from collections.abc import Iterator
from dataclasses import dataclass, field

from gristmill.errors import UserError
from gristmill.loader.cache import Cache
from gristmill.loader.locations import is_remote
from gristmill.loader.order import Order


@dataclass(frozen=True, order=True, slots=True)
class Wanted:
    """A shard that will be needed."""

    sample: int
    """About when: the global sample."""
    group: int
    shard: int
    now: bool = field(compare=False)
    """Whether it is in use at this moment."""


def wanted(order: Order, sample: int) -> list[Wanted]:
    """For each group of this phase and the next: the shard in use and the one after it, soonest first."""
    manifest = order.manifest
    first = order.phase_of(sample)
    found: dict[tuple[int, int], Wanted] = {}
    for phase in range(first, min(first + 2, len(manifest.phases))):
        at = max(sample, order.starts[phase])
        counts = order.counts(at)
        weights = manifest.phases[phase].weights
        total = sum(weights.values())
        for name, weight in weights.items():
            group = manifest.numbers[name]
            for begins, shard in _next_shards(order, group, counts[group]):
                due = at + (begins - counts[group]) * total // weight
                if due < order.starts[phase + 1]:
                    found.setdefault((group, shard), Wanted(due, group, shard, due == sample))
    return sorted(found.values())


def _next_shards(order: Order, group: int, position: int) -> Iterator[tuple[int, int]]:
    """(position from which it is needed, shard) of the present shard and the next."""
    begins = position
    for _ in range(2):
        epoch, rest = divmod(begins, order.manifest.groups[group].samples)
        shards, ends = order.layout(group, epoch)
        turn = int(ends.searchsorted(rest, "right"))
        yield begins, int(shards[turn])
        begins += int(ends[turn]) - rest


class ReadAhead:
    """One thread that fetches; told where the reader stands each time that it opens a shard."""

    def __init__(self, order: Order, cache: Cache) -> None:
        self.order = order
        self.cache = cache
        self.idle = threading.Event()
        """Set while there is nothing left to fetch."""
        self._sample: int | None = None
        self._change = threading.Condition()
        self._thread: threading.Thread | None = None

    def tell(self, sample: int) -> None:
        with self._change:
            self.idle.clear()
            self._sample = sample
            if self._thread is None or not self._thread.is_alive():
                self._thread = threading.Thread(target=self._work, name="gristmill-read-ahead", daemon=True)
                self._thread.start()
            self._change.notify()

    def close(self) -> None:
        with self._change:
            self.cache.closed.set()
            self._change.notify()

    def _work(self) -> None:
        while True:
            with self._change:
                if self._sample is None:
                    self.idle.set()
                while self._sample is None and not self.cache.closed.is_set():
                    self._change.wait()
                if self._sample is None or self.cache.closed.is_set():
                    return
                sample, self._sample = self._sample, None
            self._fetch(sample)

    def _fetch(self, sample: int) -> None:
        """What fits into the cache beside what is in use; a failure is left to the reader, which will meet it too."""
        manifest, room = self.order.manifest, self.cache.limit_bytes
        for item in sorted(wanted(self.order, sample), key=lambda item: not item.now):
            shard = manifest.groups[item.group].shards[item.shard]
            for digest, size in ((shard.index, None), (shard.bin, manifest.bin_bytes(shard))):
                room -= size or 0
                location = manifest.where(digest)
                if room < 0 or self.cache.closed.is_set() or (self._sample is not None and not item.now):
                    return
                if is_remote(location):
                    try:
                        path = self.cache.ensure(digest, location, size)
                        room -= 0 if size else path.stat().st_size
                    except (UserError, FileNotFoundError):
                        return
