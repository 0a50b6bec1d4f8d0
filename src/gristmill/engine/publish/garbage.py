"""Garbage collection: what no recipe and no version needs any more.

Needed is what these name: every version that has a name or a pin; of every recipe that the store has seen the newest
whole run and the last partial one (`until`), but for versions that were dropped (`catalog.py`); the given recipe as
it is now; and every folder of shards that was published. No clock decides which run is the newest (`run_record.py`).
A trainer may be reading such a folder on another machine, so it goes only when it is named. Everything else among
parts, tasks and datasets may go, and so may kernels that were compiled from other sources than these. Where a record
that could name something cannot be read, nothing goes at all.
"""

import json
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from typing import Any

from gristmill.engine.executors.shared_kernels import FOLDER as KERNELS
from gristmill.engine.executors.shared_kernels import current as current_kernels
from gristmill.engine.publish.catalog import WRITTEN
from gristmill.engine.publish.folder import FOLDER
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
from gristmill.store.leases import hold, holders
from gristmill.store.records import DAMAGED, DamagedRecord
from gristmill.store.store import CorruptPart, Store

RECORDS = ("tasks", "stages", "datasets")
_SHARDS = re.compile(rf"{FOLDER}/([^/]+/[0-9a-f]{{12}})/(manifest\.json|tokenizer\.json|.+/shard_[0-9]{{5}}\.[^/]+)")
"""The files of a folder of shards: which folder, and their names in it."""


@dataclass(frozen=True)
class Garbage:
    """Files that nothing needs."""

    files: dict[str, int]
    """Path below the store -> bytes."""
    kept_files: int
    kept_bytes: int
    published: tuple[str, ...]
    """Folders of shards that are kept only because they were published."""
    needed_by: tuple[str, ...]
    """Versions and recipes."""
    foreign: tuple[str, ...]
    """Files that no run wrote, by their names: they stay."""
    lets_go: tuple[str, ...]
    """Versions that lose something by it, as RECIPE HASH, the newest first."""

    @property
    def file_bytes(self) -> int:
        return sum(self.files.values())


@contextmanager
def alone(store: Store, find: Callable[[], Garbage] | None = None) -> Iterator[None]:
    """Be the only one that uses the store; a run that starts meanwhile waits.

    A lease is a file. Where the disk is too full for it, files that `find` returns go first, one by one, if no lease of
    another process is there; no run can start meanwhile, as it would need a lease too.
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
                "Collect when that is over. What a machine that is gone for good left in locks/ is ignored after "
                "two minutes."
            )
        yield


def find_garbage(
    store: Store, view: CorpusView | None = None, named: Sequence[str] = (), without: tuple[str, str] | None = None
) -> Garbage:
    """What may go. `seen` is a recipe as it is now; `named` are published folders (RECIPE/HASH) that nobody reads;
    `without`: as though that version (recipe, hash) had been dropped.
    """
    with _readable():
        return _find(store, view, named, without)


def _find(store: Store, view: CorpusView | None, named: Sequence[str], without: tuple[str, str] | None) -> Garbage:
    records = {f"tasks/{key}.json" for made in (view.states.values() if view else ()) for key in made.tasks}
    records |= {f"stages/{key}.json" for key in view.stages.keys.values()} if isinstance(view, Run) else set()
    parts: set[str] = set()
    needed_by: dict[str, None] = {}
    older: dict[str, set[str]] = {}
    for holder, record in _records(store, without):
        if holder is not None:
            needed_by[holder] = None
            with _whole(store, f"The record of {holder}"):
                _add_named("versions", record, records, parts)
            continue
        with suppress(KeyError, TypeError, AttributeError):  # of another shape: it is let go, whatever it was
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
        manifest = read_manifest(f"{store.uri.rstrip('/')}/{FOLDER}/{folder}")
        parts.add(manifest.tokenizer["file"])
        for shard in (shard for group in manifest.groups for shard in group.shards):
            parts.update((shard.bin, shard.index, shard.lineage))
    garbage: dict[str, int] = {}
    kept_files = kept_bytes = 0
    foreign: list[str] = []
    wanted = {"parts": parts, KERNELS: set(current_kernels())}
    wanted |= {kind: {_subject(name) for name in records if name.startswith(kind)} for kind in RECORDS}
    for kind, names in wanted.items():
        for path, size in store.list_files(kind):
            if WRITTEN.fullmatch(path) is None:
                foreign.append(path)
            elif _subject(path) in names:
                kept_files, kept_bytes = kept_files + 1, kept_bytes + size
            else:
                garbage[path] = size
    named_files = [file for folder in sorted(going) for file in store.list_files(f"{FOLDER}/{folder}")]
    for path, size in (*named_files, *_unfinished(store)):
        # Second names of parts take no room of their own; the parts are counted above if they go.
        garbage[path] = 0 if store.has_other_names(path) else size
    going_datasets = {_subject(path) for path in garbage if path.startswith("datasets/")}
    return Garbage(
        garbage,
        kept_files,
        kept_bytes,
        tuple(sorted(published - going)),
        tuple(needed_by),
        tuple(sorted(foreign)),
        tuple(version for version, made in older.items() if not made.isdisjoint(going_datasets)),
    )


def collect(store: Store, garbage: Garbage) -> None:
    """Take the files away."""
    for path in _in_order(garbage):
        store.remove(path)
    for path, _ in list(store.list_files("claims")):  # nobody else uses the store: their runs were killed
        store.unmark(path)
    store.sweep_temporaries()


def _in_order(garbage: Garbage) -> list[str]:
    """Records before the parts that they name, so that nothing ever names a missing part."""
    order = (FOLDER, "stages", "datasets", "tasks", "parts", KERNELS)
    return sorted(garbage.files, key=lambda path: (order.index(path.split("/")[0]), path))


def _subject(path: str) -> str:
    """What the name of a file says that it is of; of compiled kernels, those for any machine."""
    stem = path.rsplit("/", 1)[1].split(".")[0]
    return stem.rpartition("-")[0] if path.startswith(f"{KERNELS}/") else stem


@contextmanager
def _readable() -> Iterator[None]:
    """What a record would say that cannot be read, nobody knows; so nothing may be taken away."""
    try:
        yield
    except DamagedRecord as damaged:
        raise UserError(
            f"{damaged.fact}, so what it keeps alive is not known. Nothing was removed. Restore that file from a copy; "
            "if nothing of it is needed any more, delete it; then collect again."
        ) from None


@contextmanager
def _whole(store: Store, record: str) -> Iterator[None]:
    """Reading a record: one that lacks something, or has another shape, is damaged."""
    try:
        yield
    except DamagedRecord:
        raise
    except (KeyError, TypeError, AttributeError, ValueError):
        raise DamagedRecord(f"{record} in {store.uri} {DAMAGED}") from None


def _add_named(kind: str, body: Any, records: set[str], parts: set[str]) -> None:
    """Add what a record names."""
    for one in named_in(kind, body):
        if isinstance(one, str):
            records.add(one)
        else:
            parts.add(one.part.hash)


def published_in(store: Store) -> set[str]:
    """Folders of shards (RECIPE/HASH) in the store; links to them (`latest`) do not count."""
    found = (_SHARDS.fullmatch(path) for path, _ in store.list_files(FOLDER))
    return {match[1] for match in found if match and match[2] == "manifest.json"}


def _unfinished(store: Store) -> Iterator[tuple[str, int]]:
    """Files of folders without a manifest, which is written last: a run that was killed left them."""
    whole = published_in(store)
    for path, size in store.list_files(FOLDER):
        if (match := _SHARDS.fullmatch(path)) and match[1] not in whole:
            yield path, size


def _find_named(name: str, published: set[str], store: Store) -> str:
    wanted = name.strip("/").removeprefix(f"{FOLDER}/")
    if wanted in published:
        return wanted
    if wanted in published_in(store):
        raise UserError(
            f"{option('published', name)}: a version, or the last run of a recipe, needs that folder. Nothing was "
            "removed. Name another, or drop the version first."
        )
    known = listed(sorted(published), 10) or "none that could go"
    raise UserError(
        f"{option('published', name)}: {store.uri} has no such folder. Nothing was removed. Folders: {known}. If a gc "
        f"that was stopped had removed it, gc without {option('published')} removes what is left of it."
    )


def _manifest_hashes(store: Store, task: dict[str, Any]) -> Iterator[str]:
    """The folder of shards that a mixture names, where its manifest is there."""
    part = part_from_json(task["parts"][0])
    try:
        yield json.loads(bytes(memoryview(store.get_part(part))))["hash"][:12]
    except CorruptPart:
        return


def _records(store: Store, without: tuple[str, str] | None) -> Iterator[tuple[str | None, Any]]:
    """Of finished runs, with what it is where it keeps something alive, else None; the newest first."""
    damaged: list[str] = []
    for record, is_last in last_of_kind(store, None, damaged, without):
        yield f"the last run of {record['recipe']}" if is_last else None, record
    if damaged:
        raise DamagedRecord(damaged[0])
    for path, _ in store.list_files("versions"):
        version = store.read_record(path)
        if version is not None and (version.get("recipe"), version.get("version")) != without:
            yield f"version {path.removeprefix('versions/').removesuffix('.json')}", version
