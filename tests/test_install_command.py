"""The commands in messages that install more: they work where they are printed."""

import importlib.metadata
import json
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from gristmill import install_command
from gristmill.install_command import install_extra, install_library, install_package

ROOT = Path(__file__).parents[1]


@pytest.fixture
def recorded(monkeypatch):
    """Records where pip installed Gristmill from."""

    def record(url, **info):
        text = json.dumps({"url": url, **info}) if url else None
        monkeypatch.setattr(
            importlib.metadata, "distribution", lambda name: type("D", (), {"read_text": lambda self, _: text})()
        )

    return record


def test_from_a_clone_it_is_the_clone_with_its_constraints(recorded, tmp_path, monkeypatch):
    """With this Python, and relative paths where they are shorter."""
    monkeypatch.setattr(sys, "executable", str(tmp_path / "my clone" / ".venv" / "bin" / "python"))
    clone = tmp_path / "my clone"
    (clone / "packages" / "slurm").mkdir(parents=True)
    (clone / "constraints.txt").touch()
    recorded(clone.as_uri(), dir_info={"editable": True})
    monkeypatch.chdir(clone)
    assert install_extra("report") == ".venv/bin/python -m pip install -c ./constraints.txt -e '.[report]'"
    assert install_package("slurm") == ".venv/bin/python -m pip install -c ./constraints.txt ./packages/slurm"
    assert install_package("ablate", "torch").endswith(" -c ./constraints.txt './packages/ablate[torch]'")
    assert install_package("slurm", "hwloc").endswith("-c ./constraints.txt './packages/slurm[hwloc]'")
    recorded(clone.as_uri(), dir_info={})
    monkeypatch.chdir("/")
    assert shlex.split(install_extra("sql"))[1:] == [
        *("-m", "pip", "install", "-c", f"{clone}/constraints.txt", f"{clone}[sql]")
    ]


def test_from_a_wheel_it_is_the_wheel_while_it_is_there(recorded, tmp_path, monkeypatch):
    """Afterwards, and if pip recorded no file, it is the name of the project."""
    monkeypatch.setattr(sys, "executable", "/usr/bin/python3")
    monkeypatch.chdir(tmp_path)
    wheel = tmp_path / "gristmill-0.1.0-py3-none-any.whl"
    wheel.touch()
    recorded(wheel.as_uri(), archive_info={})
    assert install_extra("s3") == f"/usr/bin/python3 -m pip install './{wheel.name}[s3]'"
    assert install_package("slurm").endswith("-m pip install ./packages/slurm in a clone of Gristmill")
    assert install_library("boto3") == "/usr/bin/python3 -m pip install boto3"
    wheel.unlink()
    assert install_extra("s3") == "/usr/bin/python3 -m pip install 'gristmill[s3]'"
    recorded(None)
    assert install_extra("s3") == "/usr/bin/python3 -m pip install 'gristmill[s3]'"


def test_the_command_works_here(monkeypatch, tmp_path):
    """pip finds the project and its extra, from another folder, too."""
    monkeypatch.chdir(tmp_path)
    words = shlex.split(install_extra("report"))
    assert words[words.index("-c") + 1 :]
    options = ["--dry-run", "--no-deps", "--no-index", "--no-build-isolation", "--disable-pip-version-check"]
    done = subprocess.run([*words, *options], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "gristmill" in done.stdout
    assert "does not provide the extra" not in done.stderr
    assert install_command._clone() == ROOT
