"""Every dependency is bounded by the tested versions: it allows the pinned version, not the next breaking series."""

import re
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
LINES = [PROJECT["dependencies"], *PROJECT["optional-dependencies"].values()]
BOUNDED = sorted({line for lines in LINES for line in lines if not line.startswith("gristmill[")})
"""Of all extras, also of `dev`, which itself names other extras of ours."""


def pins():
    found = re.findall(r"^([\w.-]+)==(\S+)", (ROOT / "constraints.txt").read_text(), re.M)
    return {canonicalize_name(name): version for name, version in found}


@pytest.mark.parametrize("line", BOUNDED)
def test_bounds_include_the_pinned_version(line):
    """An installation without our constraints gets the versions that the tests ran with, or fails."""
    needed = Requirement(line)
    assert {bound.operator for bound in needed.specifier} == {">=", "<"}, line
    assert needed.specifier.contains(pins()[canonicalize_name(needed.name)])
