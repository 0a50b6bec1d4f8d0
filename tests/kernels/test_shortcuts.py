"""The shorter ways through Numba's compiler end where its own do."""

import itertools
import operator

import pytest
from numba import types
from numba.core import compiler, postproc
from numba.core.errors import TypingError
from numba.core.registry import cpu_target

from gristmill.kernels import shortcuts
from gristmill.kernels.text.words import token_end

SCALARS = [types.int64, types.uint8, types.uint64, types.float64, types.boolean]
CONSTANTS = [types.literal(1), types.literal(-3)]
OPERATORS = [
    *(operator.add, operator.sub, operator.mul, operator.floordiv, operator.truediv, operator.mod, operator.pow),
    *(operator.lt, operator.eq, operator.and_, operator.xor, operator.lshift, operator.rshift, operator.iadd),
]


@pytest.fixture
def typing():
    cpu_target.target_context.refresh()
    return cpu_target.typing_context


def found_by(way, *about):
    try:
        return way(*about)
    except TypingError:
        return None


def test_a_call_has_the_type_that_numba_finds(typing):
    """This holds for the first call and from memory, with and without constants, and if there is no type."""
    for function in OPERATORS:
        known = typing.resolve_value_type(function)
        for args in itertools.product(SCALARS + CONSTANTS, repeat=2):
            expected = found_by(known.get_call_type, typing, args, {})
            for _ in range(2):
                assert found_by(shortcuts._call_type, known, typing, args, {}) == expected, (function, args)


def test_a_call_that_cannot_be_is_refused_every_time(typing):
    known = typing.resolve_value_type(operator.add)
    for _ in range(2):
        with pytest.raises(TypingError, match="No implementation of function"):
            shortcuts._call_type(known, typing, (types.int64, types.none), {})


def test_lifetimes_are_available_on_request():
    """They equal those that Numba computes at once."""
    ours, theirs = (compiler.run_frontend(token_end.py_func) for _ in range(2))
    shortcuts._lifetimes_when_asked(postproc.PostProcessor(ours))
    postproc.PostProcessor(theirs).run()
    assert ours.variable_lifetime.livemap == theirs.variable_lifetime.livemap
    assert list(ours.blocks) == list(theirs.blocks)


def test_types_have_the_size_that_llvm_says():
    context = cpu_target.target_context
    for kind in [*SCALARS, types.Array(types.uint8, 2, "C"), types.UniTuple(types.int8, 3)]:
        known = context.get_value_type(kind)
        assert [shortcuts._abi_size(context, known) for _ in range(2)] == [context.get_abi_sizeof(known)] * 2
