"""Kernels that are compiled before they are called, and where compiled kernels are stored.

Run as a program, this file writes the lists `kernels/ahead.json` of the core and of all packages again:
python tests/kernels/test_ahead.py
"""

import ast
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tests.kernels.sources import kernel_files

from gristmill import kernels
from gristmill.kernels import ahead
from gristmill.kernels.dedup.shingles import copy_tables, word_tables
from gristmill.kernels.text.look_alikes import reading_tables
from gristmill.kernels.text.unicode_classes import unicode_tables
from gristmill.recipe.stage_module import known_formats, known_steps

ROOT = Path(__file__).parents[2]
LISTED = {
    name: forms
    for path in (*ROOT.glob("src/*/kernels/ahead.json"), *ROOT.glob("packages/*/src/*/kernels/ahead.json"))
    for name, forms in json.loads(path.read_text()).items()
}
CALLS = """
import json, shlex, sys
import pytest
from numba.core import dispatcher, types
from gristmill.cli.main import main
from gristmill.kernels import is_kernel
from demo import __main__ as demo

plain, calls = dispatcher._DispatcherBase._compile_for_args, {}

def written(item):
    # a type as `ahead` reads it
    if isinstance(item, types.BaseTuple):
        inner = ", ".join(map(written, item.types))
        cls = getattr(item, "instance_class", tuple)
        named = "" if cls is tuple else f", kernel('{cls.__module__}').{cls.__name__}"
        return f"tuple_of([{inner}]{named})"
    if isinstance(item, types.Omitted):
        return f"Omitted({item.value!r})"
    return repr(item)

def compile_for_args(self, *args, **kws):
    module = self.py_func.__module__
    if is_kernel(module):
        name = f"{module}.{self.py_func.__name__}"
        assert not kws, name
        form = ", ".join(written(self.typeof_pyval(item)) for item in args)
        forms = calls.setdefault(name, [])
        forms += [form] * (form not in forms)
    return plain(self, *args, **kws)

dispatcher._DispatcherBase._compile_for_args = compile_for_args
_, commands, *tests = sys.argv
for line in json.loads(commands):
    program, *words = shlex.split(line)
    sys.argv = [program, *words]
    try:
        ended = demo.main() if program == "demo" else main()
    except SystemExit as end:
        ended = end.code
    assert not ended, line
assert not tests or pytest.main(["-q", *tests]) == 0
with open("calls.json", "w") as file:
    json.dump(calls, file)
"""


def demo_commands() -> list[str]:
    """Those of `make demo` and `make picture`, with tasks in the process that is watched."""
    makefile = (ROOT / "Makefile").read_text()
    block = makefile[makefile.index("\ndemo:") : makefile.index("\n$(VENV)/docs:")]
    lines = [line.replace("python -m demo", "demo") for line in re.findall(r"^\t@?\$\(BIN\)/(.+)", block, re.M)]
    return [line + " --executor inline" * line.startswith("gristmill run") for line in lines]


def calls_of_all_stages(folder: Path) -> dict[str, list[str]]:
    """Every function that Python code calls in `make demo` and in the stages that it lacks, with the argument types."""
    shutil.copytree(ROOT / "recipes", folder / "recipes")
    (folder / "docs").mkdir()  # for the picture
    commands = json.dumps(["demo build demo/inputs", *demo_commands()])
    golden = [str(path) for folder in ("tests", "packages") for path in sorted((ROOT / folder).rglob("test_golden.py"))]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    found: dict[str, set[str]] = {}
    for words in ([commands], *(["[]", path] for path in golden)):
        program = [sys.executable, "-c", CALLS, *words]
        subprocess.run(program, check=True, capture_output=True, cwd=folder, env=environment)
        for name, forms in json.loads((folder / "calls.json").read_text()).items():
            found.setdefault(name, set()).update(forms)
    return {name: sorted(forms) for name, forms in sorted(found.items())}


def test_the_commands_of_the_demo_are_those_of_this_package():
    """The list is written by a run of them in one process."""
    assert [line.split()[0] for line in demo_commands()] == ["gristmill", "demo", "demo"]


def test_tables_of_one_shape_are_compiled_for_once():
    """Numba compiles a kernel again for arrays that can be written, so all tables of characters are read-only."""
    for words in (word_tables(), copy_tables()):
        assert not words.short.flags.writeable
    for tables in (unicode_tables(), reading_tables(), word_tables().unicode, copy_tables().unicode):
        assert not any(table.flags.writeable for table in tables)


def test_the_list_names_functions_and_types_that_there_are():
    """A renamed or moved function would be compiled late without any message."""
    assert len(LISTED) > 40
    assert LISTED.keys() == set(ahead.listed())
    for name, forms in LISTED.items():
        arguments = ahead._function(name).py_func.__code__.co_argcount
        assert [len(ahead._types(form)) for form in forms] == [arguments] * len(forms), name


def test_the_list_has_what_the_demo_does_not_run():
    """Steps of other recipes do not compile in their first task either."""
    kernels_of_steps = {"dedup.most_alike", "ngram.score"}
    listed = {name.rpartition(".")[0] for name in LISTED}
    assert {f"gristmill.kernels.{name}" for name in kernels_of_steps} <= listed


def test_no_listed_function_is_compiled_for_writable_and_read_only_arrays():
    """All stages pass the same kind, with one exception: the words of a model are read-only in its file only."""
    for name, forms in LISTED.items():
        kinds = {form.replace("'C', True", "'C', False") for form in forms}
        assert len(kinds) == len(forms) or name == "gristmill.kernels.text.fasttext.index_words", name


COMPILE = """
from gristmill.kernels import ahead, cache_root
stages = ["gristmill.engine.work.exchange"]
found = [ahead.to_compile(stages)]
ahead.compile_all(found[0], stages)
found.append(ahead.to_compile(stages))
ahead._mark(stages).unlink()
found.append(ahead.to_compile(stages))
print(found, ahead._function("gristmill.kernels.hash.radix._sort_digits").stats.cache_misses.total())
"""


@pytest.mark.slow
def test_what_a_stage_needs_is_compiled_once(tmp_path):
    """The needs are found from the imports of its modules. Afterwards there is nothing to do, by the marker and by a
    check of the files.
    """
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", COMPILE], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout == "[['gristmill.kernels.hash.radix._sort_digits'], [], []] 1\n"


PACKAGE = {
    "__init__.py": "",
    "step.py": "from gristmill_orchard.kernels.trees import twice\n",
    "kernels/trees.py": """
from gristmill.kernels.compile import njit
from gristmill.kernels.hash.splitmix import mix

@njit(nogil=True, cache=True)
def twice(number):
    return mix(mix(number))
""",
    "kernels/ahead.json": '{"gristmill_orchard.kernels.trees.twice": ["uint64"]}',
}
USE = """
from gristmill.kernels import _with_imports, ahead, cache_folder
stages = ["gristmill_orchard.step"]
names = ahead.to_compile(stages)
ahead.compile_all(names, stages)
module = "gristmill_orchard.kernels.trees"
print(names, ahead.to_compile(stages), len(list(cache_folder(module).glob("*.nbi"))))
print("gristmill.kernels.hash.splitmix" in _with_imports(module))
"""


@pytest.mark.slow
def test_kernels_of_a_package_are_compiled_and_kept_like_those_of_the_core(tmp_path):
    for name, text in PACKAGE.items():
        path = tmp_path / "gristmill_orchard" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path / "cache"), "PYTHONPATH": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", USE], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout == "['gristmill_orchard.kernels.trees.twice'] [] 1\nTrue\n"


@pytest.mark.slow
def test_without_a_place_to_keep_it_everybody_compiles(tmp_path):
    """A cache next to the sources would not notice that an imported kernel changed, so it is not used."""
    (tmp_path / "file").write_text("")
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path / "file")}
    code = """
import numpy as np
from gristmill.kernels import ahead
from gristmill.kernels.hash import radix
keys, order = np.arange(9, dtype=np.uint64), np.arange(9)
radix._sort_digits(keys, order, keys.copy(), order.copy())
print(ahead.to_compile(["gristmill.engine.work.exchange"]), radix._sort_digits._cache._enabled)
"""
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout == "[] False\n"


def test_kernels_are_found_through_what_a_stage_imports():
    assert "gristmill.kernels.html.bounds" in ahead.kernels_of("gristmill.stages.extract.extract")
    assert "gristmill.kernels.html.bounds" not in ahead.kernels_of("gristmill.stages.measure.language")
    assert "gristmill.kernels.text.fasttext" in ahead.kernels_of("gristmill.stages.measure.language")


def test_code_is_kept_by_its_content_and_that_of_what_it_imports(monkeypatch):
    """A kernel that changes takes those along that use it, and no other."""
    names = list(kernel_files())
    kernels.digest_of.cache_clear()
    before = {name: kernels.digest_of(name) for name in names}
    plain = kernels._source
    monkeypatch.setattr(kernels, "_source", lambda name: plain(name) + b"# changed\n" * name.endswith(".text.words"))
    kernels.digest_of.cache_clear()
    changed = {name.removeprefix("gristmill.kernels.") for name in names if kernels.digest_of(name) != before[name]}
    kernels.digest_of.cache_clear()
    assert {"text.words", "text.lines", "signals.batch", "dedup.shingles", "dedup.sketch", "dedup.links"} <= changed
    assert changed.isdisjoint(
        {"memory", "text.unicode_classes", "html.bounds", "hash.radix", "bpe.train", "urls.parts"}
    )


def test_kernels_import_each_other_in_the_expected_form():
    """An import that is not detected would be inlined in its old form, silently."""
    for module, path in kernel_files().items():
        tree = ast.parse(path.read_bytes())
        imports = [item for item in ast.walk(tree) if isinstance(item, ast.ImportFrom) and item.module]
        names = {item.module for item in imports}
        names |= {f"{item.module}.{name.name}" for item in imports for name in item.names}
        found = set(filter(kernels.is_kernel, names))
        assert found <= kernels._with_imports(module)
        if path.stem not in ("ahead", "compile"):  # no kernels; every kernel's hash has `__init__.py` in it
            assert not [item for item in ast.walk(tree) if isinstance(item, ast.ImportFrom) and item.level]
            assert "from numba import njit" not in path.read_text()  # it would be kept by its own file alone
            assert "from gristmill.kernels import" not in path.read_text()


def test_stages_need_kernels_and_not_the_packages_that_contain_them():
    """`from gristmill.kernels.html import names` names a package; there is no kernel of that name."""
    for name in (*known_steps().values(), *known_formats().values()):
        for kernel in ahead.kernels_of(name):
            assert kernels.is_kernel(kernel), (name, kernel)
    assert "gristmill.kernels.html.names" in ahead.kernels_of("gristmill.stages.extract.extract")


if __name__ == "__main__":
    import tempfile

    with tempfile.TemporaryDirectory() as scratch:
        calls = calls_of_all_stages(Path(scratch))
    for package in {name.partition(".")[0] for name in calls}:
        forms_by_name = {name: forms for name, forms in calls.items() if name.startswith(f"{package}.")}
        ahead.list_of(package).write_text(json.dumps(forms_by_name, indent=1) + "\n")
