"""Hot loops compiled by Numba: arrays in, arrays out; nothing else of ours is imported here.

Numba keeps compiled code on disk and looks only at the file of a function to see whether it is stale. Code that was
inlined from another file goes on in its old form, silently. So the compiled code of a kernel lies in a folder that is
named by its content, that of the kernels it imports, and Numba's version: change one, and it and those that use it are
compiled anew. Only the user can write to it, and every file is checked before it is used (`code_files.py`).
Where the sources lie does not matter, so two installations of one version share what was compiled.

Workers that start side by side on a new machine would each compile every kernel. Whoever comes to a function that
another process is compiling waits for it and takes what that one leaves on disk (`compile.py`).
"""

import hashlib
import os
import re
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numba
from numba.core import event

HERE = Path(__file__).parent
_IMPORTS = re.compile(r"^ *from gristmill\.kernels\.([\w.]+) import", re.MULTILINE)
"""The one form in which kernels import each other."""


def module_of(path: Path) -> str | None:
    """The name of a kernel's module below this package (`bpe.encode`); None for files of others."""
    return ".".join(path.relative_to(HERE).with_suffix("").parts) if HERE in path.parents else None


def cache_root() -> Path:
    """Where compiled code is kept."""
    chosen = os.environ.get("NUMBA_CACHE_DIR")
    root = Path(chosen) if chosen else Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "gristmill"
    return root.absolute() / "kernels"


@cache
def _source(module: str) -> bytes:
    return HERE.joinpath(*module.split(".")).with_suffix(".py").read_bytes()


@cache
def _with_imports(module: str) -> frozenset[str]:
    """A kernel and all that it imports, at any distance."""
    found, open_ends = {"__init__", module}, [module]
    while open_ends:
        new = set(_IMPORTS.findall(_source(open_ends.pop()).decode())) - found
        found |= new
        open_ends += new
    return frozenset(found)


@cache
def digest_of(module: str) -> str:
    """The content of a kernel and of all that it imports, and the version of their compiler."""
    total = hashlib.sha256(numba.__version__.encode())
    for name in sorted(_with_imports(module)):
        total.update(hashlib.sha256(_source(name)).digest())
    return total.hexdigest()[:16]


def code_bytes(module: str) -> int:
    """Of the sources of a kernel and of all that it imports."""
    return sum(len(_source(name)) for name in _with_imports(module))


def cache_folder(module: str) -> Path:
    """Where the compiled code of a kernel lies, in its present form."""
    return cache_root() / f"{module}-{digest_of(module)}"


class Compiling(event.Listener):
    """What compiling costs this process: its own, and waiting for another that compiles the same function."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self.tell: Callable[[], None] = lambda: None
        """Called when compiling begins."""
        self._functions = 0
        """At work just now: a function compiles those that it calls first."""
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
