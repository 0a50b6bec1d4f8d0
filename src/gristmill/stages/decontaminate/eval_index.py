"""The eval suite of a recipe as one file: its items, and the index by which `eval_scan` finds them."""

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field

from gristmill.counted import counted
from gristmill.errors import CannotBeMet, UserError, WrongSetting
from gristmill.stages.config_types import matching
from gristmill.stages.contract import Asset, StageConfig
from gristmill.stages.decontaminate.matching.index import write_index
from gristmill.stages.decontaminate.suite.describe import describe
from gristmill.stages.decontaminate.suite.suite import Suite, SuiteFolder, prompt_warnings, read_suite
from gristmill.warned import Warned

HASH_DIGITS = 16
"""Digits of a suite's hash in a recipe; if more are written, more are compared."""
_SHOWN = 5


class Config(StageConfig):
    suite: SuiteFolder
    """The folder of an eval suite, or the YAML file in it (docs/suites.md)."""
    suite_hash: (
        Annotated[str, matching("[0-9a-f]{16,64}", "Write 16 to 64 of 0-9 a-f, as printed by suite check")] | None
    ) = None
    """The first 16 or more digits of the suite's hash, as `gristmill suite check` prints it. A suite with another hash
    stops the run. null: any suite is accepted."""
    ngram: Annotated[int, Field(ge=5, le=50)] = 13
    """Words of an n-gram. GPT-3 used 13, since shorter ones also occur in unrelated texts."""
    fuzzy: Literal[False] | Annotated[float, Field(ge=0.5, le=1)] = 0.8
    """The share of an item's words that a passage must have, in order, to count as an edited copy. false: only n-grams
    and verbatim items count."""


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
            f"The eval suite {suite.name} {suite.version} has the hash {suite.hash[:HASH_DIGITS]}, but the recipe pins "
            f"{config.suite_hash}: the suite has changed since it was pinned. If the change is intended, write "
            f"suite_hash: {suite.hash[:HASH_DIGITS]}."
        )
    return suite


def make(config: Config, path: Path) -> dict[str, Any]:
    suite = read_pinned(config)
    bare = write_index(suite, config.ngram, float(config.fuzzy), path)
    if len(bare) == len(suite.items):
        raise CannotBeMet(
            f"No item of the eval suite {suite.name} has enough words to distinguish it from other texts, so nothing "
            f"would be protected: {bare[0].benchmark} {bare[0].id} ({bare[0].question[:40]!r}) is one. Give the items "
            "an answer or choices, or remove the step."
        )
    unprotected: dict[str, dict[str, int]] = {}
    for item in bare:
        unprotected.setdefault(item.benchmark, {})[item.id] = 1
    return {
        "suites": {f"{suite.name} {suite.version}, {suite.hash}": 1},
        "pinned": int(config.suite_hash is not None),
        "items": dict(Counter(item.benchmark for item in suite.items)),
        "unprotected_items": unprotected,
        "prompts": dict.fromkeys(prompt_warnings(suite), 1),
    }


def unprotected_warning(items: Mapping[str, Sequence[str] | Mapping[str, int]]) -> str | None:
    """Names the items, by benchmark, that cannot be searched for."""
    names = [f"{benchmark} {item}" for benchmark, ids in items.items() for item in ids]
    if not names:
        return None
    more = f" and {len(names) - _SHOWN:,} more" if len(names) > _SHOWN else ""
    return (
        f"{counted(len(names), 'item')} of the suite cannot be protected, having too few words to distinguish them "
        f"from other texts: {', '.join(names[:_SHOWN])}{more}. Give them an answer or choices, or remove them from the "
        "suite. `gristmill suite touched` lists them"
    )


def warnings(counts: dict[str, Any], config: Config) -> Sequence[str]:
    found = [Warned("suite_prompt", text) for text in counts.get("prompts", ())]
    if not counts.get("pinned") and counts.get("suites"):
        digest = next(iter(counts["suites"])).rpartition(", ")[2]
        text = "the suite is not pinned, so a change of it would go unnoticed"
        found.append(Warned("suite_not_pinned", f"{text}. Write suite_hash: {digest[:HASH_DIGITS]}"))
    if unprotected := unprotected_warning(counts.get("unprotected_items", {})):
        found.append(Warned("unprotected_items", unprotected))
    return found


STAGE = Asset(
    version=10,
    config=Config,
    libraries=("pyarrow", "unicode"),
    make=make,
    suffix="arrow",
    check=check,
    warnings=warnings,
)
