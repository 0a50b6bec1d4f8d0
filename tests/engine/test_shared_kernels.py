"""Compiled kernels in the store: used by machines with the secret, for the same target, exactly as they were stored."""

import json
import os
import subprocess
import sys

import pytest

from gristmill.engine.executors import shared_kernels
from gristmill.engine.executors.shared_kernels import KEY, fetch, keep, secret
from gristmill.engine.publish.garbage import find_garbage
from gristmill.errors import UserError
from gristmill.kernels import cache_folder
from gristmill.store.store import Store

SECRET = "0123456789abcdef"
STAGES = ["gristmill.engine.work.exchange"]
"""What sorts: one kernel, compiled in a second."""
MACHINE = """
import json, sys
import numpy as np
from gristmill.engine.executors.shared_kernels import fetch, keep
from gristmill.kernels.hash.radix import _sort_digits
from gristmill.store.store import Store
store, stages = Store(sys.argv[1]), json.loads(sys.argv[2])
taken = fetch(store, stages)
keys, order = np.arange(9, dtype=np.uint64)[::-1].copy(), np.arange(9)
spare, placed = keys.copy(), order.copy()
swapped = _sort_digits(keys, order, spare, placed)
assert (placed if swapped else order).tolist() == list(range(9))[::-1]
print(json.dumps([taken, _sort_digits.stats.cache_misses.total(), keep(store, stages)]))
"""


def on_a_machine(cache, store, key=SECRET, **environment):
    """Functions downloaded, functions compiled, and modules uploaded, by a machine with this cache of compiled code."""
    command = [sys.executable, "-c", MACHINE, str(store), json.dumps(STAGES)]
    message = {**os.environ, "NUMBA_CACHE_DIR": str(cache), KEY: key, **environment}
    done = subprocess.run(command, env=message, capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A store with the compiled kernels of one machine."""
    folder = tmp_path_factory.mktemp("shared")
    assert on_a_machine(folder / "first", folder / "store") == [0, 1, 1]
    return folder


@pytest.mark.slow
def test_a_second_machine_compiles_nothing(made, tmp_path):
    """With another empty cache and the same store; then there is nothing to upload."""
    assert on_a_machine(tmp_path, made / "store") == [1, 0, 0]
    assert on_a_machine(tmp_path, made / "store") == [0, 0, 0]


@pytest.mark.slow
def test_without_the_secret_nothing_is_taken_or_put(made, tmp_path):
    """It is off by default, and another secret opens nothing."""
    assert on_a_machine(tmp_path / "none", made / "store", key="") == [0, 1, 0]
    objects = {path: path.read_bytes() for path in (made / "store" / "kernels").iterdir()}
    assert on_a_machine(tmp_path / "other", tmp_path / "empty", key="") == [0, 1, 0]
    assert not (tmp_path / "empty").exists()
    copy = tmp_path / "store" / "kernels"
    copy.mkdir(parents=True)
    for path, content in objects.items():
        (copy / path.name).write_bytes(content)
    assert on_a_machine(tmp_path / "other", tmp_path / "store", key="another secret 16") == [0, 0, 1]


@pytest.mark.slow
def test_code_for_another_target_is_not_taken(made, tmp_path):
    """Another processor, as Numba sees it; each target has its own object."""
    before = len(list((made / "store" / "kernels").iterdir()))
    assert on_a_machine(tmp_path, made / "store", NUMBA_CPU_NAME="generic") == [0, 1, 1]
    assert len(list((made / "store" / "kernels").iterdir())) == before + 1


@pytest.fixture
def copied(made, tmp_path, monkeypatch):
    """A store with the object for this machine, the secret, and an empty cache."""
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv(KEY, SECRET)
    store = Store(str(tmp_path / "store"))
    [name] = [shared_kernels._name(module) for module in shared_kernels._modules(STAGES) if module == "hash.radix"]
    store.write_file(f"kernels/{name}", (made / "store" / "kernels" / name).read_bytes())
    return store, tmp_path / "store" / "kernels" / name


@pytest.mark.slow
def test_a_damaged_object_is_refused_and_made_again(copied):
    """This holds for any damaged byte: none of its files is written."""
    store, path = copied
    good = path.read_bytes()
    for at in [*range(0, len(good), len(good) // 40), len(good) - 1]:
        path.write_bytes(good[:at] + bytes([good[at] ^ 1]) + good[at + 1 :])
        assert fetch(store, STAGES) == 0
    for cut in (b"", good[:10], good[:-1], good + b"\0"):
        path.write_bytes(cut)
        assert fetch(store, STAGES) == 0
    assert not cache_folder("hash.radix").exists()
    path.write_bytes(good)
    assert fetch(store, STAGES) == 1
    path.write_bytes(good[:-1])
    assert keep(store, STAGES) == 1
    assert path.read_bytes() == good


@pytest.mark.slow
def test_damaged_code_of_this_machine_is_not_signed(copied):
    """Others would download it, find it damaged, and compile it, each of them."""
    store, path = copied
    assert fetch(store, STAGES) == 1
    path.unlink()
    [code] = cache_folder("hash.radix").glob("*.nbc")
    whole = code.read_bytes()
    code.write_bytes(whole[:-1])
    assert keep(store, STAGES) == 0
    code.write_bytes(whole)
    assert keep(store, STAGES) == 1


@pytest.mark.slow
def test_an_object_under_the_name_of_another_is_refused(copied, monkeypatch):
    """It is signed together with its name: code of another kernel, version or target is rejected."""
    store, path = copied
    monkeypatch.setattr(shared_kernels, "target", lambda: "0123456789abcdef")
    [name] = [shared_kernels._name(module) for module in shared_kernels._modules(STAGES) if module == "hash.radix"]
    path.rename(path.with_name(name))
    assert fetch(store, STAGES) == 0


@pytest.mark.slow
def test_local_code_is_not_replaced(copied):
    """Only functions without local code are downloaded."""
    store, _ = copied
    assert fetch(store, STAGES) == 1
    before = {path: path.read_bytes() for path in cache_folder("hash.radix").iterdir()}
    assert fetch(store, STAGES) == 0
    assert {path: path.read_bytes() for path in cache_folder("hash.radix").iterdir()} == before


def test_a_secret_that_can_be_guessed_is_refused(monkeypatch):
    """With the fact, the consequence and the fix."""
    monkeypatch.setenv(KEY, "short")
    with pytest.raises(UserError, match=r"has only 5 characters and can be guessed.*or unset it"):
        secret()


def test_collection_takes_kernels_of_other_sources(project):
    """Those of these sources stay, for any machine; files with other names are left alone."""
    project.write_inputs(files=1, records=5)
    project.write_recipe("  - stagebox.length\n")
    project.run()
    store = project.mill().store
    source = shared_kernels._source("hash.radix")
    old = f"kernels/hash-radix-{'0' * 16}-{'1' * 16}.kernels"
    for name in (
        f"kernels/{source}-{'1' * 16}.kernels",
        f"kernels/{source}-{'2' * 16}.kernels",
        old,
        "kernels/notes.txt",
    ):
        store.write_file(name, b"x")
    garbage = find_garbage(store, project.dry_run())
    assert [path for path in garbage.files if path.startswith("kernels/")] == [old]
