"""The decorator of kernels: Numba's `njit`, with compiled code that is stored by content and shared by processes.

A kernel is a dispatcher with its own class. Numba itself is not changed: other functions that are compiled in the same
process have Numba's own dispatcher, cache and compiler.

To Numba, a constant in a call has its own type, and so has an integer of 32 bits, so a function would be compiled again
for each. A kernel that a compiled function calls takes all of them as integers of 64 bits.

With the tested series of Numba, kernels that call each other are compiled in a shorter way (`inner.py`). With another
series, Numba compiles them as usual.
"""

import fcntl
import os
from collections.abc import Callable
from functools import cached_property
from typing import Any, TypeVar

import numba
from numba.core import caching, compiler, config, types
from numba.core.dispatcher import Dispatcher
from numba.core.registry import CPUDispatcher

from gristmill.kernels import cache_folder, compiling, digest_of, is_kernel
from gristmill.kernels.code_files import CheckedFiles, make_private

TESTED = (0, 68)
"""The series of Numba whose internals we know."""
_SHORTER = numba.version_info.short == TESTED
if _SHORTER:
    from gristmill.kernels.inner import InnerCompiler, KernelCompiler, rebuild

_settings: Any = config
_plain: Any = types.unliteral
Function = TypeVar("Function", bound=Callable[..., Any])


class _ByContent(caching._CacheLocator):
    """Locates the compiled code of a kernel."""

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
        """Returns None for other functions, and if the folder is not writable."""
        if not is_kernel(function.__module__):
            return None
        found = cls(function, function.__module__)
        try:
            found.ensure_cache_path()
        except OSError:
            return None
        return found


class _KernelCacheFiles(caching.CompileResultCacheImpl):
    _locator_classes: list[Any] = [_ByContent, *caching.CacheImpl._locator_classes]  # noqa: RUF012


class _SharedCache(caching.FunctionCache):
    """A cache of one function that is compiled in one process at a time.

    Numba calls `load_overload`, compiles if it returns None, and ends with `save_overload`, or with an error, after
    which others must not wait (`let_go`). Functions wait for those that they call, never the other way round, so no two
    processes wait for each other. The lock ends with the process that holds it.
    """

    _impl_class = _KernelCacheFiles

    def __init__(self, function: Any) -> None:
        super().__init__(function)  # type: ignore[no-untyped-call]
        if isinstance(self._impl.locator, _ByContent):
            self._cache_file = CheckedFiles(self.cache_path, self._impl.filename_base, "")  # type: ignore[no-untyped-call]
        else:
            self.disable()  # type: ignore[no-untyped-call]  # other places do not know what a kernel imports
        self._held: int | None = None
        self._lock = os.path.join(self.cache_path, f"{self._impl.filename_base}.lock")

    def is_there(self) -> bool:
        """Whether some form of the function was compiled before; also True if nothing can be stored."""
        return not self._enabled or os.path.exists(self._cache_file._index_path)

    def is_busy(self) -> bool:
        """Whether another process is compiling it now."""
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
        if found is not None or self._held is not None or not self._enabled:
            return found
        self._wait()
        return super().load_overload(sig, target_context)  # type: ignore[no-untyped-call]

    def _wait(self) -> None:
        """Waits until no other process compiles this function."""
        compiling.begin()
        try:
            self._impl.locator.ensure_cache_path()
            self._held = os.open(self._lock, os.O_RDWR | os.O_CREAT, 0o644)
            fcntl.flock(self._held, fcntl.LOCK_EX)
        except OSError:  # a disk without locks: every process compiles, as without this class
            pass
        finally:
            compiling.end()

    def let_go(self) -> None:
        """Releases the lock: the result is saved, or there is none."""
        if self._held is not None:
            os.close(self._held)
            self._held = None


class _InnerPlace(_KernelCacheFiles):
    """The same for the form of a kernel that other kernels call."""

    def get_filename_base(self, fullname: str, abiflags: str) -> str:
        return f"{super().get_filename_base(fullname, abiflags)}.inner"  # type: ignore[no-untyped-call]

    def rebuild(self, target_context: Any, payload: Any) -> Any:
        return rebuild(target_context, payload)


class _SharedInner(_SharedCache):
    _impl_class = _InnerPlace


class Kernel(CPUDispatcher):
    """A function that Python and other kernels call."""

    _kept_by: type[_SharedCache] = _SharedCache

    def __init__(self, function: Any, locals: Any = None, options: Any = None, pipeline: Any = None) -> None:
        options = {**(options or {}), "no_cfunc_wrapper": True}  # no kernel is passed to C as a function
        super().__init__(function, locals, options, pipeline or (KernelCompiler if _SHORTER else compiler.Compiler))

    def enable_caching(self) -> None:
        self._cache = self._kept_by(self.py_func)

    def compile(self, sig: Any) -> Any:
        """Compiles a form. Numba also tries forms that cannot be compiled and then takes another: no file lock may
        outlive the attempt.
        """
        known: Any = self.overloads.get(sig)
        if known is not None:
            return known.entry_point
        try:
            return super().compile(sig)
        finally:
            if isinstance(self._cache, _SharedCache):
                self._cache.let_go()

    def get_call_template(self, args: Any, kws: Any) -> Any:
        """Returns the form for a call from a compiled function."""
        wide_kws = {name: _wide(item) for name, item in kws.items()}
        return CPUDispatcher.get_call_template(self._form, tuple(map(_wide, args)), wide_kws)

    def get_overload(self, sig: Any) -> Any:
        """Returns the code of that form."""
        return CPUDispatcher.get_overload(self._form, sig)

    @property
    def _form(self) -> Any:
        return self.inner if _SHORTER and KernelCompiler.at_work else self

    @cached_property
    def inner(self) -> Any:
        """Returns the form that other kernels call. Functions that are not kernels call the same form as Python."""
        return _Inner(self)


class _Inner(Kernel):
    _kept_by = _SharedInner

    def __init__(self, kernel: Kernel) -> None:
        options = {**kernel.targetoptions, "no_cpython_wrapper": True}
        super().__init__(kernel.py_func, kernel.locals, options, InnerCompiler)
        self._compiling_counter = kernel._compiling_counter  # a kernel that calls itself
        if isinstance(kernel._cache, _SharedCache):
            self.enable_caching()


def _wide(kind: Any) -> Any:
    """Widens constants and short integers to integers of 64 bits, in which Numba computes with them anyway."""
    plain = _plain(kind)
    return types.int64 if plain in (types.int32, types.int16, types.int8) else plain


def njit(*, cache: bool = False, **options: Any) -> Callable[[Function], "Dispatcher[Function]"]:
    """Numba's `njit`, for kernels."""

    def decorated(function: Any) -> Any:
        if _settings.DISABLE_JIT:
            return function
        kernel = Kernel(function, options={"nopython": True, "boundscheck": None, **options})
        if cache:
            kernel.enable_caching()
        return kernel

    return decorated
