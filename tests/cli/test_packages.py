"""Separate packages (`packages/`): each is optional and belongs to one version of Gristmill."""

import importlib
import sys
import tomllib
from pathlib import Path

import pytest
import typer

import gristmill
from gristmill import installed
from gristmill.cli.main import COMMANDS, FOLDERS, make_app
from gristmill.engine.executors import registry
from gristmill.errors import UserError

PACKAGES = Path(__file__).parents[2] / "packages"
NAMES = sorted(path.name for path in PACKAGES.iterdir() if (path / "pyproject.toml").exists())
OPTIONAL = sorted(COMMANDS.keys() - " ".join(FOLDERS.values()).split())


def test_every_package_is_a_command_or_an_executor():
    """It registers itself under its own name."""
    assert sorted({*OPTIONAL, *registry.PACKAGES}) == NAMES
    assert {*OPTIONAL} <= installed.installed(installed.COMMANDS).keys()
    assert {*registry.PACKAGES} <= installed.installed(installed.EXECUTORS).keys()


@pytest.mark.parametrize("name", OPTIONAL)
def test_without_the_package_the_command_says_how_to_install_it(name, monkeypatch):
    """Every other command can still be imported."""
    monkeypatch.setattr(installed, "installed", lambda group: {})
    with pytest.raises(UserError) as refused:
        make_app([name])
    assert str(refused.value) == (
        f"gristmill {name} is a separate package, which is not installed. Nothing was done. Install it: "
        f"pip install ./packages/{name} in a clone of Gristmill"
    )
    assert isinstance(make_app([name for name in COMMANDS if name not in OPTIONAL]), typer.Typer)


@pytest.mark.parametrize("name", registry.PACKAGES)
def test_without_the_package_the_executor_says_how_to_install_it(name, monkeypatch):
    """The message has the install command."""
    monkeypatch.setattr(registry, "installed", lambda group: {})
    with pytest.raises(UserError) as refused:
        registry.load(name)
    assert str(refused.value) == (
        f"executor={name} is a separate package, which is not installed, so nothing was run. Install it: "
        f"pip install ./packages/{name} in a clone of Gristmill"
    )


def test_an_import_error_in_a_package_is_not_reported_as_missing_package(monkeypatch):
    """The message names the missing library."""
    monkeypatch.delitem(sys.modules, "gristmill_extractor.commands", raising=False)
    monkeypatch.setitem(sys.modules, "resiliparse.extract.html2text", None)
    monkeypatch.delitem(sys.modules, "gristmill_extractor.extractors", raising=False)
    with pytest.raises(UserError, match=r"gristmill extractor cannot be imported from .*resiliparse"):
        make_app(["extractor"])


@pytest.mark.parametrize("name", NAMES)
def test_a_package_belongs_to_this_version(name):
    """It uses internals of Gristmill, so both have the same version and the package pins it."""
    project = tomllib.loads((PACKAGES / name / "pyproject.toml").read_text())["project"]
    assert importlib.import_module(f"gristmill_{name}").__version__ == gristmill.__version__
    assert project["dependencies"] == [f"gristmill=={gristmill.__version__}"]
