"""An --out file gets its name only when it is complete, and nothing else in its folder is touched."""

import os

import pytest

from gristmill.errors import UserError
from gristmill_extractor import whole_file
from gristmill_extractor.whole_file import check_target, write_whole


def test_a_planted_link_or_pipe_is_not_written_through(tmp_path, monkeypatch):
    """Even if an attacker guesses the temporary name, the target of the link and the link itself stay unchanged."""
    kept = tmp_path / "kept"
    kept.write_bytes(b"as it was")
    monkeypatch.setattr(whole_file.secrets, "token_hex", lambda _: "guessed")
    for plant in (lambda trap: trap.symlink_to(kept), os.mkfifo):
        trap = tmp_path / ".guessed.part"
        plant(trap)
        with pytest.raises(UserError, match="cannot be written"):
            write_whole(tmp_path / "out", b"new")
        assert os.path.lexists(trap)
        trap.unlink()
    assert (kept.read_bytes(), os.listdir(tmp_path)) == (b"as it was", ["kept"])


def test_the_file_mode_follows_the_umask(tmp_path):
    """It equals the mode of any new file."""
    (tmp_path / "other").write_bytes(b"")
    write_whole(tmp_path / "out", b"new")
    assert (tmp_path / "out").stat().st_mode == (tmp_path / "other").stat().st_mode
    assert (tmp_path / "out").read_bytes() == b"new"


def test_a_failed_write_leaves_no_file(tmp_path, monkeypatch):
    """This holds for an error and for Ctrl-C."""
    (tmp_path / "out").write_bytes(b"as it was")
    for error, result in (
        (OSError(28, "No space left on device"), UserError),
        (KeyboardInterrupt(), KeyboardInterrupt),
    ):

        def fail(*_, error=error):
            raise error

        monkeypatch.setattr(whole_file.os, "replace", fail)
        with pytest.raises(result):
            write_whole(tmp_path / "out", b"new")
    assert [(path.name, path.read_bytes()) for path in tmp_path.iterdir()] == [("out", b"as it was")]


def test_an_unusable_output_path_is_rejected_before_the_work(tmp_path):
    """A pipe, which would block; a device, which a file would replace; a folder; a missing folder."""
    os.mkfifo(tmp_path / "pipe")
    for path, result in (
        (tmp_path / "pipe", "is a pipe, not a file, so nothing was done"),
        (whole_file.Path("/dev/null"), "is a device, not a file"),
        (tmp_path, "is a folder, not a file"),
        (tmp_path / "none" / "out", "there is no folder"),
        (tmp_path / ("x" * 300), "cannot be written"),
    ):
        with pytest.raises(UserError, match=result):
            check_target(path, "nothing was done")
    assert check_target(tmp_path / "out", "nothing was done") is False
