"""Checks whether a recipe, its files and the code are unchanged since its last run, by file stamps.

If so, a command that reads records answers from that run's record, without loading the recipe. A recipe with variables
(`$`), with files that are not on this disk, with the user's own steps or with more than MOST_PATHS files is always
evaluated in full.
"""

import os
import sys
from typing import TYPE_CHECKING, Any

import gristmill
from gristmill.engine.files.content import ContentHashes, stamp_of_path
from gristmill.engine.publish.run_record import dropped_versions, read_run
from gristmill.places import exact, from_exact
from gristmill.store.records import DamagedRecord, digest
from gristmill.store.store import Store

if TYPE_CHECKING:
    from gristmill.engine.schedule.run import Run

MOST_PATHS = 10_000


def note_stamps(run: "Run", contents: ContentHashes, path: str) -> None:
    """Store, next to the record at `path`, the stamps of the run's files and folders when it checked them."""
    stamps = dict(contents.stamps)
    for file in (
        file for name, inputs in run.inputs.items() if name not in run.graph.generated for file in inputs.files.values()
    ):
        stamps[file.uri if file.place and file.place.system is None else ""] = file.stamp
    is_known = "" not in stamps and not run.graph.code and "$" not in run.graph.recipe.text
    if is_known and len(stamps) <= MOST_PATHS and run.store.is_local:
        entry = {"record": path, "code": _code(), "stamps": {exact(path): stamp for path, stamp in stamps.items()}}
        run.store.write_json(f"inputs/{run.graph.recipe.name}/last.json", entry)


def unchanged_run(store: Store, name: str, file: str, text: str) -> dict[str, Any] | None:
    """The record of the newest run of a recipe, if its text and everything that it depends on are unchanged."""
    last = store.read_json(f"inputs/{name}/last.json") or {}
    paths = (path for path, _ in store.list_files(f"runs/{name}"))
    newest = max(paths, key=lambda path: path.rpartition("/")[2], default=None)
    if newest is None or last.get("record") != newest or last["code"] != _code():
        return None
    if any(_stamp(from_exact(path)) != stamp for path, stamp in last["stamps"].items()):
        return None
    try:
        record = read_run(store, newest)
    except DamagedRecord:
        return None
    is_same = record is not None and (record["recipe_text"], record["file"]) == (text, exact(file))
    return record if is_same and record and (name, record["version"]) not in dropped_versions(store) else None


def _stamp(path: str) -> str | None:
    try:
        return stamp_of_path(os.stat(path))
    except OSError:
        return None


def _code() -> str:
    """A hash that changes with any file of Gristmill and any installed package."""
    libraries = [path for path in sys.path if path.endswith("-packages")]
    ours = [os.path.join(folder, name) for folder, _, names in os.walk(gristmill.__path__[0]) for name in names]
    stamps = {path: _stamp(path) for path in sorted([*libraries, *ours]) if not path.endswith(".pyc")}
    return digest([sys.version, os.path.expanduser("~"), stamps])
