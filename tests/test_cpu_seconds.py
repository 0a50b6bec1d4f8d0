"""The quick tests are those that fit into two minutes, and some of every file; the longest begin first."""

from pathlib import Path

import pytest
from tests.cpu_seconds import begin_early, listed, slow_ones

ROOT = Path(__file__).parents[1]


def test_what_is_listed_is_there():
    """A test that was renamed would be quick again, and nobody would know why it takes so long."""
    texts = {file: (ROOT / file).read_text() for file in {name.partition("::")[0] for name in listed()}}
    for name in listed():
        file, _, function = name.rpartition("::")
        assert f"def {function}(" in texts[file], f"{name} is in tests/slow_tests.txt, and is no test"


def test_the_dearest_are_slow_until_the_rest_fits():
    """By what one test of a function takes: many cheap ones are worth more than one that is dear."""
    costs = {
        "a::dear": [3.0],
        "a::many": [0.1] * 40,
        "a::cheap": [0.2],
        "b::alone": [9.0],
        "c::x": [0.1],
        "c::y": [2.0],
    }
    assert slow_ones(costs, 16.0) == ["a::dear"]
    assert slow_ones(costs, 14.0) == ["a::dear", "c::y"]
    assert slow_ones(costs, 0.0) == ["a::cheap", "a::dear", "c::y"], "something of every file stays"


@pytest.mark.parametrize("name", sorted(listed())[:1])
def test_what_is_listed_is_slow(name, request):
    """As though it were marked where it stands."""
    found = [item for item in request.session.items if item.nodeid.partition("[")[0] == name]
    assert all(item.get_closest_marker("slow") for item in found)


class Item:
    def __init__(self, number, early=False, fixtures=()):
        self.number, self.early, self.fixturenames = number, early, fixtures

    def get_closest_marker(self, name):
        return self.early if name == "early" else None


@pytest.mark.parametrize("workers", [1, 2, 3, 4, 9])
def test_every_worker_begins_with_tests_that_take_long(workers):
    """All tests are there once; those on Ray are together, whatever their place was."""
    items = [Item(n, early=n in (3, 50, 51, 52, 99), fixtures=("_ray_nodes",) * (n in (7, 60))) for n in range(100)]
    sorted_ = list(items)
    begin_early(sorted_, workers)
    assert sorted(item.number for item in sorted_) == list(range(100))
    assert [item.number for item in sorted_[:2]] == [7, 60]
    begun, left, at = [], 100, 0
    for worker in range(workers):
        begun.append(sorted_[at])
        at, left = at + left // (workers - worker), left - left // (workers - worker)
    assert all(item.early or item.fixturenames for item in begun[:6])
    rest = [item.number for item in sorted_ if not item.early and not item.fixturenames]
    assert rest == sorted(rest)
