"""`status` names tasks that took far longer than the median of their kind, with their input size and hot key."""

import json

from gristmill.cli.run.status import skew_line
from gristmill.engine.schedule import pace


def test_a_line_has_the_task_its_bytes_and_its_hot_key():
    """The hot key is left out when there is none."""
    slowest = {"verb": "reduce", "tasks": 64, "median_s": 3.0, "label": "round 1 keys 0400-04ff", "wall_s": 36.0}
    result = skew_line("all/near_dedup", {**slowest, "bytes": 41_000_000, "hot_key": ["00ff", 120_000]})
    assert result == (
        "Skewed: all/near_dedup, round 1 keys 0400-04ff took 36.0 s, 12 times the median of its 64 reduce tasks, "
        "and read 41.0 MB; one key, 00ff, has 120,000 records."
    )
    assert skew_line("a", {**slowest, "bytes": 5}).endswith("and read 5 B.")


def test_status_names_skewed_steps_and_no_others(project, say, monkeypatch):
    """This holds for the recipe and for the store alone, in text and in JSON."""
    project.write_inputs(records=200)  # enough parts for a meaningful median
    project.run()
    name = f"{project.store}@project"
    assert "Skewed" not in say("status", project.recipe).out
    monkeypatch.setattr(pace, "SKEWED", 1.0)
    monkeypatch.setattr(pace, "SKEWED_S", 0.0)
    for target in (project.recipe, name):
        shown = " ".join(say("status", target).out.split())
        assert "Skewed: all/length, notes part" in shown
        stages = {stage["stage"]: stage for stage in json.loads(say("status", target, "--json").out)["stages"]}
        (skewed,) = stages["all/length"]["skewed"]
        assert skewed["verb"] == "map"
        assert skewed["tasks"] >= pace.SKEWED_TASKS
