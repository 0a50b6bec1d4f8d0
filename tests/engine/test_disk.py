"""The estimate of the disk space that a run needs."""

import json
import shutil
from types import SimpleNamespace

import pytest

from gristmill.cli.main import run_command
from gristmill.cli.run.plan import _show_disk as show_disk
from gristmill.query.sizing.disk import SMALL_BYTES, Disk, estimate


def disk_of(project):
    mill = project.mill()
    return estimate(mill.dry_run(), mill.store, mill.known_before())


def test_rules_of_thumb_before_the_first_run(project):
    """More input needs more, and the store need not exist yet."""
    project.write_recipe(steps="  - stagebox.length")
    few = disk_of(project)
    assert few.added_bytes > 0
    assert few.stored_bytes == 0
    assert few.free_bytes > 0
    project.write_inputs(files=8)
    assert disk_of(project).added_bytes > 1.5 * few.added_bytes


def test_after_a_run_its_sizes_count(project):
    """A whole run adds nothing, and more inputs add as much for a byte as the earlier ones."""
    project.write_inputs(files=4)
    project.write_recipe(steps="  - stagebox.length")
    project.run()
    done = disk_of(project)
    assert done.added_bytes == 0
    assert done.stored_bytes > 0
    project.write_inputs(files=8)
    assert done.stored_bytes / 2 < disk_of(project).added_bytes < 2 * done.stored_bytes


@pytest.mark.parametrize("is_short", [False, True])
def test_plan_shows_it_and_warns(project, monkeypatch, capsys, is_short):
    """With the free space, for people and for programs."""
    free = 0 if is_short else 2 * SMALL_BYTES
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=free))
    for words in ((), ("--json",)):
        monkeypatch.setattr("sys.argv", ["gristmill", "plan", str(project.recipe), *words])
        assert run_command() == 0
    shown, _, listed = capsys.readouterr().out.partition("\n{")
    assert "The run will add less than 50.0 MB" in shown
    assert ("may not fit" in shown) == is_short
    disk = json.loads("{" + listed)["disk"]
    assert disk["short"] == is_short
    assert disk["free_bytes"] == free


def test_a_large_run_is_a_number(capsys):
    show_disk(Disk(87_000_000_000, 0, None), "store")
    assert "will add about 87.0 GB to store" in capsys.readouterr().out
