"""Files and folders that configs name (block lists, models, indexes): a run works on a copy of what was hashed.

Before a run does any work, each is copied into the store as parts. A task's key contains the hashed content, and its
worker gives the stage the path of the checked copy. So if a user edits a list during a run, only the next run uses the
new list, and no task of this one uses it under the key of the old list.
"""

import atexit
import hashlib
import os
import re
import shutil
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from gristmill.checked import InputChanged
from gristmill.engine.files.content import ContentHashes, stamp_of, stamp_of_path
from gristmill.engine.files.tree import folder_files
from gristmill.errors import CannotBeMet, UserError, cause_of
from gristmill.places import FileLocation, exact, local_path, shown, system_of
from gristmill.recipe.checks.files import placed_in
from gristmill.stages.contract import StageConfig
from gristmill.store.store import CorruptPart, Part, Store

Stamp = tuple[int, ...]


@dataclass(frozen=True)
class ConfigFile:
    """A file or folder that a config names, and its copy."""

    location: str
    content: str
    """For keys: the sha256 of a file, or `folder:` and the sha256 of its files' names and hashes."""
    files: tuple[tuple[str, FileLocation, Part], ...]
    """Name below the folder (empty for a single file), its location, and its copy in the store."""


def find_config_file(location: str, contents: ContentHashes) -> ConfigFile:
    """Hash a file or folder that a config names."""
    try:
        system, root = system_of(location)
        is_local = local_path(location) is not None
        if system.isdir(root):
            names = sorted(folder_files(root) if is_local else _names_below(system, root))
            places = {name: FileLocation(f"{root.rstrip('/')}/{name}", None if is_local else system) for name in names}
        else:
            places = {"": FileLocation(root, None if is_local else system)}
        files = tuple((name, place, _part_of(place, name, contents)) for name, place in places.items())
    except OSError as error:
        raise UserError(
            f"{shown(location)} cannot be read: {cause_of(error)}. Nothing was run. Check the path."
        ) from None
    if "" in places:
        return ConfigFile(location, files[0][2].hash, files)
    listing = "".join(f"/{exact(name)}\0{part.hash}\n" for name, _, part in files)
    return ConfigFile(location, f"folder:{hashlib.sha256(listing.encode()).hexdigest()}", files)


def _names_below(system: object, root: str) -> Iterable[str]:
    found: list[str] = system.find(root)  # type: ignore[attr-defined]
    return [path[len(root.rstrip("/")) + 1 :] for path in found]


def _part_of(place: FileLocation, name: str, contents: ContentHashes) -> Part:
    stamp = stamp_of_path(os.stat(place.path)) if place.system is None else stamp_of(place.system.info(place.path))
    content = contents.of(_uri(place), place, stamp)
    return Part(content.sha256, _suffix(name or place.path), content.size)


def _uri(place: FileLocation) -> str:
    return place.path if place.system is None else str(place.system.unstrip_protocol(place.path))


def _suffix(name: str) -> str:
    """The suffix by which readers choose a format (`gz`, `ftz`, `json`)."""
    found = re.fullmatch(r".*\.([a-z0-9]{1,16})", name.lower(), re.DOTALL)
    return found[1] if found else "file"


def store_copies(files: Iterable[ConfigFile], store: Store, contents: ContentHashes) -> None:
    """Copy files that the store does not have yet. Raises InputChanged if a file changed since it was hashed."""
    for file in files:
        for _, place, part in file.files:
            try:
                if not store.has_part(part):
                    _copy(place, part, store)
            except InputChanged as changed:
                contents.forget(changed.uri)
                contents.save()
                raise


def _copy(place: FileLocation, part: Part, store: Store) -> None:
    with store.scratch() as folder:
        with place.open() as file, open(folder / "copy", "wb") as copy:
            shutil.copyfileobj(file, copy, 1 << 20)
        copied = store.put_file(folder / "copy", part.suffix)
    if copied.hash != part.hash:
        raise InputChanged(_uri(place))


def with_copies(config: StageConfig, copies: Mapping[str, str]) -> StageConfig:
    """The config with the paths of the copies instead of those that the user wrote. A file that is in no task key
    (`ReportMark`) has no copy: the stage does not read it in a task.
    """
    return placed_in(config, lambda path: copies.get(path, path))


def in_users_words(error: UserError, copies: Mapping[str, str]) -> UserError:
    """Replace the path of a copy, which the stage knows, by the path that the user wrote."""
    if type(error) not in (UserError, CannotBeMet):
        return error
    message = str(error)
    for location, copy in copies.items():
        message = message.replace(copy, shown(location))
    return type(error)(message)


# In this process: copies that were checked, folders that were made, and the stack that removes the folders.
_checked: dict[tuple[str, Part], tuple[Path, Stamp]] = {}
_folders: dict[tuple[str, str], tuple[Path, list[Stamp]]] = {}
_kept = ExitStack()
atexit.register(_kept.close)


def local_copies(files: Mapping[str, ConfigFile], store: Store) -> dict[str, str]:
    """Location -> the path of the checked copy, for a worker."""
    return {location: str(_local_copy(file, store)) for location, file in files.items()}


def _local_copy(file: ConfigFile, store: Store) -> Path:
    paths = {name: _checked_path(place, part, store) for name, place, part in file.files}
    if "" in paths:
        return paths[""]
    stamps = [_stamp(path)[:3] for path in paths.values()]  # a hard link changes the last field
    folder, made_of = _folders.get((store.uri, file.content), (None, None))
    if folder is None or made_of != stamps:
        # In a scratch folder that stays, because stages cache what they built from a list by its path. A sweep of the
        # store removes the scratch folders of dead processes.
        folder = _kept.enter_context(store.scratch())
        for name, path in paths.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            _link(path, folder / name)
        _folders[store.uri, file.content] = folder, stamps
    return folder


def _link(path: Path, name: Path) -> None:
    try:
        os.link(path, name)
    except OSError:  # another disk, or one without hard links
        shutil.copyfile(path, name)


def _checked_path(place: FileLocation, part: Part, store: Store) -> Path:
    """A part as a file; hashed on first use in this process, and again when its stamp changed."""
    known = _checked.get((store.uri, part))
    if known is not None and known[1] == _stamp(known[0]):
        return known[0]
    try:
        path = store.local_path(part)
    except CorruptPart as corrupt:
        try:
            _copy(place, part, store)
        except (InputChanged, OSError):
            raise UserError(
                f"The store's copy of {shown(_uri(place))} {corrupt.fact}, and the file itself changed since the run "
                "began. Finished work is kept. Run again."
            ) from None
        path = store.local_path(part)
    _checked[store.uri, part] = path, _stamp(path)
    return path


def _stamp(path: Path) -> Stamp:
    try:
        found = os.stat(path)
    except OSError:
        return ()
    return found.st_size, found.st_mtime_ns, found.st_ino, found.st_ctime_ns
