"""Invalid input is rejected, and the message names the fact and the fix."""

import hashlib
import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from gristmill.errors import UserError
from gristmill.loader import Loader, read_manifest
from gristmill.shardformat.index import HEADER
from loader.small import Corpus, change_manifest, write_manifest


def shard_file(manifest, kind, group=0, shard=0):
    found = read_manifest(manifest)
    return Path(found.where(getattr(found.groups[group].shards[shard], kind)))


def update_index_hash(manifest, path):
    """Put the new hash of a changed index into the manifest."""
    content = json.loads(manifest.read_text())
    (old,) = (digest for digest, name in content["files"].items() if manifest.parent / name == path)
    new = hashlib.sha256(path.read_bytes()).hexdigest()
    write_manifest(manifest.parent, json.loads(json.dumps(content).replace(old, new)))


def all_batches(manifest, **options):
    with Loader(manifest, batch_samples=10, **options) as loader:
        return list(loader)


def test_an_edited_manifest_is_rejected(manifest):
    """One weight is changed by hand, and the hash is not updated."""
    manifest.write_text(manifest.read_text().replace('"crawl/B": 200', '"crawl/B": 201'))
    with pytest.raises(UserError, match=r"was changed after it was written.*Run the recipe again"):
        Loader(manifest)


def test_the_location_of_files_is_not_part_of_the_hash(manifest, tmp_path):
    """A corpus may be moved as a folder or file by file."""
    before = read_manifest(manifest).hash
    shutil.move(manifest.parent, tmp_path / "elsewhere")
    moved = tmp_path / "elsewhere" / "manifest.json"
    assert Loader(moved).manifest.hash == before
    content = json.loads(moved.read_text())
    content["files"] = {key: str(moved.parent / path) for key, path in content["files"].items()}
    (tmp_path / "manifest.json").write_text(json.dumps(content))
    assert len(all_batches(tmp_path)) == 45
    content["files"] = {key: f"file://{path}" for key, path in content["files"].items()}
    (tmp_path / "manifest.json").write_text(json.dumps(content))
    assert len(all_batches(tmp_path / "manifest.json")) == 45


@pytest.mark.parametrize("name", ["tokenizer_hash", "manifest_hash"])
def test_an_unexpected_tokenizer_or_manifest_is_rejected(manifest, name):
    """The expected one is accepted."""
    found = read_manifest(manifest)
    right = {"tokenizer_hash": found.tokenizer["hash"], "manifest_hash": found.hash}
    with Loader(manifest, **right):
        pass
    with pytest.raises(UserError, match="is required"):
        Loader(manifest, **{name: "0" * 64})


HEADER_FIELDS = {
    "tokenizer": b"d" * 64,
    "seq_len": 13,
    "token_bytes": 4,
    "group": b"crawl/C",
    "recipe": b"another",
    "bin": b"e" * 64,
    "samples": 16,
}


@pytest.mark.parametrize("field", HEADER_FIELDS)
def test_a_shard_that_does_not_match_the_manifest_is_rejected(manifest, field):
    """This checks every field that changes the meaning or the location of tokens."""
    path = shard_file(manifest, "index")
    data = np.frombuffer(bytearray(path.read_bytes()), np.uint8)
    data[: HEADER.itemsize].view(HEADER)[field] = HEADER_FIELDS[field]
    shorter = 8 if field == "samples" else 0
    path.write_bytes(data[: len(data) - shorter].tobytes())
    update_index_hash(manifest, path)
    with pytest.raises(UserError, match=f"has {field} .*of the same run"):
        all_batches(manifest)


@pytest.mark.parametrize("kind", ["bin", "index"])
@pytest.mark.parametrize("fault", ["shorter", "longer", "gone"])
def test_a_truncated_or_missing_file_is_rejected(manifest, kind, fault):
    """A truncated file is rejected before any of its samples is read, a missing one before anything is read."""
    path = shard_file(manifest, kind)
    data = path.read_bytes()
    if fault == "gone":
        path.unlink()
        with pytest.raises(UserError, match=r"does not exist.*crawl/B"):
            Loader(manifest)
    else:
        path.write_bytes(data[:-1] if fault == "shorter" else data + b"\0")
        message = r"should have .* damaged" if kind == "bin" else r"shard_00000.index does not have the hash"
        with pytest.raises(UserError, match=message):
            all_batches(manifest)


@pytest.mark.parametrize("fault", ["shorter", "longer", "cut to its header", "cut in its header", "empty"])
def test_an_index_with_the_right_hash_and_a_wrong_size_is_rejected(manifest, fault):
    """A writer stopped in the middle and its file was trusted."""
    path = shard_file(manifest, "index")
    data = path.read_bytes()
    sizes = {"shorter": len(data) - 1, "cut to its header": HEADER.itemsize, "cut in its header": 100, "empty": 0}
    path.write_bytes(data[: sizes[fault]] if fault in sizes else data + b"\0")
    update_index_hash(manifest, path)
    with pytest.raises(UserError, match=r"should have .* damaged|is not the index"):
        all_batches(manifest)


def test_a_file_that_is_truncated_while_it_is_read_is_an_error_and_not_a_crash(manifest):
    """A memory map would end the process here."""
    with Loader(manifest, batch_samples=1, threads=0) as loader:
        run = iter(loader)
        for _ in range(20):
            next(run)
        for path in manifest.parent.rglob("*.bin"):
            with path.open("r+b") as file:
                file.truncate(0)
        with pytest.raises(UserError, match="ends at byte"):
            list(run)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"start": 451}, "which has 450"),
        ({"start": -1}, "is outside"),
        ({"start": 1.0}, "not an integer"),
        ({"start": True}, "not an integer"),
        ({"world_size": 0}, "world_size is 0"),
        ({"world_size": 2, "rank": 2}, "Ranks are 0 to 1"),
        ({"rank": -1}, "rank is -1"),
        ({"batch_samples": 0}, "batch_samples is 0"),
        ({"batch_samples": "8"}, "batch_samples is '8'"),
        ({"threads": -1}, "threads is -1"),
        ({"threads": 10**6}, "threads is 1000000, but a loader starts at most 1024"),
        ({"prefetch_batches": 0}, "prefetch_batches is 0"),
        ({"prefetch_batches": 2.0}, "prefetch_batches is 2.0"),
        ({"batch_samples": True}, "batch_samples is True"),
        ({"start": "0"}, "not an integer"),
        ({"cache_bytes": 1e9}, "cache_bytes is 1000000000.0"),
        ({"seed": 7.0}, "seed is 7.0"),
        ({"seed": "7"}, "seed is '7'"),
        ({"check": "md5"}, r"check is 'md5'.*\"seal\".*\"hash\""),
        ({"check": None}, "check is None"),
        ({"check": ["hash"]}, "check is"),
        ({"batch_samples": 451}, r"takes 451 samples.*only has 450, so there is no batch.*drop_last=False"),
        ({"batch_samples": 46, "world_size": 10}, r"takes 460 samples \(batch_samples 46, world_size 10\)"),
    ],
)
def test_invalid_numbers_are_rejected(corpus, options, message):
    """They are rejected before anything is read."""
    with pytest.raises(UserError, match=message):
        Loader(corpus, **options)


@pytest.mark.parametrize("state", [None, 5, {}, {"sample": "5"}, {"sample": 1.5}, {"sample": None}, {"step": 5}])
def test_an_invalid_state_is_rejected(corpus, state):
    """A state is one integer under one name; nothing is guessed."""
    with Loader(corpus) as loader:
        with pytest.raises(UserError, match=r"not the state|not an integer"):
            loader.load_state_dict(state)
        assert loader.state_dict() == {"sample": 0}


def test_a_run_can_resume_at_its_end(corpus):
    """A finished run may be opened again; it has nothing left."""
    assert all_batches(corpus, start=450) == []


@pytest.mark.parametrize("number", [-1, 450, 10**30])
def test_a_sample_out_of_range_is_an_index_error(corpus, number):
    """Like any sequence, so that `for sample in loader.sample` style code and torch samplers stop."""
    with Loader(corpus) as loader, pytest.raises(IndexError):
        loader[number]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"format": "parquet"}, "not a manifest"),
        ({"format_version": 2}, "has format 2"),
        ({"phases": []}, "no samples in any phase"),
        ({"phases": [{"name": "p", "samples": 5, "weights": {}}]}, "from 0 groups"),
        ({"phases": [{"name": "p", "samples": 5, "weights": {"nowhere": 5}}]}, "group nowhere"),
        ({"phases": [{"name": "p", "samples": 5, "weights": {"code": -5}}]}, "draws -5"),
        ({"phases": [{"name": "p", "samples": -5, "weights": {"code": 5}}]}, "draws -5"),
        ({"token_bytes": 3}, "3 bytes"),
        ({"groups": [{"name": "code"}]}, "KeyError: 'source'"),
        ({"files": {}}, "has no location for the file"),
    ],
)
def test_a_manifest_that_contradicts_itself_is_rejected(manifest, changes, message):
    """It is rejected even with the right hash."""
    change_manifest(manifest, **changes)
    with pytest.raises(UserError, match=message):
        Loader(manifest)


def test_a_group_whose_shards_do_not_add_up_is_rejected(manifest):
    """Its permutation would leave samples out."""
    content = json.loads(manifest.read_text())
    content["groups"][0]["samples"] += 1
    write_manifest(manifest.parent, content)
    with pytest.raises(UserError, match="says that group crawl/B has 52 samples, but its shards have 51"):
        Loader(manifest)


def test_a_group_without_samples_cannot_be_drawn_from(tmp_path):
    """It would divide by zero at some step of the run."""
    path = Corpus({"a": [5], "b": [0]}, [(5, {"a": 4, "b": 1})]).write(tmp_path)
    with pytest.raises(UserError, match="draws 1 sample of group b"):
        Loader(path)


def test_the_command_line_name_of_a_run_gets_a_hint(tmp_path):
    """The loader reads no store."""
    with pytest.raises(UserError, match=r"Name a manifest.json, or its folder.*`gristmill sample .*store@v1` shows"):
        Loader(tmp_path / "store@v1")
    with pytest.raises(UserError) as refused:
        Loader(tmp_path / "store")
    assert "STORE@NAME" not in str(refused.value)


@pytest.mark.parametrize("name", ["nowhere", "nowhere/manifest.json", "shards/crawl-B"])
def test_a_location_without_a_manifest_is_rejected(manifest, name):
    """The message says what to name."""
    with pytest.raises(UserError, match=r"does not exist.*Name a manifest.json"):
        Loader(manifest.parents[1] / name)


def test_text_that_is_not_json_is_rejected(tmp_path):
    """An upload was cut short."""
    (tmp_path / "manifest.json").write_text('{"format": "gristmill manifest", ')
    with pytest.raises(UserError, match="is not JSON"):
        Loader(tmp_path)
