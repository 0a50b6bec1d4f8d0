"""Views of memory without reference counts, for compiled loops.

Numba counts references atomically whenever an array is passed to a function, and the calls that do it keep LLVM from
inlining small functions. A scan that looks at each character through a function cannot afford that (measured: 4 MB/s of
text with arrays, 50 MB/s with views). So the innermost functions take a *view*: the address of an array's first
element, typed by the element. `view(array)[i]` reads element i, and `view(array)[i] = value` writes it. The functions
below read several bytes at once, at any offset. No address appears outside of `memory*.py`.

An index is not checked, and a negative one does not count from the end: these two checks keep LLVM from joining eight
stores of one byte into one store of eight (measured on white space: 450 MB/s of text with arrays, 615 MB/s with views).

A view keeps nothing alive, and Numba frees an array after the last use of its name. A caller's arrays live until the
call returns, so `view` and `borrow` only take parameters of the function that calls them, and the caller allocates
scratch arrays. tests/laws/test_lifetimes.py checks all kernels for this. Every access goes through `pointer`, where
tests add a bounds check.
"""

import operator
from typing import Any, Protocol

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils as _cgutils
from numba.core.errors import TypingError
from numba.core.typing.templates import AbstractTemplate, infer_global
from numba.extending import intrinsic, lower_builtin, models, register_model

cgutils: Any = _cgutils
_template: Any = AbstractTemplate
_infer: Any = infer_global
_lower: Any = lower_builtin
_tuples: Any = types.BaseTuple


class Bytes(Protocol):
    """A view of bytes, for type checkers; an element is an `int`."""

    def __getitem__(self, at: Any, /) -> int: ...
    def __setitem__(self, at: Any, value: Any, /) -> None: ...


class Ints(Bytes, Protocol):
    """A view of integers of 16 or 32 bits, or of int64."""


class Uint64s(Protocol):
    """A view of uint64."""

    def __getitem__(self, at: Any, /) -> np.uint64: ...
    def __setitem__(self, at: Any, value: Any, /) -> None: ...


class MemoryView(types.Type):
    """Numba's type of a view: the address of the first element, a 64-bit integer."""

    def __init__(self, element: Any) -> None:
        self.element = element
        super().__init__(name=f"view({element})")

    @property
    def read_as(self) -> Any:
        """The type of an element that was read: 64 bits are kept, fewer are widened to int64."""
        return self.element if self.element.bitwidth == 64 else types.int64


@register_model(MemoryView)
class _ViewModel(models.PrimitiveModel):
    def __init__(self, manager: Any, kind: Any) -> None:
        super().__init__(manager, kind, ir.IntType(64))  # type: ignore[no-untyped-call]


def number_of(context: Any, builder: Any, array: Any, value: Any) -> Any:
    """Generates code for the address of an array's first element."""
    return builder.ptrtoint(context.make_array(array)(context, builder, value).data, ir.IntType(64))


def pointer(builder: Any, address: Any, offset: Any, size: Any, kind: Any) -> Any:
    """Generates code for a pointer to `size` bytes, `offset` bytes after `address`."""
    return builder.inttoptr(builder.add(address, offset), kind.as_pointer())


def require_view(*views: Any) -> None:
    """Raises a typing error for arguments that are not views."""
    if not all(isinstance(one, MemoryView) for one in views):
        raise TypingError("the first argument must be a view: use view(array)")


@_infer(operator.getitem)
class _GetItem(_template):  # type: ignore[misc]
    def generic(self, args: Any, kws: Any) -> Any:
        if isinstance(args[0], MemoryView) and isinstance(args[1], types.Integer):
            return args[0].read_as(args[0], types.int64)
        return None


@_infer(operator.setitem)
class _SetItem(_template):  # type: ignore[misc]
    def generic(self, args: Any, kws: Any) -> Any:
        if isinstance(args[0], MemoryView) and isinstance(args[1], types.Integer):
            return types.void(args[0], types.int64, args[0].read_as)
        return None


def _place(builder: Any, view: Any, args: Any) -> Any:
    """Generates code for a pointer to one element of a view."""
    size = ir.Constant(ir.IntType(64), view.element.bitwidth // 8)
    return pointer(builder, args[0], builder.mul(args[1], size), size, ir.IntType(view.element.bitwidth))


@_lower(operator.getitem, MemoryView, types.Integer)  # type: ignore[untyped-decorator]
def _get(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    element = signature.args[0].element
    loaded = builder.load(_place(builder, signature.args[0], args), align=1)
    if element.bitwidth == 64:
        return loaded
    return (builder.sext if element.signed else builder.zext)(loaded, ir.IntType(64))


@_lower(operator.setitem, MemoryView, types.Integer, types.Integer)  # type: ignore[untyped-decorator]
def _set(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    bits = signature.args[0].element.bitwidth
    value = args[2] if bits == 64 else builder.trunc(args[2], ir.IntType(bits))
    builder.store(value, _place(builder, signature.args[0], args), align=1)
    return context.get_dummy_value()


def _load(view: Any, offset: Any, bits: int) -> Any:
    """Returns type and code for reading an unsigned integer of `bits` bits, `offset` bytes after the start of a view.

    Any alignment is allowed. Bytes are little-endian, as on every machine that Numba compiles for.
    """
    require_view(view)

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        size = ir.Constant(ir.IntType(64), bits // 8)
        loaded = builder.load(pointer(builder, args[0], args[1], size, ir.IntType(bits)), align=1)
        return loaded if bits == 64 else builder.zext(loaded, ir.IntType(64))

    result = types.uint64 if bits == 64 else types.int64
    return result(view, types.int64), codegen


def _byte_at(context: Any, view: Any, offset: Any) -> Any:
    """Reads one byte, as int64."""
    return _load(view, offset, 8)


def _four_bytes_at(context: Any, view: Any, offset: Any) -> Any:
    """Reads four bytes from byte `offset` on, as int64."""
    return _load(view, offset, 32)


def _eight_bytes_at(context: Any, view: Any, offset: Any) -> Any:
    """Reads eight bytes from byte `offset` on, as uint64."""
    return _load(view, offset, 64)


def _trailing_zeros(context: Any, value: Any) -> Any:
    """Counts the zero bits below the lowest set bit of a uint64; 64 for 0."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.cttz(args[0], ir.Constant(ir.IntType(1), 0))

    return types.int64(types.uint64), codegen


def _leading_zeros(context: Any, value: Any) -> Any:
    """Counts the zero bits above the highest set bit of a uint64; 64 for 0."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.ctlz(args[0], ir.Constant(ir.IntType(1), 0))

    return types.int64(types.uint64), codegen


def _view(context: Any, viewed: Any) -> Any:
    """Returns a view of a contiguous array; an array of several dimensions is read row after row. Of a named tuple it
    returns the same tuple with views of its arrays.
    """

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return _viewed(context, builder, viewed, args[0])

    return _type_of_view(viewed)(viewed), codegen


def _type_of_view(kind: Any) -> Any:
    if _is_named(kind):
        parts = [_type_of_view(one) if isinstance(one, types.Array) or _is_named(one) else one for one in kind]
        return _tuples.from_types(parts, kind.instance_class)
    if not isinstance(kind, types.Array) or kind.layout != "C":
        raise TypingError("view takes a contiguous array, or a named tuple")
    return MemoryView(kind.dtype)


def _viewed(context: Any, builder: Any, kind: Any, value: Any) -> Any:
    """Generates code for a view of a value."""
    if isinstance(kind, types.Array):
        return number_of(context, builder, kind, value)
    if not _is_named(kind):
        return value
    parts = zip(kind, cgutils.unpack_tuple(builder, value), strict=True)
    return context.make_tuple(builder, _type_of_view(kind), [_viewed(context, builder, *part) for part in parts])


def _is_named(kind: Any) -> bool:
    return isinstance(kind, types.BaseNamedTuple)


def _tail(context: Any, view: Any, first: Any) -> Any:
    """Returns a view of the elements from number `first` on."""
    require_view(view)

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        size = ir.Constant(ir.IntType(64), view.element.bitwidth // 8)
        return builder.add(args[0], builder.mul(args[1], size))

    return view(view, types.int64), codegen


def _borrow(context: Any, array: Any) -> Any:
    """Returns the same array without its owner, for arguments of a kernel, which the caller owns."""
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


# A kernel calls an intrinsic without the context argument, which no type can express.
byte_at: Any = intrinsic(_byte_at)
four_bytes_at: Any = intrinsic(_four_bytes_at)
eight_bytes_at: Any = intrinsic(_eight_bytes_at)
trailing_zeros: Any = intrinsic(_trailing_zeros)
leading_zeros: Any = intrinsic(_leading_zeros)
view: Any = intrinsic(_view)
tail: Any = intrinsic(_tail)
borrow: Any = intrinsic(_borrow)
