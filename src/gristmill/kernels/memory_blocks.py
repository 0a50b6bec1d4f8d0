"""Tests 64 bytes of a view at once: one bit for each, the first one lowest; LLVM uses the processor's vector
instructions.
"""

from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils as _cgutils
from numba.extending import intrinsic

from gristmill.kernels.memory import pointer, require_view

cgutils: Any = _cgutils

BLOCK = 64
_BLOCK: Any = ir.VectorType(ir.IntType(8), BLOCK)


def _same(value: int) -> Any:
    return ir.Constant(_BLOCK, [value] * BLOCK)


def _spread(builder: Any, value: Any) -> Any:
    """Repeats the low byte of a number 64 times."""
    lanes = ir.VectorType(ir.IntType(32), BLOCK)
    nothing = ir.Constant(_BLOCK, ir.Undefined)
    single = builder.insert_element(nothing, builder.trunc(value, ir.IntType(8)), ir.Constant(ir.IntType(32), 0))
    return builder.shuffle_vector(single, nothing, ir.Constant(lanes, [0] * BLOCK))


def _is(builder: Any, found: Any, sign: str) -> Any:
    return builder.icmp_unsigned("==", found, _same(ord(sign)))


def _is_word(builder: Any, found: Any) -> Any:
    """Selects ASCII letters, digits and `_`."""
    folded = builder.sub(builder.or_(found, _same(32)), _same(ord("a")))
    letters = builder.icmp_unsigned("<", folded, _same(26))
    digits = builder.icmp_unsigned("<", builder.sub(found, _same(ord("0"))), _same(10))
    return builder.or_(builder.or_(letters, digits), _is(builder, found, "_"))


def _quarters(builder: Any, block: Any) -> list[Any]:
    """Splits 64 bytes into four times sixteen."""
    lanes = ir.VectorType(ir.IntType(32), 16)
    return [
        builder.shuffle_vector(block, block, ir.Constant(lanes, [*range(at, at + 16)])) for at in range(0, BLOCK, 16)
    ]


def _joined(builder: Any, parts: list[Any]) -> Any:
    """Joins four times sixteen bytes into 64."""
    # Join neighbours until one vector is left.
    while len(parts) > 1:
        lanes = ir.VectorType(ir.IntType(32), 2 * parts[0].type.count)
        order = ir.Constant(lanes, [*range(lanes.count)])
        parts = [builder.shuffle_vector(*parts[at : at + 2], order) for at in range(0, len(parts), 2)]
    return parts[0]


def _one_bit_each(builder: Any, lanes: Any) -> Any:
    """Packs 64 truth values into the bits of a number."""
    if not builder.module.triple.startswith("aarch64"):
        return builder.bitcast(lanes, ir.IntType(64))
    # LLVM combines four sums of sixteen lanes through memory; pairs added three times stay in one register.
    weights = ir.Constant(_BLOCK, [1 << lane % 8 for lane in range(BLOCK)])
    weighed = builder.select(lanes, weights, _same(0))
    kind = ir.VectorType(ir.IntType(8), 16)
    add = cgutils.get_or_insert_function(
        builder.module, ir.FunctionType(kind, [kind, kind]), "llvm.aarch64.neon.addp.v16i8"
    )
    parts = _quarters(builder, weighed)
    halves = [builder.call(add, parts[:2]), builder.call(add, parts[2:])]
    quarter = builder.call(add, halves)
    last = builder.call(add, [quarter, quarter])
    numbers = builder.bitcast(last, ir.VectorType(ir.IntType(64), 2))
    return builder.extract_element(numbers, ir.Constant(ir.IntType(32), 0))


def _bits_of(given: tuple[Any, ...], chosen: Callable[[Any, Any, Any], Any]) -> Any:
    """Returns type and code for a mask of selected bytes. `given`: the view, an index, and further arguments of the
    selection.
    """
    require_view(given[0])

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        size = ir.Constant(ir.IntType(64), BLOCK)
        found = builder.load(pointer(builder, args[0], args[1], size, _BLOCK), align=1)
        return _one_bit_each(builder, chosen(builder, found, args[2:]))

    return types.uint64(given[0], *[types.int64] * (len(given) - 1)), codegen


def _word_bits(context: Any, view: Any, index: Any) -> Any:
    """Returns a mask of the 64 bytes from `index` on that are ASCII letters, digits or `_`."""

    return _bits_of((view, index), lambda builder, found, _: _is_word(builder, found))


def _wide_bits(context: Any, view: Any, index: Any) -> Any:
    """Returns a mask of the 64 bytes from `index` on that are neither printable ASCII nor white space."""

    def chosen(builder: Any, found: Any, _: Any) -> Any:
        add = cgutils.get_or_insert_function(
            builder.module, ir.FunctionType(_BLOCK, [_BLOCK, _BLOCK]), "llvm.uadd.sat.v64i8"
        )
        after = builder.call(add, [found, _same(1)])  # 0x7F becomes negative, like all bytes above it
        if not builder.module.triple.startswith("aarch64"):
            low = builder.icmp_signed("<", after, _same(ord("\t") + 1))
            return builder.or_(low, builder.icmp_unsigned("<", builder.sub(found, _same(14)), _same(18)))
        kind = ir.VectorType(ir.IntType(8), 16)
        look = cgutils.get_or_insert_function(
            builder.module, ir.FunctionType(kind, [kind] * 3), "llvm.aarch64.neon.tbl2.v16i8"
        )
        halves = [
            ir.Constant(kind, [0 if 8 < byte < 14 else 128 for byte in part]) for part in (range(16), range(16, 32))
        ]
        parts = [builder.call(look, [*halves, part]) for part in _quarters(builder, found)]
        return builder.icmp_signed("<", builder.or_(after, _joined(builder, parts)), _same(0))

    return _bits_of((view, index), chosen)


def _bytes_in(context: Any, view: Any, index: Any, fold: Any, low: Any, span: Any) -> Any:
    """Returns a mask of the 64 bytes from `index` on that, with the bits of `fold` set, are among the `span` values
    from `low` on.
    """

    def chosen(builder: Any, found: Any, given: Any) -> Any:
        fold, low, span = (_spread(builder, one) for one in given)
        return builder.icmp_unsigned("<", builder.sub(builder.or_(found, fold), low), span)

    return _bits_of((view, index, fold, low, span), chosen)


def _prefetch(context: Any, view: Any, index: Any) -> Any:
    """Requests the cache line `index` bytes after the start of a view, without waiting for it."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        number, byte = ir.IntType(32), ir.IntType(8)
        kind = ir.FunctionType(ir.VoidType(), [byte.as_pointer(), number, number, number])
        call = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0i8")
        place = pointer(builder, args[0], args[1], ir.Constant(ir.IntType(64), 1), byte)
        builder.call(call, [place, number(0), number(3), number(1)])
        return context.get_dummy_value()

    return types.void(view, types.int64), codegen


# A kernel calls an intrinsic without the context argument, which no type can express.
word_bits: Any = intrinsic(_word_bits)
wide_bits: Any = intrinsic(_wide_bits)
bytes_in: Any = intrinsic(_bytes_in)
prefetch: Any = intrinsic(_prefetch)
