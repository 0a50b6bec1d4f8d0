"""Calls of C functions by their address, from compiled loops.

The address is an argument, so compiled code can be stored and used by processes that load a library elsewhere. A
pointer is passed as an integer of 64 bits, and memory that the function writes is passed as a view.
"""

from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

_POINTER, _INDEX, _DOUBLE = ir.IntType(64), ir.IntType(32), ir.DoubleType()


def _call(result: Any, numba_result: Any, outs: int, has_index: bool = True, index: Any = _INDEX) -> Any:
    """An intrinsic for a C function of a pointer, an index if there is one, and pointers to results."""

    def build(builder: Any, args: Any) -> Any:
        given = list(args[1:])
        if has_index and index == _INDEX:
            given[1] = builder.trunc(given[1], _INDEX)
        kinds = [_POINTER, index, *[_POINTER] * outs] if has_index else [_POINTER] * (1 + outs)
        function = builder.inttoptr(args[0], ir.FunctionType(result, kinds).as_pointer())
        found = builder.call(function, given)
        return builder.sext(found, ir.IntType(64)) if result == _INDEX else found

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return build(builder, args)

    if has_index and outs == 0:

        def of_index(context: Any, function: Any, pointer: Any, index: Any) -> Any:
            return numba_result(types.int64, types.int64, types.int64), codegen

        return intrinsic(of_index)
    if has_index and outs == 1:

        def with_one(context: Any, function: Any, pointer: Any, index: Any, out: Any) -> Any:
            return numba_result(types.int64, types.int64, types.int64, out), codegen

        return intrinsic(with_one)
    if has_index:

        def with_two(context: Any, function: Any, pointer: Any, index: Any, out: Any, other: Any) -> Any:
            return numba_result(types.int64, types.int64, types.int64, out, other), codegen

        return intrinsic(with_two)

    def of_pointer(context: Any, function: Any, pointer: Any) -> Any:
        return numba_result(types.int64, types.int64), codegen

    return intrinsic(of_pointer)


call_int: Any = _call(_INDEX, types.int64, 0)
call_double: Any = _call(_DOUBLE, types.float64, 0)
call_pointer: Any = _call(_POINTER, types.int64, 0)
call_pointer_at: Any = _call(_POINTER, types.int64, 0, index=_POINTER)
"""The same for a function whose index has 64 bits."""
call_with_out: Any = _call(_INDEX, types.int64, 1)
call_with_two_outs: Any = _call(_INDEX, types.int64, 2)
call_on: Any = _call(_POINTER, types.int64, 0, has_index=False)
"""A function of a pointer alone that returns a pointer."""
call_int_on: Any = _call(_INDEX, types.int64, 0, has_index=False)
"""A function of a pointer alone that returns an int."""
