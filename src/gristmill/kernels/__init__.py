"""Hot loops compiled by Numba: arrays in, arrays out; nothing else of ours is imported here.

Numba keeps compiled code on disk and looks only at the file of a function to see whether it is stale. Code that was
inlined from another file goes on in its old form, silently. So the compiled code of a kernel lies in a folder that is
named by its content, that of the kernels it imports, and Numba's version: change one, and it and those that use it are
compiled anew. Only the user can write to it, and every file is checked before it is used (`code_files.py`).
Where the sources lie does not matter, so two installations of one version share what was compiled.

Workers that start side by side on a new machine would each compile every kernel. Whoever comes to a function that
another process is compiling waits for it and takes what that one leaves on disk.

A constant in a call is a type of its own to Numba, so that a function would be compiled again for every constant that
it is called with. Here constants are taken as what they are, integers.
"""

import fcntl
import gc
import hashlib
import os
import re
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import numba
from numba.core import caching, dispatcher, types

from gristmill.kernels.code_files import CheckedFiles, make_private
from gristmill.kernels.inner import InnerCompiler, rebuild
from gristmill.kernels.shortcuts import take_shortcuts

HERE = Path(__file__).parent
_IMPORTS = re.compile(r"^from gristmill\.kernels\.([\w.]+) import", re.MULTILINE)
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
    found, open_ends = {"__init__", "inner", "shortcuts", module}, [module]
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


class Compiling:
    """What compiling costs this process: its own, and waiting for another that compiles the same function."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self.tell: Callable[[], None] = lambda: None
        """Called when compiling begins."""
        self._functions = 0
        """At work just now: a function compiles those that it calls first."""
        self._since = 0.0
        self._collects = False

    def begin(self) -> None:
        if not self._functions:
            self._since = time.perf_counter()
            self._collects = gc.isenabled()
            gc.disable()  # the compiler makes much and drops little: a tenth of the time went into looking
            self.tell()
        self._functions += 1

    def end(self) -> None:
        self._functions -= 1
        if not self._functions:
            self.seconds += time.perf_counter() - self._since
            if self._collects:
                gc.enable()


compiling = Compiling()


class _ByContent(caching._CacheLocator):
    """Says where the code of a kernel lies."""

    def __init__(self, function: Any, module: str) -> None:
        self._line = function.__code__.co_firstlineno
        self._digest = digest_of(module)
        self._folder = cache_folder(module)

    def get_cache_path(self) -> str:
        return str(self._folder)

    def get_source_stamp(self) -> str:
        return self._digest

    def get_disambiguator(self) -> str:
        return str(self._line)

    def ensure_cache_path(self) -> None:
        make_private(self._folder, self._folder.parent)

    @classmethod
    def from_function(cls, function: Any, path: str) -> "_ByContent | None":
        """None for functions of others, and where nothing can be written."""
        module = module_of(Path(path))
        if module is None:
            return None
        found = cls(function, module)
        try:
            found.ensure_cache_path()
        except OSError:
            return None
        return found


class _Place(caching.CompileResultCacheImpl):
    _locator_classes: list[Any] = [_ByContent, *caching.CacheImpl._locator_classes]  # noqa: RUF012


class _Shared(caching.FunctionCache):
    """A cache of one function that compiles it in one process at a time.

    Numba asks `load_overload`, compiles where it answers None, and ends with `save_overload`, or with an error, after
    which others must not wait (`let_go`). Functions wait for those that they call, never the other way round, so that
    no two processes wait for each other. The lock goes with the process that holds it.
    """

    _impl_class = _Place

    def __init__(self, function: Any) -> None:
        super().__init__(function)  # type: ignore[no-untyped-call]
        if isinstance(self._impl.locator, _ByContent):
            self._cache_file = CheckedFiles(self.cache_path, self._impl.filename_base, "")  # type: ignore[no-untyped-call]
        elif module_of(Path(function.__code__.co_filename)):
            self.disable()  # type: ignore[no-untyped-call]  # other places do not know what a kernel imports
        self._held: int | None = None
        self._begun = False
        self._lock = os.path.join(self.cache_path, f"{self._impl.filename_base}.lock")

    def is_there(self) -> bool:
        """Whether some form of the function was compiled before; as good as that is that none can be kept."""
        return not self._enabled or os.path.exists(self._cache_file._index_path)

    def is_busy(self) -> bool:
        """Whether another process compiles it now."""
        try:
            held = os.open(self._lock, os.O_RDWR)
        except OSError:
            return False
        try:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return True
        finally:
            os.close(held)
        return False

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        found = super().load_overload(sig, target_context)  # type: ignore[no-untyped-call]
        if found is not None or self._begun:
            return found
        self._begun = True
        compiling.begin()
        with suppress(OSError):  # a disk without locks: everybody compiles, as without this class
            self._impl.locator.ensure_cache_path()
            self._held = os.open(self._lock, os.O_RDWR | os.O_CREAT, 0o644)
            fcntl.flock(self._held, fcntl.LOCK_EX)
        found = super().load_overload(sig, target_context)  # type: ignore[no-untyped-call]
        if found is not None:
            self.let_go()
        return found

    def save_overload(self, sig: Any, data: Any) -> None:
        super().save_overload(sig, data)  # type: ignore[no-untyped-call]
        self.let_go()

    def let_go(self) -> None:
        """Let go of the lock: what was begun is saved, or nothing comes of it."""
        if self._begun:
            self._begun = False
            compiling.end()
        if self._held is not None:
            os.close(self._held)
            self._held = None


class _InnerPlace(_Place):
    """The same for the form of a function that compiled functions call."""

    def get_filename_base(self, fullname: str, abiflags: str) -> str:
        return f"{super().get_filename_base(fullname, abiflags)}.inner"  # type: ignore[no-untyped-call]

    def rebuild(self, target_context: Any, payload: Any) -> Any:
        return rebuild(target_context, payload)


class _SharedInner(_Shared):
    _impl_class = _InnerPlace


_compile: Any = dispatcher.Dispatcher.compile
_template: Any = dispatcher._DispatcherBase.get_call_template
_overload: Any = dispatcher._DispatcherBase.get_overload
_compiler: Any = dispatcher._FunctionCompiler  # type: ignore[attr-defined]
_flags: Any = _compiler._customize_flags
_plain: Any = types.unliteral


def inner_form(kernel: Any) -> Any:
    """The form of a kernel that compiled functions call."""
    if kernel._compiler.pipeline_class is InnerCompiler:
        return kernel
    found = kernel.__dict__.get("_inner_form")
    if found is None:
        found = type(kernel)(kernel.py_func, kernel.locals, kernel.targetoptions, pipeline_class=InnerCompiler)
        found._compiling_counter = kernel._compiling_counter
        if isinstance(kernel._cache, _Shared):
            found._cache = _SharedInner(kernel.py_func)
        kernel._inner_form = found
    return found


def _is_kernel(function: Any) -> bool:
    return bool((function.__module__ or "").startswith(__name__))


def _is_inner(function: Any) -> bool:
    """Kernels, and what Numba itself brings along for them."""
    return bool((function.__module__ or "").startswith((f"{__name__}.", "numba.")))


def _call_template(self: Any, args: tuple[Any, ...], kws: Mapping[str, Any]) -> Any:
    """How Numba finds the form of a function for a call from another one."""
    if _is_inner(self.py_func):
        self = inner_form(self)
    if _is_kernel(self.py_func):
        args = tuple(map(_plain, args))
        kws = {name: _plain(item) for name, item in kws.items()}
    return _template(self, args, kws)


def _compile_or_let_go(self: Any, sig: Any) -> Any:
    """Numba tries forms that cannot be compiled, and takes another one: the lock must not outlive the attempt."""
    if sig in self.overloads:
        return self.overloads[sig].entry_point
    try:
        return _compile(self, sig)
    except BaseException:
        if isinstance(self._cache, _Shared):
            self._cache.let_go()
        raise


def _get_overload(self: Any, args: tuple[Any, ...]) -> Any:
    """How Numba finds the code of that form."""
    return _overload(inner_form(self) if _is_inner(self.py_func) else self, args)


def _customize_flags(self: Any, flags: Any) -> Any:
    """No kernel is handed to C as a function."""
    flags = _flags(self, flags)
    if _is_kernel(self.py_func):
        flags.no_cfunc_wrapper = True
    return flags


dispatcher.Dispatcher.compile = _compile_or_let_go  # type: ignore[method-assign]
dispatcher._DispatcherBase.get_call_template = _call_template  # type: ignore[method-assign, assignment]
dispatcher._DispatcherBase.get_overload = _get_overload  # type: ignore[method-assign, assignment]
_compiler._customize_flags = _customize_flags
dispatcher.FunctionCache = _Shared  # type: ignore[attr-defined]
take_shortcuts()
