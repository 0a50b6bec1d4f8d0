"""What of a step's code is in its key: what Python runs, and no comment, docstring or layout."""

import sys

import pytest

from gristmill.stages.code_content import content_of
from gristmill.stages.own_code import SourceFile

STEP = '''"""A step."""
import helper

LIMIT = 3_000


class Config:
    """Settings."""

    size: int = 1
    """Words."""


def keep(text, most=10):
    """Whether to keep it."""
    if len(text) < LIMIT:  # short
        return f"{text!r:>{most}} {helper.name}" "tail"
    return None
'''


def hashes(**files):
    code = {name: SourceFile(name, f"{name}.py", f"/x/{name}.py", text.encode(), False) for name, text in files.items()}
    return content_of(code)


def same(one, other):
    return hashes(step=one) == hashes(step=other)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ('"""A step."""\n', ""),
        ("# short", "# much too short"),
        ('    """Whether to keep it."""\n', "    # Whether to keep it.\n\n\n"),
        ('    """Words."""\n', ""),
        (
            "    if len(text) < LIMIT:  # short\n        return",
            "    if (\n  len(text) <\n LIMIT):\n      return",
        ),
        ("def keep(text, most=10):", "def keep(\n    text,\n    most=10,\n):"),
        ("3_000", "3000"),
        ('"tail"', "'tail'"),
    ],
)
def test_comments_docstrings_and_layout_do_not_count(before, after):
    assert before in STEP
    assert same(STEP, STEP.replace(before, after))


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("3_000", "3001"),
        ("3_000", "3000.0"),
        ("3_000", "'3000'"),
        ("most=10", "most=11"),
        ("<", "<="),
        ("!r", "!s"),
        (":>{most}", ":<{most}"),
        ("tail", "tails"),
        ("return None", "return 0"),
        ("return None", "return False"),
        ("size: int", "size: float"),
        ("LIMIT", "LIMITS"),
        ("    return None", "        return None"),
        ("import helper", "import helper as other"),
    ],
)
def test_what_python_runs_counts(before, after):
    assert before in STEP
    assert not same(STEP, STEP.replace(before, after, 1))


@pytest.mark.parametrize(
    "reader", ["print(keep.__doc__)", "getattr(keep, '__doc__')", "import inspect", "from ast import parse"]
)
def test_code_that_reads_docstrings_or_source_counts_as_it_is_written(reader):
    """In the step or in a module that it imports."""
    other = STEP.replace("Whether to keep it", "What to keep")
    assert not same(f"{STEP}{reader}\n", f"{other}{reader}\n")
    assert hashes(step=STEP, helper=reader) != hashes(step=other, helper=reader)
    assert hashes(step=STEP, helper="name = 1") == hashes(step=other, helper="name = 1")


def test_a_hash_does_not_depend_on_the_version_of_python():
    """Known values: each version of Python that runs this test must find them."""
    assert hashes(step=STEP)["step.py"].startswith("2a5db6bee2e0"), sys.version
    later = "async def f(*a: int, **k) -> {1: b'\\xff', **{}}:\n"
    later += "    return [x async for x in a if 1j] or f'{k=}' f'{a:}'\n"
    assert hashes(step=later)["step.py"].startswith("48f2f906390f"), sys.version


def test_odd_constants_have_a_hash():
    """Integers with more digits than Python prints, and lone surrogates."""
    odd = f"x = 0x{'f' * 5000}\ny = '\\udc80', ..., None, b'', -0.0\n"
    assert not same(odd, odd.replace("-0.0", "0.0"))
    assert not same(odd, odd.replace("udc80", "udc81"))
    assert not same(odd, odd.replace("ff", "fe", 1))
