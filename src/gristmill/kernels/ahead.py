"""Compiles kernels ahead of time: on a machine without compiled kernels, several processes share the work.

Numba compiles a function when it is first called. By then every worker needs the same one: one compiles, and the others
wait. `ahead.json` beside the kernels of the core, and of each package, lists the functions that stages call and the
types of their arguments, so that each process can compile another one. A function that is not in a list is compiled
when it is called, as usual.
"""

import ast
import hashlib
import importlib
import json
import re
import sys
from collections.abc import Sequence
from contextlib import suppress
from functools import cache
from importlib.metadata import distributions
from pathlib import Path
from typing import Any

import numba
from llvmlite.binding import get_host_cpu_name
from numba.core import types

from gristmill.kernels import cache_root, code_bytes, is_kernel, path_of

_OURS = re.compile(r"gristmill\w*\.")
"""Modules of the core and its packages."""


def to_compile(stages: Sequence[str]) -> list[str]:
    """Returns the listed functions that these modules can call and that this machine has not compiled yet, those of the
    first module first: `module.function`.
    """
    mark = _mark(stages)
    if mark.exists():
        return []
    wanted = list(dict.fromkeys(kernel for stage in stages for kernel in kernels_of(stage)))
    functions = (name for package in dict.fromkeys(map(_package, wanted)) for name in listed_in(package))
    names = [name for name in functions if _module(name) in wanted and not _function(name)._cache.is_there()]
    if not names:
        _leave(mark)
    return sorted(names, key=lambda name: wanted.index(_module(name)))


def listed() -> list[str]:
    """Returns all listed functions of the core and the installed packages, those with the most code first, since they
    take the longest.
    """
    packages = {item.name.replace("-", "_") for item in distributions() if item.name.startswith("gristmill")}
    functions = [function for package in packages for function in listed_in(package)]
    return sorted(functions, key=lambda name: (-code_bytes(_module(name)), name))


def compile_all(names: Sequence[str], stages: Sequence[str] = ()) -> None:
    """Compiles the result of `to_compile`, along with other processes: functions that another one is compiling are
    skipped.
    """
    # Skip what is compiled already, and what another process is compiling now.
    for name in names:
        function = _function(name)
        if not function._cache.is_there() and not function._cache.is_busy():
            for form in listed_in(_package(name))[name]:
                function.compile(_types(form))
    if stages and all(_function(name)._cache.is_there() for name in names):
        _leave(_mark(stages))


def _mark(stages: Sequence[str]) -> Path:
    """Returns a file whose existence means that everything is compiled for these modules: checking it is faster than
    checking each.
    """
    lists = map(list_of, {"gristmill", *map(_package, filter(_OURS.match, stages))})
    files = (path for kernel_list in lists if kernel_list for path in kernel_list.parent.rglob("*.py"))
    kernels = sorted(hashlib.sha256(path.read_bytes()).hexdigest() for path in files)
    machine = [get_host_cpu_name(), sys.version, numba.__version__]
    parts = "\n".join([*machine, *kernels, *sorted(stages)])
    return cache_root() / f"compiled-{hashlib.sha256(parts.encode()).hexdigest()[:16]}"


def _leave(mark: Path) -> None:
    with suppress(OSError):
        mark.touch()


@cache
def listed_in(package: str) -> dict[str, list[str]]:
    """Returns the listed functions of a package's kernels with the types of their arguments; none without a list."""
    path = list_of(package)
    functions: dict[str, list[str]] = json.loads(path.read_text()) if path and path.is_file() else {}
    return functions


def _types(form: str) -> Any:
    """Returns the types of a call: as Numba prints them, and tuples as `tuple_of([types], class)`."""
    tuple_of, kernel = types.BaseTuple.from_types, importlib.import_module
    names = {**vars(types), "kernel": kernel, "tuple_of": tuple_of, "__builtins__": {}}
    return eval(f"({form},)", names)


def list_of(package: str) -> Path | None:
    """Returns the list of a package; it may not exist. None if the package does not exist."""
    path = path_of(f"{package}.__init__")
    return path and path.parent / "kernels" / "ahead.json"


def _package(name: str) -> str:
    return name.partition(".")[0]


def _module(name: str) -> str:
    return name.rpartition(".")[0]


def _function(name: str) -> Any:
    module, _, function = name.rpartition(".")
    return getattr(importlib.import_module(module), function)


@cache
def kernels_of(module: str) -> tuple[str, ...]:
    """Returns the kernels that a module imports, directly or indirectly; it is read from the source code, and nothing
    is run.
    """
    kernels, seen, open_ends = [], {module}, [module]
    # Breadth first, so that kernels nearer to the module come first.
    while open_ends:
        name = open_ends.pop(0)
        if is_kernel(name):
            kernels.append(name)
            continue
        # Each module is visited once.
        for imported in _imports(name):
            if imported not in seen:
                seen.add(imported)
                open_ends.append(imported)
    return tuple(kernels)


@cache
def _imports(module: str) -> tuple[str, ...]:
    path = _file(module) if _OURS.match(module) else None
    if path is None:
        return ()
    imported = []
    # Both forms of an import name candidates; those that are not modules are left out at the end.
    for item in ast.walk(ast.parse(path.read_bytes())):
        if isinstance(item, ast.ImportFrom) and item.module and _OURS.match(item.module):
            imported += [item.module, *(f"{item.module}.{name.name}" for name in item.names)]
    return tuple(name for name in imported if _file(name))


def _file(module: str) -> Path | None:
    return path_of(module) or path_of(f"{module}.__init__")
