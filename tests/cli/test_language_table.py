"""Languages at the end of a run: in the table, in --json, and in warnings."""

import json

import pytest

GERMAN = "Die Mühle steht am Fluss und mahlt das Korn für das ganze Dorf, Haus {n} ist von ihr {n} Schritte weit."
ENGLISH = "The mill stands by the river and grinds the corn for the whole village, house {n} is {n} steps from it."


def recipe(tmp_path, rule):
    documents = [{"text": text.format(n=n)} for text in (GERMAN, ENGLISH) for n in range(25)]
    (tmp_path / "in.jsonl").write_text("\n".join(json.dumps(document) for document in documents))
    path = tmp_path / "two.yaml"
    path.write_text(
        "recipe: two\nsources: {notes: {kind: text, read: {format: jsonl, paths: [in.jsonl]}}}\nsteps:\n  text:\n"
        "    - language\n    - keep_language: {keep: [en, de]}\n    - signals\n    - heuristics: " + rule + "\n"
    )
    return path


@pytest.fixture
def ran(say):
    """Type a command that works: what it answers."""

    def typed(*words):
        done = say(*words)
        assert done.code == 0, done.err
        return done.out

    return typed


def test_a_verbose_run_shows_its_languages(tmp_path, ran):
    """Both are kept by Gopher's rules, each by its own stop words; the table and the JSON say so."""
    path = recipe(tmp_path, "{gopher_quality: {min_words: 10}}")
    found = json.loads(ran("run", path, "--json"))
    assert {name: (counts["read"], counts["kept"]) for name, counts in found["languages"].items()} == {
        "de": (25, 25),
        "en": (25, 25),
    }
    shown = ran("run", path, "--verbose")
    assert "Languages of the documents of notes." in shown
    assert "100.0%" in shown


def test_a_rule_that_takes_a_language_is_told_at_the_end(tmp_path, ran):
    """With the language, the share and the way out."""
    path = recipe(tmp_path, "{gopher_quality: {min_words: 10, by_language: {de: {min_stop_words: 90}}}}")
    found = json.loads(ran("run", path, "--json"))
    (result,) = [warning for warning in found["warnings"] if "text/heuristics dropped" in warning]
    assert "text/heuristics dropped 25 of 25 documents in de (100%) for too_few_stop_words" in result
    assert "by_language" in result
