"""Functions that compiled functions call, compiled for that and nothing else.

Numba compiles every function as if Python called it: with wrappers for Python and for C, optimised, and as machine
code; and all of that again in every function that calls it, where it is linked in and inlined. Two thirds of
the time went there. So a call from a compiled function goes to a second form of the callee that has no wrapper and is
left as LLVM made it of the source: it is optimised once, together with the function that Python calls, where all the
code of its callees is in sight. That one alone becomes machine code.
"""

from typing import Any

import llvmlite.binding as llvm
from numba.core import codegen, compiler, cpu, environment

_ENVIRONMENT = "_ZN08NumbaEnv"


class _Nowhere:
    """The part of a code generator that puts a function's environment into machine code; here there is none."""

    def set_env(self, name: str, env: Any) -> None: ...


class InnerLibrary(codegen.JITCodeLibrary):
    """Code to be linked into other code."""

    codegen = _Nowhere()

    def finalize(self) -> None:
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


class InnerCompiler(compiler.Compiler):
    """Numba's compiler, whose result is such a library."""

    def compile_extra(self, func: Any) -> Any:
        generator = self.state.targetctx.codegen()
        self.state.library = InnerLibrary(generator, func.__qualname__)  # type: ignore[no-untyped-call]
        self.state.library.enable_object_caching()
        return super().compile_extra(func)  # type: ignore[no-untyped-call]


class _Generator:
    """A stand-in for the code generator while a result is read from disk."""

    def __init__(self, context: Any) -> None:
        self._context = context

    def codegen(self) -> "_Generator":
        return self

    def unserialize_library(self, serialized: Any) -> InnerLibrary:
        return InnerLibrary.rebuilt(self._context.codegen(), serialized)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._context, name)


def rebuild(context: Any, payload: Any) -> Any:
    """What was read from disk, as a result of the compiler."""
    return compiler.CompileResult._rebuild(_Generator(context), *payload)  # type: ignore[no-untyped-call]


_finalize: Any = codegen.JITCodeLibrary._finalize_specific


def _finalize_with_environments(self: Any) -> None:
    """Machine code holds the environments of all functions that were linked into it; each is told where it lies."""
    _finalize(self)
    for variable in self._final_module.global_variables:
        if variable.name.startswith(_ENVIRONMENT):
            found = environment.lookup_environment(variable.name)  # type: ignore[no-untyped-call]
            if found is not None and self._codegen._engine.is_symbol_defined(variable.name):
                self._codegen.set_env(variable.name, found)


_python_wrapper: Any = cpu.CPUContext.create_cpython_wrapper
_c_wrapper: Any = cpu.CPUContext.create_cfunc_wrapper


def _wrapper_where_python_calls(self: Any, library: Any, *rest: Any, **more: Any) -> None:
    if not isinstance(library, InnerLibrary):
        _python_wrapper(self, library, *rest, **more)


def _wrapper_where_c_calls(self: Any, library: Any, *rest: Any) -> None:
    if not isinstance(library, InnerLibrary):
        _c_wrapper(self, library, *rest)


codegen.JITCodeLibrary._finalize_specific = _finalize_with_environments  # type: ignore[method-assign]
cpu.CPUContext.create_cpython_wrapper = _wrapper_where_python_calls  # type: ignore[method-assign]
cpu.CPUContext.create_cfunc_wrapper = _wrapper_where_c_calls  # type: ignore[method-assign]
