"""Separate packages (`plugins/`): each is optional, and belongs to one version of Gristmill."""

import importlib
import sys
import tomllib
from pathlib import Path

import pytest
import typer

import gristmill
from gristmill.cli.main import COMMANDS, OPTIONAL, make_app
from gristmill.engine.executors import registry
from gristmill.errors import UserError

PLUGINS = Path(__file__).parents[2] / "plugins"
NAMES = sorted(path.name for path in PLUGINS.iterdir() if (path / "pyproject.toml").exists())
EXECUTORS = {name for name, place in registry.OURS.items() if not place.startswith("gristmill.")}


class Without:
    """Finds no module of this name, wherever it is installed."""

    def __init__(self, name):
        self.name = name

    def find_spec(self, name, *_):
        if name == self.name:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


def remove(package, monkeypatch):
    """As though it were not installed."""
    for name in [name for name in sys.modules if name.split(".")[0] == package]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(sys, "meta_path", [Without(package), *sys.meta_path])


def test_every_package_is_a_command_or_an_executor():
    assert [*sorted({*OPTIONAL, *EXECUTORS})] == NAMES


@pytest.mark.parametrize("name", OPTIONAL)
def test_without_the_package_the_command_says_how_to_install_it(name, monkeypatch):
    """And every other command can be imported."""
    remove(OPTIONAL[name], monkeypatch)
    with pytest.raises(UserError) as refused:
        make_app([name])
    assert str(refused.value) == (
        f"gristmill {name} is a separate package, which is not installed, so nothing was done. Install it: "
        f"pip install ./plugins/{name} in a clone of Gristmill"
    )
    assert isinstance(make_app([name for name in COMMANDS if name not in OPTIONAL]), typer.Typer)


def test_without_the_package_the_executor_says_how_to_install_it(monkeypatch):
    [name] = EXECUTORS
    remove(f"gristmill_{name}", monkeypatch)
    with pytest.raises(UserError) as refused:
        registry.load(name)
    assert str(refused.value) == (
        f"--executor {name} is a separate package, which is not installed, so nothing was run. Install it: "
        f"pip install ./plugins/{name} in a clone of Gristmill"
    )


def test_a_fault_inside_of_a_package_is_not_taken_for_its_absence(monkeypatch):
    """A library that it lacks is named."""
    monkeypatch.delitem(sys.modules, "gristmill_extractor.commands", raising=False)
    monkeypatch.setitem(sys.modules, "resiliparse.extract.html2text", None)
    monkeypatch.delitem(sys.modules, "gristmill_extractor.extractors", raising=False)
    with pytest.raises(ModuleNotFoundError, match="resiliparse"):
        make_app(["extractor"])


@pytest.mark.parametrize("name", NAMES)
def test_a_package_belongs_to_this_version(name):
    """It uses the inside of Gristmill, so both have one number, and one is needed by the other."""
    project = tomllib.loads((PLUGINS / name / "pyproject.toml").read_text())["project"]
    assert importlib.import_module(f"gristmill_{name}").__version__ == gristmill.__version__
    assert project["dependencies"] == [f"gristmill=={gristmill.__version__}"]
