"""The folder that a trainer is given: a manifest, the tokenizer, and shards under names that people and tools expect.

    shards/<recipe>/<hash of the manifest>/manifest.json
                                           tokenizer.json
                                           crawl/B/shard_00003.bin   .index   .lineage.parquet   and the sidecars
    shards/<recipe>/latest -> the newest

On a local disk every file is a second name of a part: it takes no room, and is read-only and sealed like the part; on a
disk without hard links it is a copy. A store elsewhere cannot do that; its manifest says where in parts/ the files lie.
A folder never changes once its manifest is written, which happens last, so a trainer can hold on to it while the recipe
goes on.
"""

import errno
import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from gristmill.engine.publish.run_record import last_finished
from gristmill.engine.schedule.seen import Seen
from gristmill.errors import UserError
from gristmill.recipe.mix import MIX
from gristmill.recipe.shards import SHARDS
from gristmill.recipe.tokenizer import TOKENIZER
from gristmill.stages.shards.shards import published_names
from gristmill.store.seal import seal, seal_time
from gristmill.store.store import Part, Store

FOLDER = "shards"
LATEST = "latest"
_WITHOUT_LINKS = (errno.EPERM, errno.ENOTSUP, errno.ENOSYS, errno.EMLINK, errno.EXDEV)
"""How a disk says that a file cannot have a second name."""


def publish(run: Seen, note: Callable[[str], None] = lambda _: None) -> str | None:
    """Publish the manifest of a run that has one; where it lies, as a location that a loader opens."""
    manifest = read_model(run, MIX)
    if manifest is None:
        return None
    store, folder = run.store, folder_of(run.name, manifest["hash"])
    catalogue = read_model(run, SHARDS)
    assert catalogue is not None
    tokenizer = _part(run, TOKENIZER)
    assert tokenizer is not None
    files = {}
    for part, names in [(tokenizer, ("tokenizer.json",)), *_named(catalogue)]:
        if store.is_local:
            for name in names:
                give_name(store, part, f"{folder}/{name}")
        files[part.hash] = names[0] if store.is_local else store.location(part)
    whole = {**manifest, "files": {digest: files[digest] for digest in _wanted(manifest)}}
    name, content = f"{folder}/manifest.json", json.dumps(whole, indent=2).encode()
    if store.read_file(name) != content:
        store.write_file(name, content)
    if store.is_local:
        why = _point(store, f"{store.root}/{FOLDER}/{run.name}/{LATEST}", manifest["hash"][:12])
        if why is not None:
            note(why)
    return f"{store.uri.rstrip('/')}/{folder}"


def find_manifest(seen: Seen) -> str:
    """Where the manifest of a corpus lies, as it stands in the store."""
    manifest = read_model(seen, MIX)
    folder = None if manifest is None else folder_of(seen.name, manifest["hash"])
    if folder is None or seen.store.read_file(f"{folder}/manifest.json") is None:
        now = "" if seen.record else ", or not for the recipe as it stands now"
        known = any(node.name == MIX for node in seen.nodes.values())
        raise UserError(
            f"{seen.told} has no shards in {seen.store.uri}{now}. {seen.to_finish}"
            + (last_finished(seen) if known else " (with shards: in the recipe)")
        )
    return f"{seen.store.uri.rstrip('/')}/{folder}"


def folder_of(recipe: str, manifest_hash: str) -> str:
    return f"{FOLDER}/{recipe}/{manifest_hash[:12]}"


def read_model(seen: Seen, step: str) -> dict[str, Any] | None:
    """The JSON that a step of the recipe made; None where it has not run."""
    part = _part(seen, step)
    return None if part is None else dict(json.loads(bytes(memoryview(seen.store.get_part(part)))))


def _part(seen: Seen, step: str) -> Part | None:
    for node in seen.nodes.values():
        if node.name == step and (part := seen.made[node.id].model) is not None:
            return part
    return None


def _named(catalogue: dict[str, Any]) -> Iterator[tuple[Part, tuple[str, ...]]]:
    """Every file of every shard, and the names that it gets."""
    for output in catalogue["outputs"]:
        entry = output["entry"]
        stem = f"{entry['group']}/shard_{entry['shard']:05}"
        for name, part in output["files"].items():
            yield Part(**part), tuple(f"{stem}{ending}" for ending in published_names(name, output["files"]))


def give_name(store: Store, part: Part, name: str) -> None:
    """Give a part of a local store a second name below it: without a copy, but with one where the disk has no links."""
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
    """What a loader must find."""
    yield manifest["tokenizer"]["file"]
    for group in manifest["groups"]:
        for shard in group["shards"]:
            yield from (shard["bin"], shard["index"], shard["lineage"])


def _point(store: Store, link: str, target: str) -> str | None:
    """Let a symbolic link point to another folder, at once; why that cannot be, where it cannot."""
    if os.path.islink(link) and os.readlink(link) == target:
        return None
    temporary = store.temporary(link)
    try:
        os.symlink(target, temporary)
        try:
            os.replace(temporary, link)
        except OSError:
            os.unlink(temporary)
            raise
    except OSError as error:
        return (
            f"{link} cannot be made a link to the newest shards: {error.strerror}. They are complete in "
            f"{os.path.join(os.path.dirname(link), target)}. Move away what stands in its place, and run again"
        )
    return None
