"""The package of `gristmill extractor`: it is optional, and belongs to one version of Gristmill."""

import sys
import tomllib
from pathlib import Path

import pytest
import typer

import gristmill
import gristmill_extractor
from gristmill import installed
from gristmill.cli.main import COMMANDS, make_app
from gristmill.errors import UserError

ROOT = Path(__file__).parents[2]


def test_without_the_package_the_command_says_how_to_install_it(monkeypatch):
    """And every other command can be imported."""
    monkeypatch.setattr(installed, "installed", lambda group: {})
    with pytest.raises(UserError) as refused:
        make_app(["extractor"])
    assert str(refused.value) == (
        "gristmill extractor is a separate package, which is not installed, so nothing was done. Install it: "
        "pip install ./plugins/extractor in a clone of Gristmill"
    )
    assert isinstance(make_app([name for name in COMMANDS if name != "extractor"]), typer.Typer)


def test_a_fault_inside_of_the_package_is_not_taken_for_its_absence(monkeypatch):
    """A library that it lacks is named."""
    monkeypatch.delitem(sys.modules, "gristmill_extractor.commands", raising=False)
    monkeypatch.setitem(sys.modules, "resiliparse.extract.html2text", None)
    monkeypatch.delitem(sys.modules, "gristmill_extractor.extractors", raising=False)
    with pytest.raises(UserError, match=r"gristmill extractor cannot be imported from .*resiliparse"):
        make_app(["extractor"])


def test_it_belongs_to_this_version():
    """It uses the inside of Gristmill, so both have one number, and one is needed by the other."""
    project = tomllib.loads((ROOT / "plugins/extractor/pyproject.toml").read_text())["project"]
    assert gristmill_extractor.__version__ == gristmill.__version__
    assert project["dependencies"] == [f"gristmill=={gristmill.__version__}"]
