"""The diff of two versions equals a plain comparison of all their documents."""

import json
import random
import shutil
from collections import Counter

import pytest
from conftest import WORDS, Project

from gristmill.engine.publish.run_record import see
from gristmill.query.documents import documents
from gristmill.query.versions.diff import ABSENT
from gristmill.store.parquet import PartReader

STEPS = "  - language\n  - stagebox.length\n  - stagebox.longer_than: {chars: CHARS}\n  - stagebox.exact\n"


def write(project, name, seed, records=60, site="mill.example"):
    draw = random.Random(seed)
    lines = [
        {"url": f"https://{site}/{name}/{number}", "text": " ".join(draw.choices(WORDS, k=draw.randint(1, 9)))}
        for number in range(records)
    ]
    (project.folder / "in").mkdir(exist_ok=True)
    (project.folder / "in" / f"{name}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))


def run(project, chars, read="", steps=STEPS):
    project.write_recipe(steps.replace("CHARS", chars), read)
    return project.run().ended["version"]


@pytest.fixture(scope="module")
def versions(tmp_path_factory, in_this_process):
    """Four versions in one store: two thresholds, another part size, and one input file replaced by another."""
    project = Project(tmp_path_factory.mktemp("diff"))
    write(project, "a", 1)
    write(project, "b", 2)
    project.hashes = {"first": run(project, "12"), "stricter": run(project, "25")}
    project.write_recipe(STEPS.replace("CHARS", "25"))
    project.recipe.write_text(project.recipe.read_text().replace("part_bytes: 4KB", "part_bytes: 1KB"))
    project.hashes["cut"] = project.run().ended["version"]
    shutil.move(project.folder / "in" / "b.jsonl", project.folder / "b.jsonl")
    write(project, "c", 3)
    project.hashes["files"] = run(project, "25")
    return project


def verdicts(project, name):
    """Map the id of every document to its (step, reason)."""
    view = see(project.mill().store, project.hashes[name])
    return {row.fields["doc_id"]: (row.step, row.reason) for row in documents.rows(view, None, None, None)}


def diff_json(say, project, before, after, *options):
    output = say("diff", project.store, project.hashes[before], project.hashes[after], "--json", *options)
    assert output.code == 0, output.err
    return json.loads(output.out)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("first", "stricter"),
        ("stricter", "first"),
        ("first", "cut"),
        ("stricter", "cut"),
        ("first", "files"),
        ("files", "cut"),
    ],
)
def test_added_and_removed_documents_equal_a_plain_comparison(versions, say, one, other):
    """Each document has the step and reason that keeps it out of the other version, whether parts are shared or not."""
    before, now = verdicts(versions, one), verdicts(versions, other)
    diff = diff_json(say, versions, one, other, "-n", "1000")
    kept = [{doc_id for doc_id, (step, _) in some.items() if step is None} for some in (before, now)]
    for side, ids, elsewhere in (("came", kept[1] - kept[0], before), ("went", kept[0] - kept[1], now)):
        causes = Counter(elsewhere.get(doc_id, ("-", ABSENT)) for doc_id in ids)
        assert diff[side]["documents"] == len(ids)
        assert {(c["step"], c["reason"]): c["documents"] for c in diff[side]["causes"]} == dict(causes)
        assert {sample["doc_id"] for sample in diff[side]["samples"]} == {doc_id.hex() for doc_id in ids}
        assert sum(language["documents"] for language in diff[side]["languages"]) == len(ids)
        for sample in diff[side]["samples"]:
            assert sample["url"].startswith("https://mill.example/")
            assert sample["text"]
    both = [doc_id for doc_id in before.keys() & now.keys() if before[doc_id][0] and now[doc_id][0]]
    moved = Counter((" ".join(before[one]), " ".join(now[one])) for one in both if before[one] != now[one])
    assert {(c["before"], c["now"]): c["documents"] for c in diff["dropped_otherwise"]} == dict(moved)
    (source,) = diff["sources"].values()
    assert source["kept"] == [len(kept[0]), len(kept[1])]
    assert source["matched_by"] == "doc_id"


def test_the_cases_are_not_empty(versions, say):
    """Documents are added and removed in them, because of verdicts and because of inputs."""
    assert diff_json(say, versions, "first", "stricter")["went"]["documents"] > 5
    assert diff_json(say, versions, "stricter", "cut")["came"]["documents"] == 0
    files = diff_json(say, versions, "stricter", "files")
    assert ABSENT in {cause["reason"] for side in ("came", "went") for cause in files[side]["causes"]}
    assert len(diff_json(say, versions, "first", "stricter", "-n", "2")["went"]["samples"]) == 2


def test_changes_of_the_recipe_and_of_the_inputs_are_named(versions, say):
    """Recipe changes are listed by field and input changes by file; to compare with the parent, one
    version is enough.
    """
    diff = diff_json(say, versions, "first", "stricter")
    assert diff["changes"] == {"all/longer_than": ["config.chars: 12 -> 25"]}
    output = say("diff", f"{versions.store}@{versions.hashes['files']}", "--json")
    assert json.loads(output.out)["before"]["version"] == versions.hashes["cut"]
    assert json.loads(output.out)["changes"]["notes/ingest"] == ["input: c.jsonl is new", "input: b.jsonl is gone"]


def test_layers_that_both_versions_share_are_not_read(versions, say, monkeypatch):
    """Only verdicts are opened: not documents, nor the languages and scores that did not change."""
    read = Counter()
    original = PartReader.read

    def counting(reader, columns):
        read.update(columns)
        return original(reader, columns)

    monkeypatch.setattr(PartReader, "read", counting)
    diff = diff_json(say, versions, "stricter", "cut", "-n", "0")
    assert read["doc_id"] > 0
    read.clear()
    diff = diff_json(say, versions, "first", "stricter", "-n", "0")
    assert diff["went"]["documents"] > 0
    assert not {"doc_id", "url", "text"} & set(read)
    read.clear()
    same = diff_json(say, versions, "first", "first", "-n", "0")
    assert same["same"] is True
    assert not read


def test_it_lists_the_alarms_of_watch(versions, say):
    """A column that moved; none between versions that keep the same documents."""
    found = {alarm["where"]: alarm for alarm in diff_json(say, versions, "first", "stricter")["alarms"]}
    assert found["length.chars"]["what"] == "distribution"
    assert found["length.chars"]["after"] > found["length.chars"]["before"]
    assert not [one for one in diff_json(say, versions, "stricter", "cut")["alarms"] if one["what"] == "distribution"]


def test_other_input_files_are_matched_by_url(versions, say, tmp_path, in_this_process):
    """The projects share no id: the second one read the same pages from renamed files. Without URLs nothing matches."""
    other = Project(tmp_path)
    write(other, "a", 1)
    write(other, "b", 2)
    for name in ("a", "b"):
        path = other.folder / "in" / f"{name}.jsonl"
        path.rename(path.with_name(f"2026-{name}.jsonl"))
    version = run(other, "25")
    named = [f"{versions.store}@{versions.hashes['first']}", f"{other.store}@{version}"]
    diff = json.loads(say("diff", *named, "--json").out)
    assert diff["sources"]["notes"]["matched_by"] == "url"
    same = diff_json(say, versions, "first", "stricter")
    assert [diff[side]["documents"] for side in ("came", "went")] == [
        same[side]["documents"] for side in ("came", "went")
    ]
    assert "matched by URL" in say("diff", *named).out
    for path in (other.folder / "in").iterdir():
        path.write_text(path.read_text().replace('"url"', '"link"'))
    named[1] = f"{other.store}@{run(other, '25')}"
    diff = json.loads(say("diff", *named, "--json").out)
    assert diff["sources"]["notes"]["matched_by"] == "nothing"
    assert diff["came"]["documents"] == diff["sources"]["notes"]["kept"][1]


def test_tokens_of_groups_equal_the_manifest(everything, say):
    """Comparing a version with itself shows the same tokens on both sides."""
    project = everything.project
    output = say("diff", f"{project.store}@v1", f"{project.store}@everything", "--json")
    assert output.code == 0, output.err
    entries = json.loads(output.out)["tokens"]
    assert {entry["group"] for entry in entries} == {"crawl/A", "notes/A"}
    for entry in entries:
        assert entry["before"] == entry["now"]
        assert entry["now"]["drawn"] > 0


def test_the_text_output_has_every_section(versions, say):
    """It shows changes, counts, causes and alarms."""
    output = say("diff", versions.recipe, versions.hashes["first"], versions.hashes["stricter"])
    assert output.code == 0, output.err
    for wanted in ("config.chars: 12 -> 25", "kept B", "documents removed.", "all/longer_than", "length.chars"):
        assert wanted in output.out
    same = say("diff", versions.recipe, versions.hashes["first"], versions.hashes["first"])
    assert "the same version" in same.out


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("diff", "Missing argument 'A B'"),
        ("diff STORE", "so it does not name one"),
        ("diff STORE@FIRST", "has no parent on record"),
        ("diff here there", "here is neither STORE@V nor a recipe"),
        ("diff STORE v1 v2", "has no version v1"),
        ("diff RECIPE FIRST v2", "has no version v2"),
        ("diff STORE@FIRST v1 v2", "too many arguments"),
        ("diff a b c d", "too many arguments"),
        ("diff STORE@FIRST nowhere.yaml", "no such file"),
        ("diff STORE@FIRST STORE@FIRST -n -1", "-n"),
    ],
)
def test_mistakes_are_one_message(versions, say, command, message):
    """The message has the fix, and the exit code is 2."""
    words = {"STORE": str(versions.store), "RECIPE": str(versions.recipe), "FIRST": versions.hashes["first"]}
    for word, value in words.items():
        command = command.replace(word, value)
    output = say(*command.split())
    assert output.code == 2
    assert message in output.err
    assert "Traceback" not in output.err


def test_a_version_whose_datasets_are_gone_is_refused(versions, say, tmp_path):
    """The message says what is missing, without a traceback."""
    copy = tmp_path / "store"
    shutil.copytree(versions.store, copy)
    say("gc", copy)
    output = say("diff", copy, versions.hashes["first"], versions.hashes["files"])
    assert output.code == 2
    assert "gc removed it" in output.err
