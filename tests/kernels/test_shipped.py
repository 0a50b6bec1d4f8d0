"""Kernels that a wheel brings along: compiled for any CPU of the architecture, used without compiling."""

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from gristmill.kernels import shipped

USE = """
import sys
from pathlib import Path
from gristmill.kernels import compiling, shipped
shipped.FILE = Path(sys.argv[1])
import numpy as np
from gristmill.kernels.hash.radix import _sort_digits
keys, order, sorted_order = np.arange(9, 0, -1, dtype=np.uint64), np.arange(9), np.zeros(9, np.int64)
assert _sort_digits(keys, order, keys.copy(), sorted_order)
print(compiling.seconds > 0, sorted_order.tolist())
if len(sys.argv) > 2:
    shipped.pack(Path(sys.argv[2]))
"""
BASELINE = {"NUMBA_CPU_NAME": "generic", "NUMBA_CPU_FEATURES": ""}


def use(cache, *arguments, **environment):
    """Whether a process with this cache compiles, and what its kernel answers."""
    named = {**os.environ, "NUMBA_CACHE_DIR": str(cache), **environment}
    words = [sys.executable, "-c", USE, *map(str, arguments)]
    ended = subprocess.run(words, env=named, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr
    compiled, _, order = ended.stdout.partition(" ")
    return compiled == "True", order


@pytest.mark.slow
def test_kernels_of_a_wheel_are_not_compiled_again(tmp_path):
    """On another CPU than they were compiled for; they give the same, and later runs have them in the cache. Those that
    are damaged are compiled.
    """
    wheel = tmp_path / "compiled.zip"
    compiled, order = use(tmp_path / "built", wheel, tmp_path / "built", **BASELINE)
    assert (compiled, order) == (True, "[8, 7, 6, 5, 4, 3, 2, 1, 0]\n")
    assert use(tmp_path / "user", wheel) == (False, order)
    assert use(tmp_path / "user", tmp_path / "none.zip") == (False, order)
    damage(wheel)
    assert use(tmp_path / "another", wheel) == (True, order)


def test_kernels_that_need_the_exact_cpu_are_not_shipped(tmp_path, monkeypatch):
    """On the architecture where the baseline is slow for them; functions that only kernels call are never shipped."""
    for name in ("dedup.sketch-1/sketch.f.nbi", "text.words-1/words.f.nbi", "text.words-1/words.f.inner.nbi"):
        name = f"gristmill.kernels.{name}"
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    monkeypatch.setattr(shipped, "FILE", tmp_path / "compiled.zip")
    for machine, files in (("x86_64", 1), ("aarch64", 2)):
        monkeypatch.setattr(shipped.platform, "machine", lambda machine=machine: machine)
        assert shipped.pack(tmp_path) == files


def damage(wheel: Path):
    with zipfile.ZipFile(wheel) as archive:
        files = {name: archive.read(name) for name in archive.namelist()}
    with zipfile.ZipFile(wheel, "w") as archive:
        for name, data in files.items():
            archive.writestr(name, data[:-1] + bytes([data[-1] ^ 1]) if name.endswith(".nbc") else data)
