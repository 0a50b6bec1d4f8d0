"""Reads tables and word lists from TOML files next to the modules that use them."""

import tomllib
from pathlib import Path
from typing import Any


def read_table(module: str, name: str) -> dict[str, Any]:
    """The file of that name in the folder of a module, given as `__file__`."""
    return tomllib.loads(Path(module).with_name(name).read_text("utf-8"))
