"""Where files lie: local paths, locations like s3://bucket/key (`objects/`), and what else fsspec opens."""

import os
import re
from typing import Any

from gristmill import objects
from gristmill.errors import UserError
from gristmill.shardformat.open_file import open_plain

_NAME = r"[A-Za-z][A-Za-z0-9+.\-]*"
_URL = re.compile(rf"(?:{_NAME}::)*{_NAME}://")
_ON_DISK = re.compile(r"(?:file|local)://")
_RUN = re.compile(r".+@[A-Za-z0-9][A-Za-z0-9._-]*", re.DOTALL)
"""STORE@NAME, by which the command line names a run."""


def is_remote(location: str) -> bool:
    """Whether a location begins with a scheme; what has `://` later in its name is a path. As in gristmill.places."""
    return _URL.match(location) is not None and _ON_DISK.match(location) is None


def local_path(location: str) -> str:
    return os.path.abspath(_ON_DISK.sub("", location, count=1) if _ON_DISK.match(location) else location)


def manifest_at(location: str | os.PathLike[str], name: str = "manifest.json") -> str:
    """The manifest's own location, where it or its folder was named; or that of another file of this kind."""
    named = os.fspath(location)
    if is_remote(named):
        return named if named.endswith(".json") else named.rstrip("/") + f"/{name}"
    # Through links once and for all: `latest` may point to another folder while a trainer runs.
    path = os.path.realpath(local_path(named))
    return os.path.join(path, name) if os.path.isdir(path) else path


def beside(manifest: str, named: str) -> str:
    """Where a file lies that a manifest names: relative to the manifest, absolute, or a location of its own."""
    if is_remote(named):
        return named
    if _ON_DISK.match(named) or os.path.isabs(named):
        return local_path(named)
    folder = manifest.rsplit("/", 1)[0] if is_remote(manifest) else os.path.dirname(manifest)
    return f"{folder}/{named}"


def read_bytes(location: str, name: str = "manifest.json") -> bytes:
    """A small file, from anywhere; `name` is what such a file is called."""
    try:
        if is_remote(location):
            system, path = file_system(location)
            return bytes(system.cat_file(path))
        with open(open_plain(local_path(location))[0], "rb") as file:
            return file.read()
    except FileNotFoundError:
        raise UserError(
            f"{location}: there is no such file, so there is nothing to load. "
            f"Name a {name}, or the folder in which it lies.{_of_a_run(location)}"
        ) from None
    except OSError as error:
        raise UserError(f"{location} cannot be read ({error}), so nothing can be loaded. Check the location.") from None


def _of_a_run(location: str) -> str:
    """Where to find the folder, for who names a run as the command line takes it."""
    named = location.removesuffix("/manifest.json")
    if _RUN.fullmatch(named) is None:
        return ""
    return f" STORE@NAME is for the command line; `gristmill shards head {named}` shows the folder of that run."


def file_system(location: str) -> tuple[Any, str]:
    """fsspec's file system of a location, and the path in it."""
    try:
        import fsspec
    except ImportError:
        raise UserError(
            f"{location} is not a local path, and fsspec, which opens such locations, is not installed. "
            f"Install it: pip install fsspec (for s3:// and gs://: {objects.EXTRA})."
        ) from None
    if objects.is_object(location):
        from gristmill.objects.system import system_at

        return system_at(location)
    try:
        system, path = fsspec.url_to_fs(location)
    except (ImportError, ValueError) as error:
        raise UserError(
            f"{location} cannot be opened: {error}. Install what is missing, or correct the location."
        ) from None
    return system, path
