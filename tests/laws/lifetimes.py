"""Checks in the syntax tree that the arrays of a kernel outlive the views of them.

Numba frees an array after the last use of its *name*; a use of a view does not count. The arguments of a call, and the
objects that contain them, live until the call returns, because the caller names them in the call. Therefore:

- `view` and `borrow` take a parameter of the calling function, a part of one (a field, an element, a slice), or a
  constant of the module, which is compiled into the code. A parameter that is reassigned does not count, except for
  `x = borrow(x)`.
- A function that returns a view of its argument follows the same rule at its call sites, and Python does not call it.
  So does a function that Numba inlines (`inline`, not LLVM's `forceinline`): its parameters become names of the caller.
- A view or a borrowed array stays in local names: it is not stored.
- Pointers are created only in `memory`, which every access goes through, and copies of memory only in `memory_writes`.
- Kernels are compiled only with options that are known to preserve these rules.
"""

import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from gristmill.kernels import is_kernel

LENDERS = {"view", "borrow"}
HOLDERS = {"tail", "int", "int64", "uint64"}
"""Calls whose result is still a view if their argument is one."""
POINTERS = {"inttoptr", "ptrtoint", "gep", "carray", "farray", "as_pointer", "raw_memcpy", "raw_memmove"}
MAY_POINT = {
    "gristmill.kernels.memory": POINTERS,
    "gristmill.kernels.memory_writes": {"raw_memcpy"},
    "gristmill.kernels.memory_blocks": {"as_pointer"},
    "gristmill.kernels.memory_calls": {"inttoptr", "as_pointer"},
}
OPTIONS = {"nogil", "cache", "forceinline", "error_model", "inline"}


@dataclass
class Compiled:
    """A function that Numba compiles."""

    module: "Module"
    node: ast.FunctionDef
    params: list[str]
    nodes: list[ast.AST]
    """All nodes of its syntax tree."""
    values: dict[str, list[ast.expr | None]] = field(default_factory=dict)
    """The values assigned to each name; None for one that cannot be followed (a loop, `+=`)."""
    lent: set[str] = field(default_factory=set)
    """The parameters that it lends."""
    holders: set[str] = field(default_factory=set)
    """The names that hold something lent."""
    returns: bool = False
    """Whether it returns something lent."""
    inlined: bool = False
    """Whether Numba inlines it into its callers before it checks which names are used."""


@dataclass
class Module:
    name: str
    nodes: list[ast.AST]
    compiled: dict[str, Compiled] = field(default_factory=dict)
    imported: dict[str, tuple[str, str]] = field(default_factory=dict)
    """Names from other kernels: the module and the name there."""
    constants: set[str] = field(default_factory=set)
    tuples: set[str] = field(default_factory=set)
    """NamedTuples, which hold their elements."""


def named(node: ast.expr | None) -> str:
    return node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""


def is_lender(call: ast.Call) -> bool:
    """Whether a call lends its argument. The `view` method of an array does not."""
    return isinstance(call.func, ast.Name) and call.func.id in LENDERS


def assigned(target: ast.expr, value: ast.expr | None) -> Iterator[tuple[ast.expr, ast.expr | None]]:
    """Yield each single target with its value. A value that is not unpacked here is yielded whole."""
    if isinstance(target, ast.Tuple | ast.List):
        apart = isinstance(value, ast.Tuple) and len(value.elts) == len(target.elts)
        for place, one in enumerate(target.elts):
            yield from assigned(one, value.elts[place] if apart and isinstance(value, ast.Tuple) else value)
    elif isinstance(target, ast.Starred):
        yield from assigned(target.value, None)
    else:
        yield target, value


def assignments(nodes: Iterable[ast.AST]) -> Iterator[tuple[ast.expr, ast.expr | None]]:
    for one in nodes:
        if isinstance(one, ast.Assign):
            for target in one.targets:
                yield from assigned(target, one.value)
        elif isinstance(one, ast.AnnAssign | ast.NamedExpr) and one.value is not None:
            yield from assigned(one.target, one.value)
        elif isinstance(one, ast.AugAssign | ast.For | ast.comprehension):
            yield from assigned(one.target, None)
        elif isinstance(one, ast.withitem) and one.optional_vars is not None:
            yield from assigned(one.optional_vars, None)


def jit_of(node: ast.AST) -> ast.expr | None:
    """The decorator that compiles a function."""
    for one in node.decorator_list if isinstance(node, ast.FunctionDef) else []:
        if named(one.func if isinstance(one, ast.Call) else one) in ("njit", "jit"):
            return one
    return None


def options_of(node: ast.AST) -> list[str]:
    decorator = jit_of(node)
    return [str(one.arg) for one in decorator.keywords] if isinstance(decorator, ast.Call) else []


def read(name: str, source: str) -> Module:
    tree = ast.parse(source)
    module = Module(name, list(ast.walk(tree)))
    for node in tree.body:
        if isinstance(node, ast.ImportFrom) and is_kernel(node.module or ""):
            module.imported |= {alias.asname or alias.name: (str(node.module), alias.name) for alias in node.names}
        elif isinstance(node, ast.FunctionDef) and jit_of(node):
            params = [one.arg for one in [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]]
            kernel = Compiled(module, node, params, list(ast.walk(node)), inlined="inline" in options_of(node))
            module.compiled[node.name] = kernel
            for target, value in assignments(kernel.nodes):
                if isinstance(target, ast.Name):
                    kernel.values.setdefault(target.id, []).append(value)
        elif isinstance(node, ast.ClassDef) and any(named(base) == "NamedTuple" for base in node.bases):
            module.tuples.add(node.name)
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            module.constants |= {target.id for target, _ in assignments([node]) if isinstance(target, ast.Name)}
    return module


class Check:
    """Checks all kernels together; `faults` lists the places that break a rule."""

    def __init__(self, sources: dict[str, str]) -> None:
        self.modules = {name: read(name, source) for name, source in sources.items()}
        self.compiled = [kernel for module in self.modules.values() for kernel in module.compiled.values()]
        self.faults: list[str] = []
        while self.learn():
            pass
        for kernel in self.compiled:
            self.check_function(kernel)
        for module in self.modules.values():
            self.check_module(module)

    def fault(self, module: Module, node: ast.AST, text: str) -> None:
        self.faults.append(f"{module.name}.py:{getattr(node, 'lineno', 0)}: {text}")

    def called(self, module: Module, node: ast.AST) -> Compiled | None:
        name = named(node.func) if isinstance(node, ast.Call) else ""
        home, name = module.imported.get(name, (module.name, name))
        return self.modules[home].compiled.get(name) if home in self.modules else None

    def makes_tuple(self, module: Module, call: ast.Call) -> bool:
        home, name = module.imported.get(named(call.func), (module.name, named(call.func)))
        return home in self.modules and name in self.modules[home].tuples

    def owners(self, kernel: Compiled, node: ast.expr, visited: frozenset[str] = frozenset()) -> set[str] | None:
        """The parameters that an expression is part of (none for constants), or None if none keeps it alive."""
        if isinstance(node, ast.Attribute | ast.Subscript):
            return self.owners(kernel, node.value, visited)
        if isinstance(node, ast.Call):
            lasting = named(node.func) == "borrow" or self.makes_tuple(kernel.module, node)
            parts = [*node.args, *(one.value for one in node.keywords)] if lasting else None
        elif isinstance(node, ast.Name):
            if node.id in visited:
                return set()  # its other assigned values decide
            parts = kernel.values.get(node.id, [])
            if node.id not in kernel.params and not parts:
                return set() if node.id in kernel.module.constants | set(kernel.module.imported) else None
        else:
            parts = node.elts if isinstance(node, ast.Tuple) else None
        found = {node.id} & set(kernel.params) if isinstance(node, ast.Name) else set()
        for part in [None] if parts is None else parts:
            more = None if part is None else self.owners(kernel, part, visited | {named(node)})
            if more is None:
                return None
            found |= more
        return found

    def loans(self, kernel: Compiled) -> Iterator[tuple[ast.Call, ast.expr]]:
        """The expressions that a function lends for longer than one call."""
        for node in kernel.nodes:
            if isinstance(node, ast.Call) and is_lender(node):
                yield node, node.args[0]
            callee = self.called(kernel.module, node)
            if isinstance(node, ast.Call) and callee is not None and (callee.returns or callee.inlined):
                given = [*zip(callee.params, node.args, strict=False), *((one.arg, one.value) for one in node.keywords)]
                yield from ((node, value) for param, value in given if param in callee.lent)

    def holds(self, kernel: Compiled, node: ast.expr | None) -> bool:
        """Whether an expression is, or contains, something lent."""
        if isinstance(node, ast.Name):
            return node.id in kernel.holders
        if isinstance(node, ast.Tuple):
            return any(self.holds(kernel, one) for one in node.elts)
        if isinstance(node, ast.BinOp):
            return self.holds(kernel, node.left) or self.holds(kernel, node.right)
        if isinstance(node, ast.IfExp):
            return self.holds(kernel, node.body) or self.holds(kernel, node.orelse)
        if isinstance(node, ast.Call):
            callee = self.called(kernel.module, node)
            if is_lender(node) or (callee is not None and callee.returns):
                return True
            through = self.makes_tuple(kernel.module, node) or named(node.func) in HOLDERS
            return through and any(self.holds(kernel, one) for one in node.args)
        if isinstance(node, ast.Subscript):
            sliced = any(isinstance(one, ast.Slice) for one in ast.walk(node.slice))
            return self.holds(kernel, node.value) and (sliced or not self.is_array(kernel, node.value))
        return isinstance(node, ast.Attribute | ast.Starred) and self.holds(kernel, node.value)

    def is_array(self, kernel: Compiled, node: ast.expr, visited: frozenset[str] = frozenset()) -> bool:
        """Whether an expression is certainly a borrowed array or a view, so that its elements are numbers."""
        if isinstance(node, ast.Call):
            return is_lender(node) or (named(node.func) == "tail" and self.is_array(kernel, node.args[0], visited))
        values = kernel.values.get(named(node), []) if isinstance(node, ast.Name) else []
        rest = [one for one in values if named(one) not in visited]
        return bool(values) and all(self.is_array(kernel, one, visited | {named(node)}) for one in rest)

    def learn(self) -> bool:
        """Update which functions lend and hold what; return whether anything is new."""
        before = [(len(kernel.lent), len(kernel.holders), kernel.returns) for kernel in self.compiled]
        for kernel in self.compiled:
            for _, value in self.loans(kernel):
                kernel.lent |= self.owners(kernel, value) or set()
            kernel.holders |= {
                name for name, values in kernel.values.items() if any(self.holds(kernel, one) for one in values)
            }
            for node in kernel.nodes:
                kernel.returns |= isinstance(node, ast.Return) and self.holds(kernel, node.value)
        return before != [(len(kernel.lent), len(kernel.holders), kernel.returns) for kernel in self.compiled]

    def check_function(self, kernel: Compiled) -> None:
        name = kernel.node.name
        for call, value in self.loans(kernel):
            if len(call.args) != len([one for one in call.args if not isinstance(one, ast.Starred)]):
                self.fault(kernel.module, call, f"{name} hides in a * what it lends")
            if self.owners(kernel, value) is None:
                self.fault(
                    kernel.module, call, f"{name} lends {ast.unparse(value)}, which is no part of its parameters"
                )
        for target, value in assignments(kernel.nodes):
            if not isinstance(target, ast.Name) and self.holds(kernel, value):
                self.fault(kernel.module, target, f"{name} stores what is lent in {ast.unparse(target)}")
        for option in set(options_of(kernel.node)) - OPTIONS:
            self.fault(kernel.module, kernel.node, f"{name} is compiled with {option}, of which nothing is known here")

    def check_module(self, module: Module) -> None:
        aligned = set()
        for node in module.nodes:
            if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mod):
                aligned |= set(ast.walk(node.left))
            name = node.name if isinstance(node, ast.alias) else named(node) if isinstance(node, ast.expr) else ""
            if name in POINTERS - MAY_POINT.get(module.name, set()):
                self.fault(module, node, f"{name}: pointers are made in `memory`")
        for node in module.nodes:
            if (
                isinstance(node, ast.Attribute)
                and node.attr in ("ctypes", "__array_interface__")
                and node not in aligned
            ):
                self.fault(module, node, f".{node.attr} is for questions of alignment")
        compiled = {id(node) for kernel in module.compiled.values() for node in kernel.nodes}
        for node in module.nodes:
            callee = self.called(module, node) if id(node) not in compiled else None
            if callee is not None and callee.returns:
                self.fault(module, node, f"Python gets what {callee.node.name} lends, and nobody knows for how long")


def faults(sources: dict[str, str]) -> list[str]:
    """The places in the named kernels that break the rules above."""
    return Check(sources).faults
