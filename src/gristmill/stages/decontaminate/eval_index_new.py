"""The index of the items that came to a suite after it was pinned first (`suite.lock`); empty where there are none."""

from pathlib import Path
from typing import Any

from gristmill.stages.contract import Asset
from gristmill.stages.decontaminate import eval_index


class Config(eval_index.Config):
    """As of `eval_index`."""


def make(config: Config, path: Path) -> dict[str, Any]:
    return eval_index.make_of(config, path, new=True)


STAGE = Asset(version=6, config=Config, libraries=("unicode",), make=make)
