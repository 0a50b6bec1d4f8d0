"""The structure of the project: imports point one way, and the project names no location outside itself."""

import ast
from functools import cache
from pathlib import Path

import pytest

import gristmill

SOURCE = Path(gristmill.__file__).parent
MAY_IMPORT = {
    "kernels": set(),
    "objects": {"install_command", "errors", "log"},
    "shardformat": {"install_command", "objects", "counted", "errors"},
    "loader": {"install_command", "kernels", "shardformat", "counted", "errors", "log"},
    "store": {"objects", "errors", "hints", "log", "processes", "schema", "places"},
    "tokenizer": {"install_command", "kernels", "counted", "errors", "places"},
    "stages": {
        "install_command",
        *("tokenizer", "shardformat", "kernels"),
        *(
            "counted",
            "data_files",
            "errors",
            "expression",
            "hints",
            "installed",
            "log",
            "schema",
            "places",
            "checked",
            "warned",
            "processes",
        ),
        "ranges",
    },
    "recipe": {
        "install_command",
        *(
            "stages",
            "installed",
            "objects",
            "counted",
            "data_files",
            "errors",
            "hints",
            "warned",
            "log",
            "schema",
            "places",
        ),
        "printable",
    },
    "engine": {
        "install_command",
        *("recipe", "stages", "store", "shardformat", "kernels", "objects", "installed", "counted", "errors"),
        *("hints", "warned", "log", "processes", "schema", "places", "checked", "printable", "ranges", "stopping"),
    },
    "query": {
        "install_command",
        *("engine", "recipe", "stages", "tokenizer", "store", "kernels", "loader", "shardformat", "objects"),
        *("counted", "errors", "hints", "installed", "log", "processes", "schema", "places", "printable"),
    },
    "report": {
        "install_command",
        *("query", "engine", "stages", "tokenizer", "store", "kernels"),
        *("counted", "errors", "hints", "log", "schema", "places", "printable", "stopping"),
    },
    "api": {
        "install_command",
        *("report", "query", "engine", "recipe", "store", "loader", "shardformat"),
        *("installed", "counted", "errors", "log", "schema", "places", "printable", "stopping"),
    },
    "cli": {
        "install_command",
        *("report", "query", "engine", "recipe", "stages", "tokenizer", "store", "loader", "shardformat", "objects"),
        *("installed", "counted", "errors", "hints", "log", "processes", "expression", "schema", "places"),
        *("printable", "stopping", "kernels", "warned"),
    },
}

OPTIONAL = {
    "vl_convert",
    "trafilatura",
    "torch",
    "ray",
    "obstore",
    "boto3",
    "duckdb",
    "datasets",
    "pandas",
    "polars",
}
ROOMS = ("files", "work", "executors", "plan", "schedule", "publish")
"""The packages of the engine, lowest first."""


@cache
def import_nodes(path):
    """The imports of a file, also those inside functions: read once for all tests."""
    nodes = ast.walk(ast.parse(path.read_text(encoding="utf-8")))
    return [node for node in nodes if isinstance(node, ast.Import | ast.ImportFrom)]


def imports_of(path):
    for node in import_nodes(path):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name.startswith("gristmill"))
        elif node.module and node.module.startswith("gristmill"):
            yield node.module


@pytest.mark.parametrize("folder", MAY_IMPORT)
def test_imports_point_one_way(folder):
    """kernels <- shardformat, store, tokenizer <- stages <- recipe <- engine <- query <- cli, api, report."""
    for path in sorted((SOURCE / folder).rglob("*.py")):
        for module in imports_of(path):
            parts = module.split(".")
            if len(parts) > 1 and parts[1] != folder:
                assert parts[1] in MAY_IMPORT[folder], f"{path.relative_to(SOURCE)} imports {module}"


def test_engine_packages_import_only_lower_packages():
    """files <- work <- executors <- plan <- schedule <- publish <- the top level of the engine: a run as a whole."""
    for place, room in enumerate(ROOMS):
        for path in sorted((SOURCE / "engine" / room).rglob("*.py")):
            for module in imports_of(path):
                parts = module.split(".")
                if parts[1:2] == ["engine"]:
                    assert parts[2] in ROOMS[: place + 1], f"{path.relative_to(SOURCE)} imports {module}"


def test_kernels_import_only_kernels():
    """Kernels map arrays to arrays."""
    for path in sorted((SOURCE / "kernels").rglob("*.py")):
        for module in imports_of(path):
            assert module.startswith("gristmill.kernels"), f"{path.name} imports {module}"


def test_optional_libraries_are_not_imported_at_start():
    """Heavy libraries are imported where they are used, so users without that feature do not need them. A package may
    import the library that it is for.
    """
    packages = Path(__file__).parents[2] / "packages"
    for path in sorted([*SOURCE.rglob("*.py"), *packages.rglob("*.py")]):
        for node in [node for node in import_nodes(path) if node.col_offset == 0]:
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else [node.module or ""]
            for name in names:
                is_its_own = packages / name.split(".")[0] in path.parents
                assert name.split(".")[0] not in OPTIONAL or is_its_own, f"{path.name} imports {name}"


def modules():
    """Every module of the project -> its file."""
    found = {path.relative_to(SOURCE.parent).with_suffix("").parts: path for path in SOURCE.rglob("*.py")}
    return {".".join(name).removesuffix(".__init__"): path for name, path in found.items()}


def cycles(imports):
    """The modules that can be reached from themselves."""
    left = {one: {*others} - {one} for one, others in imports.items()}
    while ends := [one for one, others in left.items() if not others & left.keys()]:
        for one in ends:  # it reaches no remaining module
            del left[one]
    while starts := left.keys() - {other for others in left.values() for other in others}:
        for one in starts:  # no remaining module reaches it
            del left[one]
    return sorted(left)


def test_there_are_no_import_cycles():
    """Imports inside functions and for type checkers count: what two modules share belongs below both.

    `gristmill` itself does not count: it loads the Python API lazily and holds the version.
    """
    known = modules()
    imports = {}
    for name, path in known.items():
        found = imports[name] = set()
        for node in import_nodes(path):
            if isinstance(node, ast.ImportFrom) and node.module:
                inner = [f"{node.module}.{alias.name}" for alias in node.names]
                found.update(one if one in known else node.module for one in inner)
            elif isinstance(node, ast.Import):
                found.update(alias.name for alias in node.names)
    del imports["gristmill"]
    assert cycles(imports) == []


def test_phases_do_not_need_each_other():
    """Code that several phases share is in `shared` and `reading`, below them; phases form no cycle."""
    imports = {}
    for name, path in modules().items():
        phase = name.split(".")[2:3]
        if name.startswith("gristmill.stages.") and path.parent.name != "stages":
            used = imports.setdefault(phase[0], set())
            used.update(one.split(".")[2] for one in imports_of(path) if one.startswith("gristmill.stages."))
    below = {"shared", "reading"}
    assert (imports["reading"] | imports["shared"]) & imports.keys() <= below
    assert cycles({phase: used - below for phase, used in imports.items() if phase not in below}) == []


def test_import_cycles_are_found():
    """Cycles of any length are found, without the modules that lead into or out of one."""
    assert cycles({"a": {"b"}, "b": {"c"}, "c": {"b", "d"}, "d": set(), "e": {"e", "a"}}) == ["b", "c"]
