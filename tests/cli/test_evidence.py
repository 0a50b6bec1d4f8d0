"""What a user sees of decontamination: evidence with both texts, the items that were found, the
lineage of a document.
"""

import json
import re

import pytest
from conftest import Project
from tests.stages.decontaminate.suites import item, prose, write_suite

ITEMS = [item(number) for number in range(4)]
LATER = item(9)
EDITED = " ".join(word.upper() if at % 9 else "otherwise" for at, word in enumerate(ITEMS[1]["q"].split()))
RECIPE = """
recipe: flagged
seed: 1
store: ./store
sources:
  notes: {kind: text, read: {format: jsonl, paths: [in/notes.jsonl], fields: {key: id}}}
  pages: {kind: page, read: {format: jsonl, paths: [in/pages.jsonl], fields: {key: id}}}
steps:
  text:
    - decontaminate: {suite: evals}
    - decontaminate: {suite: more}
  page:
    - decontaminate: {suite: evals}
"""
NOTES = {
    "clean": prose("clean"),
    "whole": f"{prose('a', 9)} {ITEMS[0]['q']} {ITEMS[0]['a']}. {prose('b', 9)}",
    "edited": f"{prose('c', 9)}. {EDITED}. {prose('d', 9)}",
    "later": f"{prose('f', 9)} {LATER['q']}",
    "both": f"{ITEMS[0]['q']} {prose('e', 50)} {ITEMS[1]['q']}",
}
PAGES = {"part": f"Kept é {ITEMS[2]['q']} ü kept", "only": ITEMS[2]["q"], "clean": prose("page")}


@pytest.fixture(scope="module")
def flagged(tmp_path_factory):
    """A project with two routes after its run."""
    project = Project(tmp_path_factory.mktemp("flagged"))
    (project.folder / "in").mkdir()
    for name, texts in (("notes", NOTES), ("pages", PAGES)):
        lines = [json.dumps({"id": key, "text": text}) for key, text in texts.items()]
        (project.folder / "in" / f"{name}.jsonl").write_text("\n".join(lines))
    bare = {"id": "bare", "q": "Why so?", "a": ""}
    write_suite(project.folder / "evals", {"first": ITEMS[:2], "second": [*ITEMS[2:], bare]})
    write_suite(project.folder / "more", {"third": [LATER]})
    project.recipe.write_text(RECIPE)
    project.run()
    return project


def rows_of(output):
    return {row["locator"].rpartition("#")[2]: row for row in map(json.loads, output.out.splitlines())}


def test_evidence_has_both_texts(flagged, say):
    """Only documents that contain items are listed; every flag has its passage and the text of its item."""
    rows = rows_of(say("inspect", flagged.recipe, "--evidence", "--json"))
    assert len(rows) == 6
    for row in rows.values():
        for flag in row["evidence"]:
            texts = {**NOTES, **PAGES}.values()
            assert any(flag["passage"] == text.encode()[flag["start"] : flag["stop"]].decode() for text in texts)
            assert flag["text"] == next(item["q"] for item in (*ITEMS, LATER) if item["id"] == flag["item"]["id"])
            assert flag["piece"] == "question"
    flags = [flag for row in rows.values() for flag in row["evidence"]]
    assert {(item["benchmark"], item["item"]["id"], item["rule"], item["whole"]) for item in flags} == {
        ("first", "i0", "ngram", True),
        ("first", "i0", "ngram", False),
        ("first", "i1", "ngram", False),
        ("first", "i1", "fuzzy", False),
        ("second", "i2", "ngram", False),
        ("third", "i9", "ngram", False),
    }


def test_evidence_marks_the_words_that_agree(flagged, say):
    """In a pipe, matching words are between [* and *], and the texts are below each other; changed words
    are outside.
    """
    output = say("inspect", flagged.recipe, "--evidence", "--grep", "OTHERWISE|otherwise")
    assert output.code == 0
    assert "first i1: 88% of the question, fuzzy" in output.out
    (passage,) = re.findall(r"^document, bytes [\d,]+ to [\d,]+: (.*)$", output.out, re.M)
    (question,) = re.findall(r"^question: (.*)$", output.out, re.M)
    marked = [re.sub(r"\[\*.*?\*\]", "", text).split() for text in (passage, question)]
    assert marked == [["otherwise"] * 5, ITEMS[1]["q"].split()[::9]]
    assert passage.replace("[*", "").replace("*]", "").split() == EDITED.split()
    assert f"answer: {ITEMS[1]['a']}" in output.out


def test_a_wide_terminal_has_two_columns(flagged, say, monkeypatch):
    """Colours replace the marks."""
    monkeypatch.setenv("COLUMNS", "130")
    monkeypatch.setenv("FORCE_COLOR", "1")
    wide = say("inspect", flagged.recipe, "--evidence", "--grep", "otherwise").out
    assert re.search("document, bytes .*┃.*question", wide)
    assert "[*" not in wide
    monkeypatch.setenv("COLUMNS", "80")
    assert "┃" not in say("inspect", flagged.recipe, "--evidence", "--grep", "otherwise").out


def test_evidence_combines_with_other_options(flagged, say):
    """-n, --source, --id and --kept work, and so does the store alone."""
    command = ("inspect", flagged.recipe, "--evidence", "--json")
    assert len(rows_of(say(*command, "-n", 2))) == 2
    pages = rows_of(say(*command, "--source", "pages"))
    assert len(pages) == 2
    page = next(iter(pages.values()))
    assert rows_of(say(*command, "--id", page["doc_id"][:9])) == {page["locator"].rpartition("#")[2]: page}
    assert rows_of(say(*command, "--kept")) == {}
    store = say("inspect", f"{flagged.store}@flagged", "--evidence", "--json")
    assert rows_of(store) == rows_of(say(*command))


def test_unavailable_evidence_is_one_message(flagged, routes, say):
    """The recipe has no such step, or --stage names an earlier step."""
    output = say("inspect", routes.project.recipe, "--evidence")
    assert output.code == 2
    assert "has no step decontaminate" in output.err
    output = say("suite", "touched", routes.project.recipe)
    assert output.code == 2
    assert "has no step decontaminate" in output.err
    output = say("inspect", flagged.recipe, "--evidence", "--stage", "ingest")
    assert output.code == 2
    assert "--stage ingest comes before text/decontaminate, text/decontaminate_2, page/decontaminate" in output.err


def test_touched_separates_clean_items_from_others(flagged, say):
    """Each benchmark lists its items, those found in documents, the documents dropped, and the rules."""
    output = say("suite", "touched", flagged.recipe, "--json")
    first, second, third = map(json.loads, output.out.splitlines())
    assert (third["benchmark"], third["items"], third["removed"], third["hash"] != first["hash"]) == (
        "third",
        1,
        1,
        True,
    )
    assert (first["benchmark"], first["items"], first["removed"]) == ("first", 2, 3)
    assert (second["benchmark"], second["items"], second["removed"]) == ("second", 3, 2)
    assert first["rules"] == {"fuzzy": 1, "ngram": 2}
    assert second["unprotected"] == ["bare"]
    result = {
        item["id"]: (item["documents"], item["whole"], item["rules"]) for item in first["touched"] + second["touched"]
    }
    assert result == {
        "i0": (2, True, ["ngram"]),
        "i1": (2, False, ["fuzzy", "ngram"]),
        "i2": (2, False, ["ngram"]),
    }
    away = say("suite", "touched", f"{flagged.store}@flagged", "--json")
    assert away.out == output.out


def test_touched_prints_a_table(flagged, say):
    """It lists the items that were not searched for, and --benchmark selects one benchmark."""
    output = say("suite", "touched", flagged.recipe, "--benchmark", "second")
    assert output.code == 0
    assert [line.split()[:4] for line in output.out.splitlines()[1:3]] == [
        ["benchmark", "items", "touched", "share"],
        ["second", "3", "1", "33.3%"],
    ]
    assert "third" not in output.out
    assert output.out.count("small 1") == 1
    assert "second: 1 item was not searched for and may be in any document: bare." in output.out
    output = say("suite", "touched", flagged.recipe, "--benchmark", "secnd")
    assert output.code == 2
    assert "Did you mean second?" in output.err


def test_ignored_items_are_named(project, say):
    """The run warns about them, and `suite touched` lists all of them with their counts."""
    lines = [json.dumps({"text": f"{prose(n, 9)}. The water wheel turns. {prose(-n, 9)}"}) for n in range(9)]
    (project.folder / "in" / "00.jsonl").write_text("\n".join(lines))
    write_suite(project.folder / "evals", {"b": [{"id": "wheel", "q": "the water wheel turns", "a": "a mill"}]})
    project.write_recipe("  - decontaminate: {suite: evals, common_documents: 2}")
    output = say("run", project.recipe)
    assert "9 findings were ignored as common phrases, since many documents have" in " ".join(output.err.split())
    assert "b wheel. `gristmill suite touched` lists" in " ".join(output.err.split())
    output = say("suite", "touched", project.recipe)
    assert "b: 9 matches of 1 item ignored: many documents have the same words: wheel (9)." in output.out
    (row,) = map(json.loads, say("suite", "touched", project.recipe, "--json").out.splitlines())
    assert row["let_go"] == {"wheel": 9}


def test_touched_of_an_unfinished_run_is_refused(flagged, say, tmp_path):
    """Items that no step searched for would look clean."""
    output = say("suite", "touched", flagged.recipe, "--store", tmp_path / "empty")
    assert output.code == 2
    assert "it is unknown which items are clean" in output.err


def test_lineage_shows_the_matches(flagged, say):
    """It shows item, share, rule and passage at the step that found them."""
    row = rows_of(say("inspect", flagged.recipe, "--evidence", "--json", "--grep", "otherwise")).popitem()[1]
    output = say("lineage", flagged.recipe, row["doc_id"])
    assert "text/decontaminate found first i1: 88% of the question, fuzzy, bytes" in output.out
    (lineage,) = map(json.loads, say("lineage", flagged.recipe, row["doc_id"], "--json").out.splitlines())
    (flags,) = (step["flags"] for step in lineage["steps"] if step["step"] == "text/decontaminate")
    assert [flag["passage"] for flag in flags] == [flag["passage"] for flag in row["evidence"]]


@pytest.mark.parametrize(("command", "code"), [("funnel", 0), ("status", 0), ("verify", 0)])
def test_other_commands_accept_the_step(flagged, say, command, code):
    """Its metrics are not mistaken for those of a step with rules, which `removed` needs."""
    output = say(command, flagged.recipe)
    assert (output.code, "Traceback" in output.err) == (code, False)
