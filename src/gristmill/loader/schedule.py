"""The samples of each rank and step, and their locations."""

import threading
from collections import OrderedDict
from dataclasses import dataclass, field

import numpy as np

from gristmill.loader.order import Order, SampleLocations

# Samples located at once: with 4096, the cost of some hundred numpy calls per block does not matter.
BLOCK_SAMPLES = 4096


@dataclass(frozen=True)
class BatchStep:
    """The samples of one rank in one step of all ranks."""

    first_sample: int
    places: SampleLocations
    after: int
    """The number of global samples consumed after all ranks finish the step."""


@dataclass
class Schedule:
    """Step k covers the global samples from start + k·W·B on; rank r gets the r-th run of B samples."""

    order: Order
    start: int
    batch_samples: int
    rank: int
    world_size: int
    drop_last: bool
    _blocks: OrderedDict[int, SampleLocations] = field(default_factory=OrderedDict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def stride(self) -> int:
        return self.batch_samples * self.world_size

    def __len__(self) -> int:
        left = self.order.samples - self.start
        return left // self.stride if self.drop_last else -(-left // self.stride)

    def step(self, number: int) -> BatchStep:
        """The locations of one step. Requesting steps in order is fastest."""
        begin = self.start + number * self.stride
        left = self.order.samples - begin
        if left < self.stride:
            return self._last(begin, left)
        steps = max(1, BLOCK_SAMPLES // self.batch_samples)
        block, inside = divmod(number, steps)
        places = self._block(block, steps)[inside * self.batch_samples : (inside + 1) * self.batch_samples]
        return BatchStep(begin + self.rank * self.batch_samples, places, begin + self.stride)

    def _last(self, begin: int, left: int) -> BatchStep:
        """The remaining samples, split evenly so that every rank gets a batch."""
        cuts = [left * rank // self.world_size for rank in (self.rank, self.rank + 1)]
        places = self.order.places(begin, np.arange(*cuts))
        return BatchStep(begin + cuts[0], places, begin + left)

    def _block(self, block: int, steps: int) -> SampleLocations:
        with self._lock:
            if block in self._blocks:
                return self._blocks[block]
            begin = self.start + block * steps * self.stride
            steps = min(steps, (self.order.samples - begin) // self.stride)
            runs = np.arange(steps)[:, None] * self.stride + np.arange(self.batch_samples)
            places = self.order.places(begin + self.rank * self.batch_samples, runs.reshape(-1))
            self._blocks[block] = places
            if len(self._blocks) > 2:
                self._blocks.popitem(last=False)
            return places
