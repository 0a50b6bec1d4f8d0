"""An asset: the words of a file, sorted, each once."""

from pathlib import Path

from gristmill.stages.contract import File, StageConfig

VERSION = 1
SUFFIX = "txt"


class Config(StageConfig):
    words: File
    """Any text."""


def make(config, path):
    words = sorted(set(Path(config.words).read_text().split()))
    path.write_text("\n".join(words))
    return {"words": len(words)}
