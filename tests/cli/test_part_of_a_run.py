"""A recipe that has not run to its end, or not at all: no command takes it for a whole corpus."""

import json
import re

import pytest

from gristmill.errors import UserError

BEHIND = ["all/upper", "all/longer_than", "all/exact"]
STEPS = """
  - stagebox.length
  - stagebox.upper
  - stagebox.longer_than: {chars: 12}
  - stagebox.exact
"""
AT = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d UTC"


@pytest.fixture
def short(project):
    """The recipe with four steps."""
    project.write_recipe(STEPS)
    return project


def why(say, project):
    return {stage["stage"]: stage["why"] for stage in json.loads(say("plan", project.recipe, "--json").out)["stages"]}


def test_a_run_says_that_it_ended_where_it_was_asked_to(short, say):
    """And which steps it left out, also to a program; one that left out nothing is whole."""
    short.run(until="length")
    result = say("run", short.recipe, "--until", "length")
    assert f"Stopped after length (--until); not run: {', '.join(BEHIND)}.\n" in result.out
    found = json.loads(say("run", short.recipe, "--until", "length", "--json").out)
    assert (found["until"], found["not_run"]) == ("length", BEHIND)
    assert re.search(rf"\nLast run: finished up to length, {AT}, version \w+\n", say("status", short.recipe).out)
    assert json.loads(say("status", short.recipe, "--json").out)["until"] == "length"

    short.run()
    whole = say("run", short.recipe, "--until", "exact")
    assert "--until" not in whole.out
    assert re.search(rf"\nLast run: finished, {AT}, version \w+\n", say("status", short.recipe).out)


def test_nobody_speaks_of_an_edit_after_a_part_of_a_run(short, say):
    """`funnel` and `inspect` name the run that can be looked at, and how far it went."""
    short.run(until="length")
    there = re.escape(f"{short.store}@project")
    for command in ("funnel", "inspect"):
        result = say(command, short.recipe).err
        assert "an edit:" not in result
        assert re.search(
            rf"its last finished run, of {AT}, up to length \(--until\): gristmill {command} {there}", result
        )


def test_a_step_that_was_not_reached_is_not_called_new(short, say):
    """By `--until`, or because the run was stopped: only a step that the last recipe did not have is new."""
    short.run(until="length")
    stopped = "not reached: the last run was stopped"
    found = why(say, short)
    assert all(found[step] == [f"{stopped} after length (--until)"] for step in (*BEHIND, "notes/corpus"))
    short.write_recipe(f"{STEPS}  - stagebox.deadly\n")
    assert why(say, short)["all/deadly"] == ["new step"]


def test_a_step_behind_a_failure_is_not_called_new(short, say):
    """The run was stopped by a step that cannot go on."""
    short.write_recipe(STEPS.replace("stagebox.upper", "stagebox.broken"))
    with pytest.raises(UserError):
        short.run()
    assert why(say, short)["notes/corpus"] == ["not reached: the last run was stopped"]


def test_a_run_that_was_refused_is_no_run(short, say):
    """No task was looked at, so nothing is recorded, and no command speaks of it."""
    short.write_recipe(STEPS, pattern="nowhere/*.jsonl")
    with pytest.raises(UserError, match="nowhere"):
        short.run()
    assert not list(short.store.glob("runs/**/*.json"))


def test_what_was_never_run_has_not_been_checked(short, say):
    """`verify` of a recipe without a run is refused; with lost parts it is what `verify` is for."""
    result = say("verify", short.recipe)
    assert result.code == 2
    assert f"Nothing of {short.recipe} has been run with this store, so there is nothing to check." in result.err
    short.run()
    for part in (short.store / "parts").rglob("*.parquet"):
        part.unlink()
    assert "is missing" in say("verify", short.recipe).out


def test_a_tag_is_told_with_the_way_to_it(short, say):
    """As it is written behind a command."""
    short.run()
    result = say("run", short.recipe, "--tag", "v2")
    assert f"\nKept as version v2. To see it: gristmill funnel {short.store}@v2\n" in result.out
    assert "version" in say("status", f"{short.store}@v2").err
    assert json.loads(say("run", short.recipe, "--tag", "v3", "--json").out)["tag"] == "v3"


def test_whatif_counts_what_has_not_run(short, say):
    """And names the first alone, however many there are."""
    result = say("whatif", short.recipe, "longer_than.chars=20").err
    assert result.startswith("gristmill: 5 steps have not run with the current recipe (the first: notes/ingest), so")


def test_only_steps_that_judge_are_said_to_have_not_judged(short, say):
    """`length` measures; and the last finished run is named."""
    short.run()
    short.write_recipe("  - stagebox.upper: {min_chars: 3}\n  - stagebox.length\n  - stagebox.exact\n")
    result = say("inspect", short.recipe, "-n", "1")
    assert "not judged yet by all/upper, all/exact   id" in result.out
    assert re.search(rf"its last finished run, of {AT}: gristmill inspect {re.escape(str(short.store))}@", result.err)


def test_status_has_no_figures_of_what_never_ran(short, say):
    """A dash, and null for a program."""
    last = next(line for line in say("status", short.recipe).out.splitlines() if line.startswith("all/exact"))
    assert "0 B" not in last
    stages = json.loads(say("status", short.recipe, "--json").out)["stages"]
    found = next(stage for stage in stages if stage["stage"] == "all/exact")
    assert [found[name] for name in ("stored_bytes", "cpu_s", "peak_rss_bytes")] == [None] * 3


def test_status_says_what_its_plus_means(project, say):
    """Tasks that nobody can count yet; once all are known, neither stands there."""
    project.write_recipe("  - stagebox.length\n")
    shown = say("status", project.recipe).out
    assert "0/0+" in shown
    assert "+: more tasks will follow, but their number is not known yet" in shown
    project.run()
    assert "+" not in say("status", project.recipe).out


def test_a_step_of_every_source_is_named_once(short, say):
    """With seven sources, `corpus` is not seven steps to whoever reads what was not run."""
    text = short.recipe.read_text()
    source = next(line for line in text.splitlines() if line.startswith("  notes:"))
    others = "\n".join(source.replace("notes", f"notes_{number}").replace("*", f"0{number}") for number in range(3))
    short.recipe.write_text(
        text.replace(source, others) + "tokenizer: {train: {vocab: 600, sample_bytes: {text: 1MB}}}\nshards: {}\n"
    )
    short.recipe.write_text(short.recipe.read_text().replace("kind: text", "kind: text, domain: text"))
    result = say("run", short.recipe, "--until", "length")
    assert "all/tokens, shard_groups of 3 sources, all/shards" in result.out, result.err


def test_a_store_in_memory_is_told_of_as_one(short, say):
    """By the command that fills it, and by those that find it empty; nobody is sent in a circle."""
    there = ("--store", f"memory://{short.folder}")
    result = say("run", short.recipe, *there)
    assert "was in the memory of this command, so its contents are gone now" in result.out.splitlines()[-1]
    assert "its contents are gone now" in json.loads(say("run", short.recipe, *there, "--json").out)["notes"][-1]
    tagged = say("run", short.recipe, *there, "--tag", "v1")
    assert tagged.code == 2
    assert "--tag names a version for later" in tagged.err
    empty = ("--store", f"memory://{short.folder}/another-process")
    for command in (["funnel"], ["inspect"], ["verify"], ["status"], ["whatif"], ["sample"], ["shards", "head"]):
        change = ["longer_than.chars=3"] if command == ["whatif"] else []
        said = say(*command, short.recipe, *change, *empty)
        assert "is in the memory of the process that fills it, and empty" in said.out + said.err, command
    assert "store in memory is empty" in say("status", f"memory://{short.folder}/another-process@project").err


@pytest.mark.parametrize("command", [("sql", "select count(*) from documents"), ("export", "--out", "new")])
def test_documents_that_are_read_and_not_judged_are_no_corpus(short, say, command):
    """Also without a step: a run may stop after `ingest`."""
    short.write_recipe("  []")
    short.run()
    made = short.dry_run().states["notes/corpus"]
    for key in made.tasks:
        (short.store / "tasks" / f"{key}.json").unlink()
    for path in (short.store / "stages").iterdir():
        path.unlink()
    name, *rest = command
    result = say(name, short.recipe, *rest)
    assert "has not finished with the current recipe (notes/corpus)" in result.err
