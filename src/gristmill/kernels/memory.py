"""Memory without reference counts, for compiled loops.

Numba counts references atomically whenever an array is passed to a function, and the calls that do it keep LLVM from
inlining small functions. A scan that looks at each character through a function cannot afford it (measured: 4 MB/s of
text with arrays, 50 MB/s with addresses). So the innermost functions take the address of an array instead of the
array.

An address keeps nothing alive, and Numba frees an array behind the last use of its name. A caller's arrays live until
the call returns, so `address_of` and `borrow` take parameters of the function that they stand in, and nothing else;
scratch is allocated by whoever calls. tests/laws/test_lifetimes.py holds all kernels to it. Every access goes through
`pointer`, where tests put a check of its bounds.
"""

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils as _cgutils
from numba.core.errors import TypingError
from numba.extending import intrinsic

cgutils: Any = _cgutils


def number_of(context: Any, builder: Any, array: Any, value: Any) -> Any:
    """Code of: the address of an array's first element."""
    return builder.ptrtoint(context.make_array(array)(context, builder, value).data, ir.IntType(64))


def pointer(builder: Any, address: Any, offset: Any, size: Any, kind: Any) -> Any:
    """Code of: the place for `size` bytes, `offset` bytes from `address`, to load from or to store at."""
    return builder.inttoptr(builder.add(address, offset), kind.as_pointer())


def _load(address: Any, index: Any, bits: int, step: int) -> Any:
    """Type and code of: the unsigned integer of `bits` bits that lies `index` times `step` bytes from `address`.

    Any alignment; little-endian, as every machine that Numba compiles for.
    """
    if not (isinstance(address, types.Integer) and isinstance(index, types.Integer)):
        raise TypingError("an address and an index are integers")

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        offset = builder.mul(args[1], ir.Constant(ir.IntType(64), step))
        size = ir.Constant(ir.IntType(64), bits // 8)
        loaded = builder.load(pointer(builder, args[0], offset, size, ir.IntType(bits)), align=1)
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


def _leading_zeros(context: Any, value: Any) -> Any:
    """Zero bits above the highest one of an unsigned 64-bit number; 64 for 0."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.ctlz(args[0], ir.Constant(ir.IntType(1), 0))

    return types.int64(types.uint64), codegen


def _address_of(context: Any, array: Any) -> Any:
    """The address of the first element of a contiguous array."""
    if not isinstance(array, types.Array) or array.layout != "C":
        raise TypingError("address_of takes a contiguous array")

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return number_of(context, builder, array, args[0])

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
leading_zeros: Any = intrinsic(_leading_zeros)
address_of: Any = intrinsic(_address_of)
borrow: Any = intrinsic(_borrow)
