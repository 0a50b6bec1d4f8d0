"""Separate packages (`packages/`): each is optional and belongs to one version of Gristmill."""

import importlib
import re
import sys
import tomllib
from pathlib import Path

import pytest
import typer

import gristmill
from gristmill import installed
from gristmill.cli.main import make_app
from gristmill.engine.executors import registry
from gristmill.errors import UserError
from gristmill.install_command import install_package

PACKAGES = Path(__file__).parents[2] / "packages"
NAMES = sorted(path.name for path in PACKAGES.iterdir() if (path / "pyproject.toml").exists())
ADDED = [
    (group, name, packages)
    for group, table in installed.PACKAGES.items()
    for packages, names in table.items()
    for name in names.split()
]


def test_the_table_of_packages_is_what_they_register():
    """A package that is not installed can be named by its additions, and by nothing else."""
    registered = [
        (group, name, path.name)
        for path in PACKAGES.iterdir()
        for group, points in tomllib.loads((path / "pyproject.toml").read_text())["project"]["entry-points"].items()
        for name in points
    ]
    assert sorted(registered) == sorted((group, name, packages.split()[-1]) for group, name, packages in ADDED)


@pytest.mark.parametrize(("group", "name", "packages"), ADDED)
def test_what_a_package_adds_is_there_with_it_and_named_without_it(group, name, packages, monkeypatch):
    """The message names the package and how to install it."""
    assert name in installed.installed(group)
    monkeypatch.setattr(installed, "_installed", lambda group, path: {})
    message = installed.missing(group, name)
    named = " and ".join(f"gristmill-{package}" for package in packages.split())
    assert message.startswith(f"{name.replace('.', ' ')} needs the package {named}, which is not installed.")
    assert message.endswith(install_package(packages))
    if group == installed.COMMANDS:
        with pytest.raises(UserError, match=re.escape(message)):
            make_app([name])
    if group == installed.EXECUTORS:
        with pytest.raises(UserError, match=re.escape(message)):
            registry.load(name)


def test_every_command_of_the_core_is_there_without_packages(monkeypatch):
    """None of them imports a package."""
    monkeypatch.setattr(installed, "_installed", lambda group, path: {})
    assert isinstance(make_app(), typer.Typer)


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
    assert f"gristmill=={gristmill.__version__}" in project["dependencies"]
