"""The limits that a run on a cluster would hit, each with a fix."""

from collections.abc import Iterator

from gristmill.counted import counted
from gristmill.hints import option
from gristmill.query.sizing.sizing import COORDINATOR_S, Machines, MeasuredRun, Sizing

ARRAY_JOBS = 1000
"""The largest array job that Slurm accepts by default (MaxArraySize is 1001)."""
WRITES_PER_S, WRITES_PER_TASK = 3500, 4
"""Writes that S3 accepts under one prefix before it answers SlowDown, and those of a task: its claim, part, verdicts
and record.
"""
FEW_TASKS = 100
"""A measured run with fewer tasks gives a poor estimate."""
FAR = 100_000
"""A growth factor beyond which the estimate was never tested."""


def faults(sizing: Sizing, cluster: Machines, free_bytes: int | None, measured: MeasuredRun) -> Iterator[str]:
    """Everything that makes the estimate poor, or would stop or delay such a run."""
    if measured.tasks < FEW_TASKS or sizing.growth > FAR:
        yield (
            f"The measured run had {counted(measured.tasks, 'task')}, and the corpus is {sizing.growth:,.4g} times as "
            "large as its corpus. Measure a larger sample before you rely on this estimate."
        )
    if measured.changed:
        yield (
            f"{', '.join(measured.changed[:3])}{' and others' if measured.changed[3:] else ''} had other settings in "
            "the measured run than in the recipe now. Run a sample again to measure them."
        )
    largest = max(sizing.steps, key=lambda step: step.memory_bytes)
    node_bytes, fits = cluster.cores * largest.memory_bytes, cluster.fitting(largest.memory_bytes)
    if cluster.memory_bytes is not None and fits < cluster.cores:
        yield (
            f"Memory: a worker in {largest.name} needs up to {_gb(largest.memory_bytes)}, {cluster.cores} of them "
            f"{_gb(node_bytes)}, but a node has {_gb(cluster.memory_bytes)}, so only {fits} can run at the same time. "
            "Use nodes with more memory, or reduce part_bytes (for readers and maps) or shard_tokens (for shards)."
        )
    if free_bytes is not None and sizing.stored_bytes > free_bytes:
        yield (
            f"Disk: the store grows to about {_gb(sizing.stored_bytes)}, but only {_gb(free_bytes)} are free there. "
            f"Set another store with {option('store')}, such as s3://bucket/prefix."
        )
    if COORDINATOR_S * sizing.tasks >= sizing.wall_s:
        yield (
            f"Coordinator: it needs about {duration(COORDINATOR_S * sizing.tasks)} and {_gb(sizing.coordinator_bytes)} "
            f"of memory to schedule {counted(sizing.tasks, 'task')}, so workers wait for it. A smaller cluster is as "
            "fast. Larger parts (part_bytes, or larger input files if each is one part) give fewer, longer tasks."
        )
    if cluster.nodes > ARRAY_JOBS:
        yield (
            f"Slurm: an array of {counted(cluster.nodes, 'job')} exceeds its default limit of {ARRAY_JOBS:,} "
            "(MaxArraySize). Raise the limit, or use fewer nodes with more cores each."
        )
    writes = WRITES_PER_TASK * sizing.tasks / max(sizing.wall_s, 1.0)
    if writes > WRITES_PER_S:
        yield (
            f"Object store: about {writes:,.0f} writes per second, but S3 starts with {WRITES_PER_S:,} per second and "
            "prefix. It answers SlowDown until it has scaled up, and workers wait. Increase part_bytes."
        )


def duration(seconds: float) -> str:
    """A duration in seconds, minutes or hours."""
    if seconds < 60:
        return f"{seconds:.1f} s"
    if seconds < 5400:
        return f"{seconds / 60:.1f} min"
    return f"{seconds / 3600:,.1f} h" if seconds < 360_000 else f"{seconds / 3600:,.0f} h"


def _gb(count: float) -> str:
    return f"{count / 1e12:,.1f} TB" if count >= 1e12 else f"{count / 1e9:,.1f} GB"
