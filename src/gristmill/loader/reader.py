"""Reads the tokens of samples from their locations."""

import os
import weakref
from collections.abc import Iterable
from typing import Any

import numpy as np

from gristmill.errors import UserError
from gristmill.loader.ahead import ReadAhead
from gristmill.loader.batch import Batch, BatchNames, Pieces, Sample, Spans
from gristmill.loader.checks import MOST_TRIES
from gristmill.loader.order import Order
from gristmill.loader.schedule import BatchStep
from gristmill.loader.shards import Key, OpenShard, Shards

Array = np.ndarray[Any, Any]


class ShardReader:
    """Makes samples and batches; safe from any number of threads."""

    def __init__(self, order: Order, shards: Shards, names: BatchNames, masked_as: int | None = None) -> None:
        """masked_as: the id that replaces masked tokens; None keeps them."""
        self.order = order
        self.shards = shards
        self.names = names
        self._masked_as = masked_as
        self.ahead = ReadAhead(order, shards)
        manifest = order.manifest
        self._watches = shards.checks.how == "hash"
        self._seq_len, self._kind = manifest.seq_len, np.dtype(f"<u{manifest.token_bytes}")
        _readers.add(self)

    def sample(self, number: int) -> Sample:
        """One sample as views of its shard."""
        place = self.order.place(number)
        for _ in range(MOST_TRIES):
            shard = self.shards.get(place.group, place.shard)
            group, first_piece = self.order.manifest.groups[place.group], shard.index.first_piece
            pieces = (shard.index, first_piece.item(place.row), first_piece.item(place.row + 1))
            phase = self.names.phases[place.phase]
            tokens, masked = shard.view(place.row), shard.masked.get(place.row, ())
            if masked and self._masked_as is not None:
                tokens = tokens.copy()
                for begin, end in masked:
                    tokens[begin:end] = self._masked_as
                tokens.flags.writeable = False
            sample = Sample(number, tokens, pieces, place, phase, group.name, group.source, masked)
            if not self._watches or self.shards.unchanged({(place.group, place.shard): shard}):
                return sample
        raise self._changing(number)

    def batch(self, step: BatchStep) -> Batch:
        """The samples of a step, copied into one array."""
        keys = list(zip(step.places.group.tolist(), step.places.shard.tolist(), strict=True))
        for _ in range(MOST_TRIES):
            opened = self._opened(step.first_sample, keys)
            batch = self._read(step, keys, opened)
            if not self._watches or self.shards.unchanged(opened):
                return batch
        raise self._changing(step.first_sample)

    def close(self) -> None:
        self.ahead.close()
        self.shards.close()

    def forget_threads(self) -> None:
        """Forget threads and locks after a fork: the threads do not exist in the child."""
        self.ahead.forget_thread()
        self.shards.forget_lock()

    def _read(self, step: BatchStep, keys: list[Key], opened: dict[Key, OpenShard]) -> Batch:
        places = step.places
        # Methods are looked up once per shard, not per sample: a sample takes only some microseconds.
        found = {
            key: (shard.file.read_into, shard.index.first_piece.item, shard.index, shard.masked)
            for key, shard in opened.items()
        }
        tokens = np.empty((len(keys), self._seq_len), self._kind)
        target, size = tokens.reshape(-1).view(np.uint8).data, self._seq_len * self._kind.itemsize
        pieces: list[Pieces] = []
        masked: list[tuple[int, Spans]] = []
        at = 0
        for key, row in zip(keys, places.row.tolist(), strict=True):
            read_into, first_piece, index, spans = found[key]
            read_into(target[at : at + size], row * size)
            at += size
            if row in spans:
                masked.append((len(pieces), spans[row]))
            pieces.append((index, first_piece(row), first_piece(row + 1)))
        if self._masked_as is not None:
            for number, its in masked:
                for begin, end in its:
                    tokens[number, begin:end] = self._masked_as
        state = {"sample": step.after}
        return Batch(tokens, step.first_sample, state, pieces, places.group, places.phase, self.names, masked)

    def _opened(self, sample: int, keys: Iterable[Key]) -> dict[Key, OpenShard]:
        before = self.shards.opened
        found = {key: self.shards.get(*key) for key in set(keys)}
        if (self.shards.opened != before or not before) and self.shards.is_slow:
            self.ahead.prepare(sample)
        return found

    def _changing(self, sample: int) -> UserError:
        return UserError(
            f"{self.order.manifest.location}: the shards of sample {sample} change while they are read, so their "
            "content is not what was hashed. Find out what writes to them, and copy them again."
        )


_readers: weakref.WeakSet[ShardReader] = weakref.WeakSet()


def _after_fork() -> None:
    for reader in list(_readers):
        reader.forget_threads()


os.register_at_fork(after_in_child=_after_fork)
