"""An asset: the words of a file, sorted, each once."""

from pathlib import Path

from gristmill.stages.contract import Asset, File, StageConfig


class Config(StageConfig):
    words: File
    """Any text."""


def make(config, path):
    words = sorted(set(Path(config.words).read_text().split()))
    path.write_text("\n".join(words))
    return {"words": len(words)}


STAGE = Asset(config=Config, make=make, suffix="txt")
