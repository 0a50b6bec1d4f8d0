"""The meter counts what code does, the same in every run, and sees work that no line of the code shows."""

import math
import re
import sys
import types
from collections.abc import Callable
from pathlib import Path

import pytest
from fuzz.meter import _NAMES, METER, METERED, TooMuchWork, _Loader, _Rewrite, work_of
from fuzz.steps import Steps

LINEAR = {
    "loop": "def run(data):\n    n = 0\n    for byte in data:\n        n += byte\n",
    "find from where it was": (
        "def run(data):\n    at = 0\n    while (at := data.find(b'a', at)) >= 0:\n        at += 1\n"
    ),
    "search from where it was": (
        "import re\nP = re.compile(b'a')\ndef run(data):\n    at = 0\n"
        "    while found := P.search(data, at):\n        at = found.end()\n"
    ),
    "parts": "def run(data):\n    parts = []\n    for byte in data:\n        parts.append(b'x')\n    b''.join(parts)\n",
    "one after the other": "def run(data):\n    [data[at] for at in range(len(data))]\n",
    "a set": "def run(data):\n    seen = set()\n    for at in range(len(data)):\n        at in seen or seen.add(at)\n",
    "a set that grows": "def run(data):\n    seen = set()\n    for byte in data:\n        seen.update((byte,))\n",
}
QUADRATIC = {
    "slices": "def run(data):\n    while data:\n        data = data[1:]\n",
    "sums": "def run(data):\n    out = b''\n    for byte in data:\n        out = out + b'x'\n",
    "sums in place": "def run(data):\n    d = {'a': b''}\n    for byte in data:\n        d['a'] += b'x'\n",
    "find from the start": "def run(data):\n    for at in range(len(data)):\n        data.find(b'z')\n",
    "a list": "def run(data):\n    seen = []\n    for at in range(len(data)):\n        at in seen or seen.append(at)\n",
    "copies for a decoder": (
        "import zlib\ndef run(data):\n    for at in range(len(data)):\n        zlib.crc32(memoryview(data)[at:])\n"
    ),
    "strip": "def run(data):\n    for _ in data:\n        data.lstrip(b'z')\n",
    "pop": "def run(data):\n    rows = list(data)\n    while rows:\n        rows.pop(0)\n",
    "a loop in a loop": "def run(data):\n    for one in data:\n        for other in data:\n            pass\n",
}


def exponent(source: str) -> float:
    module = types.ModuleType("counted")
    module.__dict__.update(_NAMES, __work_reach__=METER.reach)
    import ast

    exec(compile(ast.fix_missing_locations(_Rewrite(0).visit(ast.parse(source))), "counted", "exec"), module.__dict__)
    work = [work_of(lambda size=size: module.run(b"a" * size)) for size in (200, 800)]
    return math.log(work[1] / work[0], 4)


@pytest.mark.parametrize("name", LINEAR)
def test_code_that_goes_on_is_linear(name: str) -> None:
    """Looking on from where one was is not looking at all of it again."""
    assert exponent(LINEAR[name]) < 1.1


@pytest.mark.parametrize("name", QUADRATIC)
def test_code_that_starts_again_is_not(name: str) -> None:
    """A copy, a search or a test of membership in each step is seen, though no line of the code loops twice."""
    assert exponent(QUADRATIC[name]) > 1.8


def test_the_count_is_the_same_in_every_run(tmp_path: Path) -> None:
    """It depends on the input alone."""
    path = tmp_path / "x"
    path.write_bytes(b'{"text": "a"}\n' * 20)
    with METERED:
        from gristmill.stages.contract import Piece
        from gristmill.stages.ingest import jsonl

        def read() -> int:
            return work_of(lambda: list(jsonl.read(Piece(str(path), "x.jsonl"), jsonl.Config())))

        read()
        assert read() == read() > 20
        with pytest.raises(TooMuchWork):
            work_of(lambda: list(jsonl.read(Piece(str(path), "x.jsonl"), jsonl.Config())), 50)


def test_other_modules_are_back_after_the_meter() -> None:
    """What the tests import is never the copy that counts."""
    from gristmill.stages.ingest import jsonl

    with METERED:
        import gristmill.stages.ingest.jsonl as counted

        assert counted is not jsonl
    assert sys.modules["gristmill.stages.ingest.jsonl"] is jsonl
    assert "__work_call__" not in vars(jsonl)


def test_a_rewritten_module_is_kept_until_its_source_changes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By its content: an edit within the same second, or one that keeps the size, is seen."""
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    path = tmp_path / "mill.py"
    path.write_text("grain = 1\n")
    first = _Loader("mill", str(path)).get_code("mill")
    with monkeypatch.context() as patch:
        patch.setattr("fuzz.meter._Rewrite", None)
        assert _Loader("mill", str(path)).get_code("mill") == first
    path.write_text("grain = 2\n")
    assert _Loader("mill", str(path)).get_code("mill") != first


def grows(pattern: str, make: Callable[[int], str], everywhere: bool = True) -> float:
    steps = [Steps(re.compile(pattern)).search(make(size), everywhere) for size in (100, 400)]
    return math.log(steps[1] / steps[0], 4)


@pytest.mark.slow
def test_steps_of_expressions() -> None:
    """Runs that can be shared out in many ways, and searches that begin again, are told from those that cannot."""
    assert grows(r"a*b", lambda size: "a" * size) > 1.8
    assert grows(r"a*b", lambda size: "a" * size, everywhere=False) < 1.1
    assert grows(r"(?<!a)a*+b", lambda size: "a" * size) < 1.1
    assert grows(r"=\s*\"?\s*x", lambda size: "=" + " " * size) > 1.8
    assert grows(r"=\s*+\"?\s*+x", lambda size: "=" + " " * size) < 1.1
    assert Steps(re.compile(r"(a+)+$"), limit=100_000).search("a" * 40 + "b", False) >= 100_000
    assert Steps(re.compile(rb"<!--.*?-->", re.S)).search(b"<!--" * 100) > 100 * 200
