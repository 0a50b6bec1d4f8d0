"""Commands that install more beside this Gristmill: with its Python, its constraints, and the source it came from."""

import json
import os
import shlex
import sys
from pathlib import Path
from urllib.parse import unquote, urlsplit

NAME = "gristmill"


def install_library(name: str) -> str:
    """The command that installs a library."""
    return _pip(_clone(), name)


def install_extra(extra: str) -> str:
    """The command that installs an extra of Gristmill, from where Gristmill was installed."""
    source, is_editable = _source()
    clone = _clone()
    if source is None or not source.exists():
        return _pip(clone, f"{NAME}[{extra}]")
    options = ("-e",) if is_editable else ()
    return _pip(clone, *options, f"{_short(source)}[{extra}]")


def install_package(names: str, extra: str = "") -> str:
    """The command that installs packages of the repository, which needs a clone of it; the last one has the extra."""
    clone, suffix = _clone(), f"[{extra}]" if extra else ""
    folders = [_short(clone / "packages" / name) if clone else f"./packages/{name}" for name in names.split()]
    command = _pip(clone, *folders[:-1], folders[-1] + suffix)
    return command if clone else f"{command} in a clone of Gristmill"


def _pip(clone: Path | None, *words: str) -> str:
    constraints = None if clone is None else clone / "constraints.txt"
    pinned = ("-c", _short(constraints)) if constraints is not None and constraints.exists() else ()
    return shlex.join((_short(Path(sys.executable)), "-m", "pip", "install", *pinned, *words))


def _clone() -> Path | None:
    """The clone of the repository that Gristmill was installed from, if it is still there."""
    source, _ = _source()
    return source if source is not None and (source / "packages").is_dir() else None


def _source() -> tuple[Path | None, bool]:
    """The folder or wheel that Gristmill was installed from, if pip recorded one, and whether it is editable."""
    from importlib.metadata import PackageNotFoundError, distribution  # it takes a tenth of a second

    try:
        recorded = json.loads(distribution(NAME).read_text("direct_url.json") or "{}")
    except PackageNotFoundError:
        return Path(__file__).parents[2], True
    address = urlsplit(recorded.get("url", ""))
    path = Path(unquote(address.path)) if address.scheme == "file" else None
    return path, bool(recorded.get("dir_info", {}).get("editable"))


def _short(path: Path) -> str:
    """A path, relative to the current folder if that is shorter. pip takes a name without a slash for a project."""
    relative = os.path.relpath(path)
    relative = relative if relative.startswith(".") else f".{os.sep}{relative}"
    return min(str(path), relative, key=len)
