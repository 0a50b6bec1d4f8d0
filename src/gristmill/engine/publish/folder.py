"""The folder for a trainer: a manifest, the tokenizer, and shards under names that people and tools expect.

    shards/<recipe>/<hash of the manifest>/manifest.json
                                           tokenizer.json
                                           crawl/B/shard_00003.bin   .index   .lineage.parquet   and the sidecars
    shards/<recipe>/latest -> the newest

On a local disk every file is a hard link to a part: it takes no disk space, and is read-only and sealed like the part;
on a disk without hard links it is a copy. Stores elsewhere have no links; their manifest says which parts the files
are. A folder never changes once its manifest is written, which happens last, so a trainer can use it while the recipe
changes. Its manifest names the version that made it first; later versions may have the same shards.
"""

import errno
import json
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from types import MappingProxyType
from typing import Any

from gristmill.engine.publish.catalog import SHARDS_FOLDER, hash_of_recipe, version_of_step
from gristmill.engine.publish.run_record import is_partial, last_finished, newest_run, see_record
from gristmill.engine.schedule.corpus_view import CorpusView
from gristmill.errors import UserError
from gristmill.recipe.sections.mix import MIX
from gristmill.recipe.sections.shards import SHARDS
from gristmill.recipe.sections.tokenizer import NAMES, TOKENIZER
from gristmill.shardformat.manifest import MADE_BY, are_alike, seal_of
from gristmill.stages.shards.shards import published_names
from gristmill.store.seal import seal, seal_time
from gristmill.store.store import Part, Store

LATEST = "latest"
_WITHOUT_LINKS = (errno.EPERM, errno.ENOTSUP, errno.ENOSYS, errno.EMLINK, errno.EXDEV)
"""The errors of a disk that cannot make a hard link."""


def publish(run: CorpusView, version: str | None, recipe_text: str) -> str | None:
    """Publish the manifest of a run that has one; returns its location, which a loader opens."""
    made_by = {
        "version": version,
        "recipe_hash": hash_of_recipe(recipe_text),
        "suites": sorted({label for node_id in run.nodes for label in run.states[node_id].metrics.get("suites", ())}),
        "steps": {node_id: version_of_step(node.identity) for node_id, node in run.nodes.items()},
        "recipe_text": recipe_text,
    }
    planned = contents(run, made_by)
    if planned is None:
        return None
    store, (folder, content, files) = run.store, planned
    for name, part in files.items():
        give_name(store, part, name)
    written = store.read_file(f"{folder}/manifest.json")
    if written is None or not are_alike(written, content):
        store.write_file(f"{folder}/manifest.json", content)
    return f"{store.uri.rstrip('/')}/{folder}"


def contents(
    run: CorpusView, made_by: Mapping[str, Any] = MappingProxyType({})
) -> tuple[str, bytes, dict[str, Part]] | None:
    """The folder of a run's shards, its manifest.json, and the part for every other file in it."""
    manifest, tokenizer = read_model(run, MIX), run.model(NAMES) or run.model(TOKENIZER)
    catalogue = None if manifest is None else read_model(run, SHARDS)  # large, and useless without a manifest
    if manifest is None or catalogue is None or tokenizer is None:
        return None
    store, folder = run.store, folder_of(run.name, manifest["hash"])
    files, where = {}, {}
    for part, names in [(tokenizer, ("tokenizer.json",)), *_named(catalogue)]:
        where[part.hash] = names[0] if store.is_local else store.location(part)
        files.update({f"{folder}/{name}": part for name in names} if store.is_local else {})
    whole = {MADE_BY: {**made_by}, **manifest, "files": {digest: where[digest] for digest in _wanted(manifest)}}
    whole[MADE_BY]["seal"] = seal_of(whole)
    return folder, json.dumps(whole, indent=2).encode(), files


def point_latest(run: CorpusView) -> str | None:
    """Atomically point the link `latest` to the shards of the newest run; returns why that is not possible."""
    manifest = read_model(run, MIX) if run.store.is_local else None
    target = "" if manifest is None else manifest["hash"][:12]
    link = f"{run.store.root}/{SHARDS_FOLDER}/{run.name}/{LATEST}"
    if manifest is None or (os.path.islink(link) and os.readlink(link) == target):
        return None
    temporary = run.store.temporary(link)
    try:
        os.symlink(target, temporary)
        os.replace(temporary, link)
    except OSError as error:
        with suppress(OSError):
            os.unlink(temporary)
        return (
            f"{link} cannot be made a link to the newest shards: {error.strerror}. They are complete in "
            f"{os.path.join(os.path.dirname(link), target)} and recorded. Trainers that open {LATEST} still read the "
            "shards before. Move what has that name away, and run again."
        )
    return None


def point_latest_back(store: Store, recipe: str, note: Callable[[str], None]) -> None:
    """After a version was dropped, point `latest` to the newest one left; if none is left, remove the link."""
    if not store.is_local:
        return
    newest = newest_run(store, recipe)
    try:
        if newest is not None and not is_partial(newest):
            if (fault := point_latest(see_record(store, f"{store.uri}@{recipe}", newest))) is not None:
                note(fault)
            return
    except UserError:
        pass  # gc removed the output of that run
    with suppress(FileNotFoundError):
        os.unlink(f"{store.root}/{SHARDS_FOLDER}/{recipe}/{LATEST}")


def find_manifest(view: CorpusView) -> str:
    """The location of the manifest of a corpus in the store."""
    manifest = read_model(view, MIX)
    folder = None if manifest is None else folder_of(view.name, manifest["hash"])
    if folder is None or view.store.read_file(f"{folder}/manifest.json") is None:
        now = "" if view.record else ", or not for the recipe as it is now"
        known = view.named(MIX)
        raise UserError(
            f"{view.label} has no shards in {view.store.uri}{now}. {view.to_finish}"
            + (last_finished(view) if known else " (with shards: in the recipe)")
        )
    return f"{view.store.uri.rstrip('/')}/{folder}"


def folder_of(recipe: str, manifest_hash: str) -> str:
    return f"{SHARDS_FOLDER}/{recipe}/{manifest_hash[:12]}"


def read_model(view: CorpusView, step: str) -> dict[str, Any] | None:
    """The JSON that a step of the recipe made; None if it has not run."""
    part = view.model(step)
    return None if part is None else dict(json.loads(bytes(memoryview(view.store.get_part(part)))))


def _named(catalogue: dict[str, Any]) -> Iterator[tuple[Part, tuple[str, ...]]]:
    """Every file of every shard, and the names that it gets in the folder."""
    for output in catalogue["outputs"]:
        entry = output["entry"]
        stem = f"{entry['group']}/shard_{entry['shard']:05}"
        for name, part in output["files"].items():
            yield Part(**part), tuple(f"{stem}{ending}" for ending in published_names(name, output["files"]))


def give_name(store: Store, part: Part, name: str) -> None:
    """Give a part of a local store a second name: a hard link, or a copy if the disk has no links."""
    path, target = store.part_path(part), f"{store.root}/{name}"
    try:
        if os.path.exists(target) and os.path.samefile(target, path):
            return
        os.makedirs(os.path.dirname(target), exist_ok=True)
        temporary = store.temporary(target)
        try:
            os.link(path, temporary)
        except OSError as error:
            if error.errno not in _WITHOUT_LINKS:
                raise
            if _is_copy(target, part):
                return
            Path(temporary).write_bytes(store.get_part(part))
            seal(temporary, part.hash)
        os.replace(temporary, target)
    except OSError as error:
        raise store.unwritable_by(error, target) from None


def _is_copy(path: str, part: Part) -> bool:
    """Whether a file is an untouched copy of a part."""
    if not os.path.isfile(path):
        return False
    found = os.stat(path)
    return (found.st_size, found.st_mtime_ns) == (part.file_bytes, seal_time(part.hash))


def _wanted(manifest: dict[str, Any]) -> Iterator[str]:
    """The files that a loader needs."""
    yield manifest["tokenizer"]["file"]
    for group in manifest["groups"]:
        for shard in group["shards"]:
            yield from (shard["bin"], shard["index"], shard["lineage"])
