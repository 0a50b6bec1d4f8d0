"""The typed contract: a built-in stage is one file and one line of the order, and mypy checks what it declares."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from gristmill import stages
from gristmill.recipe.settings import entry
from gristmill.stages import measure

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "CONTRIBUTING.md").read_text()


def test_a_stage_is_added_by_its_file_and_a_line_of_order(project, monkeypatch, tmp_path):
    """As CONTRIBUTING.md says, with its file and its line: a recipe can name the step, and it runs."""
    [(name, text)] = re.findall(r"`src/gristmill/stages/measure/(\w+)\.py`:\n\n```python\n(.*?)```", PAGE, re.S)
    [(step, path)] = re.findall(r"`\"(\w+)\": \"([\w.]+)\",`", PAGE)
    assert (step, path) == (name, f"gristmill.stages.measure.{name}")
    (tmp_path / "added").mkdir()
    (tmp_path / "added" / f"{name}.py").write_text(text)
    monkeypatch.setattr(measure, "__path__", [*measure.__path__, str(tmp_path / "added")])
    monkeypatch.setitem(stages.STEPS, step, path)
    project.write_recipe(
        f"  - {step}: {{letters: a-m}}\n  - heuristics: {{own: ['{step}.capitals_share > 0.5 -> many']}}\n"
    )
    run = project.run()
    sys.modules.pop(path)
    assert run.graph.nodes[f"all/{step}"].identity["version"] == 1
    assert run.states["all/heuristics"].metrics["dropped"]["many"] > 0
    assert [setting.name for setting in entry(step).settings] == ["letters"]


HEAD = """
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from gristmill.stages.contract import Asset, Exchange, Map, Reader, StageConfig


class Config(StageConfig):
    least: int = 1


class Other(StageConfig):
    most: int = 1


def apply(batch: pa.RecordBatch, config: Config) -> pa.RecordBatch:
    return batch


def with_models(batch: pa.RecordBatch, config: Config, models: Mapping[str, Path]) -> pa.RecordBatch:
    return batch


def with_loaded(batch: pa.RecordBatch, config: Config, loaded: list[str]) -> pa.RecordBatch:
    return batch


def of_other(batch: pa.RecordBatch, config: Other) -> pa.RecordBatch:
    return batch


def of_three(batch: pa.RecordBatch, config: Config, third: int) -> pa.RecordBatch:
    return batch


def reads(config: Config) -> tuple[str, ...]:
    return ("text",)


def least(config: Config) -> int:
    return config.least


def warnings(found: Mapping[str, Any], config: StageConfig) -> Sequence[str]:
    return ()


def make(config: Config) -> dict[str, int]:
    return {}


SCHEMA = pa.schema([])
"""
RIGHT = [
    "Map(version=1, config=Config, reads=('text',), schema=SCHEMA, apply=apply, warnings=warnings)",
    "Map(version=1, config=Config, reads=reads, schema=SCHEMA, uses=('x',), apply=with_models)",
    "Map(version=1, config=Config, reads=reads, schema=lambda config: SCHEMA, apply=with_loaded)",
]
WRONG = {
    "Map(version=1, config=Config, reads=('text',), schema=SCHEMA, aply=apply)": 'Unexpected keyword argument "aply"',
    "Map(version=1, config=Config, reads=('text',), schema=SCHEMA)": 'Missing named argument "apply"',
    "Map(version=1, config=Config, reads=('text',), schema=SCHEMA, apply=of_three)": 'Argument "apply" to "Map" has',
    "Map(version=1, config=Config, reads=('text',), schema=SCHEMA, apply=of_other)": 'Argument "apply" to "Map" has',
    "Map(version='1', config=Config, reads=('text',), schema=SCHEMA, apply=apply)": 'Argument "version" to "Map" has',
    "Map(version=1, config=Config, reads='text', schema=SCHEMA, apply=apply)": 'Argument "reads" to "Map" has',
    "Map(version=1, config=Config, reads=least, schema=SCHEMA, apply=apply)": 'Argument "reads" to "Map" has',
    "Map(version=1, config=Config, reads=reads, schema=SCHEMA, apply=apply, rounds={})": 'keyword argument "rounds"',
    "Asset(version=1, config=Config, make=make)": 'Argument "make" to "Asset" has',
    "Reader(version=1, config=Config)": 'Missing named argument "read"',
}


@pytest.mark.slow
def test_mypy_finds_a_wrong_signature_and_a_wrong_name(tmp_path):
    """At the declaration, with the name of the field; correct declarations pass."""
    declarations = [*RIGHT, *WRONG]
    (tmp_path / "own.py").write_text(HEAD + "".join(f"S{at} = {text}\n" for at, text in enumerate(declarations)))
    command = [sys.executable, "-m", "mypy", "--config-file", str(ROOT / "pyproject.toml"), str(tmp_path / "own.py")]
    output = subprocess.run(command, cwd=ROOT, capture_output=True, text=True).stdout
    first = HEAD.count("\n") + 1
    found = {int(line) - first: message for line, message in re.findall(r"own\.py:(\d+): error: (.*)", output)}
    assert sorted(found) == list(range(len(RIGHT), len(declarations))), output
    for at, part in enumerate(WRONG.values(), len(RIGHT)):
        assert part in found[at]
