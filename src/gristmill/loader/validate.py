"""Checks of a loader's arguments, before it reads a token."""

from numbers import Integral
from pathlib import Path
from typing import Any

from gristmill.counted import counted
from gristmill.errors import UserError
from gristmill.loader.cache import Cache, default_folder
from gristmill.loader.checks import Checks
from gristmill.shardformat.locations import is_remote
from gristmill.shardformat.manifest import Manifest

MOST_THREADS = 1024
"""More than any disk can use; with far more, the system runs out of threads."""


def check_numbers(
    batch_samples: int,
    rank: int,
    world_size: int,
    threads: int,
    prefetch_batches: int,
    cache_bytes: int,
    seed: int | None,
) -> None:
    for name, value, least in (
        ("batch_samples", batch_samples, 1),
        ("world_size", world_size, 1),
        ("rank", rank, 0),
        ("threads", threads, 0),
        ("prefetch_batches", prefetch_batches, 1),
        ("cache_bytes", cache_bytes, 0),
    ):
        if not _is_integer(value) or value < least:
            raise UserError(f"{name} is {value!r}, so no batch can be made. Give an integer of {least} or more.")
    if threads > MOST_THREADS:
        raise UserError(
            f"threads is {threads}, but a loader starts at most {MOST_THREADS}: more are not faster. 1 is enough "
            "for shards on a local disk, 2 to 8 for shards over a network."
        )
    if rank >= world_size:
        raise UserError(
            f"rank is {rank} and world_size is {world_size}, so this rank would get samples of another step. "
            f"Ranks are 0 to {world_size - 1}."
        )
    if seed is not None and not _is_integer(seed):
        raise UserError(f"seed is {seed!r}, so the order of samples is undefined. Give an integer.")


def check_step(batch_samples: int, world_size: int, manifest: Manifest) -> None:
    """Check that there is at least one whole step."""
    if batch_samples * world_size > manifest.samples:
        raise UserError(
            f"A step takes {counted(batch_samples * world_size, 'sample')} (batch_samples {batch_samples}, world_size "
            f"{world_size}), but {manifest.location} only has {manifest.samples}, so there is no batch. "
            "Lower them, set drop_last=False, or raise the budget in the recipe (mix.tokens)."
        )


def check_sample(sample: Any, samples: int) -> None:
    if not _is_integer(sample):
        raise UserError(
            f"The state {sample!r} is not an integer, so it does not say where to continue. Give the number of samples "
            "that were consumed, as state_dict() does."
        )
    if not 0 <= sample <= samples:
        raise UserError(
            f"Sample {sample} is outside the manifest, which has {samples}, so there is nothing to read. "
            "Use the manifest that the state belongs to, or one with a larger budget."
        )


def check_hashes(manifest: Manifest, tokenizer_hash: str | None, manifest_hash: str | None) -> None:
    for name, expected, found in (
        ("tokenizer", tokenizer_hash, manifest.tokenizer_hashes),
        ("manifest", manifest_hash, (manifest.hash,)),
    ):
        if expected is not None and expected not in found:
            raise UserError(
                f"{manifest.location}: the hash of the {name} is {found[-1]}, but {expected} is required. The model "
                f"would see other tokens than it expects. Use the manifest with that {name}, or give this hash."
            )


def made_cache(manifest: Manifest, folder: str | Path | None, limit_bytes: int, checks: Checks) -> Cache | None:
    """A cache if at least one shard is on an object store, otherwise None."""
    digests = (digest for group in manifest.drawn for shard in group.shards for digest in (shard.bin, shard.index))
    if not any(is_remote(manifest.where(digest)) for digest in digests):
        return None
    needed = _bytes_in_use(manifest)
    if limit_bytes < needed:
        raise UserError(
            f"cache_bytes is {limit_bytes}, but one shard of each group of a phase takes {needed}, so shards would be "
            f"fetched again for every batch. Give at least {needed}; twice that leaves room for read-ahead."
        )
    return Cache(folder or default_folder(), limit_bytes, checks)


def _bytes_in_use(manifest: Manifest) -> int:
    largest = {g.name: max((manifest.bin_bytes(shard) for shard in g.shards), default=0) for g in manifest.groups}
    return max(sum(largest[name] for name in phase.weights) for phase in manifest.phases)


def _is_integer(value: object) -> bool:
    return isinstance(value, Integral) and not isinstance(value, bool)
