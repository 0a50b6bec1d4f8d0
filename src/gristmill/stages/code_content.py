"""What of a user's own code counts: what Python runs, without comments, docstrings, layout and declared resources.

A file's hash is that of its syntax tree, written here in a form that is the same in all versions of Python: the fields
of a node by name, without those that are empty, because later versions add fields.
"""

import ast
import hashlib
from collections.abc import Iterator

from gristmill.stages.own_code import Code, parse

_READS_SOURCE = frozenset(("'__doc__'", "str '__doc__'", "'inspect'", "'ast'", "'f_lineno'"))
"""Code that reads docstrings, source or line numbers: all files then count as they are written."""
_RESOURCES = frozenset(("'resources'", "'RESOURCES'"))


def content_of(code: Code) -> dict[str, str]:
    """The hash of every file for the task key."""
    sources = [source for source in code.values() if source.text or not source.is_package]
    trees = {source.file: parse(source) for source in sources}
    declared = {node for tree in trees.values() for node in _declared_resources(tree)}
    tokens = {file: list(_tokens(tree, declared)) for file, tree in trees.items()}
    if any(not _RESOURCES.isdisjoint(found) for found in tokens.values()):  # other code uses them
        tokens = {file: list(_tokens(tree, set())) for file, tree in trees.items()}
    if any(not _READS_SOURCE.isdisjoint(found) for found in tokens.values()):
        return {source.file: hashlib.sha256(source.text).hexdigest() for source in sources}
    return {file: hashlib.sha256("\n".join(found).encode()).hexdigest() for file, found in tokens.items()}


def _declared_resources(tree: ast.Module) -> Iterator[ast.AST]:
    """A module's declarations of resources, which change no output."""
    for node in tree.body:
        match node:
            case ast.FunctionDef(name="resources") | ast.Assign(targets=[ast.Name(id="RESOURCES" | "resources")]):
                yield node
            case ast.Assign(targets=[ast.Name(id="STAGE")], value=ast.Call() as call):
                yield from (keyword for keyword in call.keywords if keyword.arg == "resources")


def _tokens(tree: ast.Module, left_out: set[ast.AST]) -> Iterator[str]:
    """A line for each node, name and constant, in the order of the source, without recursion."""
    todo: list[object] = [tree]
    while todo:
        item = todo.pop()
        if isinstance(item, ast.Constant):
            value = item.value
            yield f"{type(value).__name__} {hex(value) if isinstance(value, int) else ascii(value)}"
        elif isinstance(item, ast.AST):
            parts = dict(_parts(item, left_out))
            yield f"{type(item).__name__} {' '.join(parts)}"
            todo += reversed(parts.values())
        elif isinstance(item, list):
            yield f"list {len(item)}"
            todo += reversed(item)
        else:
            yield ascii(item)


def _parts(node: ast.AST, left_out: set[ast.AST]) -> Iterator[tuple[str, object]]:
    """The fields of a node that are not empty. A string that is a statement does nothing."""
    for name in sorted(node._fields):
        value = getattr(node, name, None)
        if isinstance(value, list):
            value = [one for one in value if one not in left_out and not _is_idle(node, one)] or None
        if value is not None:
            yield name, value


def _is_idle(parent: ast.AST, node: object) -> bool:
    match node:
        case ast.Expr(value=ast.Constant(value=str())):
            return True
        case ast.Constant(value=""):  # Python 3.12.0 has more of these than other versions
            return isinstance(parent, ast.JoinedStr)
    return False
