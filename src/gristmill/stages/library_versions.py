"""Versions of the libraries that stages declare."""

import importlib.metadata
from functools import cache

from gristmill.kernels.text.unicode_data import UNICODE_VERSION


@cache
def version_of(library: str) -> str:
    """The version of an installed distribution. `unicode` is the version of the character tables that Gristmill ships.

    Cached, since parsing a distribution's metadata takes a millisecond and a plan needs it for each of its steps.
    """
    return UNICODE_VERSION if library == "unicode" else importlib.metadata.version(library)
