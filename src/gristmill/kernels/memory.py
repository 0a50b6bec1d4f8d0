"""Memory without reference counts, for compiled loops.

Numba counts references atomically whenever an array is passed to a function, and the calls that do it keep LLVM from
inlining small functions. A scan that looks at each character through a function cannot afford it (measured: 4 MB/s of
text with arrays, 50 MB/s with addresses). So the innermost functions take the address of an array instead of the
array. An address is good as long as the array's owner lives: take one only of an argument of the outermost kernel.
"""

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils as _cgutils
from numba.core.errors import TypingError
from numba.extending import intrinsic

cgutils: Any = _cgutils


def _load(address: Any, index: Any, bits: int, step: int) -> Any:
    """Type and code of: the unsigned integer of `bits` bits that lies `index` times `step` bytes from `address`.

    Any alignment; little-endian, as every machine that Numba compiles for.
    """
    if not (isinstance(address, types.Integer) and isinstance(index, types.Integer)):
        raise TypingError("an address and an index are integers")

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        offset = builder.mul(args[1], ir.Constant(ir.IntType(64), step))
        pointer = builder.inttoptr(builder.add(args[0], offset), ir.IntType(bits).as_pointer())
        loaded = builder.load(pointer, align=1)
        return loaded if bits == 64 else builder.zext(loaded, ir.IntType(64))

    result = types.uint64 if bits == 64 else types.int64
    return result(types.uint64, types.int64), codegen


def _byte_at(context: Any, address: Any, index: Any) -> Any:
    """The byte at `index`, as a signed 64-bit number."""
    return _load(address, index, 8, 1)


def _half_at(context: Any, address: Any, index: Any) -> Any:
    """Number `index` of an array of uint16, as a signed 64-bit number."""
    return _load(address, index, 16, 2)


def _four_bytes_at(context: Any, address: Any, index: Any) -> Any:
    """Four bytes from byte `index` on, as a signed 64-bit number."""
    return _load(address, index, 32, 1)


def _eight_bytes_at(context: Any, address: Any, index: Any) -> Any:
    """Eight bytes from byte `index` on, as an unsigned 64-bit number."""
    return _load(address, index, 64, 1)


def _trailing_zeros(context: Any, value: Any) -> Any:
    """Zero bits below the lowest one of an unsigned 64-bit number; 64 for 0."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.cttz(args[0], ir.Constant(ir.IntType(1), 0))

    return types.int64(types.uint64), codegen


def _address_of(context: Any, array: Any) -> Any:
    """The address of the first element of a contiguous array."""
    if not isinstance(array, types.Array) or array.layout != "C":
        raise TypingError("address_of takes a contiguous array")

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        data = context.make_array(array)(context, builder, args[0]).data
        return builder.ptrtoint(data, ir.IntType(64))

    return types.uint64(array), codegen


def _borrow(context: Any, array: Any) -> Any:
    """The same array without its owner, for arguments of a kernel, whose owner is the caller."""
    if not isinstance(array, types.Array):
        raise TypingError("borrow takes an array")

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        owned = context.make_array(array)(context, builder, args[0])
        lent = context.make_array(array)(context, builder)
        cgutils.copy_struct(lent, owned)
        lent.meminfo = cgutils.get_null_value(lent.meminfo.type)
        lent.parent = cgutils.get_null_value(lent.parent.type)
        return lent._getvalue()

    return array(array), codegen


# A kernel calls an intrinsic without the context, which no type says.
byte_at: Any = intrinsic(_byte_at)
half_at: Any = intrinsic(_half_at)
four_bytes_at: Any = intrinsic(_four_bytes_at)
eight_bytes_at: Any = intrinsic(_eight_bytes_at)
trailing_zeros: Any = intrinsic(_trailing_zeros)
address_of: Any = intrinsic(_address_of)
borrow: Any = intrinsic(_borrow)
