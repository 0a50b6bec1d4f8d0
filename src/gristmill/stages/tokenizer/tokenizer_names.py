"""Gives names to reserved slots of the recipe's tokenizer after it was trained: `tokenizer.json` with other names.

Ids and merges stay, so nothing is trained or encoded again: shards are made with the tokenizer before this step, and
only the file that is published with them has the names.
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from gristmill.errors import CannotBeMet
from gristmill.stages.contract import Asset, StageConfig
from gristmill.stages.tokenizer import tokenizer
from gristmill.tokenizer.special import named_slots, ordinary_warning, special_tokens


class Config(StageConfig):
    names: dict[str, str]
    """{reserved slot: its name}."""


def make(config: Config, path: Path, models: Mapping[str, Path]) -> dict[str, Any]:
    spec = json.loads(Path(models["tokenizer"]).read_bytes())
    added = spec.get("added_tokens") or []
    try:
        named = named_slots([token["content"] for token in added if token["special"]], config.names)
    except ValueError as error:
        raise CannotBeMet(f"tokenizer.names: {error}.") from None
    if taken := {*named} & {*spec["model"].get("vocab", ())}:
        raise CannotBeMet(
            f"tokenizer.names: {min(taken)!r} is an ordinary token of the tokenizer. Choose another name."
        )
    for token in added:
        token["content"] = config.names.get(token["content"], token["content"])
    path.write_text(json.dumps(spec, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
    return {"named": len(config.names)}


def fault_of_trained(trained: tokenizer.Config, names: Mapping[str, str]) -> str | None:
    """Why a tokenizer that is trained in this way cannot have these names; None if it can, as far as that is known."""
    try:
        named_slots(special_tokens(trained.special, trained.reserved), names)
    except ValueError as error:
        return str(error)
    return None


def warnings(found: Mapping[str, Any], config: Config) -> Sequence[str]:
    """Warn about names that ordinary text may contain."""
    return ordinary_warning(config.names.values())


STAGE = Asset(version=1, config=Config, uses=("tokenizer",), make=make, suffix="json", warnings=warnings)
