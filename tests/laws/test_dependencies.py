"""Every dependency is bounded by the tested versions: it allows the pinned version, not the next breaking series."""

import re
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
EXTRAS = [
    line for name, lines in PROJECT["optional-dependencies"].items() if name not in ("dev", "ner") for line in lines
]
"""`dev` is not for users. `ner` (spaCy with a model of the user's choice) is not pinned."""


def pins():
    found = re.findall(r"^([\w.-]+)==(\S+)", (ROOT / "constraints.txt").read_text(), re.M)
    return {canonicalize_name(name): version for name, version in found}


@pytest.mark.parametrize("line", PROJECT["dependencies"] + EXTRAS)
def test_bounds_include_the_pinned_version(line):
    """An installation without our constraints gets the versions that the tests ran with, or fails."""
    needed = Requirement(line)
    assert {bound.operator for bound in needed.specifier} == {">=", "<"}, line
    assert needed.specifier.contains(pins()[canonicalize_name(needed.name)])
