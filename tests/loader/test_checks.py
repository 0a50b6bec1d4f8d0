"""If a shard differs from the manifest in any way, none of its samples is returned."""

import json
import logging
import os
import pickle
import shutil
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest

from gristmill.errors import UserError
from gristmill.loader import Loader, checks, read_manifest
from gristmill.loader.ahead import needed_shards
from loader.small import Corpus, two_phases

NAMES = [f"{stem}.{kind}" for stem in ("crawl-B/shard_00001", "wiki-A/shard_00000") for kind in ("bin", "index")]


def rows_of(path, how, **options):
    """The samples that were returned, and the message of the failure that ended them, if any."""
    rows = []
    with Loader(path, batch_samples=10, check=how, **options) as loader:
        try:
            for batch in loader:
                rows += [row.tobytes() for row in batch.tokens]
        except UserError as error:
            return rows, str(error)
    return rows, None


@pytest.fixture(scope="module")
def expected(corpus):
    return rows_of(corpus, "seal")[0]


def write_keeping_times(path, data):
    """Write a file and keep its times, like a disk that loses a bit."""
    before = os.stat(path)
    path.write_bytes(data)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def flipped(data, at):
    return data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]


def first_sample_of(path, name):
    """The first global sample in the shard of a file."""
    with Loader(path) as loader:
        manifest = loader.manifest
        for number in range(loader.samples):
            place = loader.order.place(number)
            shard = manifest.groups[place.group].shards[place.shard]
            if manifest.where(getattr(shard, name.rpartition(".")[2])).endswith(name):
                return number
    raise AssertionError(name)


@pytest.mark.parametrize("threads", [0, 2])
@pytest.mark.parametrize("name", NAMES)
def test_one_wrong_bit_stops_a_run_that_hashes_before_the_shard_is_used(manifest, expected, name, threads):
    """The error names the file, after every earlier sample. The times are unchanged, so only a hash shows it."""
    first = first_sample_of(manifest, name)
    path = manifest.parent / name
    write_keeping_times(path, flipped(path.read_bytes(), path.stat().st_size - 3))
    rows, result = rows_of(manifest, "hash", threads=threads)
    assert rows == expected[: first // 10 * 10]
    assert name in result
    assert "does not have the hash" in result
    if name.endswith(".bin"):
        assert rows_of(manifest, "seal")[1] is None


@pytest.mark.parametrize("how", ["seal", "hash"])
@pytest.mark.parametrize("share", [0.1, 0.3, 0.5, 0.9])
def test_a_damaged_index_is_named_at_every_check_level(tmp_path, share, how):
    """The damage keeps the times: header, first pieces, lengths and ids. There is no numpy error or wrong document."""
    path = Corpus({"a": [40] * 4}, [(160, {"a": 1})]).write(tmp_path)
    good = rows_of(path, "seal")[0]
    index = tmp_path / "a/shard_00002.index"
    data = index.read_bytes()
    at = int(len(data) * share)
    write_keeping_times(index, data[:at] + b"\xff" * 64 + data[at + 64 :])
    rows, result = rows_of(path, how)
    assert rows == good[: len(rows)]
    assert "shard_00002.index does not have the hash" in result


def swap(path, other):
    aside = path.with_suffix(".aside")
    path.rename(aside)
    other.rename(path)
    aside.rename(other)


def swap_contents(path, other):
    """Swap the contents and keep each file's own modification time, by writing into it and touching it."""
    data = path.read_bytes(), other.read_bytes()
    write_keeping_times(path, data[1])
    write_keeping_times(other, data[0])


FAULTS = {
    "one bit": lambda path, other: path.write_bytes(flipped(path.read_bytes(), 700)),
    "zeros": lambda path, other: path.write_bytes(bytes(path.stat().st_size)),
    "cut": lambda path, other: path.write_bytes(path.read_bytes()[:-2]),
    "cut, time kept": lambda path, other: write_keeping_times(path, path.read_bytes()[:-2]),
    "longer": lambda path, other: path.write_bytes(path.read_bytes() + b"\0\0"),
    "empty": lambda path, other: path.write_bytes(b""),
    "swapped": swap,
    "replaced, as cp -p does": lambda path, other: shutil.copy2(other, path),
    "replaced by a link": lambda path, other: (path.unlink(), path.symlink_to(other)),
    "a folder": lambda path, other: (path.unlink(), path.mkdir()),
    "a pipe": lambda path, other: (path.unlink(), os.mkfifo(path)),
    "a device": lambda path, other: (path.unlink(), path.symlink_to("/dev/zero")),
    "gone": lambda path, other: path.unlink(),
}


@pytest.mark.parametrize("how", ["seal", "hash"])
@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("kind", ["bin", "index"])
def test_a_damaged_or_swapped_file_is_rejected(tmp_path, kind, fault, how):
    """The shards have equal sizes, so no size reveals the swap; the samples before it are right."""
    path = Corpus({"a": [40] * 4}, [(160, {"a": 1})]).write(tmp_path)
    good = rows_of(path, "seal")[0]
    FAULTS[fault](tmp_path / f"a/shard_00002.{kind}", tmp_path / f"a/shard_00001.{kind}")
    try:
        rows, result = rows_of(path, how)
    except UserError as error:  # fails at the start
        rows, result = [], str(error)
    assert result is not None
    assert f".{kind}" in result
    assert good[: len(rows)] == rows
    assert len(rows) < len(good)


def test_hashes_find_two_shards_whose_contents_were_swapped_with_times_kept(tmp_path):
    """This is the one kind of swap that times do not show, as docs/loader.md says."""
    path = Corpus({"a": [40] * 4}, [(160, {"a": 1})]).write(tmp_path)
    swap_contents(tmp_path / "a/shard_00002.bin", tmp_path / "a/shard_00001.bin")
    assert "does not have the hash" in rows_of(path, "hash")[1]


def test_a_copy_without_times_is_hashed_and_reported_once(manifest, expected, tmp_path, caplog):
    """Such a copy is intact. For a copy with times, or the original, only the indexes are hashed."""
    shutil.copytree(manifest.parent, tmp_path / "bare", copy_function=shutil.copy)
    shutil.copytree(manifest.parent, tmp_path / "timed")
    caplog.set_level(logging.WARNING, "gristmill.loader")
    with Loader(tmp_path / "timed", batch_samples=10) as loader:
        assert [row.tobytes() for batch in loader for row in batch.tokens] == expected
        assert loader.stats()["hashed_files"] == 6
    assert not caplog.records
    for times in (12, 0):  # a second loader in the same process knows them already
        caplog.clear()
        with Loader(tmp_path / "bare", batch_samples=10, threads=2) as loader:
            assert [row.tobytes() for batch in loader for row in batch.tokens] == expected
            assert loader.stats()["hashed_files"] == times
        (record,) = caplog.records
        assert "cp -p, rsync -t" in record.getMessage()
        assert "gristmill shards verify" in record.getMessage()


@pytest.mark.parametrize("threads", [0, 1, 3])
def test_every_file_is_hashed_once_however_often_it_is_used(manifest, expected, threads):
    """Several epochs, concurrent threads and reopening do not hash it again."""
    with Loader(manifest, batch_samples=10, check="hash", threads=threads) as loader:
        loader._reader.shards._limit = 1
        assert [row.tobytes() for batch in loader for row in batch.tokens] == expected
        stats = loader.stats()
    assert stats["opened_shards"] > 6
    assert stats["hashed_files"] == 12
    assert stats["hashed_bytes"] == sum(
        (manifest.parent / n).stat().st_size for n in read_manifest(manifest).files.values()
    )


def test_the_next_shards_are_hashed_while_the_current_ones_are_used(tmp_path):
    """A separate thread hashes them ahead of need."""
    path = Corpus({"a": [10] * 12, "b": [10] * 6}, [(180, {"a": 12, "b": 6})]).write(tmp_path)
    with Loader(path, check="hash", threads=0) as loader:
        soon = needed_shards(loader.order, 0)
        assert len(soon) == 4
        next(iter(loader))
        assert loader._reader.ahead.idle.wait(30)
        assert loader.stats()["hashed_files"] == 2 * len(soon)
        for item in soon:
            loader._reader.shards.get(item.group, item.shard)
        assert loader.stats()["hashed_files"] == 2 * len(soon)


def damage_in_place(path):
    """Flip one bit and keep the modification time; only the change time, which no program can set, shows it."""
    before = os.stat(path)
    write_keeping_times(path, flipped(path.read_bytes(), 0))
    while os.stat(path).st_ctime_ns == before.st_ctime_ns:  # in case the clock has not advanced yet
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


@pytest.mark.parametrize("kind", ["bin", "index"])
def test_a_shard_that_is_written_to_after_hashing_is_hashed_again(manifest, expected, kind):
    """Batches and single samples return only bytes that were hashed."""
    with Loader(manifest, batch_samples=10, check="hash", threads=0) as loader:
        run = iter(loader)
        assert [row.tobytes() for row in next(run).tokens] == expected[:10]
        loader.sample(3)
        for path in manifest.parent.rglob(f"*.{kind}"):
            damage_in_place(path)
        with pytest.raises(UserError, match="does not have the hash"):
            next(run)
        with pytest.raises(UserError, match="does not have the hash"):
            loader.sample(3)
        assert loader.state_dict() == {"sample": 10}


def test_a_change_of_times_without_content_only_costs_a_hash(manifest, expected):
    """A hard link or a backup may change times: each file is hashed again and accepted."""
    with Loader(manifest, batch_samples=10, check="hash", threads=0) as loader:
        rows = []
        for batch in loader:
            rows += [row.tobytes() for row in batch.tokens]
            if len(rows) == 200:
                for path in [*manifest.parent.rglob("*.bin")]:
                    os.utime(path, ns=(0, 0))
        assert rows == expected
        assert loader.stats()["hashed_files"] > 12


def test_a_file_that_keeps_changing_is_rejected(manifest, monkeypatch):
    """Another process writes to it, so its hash cannot be compared with anything."""
    path = manifest.parent / NAMES[0]
    hashed = checks.Checks._hashed

    def meanwhile(self, file):
        found = hashed(self, file)
        if str(file.path).endswith(NAMES[0]):
            before = os.stat(path).st_mtime_ns
            os.utime(path, ns=(0, before + 1))
        return found

    monkeypatch.setattr(checks.Checks, "_hashed", meanwhile)
    rows, result = rows_of(manifest, "hash", threads=0)
    assert "while it was hashed" in result
    assert len(rows) < 450


def test_single_samples_are_checked_too(manifest):
    """A map-style dataset requests single samples."""
    path = manifest.parent / NAMES[0]
    write_keeping_times(path, flipped(path.read_bytes(), 5))
    with Loader(manifest, check="hash") as loader:
        for number in range(loader.samples):
            place = loader.order.place(number)
            if (place.group, place.shard) == (0, 1):
                with pytest.raises(UserError, match="shard 1 of group crawl/B"):
                    loader.sample(number)
            else:
                loader.sample(number)


def test_a_pickled_loader_keeps_its_check_level(manifest):
    """A trainer sends it to the processes that it starts."""
    path = manifest.parent / NAMES[0]
    write_keeping_times(path, flipped(path.read_bytes(), 5))
    with Loader(manifest, check="hash") as loader:
        again = pickle.loads(pickle.dumps(loader))
    with again, pytest.raises(UserError, match="does not have the hash"):
        list(again)


@pytest.mark.parametrize("stride", [pytest.param(1, marks=pytest.mark.slow), 13])
def test_a_changed_byte_anywhere_in_a_manifest_is_rejected_or_changes_nothing(tmp_path, stride):
    """The manifest's hash covers everything except file locations, and each file has its own hash."""
    path = Corpus({"a": [9, 8], "b": [5]}, [(30, {"a": 2, "b": 1})]).write(tmp_path)
    good = rows_of(path, "seal")[0]
    data, refused = path.read_bytes(), 0
    for at in range(0, len(data), stride):
        path.write_bytes(flipped(data, at))
        try:
            rows, result = rows_of(path, "seal")
        except UserError as error:
            rows, result = [], str(error)
        refused += result is not None
        assert rows == good or result is not None, data[at - 20 : at + 20]
        assert rows == good[: len(rows)]
    assert refused > 0.95 * len(range(0, len(data), stride))


def test_files_that_the_manifest_mixes_up_are_rejected(tmp_path):
    """The manifest's hash does not cover locations, but each file is hashed. The shards have equal sizes."""
    manifest = Corpus({"a": [40] * 4}, [(160, {"a": 1})]).write(tmp_path)
    content = json.loads(manifest.read_text())
    bins = [digest for digest, name in content["files"].items() if name.endswith(".bin")]
    for one, other in pairwise(bins):
        files = dict(content["files"])
        files[one], files[other] = files[other], files[one]
        manifest.write_text(json.dumps({**content, "files": files}))
        assert rows_of(manifest, "seal")[1] is not None


def test_a_failing_disk_is_an_error_message(manifest):
    """It is not a traceback from a thread."""
    with Loader(manifest, threads=1) as loader:
        shard = loader._reader.shards.get(0, 0)
        os.dup2(os.open(manifest.parent, os.O_RDONLY), shard.file._file)  # a folder cannot be read like a file
        with pytest.raises(UserError, match=r"cannot be read at byte .*Check the disk"):
            list(loader)


def test_a_fork_in_the_middle_of_a_hash_leaves_nothing_locked(manifest):
    """The hashing thread does not exist in the child; the child hashes on its own, and its loader works."""
    script = (
        "import os, threading\nfrom gristmill.loader import Loader, checks\n"
        f"loader = Loader({str(manifest)!r}, check='hash', threads=0)\n"
        "begun, hashed = threading.Event(), checks.Checks._hashed\n"
        "def stuck(self, file):\n    begun.set()\n    threading.Event().wait()\n"
        "checks.Checks._hashed = stuck\n"
        "shards, ahead = loader._reader.shards, loader._reader.ahead\n"
        "threading.Thread(target=loader.sample, args=(0,), daemon=True).start()\n"
        "begun.wait()\n"
        "ahead.prepare(0)\n"
        "for lock in (shards._lock, ahead._change): lock.acquire()\n"
        "child = os.fork()\n"
        "if child == 0:\n"
        "    checks.Checks._hashed = hashed\n"
        "    found = len(list(loader)), len(loader.sample(0).tokens)\n"
        "    loader.close()\n"
        "    os._exit(17 if found == (450, 12) else 1)\n"
        "print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)\n"
        "os._exit(0)"
    )
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", script], capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("17\n", "")


def test_the_loader_writes_nothing(manifest, tmp_path):
    """It does not even change times: a trainer may have no write permission."""
    bare = tmp_path / "bare"
    shutil.copytree(manifest.parent, bare, copy_function=shutil.copy)

    def looks():
        return {path: (path.stat().st_mtime_ns, path.stat().st_ctime_ns) for path in Path(bare).rglob("*")}

    before = looks()
    for how in ("seal", "hash"):
        assert rows_of(bare, how)[1] is None
    assert looks() == before


def test_the_small_corpus_matches_what_gristmill_writes(corpus):
    """The tests of the loader rely on it."""
    found = read_manifest(corpus)
    for digest, name in found.files.items():
        assert os.stat(corpus.parent / name).st_mtime_ns == checks.seal(digest)
    assert two_phases().groups.keys() == found.numbers.keys()
