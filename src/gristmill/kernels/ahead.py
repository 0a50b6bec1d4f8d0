"""Compiles kernels ahead of time: on a machine without compiled kernels, several processes share the work.

Numba compiles a function when it is first called. By then every worker needs the same one: one compiles, and the others
wait. `ahead.json` lists the functions that stages call and the types of their arguments, so that each process can
compile another one. A function that is not in the list is compiled when it is called, as usual.
"""

import ast
import hashlib
import importlib
import json
import sys
from collections.abc import Sequence
from contextlib import suppress
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numba
from llvmlite.binding import get_host_cpu_name
from numba.core import types

from gristmill.kernels import HERE, cache_root, code_bytes, digest_of, module_of

LIST = HERE / "ahead.json"
_PREFIX = "gristmill."


def to_compile(stages: Sequence[str]) -> list[str]:
    """Returns the listed functions that these modules can call and that this machine has not compiled yet, those of the
    first module first: `module.function`.
    """
    mark = _mark(stages)
    if mark.exists():
        return []
    wanted = list(dict.fromkeys(kernel for stage in stages for kernel in kernels_of(stage)))
    names = [name for name in _listed() if _module(name) in wanted and not _function(name)._cache.is_there()]
    if not names:
        _leave(mark)
    return sorted(names, key=lambda name: wanted.index(_module(name)))


def listed() -> list[str]:
    """Returns all listed functions, those with the most code first, since they take the longest."""
    return sorted(_listed(), key=lambda name: -code_bytes(_module(name)))


def compile_all(names: Sequence[str], stages: Sequence[str] = ()) -> None:
    """Compiles the result of `to_compile`, along with other processes: functions that another one is compiling are
    skipped.
    """
    # Skip what is compiled already, and what another process is compiling now.
    for name in names:
        function = _function(name)
        if not function._cache.is_there() and not function._cache.is_busy():
            for form in _listed()[name]:
                function.compile(_types(form))
    if stages and all(_function(name)._cache.is_there() for name in names):
        _leave(_mark(stages))


def _mark(stages: Sequence[str]) -> Path:
    """Returns a file whose existence means that everything is compiled for these modules: checking it is faster than
    checking each.
    """
    modules = [str(module_of(path)) for path in sorted(HERE.rglob("*.py"))]
    kernels = [f"{module} {digest_of(module)}" for module in modules]
    machine = [get_host_cpu_name(), sys.version, numba.__version__]
    parts = "\n".join([*machine, *kernels, *sorted(stages)])
    return cache_root() / f"compiled-{hashlib.sha256(parts.encode()).hexdigest()[:16]}"


def _leave(mark: Path) -> None:
    with suppress(OSError):
        mark.touch()


@cache
def _listed() -> dict[str, list[str]]:
    found: dict[str, list[str]] = json.loads(LIST.read_text())
    return found


def _types(form: str) -> Any:
    """Returns the types of a call: as Numba prints them, and tuples as `tuple_of([types], class)`."""
    names = {**vars(types), "kernel": _kernel, "tuple_of": types.BaseTuple.from_types, "__builtins__": {}}
    return eval(f"({form},)", names)


def _kernel(name: str) -> Any:
    return importlib.import_module(f"{__package__}.{name}")


def _module(name: str) -> str:
    return name.rpartition(".")[0]


def _function(name: str) -> Any:
    module, _, function = name.rpartition(".")
    return getattr(_kernel(module), function)


@cache
def kernels_of(module: str) -> tuple[str, ...]:
    """Returns the kernels that a module imports, directly or indirectly; it is read from the source code, and nothing
    is run.
    """
    found, seen, open_ends = [], {module}, [module]
    # Breadth first, so that kernels nearer to the module come first.
    while open_ends:
        at = open_ends.pop(0)
        if at.startswith(f"{__package__}."):
            name = at.removeprefix(f"{__package__}.")
            found += [name] if is_kernel(name) else []  # a package of kernels is not a kernel
            continue
        # Each module is visited once.
        for name in _imports(at):
            if name not in seen:
                seen.add(name)
                open_ends.append(name)
    return tuple(found)


def is_kernel(name: str) -> bool:
    return HERE.joinpath(*name.split(".")).with_suffix(".py").is_file()


@cache
def _imports(module: str) -> tuple[str, ...]:
    if not module.startswith(_PREFIX):
        return ()
    spec = find_spec(module)
    if spec is None or not spec.origin or not spec.origin.endswith(".py"):
        return ()
    found = []
    # Both forms of an import name candidates; those that are not modules are left out at the end.
    for item in ast.walk(ast.parse(Path(spec.origin).read_bytes())):
        if isinstance(item, ast.ImportFrom) and item.module and item.module.startswith(_PREFIX):
            found += [item.module, *(f"{item.module}.{name.name}" for name in item.names)]
    return tuple(name for name in found if _is_module(name))


@cache
def _is_module(name: str) -> bool:
    path = HERE.parent.joinpath(*name.split(".")[1:])
    return path.with_suffix(".py").is_file() or (path / "__init__.py").is_file()
