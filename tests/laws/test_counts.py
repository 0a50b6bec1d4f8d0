"""A count stands before its noun in one way everywhere: `1 document`, `1,234 documents`."""

import ast
import re
from itertools import pairwise
from pathlib import Path

import pytest

import gristmill
from gristmill.counted import counted

SOURCE = Path(gristmill.__file__).parent
PLUGINS = Path(__file__).parents[2] / "plugins"
NOUN = re.compile(
    r" (?:(?:added|equal|more|other|special) )?"
    r"(?:documents|records|files|samples|tokens|tasks|stages|steps|shards|groups|warnings|faults|parts|"
    r"pieces|phases|mistakes|characters|merges|buckets|hosts|shingles|sources|others)\b"
)
BEHIND = re.compile(r"[}\"']" + NOUN.pattern)
"""Where a module has no such thing, no sentence of it does: one look is cheaper than its tree."""
NO_SENTENCES = (
    "kernels/",  # for who calls them wrong; they import nothing of ours
    "demo/",  # its numbers are its own
    "stages/reading/",
    "stages/ingest/",  # details that stand in parts: another word is another version of a reader
    "engine/work/read.py",
    "stages/shared/fasttext_model.py",  # what a model file says of itself
    "stages/shared/s_curve.py",
    "query/removal/whatif.py",
)


def bypasses(text):
    """Lines of code that put a number before a noun by themselves."""
    for node in ast.walk(ast.parse(text)) if BEHIND.search(text) else ():
        if not isinstance(node, ast.JoinedStr):
            continue
        for value, behind in pairwise(node.values):
            is_pair = isinstance(value, ast.FormattedValue) and isinstance(behind, ast.Constant)
            if is_pair and NOUN.match(behind.value) and not is_told(value):
                yield node.lineno, ast.unparse(value.value) + behind.value


def is_told(value):
    """Words, a limit, or a number that is rounded: nothing that could be one."""
    named = value.value
    if isinstance(named, ast.Call | ast.BoolOp):
        return ast.unparse(named).partition("(")[0] not in {"len", "sum", "int", "ceil"}
    rounded = value.format_spec is not None and re.search(r"\d[fg]", ast.unparse(value.format_spec))
    return bool(rounded) or (isinstance(named, ast.Name) and named.id.isupper())


@pytest.mark.parametrize("count", [0, 1, 2, 1000, 1_234_567])
def test_a_count_has_its_noun(count):
    """One of a thing is one, thousands are set apart, and a verb goes with them."""
    assert counted(count, "file") == f"{count:,} file{'s' * (count != 1)}"
    assert counted(count, "entry is", "entries are").endswith(" entry is" if count == 1 else " entries are")


def test_no_sentence_counts_by_itself():
    """`{n} documents` is `1 documents` one day."""
    assert list(bypasses('f"{n:,} documents"'))
    assert list(bypasses('f"{n:,}" " documents"'))
    assert not list(bypasses("f\"{MOST:,} documents, {short(n)} tokens, {n or 'no'} files\""))
    found = {}
    for path in sorted([*SOURCE.rglob("*.py"), *PLUGINS.rglob("*.py")]):
        name = path.relative_to(SOURCE if SOURCE in path.parents else PLUGINS).as_posix()
        if not name.startswith(NO_SENTENCES) and (lines := list(bypasses(path.read_text(encoding="utf-8")))):
            found[name] = lines
    assert found == {}
