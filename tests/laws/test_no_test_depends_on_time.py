"""A test gives the same result on a busy machine as on an idle one."""

import ast
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as some

TESTS = Path(__file__).parents[1]
LOOK_AGAIN = {"test_chaos.py", "test_journal.py", "test_ray.py", "slurm_cluster.py"}


def test_examples_have_no_deadline():
    """The profile of conftest.py sets no deadline, and the settings that a test derives from it keep that."""
    assert settings().deadline is None
    assert settings(max_examples=3).deadline is None


@given(some.integers())
def test_an_example_has_no_deadline_either(number):
    """The default of hypothesis is 200 ms."""
    assert settings.get_current_profile_name() == "gristmill"
    assert settings.default.deadline is None


def test_no_test_sets_a_deadline_or_sleeps():
    """No test measures a duration, except to space kills over a run. A test may poll for a change of a process."""
    texts = {path: path.read_text(encoding="utf-8") for path in sorted(TESTS.rglob("*.py"))}
    for path, text in texts.items():
        if not any(word in text for word in ("deadline", "perf_counter", "sleep")):
            continue  # walking all nodes would take longer than most tests
        for node in ast.walk(ast.parse(text)):
            if not isinstance(node, ast.keyword | ast.Call):
                continue
            where = f"{path.relative_to(TESTS)}:{node.lineno}"
            if isinstance(node, ast.keyword) and node.arg == "deadline":
                assert isinstance(node.value, ast.Constant), where
                assert node.value.value is None, where
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                called = node.func.attr
                assert called != "perf_counter", where
                if called == "sleep" and getattr(node.func.value, "id", "") == "time":
                    assert path.name in LOOK_AGAIN, where
