"""The quick tests fit into two minutes and include some of every file; the longest begin first."""

from pathlib import Path
from types import SimpleNamespace

import pytest
from conftest import run_few_examples
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.cpu_seconds import begin_early, listed, slow_ones

ROOT = Path(__file__).parents[1]


def test_every_listed_test_exists():
    """A renamed test would count as quick again, and the suite would become slow without a visible reason."""
    texts = {file: (ROOT / file).read_text() for file in {name.partition("::")[0] for name in listed()}}
    for name in listed():
        file, _, function = name.rpartition("::")
        assert f"def {function}(" in texts[file], f"{name} is in tests/slow_tests.txt, and is no test"


def test_the_most_expensive_tests_are_slow_until_the_rest_fits():
    """The cost of one test of a function decides: many cheap tests are worth more than an expensive one."""
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


def test_a_test_with_its_own_number_of_examples_runs_few_too():
    """Of 200 examples, `make test-fast` runs 25; of 2, it runs 2."""

    def examples_of(count):
        drawn = []
        test = settings(max_examples=count)(given(st.integers())(lambda number: drawn.append(number)))
        run_few_examples([SimpleNamespace(obj=test, get_closest_marker=lambda name: name == "hypothesis")], 25)
        test()
        return len(drawn)

    assert (examples_of(200), examples_of(2)) == (25, 2)


@pytest.mark.parametrize("name", sorted(listed())[:1])
def test_a_listed_test_is_slow(name, request):
    """It behaves as if it were marked in its file."""
    found = [item for item in request.session.items if item.nodeid.partition("[")[0] == name]
    assert all(item.get_closest_marker("slow") for item in found)


class Item:
    def __init__(self, number, early=False, fixtures=()):
        self.number, self.early, self.fixturenames = number, early, fixtures

    def get_closest_marker(self, name):
        return self.early if name == "early" else None


@pytest.mark.parametrize("workers", [1, 2, 3, 4, 9])
def test_every_worker_begins_with_long_tests(workers):
    """All tests are there once, and those on Ray are together, in any original order."""
    items = [Item(n, early=n in (3, 50, 51, 52, 99), fixtures=("ray_nodes",) * (n in (7, 60))) for n in range(100)]
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


def test_the_ray_cluster_ends_after_its_last_test(request, monkeypatch):
    """Its processes do not run along with the rest of the tests."""
    (conftest,) = (plugin for plugin in request.config.pluginmanager.get_plugins() if hasattr(plugin, "RayNodes"))
    ended = []
    monkeypatch.setattr(conftest.RayNodes, "end", lambda: ended.append(len(ended)))
    conftest.pytest_runtest_teardown(Item(1, fixtures=("ray_nodes",)))
    assert ended == []
    conftest.pytest_runtest_teardown(Item(2))
    conftest.pytest_runtest_teardown(None)
    assert ended == [0, 1]
