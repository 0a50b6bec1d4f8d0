"""gristmill run, shards and sample: from a recipe to what a trainer sees, as a user runs them."""

import json
import os
import re
import shutil
import sys
from pathlib import Path

import fsspec
import pytest
from conftest import Project

from gristmill.cli.main import main
from gristmill.loader import Loader, read_manifest
from gristmill.loader.checks import seal
from gristmill.loader.order import Order
from gristmill.shardformat.index import read_index
from sharded import MIX, Corpus


@pytest.fixture
def corpus(project):
    corpus_project = Corpus(project)
    corpus_project.recipe()
    return corpus_project


@pytest.fixture(scope="module")
def ran(tmp_path_factory):
    """A corpus that ran once for all tests, and the folder of its shards."""
    corpus_project = Corpus(Project(tmp_path_factory.mktemp("ran")))
    corpus_project.recipe()
    _, manifest = corpus_project.run()
    return corpus_project, str(Path(manifest.location).parent)


@pytest.fixture
def gristmill(capsys, monkeypatch):
    """Return a function that runs a command and gives its exit code, stdout and stderr."""

    def run_command(*arguments):
        monkeypatch.setattr(sys, "argv", ["gristmill", *map(str, arguments)])
        with pytest.raises(SystemExit) as stop:
            main()
        captured = capsys.readouterr()
        return stop.value.code or 0, captured.out, captured.err

    return run_command


@pytest.mark.slow
def test_a_run_prints_the_tokens_and_the_folder_of_the_shards(corpus, gristmill):
    """A loader opens that folder; --verbose adds a table of phases, groups and shares."""
    code, out, err = gristmill("run", corpus.project.recipe)
    assert code == 0, err
    assert "cooldown" not in out
    (folder,) = re.findall(
        r"tokens \(.* padding, .* split to fill samples\); the mixture draws .* samples: (.*)$", out, re.M
    )
    code, out, err = gristmill("run", corpus.project.recipe, "-v")
    assert code == 0, err
    assert "cooldown" in out
    assert "notes/A" in out
    with Loader(folder) as loader:
        assert sum(len(batch.tokens) for batch in loader) == loader.samples
        assert not loader._reader.shards.checks.seal_broken  # all are sealed as a loader expects


def test_verify_reports_intact_shards(ran, gristmill):
    """It accepts a recipe, a folder or a manifest."""
    corpus, folder = ran
    for target in (corpus.project.recipe, folder, f"{folder}/manifest.json"):
        code, out, _ = gristmill("shards", "verify", target)
        assert code == 0
        assert "every file is as the run wrote it" in out


@pytest.mark.parametrize("ending", ["bin", "index", "lineage.parquet"])
def test_verify_finds_a_changed_byte_in_a_copy(ran, gristmill, ending, tmp_path):
    """The exit code is 1, and the fault names the shard."""
    _, folder = ran
    copy = tmp_path / "copy"
    shutil.copytree(folder, copy)
    path = copy / "tales" / "A" / f"shard_00000.{ending}"
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.chmod(0o644)
    path.write_bytes(data)
    code, out, _ = gristmill("shards", "verify", copy, "--json")
    assert code == 1
    faults = json.loads(out)["faults"]
    assert faults
    assert all(fault.startswith("tales/A, shard 0") for fault in faults)


@pytest.mark.slow
def test_shards_in_a_remote_store_are_fetched(corpus, gristmill):
    """verify and sample give the same output as with a local store."""
    remote = ("--store", f"memory://{corpus.folder}")
    outputs = []
    for options in ((), remote):
        assert gristmill("run", corpus.project.recipe, *options, "--json")[0] == 0
        commands = [("shards", "verify"), ("sample",), ("sample", "--group", "tales/A"), ("sample", "--step", 2)]
        results = [gristmill(*command, corpus.project.recipe, *options, "--json") for command in commands]
        assert [code for code, _, _ in results] == [0, 0, 0, 0]
        outputs.append([json.loads(out) for _, out, _ in results])
    assert outputs[0] == outputs[1]


def test_sample_shows_groups_and_the_first_samples(ran, gristmill):
    """Groups have documents, tokens and samples."""
    corpus, folder = ran
    code, out, _ = gristmill("sample", folder, "--batch", 2, "--json")
    assert code == 0
    result = json.loads(out)
    documents = {group["name"]: group["documents"] for group in result["groups"]}
    assert documents["tales/A"] == len(corpus.documents["tales"])
    assert documents["notes/A"] + documents["notes/B"] == len(corpus.documents["notes"])
    assert [sample["sample"] for sample in result["samples"]] == [0, 1]
    code, out, _ = gristmill("sample", folder)
    assert "padding, 10 documents split to fill samples)" in " ".join(out.split())
    assert gristmill("sample", folder, "--step", 1, "--group", "tales/A")[0] == 2


def test_sample_gives_the_text_of_a_row_of_a_shard(ran, gristmill):
    """Every document in it is from the corpus, with its key in the locator."""
    corpus, folder = ran
    code, out, _ = gristmill("sample", folder, "--group", "tales/A", "--row", 1, "--json")
    assert code == 0
    texts = corpus.documents["tales"]
    for document in json.loads(out)["samples"][0]["documents"]:
        key = document["locator"].rpartition("#")[2]
        assert document["text"].removesuffix("<|end_of_text|>") in texts[key]


def test_find_shows_the_location_of_a_document_and_when_it_is_seen(ran, gristmill):
    """Every piece of a document lists the samples that contain it."""
    _, folder = ran
    with Loader(folder) as loader:
        for number in (0, 7, loader.samples - 1):
            sample = loader.sample(number)
            doc_id = bytes(sample.doc_ids[-1]).hex()
            code, out, _ = gristmill("shards", "find", folder, doc_id, "--json")
            assert code == 0
            pieces = [
                entry for entry in json.loads(out)["pieces"] if (entry["shard"], entry["row"]) == sample.place[3:]
            ]
            assert pieces[0]["group"] == sample.group
            assert number in pieces[0]["seen_at"]
            for other in pieces[0]["seen_at"]:
                assert doc_id in {bytes(entry).hex() for entry in loader.sample(other).doc_ids}
    code, out, _ = gristmill("shards", "find", folder, "0" * 32)
    assert code == 1
    assert "is in no shard" in out
    assert gristmill("shards", "find", folder, doc_id)[0] == 0


def test_find_accepts_a_prefix_of_an_id(everything, say):
    """The prefix must be unique; otherwise the matching ids are listed, those in shards first."""
    recipe = everything.project.recipe
    documents = [json.loads(line) for line in say("inspect", recipe, "-n", 100, "--json").out.splitlines()]
    kept = sorted(entry["doc_id"] for entry in documents if entry["verdict"]["reason"] is None)
    dropped = sorted(entry["doc_id"] for entry in documents if entry["verdict"]["reason"] is not None)
    for doc_id, among, code in ((kept[0], kept, 0), (dropped[0], kept + dropped, 1)):
        beginnings = [doc_id[:length] for length in range(1, 33)]
        unique = next(text for text in beginnings if sum(entry.startswith(text) for entry in among) == 1)
        whole, short = say("shards", "find", recipe, doc_id), say("shards", "find", recipe, unique.upper())
        assert whole.code == short.code == code
        assert whole.out == short.out
        assert doc_id in short.out
    digits = [text for text in "0123456789abcdef" if sum(entry.startswith(text) for entry in kept) > 1]
    several = say("shards", "find", recipe, digits[0])
    assert several.code == 2
    assert f"The ids of several documents begin with {digits[0]}. Give more digits" in several.err
    assert all(f"{entry} (" in several.err for entry in kept if entry.startswith(digits[0]))


def test_find_says_why_a_document_is_never_seen(corpus, gristmill):
    """The mix draws only part of a group, so some documents in a shard are not drawn; the counts explain it."""
    corpus.recipe(mix="mix: {tokens: 2k, domains: {notes: 0.5, tales: 0.5}}")
    _, manifest = corpus.run()
    order, doc_ids = Order(manifest), {}
    for group in manifest.groups:
        index = read_index(manifest.where(group.shards[0].index))
        for row in range(group.shards[0].samples):
            if not list(order.seen(manifest.numbers[group.name], 0, row)):
                doc_ids.setdefault(group.name, bytes(index.doc_id[int(index.first_piece[row])]).hex())
    name, doc_id = next(iter(doc_ids.items()))
    group = manifest.groups[manifest.numbers[name]]
    code, out, _ = gristmill("shards", "find", corpus.project.recipe, doc_id)
    assert code == 0
    assert "never" in out
    drawn = order.counts(manifest.samples)[manifest.numbers[name]]
    assert f"the mix draws {drawn} of the {group.samples} samples of {name}, and not these" in out
    code, out, _ = gristmill("shards", "find", corpus.project.recipe, "0" * 32)
    assert code == 1
    assert "has no document with that id" in out


def test_find_says_which_step_dropped_a_document(everything, say):
    """This needs a recipe or a run; for a folder of shards the output names the command."""
    recipe = everything.project.recipe
    dropped = json.loads(say("inspect", recipe, "--reason", "too_few_words", "-n", 1, "--json").out)
    result = say("shards", "find", recipe, dropped["doc_id"])
    assert result.code == 1
    assert "It was dropped by all/heuristics: too_few_words (words = 7 < 12)." in result.out
    folder = everything.project.store / "shards/everything/latest"
    assert f"inspect RECIPE --id {dropped['doc_id']}" in say("shards", "find", folder, dropped["doc_id"]).out


@pytest.mark.slow
def test_every_shard_command_accepts_sample(corpus, gristmill):
    """The end of `run --sample` says so; --sample only applies to recipes."""
    recipe = corpus.project.recipe
    corpus.recipe(more=", part_bytes: 1KB")
    code, out, err = gristmill("run", recipe, "--sample", "60%", "--workers", 1)
    assert code == 0, err
    assert "To inspect it, add --sample 60% to a command" in out
    assert f"{corpus.project.store}@small-sample-60pct" in out
    for command in (("shards", "verify"), ("sample",), ("tokenizer", "show")):
        code, _, err = gristmill(*command, recipe, "--sample", "60%")
        assert code == 0, err
        assert gristmill(*command, f"{corpus.project.store}@small-sample-60pct")[0] == 0
    folder = str(corpus.project.store / "shards" / "small-sample-60pct" / "latest")
    code, _, err = gristmill("sample", folder, "--sample", "60%")
    assert code == 2
    assert "--sample 60% only applies to recipes" in err
    code, _, err = gristmill("sample", recipe, "--sample", "50%")
    assert code == 2
    assert f"Run: gristmill run {recipe} --sample 50%" in err


def test_sample_shows_what_the_loader_gives(ran, gristmill):
    """The group, the documents and the token counts are the same."""
    _, folder = ran
    code, out, _ = gristmill("sample", folder, "--step", 3, "--batch", 4, "--json")
    assert code == 0
    samples = json.loads(out)["samples"]
    assert [sample["sample"] for sample in samples] == [12, 13, 14, 15]
    with Loader(folder) as loader:
        for sample in samples:
            expected = loader.sample(sample["sample"])
            assert sample["group"] == expected.group
            assert [document["doc_id"] for document in sample["documents"]] == [
                bytes(doc_id).hex() for doc_id in expected.doc_ids
            ]
            assert sum(document["tokens"] for document in sample["documents"]) == int(expected.lengths.sum())
    code, out, _ = gristmill("sample", folder, "--step", 1, "--chars", 40)
    assert code == 0
    assert "phase main" in out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("sample", "FOLDER", "--step", "1000000"), "so there is no such step"),
        (("sample", "FOLDER", "--group", "nots/A"), "Groups: notes/A, notes/B, tales/A"),
        (("sample", "FOLDER", "--group", "tales/A", "--row", "100000"), "Give a smaller number"),
        (("sample", "FOLDER", "--group", "tales/A", "--shard", "77"), "Give a smaller number"),
        (("shards", "find", "FOLDER", "xyz"), "Give up to 32 hexadecimal digits"),
        (("shards", "find", "FOLDER", "0" * 33), "Give up to 32 hexadecimal digits"),
        (("shards", "verify", "FOLDER/nothing"), "does not exist"),
        (("sample", "FOLDER/tokenizer.json"), "is not a manifest of Gristmill"),
        (("sample", "FOLDER/tales/A/shard_00000.bin"), "is not JSON"),
    ],
)
def test_mistakes_are_one_message(ran, gristmill, arguments, message):
    """The exit code is 2, with the fact and the fix and without a traceback."""
    _, folder = ran
    code, _, err = gristmill(*(argument.replace("FOLDER", folder) for argument in arguments))
    assert code == 2
    assert message in err
    assert len(err.strip().splitlines()) == 1


def test_a_recipe_that_did_not_run_is_refused(corpus, gristmill):
    """The message has the command that runs it."""
    code, _, err = gristmill("sample", corpus.project.recipe)
    assert code == 2
    assert f"Run: gristmill run {corpus.project.recipe}" in err


def test_plan_of_a_new_mix_runs_only_the_mixture(ran, gristmill):
    """After a change of ratios, the plan says why the mixture runs."""
    corpus, _ = ran
    corpus.recipe(mix=MIX)
    code, out, _ = gristmill("plan", corpus.project.recipe)
    corpus.recipe()
    assert code == 0
    lines = [line for line in out.splitlines() if "config." in line]
    assert lines
    assert all("tokens" not in line.split()[0] and "shards" not in line.split()[0] for line in lines)


def flip(path, at=-1):
    """Flip one bit and keep the file times."""
    before, data = path.stat(), bytearray(path.read_bytes())
    data[at] ^= 1
    path.chmod(0o644)
    path.write_bytes(data)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


@pytest.fixture
def copy(ran, tmp_path):
    return Path(shutil.copytree(ran[1], tmp_path / "copy"))


@pytest.mark.parametrize(
    ("name", "commands"),
    [
        ("tales/A/shard_00000.bin", ["sample", "row"]),
        ("tales/A/shard_00000.index", ["sample", "row", "find"]),
        ("tales/A/shard_00000.lineage.parquet", ["sample", "row"]),
        ("tokenizer.json", ["sample", "row"]),
    ],
)
def test_a_damaged_file_is_never_shown(copy, gristmill, name, commands):
    """The message names the file, even when its times are unchanged."""
    with Loader(copy) as loader:
        step = next(n for n in range(loader.samples) if (loader[n].group, loader[n].place.shard) == ("tales/A", 0))
    flip(copy / name, -2)
    group = ("--group", "tales/A")
    command_lines = {
        "sample": ("sample", copy, "--step", step),
        "row": ("sample", copy, *group),
        "find": ("shards", "find", copy, "0" * 32),
    }
    for command in commands:
        code, out, err = gristmill(*command_lines[command])
        assert (code, Path(name).name in err, "does not have the hash" in err) == (2, True, True), (command, out, err)
    code, out, _ = gristmill("shards", "verify", copy)
    assert code == 1
    assert Path(name).name in out


def test_verify_reports_a_missing_tokenizer_with_other_faults(copy, gristmill):
    """The tokenizer is one of the checked files."""
    (copy / "tokenizer.json").unlink()
    flip(copy / "tales/A/shard_00000.bin")
    code, out, _ = gristmill("shards", "verify", copy, "--json")
    assert code == 1
    assert {fault.split(":")[0] for fault in json.loads(out)["faults"]} == {"tales/A, shard 0", "tokenizer"}


@pytest.mark.parametrize("ending", [".idx", ".ds.index", ".ds.metadata", ".csv.gz", ".npy"])
def test_verify_checks_the_files_for_other_trainers(copy, gristmill, ending):
    """A flipped bit in a sidecar or in a copy of the tokens is a fault that names the file."""
    path = copy / f"tales/A/shard_00000{ending}"
    data = path.read_bytes()
    path.unlink()
    path.write_bytes(data)
    assert gristmill("shards", "verify", copy)[0] == 0
    flip(path)
    code, out, _ = gristmill("shards", "verify", copy, "--json")
    [fault] = json.loads(out)["faults"]
    assert (code, f"{path} is damaged" in fault) == (1, True), out


def test_verify_seals_intact_files_only(ran, gristmill, tmp_path):
    """After a copy without times, a loader hashes unsealed files every time."""
    shutil.copytree(ran[1], tmp_path / "copy", copy_function=shutil.copy)
    damaged = tmp_path / "copy/tales/A/shard_00000.bin"
    flip(damaged)
    assert gristmill("shards", "verify", tmp_path / "copy")[0] == 1
    manifest = read_manifest(tmp_path / "copy")
    for group in manifest.groups:
        for number, shard in enumerate(group.shards):
            for digest in (shard.bin, shard.index, shard.lineage):
                sealed = os.stat(manifest.where(digest)).st_mtime_ns == seal(digest)
                assert sealed == ((group.name, number) != ("tales/A", 0))


def test_verify_removes_only_the_files_it_fetched(copy, gristmill):
    """The manifest has some shards on this machine and some in a remote store."""
    system, manifest = fsspec.filesystem("memory"), copy / "manifest.json"
    content = json.loads(manifest.read_text())
    remote = [name for name in content["files"].values() if name.startswith("notes/")]
    assert 0 < len(remote) < len(content["files"])
    for name in remote:
        system.pipe_file(f"/mixed/{name}", (copy / name).read_bytes())
        (copy / name).unlink()
    content["files"] = {k: f"memory://mixed/{v}" if v in remote else v for k, v in content["files"].items()}
    manifest.chmod(0o644)
    manifest.write_text(json.dumps(content))
    for _ in range(2):
        code, out, _ = gristmill("shards", "verify", copy)
        assert code == 0, out
    system.rm("/mixed", recursive=True)
