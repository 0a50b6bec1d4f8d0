"""The catalog: what finished runs made has a hash, perhaps names and a pin, and stays as long as somebody wants it."""

import json
import shutil
import signal
import threading
from dataclasses import replace
from types import SimpleNamespace

import pytest

from conftest import Project
from gristmill.engine.mill import Mill
from gristmill.engine.publish import catalog
from gristmill.engine.publish.garbage import alone, collect, find_garbage
from gristmill.errors import UserError
from gristmill.stopping import Interrupted
from gristmill.store.leases import hold
from gristmill.store.store import Store

STEPS = "  - stagebox.length\n  - stagebox.longer_than: {chars: CHARS}\n"


@pytest.fixture(scope="module")
def made(tmp_path_factory, in_this_process):
    """A project that was run with three thresholds: three versions, the newest last."""
    project = Project(tmp_path_factory.mktemp("versions"))
    project.write_inputs(files=2, records=30)
    for chars in ("12", "14", "16"):
        project.write_recipe(STEPS.replace("CHARS", chars))
        project.run()
    return project


@pytest.fixture
def three(made, tmp_path):
    """A copy of it, with its hashes, oldest first."""
    project = Project(tmp_path / "copy")
    shutil.copytree(made.folder, project.folder)
    store = Store(str(project.store))
    hashes = [version.hash for version in reversed(catalog.list_versions(store))]
    return SimpleNamespace(project=project, store=store, uri=str(project.store), hashes=hashes, recipe=project.recipe)


def listed(say, *arguments):
    said = say("versions", *arguments, "--json")
    assert said.code == 0, said.err
    return [json.loads(line) for line in said.out.splitlines()]


def test_every_finished_run_is_a_version_with_its_parent_and_counts(three, say):
    """Newest first; of the store and of the recipe the same; each with the documents that its funnel keeps."""
    first, second, third = three.hashes
    found = listed(say, three.uri)
    assert found == listed(say, three.recipe)
    assert [(one["version"], one["parent"]) for one in found] == [(third, second), (second, first), (first, None)]
    for one in found:
        funnel = json.loads(say("funnel", f"{three.uri}@{one['version']}", "--json").out)["funnel"]
        assert one["documents"] == sum(source["kept"]["rows"] for source in funnel.values())
        assert one["tokens"] is None
    assert len({one["documents"] for one in found}) == 3
    assert [one["kept"] for one in found] == [True, False, False]


def test_a_run_that_makes_the_same_again_is_no_other_version(three, say):
    """It has the parent that it had, and not itself."""
    three.project.run()
    newest = listed(say, three.uri)[0]
    assert [newest["parent"], newest["version"]] == three.hashes[1:]


def test_the_tokens_of_a_version_are_those_of_its_shards(everything, say):
    """As the mixture's groups count them."""
    project = everything.project
    (one,) = listed(say, project.store)
    groups = [node for node in project.mill().last_run()["nodes"].values() if node["name"] == "shard_groups"]
    assert one["tokens"] == sum(
        group["tokens"]
        for node in groups
        for by_source in node["metrics"]["groups"].values()
        for group in by_source.values()
    )
    assert one["tokens"] > 0
    assert one["names"] == ["v1"]


def test_records_without_counts_are_listed_with_a_dash(three, say):
    """Earlier versions of Gristmill wrote none."""
    for path, _ in list(three.store.list_files("runs")):
        record = three.store.read_record(path)
        for field in ("parent", "documents", "tokens", "file", "sample"):
            del record[field]
        three.store.write_json(path, record)
    said = say("versions", three.uri)
    assert said.code == 0
    assert said.out.splitlines()[1].split()[-3:] == ["-", "-", "-"]
    again = say("versions", "reproduce", f"{three.uri}@{three.hashes[0]}", "--into", three.project.folder / "again")
    assert again.code == 2
    assert "Name the recipe file" in again.err


def test_names_and_pins_keep_a_version_until_they_go(three, say):
    """gc takes what has neither, and says which versions that are; what a kept one needs stays."""
    first, second, third = three.hashes
    assert say("versions", "tag", three.uri, first, "good").code == 0
    again = say("versions", "tag", three.uri, first, "good")
    assert (again.code, f"good is already a name of {first}" in again.out) == (0, True)
    assert say("versions", "pin", f"{three.uri}@{second}").code == 0
    states = {one["version"]: one["state"] for one in listed(say, three.uri)}
    assert states == {first: "kept: named", second: "kept: pinned", third: "kept: the newest run"}
    assert not find_garbage(three.store).files
    assert say("versions", "pin", "--off", three.recipe, second).code == 0
    said = say("gc", three.uri)
    assert f"1 version released, without a name or a pin: project {second}." in said.out
    states = {one["version"]: one["state"] for one in listed(say, three.uri)}
    assert states[second].startswith("partly gone: ")
    assert not catalog.missing_parts(three.store, catalog.find_version(three.store, "good"))
    assert say("verify", f"{three.uri}@good").code == 0
    for verb in (("pin",), ("tag",)):
        refused = say("versions", *verb, three.uri, second, *(["again"] if verb == ("tag",) else []))
        assert refused.code == 2
        assert "so the version cannot be kept" in refused.err


def test_what_drop_says_gc_frees(three, say):
    """To the byte, for a named version and for the newest."""
    first, _, third = three.hashes
    say("gc", three.uri)
    three.project.write_recipe(STEPS.replace("CHARS", "13"))
    three.project.run()
    say("versions", "tag", three.uri, third, "third")
    for name in ("third", "project"):
        said = say("versions", "drop", f"{three.uri}@{name}", "--json")
        assert said.code == 0, said.err
        freed = json.loads(said.out)["freed_bytes"]
        garbage = json.loads(say("gc", three.uri, "--json").out)
        assert garbage["bytes"] == freed > 0
    assert first not in {one["version"] for one in listed(say, three.uri) if one["kept"]}


def test_a_dropped_version_that_a_run_makes_again_is_kept_again(three, say):
    """STORE@RECIPE is the newest that was not dropped; the run after a drop and a collection makes it whole."""
    third = three.hashes[-1]
    three.project.write_recipe(STEPS.replace("CHARS", "16"))
    say("versions", "drop", f"{three.uri}@project")
    assert listed(say, three.uri)[0]["state"] == "dropped: gc may remove it"
    assert three.hashes[1] in say("status", f"{three.uri}@project").err
    say("gc", three.uri)
    three.project.run()
    newest = listed(say, three.uri)[0]
    assert (newest["version"], newest["state"]) == (third, "kept: the newest run")
    assert not catalog.missing_parts(three.store, catalog.find_version(three.store, third))


def test_one_name_of_several_goes_alone(three, say):
    """The version is kept by the others; its last name takes it along."""
    first = three.hashes[0]
    for name in ("one", "two"):
        say("versions", "tag", three.uri, first, name)
    assert "is kept by two" in say("versions", "drop", f"{three.uri}@one").out
    assert {one["version"]: one["kept"] for one in listed(say, three.uri)}[first]
    assert "would free" in say("versions", "drop", f"{three.uri}@two").out
    assert not {one["version"]: one["kept"] for one in listed(say, three.uri)}[first]


def test_a_damaged_record_is_passed_over_and_told(three, say):
    """The list goes on without it, and gc does not start."""
    say("versions", "tag", three.uri, three.hashes[0], "good")
    path = three.project.store / "versions" / "good.json"
    path.write_bytes(path.read_bytes()[:-20])
    said = say("versions", three.uri)
    assert said.code == 0
    assert "Skipped" in said.err
    assert "good.json" in said.err
    assert say("gc", three.uri).code == 2


def test_whoever_names_a_version_waits_for_the_collection(three):
    """And a collection does not begin while somebody names one."""
    version = catalog.find_version(three.store, three.hashes[0])
    with hold(three.store, "gc", "") as lease:
        notes = []

        def note(message, *_):
            notes.append(message)
            three.store.remove(f"locks/{lease.id}.json")

        with catalog.changing(three.store, note) as own:
            catalog.pin(three.store, own, version)
            with pytest.raises(UserError, match="a change of its versions"), alone(three.store):
                pass
        three.store.write_json(f"locks/{lease.id}.json", {})
    assert notes
    with alone(three.store):
        collect(three.store, find_garbage(three.store))
    assert not catalog.missing_parts(three.store, version)


def test_of_two_that_give_the_same_name_one_is_refused(three):
    """Versions do not change, whoever writes at once."""
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
    """Everything goes through the interface of the store."""
    store = Store("memory://catalog-of-versions")
    three.project.run(store=store.uri)
    (version,) = catalog.list_versions(store)
    with catalog.changing(store, lambda _: None) as lease:
        catalog.give_name(store, lease, "good", version.record, "NAME")
        catalog.drop(store, lease, catalog.find_version(store, "good"))
    (version,) = catalog.list_versions(store)
    assert (version.names, version.state) == ((), "dropped: gc may remove it")


def test_a_version_is_made_again_to_the_byte(three, say):
    """Of the text that its run had, with other workers; the recipe's file is another by now."""
    into = three.project.folder / "again"
    said = say("versions", "reproduce", three.recipe, three.hashes[0], "--into", into, "--json")
    assert said.code == 0, said.err
    assert json.loads(said.out)["same"] is True
    assert catalog.find_version(Store(str(into)), three.hashes[0]).is_newest
    said = say("versions", "reproduce", three.recipe, three.hashes[0], "--into", into)
    assert said.code == 2
    assert "is not empty" in said.err


def stop(*_):
    raise Interrupted(signal.SIGINT)


def test_one_that_was_stopped_goes_on(three, say, monkeypatch):
    """With what it made itself; what another run made is not taken for it."""
    into = three.project.folder / "again"
    words = ("versions", "reproduce", three.recipe, three.hashes[0], "--into", into)
    with monkeypatch.context() as patch:
        patch.setattr(Mill, "run", stop)
        assert say(*words).code == 128 + signal.SIGINT
    said = say(*words)
    assert (said.code, said.out[:8]) == (0, "The same"), said.err


def test_an_input_that_changed_is_named(three, say):
    """As the reason of the first dataset that differs."""
    path = three.project.folder / "in" / "01.jsonl"
    path.write_text(path.read_text().replace("mill", "mull", 1))
    into = three.project.folder / "again"
    said = say("versions", "reproduce", three.recipe, three.hashes[0], "--into", into)
    assert said.code == 1
    assert "Different: notes/ingest" in said.out
    assert "input: 01.jsonl changed" in said.out


def test_a_stage_of_another_version_is_named(three, say, monkeypatch):
    """The steps before it are the same."""
    import stagebox.longer_than

    monkeypatch.setattr(stagebox.longer_than, "STAGE", replace(stagebox.longer_than.STAGE, version=99))
    into = three.project.folder / "again"
    said = say("versions", "reproduce", three.recipe, three.hashes[0], "--into", into, "--json")
    assert said.code == 1
    different = json.loads(said.out)["difference"]
    assert different["step"] == "all/longer_than"
    assert different["why"] == ["VERSION: 1 -> 99"]


@pytest.mark.parametrize(
    ("typed", "result"),
    [
        ("versions", "Usage: "),
        ("versions nowhere", "no such file"),
        ("versions shwo STORE", "Did you mean gristmill versions show?"),
        ("versions FOLDER/in", "it is not a store"),
        ("versions show STORE", "so it does not name one"),
        ("versions show STORE@v9", "has no version v9. Nothing was done"),
        ("versions show RECIPE v9", "Versions of project: "),
        ("versions show STORE@project more", "Leave one out"),
        ("versions show STORE a b", "too many arguments"),
        ("versions tag STORE", "requires a version and a name"),
        ("versions tag STORE@project a/b", "cannot be a name"),
        ("versions STORE@nobody", "names one version"),
        ("versions tag STORE@project HASH", "looks like the hash of a version"),
        ("versions pin --off STORE@project", "not pinned"),
        ("versions drop", "requires VERSION"),
        ("versions reproduce STORE@project", "requires --into"),
        ("versions reproduce STORE@project --into STORE", "is not empty"),
        ("versions list STORE --store elsewhere", "Leave out --store elsewhere"),
        ("versions STORE --sample 1%", "--sample"),
    ],
)
def test_mistakes(three, say, typed, result):
    """One message with the fix, and exit code 2."""
    words = {"STORE": three.uri, "RECIPE": str(three.recipe), "FOLDER": str(three.project.folder)}
    for word, meant in {**words, "HASH": three.hashes[0]}.items():
        typed = typed.replace(word, meant)
    said = say(*typed.split())
    assert said.code == 2
    assert result in said.err
    assert "Traceback" not in said.err
