"""A plugin of pytest: every array of NumPy ends right before a page that cannot be read, and is unmapped when freed.

So a kernel that goes beyond an array, or on using one that is gone, crashes where it does so, with the machine code
that users run. FENCE=before lets arrays begin right behind such a page instead. What Numba allocates itself comes from
the C library: MALLOC_MMAP_THRESHOLD_ has freed memory unmapped there too, and MALLOC_PERTURB_ overwrites the rest.
"""

import ctypes
import mmap
import os
from typing import Any

import numpy as np
import pytest

PAGE = mmap.PAGESIZE
_NO_ACCESS = 0
BEFORE = os.environ.get("FENCE") == "before"
_SET_HANDLER = 304  # PyDataMem_SetHandler in NumPy's table of C functions, which never changes its order

_libc = ctypes.CDLL(None, use_errno=True)
_libc.mmap.restype = ctypes.c_void_p
_libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_size_t]
_libc.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
_libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
_maps: dict[int, tuple[int, int, int]] = {}
"""Of each array by its address: where its pages begin, their bytes, and its own."""


def _take(_: Any, size: int) -> int:
    inside = -(-max(size, 1) // PAGE) * PAGE
    base = _libc.mmap(None, inside + 2 * PAGE, _NO_ACCESS, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, -1, 0)
    if base == ctypes.c_void_p(-1).value or _libc.mprotect(base + PAGE, inside, mmap.PROT_READ | mmap.PROT_WRITE):
        return 0
    address = int(base) + PAGE + (0 if BEFORE else inside - max(size, 1))
    _maps[address] = base, inside + 2 * PAGE, size
    return address


def _give_back(_: Any, address: int | None, size: int) -> None:
    if address:
        base, length, _ = _maps.pop(address)
        _libc.munmap(base, length)


def _take_zeros(_: Any, number: int, size: int) -> int:
    return _take(_, number * size)


def _take_other(_: Any, address: int | None, size: int) -> int:
    new = _take(_, size)
    if address and new:
        ctypes.memmove(new, address, min(size, _maps[address][2]))
        _give_back(_, address, 0)
    return new


class _Allocator(ctypes.Structure):
    _size, _pointer = ctypes.c_size_t, ctypes.c_void_p
    _fields_ = (
        ("context", _pointer),
        ("malloc", ctypes.CFUNCTYPE(_pointer, _pointer, _size)),
        ("calloc", ctypes.CFUNCTYPE(_pointer, _pointer, _size, _size)),
        ("realloc", ctypes.CFUNCTYPE(_pointer, _pointer, _pointer, _size)),
        ("free", ctypes.CFUNCTYPE(None, _pointer, _pointer, _size)),
    )


class _Handler(ctypes.Structure):
    _fields_ = (("name", ctypes.c_char * 127), ("version", ctypes.c_uint8), ("allocator", _Allocator))


_kinds = [kind for _, kind in _Allocator._fields_[1:]]
_calls = [kind(call) for kind, call in zip(_kinds, (_take, _take_zeros, _take_other, _give_back), strict=True)]
_handler = _Handler(b"fenced", 1, _Allocator(None, *_calls))


def fence() -> None:
    """From now on, for this thread and those it starts."""
    capsule = ctypes.pythonapi.PyCapsule_New
    capsule.restype, capsule.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    table = ctypes.cast(pointer(np._core._multiarray_umath._ARRAY_API, None), ctypes.POINTER(ctypes.c_void_p))
    use = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.py_object)(table[_SET_HANDLER])
    use(capsule(ctypes.addressof(_handler), b"mem_handler", None))


def _copied(original: Any) -> Any:
    """`np.frombuffer`, of a copy: what bytes and Arrow hold lies in no array of NumPy."""

    def frombuffer(*args: Any, **kwargs: Any) -> Any:
        found = original(*args, **kwargs)
        copy = found.copy()
        copy.setflags(write=found.flags.writeable)
        return copy

    return frombuffer


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call() -> Any:
    fence()
    return (yield)


@pytest.hookimpl(trylast=True)
def pytest_unconfigure(config: pytest.Config) -> None:
    """Arrays that outlive the interpreter would be freed by Python code that is gone."""
    os._exit(_ended["status"])


_ended = {"status": 1}


def pytest_sessionfinish(exitstatus: int) -> None:
    _ended["status"] = int(exitstatus)


np.frombuffer = _copied(np.frombuffer)
fence()
