"""The eval suite of a recipe as one file: its items, by the numbers that findings use for them.

This file has what later steps and people need to know about an item; the indexes have what a scan needs. A changed
coverage or name of a benchmark therefore does not repeat the scan.
"""

from collections import Counter
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import orjson
from pydantic import BeforeValidator

from gristmill.errors import CannotBeMet, UserError, WrongSetting
from gristmill.stages.config_types import FileMark, matching
from gristmill.stages.contract import Asset, StageConfig
from gristmill.stages.decontaminate.matching.index import key_of
from gristmill.stages.decontaminate.suite.describe import describe
from gristmill.stages.decontaminate.suite.form import item_from
from gristmill.stages.decontaminate.suite.suite import Item, Suite, prompt_warnings, read_suite
from gristmill.warned import Warned

SHOWN_HASH = 16


def _folder(path: object) -> Any:
    """The folder of a suite, which may also be given as the YAML file in it."""
    if isinstance(path, str) and path.lower().endswith((".yaml", ".yml")):
        return path.rpartition("/")[0] or "."
    return path


SuiteFolder = Annotated[str, FileMark(), BeforeValidator(_folder)]
"""The path of a suite in a config."""


class Config(StageConfig):
    suite: SuiteFolder
    """The folder of an eval suite, or the YAML file in it (docs/suites.md)."""
    suite_hash: (
        Annotated[str, matching("[0-9a-f]{16,64}", "Write 16 to 64 of 0-9 a-f, as printed by suite pin")] | None
    ) = None
    """The first 16 or more digits of the suite's hash, as `gristmill suite pin` prints it. A suite with another hash
    stops the run. null: any suite is accepted."""


class Known(NamedTuple):
    """An item and the generation of the suite that added it."""

    item: Item
    generation: int


class OpenedSuite(NamedTuple):
    """A suite that was read from its file."""

    name: str
    version: str
    hash: str
    coverage: dict[str, float | None]
    """The coverage of each benchmark; None: the coverage of the step."""
    items: dict[int, Known]


def check(config: Config) -> None:
    """Raise if there is no suite. Its items are read when the run begins."""
    try:
        describe(config.suite)
    except UserError as error:
        raise WrongSetting("suite", str(error)) from None


def read_pinned(config: Config) -> Suite:
    """Read the suite; raise if it is not the pinned one."""
    try:
        suite = read_suite(config.suite)
    except UserError as error:
        raise CannotBeMet(f"The eval suite cannot be read, so nothing would be protected. {error}") from None
    if config.suite_hash and not suite.hash.startswith(config.suite_hash):
        raise CannotBeMet(
            f"The eval suite {suite.name} {suite.version} has the hash {suite.hash[:SHOWN_HASH]}, but the recipe pins "
            f"{config.suite_hash}: the suite has changed since it was pinned. If the change is intended, write "
            f"suite_hash: {suite.hash[:SHOWN_HASH]}."
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
    label = f"{suite.name} {suite.version}, {suite.hash}"
    prompts = dict.fromkeys(prompt_warnings(suite), 1)
    return {"suites": {label: 1}, "pinned": int(config.suite_hash is not None), "items": counts, "prompts": prompts}


def warnings(found: dict[str, Any], config: Config) -> Sequence[str]:
    prompts = [Warned("suite_prompt", text) for text in found.get("prompts", ())]
    if not found.get("pinned") and found.get("suites"):
        digest = next(iter(found["suites"])).rpartition(", ")[2]
        advice = f"Write suite_hash: {digest[:SHOWN_HASH]}"
        text = f"the suite is not pinned, so a change of it would go unnoticed. {advice}"
        return [Warned("suite_not_pinned", text), *prompts]
    return prompts


@lru_cache(maxsize=2)
def open_suite(path: Path) -> OpenedSuite:
    """Read the suite from its file."""
    about = orjson.loads(path.read_bytes())
    items = {key: Known(item_from(texts), generation) for key, generation, texts in about["items"]}
    return OpenedSuite(about["name"], about["version"], about["hash"], about["coverage"], items)


STAGE = Asset(version=2, config=Config, make=make, suffix="json", check=check, warnings=warnings)
