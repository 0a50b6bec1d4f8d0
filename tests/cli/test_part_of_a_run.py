"""A recipe that has not finished, or has not run at all, is never treated as a complete corpus."""

import json
import re

import pytest

from gristmill.errors import UserError

STEPS_AFTER_LENGTH = ["all/upper", "all/longer_than", "all/exact"]
STEPS = """
  - stagebox.length
  - stagebox.upper
  - stagebox.longer_than: {chars: 12}
  - stagebox.exact
"""
AT = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d UTC"


@pytest.fixture
def project_of_four_steps(project):
    """A project whose recipe has four steps."""
    project.write_recipe(STEPS)
    return project


def plan_reasons(say, project):
    """Return the reasons in the plan, by stage."""
    return {stage["stage"]: stage["why"] for stage in json.loads(say("plan", project.recipe, "--json").out)["stages"]}


def test_a_run_with_until_says_where_it_stopped(project_of_four_steps, say):
    """It lists the steps that it left out, in text and in JSON; when it left out none, the run is complete."""
    project_of_four_steps.run(until="length")
    result = say("run", project_of_four_steps.recipe, "--until", "length")
    assert f"Stopped after length (--until); not run: {', '.join(STEPS_AFTER_LENGTH)}.\n" in result.out
    summary = json.loads(say("run", project_of_four_steps.recipe, "--until", "length", "--json").out)
    assert (summary["until"], summary["not_run"]) == ("length", STEPS_AFTER_LENGTH)
    assert re.search(
        rf"\nLast run: finished up to length, {AT}, version \w+\n", say("status", project_of_four_steps.recipe).out
    )
    assert json.loads(say("status", project_of_four_steps.recipe, "--json").out)["until"] == "length"

    project_of_four_steps.run()
    complete = say("run", project_of_four_steps.recipe, "--until", "exact")
    assert "--until" not in complete.out
    assert re.search(rf"\nLast run: finished, {AT}, version \w+\n", say("status", project_of_four_steps.recipe).out)


def test_after_a_partial_run_no_command_reports_an_edit(project_of_four_steps, say):
    """`funnel` and `inspect` name the run that can be read, and the step it stopped after."""
    project_of_four_steps.run(until="length")
    there = re.escape(f"{project_of_four_steps.store}@project")
    for command in ("funnel", "inspect"):
        result = say(command, project_of_four_steps.recipe).err
        assert "an edit:" not in result
        assert re.search(
            rf"its last finished run, of {AT}, up to length \(--until\): gristmill {command} {there}", result
        )


def test_a_step_that_was_not_reached_is_not_called_new(project_of_four_steps, say):
    """Only a step that the last recipe did not have is new."""
    project_of_four_steps.run(until="length")
    stopped = "not reached: the last run was stopped"
    reasons = plan_reasons(say, project_of_four_steps)
    assert all(reasons[step] == [f"{stopped} after length (--until)"] for step in (*STEPS_AFTER_LENGTH, "notes/corpus"))
    project_of_four_steps.write_recipe(f"{STEPS}  - stagebox.deadly\n")
    assert plan_reasons(say, project_of_four_steps)["all/deadly"] == ["new step"]


def test_a_step_after_a_failed_step_is_not_called_new(project_of_four_steps, say):
    """The plan says that the last run was stopped."""
    project_of_four_steps.write_recipe(STEPS.replace("stagebox.upper", "stagebox.broken"))
    with pytest.raises(UserError):
        project_of_four_steps.run()
    assert plan_reasons(say, project_of_four_steps)["notes/corpus"] == ["not reached: the last run was stopped"]


def test_a_refused_run_leaves_no_record(project_of_four_steps, say):
    """No task was planned, so nothing is recorded."""
    project_of_four_steps.write_recipe(STEPS, pattern="nowhere/*.jsonl")
    with pytest.raises(UserError, match="nowhere"):
        project_of_four_steps.run()
    assert not list(project_of_four_steps.store.glob("runs/**/*.json"))


def test_verify_refuses_a_recipe_that_never_ran(project_of_four_steps, say):
    """With lost parts, `verify` reports what is missing."""
    result = say("verify", project_of_four_steps.recipe)
    assert result.code == 2
    assert (
        f"Nothing of {project_of_four_steps.recipe} has been run with this store, so there is nothing to check."
        in result.err
    )
    project_of_four_steps.run()
    for part in (project_of_four_steps.store / "parts").rglob("*.parquet"):
        part.unlink()
    assert "is missing" in say("verify", project_of_four_steps.recipe).out


def test_a_tag_is_shown_with_the_command_that_uses_it(project_of_four_steps, say):
    """The command can be copied as printed."""
    project_of_four_steps.run()
    result = say("run", project_of_four_steps.recipe, "--tag", "v2")
    assert f"\nKept as version v2. To see it: gristmill funnel {project_of_four_steps.store}@v2\n" in result.out
    assert "version" in say("status", f"{project_of_four_steps.store}@v2").err
    assert json.loads(say("run", project_of_four_steps.recipe, "--tag", "v3", "--json").out)["tag"] == "v3"


def test_whatif_counts_the_steps_that_have_not_run(project_of_four_steps, say):
    """It names only the first of them."""
    result = say("whatif", project_of_four_steps.recipe, "longer_than.chars=20").err
    assert result.startswith("gristmill: 5 steps have not run with the current recipe (the first: notes/ingest), so")


def test_only_filter_steps_are_listed_as_not_judged_yet(project_of_four_steps, say):
    """`length` only measures, so it is not listed; the last finished run is named."""
    project_of_four_steps.run()
    project_of_four_steps.write_recipe("  - stagebox.upper: {min_chars: 3}\n  - stagebox.length\n  - stagebox.exact\n")
    result = say("inspect", project_of_four_steps.recipe, "-n", "1")
    assert "not judged yet by all/upper, all/exact   id" in result.out
    assert re.search(
        rf"its last finished run, of {AT}: gristmill inspect {re.escape(str(project_of_four_steps.store))}@", result.err
    )


def test_status_has_no_figures_for_a_stage_that_never_ran(project_of_four_steps, say):
    """It shows a dash, and null in JSON."""
    last = next(
        line for line in say("status", project_of_four_steps.recipe).out.splitlines() if line.startswith("all/exact")
    )
    assert "0 B" not in last
    stages = json.loads(say("status", project_of_four_steps.recipe, "--json").out)["stages"]
    entry = next(stage for stage in stages if stage["stage"] == "all/exact")
    assert [entry[name] for name in ("stored_bytes", "cpu_s", "peak_rss_bytes")] == [None] * 3


def test_status_explains_its_plus_sign(project, say):
    """The sign marks unknown task counts; once all are known, neither is shown."""
    project.write_recipe("  - stagebox.length\n")
    shown = say("status", project.recipe).out
    assert "0/0+" in shown
    assert "+: more tasks will follow, but their number is not known yet" in shown
    project.run()
    assert "+" not in say("status", project.recipe).out


def test_a_step_that_every_source_has_is_listed_once(project_of_four_steps, say):
    """With many sources, `shard_groups` is one entry in the list of steps not run."""
    text = project_of_four_steps.recipe.read_text()
    source = next(line for line in text.splitlines() if line.startswith("  notes:"))
    others = "\n".join(source.replace("notes", f"notes_{number}").replace("*", f"0{number}") for number in range(3))
    project_of_four_steps.recipe.write_text(
        text.replace(source, others) + "tokenizer: {train: {vocab: 600, sample_bytes: {text: 1MB}}}\nshards: {}\n"
    )
    project_of_four_steps.recipe.write_text(
        project_of_four_steps.recipe.read_text().replace("kind: text", "kind: text, domain: text")
    )
    result = say("run", project_of_four_steps.recipe, "--until", "length")
    assert "all/tokens, shard_groups of 3 sources, all/shards" in result.out, result.err


def test_a_store_in_memory_is_explained(project_of_four_steps, say):
    """The command that fills it and those that find it empty both say so."""
    there = ("--store", f"memory://{project_of_four_steps.folder}")
    result = say("run", project_of_four_steps.recipe, *there)
    assert "was in the memory of this command, so its contents are gone now" in result.out.splitlines()[-1]
    assert (
        "its contents are gone now"
        in json.loads(say("run", project_of_four_steps.recipe, *there, "--json").out)["notes"][-1]
    )
    tagged = say("run", project_of_four_steps.recipe, *there, "--tag", "v1")
    assert tagged.code == 2
    assert "--tag names a version for later" in tagged.err
    empty = ("--store", f"memory://{project_of_four_steps.folder}/another-process")
    for command in (["funnel"], ["inspect"], ["verify"], ["status"], ["whatif"], ["sample"]):
        change = ["longer_than.chars=3"] if command == ["whatif"] else []
        output = say(*command, project_of_four_steps.recipe, *change, *empty)
        assert "is in the memory of the process that fills it, and empty" in output.out + output.err, command
    assert (
        "store in memory is empty"
        in say("status", f"memory://{project_of_four_steps.folder}/another-process@project").err
    )


@pytest.mark.parametrize("command", [("sql", "select count(*) from documents"), ("export", "--out", "new")])
def test_ingested_documents_alone_are_not_a_corpus(project_of_four_steps, say, command):
    """This holds even without steps, because a run may stop after `ingest`."""
    project_of_four_steps.write_recipe("  []")
    project_of_four_steps.run()
    state = project_of_four_steps.dry_run().states["notes/corpus"]
    for key in state.tasks:
        (project_of_four_steps.store / "tasks" / f"{key}.json").unlink()
    for path in (project_of_four_steps.store / "stages").iterdir():
        path.unlink()
    name, *rest = command
    result = say(name, project_of_four_steps.recipe, *rest)
    assert "has not finished with the current recipe (notes/corpus)" in result.err
