"""The record of a run: written at its end, and enough to look at what it made.

It names every step with its columns and datasets, so whoever looks needs neither the recipe nor the inputs nor the code
of the steps. A run is named by its version (a tag), by its recipe's name (the newest whole run), or by the
hash that `run` shows.

Runs are ordered by the names of their records, `runs/<recipe>/run-<number>-<writer>.json`, and never by a clock. The
number is one more than the highest in the store when the record is written. Records of earlier versions of Gristmill
are named by a time, and come before all numbered ones. `last_of_kind` alone decides which run is the newest.
"""

import os
import re
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any

from gristmill.counted import counted
from gristmill.engine.plan.facts import NodeFacts
from gristmill.engine.schedule.corpus_view import CorpusView, Document
from gristmill.engine.schedule.node_state import NodeState
from gristmill.engine.schedule.tables import Slots
from gristmill.errors import Gone, UserError
from gristmill.hints import hint, option
from gristmill.places import exact
from gristmill.recipe.checks.mistakes import listed, nearest
from gristmill.stages import CORPUS, GROUPS, INGEST
from gristmill.store.records import DAMAGED, DamagedRecord, digest
from gristmill.store.store import Store, part_from_json, part_to_json

if TYPE_CHECKING:
    from gristmill.engine.schedule.run import Run

_MODEL = "model"
"""Stands for the source among the datasets of a step that has files and no layers."""
_IN_ALL = {"recipe", "status", "version", "ended", "nodes"}
"""Keys that the record of every run has."""
_NUMBERED = re.compile(r".*/run-(\d{12})-[0-9a-f]+\.json")


def next_name(store: Store, writer: str) -> str:
    """The name of the next run's record; the id of its writer keeps two apart that got the same number at once."""
    numbered = (_NUMBERED.fullmatch(path) for path, _ in store.list_files("runs"))
    return f"run-{max((int(found[1]) for found in numbered if found), default=0) + 1:012}-{writer}"


def is_partial(record: Mapping[str, Any]) -> bool:
    """Whether the run ended before the end of its recipe (`until`, `quality train`, `tokenizer train`)."""
    return record.get("until") is not None


def make_record(
    run: "Run",
    started: datetime,
    ended: datetime,
    datasets: Mapping[str, Any],
    status: str,
    until: str | None,
    before: Mapping[str, Any] | None,
) -> dict[str, Any]:
    """`before`: the newest whole run of the recipe before this one."""
    recipe = run.graph.recipe
    return {
        "recipe": recipe.name,
        "status": status,
        "started": started.isoformat(),
        "ended": ended.isoformat(),
        "version": (version := version_of(datasets)),
        "parent": _parent(version, before),
        "documents": _documents(run) if datasets else None,
        "tokens": _tokens(run) if datasets else None,
        "file": exact(os.path.abspath(recipe.path)),
        "sample": recipe.sample,
        "until": until,
        "not_run": run.graph.beyond,
        "recipe_text": recipe.text,
        "chains": run.chains,
        "domains": run.domains,
        "cost": run.cost,
        "nodes": {node_id: _record_node(run, node_id, datasets) for node_id in run.nodes},
    }


def _parent(version: str | None, before: Mapping[str, Any] | None) -> str | None:
    """The version before this one; a run that made the same once more has the parent that it had."""
    if version is None or before is None:
        return None
    parent = before.get("parent") if before["version"] == version else before["version"]
    return None if parent is None else str(parent)


def _documents(run: "Run") -> int:
    """That are kept."""
    funnels = [run.states[node.id].metrics.get("funnel") for node in run.nodes.values() if node.name == CORPUS]
    return sum(funnel["kept"]["rows"] for funnel in funnels if funnel)


def _tokens(run: "Run") -> int | None:
    """That lie in the shards, each once; None without any."""
    groups = [run.states[node.id].metrics.get("groups", {}) for node in run.nodes.values() if node.name == GROUPS]
    counts = [group["tokens"] for one in groups for by_source in one.values() for group in by_source.values()]
    return sum(counts) if groups else None


def _record_node(run: "Run", node_id: str, datasets: Mapping[str, Any]) -> dict[str, Any]:
    node, made = run.graph.nodes[node_id], run.states[node_id]
    record = {
        "name": node.name,
        "kind": node.kind,
        "sources": node.sources,
        "columns": node.columns,
        "identity": node.identity,
        "executed": (executed := len(made.executed)),
        "cached": len(made.tasks) - executed,
        "metrics": made.metrics,
        "cost": made.cost,
        "pace": made.pace,
        "datasets": datasets.get(node_id, {}),
        "stage": run.stages.keys.get(node_id),
        "stored_bytes": made.stored_bytes,
    }
    if record["stage"] is None:
        record["tasks"] = dict(made.tasks.items())
    if node.kind == "read" and node.sources[0] in run.inputs:
        limit = run.graph.recipe.sources[node.sources[0]].limit
        record["input_bytes"] = run.inputs[node.sources[0]].taken_bytes(limit)
        record["files"] = run.inputs[node.sources[0]].record()
        record["unread"] = run.inputs[node.sources[0]].unread_record()
    if node.files:
        copies = {part for file in node.files.values() for _, _, part in file.files}
        record["config_files"] = [part_to_json(part) for part in sorted(copies, key=lambda part: part.hash)]
    return record


def task_names(store: Store, told: Mapping[str, Any]) -> dict[str, str]:
    """Key -> label of the tasks of a step, of which a run's record tells. They stand in the record of the stage, and of
    one that has none (it was stopped, or gave documents up) in the run's; where that was deleted, nothing is known.
    """
    if "tasks" not in told:
        told = store.read_json(f"stages/{told['stage']}.json") or {"tasks": {}}
    return dict(told["tasks"])


def datasets_of(record: Mapping[str, Any]) -> set[str]:
    """Hashes of all datasets that a run made."""
    return {name for node in record["nodes"].values() for name in node["datasets"].values()}


def version_of(datasets: Mapping[str, Mapping[str, str]]) -> str | None:
    """A short name for everything that a finished run made."""
    return digest(datasets)[:12] if datasets else None


def see(store: Store, name: str) -> CorpusView:
    """What the run of this name made."""
    damaged: list[str] = []
    view = see_record(store, f"{store.uri}@{name}", _find(store, name, damaged))
    view.passed_over = damaged
    return view


def see_record(store: Store, told: str, record: Mapping[str, Any]) -> CorpusView:
    """What a run made, by its record; `told` is how the user names it."""
    try:
        nodes = {
            node_id: NodeFacts(
                node_id, one["name"], one["kind"], tuple(one["sources"]), tuple(one["columns"]), one["identity"]
            )
            for node_id, one in record["nodes"].items()
        }
        chains = {source: tuple(ids) for source, ids in record["chains"].items()}
        slots = Slots()
        made = {node_id: NodeState(slots, task_names(store, one)) for node_id, one in record["nodes"].items()}
        for node_id, one in record["nodes"].items():
            made[node_id].metrics, made[node_id].cost = one["metrics"], one["cost"]
            made[node_id].known_pace = one.get("pace", {})
        view = CorpusView(record["recipe"], told, store, nodes, chains, made, record)
        for node_id, one in record["nodes"].items():
            for source, dataset in one["datasets"].items():
                _add_layers(view, nodes[node_id], "" if source == _MODEL else source, dataset)
    except (KeyError, TypeError, AttributeError) as error:
        fact = error.fact if isinstance(error, DamagedRecord) else f"the record of that run {DAMAGED}"
        raise UserError(
            f"{told}: {fact}, so there is nothing to look at. Run its recipe again (what is in the store is not done "
            "again), or look with that version."
        ) from None
    return view


def version_names(store: Store) -> dict[str, tuple[str, ...]]:
    """Hash of a version -> the names that tags gave it."""
    found: dict[str, tuple[str, ...]] = {}
    for path, _ in store.list_files("versions"):
        if (record := store.read_json(path)) is not None and isinstance(record.get("version"), str):
            name = path.removeprefix("versions/").removesuffix(".json")
            found[record["version"]] = (*found.get(record["version"], ()), name)
    return found


def _add_layers(view: CorpusView, node: NodeFacts, source: str, dataset: str) -> None:
    manifest = view.store.read_json(f"datasets/{dataset}.json")
    if manifest is None and view.store.read_file(f"datasets/{dataset}.json") is None:
        raise Gone(
            f"{view.label}: what this run made is not in {view.store.uri} any more: gc let it go, or not all of the "
            "store was copied. Name another version (gristmill versions lists them), or run its recipe again."
        )
    if manifest is None:
        raise UserError(
            f"{view.label}: the record of {node.id}, datasets/{dataset}.json, is damaged in "
            f"{view.store.uri}, so it cannot be looked at. Copy the whole store again, or run the recipe again, which "
            "writes it anew."
        )
    for number, entry in enumerate(manifest["parts"]):
        part = part_from_json(entry)
        view.states[node.id].layers[source, (number, 0)] = (part, entry["task"])
        if node.name == INGEST:
            document = Document(source, part, "", (number, 0), f"{source} part {number}", entry["task"])
            view.documents.setdefault(source, []).append(document)


def describe(view: CorpusView) -> str:
    """One line on which run is looked at."""
    assert view.record is not None
    record = view.record
    end = f", as far as {record['until']}" if record["until"] else ""
    passed = "".join(f"; passed over, though it may be newer: {fact}" for fact in view.passed_over)
    return f"{view.label}: recipe {view.name}, version {record['version']}, run of {end_of(record)}{end}{passed}"


def end_of(record: Mapping[str, Any]) -> str:
    """When a run ended, to the second."""
    return f"{record['ended'][:19]} UTC"


def outcome(record: Mapping[str, Any]) -> str:
    """How a run ended: `finished`, `finished up to extract` (`until`), `stopped: Interrupted`."""
    is_part = record["status"] == "finished" and record["until"]
    return f"{record['status']} up to {record['until']}" if is_part else str(record["status"])


def last_finished(view: CorpusView, command: str = "") -> str:
    """How to look at the last finished run of a recipe that has not run to its end as it is now, by that command."""
    last = None if view.record is not None else newest_run(view.store, view.name)
    if last is None:
        return ""
    end = f", as far as {last['until']} ({option('until')})" if last.get("until") else ""
    name = f"{view.store.uri}@{view.name}"
    look = hint("open", command=command, name=name) if command else name
    return f"; its last finished run, of {end_of(last)}{end}: {look}"


def newest_run(store: Store, recipe: str, damaged: list[str] | None = None) -> dict[str, Any] | None:
    """What STORE@RECIPE means: the newest whole run; of a recipe that has none, the last partial one."""
    partial = None
    for run, is_last in last_of_kind(store, recipe, damaged):
        if is_last and not is_partial(run):
            return run
        partial = run if is_last else partial
    return partial


def last_of_kind(
    store: Store, recipe: str | None = None, damaged: list[str] | None = None, without: tuple[str, str] | None = None
) -> Iterator[tuple[dict[str, Any], bool]]:
    """Finished runs, the newest first, and whether each is the last of its recipe that was not dropped: of whole runs
    (that is the newest), or of partial ones. `without`: as though that version (recipe, hash) had been dropped.
    """
    dropped, view = {*dropped_versions(store), without}, set()
    for run in finished_runs(store, recipe, damaged):
        kind = (run["recipe"], is_partial(run))
        is_last = kind not in view and (run["recipe"], run["version"]) not in dropped
        view.update([kind] if is_last else [])
        yield run, is_last


def dropped_versions(store: Store) -> set[tuple[str, str]]:
    """Recipe and hash of the versions that nobody wants any more, by the names of their marks alone."""
    marks = (path.removesuffix(".json").split("/") for path, _ in store.list_files("dropped"))
    return {(mark[1], mark[2]) for mark in marks if len(mark) == 3}


def _find(store: Store, name: str, damaged: list[str]) -> dict[str, Any]:
    """The record of a version; else that of the newest run of a recipe; else by hash (a whole run first).
    `damaged` is told what is wrong with records on the way to it.
    """
    version = read_run(store, f"versions/{name}.json")
    if version is not None:
        return version
    found = newest_run(store, name, damaged)
    if found is None and damaged:
        others = counted(len(damaged) - 1, "more record of its runs is", "more records of its runs are")
        more = f" (and {others} damaged)" if damaged[1:] else ""
        raise UserError(
            f"{store.uri}@{name}: {damaged[0]}{more}, and no other finished run of {name} is recorded, so there is "
            "nothing to look at. Restore that file from a copy, or run the recipe again: what is finished is not done "
            "again, and the run is recorded anew."
        )
    if found is None:
        same = (run for run in finished_runs(store, None, damaged) if run["version"] == name)
        found = min(same, key=is_partial, default=None)
    if found is None and next(run_records(store, name), None) is not None:
        raise UserError(
            f"{store.uri}@{name}: no run of {name} has come to its end, so there is nothing to look at. Run its recipe "
            "again: it goes on where it stopped."
        )
    if found is None and store.is_local and not os.path.isdir(store.root):
        raise UserError(f"{store.uri}@{name}: the folder {store.root} does not exist. Correct the path.")
    if found is None:
        unread = f" {damaged[0]}: it may be that one." if damaged else ""
        raise UserError(
            f"{store.uri}@{name}: {store.uri} has no finished run of that name.{unread} {names_in(store, name)}"
        )
    return found


def read_run(store: Store, path: str) -> dict[str, Any] | None:
    """The record of a run or a version, or None when there is none; DamagedRecord where it lacks what all have."""
    record = store.read_record(path)
    lacking = _IN_ALL - set(record) if isinstance(record, dict) else _IN_ALL
    if record is not None and lacking:
        raise store.damaged(path, f'has no "{min(lacking)}": it {DAMAGED}')
    return record


def run_records(store: Store, recipe: str | None = None, damaged: list[str] | None = None) -> Iterator[dict[str, Any]]:
    """Of a recipe, or of all; the newest first. Damaged ones are left out, and `damaged` gets what is wrong."""
    paths = (path for path, _ in store.list_files("runs" if recipe is None else f"runs/{recipe}"))
    for path in sorted(paths, key=lambda path: (path.rpartition("/")[2], path), reverse=True):
        try:
            if (record := read_run(store, path)) is not None:
                yield record
        except DamagedRecord as error:
            if damaged is not None and error.fact not in damaged:
                damaged.append(error.fact)


def finished_runs(
    store: Store, recipe: str | None = None, damaged: list[str] | None = None
) -> Iterator[dict[str, Any]]:
    """Those that came to their end."""
    return (record for record in run_records(store, recipe, damaged) if record["status"] == "finished")


def names_in(store: Store, wanted: str = "") -> str:
    """What a user could have meant."""
    versions = [path.removeprefix("versions/").removesuffix(".json") for path, _ in store.list_files("versions")]
    recipes = sorted({path.split("/")[1] for path, _ in store.list_files("runs")})
    if not versions and not recipes:
        if not store.is_shared:
            return "A store in memory is empty for every command but the one that fills it: give a folder."
        return "No run is recorded there: check the path, or give the store that the recipe names."
    near = nearest(wanted, [*versions, *recipes])
    hint = f"Did you mean {near}? " if near else ""
    return f"{hint}Versions: {listed(versions, 10) or 'none'}. Recipes that were run: {listed(recipes, 10) or 'none'}."
