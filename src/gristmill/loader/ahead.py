"""Read-ahead: the next shard of each group is fetched and checked while the current one is in use."""

import threading
from collections.abc import Iterator
from dataclasses import dataclass, field

from gristmill.errors import UserError
from gristmill.loader.order import Order
from gristmill.loader.shards import Shards
from gristmill.shardformat.locations import is_remote


@dataclass(frozen=True, order=True, slots=True)
class NeededShard:
    """A shard that will be needed."""

    sample: int
    """The global sample at which it is needed, approximately."""
    group: int
    shard: int
    now: bool = field(compare=False)
    """Whether it is in use now."""


def needed_shards(order: Order, sample: int) -> list[NeededShard]:
    """For each group of this phase and the next: the shard in use and the one after it, soonest first."""
    manifest = order.manifest
    first = order.phase_of(sample)
    found: dict[tuple[int, int], NeededShard] = {}
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
                    found.setdefault((group, shard), NeededShard(due, group, shard, due == sample))
    return sorted(found.values())


def _next_shards(order: Order, group: int, position: int) -> Iterator[tuple[int, int]]:
    """(the position where it is first needed, shard) of the current shard and the next."""
    begins = position
    for _ in range(2):
        epoch, rest = divmod(begins, order.manifest.groups[group].samples)
        shards, ends = order.layout(group, epoch)
        turn = int(ends.searchsorted(rest, "right"))
        yield begins, int(shards[turn])
        begins += int(ends[turn]) - rest


class ReadAhead:
    """A thread that fetches and hashes. The reader reports its position whenever it opens a shard."""

    def __init__(self, order: Order, shards: Shards) -> None:
        self.order = order
        self.shards = shards
        self.idle = threading.Event()
        """Set while there is nothing left to fetch."""
        self._sample: int | None = None
        self._closed = False
        self.forget_thread()

    def forget_thread(self) -> None:
        """Start again after a fork: the thread does not exist in the child, and it may have held the lock."""
        self._change = threading.Condition()
        self._thread: threading.Thread | None = None

    def prepare(self, sample: int) -> None:
        with self._change:
            self.idle.clear()
            self._sample = sample
            if self._thread is None or not self._thread.is_alive():
                self._thread = threading.Thread(target=self._work, name="gristmill-read-ahead", daemon=True)
                self._thread.start()
            self._change.notify()

    def close(self) -> None:
        with self._change:
            self._closed = True
            self._change.notify()

    def _work(self) -> None:
        while True:
            with self._change:
                if self._sample is None:
                    self.idle.set()
                while self._sample is None and not self._closed:
                    self._change.wait()
                if self._sample is None or self._closed:
                    return
                sample, self._sample = self._sample, None
            self._prepare(sample)

    def _prepare(self, sample: int) -> None:
        """Fetch what fits into the cache next to the shards in use. Failures are left for the reader to report."""
        manifest, cache = self.order.manifest, self.shards.cache
        free = cache.limit_bytes if cache else 0
        for item in sorted(needed_shards(self.order, sample), key=lambda item: not item.now):
            shard = manifest.groups[item.group].shards[item.shard]
            for digest, size in ((shard.index, None), (shard.bin, manifest.bin_bytes(shard))):
                in_cache = is_remote(manifest.where(digest))
                free -= size or 0 if in_cache else 0
                if free < 0 or self._closed or (self._sample is not None and not item.now):
                    return
                try:
                    file = self.shards.file(digest, item.group, item.shard, size)
                except UserError:
                    return
                free -= file.size if in_cache and size is None else 0
