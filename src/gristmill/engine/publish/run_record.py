"""The record of a run: written at its end, and sufficient to inspect its output.

It names every step with its columns and datasets, so inspecting a run needs neither the recipe nor the inputs nor the
code of the steps. A run is named by its version (a tag), by its recipe's name (the newest whole run), or by the hash
that `run` prints.

Runs are ordered by the names of their records, `runs/<recipe>/run-<number>-<writer>.json`, and never by a clock. The
number is one more than the highest in the store when the record is written. Only `last_of_kind` decides which run is
the newest.
"""

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from gristmill.counted import counted
from gristmill.engine.plan.facts import NodeFacts
from gristmill.engine.schedule.corpus_view import CorpusView, DocumentPart
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
"""The name that replaces the source among the datasets of a step with files and no layers."""
_IN_ALL = {
    *("recipe", "recipe_text", "file", "sample", "restored", "chains", "domains", "nodes", "until", "not_run"),
    *("status", "version", "shards", "parent", "documents", "tokens", "started", "ended", "watch"),
}
"""Keys that the record of every run has."""
_NUMBERED = re.compile(r".*/run-(\d{12})-[0-9a-f]+\.json")


def next_name(store: Store, writer: str) -> str:
    """The name of the next run's record; the writer's id distinguishes two that get the same number at once."""
    numbered = (_NUMBERED.fullmatch(path) for path, _ in store.list_files("runs"))
    return f"run-{max((int(found[1]) for found in numbered if found), default=0) + 1:012}-{writer}"


def is_partial(record: Mapping[str, Any]) -> bool:
    """Whether the run ended before the end of its recipe (`until`, `quality train`, `tokenizer train`)."""
    return record["until"] is not None


def make_record(
    run: "Run",
    warnings: Sequence[Mapping[str, str]],
    started: datetime,
    ended: datetime,
    datasets: Mapping[str, Any],
    status: str,
    until: str | None,
    before: Mapping[str, Any] | None,
) -> dict[str, Any]:
    """The record of a run; `before` is the newest whole run of the recipe before it."""
    recipe = run.graph.recipe
    return {
        "recipe": recipe.name,
        "status": status,
        "started": started.isoformat(),
        "ended": ended.isoformat(),
        "version": (version := version_of(datasets)),
        "parent": _parent(run.store, recipe.name, version, before),
        "documents": _documents(run) if datasets else None,
        "tokens": _tokens(run) if datasets else None,
        "file": exact(os.path.abspath(recipe.path)),
        "sample": recipe.sample,
        "until": until,
        "not_run": run.graph.beyond,
        "recipe_text": recipe.text,
        "restored": recipe.restore,
        "shards": None if run.shards is None else run.shards.rpartition("/")[2],
        "chains": run.chains,
        "domains": run.domains,
        "cost": run.cost,
        "watch": run.watched,
        "warnings": warnings,
        "nodes": {node_id: _record_node(run, node_id, datasets) for node_id in run.nodes},
    }


def _parent(store: Store, recipe: str, version: str | None, before: Mapping[str, Any] | None) -> str | None:
    """The version before this one; a run that made an earlier version again keeps that version's parent."""
    if version is None or before is None:
        return None
    same = (one for one in finished_runs(store, recipe) if one["version"] == version and not is_partial(one))
    first = before if before["version"] == version else next(same, None)
    parent = before["version"] if first is None else first["parent"]
    return None if parent is None else str(parent)


def _documents(run: "Run") -> int:
    """The number of documents that are kept."""
    funnels = (metrics.get("funnel") for metrics in run.metrics_of(CORPUS))
    return sum(funnel["kept"]["rows"] for funnel in funnels if funnel)


def _tokens(run: "Run") -> int | None:
    """The number of tokens in the shards, each counted once; None without shards."""
    return sum(tokens for *_, tokens in run.token_groups()) if run.named(GROUPS) else None


def _record_node(run: "Run", node_id: str, datasets: Mapping[str, Any]) -> dict[str, Any]:
    node, state = run.graph.nodes[node_id], run.states[node_id]
    record = {
        "name": node.name,
        "kind": node.kind,
        "sources": node.sources,
        "columns": node.columns,
        "identity": node.identity,
        "executed": (executed := len(state.executed)),
        "cached": len(state.tasks) - executed,
        "metrics": state.metrics,
        "cost": state.cost,
        "pace": state.pace,
        "datasets": datasets.get(node_id, {}),
        "stage": run.stages.keys.get(node_id),
        "stored_bytes": state.stored_bytes,
    }
    if record["stage"] is None:
        record["tasks"] = dict(state.tasks.items())
    if node.kind == "read" and node.sources[0] in run.inputs:
        limit = run.graph.recipe.sources[node.sources[0]].limit
        record["input_bytes"] = run.inputs[node.sources[0]].taken_bytes(limit)
        record["files"] = run.inputs[node.sources[0]].record()
        record["unread"] = run.inputs[node.sources[0]].unread_record()
    if node.pinned_code:
        record["pinned_code"] = node.pinned_code
    if node.files:
        copies = {part for file in node.files.values() for _, _, part in file.files}
        record["config_files"] = [part_to_json(part) for part in sorted(copies, key=lambda part: part.hash)]
    return record


def task_names(store: Store, node: Mapping[str, Any]) -> dict[str, str]:
    """Key -> label of the tasks of a step in a run's record. They are in the record of the stage, or in the run's if
    the stage has none (it was stopped, or gave documents up); if that was deleted, nothing is known.
    """
    if "tasks" not in node:
        node = store.read_json(f"stages/{node['stage']}.json") or {"tasks": {}}
    return dict(node["tasks"])


def datasets_of(record: Mapping[str, Any]) -> set[str]:
    """Hashes of all datasets that a run made."""
    return {name for node in record["nodes"].values() for name in node["datasets"].values()}


def version_of(datasets: Mapping[str, Mapping[str, str]]) -> str | None:
    """A short name for everything that a finished run made."""
    return digest(datasets)[:12] if datasets else None


def see(store: Store, name: str) -> CorpusView:
    """The output of the run with this name."""
    damaged: list[str] = []
    view = see_record(store, f"{store.uri}@{name}", _find(store, name, damaged))
    view.passed_over = damaged
    return view


def see_record(store: Store, label: str, record: Mapping[str, Any]) -> CorpusView:
    """The output of a run, by its record; `label` is how the user names it."""
    try:
        nodes = {
            node_id: NodeFacts(
                node_id, one["name"], one["kind"], tuple(one["sources"]), tuple(one["columns"]), one["identity"]
            )
            for node_id, one in record["nodes"].items()
        }
        chains = {source: tuple(ids) for source, ids in record["chains"].items()}
        slots = Slots()
        states = {node_id: NodeState(slots, task_names(store, one)) for node_id, one in record["nodes"].items()}
        for node_id, one in record["nodes"].items():
            states[node_id].metrics, states[node_id].cost = one["metrics"], one["cost"]
            states[node_id].known_pace = one["pace"]
        view = CorpusView(record["recipe"], label, store, nodes, chains, states, record)
        for node_id, one in record["nodes"].items():
            for source, dataset in one["datasets"].items():
                _add_layers(view, nodes[node_id], "" if source == _MODEL else source, dataset)
    except (KeyError, TypeError, AttributeError) as error:
        fact = error.fact if isinstance(error, DamagedRecord) else f"the record of that run {DAMAGED}"
        raise UserError(
            f"{label}: {fact}, so there is nothing to show. Run its recipe again (work in the store is not repeated), "
            "or use the version of Gristmill that wrote it."
        ) from None
    return view


def version_names(store: Store) -> dict[str, tuple[str, ...]]:
    """Hash of a version -> the names from its tags."""
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
            f"{view.label}: the output of this run is no longer in {view.store.uri}: gc removed it, or only part of "
            "the store was copied. Name another version (gristmill versions lists them), or run its recipe again."
        )
    if manifest is None:
        raise UserError(
            f"{view.label}: the record of {node.id}, datasets/{dataset}.json, is damaged in "
            f"{view.store.uri}, so it cannot be read. Copy the whole store again, or run the recipe again, which "
            "rewrites the record."
        )
    for number, entry in enumerate(manifest["parts"]):
        part = part_from_json(entry)
        view.states[node.id].layers[source, (number, 0)] = (part, entry["task"])
        if node.name == INGEST:
            document = DocumentPart(source, part, "", (number, 0), f"{source} part {number}", entry["task"])
            view.documents.setdefault(source, []).append(document)


def describe(view: CorpusView) -> str:
    """One line that says which run this is."""
    assert view.record is not None
    record = view.record
    end = f", up to {record['until']}" if record["until"] else ""
    passed = "".join(f"; skipped, though it may be newer: {fact}" for fact in view.passed_over)
    return f"{view.label}: recipe {view.name}, version {record['version']}, run of {end_of(record)}{end}{passed}"


def end_of(record: Mapping[str, Any]) -> str:
    """When a run ended, to the second."""
    return f"{record['ended'][:19]} UTC"


def outcome(record: Mapping[str, Any]) -> str:
    """How a run ended: `finished`, `finished up to extract` (`until`), `stopped: Interrupted`."""
    is_part = record["status"] == "finished" and record["until"]
    return f"{record['status']} up to {record['until']}" if is_part else str(record["status"])


def last_finished(view: CorpusView, command: str = "") -> str:
    """How to view the last finished run of a recipe whose current state has not run to its end, with that command."""
    last = None if view.record is not None else newest_run(view.store, view.name)
    if last is None:
        return ""
    end = f", up to {last['until']} ({option('until')})" if last["until"] else ""
    name = f"{view.store.uri}@{view.name}"
    command_line = hint("open", command=command, name=name) if command else name
    return f"; its last finished run, of {end_of(last)}{end}: {command_line}"


def newest_run(store: Store, recipe: str, damaged: list[str] | None = None) -> dict[str, Any] | None:
    """What STORE@RECIPE means: the newest whole run; the last partial run if there is no whole one."""
    partial = None
    for run, is_last in last_of_kind(store, recipe, damaged):
        if is_last and not is_partial(run):
            return run
        partial = run if is_last else partial
    return partial


def last_of_kind(
    store: Store, recipe: str | None = None, damaged: list[str] | None = None
) -> Iterator[tuple[dict[str, Any], bool]]:
    """Finished runs, the newest first, and whether each is the last of its recipe that was not dropped, among whole
    runs (which is the newest) or among partial ones.
    """
    dropped, found = dropped_versions(store), set()
    for run in finished_runs(store, recipe, damaged):
        kind = (run["recipe"], is_partial(run))
        is_last = kind not in found and (run["recipe"], run["version"]) not in dropped
        found.update([kind] if is_last else [])
        yield run, is_last


def dropped_versions(store: Store) -> set[tuple[str, str]]:
    """Recipe and hash of the dropped versions, by the names of their marks."""
    marks = (path.removesuffix(".json").split("/") for path, _ in store.list_files("dropped"))
    return {(mark[1], mark[2]) for mark in marks if len(mark) == 3}


def _find(store: Store, name: str, damaged: list[str]) -> dict[str, Any]:
    """The record of a version; else of the newest run of a recipe; else by its hash or that of its folder of shards (a
    whole run first). Adds the faults of records on the way to `damaged`.
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
            "nothing to show. Restore that file from a copy, or run the recipe again: finished work is not repeated, "
            "and the run is recorded again."
        )
    if found is None:
        same = (run for run in finished_runs(store, None, damaged) if name in (run["version"], run["shards"]))
        found = min(same, key=is_partial, default=None)
    if found is None and next(run_records(store, name), None) is not None:
        raise UserError(
            f"{store.uri}@{name}: no run of {name} has finished, so there is nothing to show. Run its recipe "
            "again: it continues where it stopped."
        )
    if found is None and store.is_local and not os.path.isdir(store.root):
        raise UserError(f"{store.uri}@{name}: the folder {store.root} does not exist. Correct the path.")
    if found is None:
        unread = f" {damaged[0]}: it may be that run." if damaged else ""
        raise UserError(
            f"{store.uri}@{name}: {store.uri} has no finished run of that name.{unread} {names_in(store, name)}"
        )
    return found


def read_run(store: Store, path: str) -> dict[str, Any] | None:
    """The record of a run or a version; None if there is none. Raises DamagedRecord if it lacks a required key."""
    record = store.read_record(path)
    lacking = _IN_ALL - set(record) if isinstance(record, dict) else _IN_ALL
    if record is not None and lacking:
        raise store.damaged(path, f'has no "{min(lacking)}": it {DAMAGED}')
    return record


def run_records(store: Store, recipe: str | None = None, damaged: list[str] | None = None) -> Iterator[dict[str, Any]]:
    """Records of one recipe or of all, the newest first; damaged ones are skipped, their faults go to `damaged`."""
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
    """The runs that finished."""
    return (record for record in run_records(store, recipe, damaged) if record["status"] == "finished")


def names_in(store: Store, wanted: str = "") -> str:
    """The known names, and the one that the user probably meant."""
    versions = [path.removeprefix("versions/").removesuffix(".json") for path, _ in store.list_files("versions")]
    recipes = sorted({path.split("/")[1] for path, _ in store.list_files("runs")})
    if not versions and not recipes:
        if not store.is_shared:
            return "A store in memory is empty for every command except the one that fills it: give a folder."
        return "No run is recorded there: check the path, or give the store that the recipe names."
    near = nearest(wanted, [*versions, *recipes])
    hint = f"Did you mean {near}? " if near else ""
    hashes = [] if versions else list(dict.fromkeys(run["version"] for run in finished_runs(store, None)))
    named = listed(versions, 10) or (f"{listed(hashes, 5)}, without a name" if hashes else "none")
    return f"{hint}Versions: {named}. Recipes that were run: {listed(recipes, 10) or 'none'}."
