"""Versions of the libraries that stages declare."""

import importlib.metadata
import zlib
from functools import cache

from gristmill.kernels.text.unicode_data import UNICODE_VERSION


@cache
def version_of(library: str) -> str:
    """The version of an installed distribution. `unicode` is the version of the character tables that Gristmill ships,
    `zlib` that of the library that Python uses.

    Cached, since parsing a distribution's metadata takes a millisecond and a plan needs it for each of its steps.
    """
    built_in = {"unicode": UNICODE_VERSION, "zlib": zlib.ZLIB_RUNTIME_VERSION}
    return built_in.get(library) or importlib.metadata.version(library)
