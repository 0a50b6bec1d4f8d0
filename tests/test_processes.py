"""Folders get their names when they are complete, and the leftovers of killed processes are removed."""

import os
import subprocess

import pytest

from gristmill.processes import name_of, name_of_self, new_folder


def test_the_leftovers_of_a_killed_process_are_removed(tmp_path):
    """The next call for the same folder removes them; a folder of a living process, and other folders, stay."""
    ended = subprocess.Popen(["true"])
    dead = name_of(ended.pid)
    ended.wait()
    left = [f".receipt-{dead}-a1", f".receipt-{name_of_self()}-b2", ".receipt-mine", f".other-{dead}-c3"]
    for name in left:
        (tmp_path / name).mkdir()
    with new_folder(tmp_path / "receipt") as new:
        (new / "page").write_text("whole")
        assert not (tmp_path / "receipt").exists()
    assert sorted(os.listdir(tmp_path)) == sorted([*left[1:], "receipt"])


def test_a_failed_folder_leaves_nothing(tmp_path):
    """It leaves nothing under its own name or another."""
    with pytest.raises(OSError, match="no more"), new_folder(tmp_path / "deep/receipt"):
        raise OSError("no more")
    assert os.listdir(tmp_path / "deep") == []
