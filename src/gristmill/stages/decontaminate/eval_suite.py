"""The eval suite of a recipe as one file: its items, by the numbers under which hits speak of them.

What a later step or a person needs to know of an item is here; what a scan needs is in the indexes. So a coverage that
is set anew for a benchmark, or another name, scans nothing again.
"""

from collections import Counter
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import orjson
from pydantic import BeforeValidator, Field

from gristmill.errors import CannotBeMet, UserError, WrongSetting
from gristmill.stages.config_types import FileMark
from gristmill.stages.contract import Asset, StageConfig
from gristmill.stages.decontaminate.matching.index import key_of
from gristmill.stages.decontaminate.suite.describe import describe
from gristmill.stages.decontaminate.suite.form import item_from
from gristmill.stages.decontaminate.suite.suite import Item, Suite, prompt_warnings, read_suite

SHOWN_HASH = 16


def _folder(path: Any) -> Any:
    """A suite is its folder; who names the YAML file in it means the same."""
    if isinstance(path, str) and path.lower().endswith((".yaml", ".yml")):
        return path.rpartition("/")[0] or "."
    return path


SuiteFolder = Annotated[str, FileMark(), BeforeValidator(_folder)]
"""The path of a suite in a config."""


class Config(StageConfig):
    suite: SuiteFolder
    """The folder of an eval suite, or the YAML file in it (docs/suites.md)."""
    suite_hash: Annotated[str, Field(pattern="^[0-9a-f]{16,64}$")] | None = None
    """How the hash of the suite begins, 16 digits or more, as `gristmill suite pin` prints it: another suite stops the
    run. null: the suite is taken as it is."""


class Known(NamedTuple):
    """What is known of an item."""

    item: Item
    generation: int


class Opened(NamedTuple):
    """The model."""

    name: str
    version: str
    hash: str
    coverage: dict[str, float | None]
    """Of each benchmark; None: the step's own."""
    items: dict[int, Known]


def check(config: Config) -> None:
    """Whether there is a suite at all; its items are read when the run begins."""
    try:
        describe(config.suite)
    except UserError as error:
        raise WrongSetting("suite", str(error)) from None


def read_pinned(config: Config) -> Suite:
    """The suite, which must be the one that was pinned."""
    try:
        suite = read_suite(config.suite)
    except UserError as error:
        raise CannotBeMet(f"The eval suite cannot be read, so nothing would be protected. {error}") from None
    if config.suite_hash and not suite.hash.startswith(config.suite_hash):
        raise CannotBeMet(
            f"The eval suite {suite.name} {suite.version} has the hash {suite.hash[:SHOWN_HASH]}, and the recipe pins "
            f"{config.suite_hash}: it is not the suite that was agreed on. If the change is meant, write suite_hash: "
            f"{suite.hash[:SHOWN_HASH]}."
        )
    return suite


def make(config: Config, path: Path) -> dict[str, Any]:
    suite = read_pinned(config)
    about = {
        "name": suite.name,
        "version": suite.version,
        "hash": suite.hash,
        "coverage": {name: protection.coverage for name, protection in suite.protections.items()},
        "items": [
            [key_of(item), generation, tuple(item)]
            for item, generation in zip(suite.items, suite.generations, strict=True)
        ],
    }
    path.write_bytes(orjson.dumps(about))
    counts = dict(Counter(item.benchmark for item in suite.items))
    told = f"{suite.name} {suite.version}, {suite.hash}"
    prompts = dict.fromkeys(prompt_warnings(suite), 1)
    return {"suites": {told: 1}, "pinned": int(config.suite_hash is not None), "items": counts, "prompts": prompts}


def warnings(found: dict[str, Any], config: Config) -> Sequence[str]:
    prompts = tuple(found.get("prompts", ()))
    if not found.get("pinned") and found.get("suites"):
        told = next(iter(found["suites"]))
        digest = told.rpartition(", ")[2]
        return (f"the suite is not pinned, so any other would do. Write suite_hash: {digest[:SHOWN_HASH]}", *prompts)
    return prompts


@lru_cache(maxsize=2)
def open_suite(path: Path) -> Opened:
    """The suite in a file."""
    about = orjson.loads(path.read_bytes())
    items = {key: Known(item_from(texts), generation) for key, generation, texts in about["items"]}
    return Opened(about["name"], about["version"], about["hash"], about["coverage"], items)


STAGE = Asset(version=2, config=Config, make=make, suffix="json", check=check, warnings=warnings)
