"""Canaries: the same documents in every version, their changes first, and nothing in them can act."""

import json
import random
import re

import numpy as np
import pytest
from conftest import WORDS, Project
from hypothesis import given
from hypothesis import strategies as st

from gristmill.engine.publish.run_record import see
from gristmill.kernels.hash.splitmix import mix
from gristmill.query import canaries
from gristmill.query.documents import documents
from gristmill.query.documents.word_changes import ADDED, MOST_WORDS, NOTE, REMOVED, word_changes

ENDING = """
import pyarrow as pa
import pyarrow.compute as pc
from gristmill.stages.contract import Map, StageConfig

SCHEMA = pa.schema([("text", pa.string()), ("drop", pa.string()), ("share", pa.float64())])


class Config(StageConfig):
    word: str
    share: float = 0.5


def apply(batch, config):
    text = pc.binary_join_element_wise(batch.column("text"), config.word, " ")
    columns = [text, pa.nulls(len(text), pa.string()), pa.array([config.share] * len(text))]
    return pa.RecordBatch.from_arrays(columns, schema=SCHEMA)


STAGE = Map(version=1, config=Config, reads=("text",), schema=SCHEMA, apply=apply)
"""
STEPS = """
  - stagebox.length
  - stagebox.longer_than: {chars: CHARS}
  - ending: {word: WORD}
  - stagebox.upper: {min_chars: 30}
"""
HOSTILE = "</pre><script>alert(1)</script> \x1b[2J \u202e <img src=x onerror=alert(1)>"
NUMBER = 3


def write_inputs(folder):
    draw = random.Random(4)
    lines = [{"id": str(n), "text": " ".join(draw.choices(WORDS, k=draw.randint(1, 9)))} for n in range(90)]
    for line in lines[::3]:
        line |= {"text": f"{HOSTILE} {line['text']}", "url": "javascript:alert(1)//\x1b[31m"}
    (folder / "in").mkdir()
    (folder / "in" / "a.jsonl").write_text("".join(json.dumps(line) + "\n" for line in [*lines, {"id": "e"}]))


def run(project, chars, word, tag, part="4KB", top=""):
    project.write_recipe(STEPS.replace("CHARS", chars).replace("WORD", word), ", fields: {key: id, url: url}", top)
    project.recipe.write_text(project.recipe.read_text().replace("part_bytes: 4KB", f"part_bytes: {part}"))
    project.run()
    project.mill().store.write_json(f"versions/{tag}.json", project.mill().newest_whole())


@pytest.fixture(scope="module")
def versions(tmp_path_factory, in_this_process):
    """Versions with another part size, another threshold, another text, and with a takedown. The last is current."""
    project = Project(tmp_path_factory.mktemp("canaries"))
    write_inputs(project.folder)
    (project.folder / "ending.py").write_text(ENDING)
    run(project, "12", "alpha", "first")
    run(project, "12", "alpha", "parts", part="1KB")
    shown = canaries.find(project.view("first"), number=NUMBER)
    project.taken = next(one.doc_id for one in shown if one.step == "all/ending")
    (project.folder / "requests.yaml").write_text(f"- id: r\n  doc_ids: [{project.taken}]\n")
    run(project, "12", "alpha", "takedown", top="takedowns: requests.yaml")
    run(project, "25", "beta", "now", top="restore: {r: a test}")
    return project


@pytest.fixture(scope="module", autouse=True)
def with_views():
    """A project can open one of its versions."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Project, "view", lambda self, name: see(self.mill().store, name), raising=False)
        yield


def sampled(found):
    return [(one.step, one.decision, one.doc_id) for one in found]


def test_the_sample_has_the_smallest_hashes_of_each_decision(versions):
    """The oracle sorts all documents, by the decision of each step that they reached."""
    view = versions.view("first")
    steps = ["notes/ingest", "all/length", "all/longer_than", "all/ending", "all/upper"]
    decisions = {}
    for row in documents.rows(view, None, None, None):
        last = "notes/ingest" if row.step == "ingest" else row.step
        for step in steps:
            decision = row.reason if step == last else "kept"
            decisions.setdefault((step, decision), []).append(row.fields["doc_id"])
            if step == last:
                break
    smallest = {
        key: sorted(ids, key=lambda one: mix.py_func(np.frombuffer(one[:8], "<u8"))[0])[:NUMBER]
        for key, ids in decisions.items()
    }
    expected = [(*key, one.hex()) for key, ids in smallest.items() for one in ids]
    found = canaries.find(view, number=NUMBER)
    assert sorted(sampled(found)) == sorted(expected)
    assert {one.decision for one in found} == {"kept", "missing_text", "not_longer", "too_short"}


def test_the_sample_does_not_depend_on_parts(versions):
    """A version with smaller parts has the same canaries with the same outcomes."""
    first, parts = (versions.view(name) for name in ("first", "parts"))
    assert len(parts.documents["notes"]) > len(first.documents["notes"])
    assert canaries.find(first) == canaries.find(parts)


def test_a_canary_has_the_text_before_and_after_the_step(versions):
    """Outcomes equal the documents after the step; a step that writes no text has none after it."""
    for one in canaries.find(versions.view("first")):
        if one.step == "all/ending":
            assert one.now.after.text == f"{one.now.before.text} alpha"
            assert one.now.scores == {"share": 0.5}
        if one.step == "all/upper" and one.decision == "kept":
            assert one.now.after.text == one.now.before.text.upper()
        if one.step == "all/length":
            assert one.now.after is None
            assert one.now.scores == {"chars": len(one.now.before.text)}


def test_the_sample_of_the_other_version_is_followed(versions):
    """Its documents stay the same when decisions change, and changes come first: first those of the step itself."""
    old, now = versions.view("first"), versions.view("now")
    found = canaries.find(now, old)
    assert set(sampled(canaries.find(old))) <= set(sampled(found))
    order = [(not one.changes, bool(one.changes) and one.inherited) for one in found]
    assert order == sorted(order)
    states = {(one.step, one.doc_id): one for one in found}
    at_threshold = [one for one in found if one.step == "all/longer_than" and one.decision == "kept"]
    for one in at_threshold:
        is_dropped = len(one.now.before.text) <= 25
        assert one.verdict == ("kept -> not_longer" if is_dropped else "kept")
        assert (one.changes, one.inherited) == (("verdict",) if is_dropped else (), False)
    assert any(one.changes for one in at_threshold)
    endings = [one for one in found if one.step == "all/ending"]
    assert {one.changes for one in endings if one.now.reached} == {("text",)}
    assert all([*one.words[-2:]] == [(REMOVED, " alpha"), (ADDED, " beta")] for one in endings if one.now.reached)
    missed = [one for one in endings if not one.now.reached]
    assert {one.verdict for one in missed} == {"kept -> dropped earlier: not_longer by all/longer_than"}
    assert all(one.inherited for one in missed)
    assert all(one.inherited for one in states.values() if one.step == "all/upper" and one.changes)


def test_a_version_has_no_changes_against_itself(versions):
    """A false alarm would hide the true ones."""
    first = versions.view("first")
    assert not any(one.changes for one in canaries.find(first, versions.view("parts")))


def test_what_was_taken_down_is_not_shown_in_any_version(versions, say):
    """Neither version's text is shown if one of them takes the document down."""
    for now, other in (("takedown", "first"), ("first", "takedown"), ("takedown", None)):
        found = canaries.find(versions.view(now), None if other is None else versions.view(other))
        taken = [one for one in found if one.doc_id == versions.taken]
        assert taken
        for one in taken:
            sides = [side for side in (one.now, one.old) if side is not None]
            assert {(side.before, side.after, *side.scores) for side in sides} == {(None, None)}
            assert one.origin == "text and origin are withheld (takedown)"
        assert any(one.now.before for one in found if one.doc_id != versions.taken)


def test_the_command_shows_changes_first(versions, say):
    """Removed words are in [- -], added ones in {+ +}; JSON has a line for each document."""
    output = say("canaries", versions.recipe, "--against", "first")
    assert output.code == 0
    assert re.match(r"\d+ of \d+ canaries changed since .*@first: ", output.out)
    assert "[-alpha-] {+beta+}" in output.out
    assert (
        output.out.index(": changed ") < output.out.index(": changed by an earlier") < output.out.index(": unchanged")
    )
    lines = say("canaries", versions.recipe, "--against", "first", "--json", "--step", "ending", "-n", "2").out
    entries = [json.loads(line) for line in lines.splitlines()]
    assert {entry["step"] for entry in entries} == {"all/ending"}
    assert len({entry["doc_id"] for entry in entries if entry["decision"] == "kept"}) == 2


def test_nothing_in_a_document_can_act(versions, say):
    """Control characters are shown, in the terminal and in JSON."""
    command = ("canaries", versions.recipe, "-n", "3")
    for arguments in (command, (*command, "--json"), (*command, "--against", "first")):
        output = say(*arguments)
        assert "alert(1)" in output.out
        assert not re.search("[\x1b\u202e]", output.out + output.err)


def test_mistakes_are_one_message(versions, say):
    """A wrong step and a wrong version are named, with what exists."""
    output = say("canaries", versions.recipe, "--step", "endnig")
    assert (output.code, "Did you mean ending?" in output.err) == (2, True)
    output = say("canaries", versions.recipe, "--against", "frist")
    assert (output.code, "first" in output.err) == (2, True)
    assert "Traceback" not in output.err


@given(
    before=st.lists(st.sampled_from(["a", "b", "c", "麦", " d"]), max_size=30),
    after=st.lists(st.sampled_from(["a", "b", "c", "麦", " d"]), max_size=30),
)
def test_word_changes_contain_both_texts(before, after):
    """Without the added words it is the first text, without the removed ones the second, except for white space."""
    old, new = " ".join(before), " ".join(after)
    found = word_changes(old, new, full=True)
    for text, other in ((old, ADDED), (new, REMOVED)):
        assert "".join("".join(piece for kind, piece in found if kind != other).split()) == "".join(text.split())
    assert (old.split() == new.split()) == (not {ADDED, REMOVED} & {kind for kind, _ in found})


def test_a_long_text_is_compared_in_part():
    """The work is bounded, and a note says so."""
    old, new = ("\n".join(f"{name}{n % 7} {n}" for n in range(MOST_WORDS)) for name in "xy")
    found = word_changes(old, new)
    assert [kind for kind, _ in found].count(NOTE) == 2
    assert "only" in found[-1].text
    assert sum(len(text) for _, text in found) < 2_000
