"""Shorter ways through Numba's compiler end where its own do."""

import functools
import itertools
import operator

import numpy as np
import pytest
from numba import njit, types
from numba.core import base, compiler, dispatcher, errors, ir, postproc, typed_passes
from numba.core.errors import TypingError
from numba.core.registry import cpu_target
from numba.core.runtime.context import NRTContext
from numba.core.types.functions import BaseFunction

from gristmill.kernels import shortcuts
from gristmill.kernels.text.words import decode, token_end

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


def numbas(place, name):
    return shortcuts._plain[place, name]


def found_by(way, *about):
    try:
        return way(*about)
    except TypingError:
        return None


def test_a_call_has_the_type_that_numba_finds(typing):
    """The first time and from memory, with constants and without; also where there is none."""
    plain = numbas(BaseFunction, "get_call_type")
    for function in OPERATORS:
        known = typing.resolve_value_type(function)
        for args in itertools.product(SCALARS + CONSTANTS, repeat=2):
            asked = found_by(plain, known, typing, args, {})
            for _ in range(2):
                assert found_by(shortcuts._call_type, known, typing, args, {}) == asked, (function, args)


def test_a_call_that_cannot_be_is_refused_every_time(typing):
    known = typing.resolve_value_type(operator.add)
    for _ in range(2):
        with pytest.raises(TypingError, match="No implementation of function"):
            shortcuts._call_type(known, typing, (types.int64, types.none), {})


@pytest.mark.parametrize("kernel", [decode, token_end])
def test_statements_have_the_variables_that_numba_finds(kernel):
    blocks = compiler.run_frontend(kernel.py_func).blocks.values()
    statements = [statement for block in blocks for statement in block.body]
    plain = numbas(ir.Inst, "_rec_list_vars")
    for statement in statements:
        for item in (statement.__dict__, statement, list(statement.__dict__.values())):
            assert shortcuts._variables(statement, item) == plain(statement, item)
    assert any(shortcuts._variables(statement, statement.__dict__) for statement in statements)


def test_lifetimes_are_there_when_asked_for():
    """The same as those that Numba works out at once."""
    ours, theirs = (compiler.run_frontend(token_end.py_func) for _ in range(2))
    shortcuts._lifetimes_when_asked(postproc.PostProcessor(ours))
    numbas(postproc.PostProcessor, "run")(postproc.PostProcessor(theirs))
    assert ours.variable_lifetime.livemap == theirs.variable_lifetime.livemap
    assert list(ours.blocks) == list(theirs.blocks)


def test_settings_are_equal_by_what_they_mean():
    """What is set to its default is as good as not set."""
    first, second = compiler.Flags(), compiler.Flags()
    second.nrt = False
    assert first == second
    assert hash(first) == hash(second)
    second.nrt = True
    assert first != second
    assert first != 1


def test_types_have_the_size_that_llvm_says():
    context = cpu_target.target_context
    plain = numbas(base.BaseContext, "get_abi_sizeof")
    for kind in [*SCALARS, types.Array(types.uint8, 2, "C"), types.UniTuple(types.int8, 3)]:
        known = context.get_value_type(kind)
        assert [context.get_abi_sizeof(known) for _ in range(2)] == [plain(context, known)] * 2


def test_references_are_counted_where_there_are_some(monkeypatch):
    asked = []
    monkeypatch.setitem(shortcuts._plain, (NRTContext, "_call_incref_decref"), lambda *args: asked.append(args[2]))
    array = types.Array(types.uint8, 1, "C")
    kinds = [types.int64, array, types.UniTuple(types.int64, 2), types.Tuple([types.int64, array])]
    for kind in kinds:
        shortcuts._count_references(NRTContext(cpu_target.target_context, True), None, kind, None, "")
    assert asked == [array, types.Tuple([types.int64, array])]


def test_what_is_registered_later_is_found(typing):
    """A refresh that has nothing to do is skipped; one that has something is not."""
    from numba.extending import overload

    def twice(x):
        raise NotImplementedError

    @overload(twice)
    def _twice(x):
        return lambda x: x + x

    assert njit(lambda x: twice(x))(4) == 8


def test_implementations_are_told_their_place_where_they_ask_for_it():
    def asks(context, builder, sig, args, loc=None): ...

    def asks_not(context, builder, sig, args):
        for loc in args:
            print(loc)

    plain = numbas(base, "_has_loc")
    for function in (asks, asks_not, functools.partial(asks, 1), functools.wraps(asks)(lambda *args: args)):
        assert shortcuts._takes_place(function) == plain(function)


@pytest.mark.parametrize("way", [shortcuts._Place, errors.new_error_context])
def test_an_error_says_where_it_happened(way):
    """In the words that Numba uses; other errors are left as they are."""
    place = ir.Loc("file.py", 3)
    told = pytest.raises(TypingError, match=r"(?s)wrong.*During: typing of x at .*file\.py \(3\)")
    with told, way("typing of {name} at {loc}", name="x", loc=place):
        raise TypingError("wrong")
    with pytest.raises(ValueError, match=r"^other$"), way("typing at {loc}", loc=place):
        raise ValueError("other")


def test_operations_on_arrays_are_fused_as_numba_does():
    """Functions that have some are rewritten, the others need not be."""

    def fused(x, y):
        return (x + y) * x - y

    def plain(x, y):
        return (x[0] + y[0]) * x[1]

    numbers = np.arange(5.0), np.arange(5.0) * 3
    asked = []
    with pytest.MonkeyPatch.context() as patch:
        original = numbas(typed_passes.NopythonRewrites, "run_pass")
        key = (typed_passes.NopythonRewrites, "run_pass")
        patch.setitem(shortcuts._plain, key, lambda self, state: asked.append(state.func_id) or original(self, state))
        assert (njit(fused)(*numbers) == fused(*numbers)).all()
        assert njit(plain)(*numbers) == plain(*numbers)
    names = [about.func_name for about in asked]
    assert "fused" in names
    assert "plain" not in names


def test_every_shortcut_is_taken_and_can_be_left():
    """Numba's own ways give the same array, in a function that is compiled anew."""

    def count(text):
        counts = np.zeros(256, np.int64)
        for byte in text:
            counts[byte] += max(1, byte & 3)
        return counts

    text = np.frombuffer(b"what the shortcuts may not change", np.uint8)
    found = njit(count)(text)
    assert typed_passes.AnnotateTypes.run_pass is shortcuts._no_annotation
    shortcuts.leave_shortcuts()
    try:
        assert typed_passes.AnnotateTypes.run_pass is not shortcuts._no_annotation
        assert not isinstance(dispatcher.ev, shortcuts._Quiet)
        assert (njit(count)(text) == found).all()
    finally:
        shortcuts.take_shortcuts()
    assert isinstance(dispatcher.ev, shortcuts._Quiet)


def test_functions_that_are_in_no_module_are_compiled():
    """As those that a user makes of a string."""
    made = {"njit": njit}
    exec("@njit\ndef twice(x):\n    return 2 * x\n\n@njit\ndef more(x):\n    return twice(x) + 1\n", made)
    assert made["more"].__module__ is None
    assert made["more"](20) == 41
