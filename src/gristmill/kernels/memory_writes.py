"""Writes of several bytes at once at any offset of a view, as `memory` reads them."""

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils as _cgutils
from numba.extending import intrinsic

from gristmill.kernels.memory import pointer, require_view

cgutils: Any = _cgutils


def _store(view: Any, offset: Any, value: Any, bits: int) -> Any:
    """Returns type and code for writing the low `bits` bits of `value`, `offset` bytes after the start of a view.

    Any alignment is allowed.
    """
    require_view(view)

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        size = ir.Constant(ir.IntType(64), bits // 8)
        value = args[2] if bits == 64 else builder.trunc(args[2], ir.IntType(bits))
        builder.store(value, pointer(builder, args[0], args[1], size, ir.IntType(bits)), align=1)
        return context.get_dummy_value()

    wide = types.uint64 if bits == 64 else types.int64
    return types.void(view, types.int64, wide), codegen


def _put_byte(context: Any, view: Any, offset: Any, value: Any) -> Any:
    """Writes one byte."""
    return _store(view, offset, value, 8)


def _put_four_bytes(context: Any, view: Any, offset: Any, value: Any) -> Any:
    """Writes the low four bytes of a number, little-endian."""
    return _store(view, offset, value, 32)


def _put_eight_bytes(context: Any, view: Any, offset: Any, value: Any) -> Any:
    """Writes a uint64, little-endian."""
    return _store(view, offset, value, 64)


def _copy_bytes(context: Any, target: Any, at: Any, source: Any, begin: Any, size: Any) -> Any:
    """Copies `size` bytes from offset `begin` of the view `source` to offset `at` of the view `target`.

    This is one call of the C library. An assignment between slices of arrays does the same, but takes 7 s to compile.
    """
    require_view(target, source)

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        to = pointer(builder, args[0], args[1], args[4], ir.IntType(8))
        origin = pointer(builder, args[2], args[3], args[4], ir.IntType(8))
        cgutils.raw_memcpy(builder, to, origin, args[4], 1)
        return context.get_dummy_value()

    return types.void(target, types.int64, source, types.int64, types.int64), codegen


# A kernel calls an intrinsic without the context argument, which no type can express.
put_byte: Any = intrinsic(_put_byte)
put_four_bytes: Any = intrinsic(_put_four_bytes)
put_eight_bytes: Any = intrinsic(_put_eight_bytes)
copy_bytes: Any = intrinsic(_copy_bytes)
