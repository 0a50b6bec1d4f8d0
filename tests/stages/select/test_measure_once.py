"""Measure once, decide many times: the real stages, through the engine and the commands."""

import json

import pytest

from gristmill.cli.look.rules import _counts
from gristmill.query.removal.whatif import what_if

pytestmark = pytest.mark.slow

STEPS = """
  - signals
  - heuristics:
      gopher_quality: {min_words: 5, min_stop_words: null}
      own: ["signals.words > 6 -> too_long"]
      count_by: [source]
"""


@pytest.fixture
def judged(project):
    project.write_recipe(STEPS)
    return project, project.run()


def test_another_threshold_measures_nothing_again(judged, edit):
    """The task records of the measurement stay the same; only the verdicts run again."""
    project, before = judged
    records = {path.name for path in project.store.glob("tasks/*.json")}
    edit(project.recipe, "min_words: 5", "min_words: 3")
    after = project.run()
    new = [
        json.loads(path.read_text())["body"] for path in project.store.glob("tasks/*.json") if path.name not in records
    ]
    assert {record["stage"] for record in new} == {"select.heuristics", "select.corpus"}
    assert project.parts(after)["all/signals"] == project.parts(before)["all/signals"]


def test_counts_of_rules_fit_the_verdicts(judged):
    """The documents that fail a rule first add up to what the step dropped; alone is part of first, first is part of
    all.
    """
    _, run = judged
    counts = list(_counts(run, None))
    dropped = run.states["all/heuristics"].metrics["dropped"]
    assert {entry["rule"]: entry["first"] for entry in counts if entry["first"]} == dropped
    assert all(entry["alone"] <= entry["first"] <= entry["all"] for entry in counts)
    assert {entry["rule"] for entry in counts} >= {"too_few_words", "too_long"}
    by_source = list(_counts(run, "source"))
    assert [(e["rule"], e["first"]) for e in by_source] == [(e["rule"], e["first"]) for e in counts]
    assert {entry["group"] for entry in by_source} == {"notes"}


@pytest.mark.slow
def test_whatif_equals_running_it(judged, edit):
    """The result for a threshold of a rule set is that of the changed recipe."""
    project, before = judged
    (answer,) = what_if(project.mill(), before, ["heuristics.gopher_quality.min_words=3"])
    edit(project.recipe, "min_words: 5", "min_words: 3")
    after = project.run()
    kept = [run.states["notes/corpus"].metrics["funnel"]["kept"]["rows"] for run in (before, after)]
    assert answer.corpus == kept[0]
    assert kept[0] + answer.come.documents - answer.go.documents == kept[1]
    assert answer.come.documents > 0
