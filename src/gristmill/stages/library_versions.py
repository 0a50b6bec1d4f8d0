"""Versions of the libraries that stages declare."""

import importlib.metadata
from functools import cache

from gristmill.kernels.text.unicode_data import UNICODE_VERSION


@cache
def version_of(library: str) -> str:
    """The version of an installed distribution; `unicode` is that of the character tables that we ship.

    Cached: parsing a distribution's metadata takes a millisecond, and a plan asks for each of its steps.
    """
    return UNICODE_VERSION if library == "unicode" else importlib.metadata.version(library)
