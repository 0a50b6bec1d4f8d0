"""Reproduce a version from its recorded recipe in an empty store, and compare the results byte by byte."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gristmill.engine.mill import Mill
from gristmill.engine.publish.catalog import Version
from gristmill.engine.schedule.task_cache import Listener
from gristmill.errors import UserError
from gristmill.hints import hint, option
from gristmill.places import from_exact
from gristmill.query.sizing.plan import differences, file_changes
from gristmill.recipe.load import load
from gristmill.store.store import Store


@dataclass(frozen=True)
class Difference:
    """The first dataset that differs."""

    step: str
    source: str
    before: str
    now: str | None
    """The hash of the new dataset; None if the step or source no longer exists."""
    why: Sequence[str]


def prepare(version: Version, file: str | None, into: str) -> Mill:
    """The recorded recipe of a version, with an empty store. `file` is its location, by default the recorded one."""
    record = version.record
    place = file or from_exact(record["file"])
    if not os.path.isdir(os.path.dirname(place)):
        raise UserError(
            f"{version.hash}: the folder of {place} does not exist, so its inputs and files cannot be found. Nothing "
            f"was run. Name the recipe file: {hint('reproduce', version=version.hash, into=into)}"
        )
    store = Store(into)
    first = next(store.list_files(""), None)
    if first is None:
        store.write_json(_begun(version), {"recipe": version.recipe})
    elif store.read_file(_begun(version)) is None:  # else it was stopped before, and continues
        raise UserError(
            f"{option('into', into)} is not empty (it has {first[0]}), so existing results would not be computed "
            "again. Nothing was run. Name an empty folder, or one that does not exist yet."
        )
    sample = "100%" if record["sample"] is None else f"{record['sample'] * 100:.12g}%"
    recipe = load(place, store=into, sample=sample, text=record["recipe_text"])
    return Mill(recipe, record["until"])


def _begun(version: Version) -> str:
    """A record in the new store that exists until the version is reproduced."""
    return f"reproducing/{version.hash}.json"


def reproduce(version: Version, mill: Mill, workers: int | None, listener: Listener) -> Difference | None:
    """Run it and compare all datasets in the order of the steps. Returns None if all are the same."""
    now = mill.run(workers, listener).ended["nodes"]
    mill.store.remove(_begun(version))
    for step, before in version.record["nodes"].items():
        after = now.get(step)
        for source, dataset in before["datasets"].items():
            other = None if after is None else after["datasets"].get(source)
            if other != dataset:
                return Difference(step, source, dataset, other, _why(before, after))
    return None


def _why(before: Mapping[str, Any], now: Mapping[str, Any] | None) -> list[str]:
    """The differences of the step itself; all its inputs from other steps are the same."""
    if now is None:
        return ["this version of Gristmill has no such step in that recipe"]
    found = differences(before["identity"], now["identity"])
    if "files" in before and "files" in now:
        found += [f"input: {change}" for change in file_changes(before["files"], now["files"])]
    return found or [
        "inputs, settings, VERSION and libraries are the same, so either the step is not deterministic, or another "
        "version of Gristmill made it"
    ]
