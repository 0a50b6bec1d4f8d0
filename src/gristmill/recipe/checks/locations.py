"""Resolves locations to a local path or a URI that is the same from every working directory.

A relative path in a recipe is relative to the recipe's folder; `~` is the home folder; anything with a scheme
(`s3://`, `memory://`, or chained, `simplecache::s3://`) stays as it is, except that `file://` becomes a local path.
Everything else is a path, whatever its characters: `a::b` is a folder of that name.
"""

import glob
import os
import re

from gristmill import objects
from gristmill.errors import UserError
from gristmill.install_command import install_extra, install_library
from gristmill.places import is_url, local_path, system_of
from gristmill.recipe.checks.mistakes import nearest

# Possessive, and only at the start of a word: a path may be one word of a megabyte.
_ONE_SLASH = re.compile(r"(?:^|/)(s3a?|gs|gcs|abfss?|az|https?|hdfs):(?:/|$)")
_PROTOCOL = re.compile(r"(?<![A-Za-z0-9+.\-])([A-Za-z][A-Za-z0-9+.\-]*+)(?:://|::)")


def locate(text: str, folder: str) -> str:
    """`text` as a URI or as an absolute local path, relative to `folder`."""
    path = local_path(text)
    if path is None:
        return text
    return os.path.normpath(os.path.join(folder, os.path.expanduser(path)))


def locate_pattern(text: str, folder: str) -> str:
    """The same for a glob: the glob characters of `text` keep their meaning, those of `folder` are escaped."""
    return locate(text, glob.escape(folder))


def why_not(location: str) -> str | None:
    """Why no file system can open `location`, with the fix; None if one can. Opens nothing."""
    if objects.is_object(location):
        return (
            None
            if objects.is_installed()
            else f"{location!r} needs a package that is not installed. Run: {install_extra('s3')}"
        )
    if not is_url(location) and (found := _ONE_SLASH.search(location)):
        return f"{location!r} would be a folder of this machine. Write {found[1]}:// with two slashes."
    if not is_url(location):
        return None
    import fsspec
    from fsspec.registry import known_implementations

    for protocol in _PROTOCOL.findall(location):
        try:
            fsspec.get_filesystem_class(protocol)
        except ValueError:
            near = nearest(protocol, fsspec.available_protocols())
            hint = f"Did you mean {near}://?" if near else "Use s3://, gs://, abfs://, file:// or a local path."
            return f"{location!r} has the unknown scheme {protocol}://. {hint}"
        except ImportError as error:
            package = str(known_implementations[protocol]["class"]).split(".")[0]
            fix = f"Run: {install_library(package)}" if package != "fsspec" else f"{error}."
            return f"{location!r} needs a package that is not installed. {fix}"
    return None


def exists(location: str) -> bool:
    """Whether a file or folder exists; for a URI this queries the object store."""
    if not is_url(location):
        return os.path.exists(location)
    filesystem, path = system_of(location)
    return bool(filesystem.exists(path))


def locate_store(given: str, name: str) -> str:
    """The location of a store given on the command line, relative to the working directory; `name` is the option."""
    location = locate(given, os.getcwd())
    if not given.strip():
        raise UserError(f"{name} is empty. Give a folder, or a URI such as s3://bucket/prefix.")
    reason = why_not(location)
    if reason:
        raise UserError(f"{name}: {reason}")
    if not is_url(location) and is_no_folder(location):
        raise UserError(f"{name}: {location} is a file, but a store is a folder. Name another path.")
    return location


def is_no_folder(location: str) -> bool:
    """Whether something other than a folder exists there: a file, a device, a pipe."""
    return os.path.exists(location) and not os.path.isdir(location)
