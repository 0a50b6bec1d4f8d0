"""Finds the module that implements a format or a step, by its name."""

import importlib
import importlib.metadata
import inspect
import os
import pickle
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import cache

import pyarrow as pa
import pyarrow.parquet as pq

from gristmill import stages
from gristmill.errors import UserError, WrongSetting
from gristmill.install_command import install_package
from gristmill.installed import FORMATS, STEPS, installed, missing
from gristmill.places import shown
from gristmill.printable import aside
from gristmill.recipe.checks.mistakes import Path, dotted, nearest, ours, suggest
from gristmill.recipe.draft import Draft
from gristmill.schema import DOCUMENTS, spelt
from gristmill.stages import own_code
from gristmill.stages.calls import RequestFields
from gristmill.stages.contract import AnyStage, LayerStage, Map, Reader, StageConfig
from gristmill.stages.declarations import NotAStage, left_out, stage_of
from gristmill.stages.faults import faults_of
from gristmill.stages.ingest.sniff import format_by_name
from gristmill.stages.own_code import OF, CannotRead, Code, SourceFile, is_own
from gristmill.stages.own_function import faults_of_function

_OURS = "gristmill_"
"""The beginning of the modules of Gristmill's packages."""
MOST_BESIDE = 5
"""How many modules next to a recipe a message names, the nearest first."""


@dataclass(frozen=True)
class StageModule:
    """The module of a stage, and the user's own code that it consists of."""

    module: str
    code: Code = field(default_factory=dict)


class Unfit(Exception):
    """Why a name is not a stage: the fact and the fix. `fault` is set if it is in code that other names may lead to."""

    def __init__(self, message: str, fault: str | None = None) -> None:
        super().__init__(message)
        self.fault = fault


def known_formats(name: str | None = None) -> Mapping[str, str]:
    """Formats and their modules: Gristmill's, then those of installed packages, unless `name` is one of Gristmill's."""
    if name in stages.READERS:
        return stages.READERS
    return _with_installed(stages.READERS, FORMATS)


def known_steps(name: str | None = None) -> Mapping[str, str]:
    """Steps and their modules, as `known_formats` has formats."""
    return stages.STEPS if name in stages.STEPS else _with_installed(stages.STEPS, STEPS)


def _with_installed(built_in: Mapping[str, str], group: str) -> Mapping[str, str]:
    return {**built_in, **{name: at.module for name, at in installed(group).items() if name not in built_in}}


def import_stage(
    draft: Draft,
    noun: str,
    name: str,
    at: Path,
    known: Mapping[str, str],
) -> StageModule | None:
    """The stage called `name` at `at`; adds a mistake and returns None if there is none, or if it is not valid."""
    try:
        found = find_stage(noun, name, known, draft.folder)
        if faults := _faults(noun, found):
            functions = _functions(found.module) if noun == "step" and found.code else []
            hint = f" To use one of its functions as a step, write {name}.{functions[0]}." if functions else ""
            message = f"{known.get(name, name)} is not a {noun}: {'; '.join(faults)}."
            raise Unfit(f"{message} gristmill.stages.contract says what it needs.{hint}", message)
    except Unfit as unfit:
        draft.add_at_key(at, str(unfit), unfit.fault)
        return None
    return found


def find_stage(noun: str, name: str, known: Mapping[str, str], folder: str) -> StageModule:
    """The module with a name: one of Gristmill's, one in `folder`, or one that Python finds. Raises Unfit."""
    if name in known:
        _refuse_twin(noun, name, folder, known[name])
        _refuse_hidden(noun, name, folder, known[name])
    path = known.get(name, name)
    if not is_own(path):
        _import(name, path)
        return StageModule(path)
    if not all(part.isidentifier() for part in path.split(".")):
        raise Unfit(_unknown(noun, name, known, folder))
    try:
        if own_code.find_module(path, folder) is not None:
            code = own_code.find_code(path, folder)
            own_code.use(code)
            _import(name, path)
            return StageModule(path, code)
        home, _, function = path.rpartition(".")
        if noun == "step" and home and own_code.find_module(home, folder) is not None:
            return _function_stage(name, home, function, folder)
    except CannotRead as error:
        raise Unfit(f"{name} cannot be imported: {error}. Correct it.", str(error)) from None
    except UserError as error:
        raise Unfit(f"{name} cannot be imported: {error}", str(error)) from None
    if "." not in path or path.partition(".")[0] in sys.stdlib_module_names:  # importing some of these has effects
        raise Unfit(_unknown(noun, name, known, folder))
    _import(name, path)
    return StageModule(path)  # without source, such as a compiled module: only its version shows changes


def _function_stage(name: str, home: str, function: str, folder: str) -> StageModule:
    code = own_code.find_code(home, folder)
    own_code.use(code)
    _import(name, home)
    there = vars(importlib.import_module(home))
    if function not in there:
        names = [*_functions(home), *_modules_in(code[home], folder)]
        near = nearest(function, names)
        raise Unfit(
            f"{name} cannot be imported: there is no module {name}, and no function {function} in {code[home].file}. "
            + (f"Did you mean {home}.{near}? " if near else "")
            + (f"It has: {', '.join(names)}. " if names else "")
            + "Correct the name, or put the folder that holds it on PYTHONPATH."
        )
    faults = faults_of_function(there[function])
    if faults:
        message = f"{name} is not a step: {'; '.join(faults)}."
        raise Unfit(f"{message} docs/own-steps.md shows what it needs.", message)
    _import(name, f"{home}{OF}{function}")
    return StageModule(f"{home}{OF}{function}", code)


def _import(name: str, path: str) -> None:
    try:
        with aside():
            importlib.import_module(path)
    except ModuleNotFoundError as error:
        missing = error.name or path
        fact, fault = f"there is no module {missing}.", None
        if path == missing or path.startswith(f"{missing}."):
            fix = "Correct the name, put it next to the recipe, or put the folder that holds it on PYTHONPATH."
        elif missing.startswith(_OURS):
            package = missing.removeprefix(_OURS).partition(".")[0]
            fix, fault = f"Install the package gristmill-{package}: {install_package(package)}", fact
        else:
            fix, fault = f"Install {missing.split('.')[0]}, or put {missing.split('.')[0]}.py next to the recipe.", fact
        raise Unfit(f"{name} cannot be imported: {fact} {fix}", fault) from None
    except (Exception, SystemExit) as error:  # a user's module runs any code
        message = own_code.trace_in_own_code(error) or f"{own_code.what(error)}. Correct {path}."
        raise Unfit(f"{name} cannot be imported: {message}", message.splitlines()[-1]) from None


def _unknown(noun: str, name: str, known: Mapping[str, str], folder: str) -> str:
    if message := missing(FORMATS if noun == "format" else STEPS, name):
        return message
    suffix = f".{name.lower().strip('.')}"
    if noun == "format" and (by_suffix := format_by_name(suffix)) is not None and by_suffix in known:
        reader = f"{by_suffix}, which reads files named *{suffix}"
        return f"{name} is not a format. Did you mean {reader}? Formats: {', '.join(known)}."
    if (meant := ours(f"{noun}s", name.strip("."), known)) is not None:
        return f"{name} is not a {noun}. {meant}"
    beside = [own for own in _stages_beside(noun, name, folder) if own not in known]
    names = [*known, *get_close_matches(name, beside, MOST_BESIDE, 0)]
    own = f"To use your own {noun}, write the name of a module next to the recipe, or an import path."
    return f"{name} is not a {noun}. {suggest(name, names, f'{noun.capitalize()}s')} {own}"


def _stages_beside(noun: str, near: str, folder: str) -> list[str]:
    """Modules next to a recipe that declare a format or a step, found without running them; and modules with nearly the
    same name and with functions, which may be steps.
    """
    found = []
    for name in own_code.names_beside(folder):
        try:
            source = own_code.find_module(name, folder)
            names = own_code.names_in(source) if source is not None else set()
        except CannotRead:
            continue
        is_reader = Reader.__name__ in names
        if is_reader if noun == "format" else not is_reader and ("STAGE" in names or (names and nearest(near, [name]))):
            found.append(name)
    return found


def _refuse_twin(noun: str, name: str, folder: str, module: str) -> None:
    """Refuse a stage next to the recipe with the name of one of Gristmill's or of an installed package's."""
    if not os.path.lexists(os.path.join(folder, f"{name}.py")):  # no listing: there are as many calls as sources
        return
    try:
        source = own_code.find_module(name, folder)
        is_stage = source is not None and bool({"STAGE", name} & own_code.names_in(source))
    except CannotRead:
        is_stage = False
    if is_stage:
        whose = f"that an installed package adds ({module})" if is_own(module) else "of Gristmill"
        raise Unfit(f"{name} is a {noun} {whose}, but {name}.py next to the recipe has that name. Rename {name}.py.")


def _refuse_hidden(noun: str, name: str, folder: str, module: str) -> None:
    """Refuse a package next to the recipe that hides an installed one of the same name: either may be meant."""
    top = module.partition(".")[0]
    if not is_own(module) or not any(os.path.lexists(os.path.join(folder, f"{top}{end}")) for end in ("", ".py")):
        return
    source, spec = own_code.find_module(top, folder), own_code.spec_of(top)
    if source is None or spec is None:
        return
    files = [spec.origin or "", *(spec.submodule_search_locations or ())]
    if not any(os.path.exists(file) and os.path.samefile(file, source.path) for file in files):
        raise Unfit(
            f"{name} is a {noun} of the installed package {top}, but {shown(source.path)}, next to the recipe, hides "
            "it. Move the recipe to another folder, or install the package from there, editable."
        )


def _functions(path: str) -> list[str]:
    """The public functions that a module defines itself."""
    found = inspect.getmembers(importlib.import_module(path), inspect.isfunction)
    return [name for name, value in found if value.__module__ == path and not name.startswith("_")]


def _modules_in(source: SourceFile, folder: str) -> list[str]:
    if not source.is_package:
        return []
    return own_code.names_beside(source.path.removesuffix("/__init__.py"))


def _faults(noun: str, found: StageModule) -> list[str]:
    """Why a module cannot be a format or a step."""
    module = found.module
    try:
        stage = stage_of(module)
    except NotAStage as error:
        return error.faults
    if isinstance(stage, Reader) != (noun == "format"):
        return ["it is not a Reader" if noun == "format" else "it reads a format, which belongs under read"]
    if not is_own(module):
        return []
    if stage.version is None and not found.code:
        return ["it has no source that could be in the keys of its tasks. Give its STAGE a version"]
    return [*left_out(module), *faults_of(stage)]


def check_config(
    draft: Draft, module: str, name: str, config: StageConfig, at: Path, named: Path | None = None
) -> bool:
    """Whether a stage accepts the config at `at`; adds a mistake if not. The stage's name is at `named`, or at `at`."""
    named, stage = named or at, stage_of(module)
    before = len(draft.mistakes)
    if faults := _faults_of_config(stage, config) if is_own(module) else []:
        draft.add_at_key(named, f"{name} cannot be used: {'; '.join(faults)}.")
        return False
    try:
        if stage.check is not None:
            stage.check(config)
    except WrongSetting as error:
        path = (*at, *error.field.split("."))
        draft.add(path, f"{dotted(path)}: {error.fact}")
    except UserError as error:
        draft.add_at_key(named, str(error))
    except (Exception, SystemExit) as error:
        if not is_own(module):
            raise
        draft.add_at_key(named, f"{name} cannot be used: {own_code.trace_in_own_code(error) or own_code.what(error)}.")
    return len(draft.mistakes) == before


def _faults_of_config(stage: AnyStage, config: StageConfig) -> list[str]:
    faults = []
    try:
        for name in (*stage.reads_of(config), *stage.may_read_of(config)):
            if not isinstance(name, str):
                faults.append(f"it reads {name!r}, but the name of a column is text")
        try:
            stage.libraries_of(config)
        except importlib.metadata.PackageNotFoundError as error:
            faults.append(f"it declares the library {error.name!r}, which is not installed")
        if isinstance(stage, LayerStage):
            faults += _faults_of_schema(stage.schema_of(config))
        if isinstance(stage, Map) and stage.scope_of(config) is not None and not isinstance(config, RequestFields):
            faults.append("it asks servers, but its Config lacks fields of RequestFields (gristmill.stages.calls)")
        stage.resources_of(config, 1 << 26)
        if pickle.loads(pickle.dumps(config)) != config:
            faults.append("its Config changes when it is sent to a worker (pickled)")
    except UserError as error:
        faults.append(str(error).rstrip("."))
    except Exception as error:  # a user's code may do anything
        faults.append(own_code.trace_in_own_code(error) or own_code.what(error))
    return faults


def _faults_of_schema(schema: object) -> list[str]:
    """Columns that documents have must keep their type, which every step relies on; others must survive storage."""
    if not isinstance(schema, pa.Schema):
        return [f"its schema is of type {type(schema).__name__}, not a pyarrow.Schema"]
    first = {"doc_id": "doc_id", "source": "source"}  # every step sees them
    pairs = [(name, first.setdefault(name.lower(), name)) for name in schema.names]
    faults = [f"its schema has {name} twice" for name in sorted({n for n in schema.names if schema.names.count(n) > 1})]
    faults += [f"its schema has {name}, which is {twin} to SQL. Rename it" for name, twin in pairs if name != twin]
    for item in schema if not faults else ():
        known = DOCUMENTS.field(item.name).type if item.name in DOCUMENTS.names else item.type
        if item.type != known:
            faults.append(
                f"its schema declares the column {item.name} as {item.type}, but every document has it as {known}. "
                f"Declare and write {known}, with .cast({spelt(known)}), or give the column another name"
            )
        elif (kept := _as_kept(item)) != item.type:
            faults.append(
                f"its schema declares the column {item.name} as {item.type}, which a part "
                + (
                    f"stores as {kept}. Declare and write {kept}"
                    if kept is not None
                    else "cannot store. Use another type"
                )
            )
    return faults


@cache
def _as_kept(item: pa.Field) -> pa.DataType | None:
    """The type of a column after it was stored; None if it cannot be stored."""
    stored = pa.BufferOutputStream()
    try:
        pq.write_table(pa.schema([item]).empty_table(), stored)
        return pq.read_schema(pa.BufferReader(stored.getvalue())).field(0).type
    except (pa.ArrowException, KeyError):
        return None
