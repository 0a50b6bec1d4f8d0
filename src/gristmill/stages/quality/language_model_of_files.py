"""A language model whose texts are all in files: it reads no document of the run (language_model.py)."""

from pathlib import Path
from typing import Any

from gristmill.stages.quality import language_model

VERSION = language_model.VERSION
LIBRARIES = language_model.LIBRARIES
SUFFIX = language_model.SUFFIX
warnings = language_model.warnings


class Config(language_model.Config):
    """The same."""


def make(config: Config, path: Path) -> dict[str, Any]:
    return language_model.fit((), config, path)
