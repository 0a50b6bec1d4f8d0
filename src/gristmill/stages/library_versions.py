"""Versions of the libraries that stages declare."""

import hashlib
import importlib.metadata
import zlib
from functools import cache
from pathlib import Path

from gristmill.kernels.text.unicode_data import UNICODE_VERSION


@cache
def version_of(library: str) -> str:
    """The version of an installed distribution. `unicode` is the version of the character tables that Gristmill ships,
    `zlib` that of the library that Python uses, `kinds.model` the hash of the model of PDF lines.

    Cached, since parsing a distribution's metadata takes a millisecond and a plan needs it for each of its steps.
    """
    if library == "kinds.model":
        return hashlib.sha256((Path(__file__).parent / "pdf" / library).read_bytes()).hexdigest()[:16]
    built_in = {"unicode": UNICODE_VERSION, "zlib": zlib.ZLIB_RUNTIME_VERSION}
    return built_in.get(library) or importlib.metadata.version(library)
