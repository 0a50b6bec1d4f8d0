"""Checks in the syntax tree that arrays of kernels outlive the views of them.

Numba frees an array after the last use of its *name*; using a view of it is not one. The arguments of a call, and what
they are parts of, live until the call returns, since the caller names them in the call. So:

- `view` and `borrow` take a parameter of the function that calls them, or a part of one (a field, an element, a
  slice), or a constant of the module, which is compiled into the code. A parameter that is assigned again does not
  count, except for `x = borrow(x)`.
- A function that returns what it lent is held to the same rule where it is called, and Python does not call it. So is
  one that Numba inlines (`inline`, not LLVM's `forceinline`): its parameters become names of the caller.
- A view or a borrowed array stays in local names: it is not stored.
- Pointers are made in `memory` alone, which every access goes through, and copies of memory in `memory_writes`.
- Kernels are compiled with options that are known to leave all this as it is.
"""

import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

LENDERS = {"view", "borrow"}
HOLDERS = {"tail", "int", "int64", "uint64"}
"""Calls whose result is still a view if their argument is one."""
POINTERS = {"inttoptr", "ptrtoint", "gep", "carray", "farray", "as_pointer", "raw_memcpy", "raw_memmove"}
MAY_POINT = {"memory": POINTERS, "memory_writes": {"raw_memcpy"}, "memory_blocks": {"as_pointer"}}
OPTIONS = {"nogil", "cache", "forceinline", "error_model", "inline"}


@dataclass
class Compiled:
    """A function that Numba compiles."""

    module: "Module"
    node: ast.FunctionDef
    params: list[str]
    nodes: list[ast.AST]
    """All that is in it."""
    values: dict[str, list[ast.expr | None]] = field(default_factory=dict)
    """What each name is assigned; None where that cannot be followed (a loop, `+=`)."""
    lent: set[str] = field(default_factory=set)
    """Parameters that it lends."""
    holders: set[str] = field(default_factory=set)
    """Names that hold something lent."""
    returns: bool = False
    """Whether it returns something lent."""
    inlined: bool = False
    """Whether it becomes part of its callers before Numba sees which names are used."""


@dataclass
class Module:
    name: str
    nodes: list[ast.AST]
    compiled: dict[str, Compiled] = field(default_factory=dict)
    imported: dict[str, tuple[str, str]] = field(default_factory=dict)
    """Names from other kernels: the module and the name there."""
    constants: set[str] = field(default_factory=set)
    tuples: set[str] = field(default_factory=set)
    """NamedTuples, which hold what they are made of."""


def named(node: ast.expr | None) -> str:
    return node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""


def is_lender(call: ast.Call) -> bool:
    """Whether a call lends its argument; a method `view` of an array does not."""
    return isinstance(call.func, ast.Name) and call.func.id in LENDERS


def assigned(target: ast.expr, value: ast.expr | None) -> Iterator[tuple[ast.expr, ast.expr | None]]:
    """Single targets and what they get; a part of a value that is not taken apart here stands for the whole."""
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
    """The decorator that has a function compiled."""
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
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("gristmill.kernels."):
            home = str(node.module).removeprefix("gristmill.kernels.")
            module.imported |= {alias.asname or alias.name: (home, alias.name) for alias in node.names}
        elif isinstance(node, ast.FunctionDef) and jit_of(node):
            params = [one.arg for one in [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]]
            made = Compiled(module, node, params, list(ast.walk(node)), inlined="inline" in options_of(node))
            module.compiled[node.name] = made
            for target, value in assignments(made.nodes):
                if isinstance(target, ast.Name):
                    made.values.setdefault(target.id, []).append(value)
        elif isinstance(node, ast.ClassDef) and any(named(base) == "NamedTuple" for base in node.bases):
            module.tuples.add(node.name)
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            module.constants |= {target.id for target, _ in assignments([node]) if isinstance(target, ast.Name)}
    return module


class Check:
    """All kernels together; `faults` are the places that break a rule."""

    def __init__(self, sources: dict[str, str]) -> None:
        self.modules = {name: read(name, source) for name, source in sources.items()}
        self.compiled = [made for module in self.modules.values() for made in module.compiled.values()]
        self.faults: list[str] = []
        while self.learn():
            pass
        for made in self.compiled:
            self.check_function(made)
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

    def owners(self, made: Compiled, node: ast.expr, seen: frozenset[str] = frozenset()) -> set[str] | None:
        """The parameters that something is part of, none for constants; None where nothing says who keeps it."""
        if isinstance(node, ast.Attribute | ast.Subscript):
            return self.owners(made, node.value, seen)
        if isinstance(node, ast.Call):
            lasting = named(node.func) == "borrow" or self.makes_tuple(made.module, node)
            parts = [*node.args, *(one.value for one in node.keywords)] if lasting else None
        elif isinstance(node, ast.Name):
            if node.id in seen:
                return set()  # what else it is assigned decides
            parts = made.values.get(node.id, [])
            if node.id not in made.params and not parts:
                return set() if node.id in made.module.constants | set(made.module.imported) else None
        else:
            parts = node.elts if isinstance(node, ast.Tuple) else None
        found = {node.id} & set(made.params) if isinstance(node, ast.Name) else set()
        for part in [None] if parts is None else parts:
            more = None if part is None else self.owners(made, part, seen | {named(node)})
            if more is None:
                return None
            found |= more
        return found

    def loans(self, made: Compiled) -> Iterator[tuple[ast.Call, ast.expr]]:
        """What a function lends for longer than a call."""
        for node in made.nodes:
            if isinstance(node, ast.Call) and is_lender(node):
                yield node, node.args[0]
            callee = self.called(made.module, node)
            if isinstance(node, ast.Call) and callee is not None and (callee.returns or callee.inlined):
                given = [*zip(callee.params, node.args, strict=False), *((one.arg, one.value) for one in node.keywords)]
                yield from ((node, value) for param, value in given if param in callee.lent)

    def holds(self, made: Compiled, node: ast.expr | None) -> bool:
        """Whether an expression is, or has in it, something lent."""
        if isinstance(node, ast.Name):
            return node.id in made.holders
        if isinstance(node, ast.Tuple):
            return any(self.holds(made, one) for one in node.elts)
        if isinstance(node, ast.BinOp):
            return self.holds(made, node.left) or self.holds(made, node.right)
        if isinstance(node, ast.IfExp):
            return self.holds(made, node.body) or self.holds(made, node.orelse)
        if isinstance(node, ast.Call):
            callee = self.called(made.module, node)
            if is_lender(node) or (callee is not None and callee.returns):
                return True
            through = self.makes_tuple(made.module, node) or named(node.func) in HOLDERS
            return through and any(self.holds(made, one) for one in node.args)
        if isinstance(node, ast.Subscript):
            sliced = any(isinstance(one, ast.Slice) for one in ast.walk(node.slice))
            return self.holds(made, node.value) and (sliced or not self.is_array(made, node.value))
        return isinstance(node, ast.Attribute | ast.Starred) and self.holds(made, node.value)

    def is_array(self, made: Compiled, node: ast.expr, seen: frozenset[str] = frozenset()) -> bool:
        """Whether something is surely a borrowed array or a view, so that its elements are numbers."""
        if isinstance(node, ast.Call):
            return is_lender(node) or (named(node.func) == "tail" and self.is_array(made, node.args[0], seen))
        values = made.values.get(named(node), []) if isinstance(node, ast.Name) else []
        rest = [one for one in values if named(one) not in seen]
        return bool(values) and all(self.is_array(made, one, seen | {named(node)}) for one in rest)

    def learn(self) -> bool:
        """Who lends and holds what, as far as it is known by now; whether anything is new."""
        before = [(len(made.lent), len(made.holders), made.returns) for made in self.compiled]
        for made in self.compiled:
            for _, value in self.loans(made):
                made.lent |= self.owners(made, value) or set()
            made.holders |= {name for name, given in made.values.items() if any(self.holds(made, one) for one in given)}
            for node in made.nodes:
                made.returns |= isinstance(node, ast.Return) and self.holds(made, node.value)
        return before != [(len(made.lent), len(made.holders), made.returns) for made in self.compiled]

    def check_function(self, made: Compiled) -> None:
        name = made.node.name
        for call, value in self.loans(made):
            if len(call.args) != len([one for one in call.args if not isinstance(one, ast.Starred)]):
                self.fault(made.module, call, f"{name} hides in a * what it lends")
            if self.owners(made, value) is None:
                self.fault(made.module, call, f"{name} lends {ast.unparse(value)}, which is no part of its parameters")
        for target, given in assignments(made.nodes):
            if not isinstance(target, ast.Name) and self.holds(made, given):
                self.fault(made.module, target, f"{name} stores what is lent in {ast.unparse(target)}")
        for option in set(options_of(made.node)) - OPTIONS:
            self.fault(made.module, made.node, f"{name} is compiled with {option}, of which nothing is known here")

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
        compiled = {id(node) for made in module.compiled.values() for node in made.nodes}
        for node in module.nodes:
            callee = self.called(module, node) if id(node) not in compiled else None
            if callee is not None and callee.returns:
                self.fault(module, node, f"Python gets what {callee.node.name} lends, and nobody knows for how long")


def faults(sources: dict[str, str]) -> list[str]:
    """Places in kernels, given by name, that break the rules above."""
    return Check(sources).faults
