"""Law 4: a run that is killed after any write leaves nothing that looks finished, and a later run completes it.

One run lists every call that creates, renames, links or removes a file of the store. Then a process is killed right
after some calls of each kind: what is called, the folder of the store, and the first word of the file's name. A kill at
any moment leaves the state between two calls.
"""

import builtins
import hashlib
import io
import os
import re
import shutil
import signal
from pathlib import Path

import pytest

from gristmill.engine.executors.executor import InlineExecutor
from gristmill.engine.mill import Silent
from gristmill.engine.publish.garbage import alone, collect, find_garbage
from gristmill.query.versions.verify import verify
from sharded import Corpus

CALLS = ("replace", "rename", "link", "symlink", "unlink", "remove", "mkdir", "rmdir")


TO_THE_SECOND = ("replace", "rename", "link", "symlink")
"""Calls whose second argument is the path that they write."""


def killed_after(call, store, work):
    """Run `work` in a child that is killed after so many calls; return the kinds of its calls if it finished."""
    ours, theirs = os.pipe()
    child = os.fork()
    if child:
        os.close(theirs)
        with open(ours) as pipe:
            calls = pipe.read().splitlines()
        ended = os.waitpid(child, 0)[1]
        assert ended in (0, signal.SIGKILL)
        return calls if ended == 0 else None
    done = []

    def counted(real, name):
        def acted(*arguments, **named):
            found = real(*arguments, **named)
            path = Path(str(arguments[name in TO_THE_SECOND]))
            writes = name != "open" or set("wax") & set(str([*arguments[1:2], named.get("mode", "")]))
            if writes and path.is_relative_to(store):
                done.append(f"{name} {kind_of(path.relative_to(store))}")
                if len(done) == call:
                    os.kill(os.getpid(), signal.SIGKILL)
            return found

        return acted

    status = 1
    try:
        for name in CALLS:
            setattr(os, name, counted(getattr(os, name), name))
        builtins.open = io.open = counted(open, "open")
        work()
        os.write(theirs, "\n".join(done).encode())
        status = 0
    finally:
        os._exit(status)


def kind_of(path):
    """`parts`, `tasks`, `shards shard`, `shards manifest`, `tmp latest`; a name that is a hash has no word."""
    word = re.match("(?![0-9a-f]+\\b)[a-z]+|", "".join(path.parts[1:][-1:]))[0]
    return f"{''.join(path.parts[:1])} {word}".strip()


PUBLISHED = ("shards", "runs", "versions", "locks", "claims", "tmp")


@pytest.fixture
def corpus(project):
    """A small corpus: one shard for each group."""
    small = Corpus(project)
    small.write("notes", 40, 11)
    small.write("tales", 20, 12)
    small.recipe(shards="shard_tokens: 40000")
    return small


def run(project):
    mill = project.mill()
    mill.executor = lambda *_: InlineExecutor(mill.store)
    mill.run(None, Silent(), tag=None if (project.store / "versions" / "v1.json").exists() else "v1")


def files(project):
    """Everything in the store except run records and journals, which contain times: link targets, and file hashes."""
    found = {}
    for path in sorted(project.store.rglob("*")):
        name = str(path.relative_to(project.store))
        if path.is_symlink():
            found[name] = os.readlink(path)
        elif path.is_file() and not name.startswith(("runs/", "inputs/", "progress/")):
            is_record = name.startswith(("tasks/", "stages/", "versions/"))
            found[name] = "" if is_record else hashlib.sha256(path.read_bytes()).hexdigest()
    return found


def assert_nothing_looks_finished(project, expected):
    """A recorded run has its shards; a folder with a manifest is complete; garbage collection knows the rest."""
    mill = project.mill()
    now = files(project)
    for name in now:
        if name.endswith("manifest.json"):
            folder = name.removesuffix("manifest.json")
            assert {one for one in now if one.startswith(folder)} == {one for one in expected if one.startswith(folder)}
    if mill.newest_whole():  # `latest` moves after the record; if a kill came between, the next run moves it
        assert any(name.endswith("/manifest.json") for name in now)
    with alone(mill.store):
        collect(mill.store, find_garbage(mill.store, mill.dry_run()))
    assert not set(files(project)) - set(expected)


def assert_ends_the_same(project, expected):
    run(project)
    assert files(project) == expected
    mill = project.mill()
    assert not verify(mill.dry_run(), 0, InlineExecutor(mill.store), Silent()).broken


def check_kills(project, expected, begin, chosen):
    """`begin` prepares the store before each run; `chosen` picks numbers of calls from the kinds of all calls."""
    begin()
    calls = killed_after(0, project.store, lambda: run(project))
    assert files(project) == expected
    for call in chosen(calls):
        begin()
        assert killed_after(call, project.store, lambda: run(project)) is None
        assert_nothing_looks_finished(project, expected)
        assert_ends_the_same(project, expected)


def the_worst(calls):
    """Before the manifest exists, before `latest` exists, and before the tag exists, while the catalog is claimed."""
    return [calls.index(kind) + 1 for kind in ("open tmp manifest", "symlink tmp latest", "open tmp v")]


def some_of_each_kind(calls):
    """The last call of each kind, and one more: the first, the second and so on, to spread them over the run."""
    numbers = {}
    for number, kind in enumerate(calls, 1):
        numbers.setdefault(kind, []).append(number)
    assert {kind.split()[0] for kind in numbers} >= {"open", *CALLS} - {"rename"}
    places = ("parts", "tasks", "datasets", "stages", "shards shard", "shards latest", "runs run", "versions v")
    assert {*numbers} >= {f"replace {place}" for place in places}
    return sorted({found[at % len(found)] for place, found in enumerate(numbers.values()) for at in (place, -1)})


def test_a_kill_at_the_worst_writes_of_a_publication_leaves_nothing_that_looks_finished(corpus):
    """The parts exist; their names, the manifest, `latest`, the run record and its tag are written again."""
    project = corpus.project
    run(project)
    expected = files(project)

    def begin():
        for name in PUBLISHED:
            shutil.rmtree(project.store / name, ignore_errors=True)

    check_kills(project, expected, begin, the_worst)


@pytest.mark.slow
def test_a_kill_after_any_kind_of_write_leaves_nothing_that_looks_finished(corpus):
    """The run starts with an empty store and ends with the publication."""
    project = corpus.project
    run(project)
    check_kills(project, files(project), lambda: shutil.rmtree(project.store), some_of_each_kind)
