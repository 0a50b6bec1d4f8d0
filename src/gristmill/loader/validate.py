"""What a loader refuses before it reads a token."""

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
"""More than any disk has use for; far more than that and the system runs out of threads in mid-start."""


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
            f"threads is {threads}, and a loader starts at most {MOST_THREADS}: more make no batch sooner. 1 is enough "
            "where shards lie on a local disk, 2 to 8 where they come over a network."
        )
    if rank >= world_size:
        raise UserError(
            f"rank is {rank} and world_size {world_size}, so this rank would take samples of another step. "
            f"Ranks count from 0 to {world_size - 1}."
        )
    if seed is not None and not _is_integer(seed):
        raise UserError(f"seed is {seed!r}, which names no order of samples. Give an integer.")


def check_step(batch_samples: int, world_size: int, manifest: Manifest) -> None:
    """That there is at least one step, where only whole ones are made."""
    if batch_samples * world_size > manifest.samples:
        raise UserError(
            f"A step takes {counted(batch_samples * world_size, 'sample')} (batch_samples {batch_samples}, world_size "
            f"{world_size}), and {manifest.location} has {manifest.samples} in all, so not one batch could be made. "
            "Give smaller ones, drop_last=False, or the recipe a larger budget (mix.tokens)."
        )


def check_sample(sample: Any, samples: int) -> None:
    if not _is_integer(sample):
        raise UserError(
            f"The state {sample!r} is not an integer, so where to go on is unknown. Give the number of global samples "
            "that were consumed, as state_dict() does."
        )
    if not 0 <= sample <= samples:
        raise UserError(
            f"Sample {sample} lies outside the manifest, which has {samples}, so there is nothing to read. "
            "Take the manifest that the state belongs to, or one with a larger budget."
        )


def check_hashes(manifest: Manifest, tokenizer_hash: str | None, manifest_hash: str | None) -> None:
    for name, asked, found in (
        ("tokenizer", tokenizer_hash, manifest.tokenizer["hash"]),
        ("manifest", manifest_hash, manifest.hash),
    ):
        if asked is not None and asked != found:
            raise UserError(
                f"{manifest.location}: the hash of the {name} is {found}, and {asked} was asked for. The model would "
                f"see other tokens than it expects. Name the manifest of that {name}, or give the hash of this one."
            )


def made_cache(manifest: Manifest, folder: str | Path | None, limit_bytes: int, checks: Checks) -> Cache | None:
    """A cache where at least one shard lies on an object store."""
    digests = (digest for group in manifest.drawn for shard in group.shards for digest in (shard.bin, shard.index))
    if not any(is_remote(manifest.where(digest)) for digest in digests):
        return None
    needed = _bytes_in_use(manifest)
    if limit_bytes < needed:
        raise UserError(
            f"cache_bytes is {limit_bytes}, and one shard of each group of a phase takes {needed}, so shards would be "
            f"fetched again for every batch. Give at least {needed}; twice that leaves room for read-ahead."
        )
    return Cache(folder or default_folder(), limit_bytes, checks)


def _bytes_in_use(manifest: Manifest) -> int:
    largest = {g.name: max((manifest.bin_bytes(shard) for shard in g.shards), default=0) for g in manifest.groups}
    return max(sum(largest[name] for name in phase.weights) for phase in manifest.phases)


def _is_integer(value: Any) -> bool:
    return isinstance(value, Integral) and not isinstance(value, bool)
