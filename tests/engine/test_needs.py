"""What tasks say that they need, and that the local executor shares memory out by it."""

import asyncio

import numpy as np

from gristmill.engine.executors.local import LocalExecutor
from gristmill.engine.work.needs import PROCESS_BYTES, needs_of
from gristmill.engine.work.shuffle import IN_MEMORY
from gristmill.engine.work.task import Build, Hash, Map, Reduce
from gristmill.stages.contract import StageConfig
from gristmill.store.segments import ROW, SegmentFile, SegmentTable
from gristmill.store.store import Part, Store

CONFIG = StageConfig()


def segments(memory):
    table = np.zeros(1, ROW)
    table["memory"] = memory
    return SegmentTable([SegmentFile(Part("a" * 64, "segments", 10), 1, "")], [table]).to(0)


def test_a_task_needs_what_it_reads_and_not_more_than_its_bounds():
    """A map by the size of its part, a reducer by its records up to what it takes into memory, a shard by all of it."""
    assert needs_of(Hash(())).memory_bytes == PROCESS_BYTES
    assert all(needs_of(work).cores == 1 for work in (Hash(()),))
    sizes = [needs_of(Map("m", CONFIG, (Part("a" * 64, "parquet", n),), (), (), {})).memory_bytes for n in (10, 10**8)]
    assert sizes[0] < sizes[1] < 10**9
    few, many, more = (
        needs_of(Reduce("m", CONFIG, "reduce", segments(n), "key", 58)).memory_bytes for n in (10, 2**30, 2**40)
    )
    assert few < many == more == PROCESS_BYTES + 4 * IN_MEMORY < 10**9
    assert needs_of(Build("m", CONFIG, {}, segments(2**30), {})).memory_bytes > 2**31


def test_no_task_starts_that_would_need_more_memory_than_is_left(tmp_path):
    """The next in order waits until there is room; one that needs more than there is runs alone."""

    async def main():
        executor = LocalExecutor(Store(str(tmp_path)), 4)
        executor._memory = 10
        turns = [asyncio.ensure_future(executor._turn((n,), memory)) for n, memory in enumerate((6, 3, 4, 50, 1))]
        started = []
        for memory in (6, 3, 4, 50, 1):
            await asyncio.sleep(0)
            started.append([turn.done() for turn in turns])
            executor._free += 1
            executor._held -= memory
            executor._hand_out()
        executor.close()
        return started

    found = asyncio.run(main())
    assert found[0] == [True, True, False, False, False]
    assert found[1] == [True, True, True, False, False]
    assert found[2] == [True, True, True, False, False]
    assert found[3] == [True, True, True, True, False]
    assert found[4] == [True] * 5
