"""Kernels are compiled in ways of our own; Numba stays as it is for all other functions of the process."""

import json
import os
import subprocess
import sys

import numba
import numpy as np
import pytest
from numba import types

from gristmill.kernels.compile import njit
from gristmill.kernels.hash.splitmix import mix
from gristmill.shardformat.splitmix import mixed

WATCHED = """
import json, sys
import numba
import numpy as np
from numba.core import event, types
from numba.extending import intrinsic

def attributes():
    # everything that could be replaced in Numba and llvmlite: what modules and their classes hold
    found = {}
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] in ("numba", "llvmlite"):
            for key, value in vars(module).items():
                found[name, key] = value
                if isinstance(value, type) and value.__module__ == name:
                    found.update({(name, key, inner): item for inner, item in vars(value).items()})
    return found

def changed():
    now = attributes()
    return sorted(".".join(key) for key, value in before.items() if now.get(key, value) is not value)

said = {"user": [], "kernel": []}

@intrinsic
def seen(context, kind):
    # called while the function around it is typed and while it is lowered
    said["user"].append(changed())
    def lower(context, builder, signature, args):
        said["user"].append(changed())
        return context.get_constant(types.int64, 1)
    return types.int64(kind), lower

class Listener(event.Listener):
    def on_start(self, event):
        function = event.data["dispatcher"].py_func
        if function.__module__ == "__main__":
            said["user"].append(changed())
        elif function.__module__.startswith("gristmill."):
            said["kernel"].append(changed())
    def on_end(self, event): ...

def user(x):
    return [x, x + seen(x)][1]

numba.njit(lambda x: [x, x][1] + 1)(1)  # what Numba imports and makes at its first function is there
"""
RUN = """
before = attributes()
event.register("numba:compile", Listener())
from gristmill.kernels.hash.hashset import finish
from gristmill.kernels.hash.splitmix import mix
three = np.uint64(3)
values = [numba.njit(user)(1), int(finish(three, three)[0]), numba.njit(user)(2.0), int(mix(three))]
values.append(numba.njit(user)(np.float32(3)))
values.append(int(numba.njit(lambda x: mix(x))(three)))
print(json.dumps([values, said, changed(), [name for name in sys.modules if name.startswith("gristmill.kernels.")]]))
"""
ANOTHER = 'numba.version_info = numba.version_info._replace(short=(0, 69))\nnumba.__version__ = "0.69.0"\n'


def in_a_process(code, folder):
    """What it prints; without compiled kernels at first."""
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(folder)}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


@pytest.mark.slow
def test_functions_of_others_are_compiled_by_untouched_numba(tmp_path):
    """Before, between and after kernels. While a kernel is compiled three methods are exchanged, and nothing else."""
    values, said, after, _ = in_a_process(WATCHED + RUN, tmp_path)
    assert values[::2] == [2, 3, 4]
    assert values[3] == values[5] == mixed(3)
    assert len(said["user"]) >= 3 * 3
    assert not any(said["user"])
    assert not after
    ours = [
        "base.BaseContext.get_abi_sizeof",
        "postproc.PostProcessor.run",
        "types.functions.BaseFunction.get_call_type",
    ]
    ours = [f"numba.core.{name}" for name in ours]
    assert ours in said["kernel"]
    assert all(names in ([], ours) for names in said["kernel"])


@pytest.mark.slow
def test_another_series_of_numba_compiles_kernels_in_its_own_ways(tmp_path):
    """The results are the same and kept on disk. Nothing is replaced, and code for the internals of one series is not
    imported.
    """
    assert numba.version_info.short == (0, 68)
    expected, *_ = in_a_process(WATCHED + RUN, tmp_path)
    values, said, _, modules = in_a_process(WATCHED + ANOTHER + RUN, tmp_path)
    assert values == expected
    assert said["kernel"]
    assert not any(said["kernel"])
    assert {"gristmill.kernels.inner", "gristmill.kernels.shortcuts"}.isdisjoint(modules)
    values, said, *_ = in_a_process(WATCHED + ANOTHER + RUN, tmp_path)
    assert values == expected
    assert not said["kernel"]


def test_constants_and_short_integers_make_no_forms_of_their_own():
    plus_one = njit()(lambda x: x + 1)
    total = njit()(lambda short: plus_one(1) + plus_one(2) + plus_one(short))
    assert total(np.array([3], np.int32)[0]) == 9
    assert plus_one.inner.signatures == [(types.int64,)]
    assert not plus_one.signatures  # neither Python nor a function of others called it


def test_a_function_of_others_calls_the_form_that_python_calls():
    plus_one = njit()(lambda x: x + 1)
    assert numba.njit(lambda x: plus_one(x) * 2)(4) == 10
    assert plus_one.signatures == [(types.int64,)]
    assert "inner" not in vars(plus_one)


def test_a_kernel_may_call_itself():
    made = {"njit": njit}
    exec("@njit()\ndef total(n):\n    return n + total(n - 1) if n else 0\n", made)
    assert made["total"](4) == 10


def test_functions_of_others_that_are_in_no_module_are_compiled():
    """An example is a function that a user builds from a string."""
    made = {"njit": numba.njit, "mix": mix}
    exec("@njit\ndef twice(x):\n    return 2 * x\n\n@njit\ndef more(x):\n    return twice(x) + 1\n", made)
    assert made["more"].__module__ is None
    assert made["more"](20) == 41
