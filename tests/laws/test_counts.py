"""Every count is printed before its noun in the same way: `1 document`, `1,234 documents`."""

import ast
import re
from itertools import pairwise
from pathlib import Path

import pytest

import gristmill
from gristmill.counted import counted

SOURCE = Path(gristmill.__file__).parent
PACKAGES = Path(__file__).parents[2] / "packages"
NOUN = re.compile(
    r" (?:(?:added|equal|more|other|special) )?"
    r"(?:documents|records|files|samples|tokens|tasks|stages|steps|shards|groups|warnings|faults|parts|"
    r"pieces|phases|mistakes|characters|merges|buckets|hosts|shingles|sources|others)\b"
)
BEHIND = re.compile(r"[}\"']" + NOUN.pattern)
"""A cheap check: a module without a match has no such sentence, so its tree is not parsed."""
NO_SENTENCES = (
    "kernels/",  # their messages are for developers; they import none of our modules
    "demo/",  # it formats its own numbers
    "stages/reading/",
    "stages/ingest/",  # details that are stored in parts: other words would need a new version of the reader
    "engine/work/read.py",
    "stages/shared/fasttext_model.py",  # describes the contents of a model file
    "stages/shared/s_curve.py",
    "query/removal/whatif.py",
)

IN_REPOSITORY_ONLY = re.compile("/(?:tests|bench)/")
"""Folders of packages that no user installs."""


def bypasses(text):
    """Lines of code that put a number before a noun without `counted`."""
    for node in ast.walk(ast.parse(text)) if BEHIND.search(text) else ():
        if not isinstance(node, ast.JoinedStr):
            continue
        for value, behind in pairwise(node.values):
            is_pair = isinstance(value, ast.FormattedValue) and isinstance(behind, ast.Constant)
            if is_pair and NOUN.match(behind.value) and not needs_no_plural(value):
                yield node.lineno, ast.unparse(value.value) + behind.value


def needs_no_plural(value):
    """Whether a value is text, a limit or a rounded number, so it can never be a plain 1."""
    named = value.value
    if isinstance(named, ast.Call | ast.BoolOp):
        return ast.unparse(named).partition("(")[0] not in {"len", "sum", "int", "ceil"}
    rounded = value.format_spec is not None and re.search(r"\d[fg]", ast.unparse(value.format_spec))
    return bool(rounded) or ast.unparse(named).rpartition(".")[2].isupper()


@pytest.mark.parametrize("count", [0, 1, 2, 1000, 1_234_567])
def test_a_count_has_its_noun(count):
    """One is singular, thousands have a separator, and the verb agrees."""
    assert counted(count, "file") == f"{count:,} file{'s' * (count != 1)}"
    assert counted(count, "entry is", "entries are").endswith(" entry is" if count == 1 else " entries are")


def test_every_count_goes_through_counted():
    """`{n} documents` will print `1 documents` one day."""
    assert list(bypasses('f"{n:,} documents"'))
    assert list(bypasses('f"{n:,}" " documents"'))
    assert not list(bypasses("f\"{MOST:,} documents, {short(n)} tokens, {n or 'no'} files\""))
    found = {}
    for path in sorted([*SOURCE.rglob("*.py"), *PACKAGES.rglob("*.py")]):
        name = path.relative_to(SOURCE if SOURCE in path.parents else PACKAGES).as_posix()
        if (
            not name.startswith(NO_SENTENCES)
            and not IN_REPOSITORY_ONLY.search(name)
            and (lines := list(bypasses(path.read_text(encoding="utf-8"))))
        ):
            found[name] = lines
    assert found == {}
