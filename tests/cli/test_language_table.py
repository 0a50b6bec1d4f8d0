"""The language summary at the end of a run: in the table, in --json and in warnings."""

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
def run_ok(say):
    """Return a function that runs a command, expects success and returns stdout."""

    def run_command(*arguments):
        done = say(*arguments)
        assert done.code == 0, done.err
        return done.out

    return run_command


def test_a_verbose_run_shows_its_languages(tmp_path, run_ok):
    """Gopher's rules keep both languages, each with its own stop words; the table and the JSON agree."""
    path = recipe(tmp_path, "{gopher_quality: {min_words: 10}}")
    summary = json.loads(run_ok("run", path, "--json"))
    assert {name: (counts["read"], counts["kept"]) for name, counts in summary["languages"].items()} == {
        "de": (25, 25),
        "en": (25, 25),
    }
    shown = run_ok("run", path, "--verbose")
    assert "Languages of the documents of notes." in shown
    assert "100.0%" in shown


def test_a_rule_that_drops_a_whole_language_gives_a_warning(tmp_path, run_ok):
    """The warning has the language, the share and the fix."""
    path = recipe(tmp_path, "{gopher_quality: {min_words: 10, by_language: {de: {min_stop_words: 90}}}}")
    summary = json.loads(run_ok("run", path, "--json"))
    (message,) = [
        warning for warning in (one["text"] for one in summary["warnings"]) if "text/heuristics dropped" in warning
    ]
    assert "text/heuristics dropped 25 of 25 documents in de (100%) for too_few_stop_words" in message
    assert "by_language" in message


def test_the_funnel_of_one_source_has_the_languages_of_that_source(tmp_path, run_ok):
    """In the table, its heading and the JSON."""
    path = recipe(tmp_path, "{gopher_quality: {min_words: 10}}")
    (tmp_path / "more.jsonl").write_text("\n".join(json.dumps({"text": ENGLISH.format(n=n)}) for n in range(7)))
    more = "more: {kind: text, read: {format: jsonl, paths: [more.jsonl]}}, notes:"
    path.write_text(path.read_text().replace("{notes:", "{" + more))
    run_ok("run", path)
    found = json.loads(run_ok("funnel", path, "--source", "more", "--json"))
    assert {name: counts["read"] for name, counts in found["languages"].items()} == {"en": 7}
    assert {*found["funnel"]} == {"more"}
    shown = run_ok("funnel", path, "--source", "more")
    assert "Languages of the documents of more." in shown
    assert " de " not in shown
