"""The frontier: ready items are done once and in order, in a window, after barriers; absent ones are counted."""

import asyncio
from types import SimpleNamespace

import pytest

from gristmill.engine.schedule.corpus_view import DocumentPart
from gristmill.engine.schedule.frontier import READING, Frontier, WorkItem
from gristmill.store.store import Part

# clean -> score -> shuffle (an exchange: send, answer) -> final, which uses a model that is trained on score
CLEAN, SCORE, SEND, ANSWER, FINAL = (1 << bit for bit in range(5))


def chain():
    nodes = {name: SimpleNamespace(id=name) for name in ("clean", "score", "shuffle", "final")}
    return [
        WorkItem(nodes["clean"], False, CLEAN, 0, frozenset()),
        WorkItem(nodes["score"], False, SCORE, CLEAN, frozenset()),
        WorkItem(nodes["shuffle"], True, SEND, CLEAN, frozenset()),
        WorkItem(nodes["shuffle"], False, ANSWER, SEND, frozenset({"shuffle"})),
        WorkItem(nodes["final"], False, FINAL, ANSWER | SCORE, frozenset({"model"})),
    ]


def parts(number, source="a"):
    return [
        DocumentPart(source, Part(f"{n:064x}", "parquet", 1), "", (n, 0), f"{source} part {n}", "")
        for n in range(number)
    ]


class World:
    """Performs what a frontier requests, in steps that can interleave, and records it."""

    def __init__(self, window=4, absent=()):
        self.done, self.waiting, self.now, self.most = [], [], 0, 0
        self.absent = absent
        self.frontier = Frontier({"a": chain()}, self.perform, self.waiting.append, lambda: window)
        self.frontier.add_gate("sent", {"a": SEND})
        self.frontier.add_gate("scored", {"a": SCORE})
        self.frontier.add_gate("whole", {"a": FINAL})
        self.gates_passed = {}

    async def perform(self, document, item):
        self.now += 1
        self.most = max(self.most, self.now)
        for _ in range(document.order[0] % 3):
            await asyncio.sleep(0)
        self.now -= 1
        if (document.order[0], item.bit) in self.absent:
            return False
        self.done.append((document.order[0], item.bit))
        return True

    def go(self, number, shut=()):
        async def barrier(gate, name, depth):
            self.gates_passed[gate] = await self.frontier.passed(gate)
            self.frontier.open(name, depth, self.gates_passed[gate] and name not in shut)

        async def whole():
            self.gates_passed["whole"] = await self.frontier.passed("whole")

        async def main():
            async with asyncio.TaskGroup() as group:
                self.frontier.start(group)
                group.create_task(barrier("sent", "shuffle", 3))
                group.create_task(barrier("scored", "model", 4))
                group.create_task(whole())
                self.frontier.begin("a", parts(number))
                self.frontier.complete("a", True)

        asyncio.run(main())
        return self


def test_every_item_of_every_part_is_done_once_and_after_what_it_reads():
    """All parts pass a barrier before any part goes beyond it."""
    world = World().go(50)
    assert sorted(world.done) == [(n, 1 << bit) for n in range(50) for bit in range(5)]
    at = {what: place for place, what in enumerate(world.done)}
    for n in range(50):
        assert at[n, CLEAN] < min(at[n, SCORE], at[n, SEND])
        assert max(at[n, ANSWER], at[n, SCORE]) < at[n, FINAL]
    assert max(at[n, SEND] for n in range(50)) < min(at[n, ANSWER] for n in range(50))
    assert max(at[n, SCORE] for n in range(50)) < min(at[n, FINAL] for n in range(50))
    assert world.gates_passed == {"sent": True, "scored": True, "whole": True}


@pytest.mark.parametrize("window", [1, 4, 16])
def test_no_more_parts_than_the_window_are_worked_on(window):
    """Two items of a part may be ready at once."""
    assert World(window).go(100).most <= 2 * window


def test_an_absent_item_closes_later_barriers_and_is_counted():
    """A dry run without one part's record stops all parts at the barrier; each waiting item is counted once."""
    world = World(absent={(3, SEND)}).go(10)
    assert world.gates_passed == {"sent": False, "scored": True, "whole": False}
    assert {bit for _, bit in world.done} == {CLEAN, SCORE, SEND}
    assert sorted(item.bit for item in world.waiting) == [ANSWER] * 10 + [FINAL] * 10


def test_items_are_absent_if_their_barrier_does_not_open():
    """Although all of its inputs exist."""
    world = World().go(5, shut={"model"})
    assert world.gates_passed["whole"] is False
    assert [item.bit for item in world.waiting] == [FINAL] * 5


def test_items_that_are_there_already_are_skipped():
    """They count at gates, and are not done again."""
    world = World()
    world.frontier.skip("a", CLEAN | SEND | ANSWER)
    world.go(7)
    assert {bit for _, bit in world.done} == {SCORE, FINAL}
    assert world.gates_passed == {"sent": True, "scored": True, "whole": True}


def test_without_parts_everything_is_whole():
    """A source may be empty."""
    assert World().go(0).gates_passed == {"sent": True, "scored": True, "whole": True}


def test_parts_that_are_further_along_go_before_new_ones():
    """Reading comes last, so that parts do not pile up."""
    world = World(window=1)
    read = []

    async def main():
        async with asyncio.TaskGroup() as group:
            world.frontier.start(group)

            async def reading(number):
                read.append((number, len(world.done)))
                world.frontier.begin("a", [parts(3)[number]])
                if number == 2:
                    world.frontier.complete("a", True)

            world.frontier.submit(READING, [lambda n=n: reading(n) for n in range(3)])

    asyncio.run(main())
    assert read == [(0, 0), (1, 3), (2, 6)]  # CLEAN, SCORE and SEND of each before the next is read


def test_among_parts_that_are_equally_far_large_ones_go_first():
    """When they arrive, and when a barrier opens: no large one is left for the end."""
    world = World(window=1)
    sizes = [3, 9, 1, 7]
    documents = [
        DocumentPart("a", Part(f"{n:064x}", "parquet", size), "", (n, 0), f"a part {n}", "")
        for n, size in enumerate(sizes)
    ]

    async def main():
        async with asyncio.TaskGroup() as group:
            world.frontier.start(group)
            world.frontier.begin("a", documents)
            world.frontier.complete("a", True)
            await world.frontier.passed("sent")
            world.frontier.open("shuffle", 3, True)

    asyncio.run(main())
    for bit in (CLEAN, ANSWER):
        assert [number for number, done in world.done if done == bit] == [1, 3, 0, 2]
