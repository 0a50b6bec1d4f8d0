"""What a run on a cluster would cost, and what of it would break, said before it does."""

from collections.abc import Iterator
from dataclasses import dataclass

from gristmill.counted import counted, percent
from gristmill.hints import option
from gristmill.query.sizing.sizing import COORDINATOR_S, Machines, Sizing

ARRAY_JOBS = 1000
"""Elements of an array job that Slurm takes unless it is told otherwise (MaxArraySize is 1001)."""
WRITES_PER_S = 3500
"""That S3 takes under one prefix before it asks to slow down."""
COORDINATOR_BYTES = 4e9
"""What one process should hold on a login node."""
BUSY_SHARE = 0.5
"""Of the workers' time; with less at work, a smaller cluster is nearly as fast."""
FEW_TASKS = 100
"""Of a measured run: fewer say little."""
FAR = 100_000
"""Times the measured corpus: nobody has tried."""


@dataclass(frozen=True)
class Prices:
    """In US dollars. List prices of AWS in us-east-1; S3's are those of S3 Standard as of 2025, an hour of a core that
    of an m7g.large on demand (0.0816 for two) as of June 2026. Spot machines cost a third to a half.
    """

    core_hour: float = 0.0408
    million_gets: float = 0.40
    million_puts: float = 5.00
    tb_month: float = 23.0


@dataclass(frozen=True)
class Bill:
    compute: float
    """Of the whole cluster for as long as the run takes."""
    requests: float
    store_month: float


def bill(sizing: Sizing, cluster: Machines, prices: Prices) -> Bill:
    return Bill(
        cluster.workers * sizing.wall_s[1] / 3600 * prices.core_hour,
        sizing.gets / 1e6 * prices.million_gets + sizing.puts / 1e6 * prices.million_puts,
        sizing.stored_bytes / 1e12 * prices.tb_month,
    )


def busy_share(sizing: Sizing, cluster: Machines) -> float:
    """Of the time of all workers, that they are at work."""
    return min(1.0, sum(line.wall_s for line in sizing.lines) / (cluster.workers * sizing.wall_s[1]))


def faults(sizing: Sizing, cluster: Machines, free_bytes: int | None, measured_tasks: int) -> Iterator[str]:
    """Everything that would stop such a run or hold it up; each with what to do."""
    largest = max(sizing.lines, key=lambda line: line.memory_bytes)
    node_bytes = cluster.cores * largest.memory_bytes
    if cluster.memory_bytes is not None and node_bytes > cluster.memory_bytes:
        fits = cluster.fitting(largest.memory_bytes)
        told = (
            f"so {fits} of {cluster.cores} can work at once" if fits else "so not even one can work: it would not end"
        )
        yield (
            f"Memory: a worker at {largest.step} {largest.verb} holds up to {_gb(largest.memory_bytes)}, "
            f"{cluster.cores} of them {_gb(node_bytes)}, and a node has {_gb(cluster.memory_bytes)}, {told}. Take "
            "nodes with more, or smaller part_bytes (of readers, maps) or shard_tokens (of shards)."
        )
    if free_bytes is not None and sizing.stored_bytes > free_bytes:
        yield (
            f"Disk: the store grows to about {_gb(sizing.stored_bytes)}, and {_gb(free_bytes)} are free under it. Name "
            f"another with {option('store')}, such as s3://bucket/prefix."
        )
    if sizing.coordinator_bytes > COORDINATOR_BYTES:
        yield (
            f"Coordinator: it would hold about {_gb(sizing.coordinator_bytes)} for {counted(sizing.tasks, 'task')}. "
            "Run it on a node of its own, or take larger part_bytes."
        )
    handing_out_s = COORDINATOR_S * sizing.tasks
    busy = busy_share(sizing, cluster)
    if busy < BUSY_SHARE and handing_out_s > BUSY_SHARE * sizing.wall_s[1]:
        yield (
            f"Coordinator: to hand out {counted(sizing.tasks, 'task')} takes it about {duration(handing_out_s)}, and "
            f"workers are at work for {percent(busy, 1)} of the time: they wait for it. A smaller cluster costs less "
            "and is as fast; parts that are larger (part_bytes, and input files, where each is a part) make fewer "
            "and longer tasks."
        )
    elif busy < BUSY_SHARE:
        yield (
            f"Workers are at work for {percent(busy, 1)} of the time: barriers of exchanges and single long tasks "
            "take the rest. A smaller cluster costs less and is nearly as fast."
        )
    if cluster.nodes > ARRAY_JOBS:
        yield (
            f"Slurm: an array of {counted(cluster.nodes, 'job')} is more than the {ARRAY_JOBS:,} that it takes unless "
            "MaxArraySize is raised. Take fewer nodes with more cores each."
        )
    writes = sizing.puts / max(sizing.wall_s[1], 1.0)
    if writes > WRITES_PER_S:
        yield (
            f"Object store: about {writes:,.0f} writes a second, and S3 begins with {WRITES_PER_S:,} a second and "
            "prefix; it answers SlowDown until it has split them, which is waited out. Take larger part_bytes."
        )
    if measured_tasks < FEW_TASKS or sizing.growth > FAR:
        yield (
            f"The measured run had {counted(measured_tasks, 'task')}, and the corpus is {sizing.growth:,.4g} times its "
            "own: measure more of it before you rely on this."
        )


def duration(seconds: float) -> str:
    """As people read it: seconds, minutes or hours."""
    if seconds < 60:
        return f"{seconds:.1f} s"
    if seconds < 5400:
        return f"{seconds / 60:.1f} min"
    return f"{seconds / 3600:,.1f} h" if seconds < 360_000 else f"{seconds / 3600:,.0f} h"


def _gb(count: float) -> str:
    return f"{count / 1e12:,.1f} TB" if count >= 1e12 else f"{count / 1e9:,.1f} GB"
