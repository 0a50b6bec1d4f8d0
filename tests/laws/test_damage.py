"""Law 8: whatever lies in a store may be damaged; it is repaired to the same bytes or refused, never believed.

Every kind of file times every kind of damage, on a recipe with an exchange of two rounds, a model, shards and a
mixture. After each damage a user runs the recipe again, verifies it and reads every sample.
"""

import hashlib
import os
import random
import shutil
from pathlib import Path

import pytest

from gristmill.engine.executors.executor import InlineExecutor
from gristmill.engine.mill import Silent
from gristmill.errors import UserError
from gristmill.loader import Loader
from gristmill.query.verify import verify
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
    """Wrong content of the right size, with the times that the file had: only its bytes tell."""
    times = path.stat()
    write(path, draw.randbytes(times.st_size))
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))


def digit(path: Path, draw: random.Random, other: Path) -> None:
    """Another digit: what is left is well-formed JSON in most places."""
    data = bytearray(path.read_bytes())
    places = [at for at, byte in enumerate(data) if 48 <= byte <= 57]
    if not places:
        flip(path, draw, other)
        return
    at = draw.choice(places)
    data[at] = 48 + (data[at] - 47) % 10
    write(path, bytes(data))


DAMAGES = (flip, truncate, delete, swap, exchange_content, digit)


def write(path: Path, data: bytes) -> None:
    """Into the file itself, so that its other names show the damage too."""
    os.chmod(path, 0o644)
    path.write_bytes(data)


def kind_of(name: str) -> str:
    """`parts .ds.index`, `tasks`, `shards manifest.json`…"""
    folder, _, rest = name.partition("/")
    file = rest.rsplit("/", 1)[-1]
    if folder == "parts":
        return f"parts .{file.partition('.')[2]}"
    return f"shards .{file.partition('.')[2]}" if folder == "shards" else folder


class Mended:
    """What a user has after running the recipe on a store."""

    def __init__(self, corpus: Corpus) -> None:
        project = corpus.project
        mill = project.mill()
        mill.executor = lambda *_: InlineExecutor(mill.store)
        run = mill.run(None, Silent())
        self.parts = project.parts(run)
        assert run.shards is not None
        with Loader(run.shards, batch_samples=4, check="hash") as loader:
            self.samples = hashlib.sha256(b"".join(batch.tokens.tobytes() for batch in loader)).hexdigest()


@pytest.mark.slow
def test_damage_is_repaired_or_refused(project, edit):
    """At least 200 trials over every kind of file; the same parts, shards and samples come out, or a message."""
    corpus = Corpus(project)
    corpus.recipe(shards="shard_tokens: 20000")
    edit(project.recipe, "steps: []", f"steps: {STEPS}")
    whole = Mended(corpus)
    mill = project.mill()
    mill.store.write_json("versions/v1.json", mill.last_run(finished=True))
    pristine = project.folder / "pristine"
    _copy(project.store, pristine)
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
                _copy(pristine, project.store)
                damage(project.store / name, draw, project.store / other)
                what = f"{damage.__name__} of {name} (a file of kind {kind})"
                try:
                    mended = Mended(corpus)
                except UserError:
                    refused += 1
                    mended = None
                if mended is not None:
                    assert mended.parts == whole.parts, what
                    assert mended.samples == whole.samples, what
                trials += 1
    print("TRIALS", trials, refused, len(kinds))
    assert trials >= 200
    assert refused < trials / 4, "most damage is repaired, not refused"
    _copy(pristine, project.store)
    assert not verify(project.look(), 0.0, project.mill().executor(1), Silent()).broken


def _is_own_file(path: Path) -> bool:
    return path.is_file() and not path.is_symlink() and not any(part.is_symlink() for part in path.parents)


def _copy(source: Path, target: Path) -> None:
    """With times, links and second names: a store as it was."""
    shutil.rmtree(target, ignore_errors=True)
    seen: dict[int, str] = {}
    for folder, folders, files in os.walk(source):
        here = target / Path(folder).relative_to(source)
        here.mkdir(parents=True)
        for name in [name for name in folders if os.path.islink(os.path.join(folder, name))]:
            os.symlink(os.readlink(os.path.join(folder, name)), here / name)
        for name in files:
            path, to = os.path.join(folder, name), str(here / name)
            inode = os.lstat(path).st_ino
            if inode in seen:
                os.link(seen[inode], to)
            else:
                seen[inode] = to
                shutil.copy2(path, to, follow_symlinks=False)
