"""The cost of a run on a cluster, and the limits that it would hit."""

from collections.abc import Iterator
from dataclasses import dataclass

from gristmill.counted import counted, percent
from gristmill.hints import option
from gristmill.objects import requests
from gristmill.query.sizing.sizing import COORDINATOR_S, Machines, Sizing

ARRAY_JOBS = 1000
"""The largest array job that Slurm accepts by default (MaxArraySize is 1001)."""
WRITES_PER_S = 3500
"""Writes that S3 accepts under one prefix before it answers SlowDown."""
COORDINATOR_BYTES = 4e9
"""The most memory that one process should use on a login node."""
BUSY_SHARE = 0.5
"""If workers are busy for less than this share of the time, a smaller cluster is nearly as fast."""
FEW_TASKS = 100
"""A measured run with fewer tasks gives a poor estimate."""
FAR = 100_000
"""A growth factor beyond which the estimate was never tested."""


@dataclass(frozen=True)
class Prices:
    """Prices in US dollars: list prices of AWS in us-east-1. A terabyte is in S3 Standard as of 2025; a core hour is
    half of an on-demand m7g.large (0.0816) as of June 2026. Spot machines cost a third to a half. Those of requests
    are in `objects/requests.py`.
    """

    core_hour: float = 0.0408
    tb_month: float = 23.0


@dataclass(frozen=True)
class Bill:
    compute: float
    """The whole cluster for the duration of the run."""
    requests: float
    store_month: float


def bill(sizing: Sizing, cluster: Machines, prices: Prices) -> Bill:
    return Bill(
        cluster.workers * sizing.wall_s[1] / 3600 * prices.core_hour,
        requests.usd_of({"gets": sizing.gets, "puts": sizing.puts}),
        sizing.stored_bytes / 1e12 * prices.tb_month,
    )


def busy_share(sizing: Sizing, cluster: Machines) -> float:
    """The share of the time in which workers are busy."""
    return min(1.0, sum(line.wall_s for line in sizing.lines) / (cluster.workers * sizing.wall_s[1]))


def faults(sizing: Sizing, cluster: Machines, free_bytes: int | None, measured_tasks: int) -> Iterator[str]:
    """Everything that would stop or delay such a run, each with a fix. The first may be `sample_fault`."""
    if fault := sample_fault(sizing, measured_tasks):
        yield fault
    largest = max(sizing.lines, key=lambda line: line.memory_bytes)
    node_bytes = cluster.cores * largest.memory_bytes
    if cluster.memory_bytes is not None and node_bytes > cluster.memory_bytes:
        fits = cluster.fitting(largest.memory_bytes)
        consequence = (
            f"so only {fits} of {cluster.cores} can run at the same time" if fits else "so not even one of them can run"
        )
        yield (
            f"Memory: a worker in {largest.step} {largest.verb} needs up to {_gb(largest.memory_bytes)}, "
            f"{cluster.cores} of them {_gb(node_bytes)}, but a node has {_gb(cluster.memory_bytes)}, {consequence}. "
            "Use nodes with more memory, or reduce part_bytes (for readers and maps) or shard_tokens (for shards)."
        )
    if free_bytes is not None and sizing.stored_bytes > free_bytes:
        yield (
            f"Disk: the store grows to about {_gb(sizing.stored_bytes)}, but only {_gb(free_bytes)} are free there. "
            f"Set another store with {option('store')}, such as s3://bucket/prefix."
        )
    if sizing.coordinator_bytes > COORDINATOR_BYTES:
        yield (
            f"Coordinator: it needs about {_gb(sizing.coordinator_bytes)} of memory for "
            f"{counted(sizing.tasks, 'task')}. Run it on its own node, or increase part_bytes."
        )
    handing_out_s = COORDINATOR_S * sizing.tasks
    busy = busy_share(sizing, cluster)
    if busy < BUSY_SHARE and handing_out_s > BUSY_SHARE * sizing.wall_s[1]:
        yield (
            f"Coordinator: it needs about {duration(handing_out_s)} to schedule {counted(sizing.tasks, 'task')}, so "
            f"workers wait for it and are busy for {percent(busy, 1)} of the time. A smaller cluster costs less "
            "and is as fast. Larger parts (part_bytes, or larger input files if each is one part) give fewer, "
            "longer tasks."
        )
    elif busy < BUSY_SHARE:
        yield (
            f"Workers are busy for {percent(busy, 1)} of the time; otherwise they wait at barriers of exchanges or for "
            "single long tasks. A smaller cluster costs less and is nearly as fast."
        )
    if cluster.nodes > ARRAY_JOBS:
        yield (
            f"Slurm: an array of {counted(cluster.nodes, 'job')} exceeds its default limit of {ARRAY_JOBS:,} "
            "(MaxArraySize). Raise the limit, or use fewer nodes with more cores each."
        )
    writes = sizing.puts / max(sizing.wall_s[1], 1.0)
    if writes > WRITES_PER_S:
        yield (
            f"Object store: about {writes:,.0f} writes per second, but S3 starts with {WRITES_PER_S:,} per second and "
            "prefix. It answers SlowDown until it has scaled up, and workers wait. Increase part_bytes."
        )


def sample_fault(sizing: Sizing, measured_tasks: int) -> str | None:
    """Why the measured run is too small for this estimate; None if it is not."""
    if measured_tasks >= FEW_TASKS and sizing.growth <= FAR:
        return None
    return (
        f"The measured run had {counted(measured_tasks, 'task')}, and the corpus is {sizing.growth:,.4g} times as "
        "large as its corpus. Measure a larger sample before you rely on this estimate."
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
