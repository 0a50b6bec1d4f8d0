"""A classifier whose texts are all in files: it reads no documents of the run (classifier.py)."""

from pathlib import Path
from typing import Any

from gristmill.stages.contract import Asset
from gristmill.stages.quality import classifier
from gristmill.stages.quality.classifier import counts_of


class Config(classifier.Config):
    """The same settings."""


def make(config: Config, path: Path) -> dict[str, Any]:
    from gristmill.stages.quality.classifier_labels import labelled_files
    from gristmill.stages.quality.classifier_train import train

    trained = train(labelled_files(config), config)
    path.write_bytes(trained.model)
    return counts_of(trained.report)


STAGE = Asset(
    version=classifier.STAGE.version,
    config=Config,
    libraries=classifier.LIBRARIES,
    make=make,
    suffix=classifier.SUFFIX,
    warnings=classifier.warnings,
)
