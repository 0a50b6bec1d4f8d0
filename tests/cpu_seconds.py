"""The cost of each test: a pytest plugin that measures it, a command that writes `slow_tests.txt`, and the test order.

    CPU_SECONDS=FOLDER pytest -n 2 --dist worksteal -p tests.cpu_seconds
    python tests/cpu_seconds.py FOLDER > tests/slow_tests.txt

The cost is the CPU time of the process and of its finished children. Measure on a quiet machine: other processes change
wall time more, but where cores share their units and caches, they double CPU time, too (collecting all tests took 7.0
to 13.9 CPU seconds). Tests that are marked as slow in their file are not listed.
"""

import json
import os
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pytest

BUDGET_S = 150.0
"""CPU seconds for all quick tests: two processes collect them in 20 more, and two minutes on two cores are 240."""


def used() -> float:
    return sum(os.times()[:4])


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    before = used()
    done = yield
    if item.get_closest_marker("slow") is None or item.nodeid.partition("[")[0] in listed():
        with Path(os.environ["CPU_SECONDS"], f"{os.getpid()}.jsonl").open("a") as file:
            file.write(json.dumps([item.nodeid, used() - before]) + "\n")
    return done


def costs_of(folder: Path) -> dict[str, list[float]]:
    """The costs of the tests of each function."""
    found: dict[str, list[float]] = defaultdict(list)
    for path in sorted(folder.glob("*.jsonl")):
        for line in path.read_text().splitlines():
            name, seconds = json.loads(line)
            found[name.partition("[")[0]].append(seconds)
    return found


def slow_ones(costs: Mapping[str, list[float]], budget_s: float = BUDGET_S) -> list[str]:
    """Functions to leave out, most expensive first, until the rest fits the budget; a third of each file stays."""
    left = sum(map(sum, costs.values()))
    stay: dict[str, int] = defaultdict(int)
    for name in costs:
        stay[_file(name)] += 1
    least = {file: max(1, count // 3) for file, count in stay.items()}
    slow = []
    for name in sorted(costs, key=lambda name: -sum(costs[name]) / len(costs[name])):
        if left <= budget_s:
            break
        if stay[_file(name)] > least[_file(name)]:
            stay[_file(name)] -= 1
            left -= sum(costs[name])
            slow.append(name)
    return sorted(slow)


def _file(name: str) -> str:
    return name.partition("::")[0]


@cache
def listed() -> frozenset[str]:
    """The functions in slow_tests.txt."""
    return frozenset(Path(__file__).with_name("slow_tests.txt").read_text(encoding="utf-8").split())


def mark_slow(items: list[Any]) -> None:
    """Mark the tests of listed functions as slow."""
    slow = listed()
    for item in items:
        if item.nodeid.partition("[")[0] in slow:
            item.add_marker(pytest.mark.slow)


def begin_early(items: list[Any], workers: int) -> None:
    """Sort tests so that each worker begins with some of the tests that take longest.

    Workers get stretches of equal length. One of them gets all tests that need a Ray cluster, which takes half a minute
    to start.
    """
    on_ray = [item for item in items if needs_ray(item)]
    early = [[item] for item in items if item.get_closest_marker("early") and item not in on_ray]
    groups = [on_ray, *early]
    first = [[item for group in groups[worker::workers] for item in group] for worker in range(workers)]
    taken = {item for some in first for item in some}
    rest = [item for item in items if item not in taken]
    items.clear()
    for worker, some in enumerate(first):
        left = sum(map(len, first[worker:])) + len(rest)
        share = max(left // (workers - worker) - len(some), 0)
        items += [*some, *rest[:share]]
        rest = rest[share:]


def needs_ray(item: Any) -> bool:
    """Whether a test uses the Ray cluster: its arguments or a marker say so before it runs."""
    return "ray_nodes" in item.fixturenames or bool(item.get_closest_marker("ray"))


if __name__ == "__main__":
    sys.stdout.write("\n".join([*slow_ones(costs_of(Path(sys.argv[1]))), ""]))
