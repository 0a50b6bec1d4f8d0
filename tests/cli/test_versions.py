"""The catalog: the output of a finished run has a hash and perhaps names, and is kept while it is needed."""

import hashlib
import json
import shutil
import signal
import threading
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from conftest import Project

from gristmill.engine.mill import Mill
from gristmill.engine.publish import catalog
from gristmill.engine.publish.garbage import alone, collect, find_garbage
from gristmill.errors import UserError
from gristmill.shardformat.manifest import read_manifest
from gristmill.stages.decontaminate.suite.suite import read_suite
from gristmill.stages.extract import extract
from gristmill.stopping import Interrupted
from gristmill.store.leases import hold
from gristmill.store.store import Store
from sharded import Corpus

STEPS = "  - stagebox.length\n  - stagebox.longer_than: {chars: CHARS}\n"


@pytest.fixture(scope="module")
def run_project(tmp_path_factory, in_this_process):
    """A project that ran with three thresholds, which made three versions."""
    project = Project(tmp_path_factory.mktemp("versions"))
    project.write_inputs(files=2, records=30)
    for chars in ("12", "14", "16"):
        project.write_recipe(STEPS.replace("CHARS", chars))
        project.run()
    return project


@pytest.fixture
def three(run_project, tmp_path):
    """A copy of that project, with the hashes of its versions, oldest first."""
    project = Project(tmp_path / "copy")
    shutil.copytree(run_project.folder, project.folder)
    store = Store(str(project.store))
    hashes = [version.hash for version in reversed(catalog.list_versions(store))]
    return SimpleNamespace(project=project, store=store, uri=str(project.store), hashes=hashes, recipe=project.recipe)


def list_json(say, *arguments):
    output = say("versions", *arguments, "--json")
    assert output.code == 0, output.err
    return [json.loads(line) for line in output.out.splitlines()]


def test_a_version_that_is_made_again_keeps_its_parent(three, say):
    """Going back to the first version makes no circle of parents."""
    three.project.write_recipe(STEPS.replace("CHARS", "12"))
    three.project.run()
    parents = {version["version"]: version["parent"] for version in list_json(say, three.uri)}
    first, second, third = three.hashes
    assert parents == {first: None, second: first, third: second}


def test_a_name_means_the_run_that_got_it(three, say):
    """Another run that makes the same version does not change what the name shows."""
    first = three.hashes[0]
    assert say("versions", "tag", f"{three.uri}@{first}", "first").code == 0
    three.project.write_recipe(f"{STEPS.replace('CHARS', '12')}# again\n")
    three.project.run()
    shown = json.loads(say("versions", "show", f"{three.uri}@first", "--json").out)
    assert (shown["version"], "# again" in shown["recipe_text"]) == (first, False)
    assert "# again" not in say("status", f"{three.uri}@first", "--recipe").out
    assert "# again" in json.loads(say("versions", "show", f"{three.uri}@{first}", "--json").out)["recipe_text"]


def test_every_finished_run_is_a_version_with_its_parent_and_counts(three, say):
    """Versions are listed newest first, the same for store and recipe, with the number of documents in their funnel."""
    first, second, third = three.hashes
    versions = list_json(say, three.uri)
    assert versions == list_json(say, three.recipe)
    assert [(version["version"], version["parent"]) for version in versions] == [
        (third, second),
        (second, first),
        (first, None),
    ]
    for version in versions:
        funnel = json.loads(say("funnel", f"{three.uri}@{version['version']}", "--json").out)["funnel"]
        assert version["documents"] == sum(source["kept"]["rows"] for source in funnel.values())
        assert version["tokens"] is None
    assert len({version["documents"] for version in versions}) == 3
    assert [version["kept"] for version in versions] == [True, False, False]


def test_a_run_with_the_same_output_is_not_a_new_version(three, say):
    """The version keeps its parent and does not become its own."""
    three.project.run()
    newest = list_json(say, three.uri)[0]
    assert [newest["parent"], newest["version"]] == three.hashes[1:]


def test_the_tokens_of_a_version_equal_those_of_its_shards(everything, say):
    """They are the sum over the groups of the mixture."""
    project = everything.project
    (version,) = list_json(say, project.store)
    groups = [node for node in project.mill().last_run()["nodes"].values() if node["name"] == "shard_groups"]
    assert version["tokens"] == sum(
        group["tokens"]
        for node in groups
        for by_source in node["metrics"]["groups"].values()
        for group in by_source.values()
    )
    assert version["tokens"] > 0
    assert version["names"] == ["v1"]


def test_a_version_resolves_from_its_names_and_from_its_shards(everything, say, tmp_path):
    """Its JSON has what made it and what it made; a folder of shards, a copy or its hash lead back to it."""
    project = everything.project
    (version,) = list_json(say, "show", project.recipe)
    assert version["recipe_text"] == project.recipe.read_text()
    assert version["recipe_hash"] == hashlib.sha256(project.recipe.read_bytes()).hexdigest()
    assert version["sources"]["notes"] == {
        "notes.jsonl": hashlib.sha256((project.folder / "in/notes.jsonl").read_bytes()).hexdigest()
    }
    assert version["steps"]["web/extract"]["version"] == extract.STAGE.version
    store = Store(str(project.store))
    datasets = {one for step in version["steps"].values() for one in step["datasets"].values()}
    assert len(datasets) == version["datasets"]
    assert all(store.read_json(f"datasets/{one}.json") for one in datasets)
    folder = Path(version["shards"])
    manifest = read_manifest(folder)
    assert manifest.made_by["suites"] == version["suites"] != []
    assert manifest.made_by["suites"][0].endswith(read_suite(str(project.folder / "evals")).hash)
    for name in ("version", "recipe_text", "recipe_hash"):
        assert manifest.made_by[name] == version[name]
    assert manifest.made_by["steps"]["web/extract"] == {
        name: version["steps"]["web/extract"][name] for name in ("stage", "version", "libraries")
    }
    copy = shutil.copytree(folder, tmp_path / "copy")
    names = ([f"{project.store}@{folder.name}"], [project.recipe, folder.name], [folder], [folder / "manifest.json"])
    for typed in (*names, [folder.parent / "latest"], [copy, "--store", project.store]):
        assert [one["version"] for one in list_json(say, "show", *typed)] == [version["version"]], typed
    alone = say("versions", "show", copy)
    assert alone.code == 2
    assert f"By its manifest it is version {version['version']} of everything" in alone.err
    assert str(folder) in say("versions", "show", project.recipe).out.replace("\n", "")
    assert len(say("versions", "show", project.recipe).out.splitlines()) <= 20


def test_later_versions_with_the_same_shards_change_no_folder(tmp_path, say):
    """The manifest names the version that made it first, with a seal; a copy of the store's bytes has the same."""
    corpus = Corpus(Project(tmp_path))
    corpus.recipe()
    run, manifest = corpus.run()
    written = Path(manifest.location).read_bytes()
    other, _ = corpus.run(store=str(tmp_path / "other"))
    assert Path(other.shards, "manifest.json").read_bytes() == written
    text = corpus.project.recipe.read_text()
    corpus.project.recipe.write_text(text.replace("steps: []", "steps: [signals]"))
    later, _ = corpus.run()
    assert later.shards == run.shards
    assert later.ended["version"] != run.ended["version"]
    assert Path(manifest.location).read_bytes() == written
    assert say("verify", corpus.project.recipe).code == 0
    assert [one["version"] for one in list_json(say, "show", run.shards)] == [later.ended["version"]]
    Path(manifest.location).unlink()
    Path(manifest.location).write_bytes(written.replace(b"steps: []", b"steps: [lines]"))
    with pytest.raises(UserError, match="was changed after it was written"):
        read_manifest(run.shards)
    assert say("verify", corpus.project.recipe).code == 1
    corpus.run()
    assert read_manifest(run.shards).made_by["version"] == later.ended["version"]


def test_a_name_keeps_a_version(three, say):
    """gc removes versions without one and lists them; files that a kept version needs stay."""
    first, second, third = three.hashes
    assert say("versions", "tag", three.uri, first, "good").code == 0
    again = say("versions", "tag", three.uri, first, "good")
    assert (again.code, f"good is already a name of {first}" in again.out) == (0, True)
    states = {version["version"]: version["state"] for version in list_json(say, three.uri)}
    assert states == {first: "kept: named", second: "older: gc may remove it", third: "kept: the newest run"}
    output = say("gc", three.uri)
    assert f"1 version released, without a name: project {second}." in output.out
    states = {version["version"]: version["state"] for version in list_json(say, three.uri)}
    assert states[second].startswith("partly gone: ")
    assert not catalog.missing_parts(three.store, catalog.find_version(three.store, "good"))
    assert say("verify", f"{three.uri}@good").code == 0
    refused = say("versions", "tag", three.uri, second, "again")
    assert refused.code == 2
    assert "so the version cannot be kept" in refused.err


def test_gc_frees_a_dropped_version(three, say):
    """A named one and the newest."""
    first, _, third = three.hashes
    say("gc", three.uri)
    three.project.write_recipe(STEPS.replace("CHARS", "13"))
    three.project.run()
    say("versions", "tag", three.uri, third, "third")
    for name in ("third", "project"):
        output = say("versions", "drop", f"{three.uri}@{name}")
        assert output.code == 0, output.err
        assert f"gristmill gc {three.uri} --dry-run" in output.out
        assert json.loads(say("gc", three.uri, "--json").out)["bytes"] > 0
    assert first not in {version["version"] for version in list_json(say, three.uri) if version["kept"]}


def test_a_dropped_version_that_a_run_makes_again_is_kept_again(three, say):
    """STORE@RECIPE is the newest version that is not dropped; a run after drop and gc makes it complete again."""
    third = three.hashes[-1]
    three.project.write_recipe(STEPS.replace("CHARS", "16"))
    say("versions", "drop", f"{three.uri}@project")
    assert list_json(say, three.uri)[0]["state"] == "dropped: gc may remove it"
    assert three.hashes[1] in say("status", f"{three.uri}@project").err
    say("gc", three.uri)
    three.project.run()
    newest = list_json(say, three.uri)[0]
    assert (newest["version"], newest["state"]) == (third, "kept: the newest run")
    assert not catalog.missing_parts(three.store, catalog.find_version(three.store, third))


def test_dropping_one_of_several_names_keeps_the_version(three, say):
    """Dropping its last name releases the version."""
    first = three.hashes[0]
    for name in ("one", "two"):
        say("versions", "tag", three.uri, first, name)
    assert "is kept by two" in say("versions", "drop", f"{three.uri}@one").out
    assert {version["version"]: version["kept"] for version in list_json(say, three.uri)}[first]
    assert "is dropped" in say("versions", "drop", f"{three.uri}@two").out
    assert not {version["version"]: version["kept"] for version in list_json(say, three.uri)}[first]


def test_a_damaged_record_is_skipped_and_reported(three, say):
    """The list leaves it out, and gc refuses to start."""
    say("versions", "tag", three.uri, three.hashes[0], "good")
    path = three.project.store / "versions" / "good.json"
    path.write_bytes(path.read_bytes()[:-20])
    output = say("versions", three.uri)
    assert output.code == 0
    assert "Skipped" in output.err
    assert "good.json" in output.err
    assert say("gc", three.uri).code == 2


def test_naming_a_version_waits_for_a_running_gc(three):
    """gc does not start while a version is being named."""
    version = catalog.find_version(three.store, three.hashes[0])
    with hold(three.store, "gc", "") as lease:
        notes = []

        def note(message, *_):
            notes.append(message)
            three.store.remove(f"locks/{lease.id}.json")

        with catalog.changing(three.store, note) as own:
            catalog.give_name(three.store, own, "good", version.record, "NAME")
            with pytest.raises(UserError, match="a change of its versions"), alone(three.store):
                pass
        three.store.write_json(f"locks/{lease.id}.json", {})
    assert notes
    with alone(three.store):
        collect(three.store, find_garbage(three.store))
    assert not catalog.missing_parts(three.store, version)


def test_of_several_writers_of_one_name_only_one_succeeds(three):
    """A name never moves to another version, even with concurrent writers."""
    versions = [catalog.find_version(three.store, name) for name in three.hashes]
    refused = []

    def give(version):
        try:
            with catalog.changing(three.store, lambda _: None) as lease:
                catalog.give_name(three.store, lease, "best", version.record, "NAME")
        except UserError as error:
            refused.append(str(error))

    threads = [threading.Thread(target=give, args=(version,)) for version in versions]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(refused) == 2
    assert "do not change" in refused[0]
    assert catalog.find_version(three.store, "best").hash in three.hashes


def test_a_store_in_memory_has_a_catalog_too(three):
    """Everything uses the interface of the store."""
    store = Store("memory://catalog-of-versions")
    three.project.run(store=store.uri)
    (version,) = catalog.list_versions(store)
    with catalog.changing(store, lambda _: None) as lease:
        catalog.give_name(store, lease, "good", version.record, "NAME")
        catalog.drop(store, lease, catalog.find_version(store, "good"))
    (version,) = catalog.list_versions(store)
    assert (version.names, version.state) == ((), "dropped: gc may remove it")


def test_a_version_is_reproduced_exactly(three, say):
    """It uses the recipe text of its run; the recipe file has changed since."""
    into = three.project.folder / "again"
    output = say("versions", "reproduce", three.recipe, three.hashes[0], "--into", into, "--json")
    assert output.code == 0, output.err
    assert json.loads(output.out)["same"] is True
    assert catalog.find_version(Store(str(into)), three.hashes[0]).is_newest
    output = say("versions", "reproduce", three.recipe, three.hashes[0], "--into", into)
    assert output.code == 2
    assert "is not empty" in output.err


def stop(*_):
    raise Interrupted(signal.SIGINT)


def test_a_stopped_reproduction_continues(three, say, monkeypatch):
    """It reuses its own work and never that of another run."""
    into = three.project.folder / "again"
    arguments = ("versions", "reproduce", three.recipe, three.hashes[0], "--into", into)
    with monkeypatch.context() as patch:
        patch.setattr(Mill, "run", stop)
        assert say(*arguments).code == 128 + signal.SIGINT
    output = say(*arguments)
    assert (output.code, output.out[:8]) == (0, "The same"), output.err


def test_reproduce_names_a_changed_input(three, say):
    """It is the reason for the first dataset that differs."""
    path = three.project.folder / "in" / "01.jsonl"
    path.write_text(path.read_text().replace("mill", "mull", 1))
    into = three.project.folder / "again"
    output = say("versions", "reproduce", three.recipe, three.hashes[0], "--into", into)
    assert output.code == 1
    assert "Different: notes/ingest" in output.out
    assert "input: 01.jsonl changed" in output.out


def test_reproduce_names_a_stage_with_another_version(three, say, monkeypatch):
    """The steps before it are the same."""
    import stagebox.longer_than

    monkeypatch.setattr(stagebox.longer_than, "STAGE", replace(stagebox.longer_than.STAGE, version=99))
    into = three.project.folder / "again"
    output = say("versions", "reproduce", three.recipe, three.hashes[0], "--into", into, "--json")
    assert output.code == 1
    different = json.loads(output.out)["difference"]
    assert different["step"] == "all/longer_than"
    assert different["why"] == ["VERSION: 1 -> 99"]


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("versions", "Usage: "),
        ("versions nowhere", "no such file"),
        ("versions shwo STORE", "Did you mean 'show'?"),
        ("versions FOLDER/in", "it is not a store"),
        ("versions show STORE", "so it does not name one"),
        ("versions show STORE@v9", "has no version v9. Nothing was done"),
        ("versions show RECIPE v9", "has no version v9. Nothing was done. Versions: "),
        ("versions show STORE@project more", "Leave one out"),
        ("versions show STORE a b", "too many arguments"),
        ("versions tag STORE", "requires a version and a name"),
        ("versions tag STORE@project a/b", "cannot be a name"),
        ("versions STORE@nobody", "names one version"),
        ("versions tag STORE@project HASH", "looks like the hash of a version"),
        ("versions drop", "Missing argument 'VERSION'"),
        ("versions reproduce STORE@project", "Missing option '--into'"),
        ("versions reproduce STORE@project --into STORE", "is not empty"),
        ("versions list STORE --store elsewhere", "Leave out --store elsewhere"),
        ("versions STORE --sample 1%", "--sample"),
    ],
)
def test_mistakes_are_one_message(three, say, command, message):
    """The message has the fix, and the exit code is 2."""
    words = {"STORE": three.uri, "RECIPE": str(three.recipe), "FOLDER": str(three.project.folder)}
    for word, value in {**words, "HASH": three.hashes[0]}.items():
        command = command.replace(word, value)
    output = say(*command.split())
    assert output.code == 2
    assert message in output.err
    assert "Traceback" not in output.err
