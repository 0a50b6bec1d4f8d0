"""The estimate of the disk space that a run needs."""

import json
import shutil
from stat import S_ISDIR
from types import SimpleNamespace

import pytest
from conftest import STEPS

from gristmill.cli.main import run_command
from gristmill.cli.run.plan import _show_disk as show_disk
from gristmill.query.sizing.disk import Disk, estimate


def disk_of(project):
    mill = project.mill()
    return estimate(mill.dry_run(), mill.store, mill.known_before())


def taken_bytes(project):
    """The size of the store on a disk with 4 KiB blocks: files and folders, a file with two names once."""
    found = {path.lstat().st_ino: path.lstat() for path in (project.store, *project.store.rglob("*"))}
    return sum(4096 if S_ISDIR(one.st_mode) else -(-one.st_size // 4096) * 4096 for one in found.values())


def test_rules_of_thumb_before_the_first_run(project):
    """The estimate is a range, more input needs more, and the store need not exist yet."""
    project.write_recipe(steps="  - stagebox.length")
    few = disk_of(project)
    assert 0 < few.least_bytes < few.most_bytes
    assert not few.measured
    assert few.free_bytes > 0
    project.write_inputs(files=8)
    assert disk_of(project).most_bytes > 1.5 * few.most_bytes


def test_a_file_that_a_setting_names_counts(project):
    """It is copied into the store, once for all steps that name it."""
    (project.folder / "words.txt").write_text("mill\n" * 400_000)
    steps = "  - stagebox.word_list: {words: words.txt}\n  - stagebox.listed"
    project.write_recipe(steps=steps)
    assert disk_of(project).least_bytes > 2_000_000
    project.run()
    done = disk_of(project)
    assert done.most_bytes == 0
    assert done.stored_bytes > 2_000_000


SMALL = {
    "one file of some documents": (1, 30, "  - stagebox.length\n  - stagebox.exact"),
    "exchanges of many rounds": (1, 200, "  - stagebox.exact\n  - stagebox.two_rounds\n  - stagebox.upper"),
    "every kind of stage": (4, 200, STEPS),
}


@pytest.mark.parametrize("what", SMALL)
def test_a_small_run_takes_what_was_estimated(project, what):
    """Within a factor of 2, before the first run and after it: small files take blocks, and records are files, too."""
    files, records, steps = SMALL[what]
    shutil.rmtree(project.folder / "in")
    project.write_inputs(files=files, records=records)
    project.write_recipe(steps=steps)
    foreseen = disk_of(project)
    assert not foreseen.measured
    project.run()
    taken = taken_bytes(project)
    assert taken / 2 < (foreseen.least_bytes * foreseen.most_bytes) ** 0.5 < 2 * taken
    done = disk_of(project)
    assert (done.least_bytes, done.most_bytes) == (0, 0)
    assert taken / 1.5 < done.stored_bytes < 1.5 * taken

    project.write_inputs(files=files + 2, records=records, seed=9)  # all others, and two more
    foreseen = disk_of(project)
    assert foreseen.measured
    assert foreseen.most_bytes < 3 * foreseen.least_bytes
    project.run()
    more = taken_bytes(project) - taken
    assert more / 2 < (foreseen.least_bytes * foreseen.most_bytes) ** 0.5 < 2 * more


@pytest.mark.parametrize(("room", "message"), [("most", None), ("least", "may not fit"), ("none", "will not fit")])
def test_plan_shows_it_and_warns(project, monkeypatch, capsys, room, message):
    """As a range with the free space, for people and for programs."""
    disk = disk_of(project)
    free = {"most": disk.most_bytes, "least": disk.least_bytes, "none": 0}[room]
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=free))
    for words in ((), ("--json",)):
        monkeypatch.setattr("sys.argv", ["gristmill", "plan", str(project.recipe), *words])
        assert run_command() == 0
    shown, _, listed = capsys.readouterr().out.partition("\n{")
    assert "The run will add about" in shown
    assert (message is None) == ("WARNING" not in shown)
    assert message is None or message in shown
    disk = json.loads("{" + listed)["disk"]
    assert disk["short"] == (message is not None)
    assert disk["free_bytes"] == free


def test_a_range_of_one_number_is_that_number(capsys):
    """`87.0 KB to 87.0 KB` would be silly."""
    for most, message in ((87_040, "about 87.0 KB to store"), (91_000, "about 87.0 KB to 91.0 KB to store")):
        show_disk(Disk(87_001, most, 0, True, None), "store")
        assert message in capsys.readouterr().out


@pytest.mark.slow
def test_after_a_change_the_range_is_narrow_enough_to_be_of_use(project, edit):
    """A changed step may have the same output: half of it is the minimum, and all of it the maximum."""
    project.run()
    taken = taken_bytes(project)
    edit(project.recipe, "chars: 12", "chars: 25")
    disk = disk_of(project)
    assert disk.measured
    assert disk.most_bytes < 3 * disk.least_bytes
    project.run()
    assert disk.least_bytes / 2 < taken_bytes(project) - taken < 2 * disk.most_bytes
    assert (disk_of(project).least_bytes, disk_of(project).most_bytes) == (0, 0)
