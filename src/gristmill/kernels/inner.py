"""Compiles kernels that only kernels call. Only for the tested series of Numba.

Numba compiles every function as if Python called it: with wrappers for Python and for C, optimised, and as machine
code; and it does all of that again in every function that calls it, where it is linked in and inlined. This took two
thirds of the time. So a call from a kernel goes to a second form of the callee, which has no wrapper and is not
optimised: it is optimised once, together with the function that Python calls, where all the code of its callees is
visible. Only that function becomes machine code.

A second form has no environment (Numba's table of Python objects), so a kernel that kernels call cannot print, nor
raise an error with values in its message.
"""

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, ClassVar

import llvmlite.binding as llvm
from numba.core import codegen, compiler

from gristmill.kernels.shortcuts import shorter_ways


class _Nowhere:
    """Replaces the part of a code generator that puts a function's environment into machine code; there is none
    here.
    """

    def set_env(self, name: str, env: Any) -> None: ...


class InnerLibrary(codegen.JITCodeLibrary):
    """Code that is linked into other code."""

    codegen = _Nowhere()

    def finalize(self) -> None:
        # Each library once: several functions may call the same one.
        for library in dict.fromkeys(self._linking_libraries):
            self._reload_init.update(library._reload_init)
            self._final_module.link_in(library._get_module_for_linking(), preserve=True)
        self._final_module.verify()
        self._finalize_dynamic_globals()  # type: ignore[no-untyped-call]
        self._finalized = True

    def get_pointer_to_function(self, name: str) -> int:
        return 0

    def serialize_using_object_code(self) -> Any:
        return self.name, self._get_module_for_linking().as_bitcode()  # type: ignore[no-untyped-call]

    @classmethod
    def rebuilt(cls, generator: Any, serialized: Any) -> "InnerLibrary":
        name, bitcode = serialized
        self = cls(generator, name)
        self._final_module = self._shared_module = llvm.parse_bitcode(bitcode)
        self._finalized = True
        return self


class KernelCompiler(compiler.Compiler):
    """Numba's compiler, with shortcuts while it compiles a kernel."""

    at_work: ClassVar[bool] = False

    def compile_extra(self, func: Any) -> Any:
        with _at_work():
            return super().compile_extra(func)  # type: ignore[no-untyped-call]


@contextmanager
def _at_work() -> Iterator[None]:
    """Applies the shortcuts. Numba's compiler lock is held meanwhile, so no other thread compiles anything. Its Python
    code creates much and frees little, and garbage collection took a tenth of the time, so it is off.
    """
    if KernelCompiler.at_work:
        yield
        return
    collects = gc.isenabled()
    gc.disable()
    KernelCompiler.at_work = True
    try:
        with shorter_ways():
            yield
    finally:
        KernelCompiler.at_work = False
        if collects:
            gc.enable()


class InnerCompiler(KernelCompiler):
    """The same compiler, whose result is a library to be linked into others."""

    def compile_extra(self, func: Any) -> Any:
        generator = self.state.targetctx.codegen()
        self.state.library = InnerLibrary(generator, func.__qualname__)  # type: ignore[no-untyped-call]
        self.state.library.enable_object_caching()
        return super().compile_extra(func)


class _Generator:
    """Replaces the code generator while a result is read from disk."""

    def __init__(self, context: Any) -> None:
        self._context = context

    def codegen(self) -> "_Generator":
        return self

    def unserialize_library(self, serialized: Any) -> InnerLibrary:
        return InnerLibrary.rebuilt(self._context.codegen(), serialized)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._context, name)


def rebuild(context: Any, payload: Any) -> Any:
    """Returns a result of the compiler from data that was read from disk."""
    return compiler.CompileResult._rebuild(_Generator(context), *payload)  # type: ignore[no-untyped-call]
