"""plan --cluster: the time and space that a corpus needs on a cluster, from the rates of a finished run."""

import json
from dataclasses import replace
from types import SimpleNamespace

import pytest
from conftest import Project

from gristmill.query.sizing.sizing import COORDINATOR_S, FACTOR, TASK_S, last_measured, size_up, warnings
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
    """A run with fixed costs: 20 ms a task, and a second for each step."""
    result = last_measured(ran.mill())
    steps = [replace(step, cpu_s=1 + TASK_S * step.tasks) for step in result.steps]
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
        (["--tokens", "1T"], "--tokens only applies with --cluster"),
    ],
)
def test_invalid_options_are_one_message(ran, say, options, message):
    """The exit code is 2, and nothing is printed on stdout."""
    result = say("plan", ran.recipe, *options)
    assert result.code == 2
    assert message in result.err
    assert result.out == ""


def test_the_estimate_for_the_same_corpus_equals_the_measurement(measured):
    """Every step has the same number of tasks, CPU time and stored bytes."""
    estimate = size_up(measured, measured.tokens, 1)
    assert estimate.growth == 1
    for step in measured.steps:
        assert by_name(estimate)[step.name].tasks == step.tasks
        assert by_name(estimate)[step.name].cpu_s == pytest.approx(step.cpu_s)
        assert by_name(estimate)[step.name].stored_bytes == step.stored_bytes
    assert estimate.wall_s == pytest.approx(estimate.cpu_s)


def test_bytes_and_tasks_grow_and_models_do_not(measured):
    """Ten times the tokens: the rate counts ten times, the fixed cost for each new task, a fit once."""
    before, after = by_name(size_up(measured, measured.tokens, 16)), size_up(measured, 10 * measured.tokens, 16)
    assert {step.kind for step in after.steps} >= {"read", "map", "exchange", "asset", "sink"}
    for step in after.steps:
        times = 1 if step.kind in ("fit", "asset") else 10
        assert step.tasks == times * before[step.name].tasks
        assert step.cpu_s == pytest.approx(times * before[step.name].cpu_s)


def test_the_whole_of_a_sample_has_as_many_tasks(measured):
    """A sample reads some records of all files, so the whole has larger tasks, and not more of them."""
    sample = replace(measured, share=0.01)
    whole, more = size_up(sample, 100 * measured.tokens, 1), size_up(sample, 300 * measured.tokens, 1)
    assert whole.tasks == measured.tasks
    assert by_name(more)["tales/ingest"].tasks == 3 * by_name(whole)["tales/ingest"].tasks


def test_more_workers_shorten_what_they_share(measured):
    """Nobody can share a model or an asset, and the coordinator hands out one task after the other."""
    alone = sum(step.cpu_s for step in measured.steps if step.kind in ("fit", "asset"))
    one, four = (size_up(measured, measured.tokens, workers) for workers in (1, 4))
    assert four.wall_s == pytest.approx(alone + (one.cpu_s - alone) / 4)
    many = size_up(measured, 1e6 * measured.tokens, 10**9)
    assert many.wall_s == pytest.approx(COORDINATOR_S * many.tasks)


def test_a_small_run_is_a_poor_measurement(measured):
    assert any("Measure a larger sample" in warning for warning in warnings(measured))
    large = replace(measured, steps=[replace(step, tasks=100) for step in measured.steps])
    assert not list(warnings(large))


def test_a_sample_scales_to_all_inputs(corpus, say):
    """The newest finished run counts. A sample's smaller mixture is not reported as a change of settings."""
    assert say("run", corpus.project.recipe, "--sample", "50%").code == 0
    plan = json.loads(say("plan", corpus.project.recipe, "--cluster", "2x8", "--json").out)
    assert plan["measured"]["run"].endswith("-sample-50pct")
    assert plan["growth"] == pytest.approx(2.0)
    assert not any("had other settings" in fault for fault in plan["warnings"])


def test_settings_changed_since_the_run_give_a_warning(copied, say, edit):
    """The warning names the step."""
    edit(copied.recipe, "seq_len_tokens: 256", "seq_len_tokens: 128")
    found = json.loads(say("plan", copied.recipe, "--cluster", "1x2", "--json").out)
    assert any("all/shards" in fault and "had other settings" in fault for fault in found["warnings"])


def test_the_command_shows_ranges_and_json_has_the_numbers(ran, say):
    shown = " ".join(say("plan", ran.recipe, "--cluster", "2x2", "--tokens", "1M").out.split())
    assert f"divided and multiplied by {FACTOR:g}" in shown
    found = json.loads(say("plan", ran.recipe, "--cluster", "2x2", "--tokens", "1M", "--json").out)
    assert found["tokens"] == 1_000_000
    assert found["cpu_hours"] > 0
    assert found["wall_hours"] >= found["cpu_hours"] / 4
    assert sum(step["tasks"] for step in found["steps"]) == found["tasks"]
