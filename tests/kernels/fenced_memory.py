"""A plugin of pytest: every array of NumPy ends right before a page that cannot be read, and is gone when freed.

So a kernel that goes beyond an array, or on using one that is gone, crashes where it does so, with the machine code
that users run. FENCE=before lets arrays begin right behind such a page instead, FENCE=behind,before runs each test in
both ways. What Numba allocates itself comes from the C library: MALLOC_MMAP_THRESHOLD_ has freed memory unmapped there
too, and MALLOC_PERTURB_ overwrites the rest.
"""

import ctypes
import mmap
import os
from collections import deque
from typing import Any

import numpy as np
import pytest

PAGE = mmap.PAGESIZE
_NO_ACCESS = 0
SIDES = os.environ.get("FENCE", "behind").split(",")
_SET_HANDLER = 304  # PyDataMem_SetHandler in NumPy's table of C functions, which never changes its order

_libc = ctypes.CDLL(None, use_errno=True)
_libc.mmap.restype = ctypes.c_void_p
_libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_size_t]
_libc.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
_libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
_maps: dict[int, tuple[int, int, int]] = {}
"""Of each array by its address: where its pages begin, the bytes between its fences, and its own."""
_freed: dict[int, deque[int]] = {}
"""Unreadable pages by their size: the oldest are used again with their old content."""
WAITING = 64
"""Freed ones of a size before any is lent again: what goes on using one crashes until then."""
KEPT_BYTES = 16 * PAGE
"""Larger ones are unmapped."""
_ACCESS = mmap.PROT_READ | mmap.PROT_WRITE
_FAILED = ctypes.c_void_p(-1).value
_side = SIDES[:1]


def _take(_: Any, size: int) -> int:
    inside = (max(size, 1) + PAGE - 1) & -PAGE
    freed = _freed.get(inside)
    if freed is not None and len(freed) > WAITING:
        base = freed.popleft()
    else:
        base = _libc.mmap(None, inside + 2 * PAGE, _NO_ACCESS, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, -1, 0)
    if base == _FAILED or _libc.mprotect(base + PAGE, inside, _ACCESS):
        return 0
    address: int = base + PAGE + (0 if _side == ["before"] else inside - max(size, 1))
    _maps[address] = base, inside, size
    return address


def _give_back(_: Any, address: int | None, size: int) -> None:
    if not address:
        return
    base, inside, _ = _maps.pop(address)
    if inside > KEPT_BYTES:
        _libc.munmap(base, inside + 2 * PAGE)
    else:
        _libc.mprotect(base + PAGE, inside, _NO_ACCESS)
        _freed.setdefault(inside, deque()).append(base)


def _take_zeros(_: Any, number: int, size: int) -> int:
    address = _take(_, number * size)
    if address:
        ctypes.memset(address, 0, number * size)
    return address


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
    """`np.frombuffer` of a copy, because the memory of bytes and Arrow is not in a NumPy array."""

    def frombuffer(*args: Any, **kwargs: Any) -> Any:
        found = original(*args, **kwargs)
        copy = found.copy()
        copy.setflags(write=found.flags.writeable)
        return copy

    return frombuffer


@pytest.fixture(autouse=True, scope="session", params=SIDES)
def side(request: pytest.FixtureRequest) -> None:
    """Of the session, so that all tests of one side come before those of the other."""
    _side[:] = [request.param]


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
