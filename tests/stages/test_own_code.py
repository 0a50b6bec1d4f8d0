"""The code of a user's own step: what belongs to it, and that it runs as it was read."""

import importlib
import sys

import pytest

from gristmill.errors import UserError
from gristmill.stages import own_code
from gristmill.stages.code_content import content_of


@pytest.fixture
def write(tmp_path, forgotten):
    """Writes modules next to a recipe."""

    def write(**files):
        for name, text in files.items():
            path = tmp_path / f"{name.replace('__', '/')}.py"
            path.parent.mkdir(exist_ok=True)
            path.write_text(text)
        return str(tmp_path)

    return write


def test_imports_are_followed_wherever_they_stand(write):
    """In functions, under conditions, in packages; but not into libraries and the standard library."""
    folder = write(
        step="import json, numpy, pydantic\nimport near\ndef f():\n    from pack import deep\n",
        near="if False:\n    import later\n",
        later="",
        unused="",
        pack__deep="",
        pack__unused="",
        json="",
    )
    assert set(own_code.find_code("step", folder)) == {"step", "near", "later", "pack", "pack.deep"}


def test_a_package_with_relative_imports(tmp_path, write):
    """Its __init__ and everything that its modules name."""
    write(step="from pack.deep import x\n")
    (tmp_path / "pack" / "inner").mkdir(parents=True)
    (tmp_path / "pack" / "__init__.py").write_text("from . import side\n")
    (tmp_path / "pack" / "side.py").write_text("")
    (tmp_path / "pack" / "deep.py").write_text("from .inner.far import x\n")
    (tmp_path / "pack" / "inner" / "far.py").write_text("from ..side import *\nx = 1\n")
    found = own_code.find_code("step", str(tmp_path))
    assert set(found) == {"step", "pack", "pack.side", "pack.deep", "pack.inner", "pack.inner.far"}
    files = {"step.py", "pack/__init__.py", "pack/deep.py", "pack/side.py", "pack/inner/far.py"}
    assert set(content_of(found)) == files
    own_code.use(found)
    assert importlib.import_module("step").x == 1


def test_a_module_runs_as_it_was_read(write):
    """Even if the file changes later; a new reading replaces it, with everything that imports it."""
    folder = write(step="from near import VALUE\n", near="VALUE = 1\n")
    code = own_code.find_code("step", folder)
    write(near="VALUE = 2\n")
    own_code.use(code)
    assert importlib.import_module("step").VALUE == 1
    own_code.use(own_code.find_code("step", folder))
    assert importlib.import_module("step").VALUE == 2


def test_what_was_not_read_cannot_be_imported_from_beside_the_recipe(write):
    """A computed name is not found, so it must not work by accident."""
    folder = write(step="import importlib\ndef f():\n    return importlib.import_module('hid' + 'den')\n", hidden="")
    own_code.use(own_code.find_code("step", folder))
    with pytest.raises(ModuleNotFoundError, match="hidden"):
        importlib.import_module("step").f()


def test_a_name_that_is_already_loaded_is_refused(write):
    """A module next to the recipe must not replace a library, nor a library the module."""
    folder = write(numpy="")
    with pytest.raises(UserError, match=r"numpy\.py hides a module of that name .* move the recipe"):
        own_code.use(own_code.find_code("numpy", folder))
    assert own_code.find_module("random", write(random="")) is None


def test_an_error_is_shown_with_the_users_lines(write):
    """Frames of libraries between them are left out; an error outside the user's code has no such message."""
    folder = write(
        step="from near import check\ndef f(x):\n    return check(x)\n", near="def check(x):\n    return int(x)\n"
    )
    own_code.use(own_code.find_code("step", folder))
    with pytest.raises(ValueError, match="nine") as raised:
        importlib.import_module("step").f("nine")
    trace = own_code.trace_in_own_code(raised.value)
    assert trace.splitlines()[0] == "ValueError: invalid literal for int() with base 10: 'nine', in your own code:"
    assert [line.split(" in ")[1] for line in trace.splitlines()[1:]] == ["f: return check(x)", "check: return int(x)"]
    assert own_code.trace_in_own_code(KeyError()) is None


def test_invalid_python_is_reported_with_its_line(write):
    """Even a module that is only imported."""
    folder = write(step="import near\n", near="x = 1\ndef f(:\n")
    with pytest.raises(own_code.CannotRead, match=r"near\.py:2 is not valid Python"):
        own_code.find_code("step", folder)
    assert "near" not in sys.modules


def test_only_edited_modules_are_imported_again(write):
    """And what imports it: the config class of another step stays the one that workers know."""
    folder = write(step="import near\n", near="VALUE = 1\n", other="class Config: pass\n")
    own_code.use(own_code.find_code("step", folder))
    own_code.use(own_code.find_code("other", folder))
    other, step = importlib.import_module("other"), importlib.import_module("step")
    write(near="VALUE = 2\n")
    own_code.use(own_code.find_code("near", folder))
    assert importlib.import_module("other") is other
    assert importlib.import_module("step") is not step
    assert importlib.import_module("step").near.VALUE == 2
