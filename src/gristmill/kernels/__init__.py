"""Hot loops compiled by Numba: arrays in, arrays out. Kernels import no other package of Gristmill.

A package keeps its own in `gristmill_NAME/kernels/`, with the same decorator and the same rules. A kernel is named by
its whole module (`gristmill.kernels.bpe.encode`).

Numba keeps compiled code on disk and only checks the file of a function to see whether it is stale. Code that was
inlined from another file would silently stay in its old form. So the compiled code of a kernel is in a folder that is
named by its content, the content of the kernels that it imports, and Numba's version: if one of them changes, the
kernel and its users are compiled again. Only the user can write to the folder, and every file is checked before it is
used (`code_files.py`). The path of the sources does not matter, so two installations of one version share compiled
code.

Workers that start together on a new machine would each compile every kernel. If another process is already compiling a
function, a worker waits and then loads the result from disk (`compile.py`).
"""

import hashlib
import os
import re
import tempfile
import time
from collections.abc import Callable
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numba
from numba.core import event

_KERNEL = re.compile(r"gristmill\w*\.kernels\.")
_IMPORTS = re.compile(r"^ *from (gristmill\w*\.kernels(?:\.\w+)*) import ([\w, ]*)", re.MULTILINE)
"""The two forms in which kernels import each other: names of a module, or modules of a folder on one line."""


def is_kernel(module: str) -> bool:
    """Whether a module is a file in `gristmill/kernels`, or in the folder `kernels` of a package."""
    return bool(_KERNEL.match(module)) and path_of(module) is not None


@cache
def path_of(module: str) -> Path | None:
    """Returns the file of a module of the core or a package, without importing it; None if there is no such file."""
    package, *names = module.split(".")
    root = find_spec(package)
    path = Path(root.origin).parent.joinpath(*names).with_suffix(".py") if root and root.origin else None
    return path if path and path.is_file() else None


def cache_root() -> Path:
    """Returns the folder of compiled code: below the home folder, or that of temporary files if this user cannot write
    there, as in many containers.
    """
    if chosen := os.environ.get("NUMBA_CACHE_DIR"):
        return Path(chosen).absolute() / "kernels"
    root = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache").absolute()
    if not os.environ.get("XDG_CACHE_HOME") and not _can_write(root / "gristmill"):
        return Path(tempfile.gettempdir(), f"gristmill-{os.geteuid()}", "kernels").absolute()
    return root / "gristmill" / "kernels"


@cache
def _can_write(folder: Path) -> bool:
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError:
        return False
    return os.access(folder, os.W_OK | os.X_OK)


@cache
def _source(module: str) -> bytes:
    path = path_of(module)
    assert path is not None, module
    return path.read_bytes()


@cache
def _with_imports(module: str) -> frozenset[str]:
    """Returns a kernel and everything that it imports, directly or indirectly."""
    found, open_ends = {f"{__name__}.__init__", module}, [module]
    # Follow imports until no new module turns up.
    while open_ends:
        imports = _IMPORTS.finditer(_source(open_ends.pop()).decode())
        new = {name for line in imports for name in _imported(line)} - found
        found |= new
        open_ends += new
    return frozenset(found)


def _imported(line: re.Match[str]) -> list[str]:
    """The modules that an import names."""
    if path_of(line[1]):
        return [line[1]]
    modules = [f"{line[1]}.{name.split()[0]}" for name in line[2].split(",") if name.strip()]
    return [module for module in modules if path_of(module)] or [f"{line[1]}.__init__"]


@cache
def digest_of(module: str) -> str:
    """Returns a hash of a kernel, of everything that it imports, and of the compiler's version."""
    total = hashlib.sha256(numba.__version__.encode())
    for name in sorted(_with_imports(module)):
        total.update(hashlib.sha256(_source(name)).digest())
    return total.hexdigest()[:16]


def code_bytes(module: str) -> int:
    """Returns the size of the sources of a kernel and of everything that it imports."""
    return sum(len(_source(name)) for name in _with_imports(module))


def cache_folder(module: str) -> Path:
    """Returns the folder of the compiled code of a kernel in its present form."""
    return cache_root() / f"{module}-{digest_of(module)}"


class Compiling(event.Listener):
    """The cost of compiling in this process: its own work, and waiting for another process that compiles the same
    function.
    """

    def __init__(self) -> None:
        self.seconds = 0.0
        self.tell: Callable[[], None] = lambda: None
        """Called when compiling begins."""
        self._functions = 0
        """Functions that are compiled now: a function first compiles those that it calls."""
        self._since = 0.0

    def on_start(self, event: Any) -> None:
        self.begin()

    def on_end(self, event: Any) -> None:
        self.end()

    def begin(self) -> None:
        if not self._functions:
            self._since = time.perf_counter()
            self.tell()
        self._functions += 1

    def end(self) -> None:
        self._functions -= 1
        if not self._functions:
            self.seconds += time.perf_counter() - self._since


compiling = Compiling()
event.register("numba:compile", compiling)  # type: ignore[no-untyped-call]
