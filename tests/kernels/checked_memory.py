"""A pytest plugin: every access of a kernel through an address is checked against the bounds of its array.

The highest 16 bits of an address are never used. Here they say which array it was taken of, and keep saying so through
all arithmetic, so that not even an access that hits another array is missed. A fault does not crash: the access goes to
spare memory, and the test that it happened in fails. Indexing is checked by Numba itself (NUMBA_BOUNDSCHECK=1).

Compiled code differs from the usual, so NUMBA_CACHE_DIR must name a separate folder:
NUMBA_CACHE_DIR=… NUMBA_BOUNDSCHECK=1 pytest -p tests.kernels.checked_memory tests/kernels
"""

from collections.abc import Generator
from typing import Any

import llvmlite.binding
import numba
import numpy as np
import pytest
from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

from gristmill.kernels import memory, memory_blocks, memory_writes
from gristmill.kernels.memory import MemoryView

ARRAYS = np.zeros((1 << 16, 2), np.uint64)
"""Begin and end of the arrays that were lent, by the number that their addresses carry."""
FAULT = np.zeros(5, np.uint64)
"""How many accesses were out of bounds; of the first: begin and end of its array, where it went, and its bytes."""
SPARE = np.zeros(1 << 24, np.uint8)
_ARRAYS, _FAULT, _SPARE = (np.uint64(one.ctypes.data) for one in (ARRAYS, FAULT, SPARE))
_LOW, _SHIFT = np.uint64((1 << 48) - 1), np.uint64(48)
_PROBES = 64


@intrinsic
def _numbers(context: Any, address: Any) -> Any:
    """Returns a view of the uint64 at an address."""
    return MemoryView(types.uint64)(types.uint64), lambda context, builder, signature, args: args[0]


@numba.cfunc("uint64(uint64, uint64)")
def _lend(begin: Any, size: Any) -> Any:
    """The address of an array with its number in it."""
    arrays = _numbers(_ARRAYS)
    end = begin + size
    first = np.int64((begin >> np.uint64(3)) ^ (end * np.uint64(0x9E3779B97F4A7C15) >> _SHIFT)) & 0xFFFF
    number = max(first, 1)
    for _ in range(_PROBES):
        known = arrays[2 * number]
        if known == 0 or (known == begin and arrays[2 * number + 1] == end):
            break
        number = max((number + 1) & 0xFFFF, 1)
    arrays[2 * number], arrays[2 * number + 1] = begin, end
    return np.uint64(number) << _SHIFT | begin


@numba.cfunc("uint64(uint64, int64, int64)")
def _place(address: Any, offset: Any, size: Any) -> Any:
    """Where an access goes: inside the array of the address, or to spare memory."""
    arrays, fault = _numbers(_ARRAYS), _numbers(_FAULT)
    number = np.int64(address >> _SHIFT)
    begin, end = np.int64(arrays[2 * number]), np.int64(arrays[2 * number + 1])
    at = np.int64(address & _LOW) + offset
    if number and begin <= at and at + size <= end and size >= 0:
        return np.uint64(at)
    if fault[0] == 0:
        fault[1], fault[2], fault[3], fault[4] = begin, end, at, size
    fault[0] += np.uint64(1)
    return _SPARE


llvmlite.binding.add_symbol("gristmill_lend", _lend.address)
llvmlite.binding.add_symbol("gristmill_place", _place.address)


def _call(builder: Any, name: str, *values: Any) -> Any:
    number = ir.IntType(64)
    kind = ir.FunctionType(number, [number] * len(values))
    return builder.call(cgutils.get_or_insert_function(builder.module, kind, name), values)


def number_of(context: Any, builder: Any, array: Any, value: Any) -> Any:
    found = context.make_array(array)(context, builder, value)
    begin = builder.ptrtoint(found.data, ir.IntType(64))
    return _call(builder, "gristmill_lend", begin, builder.mul(found.nitems, found.itemsize))


def pointer(builder: Any, address: Any, offset: Any, size: Any, kind: Any) -> Any:
    return builder.inttoptr(_call(builder, "gristmill_place", address, offset, size), kind.as_pointer())


memory.number_of = number_of
for module in (memory, memory_writes, memory_blocks):
    module.pointer = pointer


def what_went_wrong() -> str | None:
    """The faults since the last call."""
    count, begin, end, at, size = (int(one) for one in FAULT)
    FAULT[:] = 0
    if not count:
        return None
    return f"{count} accesses out of bounds, the first of {size} bytes at {at - begin} of an array of {end - begin}"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call() -> Generator[None, Any, Any]:
    ARRAYS[:] = 0
    result = yield
    fault = what_went_wrong()
    assert fault is None, fault
    return result
