"""The plan says what would run and why, in the user's own words."""

import json
from dataclasses import replace

import pytest

import stagebox.upper
from gristmill.query.sizing.plan import describe_change, make_plan


def plan_of(project):
    mill = project.mill()
    return {stage.id: stage for stage in make_plan(mill, mill.dry_run())}


def test_before_the_first_run_everything_is_new(project):
    """Nothing is cached, and the reason says that there was no run."""
    stages = plan_of(project)
    assert stages["notes/ingest"].to_run > 0
    assert all(stage.why == ("first run",) for stage in stages.values())


def test_after_a_run_nothing_is_to_be_done(project):
    """Everything is cached, without a reason."""
    project.run()
    assert all((stage.to_run, stage.waiting, stage.why) == (0, 0, ()) for stage in plan_of(project).values())


def test_a_changed_field_is_named_with_both_values(project, edit):
    """`config.chars: 12 -> 30`, and the steps after it wait."""
    project.run()
    edit(project.recipe, "chars: 12", "chars: 30")
    stages = plan_of(project)
    assert stages["all/longer_than"].why == ("config.chars: 12 -> 30",)
    assert stages["all/length"].why == ()
    assert stages["all/exact"].why == ("waits for all/longer_than",)


def test_a_raised_version_is_named(project, monkeypatch):
    """`VERSION: 1 -> 2`."""
    project.run()
    monkeypatch.setattr(stagebox.upper, "STAGE", replace(stagebox.upper.STAGE, version=2))
    assert plan_of(project)["all/upper"].why == ("VERSION: 1 -> 2",)


def test_new_changed_and_missing_files_are_named(project):
    """The names of input files are in the reason of the read step."""
    project.run()
    folder = project.folder / "in"
    (folder / "new.jsonl").write_text(json.dumps({"text": "a new file"}) + "\n")
    (folder / "01.jsonl").write_text(json.dumps({"text": "a changed file"}) + "\n")
    (folder / "02.jsonl").unlink()
    assert plan_of(project)["notes/ingest"].why == ("new.jsonl is new", "01.jsonl changed", "02.jsonl is gone")


def test_a_lost_part_is_named(project):
    """A deleted part is distinguished from changed input."""
    run = project.run()
    part, _ = run.states["all/length"].layers["notes", (0, 0)]
    (project.store / "parts" / part.hash[:2] / f"{part.hash}.parquet").unlink()
    assert plan_of(project)["all/length"].why == ("notes part 0.0 is no longer in the store",)


def test_a_new_step_is_called_new(project):
    """A step that the last run did not have."""
    project.run()
    project.write_recipe(project.recipe.read_text().split("steps:\n")[1] + "  - stagebox.deadly\n")
    assert plan_of(project)["all/deadly"].why == ("new step",)


def test_until_runs_no_shared_step_for_only_some_sources(project):
    """A source without the step stops where the others do: half of a corpus is another corpus."""
    project.recipe.write_text(
        "recipe: project\nstore: ./store\nsources:\n"
        "  notes: {kind: text, read: {format: jsonl, paths: [in/00.jsonl]}}\n"
        "  pages: {kind: web, read: {format: jsonl, paths: [in/01.jsonl]}}\n"
        "steps:\n  text: [stagebox.length]\n  web: [stagebox.upper]\n  all: [stagebox.exact]\n"
    )
    nodes = set(project.mill("length").graph.nodes)
    assert {"text/length", "web/upper"} < nodes
    assert "all/exact" not in nodes
    assert "all/exact" in project.mill("exact").graph.nodes


@pytest.mark.parametrize("until", ["length", "all/upper", "ingest"])
@pytest.mark.slow
def test_until_stops_after_a_step_and_its_work_is_reused(project, until):
    """The whole run does not repeat what `--until` did."""
    part = project.run(until=until)
    done = sum(len(made.executed) for made in part.states.values())
    whole = project.run()
    again = {node_id: count for node_id, count in project.executed(whole).items() if not node_id.endswith("corpus")}
    assert done > 0
    assert "notes/ingest" not in again
    assert until.split("/")[-1] == "ingest" or "all/length" not in again


def test_a_partial_run_does_not_make_a_plan_forget(project, edit):
    """After `--until` the newest run knows nothing about the later steps: the run before it does."""
    project.run()
    edit(project.recipe, "chars: 12", "chars: 30")
    project.run(until="length")
    stages = plan_of(project)
    assert stages["all/longer_than"].why == ("config.chars: 12 -> 30",)
    assert stages["all/exact"].why == ("waits for all/longer_than",)


def test_a_step_waits_for_what_has_to_run_first_and_nothing_else(project, edit):
    """Not for the fifteen steps that wait themselves."""
    project.run()
    edit(project.recipe, "chars: 12", "chars: 30")
    waiting = {stage.id: stage.why for stage in plan_of(project).values() if stage.waiting}
    assert len(waiting) > 3
    assert {why for whys in waiting.values() for why in whys} == {"waits for all/longer_than"}


def test_only_the_difference_of_a_long_value_is_shown():
    """Elements of lists; for texts, the position where they begin to differ."""
    domains = [f"example{n}.com" for n in range(30)]
    assert describe_change(domains, [*domains[:-1], "mill.org"]) == "without example29.com and with mill.org"
    assert describe_change(domains, [*domains, "a.org", "b.org"]) == "with a.org, b.org"
    assert describe_change(domains, domains[4:]) == "without example0.com, example1.com, example2.com and 1 more"
    assert describe_change(domains, domains[::-1]) == "in another order"
    assert describe_change([1, 1], [1]) == "[1, 1] -> [1]"
    before, after = describe_change("x" * 100 + "old", "x" * 100 + "new").split(" -> ")
    assert (before, after) == ("...xxxxxxxxold", "...xxxxxxxxnew")
    assert describe_change(12, 30) == "12 -> 30"
    assert describe_change(None, 30) == "nothing -> 30"
