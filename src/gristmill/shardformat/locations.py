"""File locations: local paths, URLs such as s3://bucket/key (`objects/`), and whatever else fsspec opens."""

import os
import re
from typing import Any

from gristmill import objects
from gristmill.errors import UserError
from gristmill.install_command import install_extra, install_library
from gristmill.shardformat.open_file import open_plain

_NAME = r"[A-Za-z][A-Za-z0-9+.\-]*"
_URL = re.compile(rf"(?:{_NAME}::)*{_NAME}://")
_ON_DISK = re.compile(r"(?:file|local)://")
_RUN = re.compile(r".+@[A-Za-z0-9][A-Za-z0-9._-]*", re.DOTALL)
"""STORE@NAME, which names a run on the command line."""


def is_remote(location: str) -> bool:
    """Whether a location begins with a scheme. A name with `://` further on is a path. As in gristmill.places."""
    return _URL.match(location) is not None and _ON_DISK.match(location) is None


def local_path(location: str) -> str:
    return os.path.abspath(_ON_DISK.sub("", location, count=1) if _ON_DISK.match(location) else location)


def manifest_at(location: str | os.PathLike[str], name: str = "manifest.json") -> str:
    """The location of a manifest (or another file, by `name`) that is given by its file or its folder."""
    named = os.fspath(location)
    if is_remote(named):
        return named if named.endswith(".json") else named.rstrip("/") + f"/{name}"
    # Links are resolved once: `latest` may point to another folder while a trainer runs.
    path = os.path.realpath(local_path(named))
    return os.path.join(path, name) if os.path.isdir(path) else path


def beside(manifest: str, named: str) -> str:
    """The location of a file in a manifest: relative to the manifest, an absolute path, or a URL."""
    if is_remote(named):
        return named
    if _ON_DISK.match(named) or os.path.isabs(named):
        return local_path(named)
    folder = manifest.rsplit("/", 1)[0] if is_remote(manifest) else os.path.dirname(manifest)
    return f"{folder}/{named}"


def read_bytes(location: str, name: str = "manifest.json") -> bytes:
    """The bytes of a small file from any location; `name` is the usual name of such a file, for messages."""
    try:
        if is_remote(location):
            system, path = file_system(location)
            return bytes(system.cat_file(path))
        with open(open_plain(local_path(location))[0], "rb") as file:
            return file.read()
    except FileNotFoundError:
        raise UserError(
            f"{location} does not exist, so there is nothing to load. "
            f"Name a {name}, or its folder.{_of_a_run(location)}"
        ) from None
    except OSError as error:
        raise UserError(f"{location} cannot be read ({error}), so nothing can be loaded. Check the location.") from None


def _of_a_run(location: str) -> str:
    """A hint for a location in the STORE@NAME form of the command line."""
    named = location.removesuffix("/manifest.json")
    if _RUN.fullmatch(named) is None:
        return ""
    return f" STORE@NAME only works on the command line; `gristmill sample {named}` shows the folder of that run."


def file_system(location: str) -> tuple[Any, str]:
    """fsspec's file system of a location, and the path in it."""
    try:
        import fsspec
    except ImportError:
        raise UserError(
            f"{location} is not a local path, and fsspec, which is needed to open it, is not installed. "
            f"Install it: {install_library('fsspec')}; for s3:// and gs://: {install_extra('s3')}"
        ) from None
    if objects.is_object(location):
        from gristmill.objects.system import system_at

        return system_at(location)
    try:
        system, path = fsspec.url_to_fs(location)
    except (ImportError, ValueError) as error:
        raise UserError(
            f"{location} cannot be opened: {error}. Install the missing package, or correct the location."
        ) from None
    return system, path
