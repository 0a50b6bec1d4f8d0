"""Compiling once: what several processes do on a machine that has no compiled kernels yet."""

import os
import subprocess
import sys

import pytest

from gristmill.shardformat.splitmix import mixed

SCRIPT = """
import sys
import numpy as np
from gristmill.kernels.hash.radix import _sort_digits
print("ready", flush=True)
sys.stdin.readline()
keys, order = np.arange(9, dtype=np.uint64), np.arange(9)
_sort_digits(keys, order, keys.copy(), order.copy())
print(sum(_sort_digits.stats.cache_misses.values()), flush=True)
"""


@pytest.mark.slow
def test_a_kernel_is_compiled_by_one_process_and_read_by_the_other(tmp_path):
    """Two processes that need it at the same moment: one compiles, one waits and finds it in the cache."""
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
    command = [sys.executable, "-c", SCRIPT]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    processes = [subprocess.Popen(command, env=environment, **pipes) for _ in range(2)]
    for process in processes:
        assert process.stdout.readline() == "ready\n"
    for process in processes:
        process.stdin.write("go\n")
        process.stdin.flush()
    misses = sorted(int(process.communicate()[0]) for process in processes)
    assert misses == [0, 1]


SHARING = """
import numpy as np
from gristmill.kernels import inner_form
from gristmill.kernels.hash.splitmix import mix
from gristmill.kernels.{module} import {function}
{call}
stats = inner_form(mix).stats
print(stats.cache_hits.total(), stats.cache_misses.total(), len(mix.signatures), len({function}.signatures))
"""
CALLERS = [
    ("hash.hashset", "finish", "finish(np.uint64(1), np.uint64(2))"),
    ("dedup.buckets", "mixed", "print(*mixed(np.arange(3, dtype=np.uint64)))"),
]


@pytest.mark.slow
def test_what_two_kernels_call_is_compiled_once_and_not_for_python(tmp_path):
    """One process compiles a caller and what it calls; the next has another caller and finds that part on disk."""
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
    said = []
    for module, function, call in CALLERS:
        code = SHARING.format(module=module, function=function, call=call)
        done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
        said += done.stdout.splitlines()
    assert said == ["0 1 0 1", " ".join(str(mixed(number)) for number in range(3)), "1 0 0 1"]


FAILING = """
import gc
import numpy as np
from gristmill.kernels import compiling
from gristmill.kernels.hash.radix import _sort_digits
for _ in range(2):
    try:
        _sort_digits("no", "arrays", "at", "all")
    except Exception as error:
        print(type(error).__name__)
    print(_sort_digits._cache.is_busy(), gc.isenabled())
keys, order = np.arange(9, dtype=np.uint64), np.arange(9)
_sort_digits(keys, order, keys.copy(), order.copy())
print(_sort_digits._cache.is_busy(), _sort_digits._cache.is_there())
"""


@pytest.mark.slow
def test_what_cannot_be_compiled_keeps_nobody_waiting(tmp_path):
    """The lock of an attempt that fails would be held until its process ends, and others would wait for ever."""
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", FAILING], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["TypingError", "False True"] * 2 + ["False True"]
