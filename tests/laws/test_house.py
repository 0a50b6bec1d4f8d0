"""The house: imports point one way, and the project names no other place than itself."""

import ast
from pathlib import Path

import pytest

import gristmill
import gristmill_extractor

SOURCE = Path(gristmill.__file__).parent
MAY_IMPORT = {
    "kernels": set(),
    "objects": {"errors", "log"},
    "shardformat": {"objects", "counted", "errors"},
    "loader": {"kernels", "shardformat", "counted", "errors", "log"},
    "store": {"objects", "errors", "hints", "log", "processes", "schema", "places", "thrift"},
    "tokenizer": {"kernels", "counted", "errors", "places"},
    "stages": {
        *("tokenizer", "shardformat", "kernels"),
        *("counted", "data_files", "errors", "expression", "hints", "log", "schema", "places", "checked", "processes"),
        "thrift",
    },
    "recipe": {"stages", "objects", "counted", "errors", "hints", "log", "schema", "places", "printable"},
    "engine": {
        *("recipe", "stages", "store", "shardformat", "kernels", "objects"),
        *("counted", "errors", "hints", "log", "processes", "schema", "places", "checked", "printable", "stopping"),
    },
    "query": {
        *("engine", "recipe", "stages", "tokenizer", "store", "kernels", "loader", "shardformat"),
        *("counted", "errors", "hints", "log", "processes", "schema", "places", "printable"),
    },
    "report": {"stages", "tokenizer", "kernels", "counted", "errors", "hints", "log", "schema", "places", "printable"},
    "api": {
        *("report", "query", "engine", "recipe", "store", "loader", "shardformat"),
        *("counted", "errors", "log", "schema", "places", "printable", "stopping"),
    },
    "cli": {
        *("report", "query", "engine", "recipe", "stages", "tokenizer", "store", "loader", "shardformat", "objects"),
        *("counted", "errors", "hints", "log", "processes", "expression", "schema", "places", "printable", "stopping"),
    },
}

OPTIONAL = {"trafilatura", "torch", "ray", "obstore", "boto3", "duckdb", "datasets", "pandas", "polars", "spacy"}
ROOMS = ("files", "work", "executors", "plan", "schedule", "publish")
"""Of the engine, those first that know of no other."""


def imports_of(path):
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("gristmill"):
            yield node.module
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name.startswith("gristmill"))


@pytest.mark.parametrize("folder", MAY_IMPORT)
def test_imports_point_one_way(folder):
    """kernels <- shardformat, store, tokenizer <- stages <- recipe <- engine <- query <- cli, api, report."""
    for path in sorted((SOURCE / folder).rglob("*.py")):
        for module in imports_of(path):
            parts = module.split(".")
            if len(parts) > 1 and parts[1] != folder:
                assert parts[1] in MAY_IMPORT[folder], f"{path.relative_to(SOURCE)} imports {module}"


def test_rooms_of_the_engine_know_those_before_them_only():
    """files <- work <- executors <- plan <- schedule <- publish <- the engine's hall: a run as a whole."""
    for place, room in enumerate(ROOMS):
        for path in sorted((SOURCE / "engine" / room).rglob("*.py")):
            for module in imports_of(path):
                parts = module.split(".")
                if parts[1:2] == ["engine"]:
                    assert parts[2] in ROOMS[: place + 1], f"{path.relative_to(SOURCE)} imports {module}"


def test_kernels_import_nothing_else_of_ours():
    """Arrays in, arrays out."""
    for path in sorted((SOURCE / "kernels").rglob("*.py")):
        for module in imports_of(path):
            assert module.startswith("gristmill.kernels"), f"{path.name} imports {module}"


def test_optional_libraries_are_not_imported_at_start():
    """Heavy things are imported where they are used, so that nobody needs them who does not use them."""
    plugin = Path(gristmill_extractor.__file__).parent
    for path in sorted([*SOURCE.rglob("*.py"), *plugin.rglob("*.py")]):
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            names = []
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                names = [node.module or ""]
            for name in names:
                assert name.split(".")[0] not in OPTIONAL, f"{path.name} imports {name}"
