"""The catalog: every finished run is a version, named by the hash of all that it made.

    runs/<recipe>/run-<number>-….json  the run; the newest of a recipe is kept, older ones garbage collection may take
    versions/<name>.json               a copy of it under a name, kept until it is dropped
    versions/<hash>.json               the same under its own hash: it is pinned
    dropped/<recipe>/<hash>.json       nobody wants it any more, though it be the newest, until a run makes it again

Runs of one recipe that made the same are one version. Its parent is the newest whole run before it; a partial run
(`until`) is never that. Changes of the catalog wait until garbage collection is over, and for each other.
"""

import contextlib
import re
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from gristmill.counted import counted
from gristmill.engine.publish.run_record import (
    datasets_of,
    dropped_versions,
    is_partial,
    last_of_kind,
    names_in,
    read_run,
)
from gristmill.errors import UserError
from gristmill.log import Note
from gristmill.recipe.checks.mistakes import listed, nearest
from gristmill.store.leases import Lease, await_collection, claim, hold
from gristmill.store.records import DamagedRecord
from gristmill.store.store import Store, part_from_json, with_verdicts

MOST_NAME = 128
"""Letters of a version's name, which is a file's."""
WRITTEN = re.compile(
    r"(tasks|stages|datasets)/[0-9a-f]{32}\.json|parts/[0-9a-f]{2}/[0-9a-f]{64}\.[^/]+|"
    r"kernels/[a-z_-]+-[0-9a-f]{16}-[0-9a-f]{16}\.kernels"
)
"""The names of what a run writes and a collection may take."""
_CLAIM = "versions"
_TURN_SECONDS = 0.05


@dataclass(frozen=True)
class Version:
    """What finished runs of a recipe made."""

    recipe: str
    hash: str
    record: Mapping[str, Any]
    """Of the newest of these runs; of a whole one where there is one."""
    names: tuple[str, ...]
    is_pinned: bool
    is_dropped: bool
    is_newest: bool
    """The newest whole run of its recipe that was not dropped."""
    is_last_partial: bool
    """The same of runs that ended before the end of the recipe."""
    datasets: int
    missing: int
    """Datasets that are not in the store any more."""

    @property
    def is_kept(self) -> bool:
        """Whether garbage collection leaves it alone."""
        return bool(self.names) or self.is_pinned or self.is_newest or self.is_last_partial

    @property
    def part(self) -> str:
        """How far the run of a partial version went; nothing of a whole one."""
        return f"partial, up to {self.record['until']}" if is_partial(self.record) else ""

    @property
    def why(self) -> str:
        """What keeps it, or that nothing does."""
        holds = {"named": self.names, "pinned": self.is_pinned, "the newest run": self.is_newest}
        holds["the last partial run"] = self.is_last_partial
        kept = " and ".join(reason for reason, is_so in holds.items() if is_so)
        if kept:
            return f"kept: {kept}"
        return "dropped: gc may take it" if self.is_dropped else "older: gc may take it"

    @property
    def state(self) -> str:
        """In plain words."""
        told, gone = self.why, f"{self.missing:,} of {counted(self.datasets, 'dataset')} gone"
        if self.missing and self.is_kept:
            told = f"{self.why}, but {gone}"
        elif self.missing:
            told = "gone" if self.missing == self.datasets else f"partly gone: {gone}"
        return f"{self.part}; {told}" if self.part else told

    def told(self, store: Store) -> str:
        """How other commands name it."""
        return f"{store.uri}@{self.names[0] if self.names else self.hash}"


def refuse_no_store(store: Store) -> None:
    """A folder without anything of a run is no store, and what is in it is none of our business."""
    for folder in ("runs", "versions", "tasks", "datasets", "parts"):
        for path, _ in store.list_files(folder):
            if folder in ("runs", "versions") or WRITTEN.fullmatch(path):
                return
    raise UserError(
        f"{store.uri} holds no run and nothing that one made, so it is no store. Nothing was removed. Give a recipe, "
        "or the folder that its `store:` names."
    )


def list_versions(store: Store, recipe: str | None = None, damaged: list[str] | None = None) -> list[Version]:
    """Of a recipe or of all, the newest first. Records that cannot be read are passed over, and `damaged` hears of
    them. Whether a version is whole is told by the names of its datasets alone.
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
        made = datasets_of(record)
        given = names.get(at, [])
        found.append(
            Version(
                *at,
                record,
                tuple(sorted(name for name in given if name != at[1])),
                at[1] in given,
                at in dropped,
                (at, False) in last,
                (at, True) in last,
                len(made),
                len(made - there),
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
    """The version of a name or a hash; by the name of a recipe, its newest. A wrong name lists the right ones."""
    damaged: list[str] = []
    versions = list_versions(store, recipe, damaged)
    for same in (
        [one for one in versions if name in one.names],
        [one for one in versions if one.recipe == name and one.is_newest],
        [one for one in versions if one.recipe == name and one.is_last_partial],
        [one for one in versions if one.hash == name],
    ):
        if len(same) > 1:
            raise UserError(
                f"{store.uri}: {listed((one.recipe for one in same), 10)} all made {name}, so it is not clear which "
                "is meant. Nothing was done. Give the recipe's file, or a name, in place of the store."
            )
        if same:
            return same[0]
    unread = f" {damaged[0]}: it may be that one." if damaged else ""
    near = nearest(name, [given for one in versions for given in (*one.names, one.hash)])
    hint = f"Did you mean {near}? " if near else ""
    if recipe is None:
        known = f"{names_in(store)} All of them, with their hashes: gristmill versions {store.uri}"
    else:
        told = [given for one in versions for given in (*one.names, one.hash)]
        known = f"Versions of {recipe}: {listed(told, 10) or 'none'}."
    raise UserError(f"{store.uri} has no version {name}.{unread} Nothing was done. {hint}{known}")


def missing_parts(store: Store, version: Version) -> list[str]:
    """Files of a version that are not in the store, by their names alone: datasets, parts and the small ones beside."""
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


def check_name(store: Store, name: str, told: str) -> None:
    """A version's name is a file's name, and a version is never overwritten; `told` is what the command calls it."""
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", name):
        raise UserError(f"{told} {name!r} cannot be a name. Use letters, digits, dots, dashes and underscores.")
    if len(name) > MOST_NAME:
        raise UserError(f"{told} has {counted(len(name), 'letter')}, and a file's name may have {MOST_NAME}.")
    what = "looks like the hash of a version" if re.fullmatch("[0-9a-f]{12}", name) else None
    if what is None and next(store.list_files(f"runs/{name}"), None) is not None:
        what = "is the name of a recipe that was run here"
    if what is not None:
        raise UserError(f"{told} {name} {what}, so STORE@{name} would mean two things. Use another {told}.")
    if store.read_file(f"versions/{name}.json") is not None:
        raise UserError(f"Version {name} exists in {store.uri}, and versions do not change. Use another {told}.")


# Changes


@contextmanager
def changing(store: Store, note: Note) -> Iterator[Lease]:
    """Be known as one who changes the catalog, when no collection is under way."""
    with hold(store, "catalog", "") as lease:
        await_collection(store, lease, note)
        yield lease


@contextmanager
def turn(store: Store, lease: Lease) -> Iterator[None]:
    """One after the other; who is dead is not waited for."""
    while claim(store, _CLAIM, lease) is not None:
        time.sleep(_TURN_SECONDS)
    try:
        yield
    finally:
        store.unmark(f"claims/{_CLAIM}")


def give_name(store: Store, lease: Lease, name: str, record: Mapping[str, Any], told: str) -> None:
    """Keep a finished run under a name; whoever was first has it."""
    with turn(store, lease):
        check_name(store, name, told)
        _undrop(store, record["recipe"], record["version"])
        store.write_json(f"versions/{name}.json", record)


def pin(store: Store, lease: Lease, version: Version) -> None:
    """Keep a version without a name: under its hash."""
    with turn(store, lease):
        _undrop(store, version.recipe, version.hash)
        store.write_json(f"versions/{version.hash}.json", version.record)


def take_name(store: Store, lease: Lease, name: str) -> None:
    """Take one name, or a pin, away."""
    with turn(store, lease):
        _remove(store, f"versions/{name}.json")


def drop(store: Store, lease: Lease, version: Version) -> None:
    """Let a version go, with its names and its pin, though it be the newest."""
    with turn(store, lease):
        told = {"recipe": version.recipe, "version": version.hash, "dropped": datetime.now(UTC).isoformat()}
        store.write_json(f"dropped/{version.recipe}/{version.hash}.json", told)
        for name in (*version.names, *([version.hash] if version.is_pinned else [])):
            _remove(store, f"versions/{name}.json")


def wanted_again(store: Store, lease: Lease, record: Mapping[str, Any]) -> None:
    """A run has made a version: that it was dropped once does not count any more."""
    if (record["recipe"], record["version"]) in dropped_versions(store):
        with turn(store, lease):
            _undrop(store, record["recipe"], record["version"])


def _undrop(store: Store, recipe: str, version: str) -> None:
    _remove(store, f"dropped/{recipe}/{version}.json")


def _remove(store: Store, name: str) -> None:
    if store.read_file(name) is not None:
        with contextlib.suppress(FileNotFoundError):
            store.remove(name)
