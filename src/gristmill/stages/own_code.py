"""The user's own code: a step's module with everything that it imports and that is not a library, read once and run as
read.

Gristmill's steps have a version that a test guards, but users edit their own steps all day. So the code of a step's
module, and of every module that it imports, is in the key of its tasks (code_content.py), unless the step pins a
version. Imports are found by parsing the code, not by running it. The files are read when the recipe is loaded. This
process and its workers run that content, even if the files change later.

Libraries (everything installed) count by the versions that the step's `libraries` declare. Imports by a computed name
are not found.
"""

import ast
import glob
import importlib.abc
import importlib.machinery
import importlib.util
import inspect
import os
import sys
import traceback
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from types import ModuleType
from typing import Any

from pydantic import ValidationError

from gristmill.errors import UserError
from gristmill.places import open_path, shown
from gristmill.stages.own_function import function_stage

OF = ":"
"""Separates a module and the function in it that is a step: `words:long_enough` is the name of that step's module."""
_OURS = "gristmill"
_LIBRARIES = ("site-packages", "dist-packages")
_MOST_FRAMES = 6
_MOST_CHARACTERS = 600


@dataclass(frozen=True)
class SourceFile:
    """A module as it was read."""

    name: str
    file: str
    """Its path relative to the folder of its topmost package, so it does not depend on where that folder is."""
    path: str
    text: bytes
    is_package: bool


Code = Mapping[str, SourceFile]
"""Modules by name."""


class CannotRead(Exception):
    """The user's own code is not valid Python, or a file cannot be read."""


def is_own(module: str) -> bool:
    """Whether a module is the user's and not a part of Gristmill."""
    return module.partition(".")[0] != _OURS


def find_module(name: str, folder: str, among_libraries: bool = True) -> SourceFile | None:
    """A module of the user: next to the recipe, which is in `folder`, or where Python finds modules.

    None for modules of the standard library and modules without source.
    """
    top, *below = name.split(".")
    root = _root_of(top, folder, among_libraries)
    if root is None:
        return None
    base = os.path.join(root, top, *below)
    for path, is_package in ((os.path.join(base, "__init__.py"), True), (f"{base}.py", False)):
        if os.path.isfile(path):
            return SourceFile(name, os.path.relpath(path, root), path, _read(path), is_package)
    # A folder of modules is a package even without an __init__.py.
    return SourceFile(name, os.path.relpath(base, root), base, b"", True) if _holds_modules(base) else None


def find_code(name: str, folder: str) -> dict[str, SourceFile]:
    """A module and everything of the user's own that it imports, directly or indirectly. Raises CannotRead."""
    top = name.partition(".")[0]
    found: dict[str, SourceFile] = {}
    visited: set[str] = set()
    todo = [name]
    while todo:
        wanted = todo.pop()
        if wanted in visited:
            continue
        visited.add(wanted)
        # An installed module is a library and counts by its version, unless the step itself is in it.
        source = find_module(wanted, folder, among_libraries=wanted.partition(".")[0] == top)
        if source is not None:
            found[wanted] = source
            todo += [*_parents(wanted), *imports_of(source)]
    return dict(sorted(found.items()))


def names_beside(folder: str) -> list[str]:
    """The modules next to a recipe."""
    return sorted(os.path.basename(path)[:-3] for path in glob.glob(f"{glob.escape(folder)}/*.py"))


def names_in(source: SourceFile) -> set[str]:
    """The functions that a module defines, and STAGE with its kind if it declares one, found without running it."""
    found = set()
    for node in parse(source).body:
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                found.add(name)
            case ast.Assign(targets=[ast.Name(id="STAGE")], value=value):
                found |= {"STAGE", *(one.id for one in ast.walk(value) if isinstance(one, ast.Name))}
    return found


def _root_of(top: str, folder: str, among_libraries: bool) -> str | None:
    """The folder that holds a topmost module or package."""
    if top in sys.stdlib_module_names or not is_own(top):
        return None
    if os.path.isfile(os.path.join(folder, f"{top}.py")) or _holds_modules(os.path.join(folder, top)):
        return folder
    spec = spec_of(top)
    if spec is None:
        return None
    at = spec.origin if spec.has_location and spec.origin else next(iter(spec.submodule_search_locations or ()), None)
    if at is None or (not among_libraries and any(name in at.split(os.sep) for name in _LIBRARIES)):
        return None
    is_package = spec.submodule_search_locations is not None
    return os.path.dirname(os.path.dirname(at) if is_package and spec.has_location else at)


def spec_of(top: str) -> importlib.machinery.ModuleSpec | None:
    """Where Python would find a module if nothing were imported yet."""
    for finder in sys.meta_path:
        if finder is not _FINDER and (spec := finder.find_spec(top, None, None)) is not None:
            return spec
    return None


def _holds_modules(folder: str) -> bool:
    return os.path.isdir(folder) and any(name.endswith(".py") for name in os.listdir(folder))


def _read(path: str) -> bytes:
    try:
        with open_path(path) as file:
            return file.read()
    except (OSError, UserError) as error:
        raise CannotRead(f"{shown(path)} cannot be read: {error}") from None


def parse(source: SourceFile) -> ast.Module:
    """Raises CannotRead."""
    try:
        return ast.parse(source.text)
    except SyntaxError as error:
        line = f": {error.text.strip()}" if error.text and error.text.strip() else ""
        raise CannotRead(
            f"{_location(source.path, error.lineno or 1)} is not valid Python ({error.msg}){line}"
        ) from None
    except (ValueError, RecursionError) as error:
        raise CannotRead(f"{shown(source.path)} is not valid Python ({error})") from None


def _parents(name: str) -> Iterator[str]:
    while name := name.rpartition(".")[0]:
        yield name


@lru_cache(maxsize=512)
def imports_of(source: SourceFile) -> tuple[str, ...]:
    """Every name that might be a module: `from a import b` may mean the module a.b. Each source is parsed once."""
    return tuple(_imports(source))


def _imports(source: SourceFile) -> Iterator[str]:
    package = source.name.split(".") if source.is_package else source.name.split(".")[:-1]
    for node in ast.walk(parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package[: max(len(package) + 1 - node.level, 0)] if node.level else []
            name = ".".join([*base, *([node.module] if node.module else [])])
            if name:
                yield name
                yield from (f"{name}.{alias.name}" for alias in node.names if alias.name != "*")


class _SourceLoader(importlib.abc.InspectLoader):
    """Runs a module as it was read."""

    def __init__(self, source: SourceFile) -> None:
        self.source = source

    def is_package(self, fullname: str) -> bool:
        return self.source.is_package

    def get_source(self, fullname: str) -> str:
        return importlib.util.decode_source(self.source.text)

    def get_code(self, fullname: str) -> Any:
        return compile(self.source.text, self.source.path, "exec", dont_inherit=True)


class _FunctionLoader(importlib.abc.Loader):
    """Creates the module of a step that is a function."""

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> None:
        return None

    def exec_module(self, module: ModuleType) -> None:
        home, _, name = module.__name__.rpartition(OF)
        function = vars(importlib.import_module(home))[name]
        stage = function_stage(module.__name__, function)
        module.__doc__ = inspect.getdoc(function) or f"A filter: {name} of {home}."
        vars(module).update(STAGE=stage, Config=stage.config)  # a worker finds the config class through its module


class _Finder(importlib.abc.MetaPathFinder):
    """Finds the modules that were read, before Python looks for files."""

    def __init__(self) -> None:
        self.code: dict[str, SourceFile] = {}

    def find_spec(self, fullname: str, path: object, target: object = None) -> importlib.machinery.ModuleSpec | None:
        if OF in fullname:
            return importlib.machinery.ModuleSpec(fullname, _FunctionLoader())
        source = self.code.get(fullname)
        if source is None:
            return None
        places = [source.path.removesuffix(f"{os.sep}__init__.py")] if source.is_package else None
        return importlib.util.spec_from_file_location(
            fullname, source.path, loader=_SourceLoader(source), submodule_search_locations=places
        )


_FINDER = _Finder()


def use(code: Code) -> None:
    """From now on this process imports these modules as they were read. Raises UserError if a name is taken."""
    if _FINDER not in sys.meta_path:
        sys.meta_path.insert(0, _FINDER)
    edited = set()
    for name, source in code.items():
        loaded = sys.modules.get(name)
        if loaded is None or _source_of(loaded) == source:
            continue
        if _source_of(loaded) is not None:
            edited.add(name)
        elif not _is_file_of(loaded, source):
            raise UserError(
                f"{shown(source.path)} hides a module of that name that is already loaded "
                f"({getattr(loaded, '__file__', None) or 'built in'}), so it cannot be imported. Rename it, or move "
                "the recipe to another folder."
            )
    forget(edited)
    _FINDER.code.update(code)


def _is_file_of(module: ModuleType, source: SourceFile) -> bool:
    """Whether Python already imported the module from this file for other code."""
    file = getattr(module, "__file__", None)
    if file is None:
        return source.path in getattr(module, "__path__", ())
    return os.path.exists(file) and os.path.samefile(file, source.path)


def _source_of(module: ModuleType) -> SourceFile | None:
    loader = getattr(module.__spec__, "loader", None)
    return loader.source if isinstance(loader, _SourceLoader) else None


def forget(edited: Collection[str]) -> None:
    """Removes modules from this process, with everything that imports them. The next import runs the newest content."""
    if not edited:  # the common case; finding the importers parses all their code
        return
    for name, module in list(sys.modules.items()):
        if not isinstance(getattr(getattr(module, "__spec__", None), "loader", None), _SourceLoader | _FunctionLoader):
            continue
        if not _needed_by(name.partition(OF)[0]).isdisjoint(edited):
            del sys.modules[name]
            parent, _, child = name.rpartition(".")
            if parent in sys.modules:
                vars(sys.modules[parent]).pop(child, None)


def _needed_by(name: str) -> set[str]:
    """A module of the user and the modules that it imports, as far as they were read."""
    found: set[str] = set()
    todo = [name]
    while todo:
        wanted = todo.pop()
        if wanted in _FINDER.code and wanted not in found:
            found.add(wanted)
            todo += [*_parents(wanted), *imports_of(_FINDER.code[wanted])]
    return found


def trace_in_own_code(error: BaseException) -> str | None:
    """The exception and where it was raised in the user's own code; None if it did not pass through any."""
    frames = [
        (code, line, frame.f_globals.get("__name__"))
        for frame, line in traceback.walk_tb(error.__traceback__)
        if (code := frame.f_code) and frame.f_globals.get("__name__") in _FINDER.code
    ]
    if not frames:
        return None
    lines = [f"{what(error)}, in your own code:"]
    for code, line, name in frames[-_MOST_FRAMES:]:
        source = _FINDER.code[str(name)]
        text = source.text.splitlines()[line - 1 : line]
        code_line = f": {text[0].decode(errors='replace').strip()}" if text else ""
        lines.append(f"  {_location(source.path, line)} in {code.co_name}{code_line}")
    return "\n".join([*lines, *(f"  {_cut(note)}" for note in _notes(error))])


def what(error: BaseException) -> str:
    """The exception on one line: `ValueError: too long`."""
    try:
        message = _faults(error) if isinstance(error, ValidationError) else str(error)
    except Exception:
        message = ""
    return _cut(f"{type(error).__name__}: {message}" if message else type(error).__name__)


def _faults(error: ValidationError) -> str:
    faults = (
        (".".join(map(str, fault["loc"])), fault["msg"].removeprefix("Value error, ")) for fault in error.errors()
    )
    return f"{error.title}: {'; '.join(f'{field}: {message}' for field, message in faults)}"


def _notes(error: BaseException) -> Iterable[str]:
    return (str(note) for note in getattr(error, "__notes__", ()))


def _cut(text: str) -> str:
    """One paragraph of limited length, since a library may raise an exception with a page of text."""
    text = " ".join(text.split())
    return text if len(text) <= _MOST_CHARACTERS else f"{text[: _MOST_CHARACTERS - 3]}..."


def _location(path: str, line: int) -> str:
    """A line of a file, with its path relative to the current folder if possible."""
    here = os.path.join(os.getcwd(), "")
    return f"{shown(path.removeprefix(here))}:{line}"
