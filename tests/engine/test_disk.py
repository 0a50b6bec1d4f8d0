"""What a run will need in its store, said before it runs."""

import json
import shutil
from types import SimpleNamespace

import pytest

from gristmill.cli.main import run_command
from gristmill.engine.disk import estimate, stored_bytes


def disk_of(project):
    mill = project.mill()
    return estimate(mill.look(), mill.store, mill.known_before())


def parts_bytes(project):
    return sum(path.stat().st_size for path in (project.store / "parts").rglob("*") if path.is_file())


def test_rules_of_thumb_before_the_first_run(project):
    """A range, more input needs more, and the store need not be there yet."""
    project.write_recipe(steps="  - stagebox.length")
    few = disk_of(project)
    assert 0 < few.least_bytes < few.most_bytes
    assert not few.measured
    assert few.free_bytes > 0
    project.write_inputs(files=8)
    assert disk_of(project).most_bytes > 1.5 * few.most_bytes


def test_earlier_runs_are_measured(project):
    """Nothing to do needs nothing; twice the input needs about twice what the run before has stored."""
    project.run()
    stored = parts_bytes(project)
    done = disk_of(project)
    assert (done.least_bytes, done.most_bytes) == (0, 0)
    assert 0.5 * stored < done.stored_bytes < 2 * stored  # steps may share a part
    project.write_inputs(files=8, seed=9)
    more = disk_of(project)
    assert more.measured
    assert done.stored_bytes / 2 < more.least_bytes < more.most_bytes < 4 * done.stored_bytes


@pytest.mark.parametrize(("room", "told"), [("most", None), ("least", "may not fit"), ("none", "will not fit")])
def test_plan_shows_it_and_warns(project, monkeypatch, capsys, room, told):
    """As a range with the free space, for people and for programs."""
    disk = disk_of(project)
    free = {"most": disk.most_bytes, "least": disk.least_bytes, "none": 0}[room]
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=free))
    for words in ((), ("--json",)):
        monkeypatch.setattr("sys.argv", ["gristmill", "plan", str(project.recipe), *words])
        assert run_command() == 0
    shown, _, listed = capsys.readouterr().out.partition("\n{")
    assert "The run will add about" in shown
    assert (told is None) == ("WARNING" not in shown)
    assert told is None or told in shown
    disk = json.loads("{" + listed)["disk"]
    assert disk["short"] == (told is not None)
    assert disk["free_bytes"] == free


@pytest.mark.slow
def test_what_may_stay_is_not_counted_as_added(project, edit):
    """A step that waits may find all that it made in the store again: the least is what is certain to be made."""
    project.run()
    edit(project.recipe, "chars: 12", "chars: 13")
    disk = disk_of(project)
    run = project.look()
    assert disk.least_bytes <= stored_bytes(run, "all/length")
    assert disk.most_bytes > 2 * disk.least_bytes
    assert project.run().made["all/longer_than"].executed
    assert (disk_of(project).least_bytes, disk_of(project).most_bytes) == (0, 0)
