"""Shorter ways through Numba's compiler: what it works out again and again is worked out once.

Two thirds of the time went into Python code of Numba's own, most of it into questions with known answers: which of
twenty templates adds two integers, how many bytes a type has, which references an integer holds. Nothing here changes
what a function does. These are ways through one series of Numba, the one that is tested; another one goes its own ways,
and compiles for half as long again.
"""

import operator
import sys
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from types import BuiltinFunctionType, FunctionType
from typing import Any

from llvmlite.binding import ffi
from numba import version_info
from numba.core import (
    base,
    codegen,
    dispatcher,
    errors,
    ir,
    lowering,
    postproc,
    targetconfig,
    transforms,
    typed_passes,
    typeinfer,
    types,
)
from numba.core.runtime.context import NRTContext
from numba.core.types.functions import BaseFunction

SERIES = (0, 68)
_SCALARS = (types.Number, types.Boolean)
_OPERATORS = {item for item in vars(operator).values() if callable(item)}
_OPERATIONS = {"binop", "inplace_binop", "unary", "call"}
_NO_VARIABLES = {str, int, float, bool, type(None), type, ir.Loc, type(ir.UNDEFINED), BuiltinFunctionType}

_listed: Callable[[Any], list[Any]] = operator.methodcaller("list_vars")
_settings: Callable[[], Any] = targetconfig.ConfigStack.top_or_none
_errors: Any = errors
_known_calls: dict[Any, Any] = {}
_known_sizes: dict[str, int] = {}
_known_references: dict[Any, bool] = {}
_plain: dict[tuple[Any, str], Any] = {}
"""What was there before."""


def _call_type(self: Any, context: Any, args: tuple[Any, ...], kws: dict[str, Any]) -> Any:
    """What a call of a function of Numba's gives; it tries one template after the other, and notes why each fails."""
    if self.typing_key in _OPERATORS and not kws:
        args = _without_constants(self, args)
    key = (self, context, args, tuple(kws.items()), _settings())
    found = _known_calls.get(key)
    if found is None:
        found = _known_calls[key] = _plain[BaseFunction, "get_call_type"](self, context, args, kws)
    return found


def _without_constants(function: Any, args: tuple[Any, ...]) -> tuple[Any, ...]:
    """To add 1 and to add 2 is the same, unless a template asks for constants or there are only constants."""
    plain = tuple(map(types.unliteral, args))
    constants = sum(isinstance(item, types.Literal) for item in args)
    if not 0 < constants < len(args) or not all(isinstance(item, _SCALARS) for item in plain):
        return args
    return args if any(template.prefer_literal for template in function.templates) else plain


def _variables(self: Any, item: Any) -> list[Any]:
    """The variables in a part of a statement."""
    if isinstance(item, dict):
        item = item.values()
    elif isinstance(item, ir.Var):
        return [item]
    elif isinstance(item, ir.Inst):
        return _listed(item)
    elif not isinstance(item, (list, tuple)):
        return []
    found: list[Any] = []
    for inner in item:
        kind = type(inner)
        if kind is ir.Var:
            found.append(inner)
        elif kind not in _NO_VARIABLES:
            found += _variables(self, inner)
    return found


def _lifetimes_when_asked(self: Any, emit_dels: bool = False, extend_lifetimes: bool = False) -> None:
    """Nine passes leave the lifetimes of all variables behind; two use them."""
    if emit_dels or self.func_ir.is_generator:
        _plain[postproc.PostProcessor, "run"](self, emit_dels, extend_lifetimes)
        return
    self.func_ir.blocks = transforms.canonicalize_cfg(self.func_ir.blocks)  # type: ignore[no-untyped-call]
    self.func_ir.variable_lifetime = postproc.VariableLifetime(self.func_ir.blocks)  # type: ignore[no-untyped-call]
    self.func_ir.generator_info = None


def _equal_settings(self: Any, other: Any) -> Any:
    """Numba compares the settings of its compilers 200,000 times, all of them; few are set."""
    if type(self) is not type(other):
        return _plain[targetconfig.TargetConfig, "__eq__"](self, other)
    mine, theirs = self._values, other._values
    return mine == theirs or all(getattr(self, name) == getattr(other, name) for name in {*mine, *theirs})


def _hash_of_settings(self: Any) -> int:
    """Numba hashes the names of all settings, which are the same for all of a class."""
    return hash(type(self).__name__)


def _abi_size(self: Any, kind: Any) -> int:
    """The bytes of a type, for which Numba has LLVM read a module."""
    name = f"{self.target_data} {kind}"
    if name not in _known_sizes:
        _known_sizes[name] = _plain[base.BaseContext, "get_abi_sizeof"](self, kind)
    return _known_sizes[name]


def _count_references(self: Any, builder: Any, kind: Any, value: Any, name: str) -> None:
    """Most values hold no reference, and nothing is to be counted."""
    if kind not in _known_references:
        _known_references[kind] = self._context.data_model_manager[kind].contains_nrt_meminfo()
    if _known_references[kind]:
        _plain[NRTContext, "_call_incref_decref"](self, builder, kind, value, name)


def _refresh(self: Any) -> None:
    """Numba looks for new definitions before every function, and whenever one is not found."""
    now = _registered(self)
    if self.typing_context.__dict__.get("_registered") != now:
        _plain[base.BaseContext, "refresh"](self)
        self.typing_context._registered = _registered(self)


def _registered(context: Any) -> tuple[int, ...]:
    known = (context._registries, context.typing_context._registries)
    size = sum(map(len, known))
    if context.typing_context.__dict__.get("_lists", [])[:1] != [size]:
        lists = [getattr(of, name) for each in known for of, loader in each.items() for name in loader.registry_items]
        context.typing_context._lists = [size, *lists]
    return len(sys.modules), id(context._registries), sum(map(len, context.typing_context._lists[1:]))


def _rewritten(self: Any, state: Any) -> bool:
    """What is rewritten after types are known are operations on arrays and keys that are strings."""
    if any(isinstance(kind, types.StringLiteral) for kind in state.typemap.values()) or _makes_arrays(state):
        return bool(_plain[typed_passes.NopythonRewrites, "run_pass"](self, state))
    return False


def _makes_arrays(state: Any) -> bool:
    return any(
        isinstance(state.typemap[statement.target.name], types.Array)
        for block in state.func_ir.blocks.values()
        for statement in block.find_insts(ir.Assign)
        if isinstance(statement.value, ir.Expr) and statement.value.op in _OPERATIONS
    )


def _takes_place(function: Any) -> bool:
    """Whether an implementation wants to know for which line it is called."""
    if type(function) is not FunctionType or hasattr(function, "__wrapped__"):
        return bool(_plain[base, "_has_loc"](function))
    code = function.__code__
    return "loc" in code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]


def _optimise_functions(self: Any, module: Any) -> None:
    """What is only declared has nothing to optimise."""
    module.data_layout = self._codegen._data_layout
    for function in module.functions:
        if not function.is_declaration:
            passes, builder = self._codegen._function_pass_manager()
            passes.run(function, builder)


class _Place:
    """Where an error happened, should there be one; the same as Numba's, which starts a generator for every line."""

    __slots__ = ("_about", "_args", "_message")

    def __init__(self, message: str, *args: Any, **about: Any) -> None:
        self._message, self._args, self._about = message, args, about
        place = about.get("loc")
        if place is not None and not place.filename.startswith(_errors._numba_path):
            _errors.loc_info.update(about)

    def __enter__(self) -> None: ...

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        if isinstance(error, errors.NumbaError):
            error.add_context(_errors._format_msg(self._message, self._args, self._about))


def _no_annotation(self: Any, state: Any) -> bool:
    """The source with the types of all variables, for people; it is written into every file of compiled code."""
    state.type_annotation = ""
    return False


class _Quiet:
    """Numba's events without the timers: every function that is compiled has two, which hear of every call of LLVM."""

    def __init__(self, event: Any) -> None:
        self._event = event

    def install_timer(self, kind: str, tell: Callable[[float], None]) -> AbstractContextManager[None]:
        return nullcontext()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._event, name)


_OURS: Sequence[tuple[Any, str, Any]] = (
    (BaseFunction, "get_call_type", _call_type),
    (ir.Inst, "_rec_list_vars", _variables),
    (postproc.PostProcessor, "run", _lifetimes_when_asked),
    (targetconfig.TargetConfig, "__eq__", _equal_settings),
    (targetconfig.TargetConfig, "__hash__", _hash_of_settings),
    (base.BaseContext, "get_abi_sizeof", _abi_size),
    (base.BaseContext, "refresh", _refresh),
    (NRTContext, "_call_incref_decref", _count_references),
    (base, "_has_loc", _takes_place),
    (codegen.CPUCodeLibrary, "_optimize_functions", _optimise_functions),
    (typed_passes.AnnotateTypes, "run_pass", _no_annotation),
    (typed_passes.NopythonRewrites, "run_pass", _rewritten),
    (lowering, "new_error_context", _Place),
    (typeinfer, "new_error_context", _Place),
    (dispatcher, "ev", _Quiet(dispatcher.ev)),  # type: ignore[attr-defined]
    (ffi.lib._lock, "_cblist", []),
)


def take_shortcuts() -> None:
    """Go the shorter ways from here on, in a Numba that has them."""
    if version_info.short != SERIES:
        return
    for place, name, ours in _OURS:
        _plain.setdefault((place, name), getattr(place, name))
        setattr(place, name, ours)


def leave_shortcuts() -> None:
    """Go Numba's own ways again."""
    for (place, name), plain in _plain.items():
        setattr(place, name, plain)
