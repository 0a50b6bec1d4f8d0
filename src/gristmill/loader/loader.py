"""The loader: a pure function from (manifest, seed, global sample) to tokens, and an iterator over it.

    for batch in Loader("shards/web", batch_samples=8, rank=rank, world_size=world_size, start=saved["sample"]):
        ...

Its whole state is one integer, the global samples that all ranks together have consumed. World size, batch size and
threads are not part of it: they may change at a resume, and the global order stays.
"""

import operator
import os
import weakref
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

from gristmill.counted import counted
from gristmill.errors import UserError
from gristmill.loader.batch import Batch, BatchNames, Sample
from gristmill.loader.checks import Checks
from gristmill.loader.continues import continues as check_continues
from gristmill.loader.order import Order
from gristmill.loader.prefetch import Prefetch, Waits
from gristmill.loader.reader import ShardReader
from gristmill.loader.receipts import Mask, Receipts, padding_of, read_receipts
from gristmill.loader.schedule import Schedule
from gristmill.loader.shards import Shards
from gristmill.loader.validate import check_hashes, check_numbers, check_sample, check_step, made_cache
from gristmill.log import Log
from gristmill.shardformat.manifest import read_manifest

_LOG = Log("loader")
CACHE_BYTES = 64 * 2**30


class Loader:
    """Batches of a manifest, starting at any global sample. Each `for` continues where the last one stopped."""

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        batch_samples: int = 1,
        rank: int = 0,
        world_size: int = 1,
        start: int = 0,
        seed: int | None = None,
        threads: int = 1,
        prefetch_batches: int = 4,
        tokenizer_hash: str | None = None,
        manifest_hash: str | None = None,
        cache: str | Path | None = None,
        cache_bytes: int = CACHE_BYTES,
        drop_last: bool = True,
        continues: str | os.PathLike[str] | None = None,
        check: str = "seal",
        mask: Receipts = None,
        mask_tokens: str = "keep",
    ) -> None:
        """
        path: a manifest.json, its folder, or a location such as s3://bucket/shards/web.
        batch_samples, rank, world_size: a step takes world_size · batch_samples samples; each rank gets batch_samples.
        start: the global sample to start at.
        seed: replaces the manifest's seed.
        threads, prefetch_batches: threads that prepare batches, and how many batches ahead. 0 threads: no prefetching.
        tokenizer_hash, manifest_hash: raise if the manifest has another one.
        cache, cache_bytes: the folder for shards from an object store, and its size.
        drop_last: leave out the last samples if they do not fill a step; otherwise the ranks share them evenly.
        continues: the manifest that the run has used so far; raise if a sample would be lost or repeated.
        check: "seal": a shard with a changed modification time is hashed before it is used. "hash": every shard is
            hashed ahead of its use, which costs one pass over it.
        mask: receipt.json of a takedown, its folder or location, or several: tokens of those documents get no label.
        mask_tokens: "keep": their tokens stay in the batch as context. "padding": padding replaces them.
        """
        self._options = {name: value for name, value in locals().items() if name != "self"}
        check_numbers(batch_samples, rank, world_size, threads, prefetch_batches, cache_bytes, seed)
        checks = Checks(check)
        self.manifest = read_manifest(path)
        check_hashes(self.manifest, tokenizer_hash, manifest_hash)
        self._old = None if continues is None else read_manifest(continues)
        masked_as = padding_of(self.manifest, mask_tokens)
        masked = Mask(self.manifest, read_receipts(mask), self._old)
        self.order = Order(self.manifest, seed)
        self.batch_samples, self.rank, self.world_size = int(batch_samples), int(rank), int(world_size)
        self._threads, self._prefetch, self._drop_last = threads, prefetch_batches, drop_last
        if drop_last:
            check_step(batch_samples, world_size, self.manifest)
        self._cache = made_cache(self.manifest, cache, cache_bytes, checks)
        shards = Shards(self.manifest, self._cache, checks, mask=masked)
        shards.check_files()
        self._reader = ShardReader(self.order, shards, BatchNames.of(self.manifest), masked_as)
        self._waits = Waits()
        self._run: Prefetch[Batch] | None = None
        self._sample = 0
        self.seek(start)
        self._finalizer = weakref.finalize(self, self._reader.close)

    @property
    def samples(self) -> int:
        """Global samples of all phases."""
        return self.order.samples

    @property
    def groups(self) -> tuple[str, ...]:
        return self._reader.names.groups

    @property
    def sources(self) -> tuple[str, ...]:
        return self._reader.names.sources

    def __len__(self) -> int:
        """Batches of this rank that are left: one fewer after each batch, 0 at the end."""
        return len(self._schedule(self._sample))

    @property
    def left_out(self) -> int:
        """Global samples at the end that do not fill a step and are left out; 0 with drop_last=False."""
        return (self.samples - self._sample) % self._schedule(self._sample).stride if self._drop_last else 0

    def __iter__(self) -> Iterator[Batch]:
        """Batches from the current position on. An earlier iterator that is not at its end then raises."""
        return self.batches()

    def batches(self, offset: int = 0, stride: int = 1) -> Iterator[Batch]:
        """All steps from here on, or every stride-th step from an offset (for the workers of a torch DataLoader)."""
        self._end_run("another loop over the same loader was started. Open a loader for each loop")
        self._check_open()
        if not 0 <= offset < stride:
            raise UserError(f"offset {offset} skips steps of stride {stride}. Give an offset from 0 to {stride - 1}.")
        schedule = self._schedule(self._sample)
        reader = self._reader  # threads must not reference the loader, or an unused loader would never be collected
        run = Prefetch(
            lambda number: reader.batch(schedule.step(number)),
            offset,
            len(schedule),
            stride,
            self._threads,
            self._prefetch,
            self._waits,
        )
        self._run = run
        return self._followed(run, warn=self.rank == offset == 0)

    def _followed(self, run: Prefetch[Batch], warn: bool) -> Iterator[Batch]:
        try:
            for batch in run:
                if self._run is run:
                    self._sample = batch.state["sample"]
                yield batch
        finally:
            run.close()
        if warn and self.left_out:
            _LOG.warn(
                f"{self.manifest.location}: the last {self.left_out} of {counted(self.samples, 'sample')} do not fill "
                f"a step of {self.batch_samples * self.world_size} and were left out. drop_last=False includes them."
            )

    def sample(self, number: int) -> Sample:
        """Any global sample. Its tokens are a read-only view of the shard, or a copy if padding masks some."""
        if not 0 <= operator.index(number) < self.samples:
            raise IndexError(f"sample {number} of {self.samples}")
        self._check_open()
        return self._reader.sample(operator.index(number))

    __getitem__ = sample

    def seek(self, sample: int) -> None:
        """Continue at a global sample."""
        check_sample(sample, self.samples)
        if self._old is not None:
            check_continues(self._old, self.manifest, sample)
        self._end_run(f"the loader moved to sample {sample}. Start a new loop after seek or load_state_dict")
        self._sample = int(sample)

    def state_dict(self) -> dict[str, int]:
        """One integer: the global samples in the batches returned so far, not counting prefetched ones."""
        return {"sample": self._sample}

    def load_state_dict(self, state: dict[str, int]) -> None:
        if not isinstance(state, dict) or set(state) != {"sample"}:
            raise UserError(
                f"{state!r} is not the state of a loader, so it does not say where to continue. "
                'Give the value of state_dict(): {"sample": n}.'
            )
        self.seek(state["sample"])

    def stats(self) -> dict[str, float]:
        """Batches, those that the consumer waited for, the time and its share; shards opened, bytes fetched."""
        waits = self._waits
        share = waits.starved_seconds / waits.running_seconds if waits.running_seconds else 0.0
        cache, checks = self._cache, self._reader.shards.checks
        return {
            **asdict(waits),
            "starved_share": share,
            "opened_shards": self._reader.shards.opened,
            "hashed_files": checks.hashed_files,
            "hashed_bytes": checks.hashed_bytes,
            "fetched_files": cache.fetched_files if cache else 0,
            "fetched_bytes": cache.fetched_bytes if cache else 0,
            "removed_files": cache.removed_files if cache else 0,
        }

    def close(self) -> None:
        """End all threads and close the files."""
        self._end_run("the loader was closed. Open another one")
        self._finalizer()

    def __enter__(self) -> "Loader":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def pinned(self) -> dict[str, Any]:
        """The options that open the same manifest again, in another process or later, even if `latest` has moved on."""
        old = None if self._old is None else self._old.location
        same = {"path": self.manifest.location, "manifest_hash": self.manifest.hash, "continues": old}
        return {**self._options, **same, "start": self._sample}

    def __reduce__(self) -> tuple[Any, ...]:
        return _again, (self.pinned,)

    def _end_run(self, reason: str) -> None:
        if self._run is not None:
            self._run.close(f"This iterator ended before the last batch: {reason}.")
            self._run = None

    def _check_open(self) -> None:
        if not self._finalizer.alive:
            raise UserError(
                f"The loader of {self.manifest.location} is closed. Open another one with start={self._sample}."
            )

    def _schedule(self, start: int) -> Schedule:
        return Schedule(self.order, start, self.batch_samples, self.rank, self.world_size, self._drop_last)


def _again(options: dict[str, Any]) -> Loader:
    return Loader(**options)
