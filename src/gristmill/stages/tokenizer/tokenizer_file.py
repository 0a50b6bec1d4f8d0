"""A tokenizer that the recipe names: its `tokenizer.json` is copied to the store, pinned by its content."""

import json
import warnings as python_warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from gristmill.errors import CannotBeMet, UserError, WrongSetting
from gristmill.places import place_of
from gristmill.stages.contract import Asset, File, StageConfig


class Config(StageConfig):
    file: File
    """The tokenizer.json file."""


def check(config: Config) -> None:
    check_file("file", config.file)


def check_file(field: str, location: str) -> None:
    """Raise WrongSetting if the file is not a tokenizer.json. Whether it can encode is checked when it is copied."""
    try:
        with place_of(location).open() as file:
            found = json.loads(file.read())
        is_one = isinstance(found, dict) and "model" in found
    except (OSError, ValueError, RecursionError):
        is_one = False
    if not is_one:
        raise WrongSetting(
            field,
            f"{location} is not a tokenizer.json, so no text can be encoded. Name a file written by `tokenizers` or "
            "gristmill tokenizer train.",
        )


def make(config: Config, path: Path) -> dict[str, Any]:
    from gristmill.tokenizer.files import load  # only a worker needs the encoder

    with place_of(config.file).open() as file:
        path.write_bytes(file.read())
    with python_warnings.catch_warnings():
        python_warnings.simplefilter("ignore")  # `warnings` reports it in every run
        try:
            tokenizer = load(str(path), probe="once")
        except UserError as error:
            message = str(error).replace(str(path), "the file that tokenizer.file names")
            raise CannotBeMet(message[0].upper() + message[1:]) from None
    found: dict[str, Any] = {"vocab": tokenizer.vocab_size, "tokenizers": {tokenizer.hash: 1}}
    if tokenizer.reason:
        found["encoded_by_library"] = {tokenizer.reason: 1}
    return found


def warnings(found: dict[str, Any], config: Config) -> Sequence[str]:
    """Warn if our encoder cannot be used."""
    return [f"`tokenizers` encodes, about 20 times slower: {reason}" for reason in found.get("encoded_by_library", ())]


STAGE = Asset(version=1, config=Config, make=make, suffix="json", copies="file", check=check, warnings=warnings)
