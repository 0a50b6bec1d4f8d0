"""Verify a store: records, parts, published files and answers by their hashes, and tasks by running them again."""

import asyncio
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

from gristmill.counted import counted
from gristmill.engine.executors.executor import Executor
from gristmill.engine.executors.insist import insist
from gristmill.engine.mill import wait_for
from gristmill.engine.publish.catalog import SHARDS_FOLDER
from gristmill.engine.publish.folder import LATEST, contents
from gristmill.engine.publish.garbage import published_in
from gristmill.engine.publish.journal import FOLDER as PROGRESS
from gristmill.engine.publish.kept_takedowns import FOLDER as TAKEDOWNS
from gristmill.engine.publish.references import NamedPart, named_in
from gristmill.engine.publish.run_record import is_partial, newest_run, run_records, see_record, task_names
from gristmill.engine.schedule.corpus_view import CorpusView
from gristmill.engine.schedule.run import Run
from gristmill.engine.schedule.task_cache import Listener
from gristmill.engine.work.task import Hash, Result, Task
from gristmill.errors import UserError
from gristmill.hints import option
from gristmill.places import FileLocation
from gristmill.shardformat.manifest import are_alike, read_manifest
from gristmill.store.answers import FOLDER as ANSWERS
from gristmill.store.answers import check_answers, drop_damaged
from gristmill.store.store import CorruptPart, Part, Store

RECORDS = ("runs", "versions", "dropped", TAKEDOWNS, "inputs", "stages", "datasets", "tasks", PROGRESS)
"""Folders of records. Records come before those that they refer to, because a run may write in the meantime."""
OTHER_HASH = "does not match its hash"


@dataclass
class Findings:
    """The results of a check."""

    parts: int = 0
    records: int = 0
    broken: dict[Part, str] = field(default_factory=dict)
    damaged: dict[str, str] = field(default_factory=dict)
    """Damaged records, published files and files of answers: name -> fault."""
    made_by: dict[str, str] = field(default_factory=dict)
    """Hash of a broken part -> the step and task that made it, if recorded, and the recipe if it is another one."""
    recomputed: int = 0
    unchecked: list[str] = field(default_factory=list)
    """Tasks that should have run again but could not, because their record or an earlier one is lost."""
    different: list[str] = field(default_factory=list)
    survivors: int = 0
    """Documents that once crashed their worker, and no longer do."""

    @property
    def has_damage(self) -> bool:
        return bool(self.broken or self.damaged)

    def as_json(self) -> dict[str, Any]:
        fields = {name: value for name, value in vars(self).items() if name != "made_by"}
        broken = ((part.hash, fact, self.made_by.get(part.hash)) for part, fact in self.broken.items())
        return fields | {"broken": [dict(zip(("part", "fact", "made_by"), one, strict=True)) for one in broken]}


def parse_share(text: str | None) -> float:
    """Parse `5%` or `0.05` as a fraction."""
    if text is None:
        return 0.0
    try:
        share = float(text[:-1]) / 100 if text.endswith("%") else float(text)
    except ValueError:
        share = -1
    if not 0 <= share <= 1:
        raise UserError(f"{option('recompute', text)} is not a share. Write a percentage (5%) or a fraction (0.05).")
    return share


def is_chosen(share: float, key: str) -> bool:
    """Whether a task belongs to the sample; its key decides, so that the sample is always the same."""
    return int(key[:8], 16) < share * 2**32


def verify(view: CorpusView, share: float, executor: Executor, listener: Listener) -> Findings:
    """Read all records and answers, hash all parts and published files, find missing files, and run a share of the
    tasks again.
    """
    assert not share or isinstance(view, Run), "only a recipe's tasks can run again"
    chosen = [pair for pair in view.tasks.kept if is_chosen(share, pair[0].key)] if isinstance(view, Run) else []
    findings = Findings()
    # Lists and records are read here, where a signal takes effect at once; inside the event loop it would not.
    named = _check_records(view.store, findings)
    findings.damaged |= dict(check_answers(view.store))
    parts = list(_parts_in(view.store))
    findings.parts, by_hash = len(parts), {part.hash: part for part in parts}
    findings.broken = {part: "is missing" for digest, (part, *_) in named.items() if digest not in by_hash}
    files = {part.name: part.hash for part in parts} | _published(view, findings, by_hash)
    wait_for(_check(view.store, files, chosen, executor, findings, listener), executor)
    findings.broken |= {part: fact for part in parts if (fact := findings.damaged.pop(part.name, ""))}
    findings.made_by = _made_by(view, {part.hash: named[part.hash] for part in findings.broken if part.hash in named})
    findings.unchecked = _unchecked(view, share, findings) if share else []
    return findings


def clear_away(view: Run, found: Findings) -> None:
    """Remove damaged files, so that a run makes them again. A run overwrites damaged records, but it does not read task
    records if the record of the whole step exists. So that record is removed if it refers to a damaged one.
    """
    for part in found.broken:
        view.store.remove_part(part)
    for name, fact in found.damaged.items():
        if name.startswith(f"{SHARDS_FOLDER}/") and fact == OTHER_HASH:
            view.store.unmark(name)
        if name.startswith(f"{ANSWERS}/"):
            drop_damaged(view.store, name)
    for name in [f"stages/{key}.json" for key in view.stages.keys.values()]:
        if any(one in found.damaged for one in named_in("stages", view.store.read_json(name) or {"datasets": {}})):
            view.store.remove(name)


def _check_records(store: Store, findings: Findings) -> dict[str, NamedPart]:
    """Read all records and check that the records they name exist; returns all parts that they name, by hash."""
    names = [name for folder in RECORDS for name, _ in store.list_files(folder) if name.endswith(".json")]
    findings.records = len(names)
    recipes = dict.fromkeys(name.split("/")[1] for name in names if name.startswith("runs/"))
    runs = (("versions", newest_run(store, recipe)) for recipe in recipes)  # gc keeps its parts, as for a version
    there, parts = set(names), {}
    for name, body in chain(zip(names, store.each(store.read_json, names), strict=True), runs):
        with suppress(
            KeyError, TypeError, AttributeError, IndexError, ValueError
        ):  # written by another version of Gristmill: not used
            for one in named_in(name.partition("/")[0], body) if body is not None else ():
                if not isinstance(one, str):
                    parts[one.part.hash] = one
                elif one not in there:
                    findings.damaged[one] = "is missing"
    for name in there & store.damaged_records.keys():
        findings.damaged[name] = store.damaged_records[name].partition(f"{name} ")[2] or store.damaged_records[name]
    return parts


def _parts_in(store: Store) -> Iterator[Part]:
    for name, size in store.list_files("parts"):
        digest, _, suffix = name.rsplit("/", 1)[1].partition(".")  # a suffix may contain dots: ds.index
        yield Part(digest, suffix, size)


def _published(view: CorpusView, findings: Findings, parts: Mapping[str, Part]) -> dict[str, str]:
    """Files in published folders that are not hard links to parts, with their hashes; manifests are checked here."""
    store = view.store
    wanted: dict[str, str] = {}
    for folder in published_in(store):
        try:
            manifest = read_manifest(f"{store.uri.rstrip('/')}/{SHARDS_FOLDER}/{folder}")
        except UserError as error:
            findings.damaged[f"{SHARDS_FOLDER}/{folder}/manifest.json"] = f"is damaged ({error})"
            continue
        if store.is_local:  # a remote manifest names the parts themselves
            wanted |= {f"{SHARDS_FOLDER}/{folder}/{name}": digest for digest, name in manifest.files.items()}
    with suppress(CorruptPart):  # reported below, with all parts
        folder, content, files = contents(view) or ("", b"", {})
        if folder and any(store.list_files(folder)):
            if not are_alike(store.read_file(f"{folder}/manifest.json") or b"", content):
                findings.damaged.setdefault(f"{folder}/manifest.json", "is missing, or differs from what the run wrote")
            wanted |= {name: part.hash for name, part in files.items()}
    with suppress(CorruptPart, UserError):  # what its record names is found below, too
        link, newest = f"{SHARDS_FOLDER}/{view.name}/{LATEST}", newest_run(store, view.name)
        if newest and not is_partial(newest) and os.path.islink(f"{store.root}/{link}"):
            folder, *_ = contents(see_record(store, view.label, newest)) or ("",)
            if os.readlink(f"{store.root}/{link}") != folder.rpartition("/")[2]:
                findings.damaged[link] = "does not point to the shards of the newest run"

    def is_part(path: str, digest: str) -> bool:
        return digest in parts and os.path.exists(path) and os.path.samefile(path, store.part_path(parts[digest]))

    return {name: digest for name, digest in wanted.items() if not is_part(f"{store.root}/{name}", digest)}


async def _check(
    store: Store,
    files: Mapping[str, str],
    chosen: Sequence[tuple[Task, Result]],
    executor: Executor,
    findings: Findings,
    listener: Listener,
) -> None:
    listener.note(f"hashing {counted(len(files), 'part')}")
    hashing = asyncio.as_completed([_hash(store, *file, executor, findings, listener) for file in files.items()])
    for one in listener.track("parts", hashing, len(files)):
        await one
    if chosen:
        listener.note(f"running {counted(len(chosen), 'task')} again")
    again = asyncio.as_completed([_again(task, before, executor, findings, listener) for task, before in chosen])
    for one in listener.track("tasks", again, len(chosen)):
        await one
    findings.different.sort()


def _made_by(view: CorpusView, named: Mapping[str, NamedPart]) -> dict[str, str]:
    """The step and the task that made each part, and the recipe if it is another one, as far as runs are recorded."""
    others = {task for _, task, _ in named.values()}
    for state in view.states.values() if named else ():
        others.difference_update(state.tasks, state.missing)
    recipes: dict[str, str] = {}
    for record in run_records(view.store) if others else ():
        for node in record["nodes"].values():
            for task in others & task_names(view.store, node).keys():
                recipes.setdefault(task, f" of the recipe {record['recipe']}")
    return {part: f"{label}{recipes.get(task, '')}" for part, (_, task, label) in named.items()}


def _unchecked(view: CorpusView, share: float, findings: Findings) -> list[str]:
    """Tasks of the sample that cannot run again, because a record or part of theirs, or of an earlier task, is lost."""
    missing = {
        key: f"{node}, {label}" for node, state in view.states.items() for key, (label, _) in state.missing.items()
    }
    files = {key: f"tasks/{key}.json" for key in missing}
    lost = {key for key, name in files.items() if name in findings.damaged or view.store.read_file(name) is not None}
    if lost and lost == missing.keys():  # else the recipe has not finished, and the other tasks never ran
        for node_id, node in (newest_run(view.store, view.name) or {"nodes": {}})["nodes"].items():
            missing |= {key: f"{node_id}, {label}" for key, label in task_names(view.store, node).items()}
        lost = missing.keys() - {key for state in view.states.values() for key in state.tasks}
    return sorted(missing[key] for key in lost if is_chosen(share, key))


async def _hash(
    store: Store, name: str, digest: str, executor: Executor, findings: Findings, listener: Listener
) -> None:
    place = FileLocation(f"{store.root}/{name}", None if store.is_local else store.fs)
    if store.is_local and not os.path.isfile(place.path):
        findings.damaged[name] = "is not a file" if os.path.lexists(place.path) else "is missing"
        return
    result = await insist(Task("", "verify", digest, Hash((place,), blocks=False)), executor, listener.note)
    if result.values[0].sha256 != digest:
        findings.damaged[name] = OTHER_HASH


async def _again(task: Task, before: Result, executor: Executor, findings: Findings, listener: Listener) -> None:
    """Run a task from the start: documents that crashed it before get another chance."""
    try:
        result = await insist(task, executor, listener.note)
    except CorruptPart as error:
        findings.different.append(f"{task.node}, {task.label} (could not be run again: {error})")
        return
    findings.recomputed += 1
    fatal = {tuple(where) for *where, _ in result.poisoned}
    survivors = sum(tuple(where) not in fatal for *where, _ in before.poisoned)
    findings.survivors += survivors
    if tuple(result.parts) != tuple(before.parts) and not survivors:
        findings.different.append(f"{task.node}, {task.label}")
