"""Looking at a corpus from another machine: a copy of the store, and the name of a version, a recipe or a run."""

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

LOOKS = {
    "status": ("status", "HERE", "--json"),
    "funnel": ("funnel", "HERE", "--json"),
    "removed": ("removed", "HERE", "--by", "source", "--json"),
    "inspect": ("inspect", "HERE", "-n", "100", "--cuts", "--json"),
    "one document": ("inspect", "HERE", "--stage", "longer", "--grep", "Note 7", "--json"),
    "clusters": ("inspect", "HERE", "--clusters", "--json"),
    "sample": ("sample", "HERE", "--step", "2", "--json"),
    "shards head": ("shards", "head", "HERE", "--json"),
    "shards decode": ("shards", "decode", "HERE", "--json"),
    "shards verify": ("shards", "verify", "HERE", "--json"),
    "gc": ("gc", "HERE", "--dry-run", "--json"),
    "tokenizer show": ("tokenizer", "show", "HERE", "--json"),
    "tokenizer encode": ("tokenizer", "encode", "HERE", "the mill"),
}
FAST = ("status", "inspect", "shards head")
VERIFY = ("verify", "HERE", "--json")


def asked(command, here):
    return [str(here) if word == "HERE" else word for word in command]


def lost_times(source, target):
    """A copy as `cp -r` and most object stores make it."""
    shutil.copyfile(source, target)
    return target


@pytest.fixture(scope="module")
def before(everything, tmp_path_factory):
    """A copy of the project as it was."""
    folder = tmp_path_factory.mktemp("before")
    shutil.copytree(everything.project.folder, folder / "all", symlinks=True)
    return Project(folder / "all")


@pytest.fixture(scope="module")
def away(before, tmp_path_factory):
    """A copy of the store alone, without times; no recipe, no inputs, no list, no code of its steps."""
    folder = tmp_path_factory.mktemp("away") / "copy"
    shutil.copytree(before.store, folder, symlinks=True, copy_function=lost_times)
    return folder


@pytest.fixture
def nothing_else(before, monkeypatch):
    """Whatever the recipe named is gone for a while, also the code of its step of its own."""
    hidden = before.folder.with_name("hidden")
    before.folder.rename(hidden)
    monkeypatch.setattr(sys, "path", [path for path in sys.path if "everything" not in path])
    for name in [name for name in sys.modules if name.split(".")[0] == "homemade"]:
        monkeypatch.delitem(sys.modules, name)
    yield
    hidden.rename(before.folder)


@pytest.fixture(scope="module")
def answers():
    """What the recipe's own folder answers, by command; asked once."""
    return {}


@pytest.fixture
def answer_of(answers, before, say):
    def ask(command):
        if command not in answers:
            result = say(*asked(command, before.recipe))
            assert result.code == 0, result.err
            answers[command] = result.out
        return answers[command]

    return ask


@pytest.mark.parametrize(
    "name", [name if name in FAST else pytest.param(name, marks=pytest.mark.slow) for name in LOOKS]
)
def test_a_look_from_the_store_shows_what_the_recipe_shows(name, answer_of, away, say, request, monkeypatch):
    """Byte for byte, from a copy without times on a disk that cannot be written; and says of which run it speaks."""
    wanted = answer_of(LOOKS[name])
    request.getfixturevalue("nothing_else")
    make_read_only(monkeypatch, away)
    result = say(*asked(LOOKS[name], f"{away}@v1"))
    assert result.code == 0, result.err
    assert result.out == wanted != ""
    assert f"{away}@v1: recipe everything, version " in result.err


@pytest.mark.slow
def test_verify_from_the_store(answer_of, away, say, request, tmp_path):
    """It finds what is damaged and what is missing, and says what it cannot do."""
    wanted = answer_of(VERIFY)
    request.getfixturevalue("nothing_else")
    assert say(*asked(VERIFY, f"{away}@everything")).out == wanted
    for option in ("--recompute=5%", "--repair"):
        result = say("verify", f"{away}@v1", option)
        assert result.code == 2
        assert "needs the recipe, its inputs and the code of its steps" in result.err
    shutil.copytree(away, tmp_path / "broken", symlinks=True)
    parts = sorted((tmp_path / "broken" / "parts").glob("*/*.parquet"))
    parts[0].unlink()
    parts[1].write_bytes(parts[1].read_bytes()[:-1] + b"x")
    result = say("verify", f"{tmp_path / 'broken'}@v1", "--json")
    assert result.code == 1
    assert {one["part"] for one in json.loads(result.out)["broken"]} == {part.stem for part in parts[:2]}


@pytest.mark.usefixtures("nothing_else")
def test_a_run_is_named_by_version_recipe_or_hash(away, say):
    """A wrong name lists the right ones."""
    by_version = say("status", f"{away}@v1", "--json")
    record = next((away / "runs" / "everything").iterdir())
    version = json.loads(record.read_text())["body"]["version"]
    for name in ("everything", version):
        result = say("status", f"{away}@{name}", "--json")
        assert result.out == by_version.out
        assert f"version {version}" in result.err
    for wrong, result in (
        (f"{away}@everthing", "Did you mean everything? Versions: v1. Recipes that were run: everything."),
        (str(away), "write STORE@NAME. Versions: v1. Recipes that were run: everything."),
        (f"{away.parent}@v1", "No run is recorded there"),
        (f"{away.parent}/nowhere@v1", "/nowhere does not exist. Correct the path."),
        (f"{record}@v1", "is a file, but a store is a folder"),
        ("/dev/null@v1", "is a file, but a store is a folder"),
    ):
        said = say("inspect", wrong)
        assert said.code == 2
        assert result in said.err
    said = say("shards", "head", away)
    assert said.code == 2
    assert "is a store, which may hold runs of many recipes" in said.err
    assert "Write STORE@NAME. Versions: v1. Recipes that were run: everything." in said.err
    assert f"Manifest: {away}/shards/everything/" in say("shards", "head", f"{away}@v1").err
    assert "Leave out --store other" in say("funnel", f"{away}@v1", "--store", "other").err
    assert "Versions: v1." in say("gc", f"{away}@v2", "--dry-run").err


def test_a_recipe_whose_inputs_are_gone_says_how_to_look(before, say):
    """The store has all that is needed."""
    inputs = before.folder / "in"
    inputs.rename(before.folder / "elsewhere")
    try:
        result = say("inspect", before.recipe)
    finally:
        (before.folder / "elsewhere").rename(inputs)
    assert result.code == 2
    assert "matches no file" in result.err
    assert f"write {before.store}@everything instead of {before.recipe}" in result.err


def test_a_record_of_another_version_is_one_message(away, tmp_path, say):
    """Old records name no columns; a damaged one says nothing."""
    old = Store(str(tmp_path))
    record = Store(str(away)).read_json("versions/v1.json")
    del record["chains"]
    old.write_json("runs/everything/2026-11-01.json", record)
    result = say("status", f"{tmp_path}@everything")
    assert result.code == 2
    assert '2026-11-01.json has no "chains": it is damaged, or was written by another version' in result.err
    old.write_file("versions/v1.json", b"{")
    assert "versions/v1.json is damaged" in say("status", f"{tmp_path}@v1").err


def keys_of(record):
    """Paths to the keys of a run's record, of its first node and of that node's identity."""
    node = next(iter(record["nodes"]))
    yield from ((key,) for key in record)
    yield from (("nodes", node, key) for key in record["nodes"][node])
    yield from (("nodes", node, "identity", key) for key in record["nodes"][node]["identity"])


def looks(project, store):
    """What reads the records of runs."""
    mill = project.mill()
    run = mill.dry_run()
    run.states[next(iter(run.states))].waiting = 1  # so that the plan says why
    return (
        lambda: describe(see(store, "project")),
        lambda: list(funnel_lines(funnels(see(store, "project")))),
        lambda: [one.state for one in list_versions(store)],
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
    """The checksum is right and a key is missing: what needs it names the file and the key, and nothing fails else."""
    project.write_recipe("  - stagebox.length\n")
    project.run()
    store = Store(str(project.store))
    ((name, _),) = store.list_files("runs")
    whole = store.read_json(name)
    result, all_looks = {}, looks(project, store)
    for *way, last in keys_of(whole):
        body = copy.deepcopy(whole)
        reduce(operator.getitem, way, body).pop(last)
        store.write_json(name, body)
        for look in all_looks:
            try:
                look()
            except UserError as error:
                result[last] = str(error)
    assert {
        "recipe",
        "nodes",
        "until",
        "executed",
        "identity",
        "datasets",
        "stage",
        "version",
        "config",
    } <= result.keys()
    assert [key for key, error in result.items() if f'{project.store}/{name} has no "{key}"' not in error] == []


def test_a_run_where_nothing_can_be_written_is_refused_in_one_message(project, say, monkeypatch):
    """Also one that has nothing to do: it would leave no record. What was run can be looked at."""
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


def test_a_run_that_ended_early_does_not_hide_a_whole_one(project, say):
    """Neither from who looks by the recipe's name, nor from garbage collection."""
    project.write_recipe("  - stagebox.length\n  - stagebox.longer_than: {chars: 12}\n")
    project.run()
    project.run(until="length")
    stages = [one["stage"] for one in json.loads(say("status", f"{project.store}@project", "--json").out)["stages"]]
    assert "all/longer_than" in stages
    garbage = find_garbage(project.mill().store)
    assert not garbage.files
    assert garbage.needed_by == ("the last run of project",)


def test_a_fault_names_the_step_and_the_recipe(project, say):
    """Also that of another recipe in the same store, and where a part is met by who looks."""
    project.write_recipe("  - stagebox.length\n  - stagebox.longer_than: {chars: 12}\n")
    run = project.run()
    other = project.folder / "other.yaml"
    other.write_text(project.recipe.read_text().replace("recipe: project", "recipe: other").replace("12", "15"))
    mill = Mill(load(other))
    mill.executor = lambda *_: InlineExecutor(mill.store)
    both = [made.states["all/longer_than"].layers["notes", (0, 0)][0] for made in (run, mill.run(None, Silent()))]
    for part in both:
        path = project.store / "parts" / part.hash[:2] / f"{part.hash}.parquet"
        times = path.stat()
        path.chmod(0o644)
        path.write_bytes(bytes(byte ^ 1 for byte in path.read_bytes()))
        os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
    result = say("verify", project.recipe)
    assert result.code == 1
    assert re.search(rf"part {both[0].hash} does not match its hash; made by all/longer_than, .*\d$", result.out, re.M)
    assert re.search(rf"part {both[1].hash} .*; made by all/longer_than, .* of the recipe other$", result.out, re.M)
    assert f"To repair it: gristmill verify --repair {project.recipe}\n" in result.out
    assert "verify --repair RECIPE, with the recipe's file" in say("verify", f"{project.store}@project").out
    assert say("inspect", project.recipe, "--kept").code == 0, "verdicts are read, which lie beside the part"
    met = say("inspect", project.recipe, "--dropped")
    assert met.code == 2
    assert f"gristmill verify {project.recipe} --repair makes it again" in met.err


def test_a_damaged_record_of_a_run_is_no_matter_of_repair(project, say):
    """No run can write it again, so `verify` says what helps, and offers no --repair."""
    project.write_inputs()
    project.write_recipe("  - stagebox.length\n")
    project.run()
    [*_, path] = sorted((project.store / "runs/project").iterdir())
    path.write_bytes(path.read_bytes().replace(b"documents", b"documenta", 1))
    result = say("verify", project.recipe)
    assert result.code == 1, result
    assert f"Restore runs/project/{path.name} from a copy. If you have no copy, delete it" in result.out
    assert "--repair" not in result.out


def test_what_has_not_been_run_cannot_be_inspected(project, say):
    """One message, not an answer of no documents."""
    project.write_recipe("  - stagebox.length\n")
    result = say("inspect", project.recipe)
    assert result.code == 2
    assert "has been run with this store" in result.err


@pytest.mark.parametrize("command", ["inspect", "whatif", "plan"])
def test_a_path_with_a_typo_is_told_with_one_advice(project, say, edit, command):
    """The likely one: who wrote 00.json for 00.jsonl has the inputs, and is not sent to an old run."""
    project.write_recipe("  - stagebox.length\n  - stagebox.longer_than: {chars: 12}\n")
    project.run()
    edit(project.recipe, "in/*.jsonl", "in/00.json")
    setting = ("longer_than.chars=3",) if command == "whatif" else ()
    result = say(command, project.recipe, *setting)
    assert result.code == 2
    assert result.err.endswith("so there is nothing to read. Did you mean %s?\n" % (project.folder / "in" / "00.jsonl"))


def test_a_funnel_after_an_edit_names_the_run_before_it(project, say, edit):
    """It came to its end, only not as the recipe is now."""
    project.write_recipe("  - stagebox.length\n  - stagebox.longer_than: {chars: 12}\n")
    assert "last finished run" not in say("funnel", project.recipe).err
    project.run()
    edit(project.recipe, "chars: 12", "chars: 15")
    result = say("funnel", project.recipe)
    assert result.code == 2
    assert f" UTC: gristmill funnel {project.store}@project" in result.err


@pytest.mark.parametrize("damage", ["folder", "pipe", "file"])
def test_a_damaged_record_of_a_run_is_told_as_such(project, say, damage):
    """Not as a run that never ended; an older one that is whole is looked at, and the newer one is told of."""
    project.write_recipe("  - stagebox.length\n")
    project.run()
    project.run()
    older, newer = sorted((project.store / "runs" / "project").iterdir())
    for path, code, result in (
        (newer, 0, "skipped, though it may be newer"),
        (older, 2, "and 1 more record of its runs is damaged"),
    ):
        path.unlink()
        if damage == "pipe":
            os.mkfifo(path)
        else:
            path.mkdir() if damage == "folder" else path.write_bytes(b"{")
        said = say("status", f"{project.store}@project")
        assert said.code == code
        assert result in said.err
        what = "is damaged" if damage == "file" else f"is a {damage} where the store keeps a file"
        assert f"{newer} {what}" in said.err
    assert "may be that run" in say("status", f"{project.store}@0123456789ab").err


def test_a_damaged_lock_or_folder_in_the_way_is_one_message(project, say):
    """It names the file; nothing else of the store is touched."""
    project.write_recipe("  - stagebox.length\n")
    project.run()
    lock = project.store / "locks" / "0123.json"
    lock.write_bytes(b"{")
    result = say("run", project.recipe)
    assert result.code == 2
    assert f"{lock} is damaged" in result.err
    lock.unlink()
    known = project.store / "inputs" / "project.json"
    known.unlink()
    known.mkdir()
    result = say("run", project.recipe, "--workers", 1)
    assert result.code == 2
    assert f"{known} is a folder where the store keeps a file" in result.err
