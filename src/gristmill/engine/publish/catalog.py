"""The catalog: every finished run is a version, named by the hash of everything that it made.

    runs/<recipe>/run-<number>-….json  the run; the newest of a recipe is kept, garbage collection may remove older ones
    versions/<name>.json               a copy of it under a name, kept until it is dropped
    dropped/<recipe>/<hash>.json       it is no longer needed, even if it is the newest, until a run makes it again

Runs of one recipe with the same output are one version. Its parent is the newest whole run before it, never a partial
run (`until`). Changes of the catalog wait for garbage collection to end, and for each other.
"""

import contextlib
import hashlib
import re
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from gristmill.counted import counted
from gristmill.engine.publish.run_record import (
    datasets_of,
    dropped_versions,
    is_partial,
    last_of_kind,
    read_run,
)
from gristmill.errors import UserError
from gristmill.log import Note
from gristmill.recipe.checks.mistakes import listed, suggest
from gristmill.store.leases import Lease, await_collection, claim, hold
from gristmill.store.records import DamagedRecord
from gristmill.store.store import Store, part_from_json, with_verdicts

MOST_NAME = 128
"""The longest name of a version, which is also the name of a file."""
SHARDS_FOLDER = "shards"
WRITTEN = re.compile(
    r"(tasks|stages|datasets)/[0-9a-f]{32}\.json|parts/[0-9a-f]{2}/[0-9a-f]{64}\.[^/]+|"
    r"kernels/[a-z_-]+-[0-9a-f]{16}-[0-9a-f]{16}\.kernels"
)
"""The names of files that a run writes and a collection may remove."""
_CLAIM = "versions"
_TURN_SECONDS = 0.05


def hash_of_recipe(text: str) -> str:
    """The hash of a recipe's text."""
    return hashlib.sha256(text.encode()).hexdigest()


def version_of_step(identity: Mapping[str, Any]) -> dict[str, Any]:
    """The stage of a step, its VERSION, and the versions of the libraries that it uses."""
    return {name: identity[name] for name in ("stage", "version", "libraries")}


@dataclass(frozen=True)
class Version:
    """The output of finished runs of a recipe."""

    recipe: str
    hash: str
    record: Mapping[str, Any]
    """The record of the newest of these runs; of a whole run if there is one."""
    names: tuple[str, ...]
    is_dropped: bool
    is_newest: bool
    """The newest whole run of its recipe that was not dropped."""
    is_last_partial: bool
    """The same for runs that ended before the end of the recipe."""
    datasets: int
    missing: int
    """Datasets that are no longer in the store."""

    @property
    def is_kept(self) -> bool:
        """Whether garbage collection keeps it."""
        return bool(self.names) or self.is_newest or self.is_last_partial

    @property
    def part(self) -> str:
        """How far the run of a partial version went; empty for a whole one."""
        return f"partial, up to {self.record['until']}" if is_partial(self.record) else ""

    @property
    def why(self) -> str:
        """The reason why it is kept, or that nothing keeps it."""
        holds = {"named": self.names, "the newest run": self.is_newest, "the last partial run": self.is_last_partial}
        kept = " and ".join(reason for reason, is_so in holds.items() if is_so)
        if kept:
            return f"kept: {kept}"
        return "dropped: gc may remove it" if self.is_dropped else "older: gc may remove it"

    @property
    def state(self) -> str:
        """The state in plain words."""
        text, gone = self.why, f"{self.missing:,} of {counted(self.datasets, 'dataset')} gone"
        if self.missing and self.is_kept:
            text = f"{self.why}, but {gone}"
        elif self.missing:
            text = "gone" if self.missing == self.datasets else f"partly gone: {gone}"
        return f"{self.part}; {text}" if self.part else text

    def label(self, store: Store) -> str:
        """How other commands name it: STORE@NAME."""
        return f"{store.uri}@{self.names[0] if self.names else self.hash}"


def refuse_no_store(store: Store) -> None:
    """Refuse a folder without any output of a run: it is not a store, and must not be touched."""
    for folder in ("runs", "versions", "tasks", "datasets", "parts"):
        for path, _ in store.list_files(folder):
            if folder in ("runs", "versions") or WRITTEN.fullmatch(path):
                return
    raise UserError(
        f"{store.uri} has no run and no output of one, so it is not a store. Nothing was removed. Give a recipe, "
        "or the folder that its `store:` names."
    )


def list_versions(store: Store, recipe: str | None = None, damaged: list[str] | None = None) -> list[Version]:
    """The versions of one recipe or of all, the newest first. Records that cannot be read are skipped and added to
    `damaged`. The names of its datasets alone decide whether a version is whole.
    """
    records: dict[tuple[str, str], dict[str, Any]] = {}
    names: dict[tuple[str, str], list[str]] = {}
    last: set[tuple[tuple[str, str], bool]] = set()
    for record, is_last in last_of_kind(store, recipe, damaged):
        at = (record["recipe"], record["version"])
        last.update([(at, is_partial(record))] if is_last else [])
        if at not in records or is_partial(records[at]) > is_partial(record):
            records[at] = record
    for name, record in _named(store, damaged):
        at = (record["recipe"], record["version"])
        if recipe in (None, record["recipe"]):
            names.setdefault(at, []).append(name)
            records.setdefault(at, record)
    dropped = dropped_versions(store)
    there = {path.rsplit("/", 1)[1].removesuffix(".json") for path, _ in store.list_files("datasets")}
    found = []
    for at, record in records.items():
        datasets = datasets_of(record)
        found.append(
            Version(
                *at,
                record,
                tuple(sorted(names.get(at, ()))),
                at in dropped,
                (at, False) in last,
                (at, True) in last,
                len(datasets),
                len(datasets - there),
            )
        )
    return found


def _named(store: Store, damaged: list[str] | None) -> Iterator[tuple[str, dict[str, Any]]]:
    for path, _ in store.list_files("versions"):
        try:
            if (record := read_run(store, path)) is not None:
                yield path.removeprefix("versions/").removesuffix(".json"), record
        except DamagedRecord as error:
            if damaged is not None:
                damaged.append(error.fact)


def find_version(store: Store, name: str, recipe: str | None = None) -> Version:
    """The version with a name, a hash or a folder of shards, of several the newest; for the name of a recipe, its
    newest. An unknown name lists the known ones.
    """
    damaged: list[str] = []
    versions = list_versions(store, recipe, damaged)
    for same in (
        [one for one in versions if name in one.names],
        [one for one in versions if one.recipe == name and one.is_newest],
        [one for one in versions if one.recipe == name and one.is_last_partial],
        [one for one in versions if name in (one.hash, one.record["shards"])],
    ):
        if len({one.recipe for one in same}) > 1:
            raise UserError(
                f"{store.uri}: {listed((one.recipe for one in same), 10)} all made {name}, so it is ambiguous. "
                "Nothing was done. Give the recipe's file, or a name, instead of the store."
            )
        if same:
            named = dict(_named(store, damaged)).get(name)  # the run that got the name; others may have made it again
            return same[0] if named is None else replace(same[0], record=named)
    unread = f" {damaged[0]}: it may be that version." if damaged else ""
    given = dict.fromkeys(known for one in versions for known in (*one.names, one.hash, one.recipe))
    known = suggest(name, given, "Versions")
    raise UserError(f"{store.uri} has no version {name}.{unread} Nothing was done. {known}")


def missing_parts(store: Store, version: Version) -> list[str]:
    """Files of a version that are not in the store, judged by their names: datasets, parts and their verdict files."""
    there = {path for path, _ in store.list_files("parts")}
    gone = []
    for name in sorted(datasets_of(version.record)):
        path = f"datasets/{name}.json"
        manifest = store.read_json(path)
        if manifest is None:
            gone.append(path)
            continue
        parts = with_verdicts(part_from_json(entry) for entry in manifest["parts"])
        gone += [part.name for part in parts if part.name not in there]
    return gone


def check_name(store: Store, name: str, label: str) -> None:
    """Check the name of a new version: it names a file, and versions are never overwritten. `label` is the option."""
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", name):
        raise UserError(f"{label} {name!r} cannot be a name. Use letters, digits, dots, dashes and underscores.")
    if len(name) > MOST_NAME:
        raise UserError(f"{label} has {counted(len(name), 'letter')}, but a file's name may have {MOST_NAME}.")
    what = "looks like the hash of a version" if re.fullmatch("[0-9a-f]{12}", name) else None
    if what is None and next(store.list_files(f"runs/{name}"), None) is not None:
        what = "is the name of a recipe that was run here"
    if what is not None:
        raise UserError(f"{label} {name} {what}, so STORE@{name} would be ambiguous. Use another {label}.")
    if store.read_file(f"versions/{name}.json") is not None:
        raise UserError(f"Version {name} exists in {store.uri}, and versions do not change. Use another {label}.")


# Changes


@contextmanager
def changing(store: Store, note: Note) -> Iterator[Lease]:
    """Hold a lease for changing the catalog, once no collection is running."""
    with hold(store, "catalog", "") as lease:
        await_collection(store, lease, note)
        yield lease


@contextmanager
def turn(store: Store, lease: Lease) -> Iterator[None]:
    """Take turns with other processes; dead ones are not waited for."""
    while claim(store, _CLAIM, lease) is not None:
        time.sleep(_TURN_SECONDS)
    try:
        yield
    finally:
        store.unmark(f"claims/{_CLAIM}")


def give_name(store: Store, lease: Lease, name: str, record: Mapping[str, Any], label: str) -> None:
    """Store a finished run under a name; the first one to use it has it."""
    with turn(store, lease):
        check_name(store, name, label)
        _undrop(store, record["recipe"], record["version"])
        store.write_json(f"versions/{name}.json", record)


def take_name(store: Store, lease: Lease, name: str) -> None:
    """Remove one name."""
    with turn(store, lease):
        _remove(store, f"versions/{name}.json")


def drop(store: Store, lease: Lease, version: Version) -> None:
    """Drop a version, with its names, even if it is the newest."""
    with turn(store, lease):
        mark = {"recipe": version.recipe, "version": version.hash, "dropped": datetime.now(UTC).isoformat()}
        store.write_json(f"dropped/{version.recipe}/{version.hash}.json", mark)
        for name in version.names:
            _remove(store, f"versions/{name}.json")


def wanted_again(store: Store, lease: Lease, record: Mapping[str, Any]) -> None:
    """Remove the mark of a dropped version that a run has made again."""
    if (record["recipe"], record["version"]) in dropped_versions(store):
        with turn(store, lease):
            _undrop(store, record["recipe"], record["version"])


def _undrop(store: Store, recipe: str, version: str) -> None:
    _remove(store, f"dropped/{recipe}/{version}.json")


def _remove(store: Store, name: str) -> None:
    if store.read_file(name) is not None:
        with contextlib.suppress(FileNotFoundError):
            store.remove(name)
