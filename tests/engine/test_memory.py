"""The memory of the container or job of a process counts, not that of the machine."""

import subprocess
import sys

import pytest

from gristmill.engine.work import memory


@pytest.mark.parametrize(
    ("own", "folder", "limit", "used", "files"),
    [
        ("0::/job/step\n", "job", "memory.max", "memory.current", "inactive_file"),
        ("0::/\n", "", "memory.max", "memory.current", "inactive_file"),
        (
            "9:cpu:/x\n7:memory:/job\n",
            "memory/job",
            "memory.limit_in_bytes",
            "memory.usage_in_bytes",
            "total_inactive_file",
        ),
    ],
)
def test_limits_of_groups_count(own, folder, limit, used, files, tmp_path, monkeypatch):
    """For both versions of cgroups, for the process's own group or one above it; the page cache counts as free."""
    (tmp_path / "own").write_text(own)
    monkeypatch.setattr(memory, "OWN_GROUPS", tmp_path / "own")
    monkeypatch.setattr(memory, "CGROUP", tmp_path)
    whole = memory.total_bytes()
    (tmp_path / folder).mkdir(parents=True, exist_ok=True)
    (tmp_path / folder / limit).write_text("1000000\n")
    (tmp_path / folder / used).write_text("700000\n")
    (tmp_path / folder / "memory.stat").write_text(f"cache 5\n{files} 200000\n")
    assert whole is None or (memory.total_bytes(), memory.available_bytes()) == (1_000_000, 500_000)
    (tmp_path / folder / limit).write_text("max\n")
    assert memory.total_bytes() == whole


def test_cpu_time_of_a_child_counts_while_it_lives_and_afterwards():
    """The process that parses PDF files outlives its tasks."""
    burn = "import time\nwhile time.process_time() < 0.5: pass\nprint(flush=True)\ninput()"
    before = memory.cpu_seconds()
    with subprocess.Popen([sys.executable, "-c", burn], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        child.stdout.readline()
        assert memory.cpu_seconds() - before > 0.45
        child.communicate(b"\n")
    assert memory.cpu_seconds() - before > 0.45
