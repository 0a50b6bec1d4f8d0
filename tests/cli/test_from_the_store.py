"""Reading a corpus on another machine: a copy of the store and the name of a version, a recipe or a run are enough."""

import copy
import json
import operator
import os
import re
import shutil
import sys
from functools import reduce

import pytest
from conftest import Project

from gristmill.engine.executors.executor import InlineExecutor
from gristmill.engine.mill import Mill, Silent
from gristmill.engine.publish.catalog import list_versions
from gristmill.engine.publish.garbage import find_garbage
from gristmill.engine.publish.run_record import describe, outcome, run_records, see
from gristmill.errors import UserError
from gristmill.query.lineage.lineage import versions_with
from gristmill.query.removal.funnel import funnel_lines, funnels
from gristmill.query.sizing.disk import estimate
from gristmill.query.sizing.plan import make_plan
from gristmill.recipe.load import load
from gristmill.store.store import Store
from read_only import make_read_only

READ_COMMANDS = {
    "status": ("status", "HERE", "--json"),
    "funnel": ("funnel", "HERE", "--json"),
    "rules": ("funnel", "HERE", "--by", "source", "--json"),
    "inspect": ("inspect", "HERE", "-n", "100", "--cuts", "--json"),
    "one document": ("inspect", "HERE", "--stage", "longer", "--grep", "Note 7", "--json"),
    "clusters": ("clusters", "HERE", "--json"),
    "sample": ("sample", "HERE", "--step", "2", "--json"),
    "shards verify": ("shards", "verify", "HERE", "--json"),
    "gc": ("gc", "HERE", "--dry-run", "--json"),
    "tokenizer show": ("tokenizer", "show", "HERE", "--json"),
}
FAST = ("status", "inspect", "sample")
VERIFY = ("verify", "HERE", "--json")


def command_line(command, here):
    return [str(here) if word == "HERE" else word for word in command]


def copy_without_times(source, target):
    """Copy a file without its times, as `cp -r` and most object stores do."""
    shutil.copyfile(source, target)
    return target


@pytest.fixture(scope="module")
def original(everything, tmp_path_factory):
    """A copy of the project, with its recipe and inputs."""
    folder = tmp_path_factory.mktemp("before")
    shutil.copytree(everything.project.folder, folder / "all", symlinks=True)
    return Project(folder / "all")


@pytest.fixture(scope="module")
def store_copy(original, tmp_path_factory):
    """A copy of the store alone, without times, recipe, inputs, lists or the code of custom steps."""
    folder = tmp_path_factory.mktemp("away") / "copy"
    shutil.copytree(original.store, folder, symlinks=True, copy_function=copy_without_times)
    return folder


@pytest.fixture
def nothing_else(original, monkeypatch):
    """Hide everything that the recipe names, including the code of its custom step."""
    hidden = original.folder.with_name("hidden")
    original.folder.rename(hidden)
    monkeypatch.setattr(sys, "path", [path for path in sys.path if "everything" not in path])
    for name in [name for name in sys.modules if name.split(".")[0] == "homemade"]:
        monkeypatch.delitem(sys.modules, name)
    yield
    hidden.rename(original.folder)


@pytest.fixture(scope="module")
def outputs():
    """The output of each command in the recipe's own folder; each command runs once."""
    return {}


@pytest.fixture
def output_of(outputs, original, say):
    def run_once(command):
        if command not in outputs:
            result = say(*command_line(command, original.recipe))
            assert result.code == 0, result.err
            outputs[command] = result.out
        return outputs[command]

    return run_once


@pytest.mark.parametrize(
    "name", [name if name in FAST else pytest.param(name, marks=pytest.mark.slow) for name in READ_COMMANDS]
)
def test_a_read_command_prints_the_same_from_the_store(name, output_of, store_copy, say, request, monkeypatch):
    """The output is identical from a read-only copy without file times, and it names the run."""
    expected = output_of(READ_COMMANDS[name])
    request.getfixturevalue("nothing_else")
    make_read_only(monkeypatch, store_copy)
    result = say(*command_line(READ_COMMANDS[name], f"{store_copy}@v1"))
    assert result.code == 0, result.err
    assert result.out == expected != ""
    assert f"{store_copy}@v1: recipe everything, version " in result.err


@pytest.mark.slow
def test_verify_from_the_store(output_of, store_copy, say, request, tmp_path):
    """It finds damaged and missing parts, and says what it cannot do."""
    expected = output_of(VERIFY)
    request.getfixturevalue("nothing_else")
    assert say(*command_line(VERIFY, f"{store_copy}@everything")).out == expected
    for option in ("--recompute=5%", "--repair"):
        result = say("verify", f"{store_copy}@v1", option)
        assert result.code == 2
        assert "needs the recipe, its inputs and the code of its steps" in result.err
    shutil.copytree(store_copy, tmp_path / "broken", symlinks=True)
    parts = sorted((tmp_path / "broken" / "parts").glob("*/*.parquet"))
    parts[0].unlink()
    parts[1].write_bytes(parts[1].read_bytes()[:-1] + b"x")
    result = say("verify", f"{tmp_path / 'broken'}@v1", "--json")
    assert result.code == 1
    assert {entry["part"] for entry in json.loads(result.out)["broken"]} == {part.stem for part in parts[:2]}


@pytest.mark.usefixtures("nothing_else")
def test_a_run_is_named_by_version_recipe_or_hash(store_copy, say):
    """A wrong name lists the valid ones."""
    by_version = say("status", f"{store_copy}@v1", "--json")
    record = next((store_copy / "runs" / "everything").iterdir())
    version = json.loads(record.read_text())["body"]["version"]
    for name in ("everything", version):
        message = say("status", f"{store_copy}@{name}", "--json")
        assert message.out == by_version.out
        assert f"version {version}" in message.err
    for wrong, message in (
        (f"{store_copy}@everthing", "Did you mean everything? Versions: v1. Recipes that were run: everything."),
        (str(store_copy), "write STORE@NAME. Versions: v1. Recipes that were run: everything."),
        (f"{store_copy.parent}@v1", "No run is recorded there"),
        (f"{store_copy.parent}/nowhere@v1", "/nowhere does not exist. Correct the path."),
        (f"{record}@v1", "is a file, but a store is a folder"),
        ("/dev/null@v1", "is a file, but a store is a folder"),
    ):
        output = say("inspect", wrong)
        assert output.code == 2
        assert message in output.err
    output = say("sample", store_copy)
    assert output.code == 2
    assert "is a store, which may hold runs of many recipes" in output.err
    assert "Write STORE@NAME. Versions: v1. Recipes that were run: everything." in output.err
    assert f"Manifest: {store_copy}/shards/everything/" in say("sample", f"{store_copy}@v1").err
    assert "Leave out --store other" in say("funnel", f"{store_copy}@v1", "--store", "other").err
    assert "Versions: v1." in say("gc", f"{store_copy}@v2", "--dry-run").err


def test_a_recipe_whose_inputs_are_gone_points_to_the_store(original, say):
    """The store has everything that `inspect` needs."""
    inputs = original.folder / "in"
    inputs.rename(original.folder / "elsewhere")
    try:
        result = say("inspect", original.recipe)
    finally:
        (original.folder / "elsewhere").rename(inputs)
    assert result.code == 2
    assert "matches no file" in result.err
    assert f"write {original.store}@everything instead of {original.recipe}" in result.err


def test_a_record_of_another_version_is_one_message(store_copy, tmp_path, say):
    """A record without an expected key and a damaged record are both reported."""
    store = Store(str(tmp_path))
    record = Store(str(store_copy)).read_json("versions/v1.json")
    del record["chains"]
    store.write_json("runs/everything/2026-11-01.json", record)
    result = say("status", f"{tmp_path}@everything")
    assert result.code == 2
    assert '2026-11-01.json has no "chains": it is damaged, or was written by another version' in result.err
    store.write_file("versions/v1.json", b"{")
    assert "versions/v1.json is damaged" in say("status", f"{tmp_path}@v1").err


def key_paths(record):
    """Yield the paths to the keys of a run record, of its first node and of that node's identity."""
    node = next(iter(record["nodes"]))
    yield from ((key,) for key in record)
    yield from (("nodes", node, key) for key in record["nodes"][node])
    yield from (("nodes", node, "identity", key) for key in record["nodes"][node]["identity"])


def readers(project, store):
    """Return functions that read run records."""
    mill = project.mill()
    run = mill.dry_run()
    run.states[next(iter(run.states))].waiting = 1  # so that the plan gives a reason
    return (
        lambda: describe(see(store, "project")),
        lambda: list(funnel_lines(funnels(see(store, "project")))),
        lambda: [version.state for version in list_versions(store)],
        lambda: find_garbage(store),
        lambda: make_plan(mill, run),
        lambda: [outcome(record) for record in run_records(store)],
        lambda: versions_with(store, [32 * "0"], note=raise_user_error),
        lambda: estimate(run, store, mill.known_before()),
    )


def raise_user_error(message):
    raise UserError(message)


@pytest.mark.slow
def test_a_record_without_a_key_is_one_message(project):
    """When a valid record lacks a key, readers that need it name the file and the key, and nothing else fails."""
    project.write_recipe("  - stagebox.length\n")
    project.run()
    store = Store(str(project.store))
    ((name, _),) = store.list_files("runs")
    complete = store.read_json(name)
    messages, all_readers = {}, readers(project, store)
    for *parents, last in key_paths(complete):
        body = copy.deepcopy(complete)
        reduce(operator.getitem, parents, body).pop(last)
        store.write_json(name, body)
        for reader in all_readers:
            try:
                reader()
            except UserError as error:
                messages[last] = str(error)
    assert {
        "recipe",
        "nodes",
        "until",
        "executed",
        "identity",
        "datasets",
        "stage",
        "version",
    } <= messages.keys()
    assert [key for key, error in messages.items() if f'{project.store}/{name} has no "{key}"' not in error] == []


def test_a_run_on_a_read_only_store_is_refused_in_one_message(project, say, monkeypatch):
    """This includes a run with nothing to do, because it could not write its record. Reading still works."""
    project.write_recipe("  - stagebox.length\n")
    project.run()
    make_read_only(monkeypatch, project.store)
    for command in (("run", project.recipe), ("run", project.recipe, "--tag", "v1"), ("gc", project.recipe)):
        result = say(*command)
        assert result.code == 2
        assert result.err.count("cannot be written") == 1
        assert "Read-only file system" in result.err
        assert "Reading works: gristmill status" in result.err
        assert "tmp" not in result.err.replace(str(project.store), "")
    assert say("status", project.recipe).code == 0
    assert say("inspect", project.recipe, "-n", "1").code == 0
    assert os.listdir(project.store / "tmp") == []


def test_a_partial_run_does_not_hide_a_complete_one(project, say):
    """The recipe's name still means the complete run, and garbage collection keeps it."""
    project.write_recipe("  - stagebox.length\n  - stagebox.longer_than: {chars: 12}\n")
    project.run()
    project.run(until="length")
    stages = [stage["stage"] for stage in json.loads(say("status", f"{project.store}@project", "--json").out)["stages"]]
    assert "all/longer_than" in stages
    garbage = find_garbage(project.mill().store)
    assert not garbage.files
    assert garbage.needed_by == ("the last run of project",)


def test_a_damaged_part_names_its_step_and_recipe(project, say):
    """This also holds for another recipe in the same store, and for `inspect` when it reads the part."""
    project.write_recipe("  - stagebox.length\n  - stagebox.longer_than: {chars: 12}\n")
    run = project.run()
    other = project.folder / "other.yaml"
    other.write_text(project.recipe.read_text().replace("recipe: project", "recipe: other").replace("12", "15"))
    mill = Mill(load(other))
    mill.executor = lambda *_: InlineExecutor(mill.store)
    damaged = [
        finished.states["all/longer_than"].layers["notes", (0, 0)][0] for finished in (run, mill.run(None, Silent()))
    ]
    for part in damaged:
        path = project.store / "parts" / part.hash[:2] / f"{part.hash}.parquet"
        times = path.stat()
        path.chmod(0o644)
        path.write_bytes(bytes(byte ^ 1 for byte in path.read_bytes()))
        os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
    result = say("verify", project.recipe)
    assert result.code == 1
    assert re.search(
        rf"part {damaged[0].hash} does not match its hash; made by all/longer_than, .*\d$", result.out, re.M
    )
    assert re.search(rf"part {damaged[1].hash} .*; made by all/longer_than, .* of the recipe other$", result.out, re.M)
    assert f"To repair it: gristmill verify --repair {project.recipe}\n" in result.out
    assert "verify --repair RECIPE, with the recipe's file" in say("verify", f"{project.store}@project").out
    assert say("inspect", project.recipe, "--kept").code == 0, (
        "verdicts are in a separate file, so the damaged part is not read"
    )
    inspected = say("inspect", project.recipe, "--dropped")
    assert inspected.code == 2
    assert f"gristmill verify {project.recipe} --repair makes it again" in inspected.err


def test_a_damaged_run_record_cannot_be_repaired(project, say):
    """No run can write it again, so `verify` says what helps and does not offer --repair."""
    project.write_inputs()
    project.write_recipe("  - stagebox.length\n")
    project.run()
    [*_, path] = sorted((project.store / "runs/project").iterdir())
    path.write_bytes(path.read_bytes().replace(b"documents", b"documenta", 1))
    result = say("verify", project.recipe)
    assert result.code == 1, result
    assert f"Restore runs/project/{path.name} from a copy. If you have no copy, delete it" in result.out
    assert "--repair" not in result.out


def test_inspect_refuses_a_recipe_that_has_not_run(project, say):
    """It prints one message instead of an empty result."""
    project.write_recipe("  - stagebox.length\n")
    result = say("inspect", project.recipe)
    assert result.code == 2
    assert "has been run with this store" in result.err


@pytest.mark.parametrize("command", ["inspect", "whatif", "plan"])
def test_a_typo_in_a_path_gets_one_suggestion(project, say, edit, command):
    """Someone who writes 00.json for 00.jsonl has the inputs, so the message does not point to an old run."""
    project.write_recipe("  - stagebox.length\n  - stagebox.longer_than: {chars: 12}\n")
    project.run()
    edit(project.recipe, "in/*.jsonl", "in/00.json")
    options = ("longer_than.chars=3",) if command == "whatif" else ()
    result = say(command, project.recipe, *options)
    assert result.code == 2
    assert result.err.endswith("so there is nothing to read. Did you mean %s?\n" % (project.folder / "in" / "00.jsonl"))


def test_a_funnel_after_an_edit_names_the_last_run(project, say, edit):
    """That run finished, but with an earlier state of the recipe."""
    project.write_recipe("  - stagebox.length\n  - stagebox.longer_than: {chars: 12}\n")
    assert "last finished run" not in say("funnel", project.recipe).err
    project.run()
    edit(project.recipe, "chars: 12", "chars: 15")
    result = say("funnel", project.recipe)
    assert result.code == 2
    assert f" UTC: gristmill funnel {project.store}@project" in result.err


@pytest.mark.parametrize("damage", ["folder", "pipe", "file"])
def test_a_damaged_run_record_is_reported_as_damaged(project, say, damage):
    """It is not reported as an unfinished run; an older intact run is used, with a warning about the newer one."""
    project.write_recipe("  - stagebox.length\n")
    project.run()
    project.run()
    older, newer = sorted((project.store / "runs" / "project").iterdir())
    for path, code, message in (
        (newer, 0, "skipped, though it may be newer"),
        (older, 2, "and 1 more record of its runs is damaged"),
    ):
        path.unlink()
        if damage == "pipe":
            os.mkfifo(path)
        else:
            path.mkdir() if damage == "folder" else path.write_bytes(b"{")
        output = say("status", f"{project.store}@project")
        assert output.code == code
        assert message in output.err
        fault = "is damaged" if damage == "file" else f"is a {damage} where the store keeps a file"
        assert f"{newer} {fault}" in output.err
    assert "may be that run" in say("status", f"{project.store}@0123456789ab").err


def test_a_damaged_lock_or_misplaced_folder_is_one_message(project, say):
    """The message names the file; nothing else in the store changes."""
    project.write_recipe("  - stagebox.length\n")
    project.run()
    lock = project.store / "locks" / "0123.json"
    lock.write_bytes(b"{")
    result = say("run", project.recipe)
    assert result.code == 2
    assert f"{lock} is damaged" in result.err
    lock.unlink()
    listing = project.store / "inputs" / "project.json"
    listing.unlink()
    listing.mkdir()
    result = say("run", project.recipe, "--workers", 1)
    assert result.code == 2
    assert f"{listing} is a folder where the store keeps a file" in result.err
