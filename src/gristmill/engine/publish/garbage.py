"""Garbage collection: finds and removes what no recipe and no version needs.

These are needed: every version with a name; for every recipe that was run in the store, the newest whole run
and the last partial one (`until`), except dropped versions (`catalog.py`); the given recipe as it is now; and every
published folder of shards. The newest run does not depend on any clock (`run_record.py`). A trainer on another machine
may be reading a published folder, so it is only removed if it is named. All other parts, tasks and datasets are
garbage. If a record that could name something cannot be read, nothing is removed.
"""

import json
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from typing import Any

from gristmill.engine.publish.catalog import SHARDS_FOLDER, WRITTEN
from gristmill.engine.publish.journal import FOLDER as PROGRESS
from gristmill.engine.publish.references import named_in
from gristmill.engine.publish.run_record import datasets_of, last_of_kind
from gristmill.engine.schedule.corpus_view import CorpusView
from gristmill.engine.schedule.run import Run
from gristmill.engine.work.task import part_from_json
from gristmill.errors import UserError
from gristmill.hints import option
from gristmill.recipe.checks.mistakes import listed
from gristmill.recipe.sections.mix import MIX
from gristmill.shardformat.manifest import read_manifest
from gristmill.store.faults import Unwritable
from gristmill.store.leases import DEAD_SECONDS, hold, holders
from gristmill.store.records import DAMAGED, DamagedRecord
from gristmill.store.store import CorruptPart, Store

RECORDS = ("tasks", "stages", "datasets")
_SHARDS = re.compile(
    rf"{SHARDS_FOLDER}/([^/]+/[0-9a-f]{{12}})/(manifest\.json|tokenizer\.json|.+/shard_[0-9]{{5}}\.[^/]+)"
)
"""The files of a folder of shards: the folder, and their names in it."""


@dataclass(frozen=True)
class Garbage:
    """Files that nothing needs."""

    files: dict[str, int]
    """Path below the store -> bytes."""
    kept_files: int
    kept_bytes: int
    published: tuple[str, ...]
    """Folders of shards that are only kept because they are published."""
    needed_by: tuple[str, ...]
    """The versions and recipes that need the kept files."""
    lets_go: tuple[str, ...]
    """Versions that lose files, as RECIPE HASH, the newest first."""

    @property
    def file_bytes(self) -> int:
        return sum(self.files.values())


@contextmanager
def alone(store: Store, find: Callable[[], Garbage] | None = None) -> Iterator[None]:
    """Make sure that no other process uses the store; a run that starts meanwhile waits.

    A lease is a file. If the disk is too full for it, files that `find` returns are removed first, one by one, if there
    is no lease of another process; no run can start meanwhile, because it would need a lease, too.
    """
    with ExitStack() as stack:
        stack.enter_context(_readable())
        waste: Iterator[str] | None = None
        while True:
            try:
                lease = stack.enter_context(hold(store, "gc", ""))
                break
            except Unwritable as fault:
                if waste is None and find is not None and fault.is_full and not holders(store):
                    waste = iter(_in_order(find()))
                if waste is None or (path := next(waste, None)) is None:
                    raise
                store.remove(path)
        users = [str(other) for other in holders(store, but=lease)]
        if users:
            raise UserError(
                f"The store {store.uri} is in use by {listed(users, 5)}. Nothing was removed. "
                "Collect when that is over. Leases in locks/ from a machine that is gone for good are ignored after "
                f"{DEAD_SECONDS:.0f} seconds."
            )
        yield


def find_garbage(store: Store, view: CorpusView | None = None, named: Sequence[str] = ()) -> Garbage:
    """Find what may be removed. `view` is a recipe as it is now; `named` are published folders (RECIPE/HASH) that are
    no longer read.
    """
    with _readable():
        return _find(store, view, named)


def _find(store: Store, view: CorpusView | None, named: Sequence[str]) -> Garbage:
    records = {f"tasks/{key}.json" for state in (view.states.values() if view else ()) for key in state.tasks}
    records |= {f"stages/{key}.json" for key in view.stages.keys.values()} if isinstance(view, Run) else set()
    parts: set[str] = set()
    needed_by: dict[str, None] = {}
    older: dict[str, set[str]] = {}
    for holder, record in _records(store):
        if holder is not None:
            needed_by[holder] = None
            with _whole(store, f"The record of {holder}"):
                _add_named("versions", record, records, parts)
            continue
        with suppress(KeyError, TypeError, AttributeError):  # a record of another shape keeps nothing
            older[f"{record['recipe']} {record['version']}"] = datasets_of(record)
    manifests: set[str] = set()
    unread = set(records)
    while unread:
        name = unread.pop()
        body = store.read_record(name)
        if body is None:
            continue
        kind = name.partition("/")[0]
        new: set[str] = set()
        with _whole(store, name):
            _add_named(kind, body, new, parts)
            if kind == "tasks" and body["node"].endswith(f"/{MIX}"):
                manifests.update(_manifest_hashes(store, body))
        unread |= new - records
        records |= new
    published = {folder for folder in published_in(store) if folder.split("/")[1] not in manifests}
    going = {_find_named(name, published, store) for name in named}
    for folder in published - going:
        manifest = read_manifest(f"{store.uri.rstrip('/')}/{SHARDS_FOLDER}/{folder}")
        parts.add(manifest.tokenizer["file"])
        for shard in (shard for group in manifest.groups for shard in group.shards):
            parts.update((shard.bin, shard.index, shard.lineage))
    garbage: dict[str, int] = {}
    kept_files = kept_bytes = 0
    wanted = {"parts": parts}
    wanted |= {kind: {_subject(name) for name in records if name.startswith(kind)} for kind in RECORDS}
    for kind, names in wanted.items():
        for path, size in store.list_files(kind):
            if WRITTEN.fullmatch(path) is None:
                continue  # no run wrote it
            if _subject(path) in names:
                kept_files, kept_bytes = kept_files + 1, kept_bytes + size
            else:
                garbage[path] = size
    named_files = [file for folder in sorted(going) for file in store.list_files(f"{SHARDS_FOLDER}/{folder}")]
    for path, size in (*named_files, *_unfinished(store)):
        # Hard links to parts take no extra disk space; the parts are counted above if they are removed.
        garbage[path] = 0 if store.has_other_names(path) else size
    going_datasets = {_subject(path) for path in garbage if path.startswith("datasets/")}
    return Garbage(
        garbage,
        kept_files,
        kept_bytes,
        tuple(sorted(published - going)),
        tuple(needed_by),
        tuple(version for version, datasets in older.items() if not datasets.isdisjoint(going_datasets)),
    )


def collect(store: Store, garbage: Garbage) -> None:
    """Remove the files."""
    for path in _in_order(garbage):
        store.remove(path)
    for path, _ in list(store.list_files("claims")):  # no other process uses the store: their runs were killed
        store.unmark(path)
    for path, _ in list(store.list_files(PROGRESS)):
        store.unmark(path)
    store.sweep_temporaries()


def _in_order(garbage: Garbage) -> list[str]:
    """Records before the parts that they name, so that no record ever names a missing part."""
    order = (SHARDS_FOLDER, "stages", "datasets", "tasks", "parts")
    return sorted(garbage.files, key=lambda path: (order.index(path.split("/")[0]), path))


def _subject(path: str) -> str:
    """What a file belongs to, by its name."""
    return path.rsplit("/", 1)[1].split(".")[0]


@contextmanager
def _readable() -> Iterator[None]:
    """Turn a damaged record into a UserError: it is unknown what it keeps, so nothing may be removed."""
    try:
        yield
    except DamagedRecord as damaged:
        raise UserError(
            f"{damaged.fact}, so it is unknown what it keeps. Nothing was removed. Restore that file from a copy, or "
            "delete it if you do not need what it names; then collect again."
        ) from None


@contextmanager
def _whole(store: Store, record: str) -> Iterator[None]:
    """Read a record: if it lacks something, or has another shape, it is damaged."""
    try:
        yield
    except DamagedRecord:
        raise
    except (KeyError, TypeError, AttributeError, ValueError):
        raise DamagedRecord(f"{record} in {store.uri} {DAMAGED}") from None


def _add_named(kind: str, body: Any, records: set[str], parts: set[str]) -> None:
    """Add the records and parts that a record names."""
    for one in named_in(kind, body):
        if isinstance(one, str):
            records.add(one)
        else:
            parts.add(one.part.hash)


def published_in(store: Store) -> set[str]:
    """Folders of shards (RECIPE/HASH) in the store; links to them (`latest`) do not count."""
    found = (_SHARDS.fullmatch(path) for path, _ in store.list_files(SHARDS_FOLDER))
    return {match[1] for match in found if match and match[2] == "manifest.json"}


def _unfinished(store: Store) -> Iterator[tuple[str, int]]:
    """Files of folders without a manifest, which is written last: they are left from a run that was killed."""
    whole = published_in(store)
    for path, size in store.list_files(SHARDS_FOLDER):
        if (match := _SHARDS.fullmatch(path)) and match[1] not in whole:
            yield path, size


def _find_named(name: str, published: set[str], store: Store) -> str:
    wanted = name.strip("/").removeprefix(f"{SHARDS_FOLDER}/")
    if wanted in published:
        return wanted
    if wanted in published_in(store):
        raise UserError(
            f"{option('published', name)}: a version, or the last run of a recipe, needs that folder. Nothing was "
            "removed. Name another, or drop the version first."
        )
    known = listed(sorted(published), 10) or "none that can be removed"
    raise UserError(
        f"{option('published', name)}: {store.uri} has no such folder. Nothing was removed. Folders: {known}. If an "
        f"interrupted gc removed part of it, gc without {option('published')} removes the rest."
    )


def _manifest_hashes(store: Store, task: dict[str, Any]) -> Iterator[str]:
    """The folder of shards that a mixture names, if its manifest exists."""
    part = part_from_json(task["parts"][0])
    try:
        yield json.loads(bytes(memoryview(store.get_part(part))))["hash"][:12]
    except CorruptPart:
        return


def _records(store: Store) -> Iterator[tuple[str | None, Any]]:
    """Records of finished runs, the newest first, each with a label if it keeps something, else None."""
    damaged: list[str] = []
    for record, is_last in last_of_kind(store, None, damaged):
        yield f"the last run of {record['recipe']}" if is_last else None, record
    if damaged:
        raise DamagedRecord(damaged[0])
    for path, _ in store.list_files("versions"):
        version = store.read_record(path)
        if version is not None:
            yield f"version {path.removeprefix('versions/').removesuffix('.json')}", version
