"""What `inspect --evidence` shows of a generated text beside its parent."""

import json

import pytest
from tests.cli.conftest import Project

from gristmill import installed

GENERATED = """
recipe: generated
seed: 1
store: ./store
sources:
  rephrased: {kind: text, read: {format: jsonl, paths: [in/rephrased.jsonl], fields: {key: id}}}
steps:
  text:
    - faithful: {}
    - heuristics: {rules: [faithful]}
"""
REPHRASED = {
    "same": ("It takes 3 thousand sacks by 4 May.", "By May 4 it takes 3,000 sacks."),
    "changed": ("Die Mühle: it is 5 miles, says “we grind rye”.", "Die Mühle: it is 5 km, says “we grind wheat”."),
}


def rows_of(output):
    return {row["locator"].rpartition("#")[2]: row for row in map(json.loads, output.out.splitlines())}


@pytest.fixture(scope="module")
def generated(tmp_path_factory):
    """A project with generated texts and their parents, after its run."""
    project = Project(tmp_path_factory.mktemp("generated"))
    (project.folder / "in").mkdir()
    rows = [{"id": key, "text": text, "parent_text": parent} for key, (text, parent) in REPHRASED.items()]
    (project.folder / "in" / "rephrased.jsonl").write_text("\n".join(map(json.dumps, rows)))
    project.recipe.write_text(GENERATED)
    project.run()
    return project


def test_evidence_of_a_version_names_the_package_that_is_missing(generated, say, monkeypatch):
    """The findings are in the store, but only the package knows which column has them."""
    monkeypatch.setattr(installed, "_installed", lambda group, path: {})
    version = json.loads(say("versions", generated.store, "--json").out.splitlines()[0])["version"]
    output = say("inspect", f"{generated.store}@{version}", "--evidence")
    assert (output.code, "faithful needs the package gristmill-generate" in output.err) == (2, True)


def test_evidence_shows_a_text_beside_its_parent(generated, say):
    """Only a text that says what its parent does not is shown; each new passage is marked and has its check."""
    rows = rows_of(say("inspect", generated.recipe, "--evidence", "--json"))
    assert list(rows) == ["changed"]
    assert rows["changed"]["verdict"]["reason"] == "new_unit"
    (shown,) = rows["changed"]["parents"]
    assert shown["parent"] == REPHRASED["changed"][1]
    found = [(one["check"], one["passage"]) for one in shown["departures"]]
    assert found == [("units", "5 miles"), ("quotations", "“we grind rye”")]
    output = say("inspect", generated.recipe, "--evidence").out
    assert "new units: 1, quotations: 1  by text/faithful" in output
    assert f"parent: {REPHRASED['changed'][1]}" in output
    assert "text: Die Mühle: it is [+5 miles+], says [+“we grind rye”+]." in output
