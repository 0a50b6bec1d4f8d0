"""A language model whose texts are all in files: it reads no documents of the run (language_model.py)."""

from pathlib import Path
from typing import Any

from gristmill.stages.contract import Asset
from gristmill.stages.quality import language_model


class Config(language_model.Config):
    """The same settings."""


def make(config: Config, path: Path) -> dict[str, Any]:
    return language_model.fit((), config, path)


STAGE = Asset(
    version=language_model.STAGE.version,
    config=Config,
    libraries=language_model.LIBRARIES,
    make=make,
    suffix=language_model.SUFFIX,
    warnings=language_model.warnings,
)
