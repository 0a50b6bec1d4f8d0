"""Law 8: a damaged file in a store is restored to the same bytes or rejected; it is never trusted.

The tests apply every kind of damage to every kind of file, with a recipe that has an exchange of two rounds, a model,
shards and a mixture. After each damage a user runs the recipe again, verifies it and reads every sample.
"""

import hashlib
import os
import random
import shutil
from pathlib import Path

import pytest
from conftest import Project

from gristmill.engine.executors.executor import InlineExecutor
from gristmill.engine.mill import Mill, Silent
from gristmill.engine.publish.journal import FOLDER
from gristmill.errors import UserError
from gristmill.loader import Loader
from gristmill.query.versions.verify import clear_away, verify
from gristmill.recipe.load import load
from gristmill.recipe.model import Recipe
from sharded import Corpus

STEPS = "[stagebox.length, stagebox.exact, stagebox.two_rounds, stagebox.vocabulary, stagebox.rarity]"
TRIALS_OF_A_KIND = 2


def flip(path: Path, draw: random.Random, _: Path) -> None:
    data = bytearray(path.read_bytes())
    data[draw.randrange(len(data))] ^= 1 << draw.randrange(8)
    write(path, bytes(data))


def truncate(path: Path, draw: random.Random, _: Path) -> None:
    write(path, path.read_bytes()[: draw.randrange(path.stat().st_size)])


def delete(path: Path, _: random.Random, __: Path) -> None:
    path.unlink()


def swap(path: Path, _: random.Random, other: Path) -> None:
    one, two = path.read_bytes(), other.read_bytes()
    write(path, two)
    if other != path:
        write(other, one)


def exchange_content(path: Path, draw: random.Random, _: Path) -> None:
    """Write wrong content of the same size and restore the file's times: only its bytes reveal the change."""
    times = path.stat()
    write(path, draw.randbytes(times.st_size))
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))


def digit(path: Path, draw: random.Random, other: Path) -> None:
    """Replace a digit: the result is still well-formed JSON in most places."""
    data = bytearray(path.read_bytes())
    places = [at for at, byte in enumerate(data) if 48 <= byte <= 57]
    if not places:
        flip(path, draw, other)
        return
    at = draw.choice(places)
    data[at] = 48 + (data[at] - 47) % 10
    write(path, bytes(data))


def empty(path: Path, _: random.Random, __: Path) -> None:
    write(path, b"")


def replace(path: Path, draw: random.Random, other: Path) -> None:
    """Put another file under the name, so it is no longer a hard link to the part."""
    content = path.read_bytes()
    path.unlink()
    path.write_bytes(content)
    flip(path, draw, other)


DAMAGES = (flip, truncate, delete, swap, exchange_content, digit)


def write(path: Path, data: bytes) -> None:
    """Write into the file itself, so that its other names show the damage too."""
    os.chmod(path, 0o644)
    path.write_bytes(data)


def kind_of(name: str) -> str:
    """`parts .ds.index`, `tasks`, `shards manifest.json`…"""
    folder, _, rest = name.partition("/")
    file = rest.rsplit("/", 1)[-1]
    if folder == "parts":
        return f"parts .{file.partition('.')[2]}"
    return f"shards .{file.partition('.')[2]}" if folder == "shards" else folder


class RunResult:
    """What a user has after running the recipe on a store."""

    def __init__(self, project: Project, recipe: Recipe) -> None:
        mill = Mill(recipe)
        mill.executor = lambda *_: InlineExecutor(mill.store)
        run = mill.run(None, Silent())
        self.parts = project.parts(run)
        assert run.shards is not None
        with Loader(run.shards, batch_samples=4, check="hash") as loader:
            self.samples = hashlib.sha256(b"".join(batch.tokens.tobytes() for batch in loader)).hexdigest()


@pytest.mark.early
@pytest.mark.slow
def test_damage_is_repaired_or_rejected(project, edit):
    """In at least 200 trials, the parts, shards and samples are the same, or the run stops with a message."""
    corpus = Corpus(project)
    corpus.recipe(shards="shard_tokens: 20000")
    edit(project.recipe, "steps: []", f"steps: {STEPS}")
    recipe = load(project.recipe)  # once: it reads nothing from the store
    whole = RunResult(project, recipe)
    mill = project.mill()
    mill.store.write_json("versions/v1.json", mill.newest_whole())
    pristine = project.folder / "pristine"
    store = _Restored(project.store, pristine)
    names = sorted(str(path.relative_to(pristine)) for path in pristine.rglob("*") if _is_own_file(path))
    kinds: dict[str, list[str]] = {}
    for name in names:
        kinds.setdefault(kind_of(name), []).append(name)
    assert {
        "tasks",
        "datasets",
        "runs",
        "versions",
        "inputs",
        "parts .segments",
        "parts .parquet",
        "parts .verdicts",
    } <= set(kinds)
    draw = random.Random(8)
    trials = refused = 0
    for kind, found in kinds.items():
        for damage in DAMAGES:
            for name in draw.sample(found, min(TRIALS_OF_A_KIND, len(found))):
                other = draw.choice([one for one in found if one != name] or [name])
                store.restore()
                store.is_hit(name, other)
                damage(project.store / name, draw, project.store / other)
                what = f"{damage.__name__} of {name} (a file of kind {kind})"
                try:
                    repaired = RunResult(project, recipe)
                except UserError:
                    refused += 1
                    repaired = None
                if repaired is not None:
                    assert repaired.parts == whole.parts, what
                    assert repaired.samples == whole.samples, what
                trials += 1
    print("TRIALS", trials, refused, len(kinds))
    assert trials >= 200
    assert refused < trials / 4, "most damage is repaired, not refused"
    store.restore()
    assert not verify(project.dry_run(), 0.0, project.mill().executor(1), Silent()).broken


CATALOG = {"runs", "versions", "dropped"}
"""Records that no run can recreate."""
UNNAMED = {*CATALOG, "inputs"}
"""No record names these files, so a deleted one cannot be noticed."""

GROUPS = {"stages": "steps", "shards": "published"}


@pytest.mark.slow
def test_verify_names_a_damaged_file_and_repairs_it(project, edit):
    """`verify` names the damaged file, and its repair restores the store, for every kind of file and damage.

    Files of several kinds are damaged together, but not files that name each other.
    """
    corpus = Corpus(project)
    corpus.write("notes", 30, 11)
    corpus.recipe(mix="mix: {tokens: 8k, max_epochs: 50}", shards="shard_tokens: 20000")
    edit(project.recipe, "steps: []", f"steps: {STEPS}")
    recipe = load(project.recipe)
    whole = RunResult(project, recipe)
    mill = project.mill()
    mill.store.write_json("versions/v1.json", mill.newest_whole())
    mill.store.write_json("dropped/other/0123456789ab.json", {})
    store = _Restored(project.store, project.folder / "pristine")
    draw = random.Random(9)
    groups: dict[str, dict[str, list[str]]] = {}
    own = (name for name in store.files if _is_own_file(store.pristine / name) and kind_of(name) != FOLDER)
    for name in sorted(own):  # tests/engine/test_journal.py damages journals
        group = "unnamed" if kind_of(name) in UNNAMED else GROUPS.get(name.split("/")[0], "")
        groups.setdefault(group, {}).setdefault(kind_of(name), []).append(name)
    kinds_there = {kind for kinds in groups.values() for kind in kinds}
    assert {*UNNAMED, "tasks", "stages", "datasets", "parts .segments", "shards .json", "shards .index"} <= kinds_there
    for damage in (flip, empty, delete, swap, replace):
        for kinds in [kinds for group, kinds in groups.items() if damage is not delete or group != "unnamed"]:
            store.restore()
            hit: set[str] = set()
            for found in kinds.values():
                apart = [name for name in found if store.names_of(name).isdisjoint(hit)]
                free = [name for name in apart if not _mentions(store.pristine / name, hit)] or apart or found
                name, *others = draw.sample(free, min(2, len(free)))
                if others or damage is not swap:
                    hit |= store.names_of(name)
                    store.is_hit(name, *others)
                    damage(project.store / name, draw, project.store / (others or [name])[0])
            view = project.dry_run()
            findings = verify(view, 0.0, InlineExecutor(view.store), Silent())
            reported = {*findings.damaged, *(part.name for part in findings.broken)}
            for name in hit:
                assert not reported.isdisjoint(store.names_of(name)), f"{damage.__name__} of {name}"
            clear_away(view, findings)
            assert RunResult(project, recipe).parts == whole.parts, damage
            left = verify(again := project.dry_run(), 0.0, InlineExecutor(again.store), Silent())
            assert (left.broken, left.damaged.keys() - reported) == ({}, set()), damage
            assert all(kind_of(name) in CATALOG for name in left.damaged), damage


def _is_own_file(path: Path) -> bool:
    return path.is_file() and not path.is_symlink() and not any(part.is_symlink() for part in path.parents)


class _Restored:
    """A store that can be restored to its original state, with times, links and hard links."""

    def __init__(self, store: Path, pristine: Path) -> None:
        self.store = store
        self.pristine = pristine
        store.rename(pristine)
        self.files = {name: path.lstat().st_ino for name, path in _inside(pristine) if not _is_folder(path)}
        self.folders = [name for name, path in _inside(pristine) if _is_folder(path)]
        self.clean: dict[str, tuple[int, int]] = {}
        """The state of each file right after it was restored; any change by a run changes it."""

    def restore(self) -> None:
        """Copy back only what changed, since copying all of a few hundred files would take time."""
        for name, path in reversed(_inside(self.store)):
            if _is_folder(path):
                if name not in self.folders:
                    path.rmdir()
            elif self.clean.get(name) != _mark(path):
                path.unlink()
        for name in ("", *self.folders):
            (self.store / name).mkdir(exist_ok=True)
        here = {inode: name for name, inode in self.files.items() if os.path.lexists(self.store / name)}
        for name, inode in self.files.items():
            if os.path.lexists(self.store / name):
                continue
            if inode in here:
                os.link(self.store / here[inode], self.store / name, follow_symlinks=False)
            else:
                shutil.copy2(self.pristine / name, self.store / name, follow_symlinks=False)
            here[inode] = name
        self.clean = {name: _mark(self.store / name) for name in self.files}

    def names_of(self, name: str) -> set[str]:
        """A file's name and its other hard links."""
        return {other for other, inode in self.files.items() if inode == self.files[name]}

    def is_hit(self, *names: str) -> None:
        """Mark these files and their hard links for restoring, even if the clock has not advanced yet."""
        hit = {self.files[name] for name in names}
        self.clean = {name: mark for name, mark in self.clean.items() if self.files[name] not in hit}


def _mentions(path: Path, hit: set[str]) -> bool:
    """Whether a record names one of the files that are already damaged."""
    text = path.read_bytes() if path.suffix == ".json" else b""
    return any(Path(name).name.partition(".")[0].encode() in text for name in hit)


def _inside(folder: Path) -> list[tuple[str, Path]]:
    """All files and folders, parents before children, without following links."""
    found = []
    for at, folders, files in os.walk(folder):
        found += [Path(at, name) for name in (*folders, *files)]
    return [(str(path.relative_to(folder)), path) for path in found]


def _is_folder(path: Path) -> bool:
    return path.is_dir() and not path.is_symlink()


def _mark(path: Path) -> tuple[int, int]:
    """The change time of a file, which no program can set."""
    status = path.lstat()
    return status.st_ino, status.st_ctime_ns


def test_verify_finds_a_latest_link_that_points_elsewhere(project):
    """A trainer opens `latest`, which could lead to shards from before a takedown. The next run corrects it."""
    corpus = Corpus(project)
    corpus.write("notes", 30, 11)
    corpus.recipe(mix="mix: {tokens: 8k, max_epochs: 50}", shards="shard_tokens: 20000")
    project.run()
    (latest,) = project.store.glob("shards/*/latest")
    newest = latest.readlink()

    def damaged():
        view = project.dry_run()
        return verify(view, 0.0, InlineExecutor(view.store), Silent()).damaged

    assert damaged() == {}
    latest.unlink()
    latest.symlink_to("0123456789ab")
    name = latest.relative_to(project.store).as_posix()
    assert damaged() == {name: "does not point to the shards of the newest run"}
    project.run()
    assert latest.readlink() == newest
