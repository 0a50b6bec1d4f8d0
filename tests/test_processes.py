"""Folders get their names when they are whole, and what killed processes left goes."""

import os
import subprocess

import pytest

from gristmill.processes import name_of, name_of_self, new_folder


def test_what_a_killed_process_left_beside_a_folder_goes(tmp_path):
    """The next call for the same folder removes it; what a living process writes, and folders of others, stay."""
    ended = subprocess.Popen(["true"])
    dead = name_of(ended.pid)
    ended.wait()
    left = [f".receipt-{dead}-a1", f".receipt-{name_of_self()}-b2", ".receipt-mine", f".other-{dead}-c3"]
    for name in left:
        (tmp_path / name).mkdir()
    with new_folder(tmp_path / "receipt") as made:
        (made / "page").write_text("whole")
        assert not (tmp_path / "receipt").exists()
    assert sorted(os.listdir(tmp_path)) == sorted([*left[1:], "receipt"])


def test_a_folder_that_fails_leaves_nothing(tmp_path):
    """Neither under its name nor under another."""
    with pytest.raises(OSError, match="no more"), new_folder(tmp_path / "deep/receipt"):
        raise OSError("no more")
    assert os.listdir(tmp_path / "deep") == []
