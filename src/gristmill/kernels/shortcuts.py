"""Three shortcuts in the compiler of one series of Numba, used only while a kernel is compiled.

Most of the time is spent in Numba's Python code, and most of that on questions with known answers: which of twenty
templates adds two integers, how many bytes a type has, and where every variable is last used, after each of nine
passes. The shortcuts do not change what a function does. docs/decisions.md has what each one saves.
"""

import operator
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from numba.core import base, postproc, targetconfig, transforms, types
from numba.core.types.functions import BaseFunction

_SCALARS = (types.Number, types.Boolean)
_OPERATORS = {item for item in vars(operator).values() if callable(item)}

_settings: Callable[[], Any] = targetconfig.ConfigStack.top_or_none
_plain_call_type: Any = BaseFunction.get_call_type
_plain_run: Any = postproc.PostProcessor.run
_plain_size: Any = base.BaseContext.get_abi_sizeof
_known_calls: dict[Any, Any] = {}
_known_sizes: dict[str, int] = {}


def _call_type(self: Any, context: Any, args: tuple[Any, ...], kws: dict[str, Any]) -> Any:
    """Returns the type of a call of one of Numba's functions, from a cache; Numba tries one template after the other,
    and records why each fails.
    """
    if self.typing_key in _OPERATORS and not kws:
        args = _without_constants(self, args)
    settings = _settings()
    key = (self, context, args, tuple(kws.items()), repr(settings and settings._values))
    found = _known_calls.get(key)
    if found is None:
        found = _known_calls[key] = _plain_call_type(self, context, args, kws)
    return found


def _without_constants(function: Any, args: tuple[Any, ...]) -> tuple[Any, ...]:
    """Removes constants from types: adding 1 and adding 2 is the same, unless a template needs constants or there are
    only constants.
    """
    plain = tuple(map(types.unliteral, args))
    constants = sum(isinstance(item, types.Literal) for item in args)
    if not 0 < constants < len(args) or not all(isinstance(item, _SCALARS) for item in plain):
        return args
    return args if any(template.prefer_literal for template in function.templates) else plain


def _lifetimes_when_asked(self: Any, emit_dels: bool = False, extend_lifetimes: bool = False) -> None:
    """Computes the lifetimes of all variables only for the two of nine passes that use them."""
    if emit_dels or self.func_ir.is_generator:
        _plain_run(self, emit_dels, extend_lifetimes)
        return
    self.func_ir.blocks = transforms.canonicalize_cfg(self.func_ir.blocks)  # type: ignore[no-untyped-call]
    self.func_ir.variable_lifetime = postproc.VariableLifetime(self.func_ir.blocks)  # type: ignore[no-untyped-call]
    self.func_ir.generator_info = None


def _abi_size(self: Any, kind: Any) -> int:
    """Returns the bytes of a type from a cache; Numba parses an LLVM module for it."""
    name = f"{self.target_data} {kind}"
    if name not in _known_sizes:
        _known_sizes[name] = _plain_size(self, kind)
    return _known_sizes[name]


WAYS: tuple[tuple[Any, str, Any, Any], ...] = (
    (BaseFunction, "get_call_type", _plain_call_type, _call_type),
    (postproc.PostProcessor, "run", _plain_run, _lifetimes_when_asked),
    (base.BaseContext, "get_abi_sizeof", _plain_size, _abi_size),
)
"""Class, method, Numba's function, our function."""


@contextmanager
def shorter_ways() -> Iterator[None]:
    """Applies the shortcuts inside a `with` block."""
    for place, name, _, ours in WAYS:
        setattr(place, name, ours)
    try:
        yield
    finally:
        for place, name, plain, _ in WAYS:
            setattr(place, name, plain)
