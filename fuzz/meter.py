"""Counts the work of Python code, so that a test can bound its growth with the input without a clock.

The meter rewrites the syntax tree of a module that is loaded under it: each call, slice, sum, comparison and loop
reports what it touches. A step costs 1. Work in C costs the bytes (or entries) that go in and come out, or, if a start
and an end are given (`find`, `search`), the length of the range that was searched. The count depends only on the input:
it is the same on every machine and in every run.

The meter does not count the work of a regular expression beyond one pass over its text (`steps.py` counts that), nor
the work inside a compiled kernel.
"""

import ast
import hashlib
import marshal
import re
import sys
import types
import zlib
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from importlib.util import cache_from_source
from pathlib import Path
from typing import Any

import numpy as np


class TooMuchWork(BaseException):
    """The work passed the limit. It is not an `Exception`, so that code that catches data faults cannot swallow it."""


class Meter:
    """The count, its limit, and the locations that were reached."""

    def __init__(self) -> None:
        self.work = 0
        self.limit = 1 << 62
        self.edges: set[int] = set()
        """Pairs of code blocks that ran one after the other."""
        self._last = 0

    def reset(self, limit: int = 1 << 62) -> None:
        self.work, self.limit, self._last = 0, limit, 0
        self.edges = set()

    def unbound(self) -> None:
        """Removes the limit; the count stays."""
        self.limit = 1 << 62

    def add(self, work: int) -> None:
        self.work += work
        if self.work > self.limit:
            raise TooMuchWork(f"more than {self.limit} steps")

    def reach(self, block: int) -> None:
        self.edges.add(self._last << 32 | block)
        self._last = block
        self.work += 1
        if self.work > self.limit:  # inlined from `add`: a call would take as long as everything else here
            self.add(0)

    def each(self, items: Iterable[Any]) -> Iterator[Any]:
        for item in items:
            self.add(1)
            yield item

    def made(self, value: Any) -> Any:
        is_view = isinstance(value, np.ndarray) and value.base is not None  # a slice of an array copies nothing
        self.add(1 if is_view or type(value) in _WITHOUT_SIZE else 1 + size_of(value))
        return value

    def grown(self, value: Any) -> None:
        """Counts `value += …`: strings are built again, the other containers grow."""
        self.add(1 + (len(value) if isinstance(value, _STRINGS) else 0))

    def within(self, item: Any, container: Any) -> bool:
        self.add(1 + (len(container) if isinstance(container, _SEARCHED) else 0))
        return item in container

    def equal(self, one: Any, other: Any) -> Any:
        both = isinstance(one, _STRINGS) and isinstance(other, _STRINGS) and len(one) == len(other)
        self.add(1 + (len(one) if both else 0))
        return one == other

    def call(self, function: Any, /, *given: Any, **named: Any) -> Any:
        self.work += 1
        if self.work > self.limit:
            self.add(0)
        result = function(*given, **named) if named else function(*given)  # orjson.Fragment takes no empty mapping
        kind = type(function)
        if kind is types.MethodType:
            function, kind = function.__func__, type(function.__func__)
        if kind is not types.FunctionType or _MARK not in function.__globals__:
            self.add(_cost(function, kind, given, named, result))
        return result


_STRINGS = (str, bytes)
_TEXTS = (str, bytes, bytearray)
_LISTS = (list, deque)
_HASHED = (dict, set, frozenset)
_SEARCHED = (*_TEXTS, list, tuple, deque)
_SIZED = frozenset((*_TEXTS, list, *_HASHED))
_WITHOUT_SIZE = frozenset((int, float, bool, type(None)))

METER = Meter()
_NAMES = {f"__work_{name}__": getattr(METER, name) for name in ("call", "made", "grown", "within", "equal", "each")}
_MARK = "__work_call__"

_FREE = frozenset(
    [
        "len",
        "isinstance",
        "issubclass",
        "type",
        "id",
        "iter",
        "next",
        "getattr",
        "setattr",
        "hasattr",
        "callable",
        "print",
        "open",
        "hash",
        "abs",
        "round",
        "ord",
        "chr",
        "choices",
        "compile",
        "import_module",
        "url_to_fs",
        "searchsorted",
        "bisect_left",
    ]
)
_FREE_TYPES = (range, enumerate, zip, map, filter, reversed, memoryview, type, object, property, staticmethod)
_LAZY_LIST = frozenset(("append", "pop", "popleft", "appendleft", "clear"))
_LAZY_DICT = frozenset(
    [
        "get",
        "items",
        "keys",
        "values",
        "setdefault",
        "pop",
        "popitem",
        "add",
        "discard",
        "remove",
        "clear",
        "move_to_end",
    ]
)


def size_of(value: Any) -> int:
    """Bytes of a string or buffer, entries of a collection; 0 for other values."""
    kind = type(value)
    if kind in _SIZED:
        return len(value)
    if kind in _WITHOUT_SIZE:
        return 0
    if kind is tuple:
        return len(value) + sum(size_of(item) for item in value if type(item) in _STRINGS or hasattr(item, "nbytes"))
    if isinstance(value, _STRINGS):
        return len(value)
    nbytes = getattr(value, "nbytes", 0)
    return nbytes if isinstance(nbytes, int) else 0


def _sizes(given: tuple[Any, ...], named: dict[str, Any], result: Any) -> int:
    return sum(map(size_of, given)) + sum(map(size_of, named.values())) + size_of(result)


def _cost(function: Any, kind: type, given: tuple[Any, ...], named: dict[str, Any], result: Any) -> int:
    """The cost of calling a function that does not count itself."""
    if isinstance(function, types.BuiltinFunctionType):
        return _of_builtin(function.__self__, function.__name__, given, named, result)
    if kind is types.FunctionType:
        return 0 if function.__name__ in _FREE else _sizes(given, named, result)
    if isinstance(function, type):
        if function in _FREE_TYPES or issubclass(function, BaseException) or _is_metered(function):
            return 0
        return _sizes(given, named, result)
    if hasattr(function, "py_func"):  # a kernel reads only the parts of its arrays that it needs
        return size_of(result)
    return 0 if getattr(function, "__name__", "") in _FREE else _sizes(given, named, result)


def _of_builtin(owner: Any, name: str, given: tuple[Any, ...], named: dict[str, Any], result: Any) -> int:
    if isinstance(owner, types.ModuleType):
        return 0 if name in _FREE else _sizes(given, named, result)
    if isinstance(owner, _TEXTS):
        return _of_text(owner, name, given, result)
    if isinstance(owner, _LISTS):
        if name == "extend":
            return size_of(given[0])
        return 0 if name in _LAZY_LIST and not (name == "pop" and given) else len(owner)
    if isinstance(owner, _HASHED):
        if name == "update":
            return sum(map(size_of, given))
        return 0 if name in _LAZY_DICT else len(owner) + sum(map(size_of, given))
    if isinstance(owner, re.Pattern):
        return _of_pattern(name, given, result)
    return 0 if name in _FREE else _sizes(given, named, result)


def _is_metered(kind: type) -> bool:
    module = sys.modules.get(kind.__module__)
    return kind.__module__ in _SHARED or (module is not None and _MARK in module.__dict__)


def _of_text(text: str | bytes | bytearray, name: str, given: tuple[Any, ...], result: Any) -> int:
    if name in ("startswith", "endswith"):
        return size_of(given[0])
    if name in ("find", "rfind", "index", "rindex", "count"):
        start, stop, _ = slice(*(given[1:3] if len(given) > 2 else (*given[1:], None))).indices(len(text))
        if name == "find" and result >= 0:
            stop = result
        elif name == "rfind" and result >= 0:
            start = result
        return max(stop - start, 0) + size_of(given[0])
    if name == "removeprefix":
        return size_of(given[0]) + (len(text) if len(result) != len(text) else 0)
    if isinstance(text, bytearray) and name in ("append", "extend", "clear"):
        return sum(map(size_of, given))
    return len(text) + sum(map(size_of, given)) + size_of(result)


_ANCHORED_MISS = 16
"""The bytes that a failing `match` is assumed to have read."""


def _of_pattern(name: str, given: tuple[Any, ...], result: Any) -> int:
    if name in ("sub", "subn"):
        return len(given[1]) + size_of(result)
    text = given[0]
    start, stop, _ = slice(*(given[1:3] if len(given) > 2 else (*given[1:], None))).indices(len(text))
    if name in ("match", "fullmatch", "search") and result is not None:
        return int(result.end()) - start
    return min(stop - start, _ANCHORED_MISS) if name in ("match", "fullmatch") else stop - start


class _Rewrite(ast.NodeTransformer):
    """Makes a module report to the meter. Line numbers stay the same."""

    _KEPT = frozenset(("super", "locals", "globals", "vars", "TypeVar", "NamedTuple", "NewType"))

    def __init__(self, first_block: int) -> None:
        self.block = first_block

    def _report(self, name: str, *given: ast.expr) -> ast.Call:
        return ast.Call(ast.Name(f"__work_{name}__", ast.Load()), list(given), [])

    def _reach(self) -> ast.stmt:
        self.block += 1
        return ast.Expr(self._report("reach", ast.Constant(self.block)))

    def _opened(self, body: list[ast.stmt]) -> list[ast.stmt]:
        first = body[0] if body else None
        is_text = isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant)
        return [*body[:1], self._reach(), *body[1:]] if is_text else [self._reach(), *body]

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        if isinstance(node.func, ast.Name) and node.func.id in self._KEPT:
            return node
        return ast.Call(ast.Name(_MARK, ast.Load()), [node.func, *node.args], node.keywords)

    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
        self.generic_visit(node)
        sliced = isinstance(node.slice, ast.Slice) and isinstance(node.ctx, ast.Load)
        return self._report("made", node) if sliced else node

    def visit_BinOp(self, node: ast.BinOp) -> ast.AST:
        self.generic_visit(node)
        return self._report("made", node) if isinstance(node.op, ast.Add | ast.Mult | ast.Mod) else node

    def visit_JoinedStr(self, node: ast.JoinedStr) -> ast.AST:
        self.generic_visit(node)
        return self._report("made", node)

    def visit_FormattedValue(self, node: ast.FormattedValue) -> ast.AST:
        node.value = self.visit(node.value)  # the format after the colon is itself a JoinedStr, and must stay one
        return node

    def visit_Compare(self, node: ast.Compare) -> ast.AST:
        self.generic_visit(node)
        if len(node.ops) != 1:
            return node
        op, one, other = node.ops[0], node.left, node.comparators[0]
        if isinstance(op, ast.In | ast.NotIn):
            found: ast.expr = self._report("within", one, other)
            return found if isinstance(op, ast.In) else ast.UnaryOp(ast.Not(), found)
        if isinstance(op, ast.Eq) and not isinstance(one, ast.Constant) and not isinstance(other, ast.Constant):
            return self._report("equal", one, other)
        return node

    def visit_AugAssign(self, node: ast.AugAssign) -> Any:
        self.generic_visit(node)
        if not isinstance(node.op, ast.Add):
            return node
        again = ast.parse(ast.unparse(node.target), mode="eval").body
        return [node, ast.Expr(self._report("grown", again))]

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        """A compiled kernel cannot report. Those of packages are in modules that are counted."""
        if any("njit" in ast.unparse(decorator) for decorator in node.decorator_list):
            return node
        return self._visit_block(node)

    def visit_Lambda(self, node: ast.Lambda) -> ast.AST:
        self.generic_visit(node)
        node.body = self._report("made", node.body)
        return node

    def visit_comprehension(self, node: ast.comprehension) -> ast.AST:
        self.generic_visit(node)
        node.iter = self._report("each", node.iter)
        return node

    def _visit_block(self, node: Any) -> Any:
        self.generic_visit(node)
        node.body = self._opened(node.body)
        if getattr(node, "orelse", None):
            node.orelse = [self._reach(), *node.orelse]
        return node

    visit_For = visit_While = visit_If = visit_ExceptHandler = _visit_block


_VERSION = hashlib.sha256(sys.version.encode() + Path(__file__).read_bytes()).digest()


class _Loader(SourceFileLoader):
    """Reads the source, never the compiled file next to it. Rewriting takes ten times as long as the rest of an import,
    so the result is kept there, too, with a hash of all that it depends on.
    """

    def get_code(self, fullname: str) -> types.CodeType:
        source = self.get_data(self.path)
        digest = hashlib.sha256(b"\0".join([_VERSION, self.path.encode(), source])).digest()
        kept = cache_from_source(self.path, optimization="metered")
        with suppress(OSError):
            data = self.get_data(kept)
            if data.startswith(digest):
                found: types.CodeType = marshal.loads(data[len(digest) :])
                return found
        first_block = (zlib.crc32(fullname.encode()) & 0xFFFFF) << 12  # the same in every process
        tree = ast.fix_missing_locations(_Rewrite(first_block).visit(ast.parse(source)))
        made: types.CodeType = compile(tree, self.path, "exec", dont_inherit=True)
        if not sys.dont_write_bytecode:
            self.set_data(kept, digest + marshal.dumps(made))  # at once, or not at all
        return made

    def exec_module(self, module: types.ModuleType) -> None:
        module.__dict__.update(_NAMES, __work_reach__=METER.reach)
        # A module runs once, for whichever caller imports it first, so its own run is not counted.
        work, limit = METER.work, METER.limit
        METER.unbound()
        try:
            super().exec_module(module)
        finally:
            METER.work, METER.limit = work, limit


_SHARED = ("yaml._yaml", "yaml.error", "yaml.events", "yaml.nodes", "yaml.tokens")
"""The compiled YAML parser with its exceptions and results: a process has only one copy of it, and so of these."""


def is_counted(name: str) -> bool:
    """Our modules except the compiled kernels, and the Python libraries that recipes go through."""
    if name in _SHARED:
        return False
    top = name.partition(".")[0]
    ours = top == "gristmill" or top.startswith("gristmill_")
    return top in ("yaml", "difflib", "email") or (ours and not name.startswith("gristmill.kernels"))


class _Finder(MetaPathFinder):
    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        spec = PathFinder.find_spec(name, path) if is_counted(name) else None
        if spec is None or not isinstance(spec.loader, SourceFileLoader):
            return None
        spec.loader = _Loader(spec.loader.name, spec.loader.path)
        return spec


class Metered:
    """While entered, imports of our modules give the counting copies; afterwards the originals are back."""

    def __init__(self) -> None:
        self._finder = _Finder()
        self._modules: dict[str, types.ModuleType] = {}

    def _swap(self) -> None:
        swapped = (name for name in list(sys.modules) if is_counted(name) or name.startswith("fuzz.targets"))
        current = {name: sys.modules.pop(name) for name in swapped}  # targets hold our modules, so they have two copies
        sys.modules.update(self._modules)
        self._modules = current

    def __enter__(self) -> Meter:
        self._swap()
        sys.meta_path.insert(0, self._finder)
        self._depth = sys.getrecursionlimit()
        sys.setrecursionlimit(2 * self._depth)  # every call goes through one more frame
        return METER

    def __exit__(self, *_: object) -> None:
        METER.unbound()  # whoever counts next begins without the limit of this one
        sys.setrecursionlimit(self._depth)
        sys.meta_path.remove(self._finder)
        self._swap()


METERED = Metered()


def work_of(task: Callable[[], Any], limit: int = 1 << 62) -> int:
    """The work of a task whose modules were imported under the meter."""
    METER.reset(limit)
    try:
        task()
    finally:
        METER.unbound()
    return METER.work
