"""Every bench runs to its end on small data that it generates, and prints its measurements as JSON."""

import asyncio
import importlib
import json
import math
import os
import re
import runpy
import shutil
import subprocess
import sys
import time
from contextlib import nullcontext
from importlib.util import find_spec
from pathlib import Path

import pytest
import yaml
from bench.__main__ import main, names, table
from tests.gold_pages import text_of, write_gold

from bench import _process_tree, extract, pipeline
from demo import build
from gristmill_extractor.extractors import TRAINED, TrainableTool

ROOT = Path(__file__).parents[2]
DEMO_SCALE = 0.02
HERE = ("gristmill", "gristmill.cli.main", "bench.scale")
"""Modules that benches start as commands and that these tests can run in this process."""


def test_every_bench_has_a_small_size():
    """A new bench is tested, too."""
    assert [name for name in names() if not hasattr(importlib.import_module(f"bench.{name}"), "SMALL")] == []


@pytest.fixture(scope="module")
def demo(tmp_path_factory):
    """A small demo, built once: it takes a second, and seven benches need it."""
    folder = tmp_path_factory.mktemp("demo") / "inputs"
    build(folder, scale=DEMO_SCALE)
    return folder


@pytest.fixture
def commands_here(monkeypatch, capfd):
    """Runs `python -m MODULE` with its arguments in this process: new processes and workers take seconds to start."""
    run = subprocess.run

    def typed(command, **named):
        measured = command[1] == _process_tree.__file__ and command[3:5] == [sys.executable, "-m"]
        seconds, command = (command[2], command[3:]) if measured else (os.devnull, command)
        if command[:2] != [sys.executable, "-m"] or command[2] not in HERE or kills_itself(command):
            return run(command, **named)
        capfd.readouterr()
        begun = time.process_time()
        with monkeypatch.context() as patch:
            patch.setattr(sys, "argv", without_a_worker(command[2:]))
            patch.setattr("gristmill.cli.shared.leaving.end_process", sys.exit)  # this process goes on
            code = ended_with(command[2])
        Path(seconds).write_text(f"{time.process_time() - begun}")
        output = capfd.readouterr()
        assert not (named.get("check") and code), output.err
        return subprocess.CompletedProcess(command, code, output.out, output.err)

    monkeypatch.setattr(subprocess, "run", typed)


def kills_itself(command):
    """A run of this bench that ends half-way."""
    return command[2] == "bench.scale" and command[-1] != "0"


def without_a_worker(words):
    """One worker does what this process does."""
    at = words.index("--workers") if "--workers" in words else len(words)
    return words[:at] + words[at + 2 :] if words[at + 1 : at + 2] == ["1"] else words


def ended_with(module):
    try:
        runpy.run_module(module, run_name="__main__")
    except SystemExit as ended:
        return ended.code or 0
    finally:
        asyncio.set_event_loop_policy(None)  # one bench has its own clock
    return 0


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*found in sys.modules:RuntimeWarning")
@pytest.mark.usefixtures("in_this_process", "commands_here")
@pytest.mark.parametrize("name", [*sorted({*names()} - {"on_ray"}), pytest.param("on_ray", marks=pytest.mark.ray)])
def test_a_bench_runs_without_user_data(name, monkeypatch, demo, request):
    """Each measurement is JSON, has a numeric value, and a line in the table."""
    module = importlib.import_module(f"bench.{name}")
    for constant, value in module.SMALL.items():
        assert hasattr(module, constant), f"the bench {name} has no {constant}"
        monkeypatch.setattr(module, constant, value)
    some = shutil.ignore_patterns("*-0000[023].warc.gz")  # one archive of four is enough, except for a mixture
    monkeypatch.setattr("bench.inputs.build", lambda folder, **_: shutil.copytree(demo, folder, ignore=some))
    if name == "on_ray" and find_spec("ray"):  # all tests share a cluster
        cluster = request.getfixturevalue("ray_nodes").cluster
        monkeypatch.setattr(module, "_cluster", lambda: nullcontext(cluster))
    cores = os.sched_getaffinity(0)  # some benches use only one
    try:
        rows = list(module.run(None))
    finally:
        os.sched_setaffinity(0, cores)
    assert rows
    for row in rows:
        measured = json.loads(json.dumps(row, allow_nan=False))
        assert measured.keys() == {"name", "value", "unit", "peer", "peer_value", "ratio"}
        assert "skipped" in row["name"] or math.isfinite(row["value"])
    assert len(table(rows).splitlines()) == len(rows) + 1


def test_the_steps_of_the_whole_path_are_steps_of_the_recipe():
    """A step that recipes/web.yaml does not have would be left out of the measurement."""
    steps = yaml.safe_load((ROOT / "recipes" / "web.yaml").read_text())["steps"]["web"]
    assert set(pipeline.STEPS) <= {step if isinstance(step, str) else next(iter(step)) for step in steps}


def test_benches_that_the_readme_names_exist(monkeypatch, capsys):
    """The second column of its table of measurements names them."""
    measured = (ROOT / "README.md").read_text().split("| what | NAME |")[1].split("##")[0]
    named = re.findall(r"^\|[^|]+\| (\w+) \|", measured, re.M)
    assert named
    assert set(named) <= set(names())
    monkeypatch.setattr("sys.argv", ["bench", "nearby"])
    assert main() == 2
    assert "neardup" in capsys.readouterr().err


def test_a_trained_extractor_is_scored_on_unseen_pages(tmp_path, monkeypatch):
    """The scores use folds, with the libraries for each set; the means leave out weak gold."""
    write_gold(tmp_path, sets=("news", "tool-weakgold"))
    gold = {f"mill{number}.example": text_of(number) for number in range(12)}

    def answers(trained_domains, pages):
        assert not trained_domains & {page.domain for page in pages}
        return [gold[page.domain] for page in pages]

    monkeypatch.setitem(TRAINED, extract.OURS, TrainableTool(lambda pages: {page.domain for page in pages}, answers))
    rows = list(extract.quality(tmp_path))
    assert all(row["value"] == 1 for row in rows)
    assert [(row["name"], row["unit"]) for row in rows if row["peer"] == "resiliparse"] == [
        ("extract.f1_news", "F1, 6 pages, 5 folds"),
        ("extract.f1_tool-weakgold", "F1, 6 pages, 5 folds"),
        ("extract.f1_mean_over_pages", "F1, 6 pages, 5 folds"),
        ("extract.f1_mean_over_sets", "F1, 6 pages, 5 folds"),
    ]


def test_a_wrong_bench_setting_is_one_error_message(monkeypatch, capsys):
    """EXTRACT names a tool of the step `extract`."""
    monkeypatch.setattr("bench.pipeline.EXTRACT", "resiliparsee")
    monkeypatch.setattr("sys.argv", ["bench", "pipeline"])
    assert main() == 2
    error = capsys.readouterr().err
    assert error.startswith("bench: ")
    assert "resiliparse" in error.replace("resiliparsee", "")
    assert "Traceback" not in error


def test_child_processes_are_measured_with_their_command(tmp_path):
    """A process that outlives its parent is waited for."""
    left = """
import os, pathlib, sys
parent = os.getpid()
if not os.fork():
    while os.getppid() == parent:
        pass
    pathlib.Path(sys.argv[1]).write_text("done")
"""
    script = Path(_process_tree.__file__)
    command = [sys.executable, str(script), str(tmp_path / "cpu"), sys.executable, "-c", left, str(tmp_path / "left")]
    subprocess.run(command, check=True)
    assert (tmp_path / "left").read_text() == "done"
    assert float((tmp_path / "cpu").read_text()) > 0
