"""What a user sees of decontamination: evidence with both texts, the items that were met, the life of a document."""

import json
import re

import pytest
from tests.stages.decontaminate.suites import item, prose, write_suite

from conftest import Project

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
    - decontaminate: {suite: evals, allow_unprotected: 1}
    - decontaminate: {suite: more}
  page:
    - decontaminate: {suite: evals, allow_unprotected: 1, action: cut, margin_bytes: 0}
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
    """Two routes that each drop or cut, and the run of them."""
    made = Project(tmp_path_factory.mktemp("flagged"))
    (made.folder / "in").mkdir()
    for name, texts in (("notes", NOTES), ("pages", PAGES)):
        lines = [json.dumps({"id": key, "text": text}) for key, text in texts.items()]
        (made.folder / "in" / f"{name}.jsonl").write_text("\n".join(lines))
    bare = {"id": "bare", "q": "Why so?", "a": ""}
    write_suite(made.folder / "evals", {"first": ITEMS[:2], "second": [*ITEMS[2:], bare]})
    write_suite(made.folder / "more", {"third": [LATER]})
    made.recipe.write_text(RECIPE)
    made.run()
    return made


def rows_of(said):
    return {row["locator"].rpartition("#")[2]: row for row in map(json.loads, said.out.splitlines())}


def test_evidence_has_both_texts(flagged, say):
    """Only documents with items in them; every flag with its passage, and the item with its texts."""
    rows = rows_of(say("inspect", flagged.recipe, "--evidence", "--json"))
    assert len(rows) == 6
    for row in rows.values():
        for flag in row["evidence"]:
            texts = {**NOTES, **PAGES}.values()
            assert any(flag["passage"] == text.encode()[flag["start"] : flag["stop"]].decode() for text in texts)
            assert flag["text"] == next(one["q"] for one in (*ITEMS, LATER) if one["id"] == flag["item"]["id"])
            assert flag["piece"] == "question"
    flags = [flag for row in rows.values() for flag in row["evidence"]]
    assert {(one["benchmark"], one["item"]["id"], one["rule"], one["whole"]) for one in flags} == {
        ("first", "i0", "ngram", True),
        ("first", "i0", "ngram", False),
        ("first", "i1", "ngram", False),
        ("first", "i1", "fuzzy", False),
        ("second", "i2", "ngram", False),
        ("third", "i9", "ngram", False),
    }


def test_evidence_marks_the_words_that_agree(flagged, say):
    """Between [* and *] in a pipe, one text below the other; what was changed stands outside."""
    said = say("inspect", flagged.recipe, "--evidence", "--grep", "OTHERWISE|otherwise")
    assert said.code == 0
    assert "first i1: 88% of the question, fuzzy" in said.out
    (passage,) = re.findall(r"^document, bytes [\d,]+ to [\d,]+: (.*)$", said.out, re.M)
    (question,) = re.findall(r"^question: (.*)$", said.out, re.M)
    marked = [re.sub(r"\[\*.*?\*\]", "", text).split() for text in (passage, question)]
    assert marked == [["otherwise"] * 5, ITEMS[1]["q"].split()[::9]]
    assert passage.replace("[*", "").replace("*]", "").split() == EDITED.split()
    assert f"answer: {ITEMS[1]['a']}" in said.out


def test_a_wide_terminal_has_two_columns(flagged, say, monkeypatch):
    """Without marks, as there are colours."""
    monkeypatch.setenv("COLUMNS", "130")
    monkeypatch.setenv("FORCE_COLOR", "1")
    wide = say("inspect", flagged.recipe, "--evidence", "--grep", "otherwise").out
    assert re.search("document, bytes .*┃.*question", wide)
    assert "[*" not in wide
    monkeypatch.setenv("COLUMNS", "80")
    assert "┃" not in say("inspect", flagged.recipe, "--evidence", "--grep", "otherwise").out


def test_evidence_goes_with_other_questions(flagged, say):
    """-n, --source, --id, --kept, and from the store alone; all flags with --full."""
    asked = ("inspect", flagged.recipe, "--evidence", "--json")
    assert len(rows_of(say(*asked, "-n", 2))) == 2
    pages = rows_of(say(*asked, "--source", "pages"))
    assert len(pages) == 2
    some = next(iter(pages.values()))
    assert rows_of(say(*asked, "--id", some["doc_id"][:9])) == {some["locator"].rpartition("#")[2]: some}
    kept = rows_of(say(*asked, "--kept"))
    assert [row["text"].split() for row in kept.values()] == [["Kept", "é", "ü", "kept"]]
    store = say("inspect", f"{flagged.store}@flagged", "--evidence", "--json")
    assert rows_of(store) == rows_of(say(*asked))


def test_cuts_show_what_of_an_item_went(flagged, say):
    """To the byte, between characters."""
    said = say("inspect", flagged.recipe, "--cuts", "--evidence", "--kept", "--json")
    (row,) = map(json.loads, said.out.splitlines())
    cut_by = "page/decontaminate"
    pieces = [("Kept é ", None), (ITEMS[2]["q"], cut_by), (" ü kept", None)]
    assert [(one["text"], one["cut_by"]) for one in row["pieces"]] == pieces
    gone = say("inspect", flagged.recipe, "--reason", "all_text_contaminated", "--json")
    assert len(gone.out.splitlines()) == 1


def test_evidence_that_nobody_gives_is_one_message(flagged, routes, say):
    """A recipe without the step, and a step before it."""
    said = say("inspect", routes.project.recipe, "--evidence")
    assert said.code == 2
    assert "has no step decontaminate" in said.err
    said = say("suite", "touched", routes.project.recipe)
    assert said.code == 2
    assert "has no step decontaminate" in said.err
    said = say("inspect", flagged.recipe, "--evidence", "--stage", "ingest")
    assert said.code == 2
    assert "--stage ingest comes before text/decontaminate, text/decontaminate_2, page/decontaminate" in said.err


def test_touched_tells_clean_items_from_others(flagged, say, tmp_path):
    """Of each benchmark: its items, those that documents hold, the documents that went or were cut, and the rules."""
    said = say("suite", "touched", flagged.recipe, "--json", "--out", tmp_path / "touched.jsonl")
    first, second, third = map(json.loads, said.out.splitlines())
    assert (third["benchmark"], third["items"], third["removed"], third["hash"] != first["hash"]) == (
        "third",
        1,
        1,
        True,
    )
    assert (first["benchmark"], first["items"], first["removed"], first["cut"]) == ("first", 2, 3, 0)
    assert (second["benchmark"], second["items"], second["removed"], second["cut"]) == ("second", 3, 1, 1)
    assert first["rules"] == {"fuzzy": 1, "ngram": 2}
    assert second["unprotected"] == ["bare"]
    result = {one["id"]: (one["documents"], one["whole"], one["rules"]) for one in first["touched"] + second["touched"]}
    assert result == {
        "i0": (2, True, ["ngram"]),
        "i1": (2, False, ["fuzzy", "ngram"]),
        "i2": (2, False, ["ngram"]),
    }
    written = list(map(json.loads, (tmp_path / "touched.jsonl").read_text().splitlines()))
    assert written == first["touched"] + second["touched"] + third["touched"]
    away = say("suite", "touched", f"{flagged.store}@flagged", "--json")
    assert away.out == said.out


def test_touched_for_a_person(flagged, say, tmp_path):
    """A table, the items that were not searched for, and one benchmark by its name."""
    said = say("suite", "touched", flagged.recipe, "--benchmark", "second")
    assert said.code == 0
    assert [line.split()[:4] for line in said.out.splitlines()[1:3]] == [
        ["benchmark", "items", "touched", "share"],
        ["second", "3", "1", "33.3%"],
    ]
    assert "third" not in said.out
    assert said.out.count("small 1") == 1
    assert "second: 1 item was not searched for and may be in any document: bare." in said.out
    said = say("suite", "touched", flagged.recipe, "--benchmark", "secnd")
    assert said.code == 2
    assert "Did you mean second?" in said.err
    said = say("suite", "touched", flagged.recipe, "--out", tmp_path / "no" / "file.jsonl")
    assert said.code == 2
    assert "cannot be written" in said.err


def test_items_let_go_are_named(project, say):
    """In the warnings of the run, and all of them with their findings in `suite touched`."""
    lines = [json.dumps({"text": f"{prose(n, 9)}. The water wheel turns. {prose(-n, 9)}"}) for n in range(9)]
    (project.folder / "in" / "00.jsonl").write_text("\n".join(lines))
    write_suite(project.folder / "evals", {"b": [{"id": "wheel", "q": "the water wheel turns", "a": "a mill"}]})
    project.write_recipe("  - decontaminate: {suite: evals, common_documents: 2}")
    said = say("run", project.recipe)
    assert "9 findings were ignored as common phrases, since many documents have" in " ".join(said.err.split())
    assert "b wheel. `gristmill suite touched` lists" in " ".join(said.err.split())
    said = say("suite", "touched", project.recipe)
    assert "b: 9 matches of 1 item ignored: many documents have the same words: wheel (9)." in said.out
    (row,) = map(json.loads, say("suite", "touched", project.recipe, "--json").out.splitlines())
    assert row["let_go"] == {"wheel": 9}


def test_touched_of_an_unfinished_run_is_refused(flagged, say, tmp_path):
    """Items that nobody looked for would pass for clean ones."""
    said = say("suite", "touched", flagged.recipe, "--store", tmp_path / "empty")
    assert said.code == 2
    assert "it is unknown which items are clean" in said.err


def test_lineage_tells_what_was_found(flagged, say):
    """Item, share, rule and passage, at the step that found it."""
    row = rows_of(say("inspect", flagged.recipe, "--evidence", "--json", "--grep", "otherwise")).popitem()[1]
    said = say("lineage", flagged.recipe, row["doc_id"])
    assert "text/decontaminate found first i1: 88% of the question, fuzzy, bytes" in said.out
    (life,) = map(json.loads, say("lineage", flagged.recipe, row["doc_id"], "--json").out.splitlines())
    (flags,) = (step["flags"] for step in life["steps"] if step["step"] == "text/decontaminate")
    assert [flag["passage"] for flag in flags] == [flag["passage"] for flag in row["evidence"]]


@pytest.mark.parametrize(("command", "code"), [("removed", 2), ("funnel", 0), ("status", 0), ("verify", 0)])
def test_other_commands_take_the_step_as_any_other(flagged, say, command, code):
    """Its metrics are not mistaken for those of a step with rules, which `removed` wants."""
    said = say(command, flagged.recipe)
    assert (said.code, "Traceback" in said.err) == (code, False)
