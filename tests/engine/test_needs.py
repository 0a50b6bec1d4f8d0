"""What tasks declare that they need, and that the local executor shares memory accordingly."""

import asyncio

import numpy as np
import pytest

from gristmill.engine.executors.turns import Turns
from gristmill.engine.work.needs import PROCESS_BYTES, needs_of
from gristmill.engine.work.shuffle import IN_MEMORY
from gristmill.engine.work.task import Build, Hash, MapWork, Reduce
from gristmill.stages.contract import Resources, StageConfig
from gristmill.stages.select import corpus
from gristmill.store.segments import ROW, SegmentFile, SegmentTable
from gristmill.store.store import Part

CONFIG, NAME = StageConfig(), corpus.__name__


def segments(memory):
    table = np.zeros(1, ROW)
    table["memory"] = memory
    return SegmentTable([SegmentFile(Part("a" * 64, "segments", 10), 1, "")], [table]).to(0)


def test_a_task_needs_what_it_reads_and_not_more_than_its_bounds():
    """A map by the size of its part, a reducer by its records up to its memory limit, a shard by all of it."""
    assert needs_of(Hash(())).memory == PROCESS_BYTES
    assert all(needs_of(work).cores == 1 for work in (Hash(()),))
    sizes = [needs_of(MapWork(NAME, CONFIG, (Part("a" * 64, "parquet", n),), (), (), {})).memory for n in (10, 10**8)]
    assert sizes[0] < sizes[1] < 10**9
    few, many, more = (
        needs_of(Reduce(NAME, CONFIG, "reduce", segments(n), "key", 58)).memory for n in (10, 2**30, 2**40)
    )
    assert few < many == more == PROCESS_BYTES + 4 * IN_MEMORY < 10**9
    assert needs_of(Build(NAME, CONFIG, {}, segments(2**30), {})).memory > 2**31


def test_no_task_starts_that_would_need_more_memory_than_is_left():
    """The next in order waits until memory is free; one that needs more than there is runs alone."""
    sizes = (6, 3, 4, 50, 1)

    async def main():
        turns, begun = Turns(4, memory=10), []
        ends = [asyncio.Event() for _ in sizes]

        async def one(number):
            async with turns.turn((number,), Resources(memory=sizes[number])):
                begun.append(number)
                await ends[number].wait()

        tasks = [asyncio.ensure_future(one(number)) for number in range(len(sizes))]
        observed = []
        for task, end in zip(tasks, ends, strict=True):
            await settled(begun)
            observed.append(list(begun))
            end.set()
            await task
        return observed

    assert asyncio.run(main()) == [[0, 1], [0, 1, 2], [0, 1, 2], [0, 1, 2, 3], [0, 1, 2, 3, 4]]


async def settled(begun):
    """How many tasks have begun once all of them had the chance."""
    for _ in range(5):
        await asyncio.sleep(0)
    return len(begun)


def test_a_task_cancelled_at_its_turn_gives_it_back():
    """It already had the slot, although it never started."""

    async def main():
        turns = Turns(1)

        async def one():
            async with turns.turn(()):
                pass

        task = asyncio.ensure_future(one())
        with turns.held_back():
            await asyncio.sleep(0)
        assert turns.taken == 1
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert turns.taken == 0
        await one()

    asyncio.run(main())


def test_a_run_gets_more_slots_while_others_wait():
    """A cluster grows; waiting for all tasks to end works, and no task starts while they are held back."""

    async def main():
        turns, begun, end = Turns(1), [], asyncio.Event()

        async def one(number):
            async with turns.turn((number,)):
                begun.append(number)
                await end.wait()

        tasks = [asyncio.ensure_future(one(number)) for number in range(4)]
        assert await settled(begun) == 1
        turns.slots = 3
        turns.hand_out()
        assert await settled(begun) == 3
        with turns.held_back():
            end.set()
            await turns.all_done()
            assert (turns.taken, begun) == (0, [0, 1, 2])
        await asyncio.gather(*tasks)
        assert begun == [0, 1, 2, 3]

    asyncio.run(main())
