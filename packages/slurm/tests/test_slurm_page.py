"""The examples in docs/slurm.md work as printed, on a Slurm cluster with two nodes."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from demo import __main__ as demo
from gristmill.recipe.sections.cluster import ClusterFields
from slurm_cluster import PAGE, write_profile

ROOT = Path(__file__).parents[3]
COMMANDS = re.findall(r"^ {4,}((?:gristmill|squeue|sbatch) .*)$", PAGE, re.M)


def test_the_page_names_every_field():
    assert len(COMMANDS) == 3
    assert [field for field in ClusterFields.model_fields if f"`{field}`" not in PAGE] == []


@pytest.mark.slow
@pytest.mark.slurm
def test_every_command_of_the_page_runs(tmp_path, slurm, monkeypatch):
    """The commands run in order; the run that is itself a job finds everything done."""
    shutil.copytree(ROOT / "recipes", tmp_path / "recipes")
    monkeypatch.setattr(sys, "argv", ["demo", "build", "demo/inputs", "--scale", "0.03"])
    assert not demo.main()
    write_profile(tmp_path)
    programs = tmp_path / "bin"
    programs.mkdir()
    (programs / "gristmill").write_text(f'#!/bin/sh\nexec {sys.executable} -m gristmill "$@"\n')
    (programs / "gristmill").chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}{os.pathsep}{os.environ['PATH']}")
    for command in COMMANDS:
        ended = subprocess.run(command, shell=True, capture_output=True, text=True)
        assert ended.returncode == 0, f"{command}\n{ended.stdout}\n{ended.stderr}"
    [job_log] = tmp_path.glob("slurm-*.out")
    assert "0 tasks run" in job_log.read_text()
    second_run = subprocess.run("gristmill run recipes/demo.yaml", shell=True, capture_output=True, text=True)
    assert "0 tasks run" in second_run.stdout, second_run.stderr
