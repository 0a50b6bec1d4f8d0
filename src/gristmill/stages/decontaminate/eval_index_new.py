"""The search index of the items that were added after a suite was first pinned (`suite.lock`); it may be empty."""

from pathlib import Path
from typing import Any

from gristmill.stages.contract import Asset
from gristmill.stages.decontaminate import eval_index


class Config(eval_index.Config):
    """The settings of `eval_index`."""


def make(config: Config, path: Path) -> dict[str, Any]:
    return eval_index.make_of(config, path, new=True)


STAGE = Asset(version=6, config=Config, libraries=("unicode",), make=make)
