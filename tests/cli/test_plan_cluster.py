"""plan --cluster: the time, memory and money that a corpus needs on a cluster, from the rates of a finished run."""

import json
from dataclasses import replace
from types import SimpleNamespace

import pytest
from conftest import Project

from gristmill.query.sizing.limits import faults
from gristmill.query.sizing.sizing import FACTOR, FILLED, TASK_S, Machines, last_measured, size_up
from sharded import Corpus


def small_corpus(project):
    """Return a corpus with two sources in several parts and steps of each kind."""
    corpus_project = Corpus(project)
    corpus_project.recipe("", more=", part_bytes: 8KB")
    recipe = corpus_project.project.recipe
    recipe.write_text(recipe.read_text().replace("steps: []", "steps: [exact_dedup]"))
    return corpus_project


@pytest.fixture
def corpus(project):
    return small_corpus(project)


@pytest.fixture(scope="module")
def ran(tmp_path_factory):
    """The same corpus after a run, for tests that only read it."""
    corpus_project = small_corpus(Project(tmp_path_factory.mktemp("ran")))
    corpus_project.project.run()
    return corpus_project.project


@pytest.fixture
def copied(ran, copy_of):
    """A copy of that project, which a test may change."""
    return copy_of(SimpleNamespace(project=ran))


@pytest.fixture(scope="module")
def measured(ran):
    """A run with fixed costs: 20 ms a task, and a second and 3e8 bytes of memory for each step."""
    result = last_measured(ran.mill())
    steps = [replace(step, cpu_s=1 + TASK_S * step.tasks, wall_s=2.0, memory_bytes=3e8) for step in result.steps]
    return replace(result, steps=steps)


def by_name(estimate):
    return {step.name: step for step in estimate.steps}


def test_without_a_finished_run_the_message_has_the_command(corpus, say):
    """The exit code is 2."""
    result = say("plan", corpus.project.recipe, "--cluster", "10x4", "--tokens", "1B")
    assert result.code == 2
    assert "has no finished run of" in result.err
    assert f"gristmill run {corpus.project.recipe} --sample 1%" in result.err


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--cluster", "16"], "--cluster 16 does not give nodes and cores"),
        (["--cluster", "0x16"], "--cluster 0x16 does not give nodes and cores"),
        (["--cluster", "2x2", "--tokens", "many"], "--tokens: nothing can be planned, because 'many' is not a count"),
        (["--cluster", "2x2", "--tokens", "0"], "--tokens 0 is not above 0"),
        (["--cluster", "2x2", "--node-memory", "64 quarts"], "--node-memory: nothing can be planned, because"),
        (["--tokens", "1T"], "--tokens only applies with --cluster"),
        (["--node-memory", "1GB"], "--node-memory only applies with --cluster"),
    ],
)
def test_invalid_options_are_one_message(ran, say, options, message):
    """The exit code is 2, and nothing is printed on stdout."""
    result = say("plan", ran.recipe, *options)
    assert result.code == 2
    assert message in result.err
    assert result.out == ""


def test_the_estimate_for_the_same_corpus_equals_the_measurement(measured):
    """Every step has the same number of tasks and the same CPU time."""
    estimate = size_up(measured, measured.tokens, Machines(1, 1))
    assert estimate.growth == 1
    for step in measured.steps:
        assert by_name(estimate)[step.name].tasks == step.tasks
        assert by_name(estimate)[step.name].cpu_s == pytest.approx(step.cpu_s)


def test_bytes_and_tasks_grow_and_models_do_not(measured):
    """Ten times the tokens: the rate counts ten times, the fixed cost for each new task, a fit once."""
    full = replace(measured, full_parts=dict(measured.parts))
    before, after = by_name(size_up(full, full.tokens, Machines(4, 4))), size_up(full, 10 * full.tokens, Machines(4, 4))
    assert {step.kind for step in after.steps} >= {"read", "map", "exchange", "asset", "sink"}
    for step in after.steps:
        times = 1 if step.kind in ("fit", "asset") else 10
        assert step.tasks == times * before[step.name].tasks
        assert step.cpu_s == pytest.approx(times * before[step.name].cpu_s)
    assert after.stored_bytes > 3 * sum(step.stored_bytes for step in measured.steps)


def test_small_parts_are_filled_before_parts_are_added(measured):
    """A sample in one small part does not grow to millions of small parts."""
    sparse = replace(measured, full_parts=dict.fromkeys(measured.parts, 0.001))
    more = size_up(sparse, 1e6 * measured.tokens, Machines(1, 1))
    readers = [step for step in more.steps if step.kind == "read"]
    assert sum(step.tasks for step in readers) == 1000 * len(readers)
    assert [step.tasks for step in size_up(sparse, measured.tokens, Machines(1, 1)).steps] == [
        step.tasks for step in measured.steps
    ]


def test_full_parts_follow_from_the_content(ran):
    """The rule of the engine: files are grouped until part_bytes, which they fill to about two thirds."""
    found, recipe = last_measured(ran.mill()), ran.mill().recipe
    for source in recipe.sources.values():
        assert 0 < found.full_parts[source.name] * FILLED * source.part_bytes < 1e6


def test_workers_that_do_not_fit_in_memory_do_not_count(measured):
    """A node with memory for two of its four workers takes longer, and a warning says so."""
    free, short = Machines(2, 4), Machines(2, 4, 7e8)
    slower, faster = size_up(measured, measured.tokens, short), size_up(measured, measured.tokens, free)
    assert slower.wall_s > faster.wall_s
    assert any("only 2 can run at the same time" in fault for fault in faults(slower, short, None, measured))


@pytest.mark.parametrize(
    ("growth", "cluster", "free", "words"),
    [
        (1, Machines(1, 1), None, "Measure a larger sample"),
        (1e6, Machines(1, 1), None, "Measure a larger sample"),
        (10, Machines(1, 1), 10, "Disk: the store grows to"),
        (1e4, Machines(1001, 1), None, "Slurm: an array of 1,001 jobs"),
        (1e5, Machines(900_000, 1000), None, "Coordinator: it needs about"),
        (1e5, Machines(1000, 1000), None, "Object store: about"),
    ],
)
def test_what_would_fail_is_named(measured, growth, cluster, free, words):
    steps = [replace(step, longest_s=0.0) for step in measured.steps]
    run = replace(measured, steps=steps, full_parts=dict.fromkeys(measured.parts, 1000000000.0))
    found = list(faults(size_up(run, growth * run.tokens, cluster), cluster, free, run))
    assert any(words in fault for fault in found), found


def test_a_sample_scales_to_all_inputs(corpus, say):
    """The newest finished run counts. A sample's smaller mixture is not reported as a change of settings."""
    assert say("run", corpus.project.recipe, "--sample", "50%").code == 0
    plan = json.loads(say("plan", corpus.project.recipe, "--cluster", "2x8", "--json").out)
    assert plan["measured"]["run"].endswith("-sample-50pct")
    assert plan["growth"] == pytest.approx(2.0)
    assert not any("had other settings" in fault for fault in plan["faults"])


def test_settings_changed_since_the_run_give_a_warning(copied, say, edit):
    """The warning names the step."""
    edit(copied.recipe, "seq_len_tokens: 256", "seq_len_tokens: 128")
    found = json.loads(say("plan", copied.recipe, "--cluster", "1x2", "--json").out)
    assert any("all/shards" in fault and "had other settings" in fault for fault in found["faults"])


def test_the_command_shows_ranges_and_json_has_the_numbers(ran, say):
    shown = " ".join(say("plan", ran.recipe, "--cluster", "2x2", "--tokens", "1M").out.split())
    assert f"divided and multiplied by {FACTOR:g}" in shown
    found = json.loads(say("plan", ran.recipe, "--cluster", "2x2", "--tokens", "1M", "--json").out)
    assert found["tokens"] == 1_000_000
    assert found["cpu_hours"] > 0
    assert found["wall_hours"] >= found["cpu_hours"] / 4
    assert sum(step["tasks"] for step in found["steps"]) == found["tasks"]
