"""Inspecting a corpus: whole records, one document by name or word, cut text, and documents not judged yet."""

import json
import re
import shlex
import sys
from types import SimpleNamespace

import pytest
from conftest import Project

from gristmill.cli.main import main
from gristmill.query.documents.cut_pieces import cut_again, replaced_in

FOOTER = "This line stands below every page of the whole site, and says nothing."
PROSE = "The mill of the town stands with the river, and it is the wheel that has to turn the stone for all of them. "
STEPS = """
  - language
  - signals
  - heuristics: {rules: [gopher_quality], gopher_quality: {min_words: 20}}
  - line_dedup: {max_count: 3}
  - near_dedup: {scope: global}
"""


def text_of(number):
    if number == 0:
        return f"Only a few words\n{FOOTER}"
    same = number if number > 2 else 1  # pages 1 and 2 are near-duplicates
    words = " ".join(f"grain{same}x{at}" for at in range(60))
    end = f"Here ends the page with the number {number} of them."
    return f"{PROSE}Document {number}.\n{words} and of the {PROSE}\n{FOOTER}\n{end}"


@pytest.fixture(scope="module")
def ran(tmp_path_factory):
    """A project with eight pages that have URLs, titles and dates; one is too short and one is a near-duplicate."""
    project = Project(tmp_path_factory.mktemp("looking"))
    (project.folder / "in").mkdir()
    lines = [
        json.dumps(
            {
                "text": text_of(number),
                "url": f"https://mill.example/page{number}",
                "title": f"Page {number}",
                "timestamp": "2026-11-01T12:00:00Z",
            }
        )
        for number in range(8)
    ]
    (project.folder / "in" / "pages.jsonl").write_text("\n".join(lines))
    project.write_recipe(STEPS)
    project.run()
    return project


@pytest.fixture
def run_command(ran, monkeypatch, capfd):
    """Run a command on that recipe."""
    monkeypatch.setenv("NO_COLOR", "1")

    def run(command, *arguments):
        monkeypatch.setattr(sys, "argv", ["gristmill", command, str(ran.recipe), *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            main()
        output = capfd.readouterr()
        return SimpleNamespace(code=ended.value.code or 0, out=output.out, err=output.err)

    return run


@pytest.fixture
def edited(ran, edit):
    """Change a threshold in the recipe without a new run; restore it afterwards."""
    edit(ran.recipe, "min_words: 20", "min_words: 40")
    yield
    edit(ran.recipe, "min_words: 40", "min_words: 20")


def records(output):
    return [json.loads(line) for line in output.out.splitlines()]


def test_a_document_is_shown_with_language_title_and_date(run_command):
    """Ids are hexadecimal in text and in JSON."""
    shown = run_command("inspect", "--kept", "-n", 1).out
    assert re.search("title Page [0-9]+", shown)
    assert "language en" in shown
    assert "timestamp 2026-11-01 12:00:00" in shown
    near = run_command("inspect", "--stage", "near_dedup", "-n", 9)
    assert re.search("cluster [0-9a-f]{32}", near.out)
    assert "b'" not in near.out
    for record in records(run_command("inspect", "--stage", "near_dedup", "--json", "-n", 9)):
        assert re.fullmatch("[0-9a-f]{32}", record["doc_id"])
        assert record["columns"]["cluster"] is None or re.fullmatch("[0-9a-f]{32}", record["columns"]["cluster"])
        assert record["language"] is None or len(record["language"]) == 2
        assert record["title"].startswith("Page ")


def test_clusters_name_the_pages(run_command):
    """A header has the URLs of the kept and the dropped document."""
    shown = run_command("clusters").out
    assert re.search(r"2 documents, kept https://mill.example/page[12] [0-9a-f]{32}", shown)
    assert "page1" in shown
    assert "page2" in shown


def test_one_document_is_found_by_url_id_and_words(run_command):
    """It is found whether it was kept or dropped."""
    (by_url,) = records(run_command("inspect", "--url", "page0", "--json"))
    assert by_url["verdict"]["reason"] == "too_few_words"
    (by_id,) = records(run_command("inspect", "--id", by_url["doc_id"][:12].upper(), "--json"))
    assert by_id == by_url
    (by_word,) = records(run_command("inspect", "--grep", r"grain5x\d+ grain", "--json"))
    assert by_word["url"].endswith("page5")
    assert "No matching documents" in run_command("inspect", "--grep", "nowhere at all").err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--id", "xyz"), "is not an id"),
        (("--grep", "("), "is not a regular expression"),
        (("--grep", "[[a]"), "is not a regular expression"),
    ],
)
def test_an_invalid_query_is_one_message(run_command, arguments, message):
    """The exit code is 2, and the message names the mistake."""
    output = run_command("inspect", *arguments)
    assert output.code == 2
    assert message in output.err


def test_cut_text_is_shown_in_place(run_command):
    """`--cuts` shows the text before the cut, with cut lines marked and the step named."""
    shown = run_command("inspect", "--url", "page5", "--cuts").out
    assert re.search(rf"\[-{FOOTER}\s*-\]", shown)
    assert re.search(r"cut: \d+ bytes by all/line_dedup", shown)
    (entry,) = records(run_command("inspect", "--url", "page5", "--cuts", "--json"))
    assert "".join(piece["text"] for piece in entry["pieces"]) == text_of(5)
    assert "".join(piece["text"] for piece in entry["pieces"] if piece["cut_by"] is None) == entry["text"]


def test_cuts_of_several_steps_are_merged_into_one_text():
    """The spans of a later cut refer to the text that the earlier cut left."""
    once = cut_again([(b"abcdefghij", None)], [2, 4, 6, 7], "one")
    twice = cut_again(once, [1, 3, 5, 7], "two")
    assert b"".join(piece for piece, _ in twice) == b"abcdefghij"
    left = b"".join(piece for piece, step in once if step is None)
    assert left == b"abefhij"
    assert b"".join(piece for piece, step in twice if step is None) == left[:1] + left[3:5] + left[7:]
    assert b"".join(piece for piece, step in twice if step == "one") == b"cdg"


def test_a_replacement_follows_the_text_it_replaced():
    """Offsets ignore the bytes of an earlier cut."""
    pieces = cut_again([(b"ab--cd@e.org!", None)], [2, 4], "lines")
    shown = replaced_in(cut_again(pieces, [2, 10], "scrub"), [2, 10], [b"<EMAIL>"], "scrub")
    assert shown == [(b"ab", None), (b"--", "lines"), (b"cd@e.org", "scrub"), (b"<EMAIL>", None), (b"!", None)]


def test_after_an_edit_an_unjudged_document_is_not_called_kept(run_command, edited):
    """`--kept` leaves it out and counts it; otherwise its verdict says that it is not judged yet."""
    kept = run_command("inspect", "--kept", "-n", 20, "--json")
    assert kept.out == ""
    assert "Not run yet with the recipe as it is now: all/heuristics" in kept.err
    assert "8 documents that no step has dropped so far" in kept.err
    shown = run_command("inspect", "-n", 20)
    assert shown.out.count("not judged yet by all/heuristics") == 8
    assert "kept" not in shown.out
    up_to = run_command("inspect", "--stage", "signals", "--kept", "-n", 20, "--json")
    assert len(records(up_to)) == 8


def test_rules_are_not_counted_for_a_recipe_that_has_not_run_as_it_is(run_command, edited, ran):
    """A step that has not run with the current recipe is not silently left out."""
    output = run_command("funnel", "--by", "rule")
    assert output.code == 2
    assert "as it is now has finished" in output.err


def test_whatif_counts_the_bytes_of_documents_that_would_be_added(run_command):
    """A dropped document has no text in later layers, so its text before the drop counts."""
    result = json.loads(run_command("whatif", "heuristics.gopher_quality.min_words=3", "--json").out)
    assert result["come"]["documents"] == 1
    assert result["come"]["bytes"] == len(text_of(0).encode())


def test_whatif_accepts_an_exception_for_a_language(run_command):
    """`by_language.en.min_words` need not be in the recipe yet."""
    by_language, plain = (
        json.loads(run_command("whatif", f"heuristics.gopher_quality.{path}min_words=1000", "--json").out)["go"][
            "documents"
        ]
        for path in ("by_language.en.", "")
    )
    assert by_language == plain > 0


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("heuristics.gopher_quality.min_wrods=3", "Did you mean min_words?"),
        ("heuristics.gopher_quality.by_language.en.min_wrods=3", "Did you mean min_words?"),
        ("heuristics.gopher_quality.min_words=many", "'many' is not a count; write a number"),
        ("heuristics.gopher_quality.min_words.x=3", "is a plain value"),
        ("heuristics.gopher_qualty.min_words=3", "Did you mean gopher_quality?"),
        ("near_dedup.verify_jaccard=0.9", "compares many documents"),
        ("nowhere.x=3", "has no step nowhere"),
    ],
)
def test_whatif_explains_an_invalid_change(run_command, change, message):
    """The message has field, consequence and fix; a step that exists but cannot be evaluated is not reported as
    missing.
    """
    output = run_command("whatif", change)
    assert output.code == 2
    assert message in output.err
    assert "Input should be" not in output.err


@pytest.mark.parametrize("where", ["recipe", "run"])
@pytest.mark.slow
def test_a_reason_without_a_document_is_a_remark_with_the_reasons_that_have_some(everything, say, where):
    """A rule may drop nothing, so it is no error; a slip of the pen gets the reason that is meant."""
    project = everything.project
    name = project.recipe if where == "recipe" else f"{project.store}@everything"
    used = {reason for state in everything.run.states.values() for reason in state.metrics.get("dropped", {})}
    assert not used.intersection(("opted_out", "quite_something_else", "too_few_wrods"))
    for reason in ("opted_out", "quite_something_else"):
        output = say("inspect", name, "--reason", reason)
        assert (output.code, output.out) == (0, ""), output.err
        assert f"No matching documents. No step dropped one for {reason}. Reasons here: " in output.err
        assert all(one in output.err for one in used)
    output = say("inspect", name, "--reason", "too_few_wrods")
    assert output.code == 2
    assert "--reason too_few_wrods: no document has it. Did you mean too_few_words?" in output.err


HOSTILE = {
    "whatif {recipe} heuristics.gopher_quality.min_words=1e999": "heuristics.gopher_quality.min_words",
    "whatif {recipe} heuristics.gopher_quality=" + "[" * 3000: "is not a valid YAML value",
    "whatif {recipe} heuristics.gopher_quality.min_words=" + "9" * 60: "is not a valid YAML value",
    "tokenizer show {recipe} '\udcff'": "is not valid UTF-8",
    "tokenizer audit {recipe} --out {recipe}": "is there, and is no .json file. Nothing was measured.",
    "run {recipe} --tag " + "a" * 300: "but a file's name may have 128",
}


@pytest.mark.parametrize("line", HOSTILE)
def test_hostile_arguments_are_one_message(everything, say, line):
    """There is no traceback, and the exit code is 2."""
    done = say(*shlex.split(line.format(recipe=everything.project.recipe)))
    assert (done.code, "Traceback" in done.err) == (2, False), done.err
    assert HOSTILE[line] in done.err


def test_a_grep_match_is_shown_in_its_passage(run_command):
    """The passage around the first match is shown with the number left out; `--full` marks all; JSON is unmarked."""
    shown = run_command("inspect", "--grep", r"grain5x5\d").out
    assert "... " in shown
    assert "grain5x49 [*grain5x50*] [*grain5x51*]" in shown
    assert "Document 5." not in shown
    assert re.search(r"\.\.\. \d+ more characters \(--chars, --full\)", shown)
    many = run_command("inspect", "--url", "page5", "--grep", r"grain5x\d+").out
    assert "[*grain5x0*]" in many
    left = int(re.search(r"\.\.\. (\d+) more hits, \d+ more characters \(--chars, --full\)", many)[1])
    assert left + many.count("[*") == 60
    few = run_command("inspect", "--url", "page5", "--grep", r"grain5x\d+", "--chars", "40").out
    assert 0 < few.count("[*grain5x") < many.count("[*grain5x")
    full = run_command("inspect", "--url", "page5", "--grep", r"grain5x\d+", "--full").out
    assert full.count("[*grain5x") == 60
    assert "more" not in full
    (plain,) = records(run_command("inspect", "--url", "page5", "--grep", "grain5x5", "--json"))
    assert "[*" not in plain["text"]
    assert "[*" not in run_command("inspect", "--url", "page5", "--grep", "(?=grain5)").out


def test_many_columns_are_wrapped_to_the_width(run_command, monkeypatch):
    """No fact is split across lines."""
    monkeypatch.setenv("COLUMNS", "100")
    shown = run_command("inspect", "--stage", "signals", "--url", "page5")
    facts = [line for line in shown.out.splitlines() if re.match(r"(language |\w+ [\d.]+(  |$))", line)]
    assert len(facts) > 5
    assert max(map(len, facts)) <= 100
    (record,) = records(run_command("inspect", "--stage", "signals", "--url", "page5", "--json"))
    by_name = dict(fact.split(" ", 1) for line in facts for fact in line.split("  "))
    assert by_name["words"] == str(record["columns"]["words"])
    assert record["columns"].keys() - by_name.keys() <= {
        name for name, value in record["columns"].items() if value is None
    }


def test_after_an_input_changed_the_last_run_is_named(project, say):
    """A command that has nothing to show names the last run, and works with it."""
    project.write_recipe("  - signals\n  - near_dedup")
    assert "has been run with this store" in say("inspect", project.recipe).err
    project.run()
    for path in (project.folder / "in").iterdir():
        path.write_text(path.read_text() + '{"text": "one more line"}\n')
    for command in ("inspect", "funnel", "clusters", "status"):
        output = say(command, project.recipe)
        assert output.code == (0 if command == "status" else 2)
        last = f"gristmill {command} {project.store}@project"
        assert re.search(f"; its last finished run, of [^;]*: {re.escape(last)}\n", output.err + output.out)
        assert "with this store" not in output.err + output.out
        assert say(command, f"{project.store}@project").code == 0


def test_without_shards_for_the_current_recipe_the_last_run_is_named(everything, copy_of, say, edit):
    """`sample` prints the STORE@NAME that has shards."""
    project = copy_of(everything)
    edit(project.recipe, "seq_len_tokens: 128", "seq_len_tokens: 64")
    output = say("sample", project.recipe)
    assert output.code == 2
    run = f"{project.store}@everything"
    assert output.err.endswith(f": {run}\n")
    assert say("sample", run).code == 0
