"""`make test` shows the first failure at once and goes on."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

TESTS = """
import pytest

@pytest.fixture
def folder():
    raise OSError("the first fault")

def test_one(folder): pass
def test_two(): assert not "the second fault"
def test_three(): pass
"""


@pytest.mark.parametrize("processes", [[], ["-n", "1"]])
def test_the_first_failure_is_shown_when_it_happens(tmp_path, processes):
    """Also a failure of a fixture, and of a test in another process; later ones wait for the end."""
    (tmp_path / "test_some.py").write_text(TESTS)
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parent)}
    command = [sys.executable, "-m", "pytest", "-v", "-p", "first_failure", *processes, str(tmp_path)]
    output = subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True).stdout
    during, _, at_end = output.partition("= ERRORS =")
    shown, _, after = during.partition("the first fault")
    assert "first failure: " in shown
    assert "test_three" in after
    assert "the second fault" not in during
    assert "the first fault" in at_end
    assert "the second fault" in at_end
