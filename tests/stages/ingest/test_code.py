import json
import shutil
import sysconfig
from pathlib import Path

import pytest

from gristmill.engine.plan.inputs import unread
from gristmill.stages.contract import Piece
from gristmill.stages.ingest import code

MIT = """MIT License

Permission is hereby granted, free of charge, to any person obtaining a copy of this software, to deal in it, subject to
the following: The above copyright notice and this permission notice shall be included in all copies.
THE SOFTWARE IS PROVIDED "AS IS", WITHOUT WARRANTY OF ANY KIND."""
APACHE = "                                 Apache License\n                           Version 2.0, January 2004\n"
TREE = {
    "LICENSE": MIT,
    "setup.py": "import setuptools\n",
    "src/a.py": "print(1)\n",
    "src/lib/LICENSE-APACHE": APACHE,
    "src/lib/LICENSE-MIT": MIT,
    "src/lib/deep/b.c": "// SPDX-License-Identifier: BSD-3-Clause\nint x;\n",
    "src/lib/deep/c.c": "int y;\n",
    "odd/COPYING": "All rights reserved. Ask the lawyers.",
    "odd/d.go": "package d\n",
}


@pytest.fixture
def tree(tmp_path):
    for name, content in TREE.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(content)
    return tmp_path


def rows(root, names, **config):
    settings = code.Config(**config)
    licenses = code.companions(names)
    found = {}
    for name in names:
        beside = [Piece(str(root / other), other) for other in licenses.get(name, ())]
        [found[name]] = code.read(Piece(str(root / name), name), settings, beside)
    return found


def test_license_is_the_files_own_or_the_nearest(tree):
    """A header takes precedence, then the license files of the nearest folder upward; two alternatives are an OR."""
    found = rows(tree, list(TREE))
    assert {name: row.license for name, row in found.items() if "." in name} == {
        "setup.py": "MIT",
        "src/a.py": "MIT",
        "src/lib/deep/b.c": "BSD-3-Clause",
        "src/lib/deep/c.c": "Apache-2.0 OR MIT",
        "odd/d.go": "NOASSERTION",
    }
    assert json.loads(found["src/lib/deep/b.c"].meta)["license_by"] == "header"
    assert json.loads(found["src/a.py"].meta)["license_by"] == "file"


def test_license_may_be_left_to_the_recipe(tree):
    """`from_recipe` reads no license at all; neither does a tree without any."""
    assert {row.license for row in rows(tree, list(TREE), license="from_recipe").values()} == {None}
    assert rows(tree, ["src/a.py"])["src/a.py"].license is None


def test_record_depends_on_the_companions_that_were_named(tree):
    """A license file that the planner did not name is never opened."""
    [row] = code.read(Piece(str(tree / "src/a.py"), "src/a.py"), code.Config())
    assert row.license is None


def test_companions_are_named_by_names_alone():
    """Each file gets the license files of the nearest folder at or above its own, and nothing else."""
    names = ["COPYING", "a/x.py", "a/b/LICENSE.txt", "a/b/UNLICENSE", "a/b/c/y.py", "a/license.py", "z.py"]
    assert code.companions(names) == {
        "COPYING": ("COPYING",),
        "a/x.py": ("COPYING",),
        "a/license.py": ("COPYING",),
        "z.py": ("COPYING",),
        "a/b/LICENSE.txt": ("a/b/LICENSE.txt", "a/b/UNLICENSE"),
        "a/b/UNLICENSE": ("a/b/LICENSE.txt", "a/b/UNLICENSE"),
        "a/b/c/y.py": ("a/b/LICENSE.txt", "a/b/UNLICENSE"),
    }
    assert code.companions(names) == code.companions(names[::-1])
    assert code.companions(["a/x.py"]) == {}


def test_changed_license_file_is_read_again(tree):
    """The license of a folder follows the content of its license file, also within one process."""
    assert rows(tree, ["LICENSE", "setup.py"])["setup.py"].license == "MIT"
    (tree / "LICENSE").write_text(APACHE)
    assert rows(tree, ["LICENSE", "setup.py"])["setup.py"].license == "Apache-2.0"


@pytest.mark.parametrize(
    ("data", "reason", "charset"),
    [
        (b"", "empty_file", "utf-8"),
        (b"\n\n", "empty_file", "utf-8"),
        (b"\x7fELF\x02\x01\x01\0\0", "not_code", None),
        (b"\x1f\x8b\x08" + bytes(20), "not_code", None),
        (b"x = 1  # " + "d\xe9j\xe0 vu \xe0 l'\xe9t\xe9, o\xf9 \xe7a".encode("latin-1"), None, "cp1252"),
        (b"x" * 101, "record_too_large", None),
    ],
)
def test_a_file_that_is_not_text_is_a_row(tmp_path, data, reason, charset):
    """Empty, binary and oversized files are rows with a reason; Latin-1 is text, and its charset is noted."""
    (tmp_path / "a.py").write_bytes(data)
    row = rows(tmp_path, ["a.py"], max_record_bytes=100)["a.py"]
    assert (row.drop, row.charset) == (reason, charset)
    assert (row.text is None) == (reason is not None)


def test_language_and_size_are_stated(tree):
    """The record has the language, how it was determined, and the size in bytes."""
    row = rows(tree, ["src/a.py"])["src/a.py"]
    assert row.language_hint == "Python"
    assert json.loads(row.meta) == {"bytes": 9, "language_by": "extension"}


def test_prose_translations_and_unknown_languages_are_not_code(tmp_path):
    """Unless the recipe takes any text file or names languages, in any case."""
    files = {
        "a.py": "x = 1\n",
        "b.po": 'msgid "mill"\n',
        "README.md": "# Mill\n",
        "notes": "a mill\n",
        "run": "#!/bin/sh\n",
    }
    for name, content in files.items():
        (tmp_path / name).write_text(content)

    def kept(**config):
        return [name for name, row in rows(tmp_path, list(files), **config).items() if row.drop is None]

    assert kept() == ["a.py", "run"]
    assert kept(languages="any") == list(files)
    assert kept(languages=["markdown", "Python"]) == ["a.py", "README.md"]
    assert {row.drop for row in rows(tmp_path, ["b.po", "notes"]).values()} == {"not_code"}
    assert unread({"not_code": 3}) == {}
    with pytest.raises(ValueError, match=r"Pyhton is not a known language.*Did you mean Python"):
        code.Config(languages=["Pyhton"])


def test_binary_files_are_left_out_by_their_names():
    """They are counted by suffix and cause no warning: every project has pictures."""
    names = ["logo.PNG", "locale/de.mo", "lib.so"]
    assert not any(code.wanted(name, code.Config()) for name in names)
    assert {code.other_suffix(name, code.Config()) for name in names} == {None}
    assert code.other_suffix("rows.csv.gz", code.Config()) == ".csv"


def test_dependencies_and_version_control_are_left_out():
    """Folders of dependencies are skipped unless the recipe says otherwise; those of version control always are."""
    unwanted = ["node_modules/a.js", "x/vendor/b.go", "dist/c.js"]
    config = code.Config()
    assert not any(code.wanted(name, config) for name in [*unwanted, ".git/config", "x/.hg/y"])
    assert all(
        code.wanted(name, config) for name in ["a.js", "build/make.py", "x/vendor.go", ".github/ci.yml", "bin/x"]
    )
    everything = code.Config(skip_dirs=())
    assert all(code.wanted(name, everything) for name in unwanted)
    assert not code.wanted("x/.git/config", everything)


def test_python_library_reads_as_python(tmp_path):
    """Every module of the standard library's top folder is a document in Python, exactly as Python's own opener
    reads it.
    """
    folder = Path(sysconfig.get_paths()["stdlib"])
    names = sorted(path.name for path in folder.glob("*.py"))
    assert len(names) > 100
    for name in names:
        shutil.copy(folder / name, tmp_path / name)
    for name, row in rows(tmp_path, names).items():
        assert row.language_hint == "Python"
        assert (row.text or "") == (tmp_path / name).read_bytes().decode(row.charset)


@pytest.mark.parametrize(
    ("pattern", "repository"),
    [("([^/]+)/", "owner"), ("([^/]+/[^/]+)/", "owner/mill"), ("/(src)/", "src"), (None, None)],
)
def test_a_repository_is_a_part_of_the_path(tmp_path, pattern, repository):
    """The first folder, what a pattern finds, or none; a file above the repositories has none."""
    (tmp_path / "a.py").write_text("x = 1\n")
    config = code.Config(repository=pattern)
    [row] = code.read(Piece(str(tmp_path / "a.py"), "owner/mill/src/a.py"), config)
    [above] = code.read(Piece(str(tmp_path / "a.py"), "a.py"), config)
    assert (row.more, above.more) == ((repository,), (None,))


@pytest.mark.parametrize("pattern", ["[a", "a", "(a)(b)"])
def test_a_repository_pattern_has_one_group(pattern):
    """Anything else is a mistake in the recipe."""
    with pytest.raises(ValueError, match=r"regular expression|group"):
        code.Config(repository=pattern)
