"""A document on a digest list is withheld: commands only show that it exists."""

import hashlib
import json
import re
from types import SimpleNamespace

import pytest
from conftest import Project

import gristmill

SECRET = "The unspeakable passage about the forbidden granary."
FIRST = f"{SECRET} It goes on for some more words, so that it is a document like any other of the others here."
SECOND = "A harmless page at an address that must never be shown, with a good number of words in it to be kept."
URL = "https://hidden.example/never-shown"
RECIPE = """
recipe: hidden
seed: 5
store: ./store
sources:
  notes: {kind: text, read: {format: jsonl, paths: [in.jsonl], fields: {key: id, url: url, title: title}}}
steps:
  - near_dedup
  - safety: {hashes: hashes.txt}
"""


@pytest.fixture(scope="module")
def hidden(tmp_path_factory):
    """A project with three withheld documents: one by its text, one by its URL, and one that was dropped before as a
    copy of the first.
    """
    project = Project(tmp_path_factory.mktemp("hidden"))
    lines = [
        {"id": "unspeakable-1", "url": "https://a.example/1", "title": "Forbidden granary", "text": FIRST},
        {"id": "unspeakable-2", "url": "https://a.example/2", "title": "Forbidden granary", "text": FIRST},
        {"id": "unspeakable-3", "url": URL, "title": "never-shown", "text": SECOND},
        *(
            {"id": f"n{n}", "url": f"https://b.example/{n}", "text": f"mill number {n} grinds grain {n * n}"}
            for n in range(5)
        ),
    ]
    (project.folder / "in.jsonl").write_text("\n".join(map(json.dumps, lines)))
    digests = [hashlib.sha256(FIRST.encode()).hexdigest(), hashlib.sha1(URL.encode()).hexdigest()]
    (project.folder / "hashes.txt").write_text("\n".join(digests))
    project.recipe.write_text(RECIPE)
    run = project.run()
    return SimpleNamespace(project=project, run=run)


def check(*texts: str) -> None:
    for word in ("unspeakable", "granary", "Forbidden", "never-shown", "hidden.example", "a.example", "harmless"):
        assert not any(word in text for text in texts), word


COMMANDS = [
    ("inspect",),
    ("inspect", "--full", "--dropped"),
    ("inspect", "--stage", "ingest"),
    ("inspect", "--stage", "near_dedup", "--cuts"),
    ("inspect", "--json", "--stage", "ingest"),
    ("clusters",),
    ("clusters", "--json"),
    ("funnel",),
    ("funnel", "--json"),
    ("status",),
    ("status", "--json"),
    *(("sql", f'select * from "{view}"') for view in ("documents", "ingest", "verdicts", "safety_hashes", "clusters")),
    ("sql", "--json", "select * from near_dedup"),
    ("canaries",),
    ("canaries", "--json", "--against", "hidden"),
    ("funnel", "--by", "rule"),
    ("bias", "--step", "near_dedup", "--edge", "9"),
    ("bias", "--step", "near_dedup", "--edge", "9", "--json"),
]


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_no_command_shows_a_withheld_document(hidden, say, words):
    """This holds after every step, whichever step dropped it first."""
    command, *more = words
    result = say(command, hidden.project.recipe, *more)
    check(result.out, result.err)
    assert "Traceback" not in result.err
    if words[-1] in ("--full", "--dropped"):
        assert result.out.count("withheld (hashes)") == 3


def test_inspect_says_that_a_document_is_withheld(hidden, say):
    """It shows id, source, verdict and the name of the list; searches do not match its text or URL."""
    entries = [
        json.loads(line) for line in say("inspect", hidden.project.recipe, "--dropped", "--json").out.splitlines()
    ]
    assert {entry["verdict"]["reason"] for entry in entries} == {"listed_hash", "near_duplicate"}
    assert {entry["verdict"]["detail"] for entry in entries} == {"text and origin are withheld (hashes)"}
    assert all(entry["source"] == "notes" and len(entry["doc_id"]) == 32 for entry in entries)
    for search in (("--grep", "granary"), ("--url", "hidden.example")):
        result = say("inspect", hidden.project.recipe, *search)
        assert (result.out, result.err) == ("", "No matching documents.\n")


def test_lineage_and_takedown_show_nothing_of_a_withheld_document(hidden, say):
    """This holds for queries by id and for a request that names the whole domain."""
    found = say("inspect", hidden.project.recipe, "--reason", "listed_hash", "--json").out.splitlines()
    for line in found:
        for options in ((), ("--json",), ("--prove", "--json")):
            result = say("lineage", hidden.project.recipe, json.loads(line)["doc_id"], *options)
            check(result.out, result.err)
            assert "withheld (hashes)" in result.out
    requests = hidden.project.folder / "requests.yaml"
    requests.write_text("- id: all\n  domains: [hidden.example, a.example]\n")
    for options in ((), ("--json",)):
        result = say("takedown", "check", requests, hidden.project.recipe, *options)
        check(result.out, result.err)
        assert json.loads(found[0])["doc_id"] in result.out


def test_the_python_api_withholds_it_too(hidden):
    """Batches of dropped documents have nulls for withheld values."""
    corpus = gristmill.open(str(hidden.project.recipe))
    for columns in (None, ["doc_id", "reason", "meta", "ingest.text", "ingest.locator", "near_dedup.detail"]):
        for kept in (False, None):
            rows = list(corpus.documents(kept=kept, columns=columns).rows())
            check(json.dumps(rows, default=str))
            assert len(rows) == (3 if kept is False else 8)
    assert all(row["text"] for row in corpus.documents().rows())


UNSEEN = [
    ("inspect", "--full"),
    ("inspect", "--json", "--grep", "granary|harmless"),
    ("inspect", "--json"),
    ("inspect", "--stage", "ingest", "--full"),
    ("inspect", "--stage", "near_dedup", "--cuts"),
    ("clusters", "--full"),
    ("inspect", "--url", "example"),
]


@pytest.fixture(scope="module", params=["the list has grown", "the step has not run"])
def unchecked(hidden, tmp_path_factory, request):
    """A project whose safety step has not run with the current list."""
    project = Project(tmp_path_factory.mktemp("unseen"))
    for name in ("in.jsonl", "hashes.txt"):
        (project.folder / name).write_bytes((hidden.project.folder / name).read_bytes())
    project.recipe.write_text(RECIPE)
    if request.param == "the list has grown":
        (project.folder / "hashes.txt").write_text("")
        project.run()
        (project.folder / "hashes.txt").write_bytes((hidden.project.folder / "hashes.txt").read_bytes())
    else:
        project.run(until="near_dedup")
    return project


@pytest.mark.parametrize("words", UNSEEN, ids=" ".join)
def test_documents_not_checked_yet_are_not_shown(unchecked, say, words):
    """It is not known yet which documents are on the list, so none is shown, and the message has the next command."""
    command, *more = words
    result = say(command, unchecked.recipe, *more)
    check(result.out, result.err)
    assert result.code == 0
    assert "grinds" not in result.out
    assert "b.example" not in result.out
    assert "safety_hashes has not checked, only id, source and verdict are shown. Run: gristmill run" in result.err
    if "--full" in words and words[0] != "clusters":
        assert result.out.count("safety_hashes has not run with the current recipe)") == 8


def test_a_safety_step_without_a_digest_list_withholds_nothing(hidden, say, tmp_path):
    """This holds before it has run, too."""
    project = Project(tmp_path)
    (project.folder / "in.jsonl").write_bytes((hidden.project.folder / "in.jsonl").read_bytes())
    without = RECIPE.replace("- safety: {hashes: hashes.txt}", "- signals\n  - safety: {max_blocked_share: 0.9}")
    project.recipe.write_text(without)
    project.run(until="near_dedup")
    assert SECRET in say("inspect", project.recipe, "--full").out


TAKEN = """
recipe: taken
seed: 5
store: ./store
sources:
  notes: {kind: text, read: {format: jsonl, paths: [in.jsonl], fields: {key: id, url: url, title: title}}}
steps:
  - exact_dedup
  - near_dedup
  - signals
  - heuristics: {gopher_quality: {min_words: 12, min_stop_words: 1, min_letter_words_share: 0.1}}
"""


@pytest.fixture(scope="module")
def taken(tmp_path_factory):
    """A project with documents that a request removes: a named one, a copy of it, a named one that a rule dropped, and
    two duplicates that were dropped before.
    """
    project = Project(tmp_path_factory.mktemp("taken"))
    words = " ".join(f"secret{n} and" for n in range(60))
    texts = {
        "gone.example/1": words,
        "b.example/secret2": f"{words} the secret",
        "gone.example/3": "secret of few words",
    }
    texts |= {"b.example/secret4": words, "b.example/secret5": f"{words} secret60"}
    texts |= {f"mill.example/{n}": f"The mill number {n} and its {n * n} stones " * (n + 3) for n in range(4)}
    lines = [{"id": url, "url": f"https://{url}", "title": f"Of {url}", "text": text} for url, text in texts.items()]
    (project.folder / "in.jsonl").write_text("\n".join(map(json.dumps, lines)))
    (project.folder / "requests.yaml").write_text("- {id: r1, domains: [gone.example]}")
    project.recipe.write_text(TAKEN)
    project.run()
    project.mill().store.write_json("versions/open.json", project.mill().newest_whole())
    project.recipe.write_text(f"{TAKEN}takedowns: requests.yaml")
    project.run()
    project.mill().store.write_json("versions/taken.json", project.mill().newest_whole())
    return project


def test_no_command_shows_a_document_that_was_taken_down(taken, say):
    """Nor a document that was dropped as a copy of one; in no command, not by its id, and not in Python."""
    taken.recipe.write_text(f"{TAKEN}takedowns: requests.yaml")
    commands = [words for words in COMMANDS if words[0] != "bias" and "safety" not in words[-1]]
    commands += [("diff", "open", "taken"), ("diff", "taken", "open", "--json")]
    commands += [("inspect", "--grep", "secret"), ("inspect", "--url", "gone")]
    for command, *more in commands:
        given = [one.replace("hidden", "open") for one in more]
        result = say(command, taken.recipe, *given)
        assert not re.search("secret|gone.example", result.out + result.err), (command, given)
        assert "Traceback" not in result.err
    taken.recipe.write_text(TAKEN)  # the recipe of the version before
    earlier = json.loads(say("versions", taken.store, "--json").out.splitlines()[-1])["version"]
    for words in (("inspect", taken.recipe), ("inspect", f"{taken.store}@{earlier}"), ("inspect", "open")):
        result = say(*words, "--url", "gone")
        assert not re.search("secret|gone.example", result.out), words
    taken.recipe.write_text(f"{TAKEN}takedowns: requests.yaml")
    dropped = say("inspect", taken.recipe, "--dropped", "--json").out.splitlines()
    entries = [json.loads(line) for line in dropped]
    assert [entry["verdict"]["detail"] for entry in entries] == ["text and origin are withheld (takedown)"] * 5
    lineage = say("lineage", taken.recipe, entries[0]["doc_id"]).out
    assert "withheld (takedown)" in lineage
    assert "secret" not in lineage
    rows = list(gristmill.open(str(taken.recipe)).documents(kept=None, columns=["text", "url", "meta"]).rows())
    assert (len(rows), "secret" in json.dumps(rows)) == (9, False)
