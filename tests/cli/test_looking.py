"""Looking at a corpus: whole records, one document by name or word, what was cut, and what nobody has judged yet."""

import json
import re
import shlex
import sys
from types import SimpleNamespace

import pytest

from conftest import Project
from gristmill.cli.main import main
from gristmill.engine.publish.run_record import see
from gristmill.query.documents.documents import cut_again, replaced_in
from gristmill.query.removal.reasons import reasons_of

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
    same = number if number > 2 else 1  # the second and the third are near duplicates
    words = " ".join(f"grain{same}x{at}" for at in range(60))
    end = f"Here ends the page with the number {number} of them."
    return f"{PROSE}Document {number}.\n{words} and of the {PROSE}\n{FOOTER}\n{end}"


@pytest.fixture(scope="module")
def ran(tmp_path_factory):
    """Eight pages with URLs, titles and dates, of which one is too short and one a near duplicate."""
    made = Project(tmp_path_factory.mktemp("looking"))
    (made.folder / "in").mkdir()
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
    (made.folder / "in" / "pages.jsonl").write_text("\n".join(lines))
    made.write_recipe(STEPS)
    made.run()
    return made


@pytest.fixture
def typed(ran, monkeypatch, capfd):
    """A command on that recipe."""
    monkeypatch.setenv("NO_COLOR", "1")

    def run(command, *arguments):
        monkeypatch.setattr(sys, "argv", ["gristmill", command, str(ran.recipe), *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            main()
        said = capfd.readouterr()
        return SimpleNamespace(code=ended.value.code or 0, out=said.out, err=said.err)

    return run


@pytest.fixture
def edited(ran, edit):
    """The recipe with another threshold, not run again; afterwards as it was."""
    edit(ran.recipe, "min_words: 20", "min_words: 40")
    yield
    edit(ran.recipe, "min_words: 40", "min_words: 20")


def records(said):
    return [json.loads(line) for line in said.out.splitlines()]


def test_a_document_is_shown_with_language_title_and_date(typed):
    """And with its ids as they are written elsewhere: hexadecimal, in JSON too."""
    shown = typed("inspect", "--kept", "-n", 1).out
    assert re.search("title Page [0-9]+", shown)
    assert "language en" in shown
    assert "timestamp 2026-11-01 12:00:00" in shown
    near = typed("inspect", "--stage", "near_dedup", "-n", 9)
    assert re.search("cluster [0-9a-f]{32}", near.out)
    assert "b'" not in near.out
    for record in records(typed("inspect", "--stage", "near_dedup", "--json", "-n", 9)):
        assert re.fullmatch("[0-9a-f]{32}", record["doc_id"])
        assert record["columns"]["cluster"] is None or re.fullmatch("[0-9a-f]{32}", record["columns"]["cluster"])
        assert record["language"] is None or len(record["language"]) == 2
        assert record["title"].startswith("Page ")


def test_clusters_name_the_pages(typed):
    """A header has the URL of what was kept and of what was dropped."""
    shown = typed("inspect", "--clusters").out
    assert re.search(r"2 documents, kept https://mill.example/page[12] [0-9a-f]{32}", shown)
    assert "page1" in shown
    assert "page2" in shown


def test_one_document_is_found_by_url_id_and_words(typed):
    """Whether it was kept or dropped."""
    (found,) = records(typed("inspect", "--url", "page0", "--json"))
    assert found["verdict"]["reason"] == "too_few_words"
    (same,) = records(typed("inspect", "--id", found["doc_id"][:12].upper(), "--json"))
    assert same == found
    (by_word,) = records(typed("inspect", "--grep", r"grain5x\d+ grain", "--json"))
    assert by_word["url"].endswith("page5")
    assert "No matching documents" in typed("inspect", "--grep", "nowhere at all").err


@pytest.mark.parametrize(
    ("arguments", "result"),
    [
        (("--id", "xyz"), "is not an id"),
        (("--grep", "("), "is not a regular expression"),
        (("--grep", "[[a]"), "is not a regular expression"),
        (("--clusters", "--grep", "a"), "--clusters shows whole clusters"),
    ],
)
def test_a_wrong_question_is_one_message(typed, arguments, result):
    """Exit code 2, the fix."""
    said = typed("inspect", *arguments)
    assert said.code == 2
    assert result in said.err


def test_what_was_cut_is_shown_where_it_stood(typed):
    """`--cuts`: the text before, with the cut lines marked and the step that cut them named."""
    shown = typed("inspect", "--url", "page5", "--cuts").out
    assert re.search(rf"\[-{FOOTER}\s*-\]", shown)
    assert re.search(r"cut: \d+ bytes by all/line_dedup", shown)
    (found,) = records(typed("inspect", "--url", "page5", "--cuts", "--json"))
    assert "".join(piece["text"] for piece in found["pieces"]) == text_of(5)
    assert "".join(piece["text"] for piece in found["pieces"] if piece["cut_by"] is None) == found["text"]


def test_cuts_of_several_steps_lie_in_one_text():
    """The spans of a later cut count the bytes that the earlier one left."""
    once = cut_again([(b"abcdefghij", None)], [2, 4, 6, 7], "one")
    twice = cut_again(once, [1, 3, 5, 7], "two")
    assert b"".join(piece for piece, _ in twice) == b"abcdefghij"
    left = b"".join(piece for piece, step in once if step is None)
    assert left == b"abefhij"
    assert b"".join(piece for piece, step in twice if step is None) == left[:1] + left[3:5] + left[7:]
    assert b"".join(piece for piece, step in twice if step == "one") == b"cdg"


def test_a_replacement_stands_behind_what_it_replaced():
    """An earlier cut does not count among the bytes of the text before the step."""
    pieces = cut_again([(b"ab--cd@e.org!", None)], [2, 4], "lines")
    shown = replaced_in(cut_again(pieces, [2, 10], "scrub"), [2, 10], [b"<EMAIL>"], "scrub")
    assert shown == [(b"ab", None), (b"--", "lines"), (b"cd@e.org", "scrub"), (b"<EMAIL>", None), (b"!", None)]


def test_after_an_edit_nothing_is_called_kept_that_nobody_judged(typed, edited):
    """`--kept` leaves out what the changed step has not seen, and says how much; without it the verdict says so."""
    kept = typed("inspect", "--kept", "-n", 20, "--json")
    assert kept.out == ""
    assert "Not run yet with the recipe as it is now: all/heuristics" in kept.err
    assert "8 documents that no step has dropped so far" in kept.err
    shown = typed("inspect", "-n", 20)
    assert shown.out.count("not judged yet by all/heuristics") == 8
    assert "kept" not in shown.out
    up_to = typed("inspect", "--stage", "signals", "--kept", "-n", 20, "--json")
    assert len(records(up_to)) == 8


def test_removed_says_which_steps_it_cannot_count(typed, edited, ran):
    """A step that has not run with the current recipe is named, not silently left out."""
    said = typed("removed")
    assert said.code == 2
    assert "as it is now has run" in said.err


def test_whatif_counts_the_bytes_of_documents_that_would_come(typed):
    """A document that a step dropped has no text behind the later ones; it has the one that it came with."""
    result = json.loads(typed("whatif", "heuristics.gopher_quality.min_words=3", "--json").out)
    assert result["come"]["documents"] == 1
    assert result["come"]["bytes"] == len(text_of(0).encode())


def test_whatif_asks_about_a_language(typed):
    """`by_language.en.min_words`: a name that the config does not have yet."""
    asked, plainly = (
        json.loads(typed("whatif", f"heuristics.gopher_quality.{path}min_words=1000", "--json").out)["go"]["documents"]
        for path in ("by_language.en.", "")
    )
    assert asked == plainly > 0


@pytest.mark.parametrize(
    ("change", "result"),
    [
        ("heuristics.gopher_quality.min_wrods=3", "Did you mean min_words?"),
        ("heuristics.gopher_quality.by_language.en.min_wrods=3", "Did you mean min_words?"),
        ("heuristics.gopher_quality.min_words=many", "'many' is not a count; write a number"),
        ("heuristics.gopher_quality.min_words.x=3", "is a plain value"),
        ("heuristics.gopher_qualty.min_words=3", "Did you mean gopher_quality?"),
        ("near_dedup.verify_jaccard=0.5", "only a higher verify_jaccard can be evaluated"),
        ("nowhere.x=3", "has no step nowhere"),
    ],
)
def test_whatif_says_what_is_wrong_in_plain_words(typed, change, result):
    """The message has field, consequence and fix; a step that exists but cannot be evaluated is not reported as
    missing.
    """
    said = typed("whatif", change)
    assert said.code == 2
    assert result in said.err
    assert "Input should be" not in said.err


@pytest.mark.parametrize("where", ["recipe", "run"])
@pytest.mark.slow
def test_a_reason_that_no_document_has_is_no_mistake(everything, say, where):
    """Of a reader, of a step of ours, of one of the user's own whose code is there; and in the store alone, too."""
    project = everything.project
    name = project.recipe if where == "recipe" else f"{project.store}@everything"
    given = {reason for made in everything.run.states.values() for reason in made.metrics.get("dropped", {})}
    idle = ["truncated_zstd", "opted_out", "all_text_repeated", "worker_crashed", "unsure_language"]
    assert given.isdisjoint(idle)
    known = reasons_of(everything.run if where == "recipe" else see(everything.run.store, "everything"))
    own = {"too_short"} if where == "run" else set()
    assert [reason for reason in given - own if not known.has(reason)] == []
    for reason in idle:
        said = say("inspect", name, "--reason", reason)
        assert (said.code, said.out) == (0, ""), said.err
        assert said.err.endswith("No matching documents.\n")
    for reason, meant in (("opted_uot", "opted_out"), ("too_few_wrods", "too_few_words")):
        said = say("inspect", name, "--reason", reason)
        assert said.code == 2
        assert (
            f"--reason {reason} is not a reason of any step, so no document has it. Did you mean {meant}?" in said.err
        )
    unheard = say("inspect", name, "--reason", "quite_something_else")
    assert unheard.code == (2 if where == "recipe" else 0)  # whose code is not at hand may give any


HOSTILE = {
    "whatif {recipe} heuristics.gopher_quality.min_words=1e999": "heuristics.gopher_quality.min_words",
    "whatif {recipe} heuristics.gopher_quality=" + "[" * 3000: "is not a valid YAML value",
    "whatif {recipe} heuristics.gopher_quality.min_words=" + "9" * 60: "is not a valid YAML value",
    "tokenizer encode {recipe} '\udcff'": "is not valid UTF-8",
    "tokenizer audit {recipe} --out {recipe}": "is a file. Nothing was measured. Name another folder.",
    "run {recipe} --tag " + "a" * 300: "but a file's name may have 128",
}


@pytest.mark.parametrize("line", HOSTILE)
def test_hostile_arguments_are_one_message(everything, say, line):
    """No traceback, and code 2."""
    done = say(*shlex.split(line.format(recipe=everything.project.recipe)))
    assert (done.code, "Traceback" in done.err) == (2, False), done.err
    assert HOSTILE[line] in done.err


def test_a_hit_of_grep_is_shown_where_it_stands(typed):
    """The passage around the first, with how many are left out; `--full` marks all; JSON is as it was."""
    shown = typed("inspect", "--grep", r"grain5x5\d").out
    assert "... " in shown
    assert "grain5x49 [*grain5x50*] [*grain5x51*]" in shown
    assert "Document 5." not in shown
    assert re.search(r"\.\.\. \d+ more characters \(--chars, --full\)", shown)
    many = typed("inspect", "--url", "page5", "--grep", r"grain5x\d+").out
    assert "[*grain5x0*]" in many
    left = int(re.search(r"\.\.\. (\d+) more hits, \d+ more characters \(--chars, --full\)", many)[1])
    assert left + many.count("[*") == 60
    few = typed("inspect", "--url", "page5", "--grep", r"grain5x\d+", "--chars", "40").out
    assert 0 < few.count("[*grain5x") < many.count("[*grain5x")
    full = typed("inspect", "--url", "page5", "--grep", r"grain5x\d+", "--full").out
    assert full.count("[*grain5x") == 60
    assert "more" not in full
    (plain,) = records(typed("inspect", "--url", "page5", "--grep", "grain5x5", "--json"))
    assert "[*" not in plain["text"]
    assert "[*" not in typed("inspect", "--url", "page5", "--grep", "(?=grain5)").out


def test_many_columns_are_wrapped_to_the_width(typed, monkeypatch):
    """No fact is broken in two."""
    monkeypatch.setenv("COLUMNS", "100")
    shown = typed("inspect", "--stage", "signals", "--url", "page5")
    facts = [line for line in shown.out.splitlines() if re.match(r"(language |\w+ [\d.]+(  |$))", line)]
    assert len(facts) > 5
    assert max(map(len, facts)) <= 100
    (record,) = records(typed("inspect", "--stage", "signals", "--url", "page5", "--json"))
    result = dict(fact.split(" ", 1) for line in facts for fact in line.split("  "))
    assert result["words"] == str(record["columns"]["words"])
    assert record["columns"].keys() - result.keys() <= {name for name, one in record["columns"].items() if one is None}


def test_after_a_change_of_an_input_the_last_run_is_named(project, say):
    """Every command that has nothing to show says where the last run is, and that shows it."""
    project.write_recipe("  - signals\n  - heuristics: {gopher_quality: {min_words: 2, min_stop_words: 0}}")
    assert "has been run with this store" in say("inspect", project.recipe).err
    project.run()
    for path in (project.folder / "in").iterdir():
        path.write_text(path.read_text() + '{"text": "one more line"}\n')
    for command in ("inspect", "funnel", "removed", "status"):
        said = say(command, project.recipe)
        assert said.code == (0 if command == "status" else 2)
        last = f"gristmill {command} {project.store}@project"
        assert re.search(f"; its last finished run, of [^;]*: {re.escape(last)}\n", said.err + said.out)
        assert "with this store" not in said.err + said.out
        assert say(command, f"{project.store}@project").code == 0


def test_without_shards_for_the_recipe_as_it_is_the_last_run_is_named(everything, copy_of, say, edit):
    """So says whoever looks into shards."""
    project = copy_of(everything)
    edit(project.recipe, "seq_len_tokens: 128", "seq_len_tokens: 64")
    said = say("sample", project.recipe)
    assert said.code == 2
    run = f"{project.store}@everything"
    assert said.err.endswith(f": {run}\n")
    assert say("sample", run).code == 0
