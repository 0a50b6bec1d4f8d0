"""The records and parts that a record of the store names: `verify` checks them, and `gc` keeps them."""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from gristmill.engine.work.task import part_from_json
from gristmill.store.store import Part, with_verdicts

NO_TASK = 32 * "0"


class NamedPart(NamedTuple):
    """A part that a record names."""

    part: Part
    task: str
    """Key of the task that made it; NO_TASK for a user's file."""
    made_by: str
    """The same as text."""


def named_in(kind: str, body: Mapping[str, Any]) -> Iterator[str | NamedPart]:
    """Records (by name) and parts that must exist as long as a record does. `kind` is the record's folder; the record
    of a run is read as that of a version.
    """
    if kind == "tasks":
        label = f"{body['node']}, {body['label']}"
        yield from (NamedPart(part, body["key"], label) for part in with_verdicts(map(part_from_json, body["parts"])))
    elif kind == "datasets":
        for entry in body["parts"]:
            yield f"tasks/{entry['task']}.json"
            for part in with_verdicts((part_from_json(entry),)):
                yield NamedPart(part, entry["task"], body["produced_by"]["node"])
    for node in (body,) if kind == "stages" else body["nodes"].values() if kind == "versions" else ():
        yield from (f"tasks/{key}.json" for key in node.get("tasks", ()))
        yield from (f"datasets/{name}.json" for name in node["datasets"].values())
        yield from (NamedPart(part_from_json(part), NO_TASK, node["name"]) for part in node.get("config_files", ()))
        # A run names the tasks of a stage itself only if the stage has no record.
        if stage := node.get("stage") if "tasks" in node or kind == "stages" else node["stage"]:
            yield f"stages/{stage}.json"
