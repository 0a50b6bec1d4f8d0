"""Compiling once: what several processes do on a machine that has no compiled kernels yet."""

import os
import pickle
import random
import shutil
import subprocess
import sys
from contextlib import nullcontext
from pickle import loads

import numpy as np
import pytest

from gristmill.kernels import code_files
from gristmill.kernels.code_files import CheckedFiles, OthersCanWrite, make_private
from gristmill.kernels.dedup.buckets import mixed as mix_all
from gristmill.kernels.hash.radix import _sort_digits
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
@pytest.mark.parametrize("home", ["/dev/null", "/proc/nobody"])
def test_a_user_without_a_home_folder_has_compiled_kernels(tmp_path, home):
    """As in containers that run under another user: they are in the folder of temporary files."""
    environment = {
        name: value for name, value in os.environ.items() if name not in ("XDG_CACHE_HOME", "NUMBA_CACHE_DIR")
    }
    environment |= {"HOME": home, "TMPDIR": str(tmp_path)}
    command = [sys.executable, "-c", SCRIPT]
    for misses in ("1", "0"):
        done = subprocess.run(command, env=environment, input="\n", capture_output=True, text=True, check=True)
        assert done.stdout.split() == ["ready", misses]
    assert [*tmp_path.glob(f"gristmill-{os.geteuid()}/kernels/*")]


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
from gristmill.kernels.hash.splitmix import mix
from gristmill.kernels.{module} import {function}
{call}
stats = mix.inner.stats
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
    outputs = []
    for module, function, call in CALLERS:
        code = SHARING.format(module=module, function=function, call=call)
        done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
        outputs += done.stdout.splitlines()
    assert outputs == ["0 1 0 1", " ".join(str(mixed(number)) for number in range(3)), "1 0 0 1"]


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
def test_a_failed_compilation_keeps_no_process_waiting(tmp_path):
    """The lock of an attempt that fails would be held until its process ends, and others would wait for ever."""
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", FAILING], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["TypingError", "False True"] * 2 + ["False True"]


@pytest.fixture
def kept(tmp_path):
    """Copies of real files of compiled code: (the files of a function, its key, path) of each."""
    keys, order = np.arange(9, dtype=np.uint64), np.arange(9)
    _sort_digits(keys, order, keys.copy(), order.copy())
    mix_all(keys)
    found = []
    for function in (_sort_digits, mix_all):
        shared = CheckedFiles(function._cache.cache_path, function._cache._impl.filename_base, "")
        key, name = next(iter(shared._load_index().items()))  # others may be of runs with other settings
        folder = tmp_path / os.path.basename(function._cache.cache_path)
        folder.mkdir(exist_ok=True)
        for file in (shared._index_name, name):
            shutil.copy(os.path.join(function._cache.cache_path, file), folder)
        files = CheckedFiles(str(folder), function._cache._impl.filename_base, "")
        files.save("another processor", "code")
        found += [(files, key, folder / files._index_name), (files, key, folder / name)]
    return found


def test_damaged_compiled_code_is_deleted_and_never_unpickled(kept, monkeypatch):
    """A flipped bit anywhere, a cut, a file of another function, one without its hash: each counts as absent."""
    read, outputs = [], []
    monkeypatch.setattr(code_files, "show_warning", lambda message, _, path, line: outputs.append((message, path)))
    monkeypatch.setattr(pickle, "loads", lambda data: read.append(bytes(data)) or loads(data))
    draw = random.Random(13)
    wholes = [path.read_bytes() for *_, path in kept]
    for (files, key, path), whole, others in zip(kept, wholes, [wholes[2:]] * 2 + [wholes[:2]] * 2, strict=True):
        assert files.load(key) is not None
        bits = [*range(40), *draw.sample(range(8 * len(whole)), 200), *range(8 * len(whole) - 9, 8 * len(whole))]
        flipped = [whole[: at >> 3] + bytes([whole[at >> 3] ^ 1 << (at & 7)]) + whole[(at >> 3) + 1 :] for at in bits]
        for data in (*flipped, *others, b"", whole[:31], whole[:-1], whole[32:], whole + b"\0"):
            path.write_bytes(data)
            read.clear()
            code_files._said.clear()
            assert files.load(key) is None
            assert data[32:] not in read
            assert not path.exists()
            assert outputs.pop() == (code_files.DAMAGED, str(path))
        path.write_bytes(whole)
        assert files.load(key) is not None
    assert not outputs


def test_code_is_not_taken_for_another_form(kept):
    """An index and the code of two processes that wrote at once do not belong together."""
    files, key, _ = kept[0]
    files.save(key, "code")
    assert files.load(key) == "code"
    name = files._load_index()[key]
    files._save_index({"another form": name})
    assert files.load("another form") is None


AGAIN = SCRIPT.replace('print("ready", flush=True)\nsys.stdin.readline()\n', "")


@pytest.mark.slow
def test_a_process_compiles_again_what_is_damaged_and_says_so_once(tmp_path):
    """The next one finds it whole, and nothing is said."""
    strict = {"NUMBA_CACHE_DIR": str(tmp_path), "PYTHONWARNINGS": "error"}
    environment, outputs = {**os.environ, **strict}, []
    for _ in range(3):
        done = subprocess.run(
            [sys.executable, "-c", AGAIN], env=environment, capture_output=True, text=True, check=True
        )
        outputs.append((done.stdout, done.stderr))
        [path] = tmp_path.rglob("*.1.nbc")
        if len(outputs) == 1:
            path.write_bytes(path.read_bytes()[:-1] + b"\0")
    warning = f"{path}:0: RuntimeWarning: {code_files.DAMAGED}\n"
    assert outputs == [("1\n", ""), ("1\n", warning), ("0\n", "")]


@pytest.mark.parametrize(
    ("at", "mode", "owner", "refused"),
    [
        ("kernels", 0o700, "me", False),
        ("kernels", 0o755, "me", False),
        ("kernels", 0o770, "me", True),
        ("kernels", 0o707, "me", True),
        ("kernels", 0o1777, "me", True),
        ("kernels/one", 0o722, "me", True),
        (".", 0o777, "me", True),
        (".", 0o1777, "me", False),
        ("kernels", 0o700, "another", True),
        (".", 0o1777, "another", True),
    ],
)
def test_code_is_only_kept_where_no_other_user_can_write(tmp_path, monkeypatch, at, mode, owner, refused):
    """Below the cache's folder, and above it where the folder could be exchanged (not in a /tmp that is sticky)."""
    root = tmp_path / "cache" / "kernels"
    make_private(root / "one", root)
    assert {path.stat().st_mode & 0o777 for path in (root / "one", root, root.parent)} == {0o700}
    (root.parent / at).chmod(mode)
    code_files._refuse_others.cache_clear()
    if owner == "another" and os.getuid() == 0:
        os.chown(root.parent / at, 12345, 12345)
    elif owner == "another":
        monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    with pytest.raises(OthersCanWrite, match="Other users can write to") if refused else nullcontext():
        make_private(root / "one", root)


@pytest.mark.parametrize("command", [["gristmill.cli.main", "run", "recipe.yaml"], ["gristmill.kernels"]])
def test_a_shared_folder_is_one_message(tmp_path, command):
    """Exit code 2, the folder and the way out; no traceback, though kernels are imported before a command begins."""
    (tmp_path / "kernels").mkdir()
    (tmp_path / "kernels").chmod(0o777)
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
    done = subprocess.run([sys.executable, "-m", *command], env=environment, capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert done.stderr.endswith(f"and run: chmod go-w {tmp_path / 'kernels'}\n")
