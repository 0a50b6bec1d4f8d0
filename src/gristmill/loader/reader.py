"""From places to tokens."""

from collections.abc import Iterable
from typing import Any

import numpy as np

from gristmill.loader.ahead import ReadAhead
from gristmill.loader.batch import Batch, Names, Pieces, Sample
from gristmill.loader.order import Order
from gristmill.loader.schedule import Step
from gristmill.loader.shards import OpenShard, Shards

Array = np.ndarray[Any, Any]


class Reader:
    """Makes samples and batches; safe from any number of threads."""

    def __init__(self, order: Order, shards: Shards, names: Names, ahead: ReadAhead | None) -> None:
        self.order = order
        self.shards = shards
        self.names = names
        self._ahead = ahead
        manifest = order.manifest
        self._seq_len, self._kind = manifest.seq_len, np.dtype(f"<u{manifest.token_bytes}")

    def sample(self, number: int) -> Sample:
        """One sample as views of its shard."""
        place = self.order.place(number)
        shard = self.shards.get(place.group, place.shard)
        group, first_piece = self.order.manifest.groups[place.group], shard.index.first_piece
        pieces = (shard.index, first_piece.item(place.row), first_piece.item(place.row + 1))
        phase = self.names.phases[place.phase]
        return Sample(number, shard.view(place.row), pieces, place, phase, group.name, group.source)

    def batch(self, step: Step) -> Batch:
        """The samples of a step, copied into one array."""
        places = step.places
        keys = list(zip(places.group.tolist(), places.shard.tolist(), strict=True))
        # Methods are looked up once a shard and not once a sample: a sample has some microseconds in all.
        found = {
            key: (shard.file.read_into, shard.index.first_piece.item, shard.index)
            for key, shard in self._opened(step.first_sample, keys).items()
        }
        tokens = np.empty((len(keys), self._seq_len), self._kind)
        target, size = tokens.reshape(-1).view(np.uint8).data, self._seq_len * self._kind.itemsize
        pieces: list[Pieces] = []
        at = 0
        for key, row in zip(keys, places.row.tolist(), strict=True):
            read_into, first_piece, index = found[key]
            read_into(target[at : at + size], row * size)
            at += size
            pieces.append((index, first_piece(row), first_piece(row + 1)))
        return Batch(tokens, step.first_sample, {"sample": step.after}, pieces, places.group, places.phase, self.names)

    def close(self) -> None:
        if self._ahead:
            self._ahead.close()
        self.shards.close()

    def _opened(self, sample: int, keys: Iterable[tuple[int, int]]) -> dict[tuple[int, int], OpenShard]:
        before = self.shards.opened
        found = {key: self.shards.get(*key) for key in set(keys)}
        if self._ahead and (self.shards.opened != before or not before):
            self._ahead.tell(sample)
        return found
