"""Hot loops compiled by Numba: arrays in, arrays out; nothing else of ours is imported here.

Numba keeps compiled code on disk and looks only at the file of a function to see whether it is stale. Code that was
inlined from another file goes on in its old form, silently. So the folder of the cache is named by the hash of all
kernels together: change one, and all are compiled anew.

Workers that start side by side on a new machine would each compile every kernel. Whoever comes to a function that
another process is compiling waits for it and takes what that one leaves on disk.
"""

import fcntl
import hashlib
import os
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numba
from numba.core import dispatcher
from numba.core.caching import FunctionCache


def _cache_folder() -> Path:
    sources = sorted(Path(__file__).parent.glob("*.py"))
    digest = hashlib.sha256(b"".join(source.read_bytes() for source in sources)).hexdigest()[:16]
    chosen = os.environ.get("NUMBA_CACHE_DIR")
    root = Path(chosen) if chosen else Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "gristmill"
    return root / f"kernels-{digest}"


class Compiling:
    """What compiling costs this process: its own, and waiting for another that compiles the same function."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self.tell: Callable[[], None] = lambda: None
        """Called when compiling begins."""
        self._functions = 0
        """At work just now: a function compiles those that it calls first."""
        self._since = 0.0

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


class _Shared(FunctionCache):
    """A cache of one function that compiles it in one process at a time.

    Numba asks `load_overload`, compiles where it answers None, and ends with `save_overload`. Functions wait for those
    that they call, never the other way round, so that no two processes wait for each other. The lock goes with the
    process that holds it.
    """

    def __init__(self, function: Any) -> None:
        super().__init__(function)  # type: ignore[no-untyped-call]
        self._held: int | None = None
        self._begun = False

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        found = super().load_overload(sig, target_context)  # type: ignore[no-untyped-call]
        if found is not None or self._begun:
            return found
        self._begun = True
        compiling.begin()
        with suppress(OSError):  # a disk without locks: everybody compiles, as without this class
            os.makedirs(self.cache_path, exist_ok=True)
            path = os.path.join(self.cache_path, f"{self._impl.filename_base}.lock")
            self._held = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
            fcntl.flock(self._held, fcntl.LOCK_EX)
        found = super().load_overload(sig, target_context)  # type: ignore[no-untyped-call]
        if found is not None:
            self._release()
        return found

    def save_overload(self, sig: Any, data: Any) -> None:
        super().save_overload(sig, data)  # type: ignore[no-untyped-call]
        self._release()

    def _release(self) -> None:
        if self._begun:
            self._begun = False
            compiling.end()
        if self._held is not None:
            os.close(self._held)
            self._held = None


numba.config.CACHE_DIR = str(_cache_folder())  # type: ignore[attr-defined]
dispatcher.FunctionCache = _Shared  # type: ignore[attr-defined]
