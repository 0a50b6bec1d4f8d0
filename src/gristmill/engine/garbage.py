"""Garbage collection: what no recipe and no version needs any more.

Needed is what these name: every version, the newest finished run of every recipe that the store has seen, and the
given recipe as it is now. Everything else among parts, tasks and datasets may go.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from gristmill.engine.mill import Mill
from gristmill.engine.publish import FOLDER, LATEST
from gristmill.engine.run import Run
from gristmill.errors import UserError
from gristmill.recipe.mix import MIX
from gristmill.store.store import Part, Store


@dataclass(frozen=True)
class Garbage:
    """Files that nothing needs."""

    files: dict[str, int]
    """Path below the store -> bytes."""
    kept_files: int
    kept_bytes: int

    @property
    def file_bytes(self) -> int:
        return sum(self.files.values())


def find_garbage(mill: Mill, run: Run) -> Garbage:
    store = mill.store
    tasks = {key for made in run.made.values() for key in made.tasks}
    datasets: set[str] = set()
    for record in _living_records(store):
        for node in record["nodes"].values():
            tasks.update(node["tasks"])
            datasets.update(node["datasets"].values())
    parts: set[str] = set()
    manifests: set[str] = set()
    for key in tasks:
        task = store.read_json(f"tasks/{key}.json")
        if task is not None:
            parts.update(part["hash"] for part in task["parts"])
            if task["node"].endswith(f"/{MIX}"):
                manifests.update(_manifest_hashes(store, task))
    needed = {"tasks": tasks, "datasets": datasets, "parts": parts}
    garbage: dict[str, int] = {}
    kept_files = kept_bytes = 0
    for folder, names in needed.items():
        for path, size in store.list_files(folder):
            if path.rsplit("/", 1)[1].split(".")[0] in names:
                kept_files, kept_bytes = kept_files + 1, kept_bytes + size
            else:
                garbage[path] = size
    for path, size in store.list_files(FOLDER):
        version = path.split("/")[2]
        if version != LATEST and version not in manifests:
            # All but the manifest are second names of parts, which are counted above if they go.
            garbage[path] = size if path.endswith("/manifest.json") else 0
    return Garbage(garbage, kept_files, kept_bytes)


def collect(mill: Mill, garbage: Garbage) -> None:
    """Take the files away, records before the parts that they name, so that nothing ever names a missing part."""
    users = mill.store.users()
    if users:
        raise UserError(
            f"The store {mill.store.uri} is in use by {', '.join(users)}. Nothing was removed. "
            "Collect when the run is over; if that machine is gone for good, delete the files in locks/."
        )
    order = {FOLDER: 0, "datasets": 1, "tasks": 2, "parts": 3}
    for path in sorted(garbage.files, key=lambda path: (order[path.split("/")[0]], path)):
        mill.store.remove(path)
    mill.store.sweep_temporaries()


def _manifest_hashes(store: Store, task: dict[str, Any]) -> Iterator[str]:
    """The folder of shards that a mixture names, where its manifest is there."""
    part = Part(**task["parts"][0])
    if store.has_part(part):
        yield json.loads(bytes(memoryview(store.get_part(part))))["hash"][:12]


def _living_records(store: Store) -> list[dict]:  # type: ignore[type-arg]
    newest: dict[str, str] = {}
    living = []
    for path, _ in store.list_files("runs"):
        record = store.read_json(path)
        if record is not None and record["status"] == "finished":
            newest[record["recipe"]] = path
    for path in [*newest.values(), *(path for path, _ in store.list_files("versions"))]:
        record = store.read_json(path)
        if record is not None:
            living.append(record)
    return living
