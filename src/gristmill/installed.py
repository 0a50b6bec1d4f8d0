"""Formats, steps, commands and more that installed packages add by entry points (docs/plugins.md).

Finding them takes a tenth of a second, so a built-in name is never looked up here, and cannot be replaced.
"""

import sys
from collections.abc import Mapping
from functools import lru_cache
from importlib.metadata import EntryPoint, entry_points
from importlib.util import find_spec
from typing import Any

from gristmill.errors import UserError
from gristmill.install_command import install_package

FORMATS, STEPS, COMMANDS = "gristmill.formats", "gristmill.steps", "gristmill.commands"
SOURCES, MODELS = "gristmill.sources", "gristmill.models"
PAGES, EXECUTORS, OBSERVERS = "gristmill.pages", "gristmill.executors", "gristmill.observers"

PACKAGES = {
    FORMATS: {"formats": "epub jats latex mbox mediawiki notebook office stack_exchange subtitles", "pdf": "pdf"},
    STEPS: {"formats": "threads", "generate": "entail faithful", "generate pdf": "ocr"},
    SOURCES: {"generate": "generate"},
    COMMANDS: {
        "ablate": "ablate mix",
        "bias": "bias",
        "explore": "explore",
        "extractor": "extractor",
        "ngram": "quality.arpa",
        "tokenizer": "tokenizer.audit",
    },
    MODELS: {"ngram": "language_models"},
    PAGES: {"generate": "diversity"},
    EXECUTORS: {"ray": "ray", "slurm": "slurm"},
    OBSERVERS: {"explore": "metrics openlineage"},
}
"""What the packages in packages/ add, for the message about one that is not installed. Nothing else names them. The
last one of several registers a name, and needs the others for it."""


def installed(group: str) -> Mapping[str, EntryPoint]:
    """The entry points of a group by name, sorted. Raises UserError if two packages register the same name."""
    return _installed(group, tuple(sys.path))


@lru_cache(maxsize=16)
def _installed(group: str, path: tuple[str, ...]) -> Mapping[str, EntryPoint]:
    found: dict[str, EntryPoint] = {}
    for point in sorted(entry_points(group=group)):
        *others, own = (_packages_with(group, point.name) or "").split() or [""]
        if point.module.startswith(f"gristmill_{own}.") and not all(find_spec(f"gristmill_{name}") for name in others):
            continue
        twin = found.setdefault(point.name, point)
        if twin is not point:
            raise UserError(
                f"Two installed packages, {package_of(twin)} and {package_of(point)}, register {point.name} in the "
                f"group {group}, so the name is ambiguous. Uninstall one of them."
            )
    return found


def missing(group: str, name: str) -> str | None:
    """The sentences for a name that a package of Gristmill adds, if that package is not installed."""
    packages = _packages_with(group, name)
    if packages is None:
        return None
    named = " and ".join(f"gristmill-{package}" for package in packages.split())
    return (
        f"{name.replace('.', ' ')} needs the package {named}, which is not installed. Nothing was done. "
        f"Install it: {install_package(packages)}"
    )


def command_for(group: str, name: str) -> str | None:
    """The command that installs the package of Gristmill with a name; None if none has it."""
    packages = _packages_with(group, name)
    return None if packages is None else install_package(packages)


def _packages_with(group: str, name: str) -> str | None:
    return next((package for package, names in PACKAGES[group].items() if name in names.split()), None)


def package_of(point: EntryPoint) -> str:
    """`yard 1.0`."""
    return "an unknown package" if point.dist is None else f"{point.dist.name} {point.dist.version}"


def load(point: EntryPoint, what: str) -> Any:
    """The object of an entry point. Raises UserError if it cannot be imported; `what` names it in the message."""
    try:
        return point.load()
    except (ImportError, AttributeError) as error:
        raise UserError(
            f"{what} cannot be imported from {point.value} ({error}). Nothing was done. Reinstall the package that "
            "has it, or use another."
        ) from None
