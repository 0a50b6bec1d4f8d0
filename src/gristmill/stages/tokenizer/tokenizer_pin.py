"""A tokenizer that the recipe trained once and keeps: the file is copied to the store.

It has the same bytes as the trained one, so texts that were encoded with that one are not encoded again.
"""

from pathlib import Path
from typing import Any

from gristmill.errors import UserError
from gristmill.stages.contract import Asset, File, StageConfig
from gristmill.stages.tokenizer import tokenizer_file


class Config(StageConfig):
    pin: File
    """The trained tokenizer.json."""


def make(config: Config, path: Path) -> dict[str, Any]:
    found = tokenizer_file.make(tokenizer_file.Config(file=config.pin), path)
    if "encoded_by_library" in found:
        raise UserError(
            f"tokenizer.pin: {config.pin} is not a tokenizer that a recipe trained "
            f"({next(iter(found['encoded_by_library']))}), so nothing was encoded. Write tokenizer: {{file: …}} instead"
        )
    return found


def check(config: Config) -> None:
    tokenizer_file.check_file("pin", config.pin)


STAGE = Asset(version=1, config=Config, make=make, suffix="json", copies="pin", check=check)
