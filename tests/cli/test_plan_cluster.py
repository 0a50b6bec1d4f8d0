"""plan --cluster: the time, memory and money that a corpus needs on a cluster, from the rates of a finished run."""

import json
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from conftest import Project

from gristmill.objects.requests import PRICES
from gristmill.query.removal.funnel import funnels
from gristmill.query.sizing import sizing
from gristmill.query.sizing.limits import Prices, bill, busy_share, faults
from gristmill.query.sizing.measured import last_measured
from gristmill.query.sizing.sizing import Machines, size_up
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
    """A run with fixed times and memory: 10 ms per task and 1 MB/s."""
    result = last_measured(ran.mill())
    return replace(result, kinds=[with_fixed_cost(kind) for kind in result.kinds])


def with_fixed_cost(kind):
    cpu_s = 0.01 + kind.sizes / 1e6
    is_first = np.zeros(len(cpu_s), bool)
    peak_bytes = np.full(len(cpu_s), 3e8)
    return replace(
        kind, cpu_s=cpu_s, wall_s=1.1 * cpu_s, write_cpu_s=cpu_s / 10, is_first=is_first, peak_bytes=peak_bytes
    )


def lines_by_step(estimate):
    return {(line.step, line.verb): line for line in estimate.lines}


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
        (["--cluster", "2x2", "--core-hour-usd", "inf"], "A price is above 1,000,000,000 USD"),
        (["--node-memory", "1GB"], "--node-memory only applies with --cluster"),
        (["--core-hour-usd", "1"], "A price only applies with --cluster"),
    ],
)
def test_invalid_options_are_one_message(ran, say, options, message):
    """The exit code is 2, and nothing is printed on stdout."""
    result = say("plan", ran.recipe, *options)
    assert result.code == 2
    assert message in result.err
    assert result.out == ""


def test_the_estimate_for_the_same_corpus_equals_the_measurement(measured):
    """Each kind has the same number of tasks, and the total CPU time is close to the measured one."""
    estimate = size_up(measured, measured.tokens, Machines(1, 1))
    assert estimate.growth == 1
    kinds = {(kind.node.id, kind.verb): kind for kind in measured.kinds}
    assert set(lines_by_step(estimate)) == set(kinds)
    for step, line in lines_by_step(estimate).items():
        assert line.tasks == kinds[step].tasks, step
    seconds = sum(kind.cpu_s.sum() for kind in measured.kinds)
    assert estimate.cpu_s[1] == pytest.approx(
        seconds, rel=0.5
    )  # one worker loads a model once, several may have loaded it each
    low, middle, high = estimate.cpu_s
    assert low <= middle <= high


def test_tasks_per_part_grow_with_the_corpus_and_assets_do_not(measured):
    """Ten times the tokens mean ten times the parts; asset files are stored once."""
    one, ten = (lines_by_step(size_up(measured, factor * measured.tokens, Machines(4, 4))) for factor in (1, 10))
    for (step, verb), line in ten.items():
        if verb in ("read", "map", "emit", "collect"):
            assert line.tasks == 10 * one[step, verb].tasks, (step, verb)
        if verb == "asset":
            assert line.tasks == one[step, verb].tasks
    assert size_up(measured, 10 * measured.tokens, Machines(4, 4)).stored_bytes > 3 * sum(
        measured.stored_bytes.values()
    )


def test_small_parts_are_filled_before_parts_are_added(measured):
    """A sample in one small part does not scale to millions of small parts."""
    sparse = replace(measured, part_bytes=dict.fromkeys(measured.parts, 1 << 26))
    same = lines_by_step(size_up(sparse, measured.tokens, Machines(1, 1)))
    more = lines_by_step(size_up(sparse, 1e6 * measured.tokens, Machines(1, 1)))
    readers = [line for line in more.values() if line.verb == "read"]
    content = sum(measured.content_bytes.values())
    assert sum(line.tasks for line in readers) == pytest.approx(1e6 * content / (sizing.FILLED * (1 << 26)), rel=0.01)
    assert {step: line.tasks for step, line in same.items()} == {
        step: line.tasks for step, line in lines_by_step(size_up(measured, measured.tokens, Machines(1, 1))).items()
    }


def test_rates_are_recovered_from_tasks_of_different_sizes(measured):
    """The synthetic cost has a term per task, per byte and per worker start."""
    (kind,) = (
        other_kind
        for other_kind in measured.kinds
        if other_kind.verb == "map" and other_kind.node.name == "tokens" and len(other_kind.sizes) > 1
    )
    sizes = np.linspace(1e6, 9e6, 40)
    first = np.arange(40) < 2
    cpu = 0.2 + sizes * 3e-7 + first * 5.0
    zeros = np.zeros(40)
    synthetic = replace(
        kind,
        tasks=40,
        bytes=float(sizes.sum()),
        labels=tuple(f"part {n}" for n in range(40)),
        sizes=sizes,
        pieces=zeros,
        cpu_s=cpu,
        wall_s=cpu,
        write_cpu_s=zeros,
        is_first=first,
        peak_bytes=zeros + 3e8,
        gets=zeros + np.nan,
        puts=zeros + np.nan,
    )
    readers = [other_kind for other_kind in measured.kinds if other_kind.verb == "read"]
    estimate = size_up(replace(measured, kinds=[*readers, synthetic]), 50 * measured.tokens, Machines(3, 1))
    line = lines_by_step(estimate)[kind.node.id, "map"]
    assert line.cpu_s == pytest.approx(0.2 * line.tasks + 3e-7 * 50 * sizes.sum() + 5.0 * 3, rel=0.01)


def test_the_source_of_the_token_count_is_stated(corpus, measured):
    """Tokens are counted with the recipe's tokenizer, or estimated from bytes."""
    assert measured.tokens_by == "tokens counted by the recipe's tokenizer"
    recipe = corpus.project.recipe
    text = recipe.read_text()
    recipe.write_text(text[: text.index("tokenizer:")])
    corpus.project.run()
    result = last_measured(corpus.project.mill())
    assert result.tokens_by.startswith("estimated: 4.2 bytes of kept text per token")
    kept = sum(funnel["kept"]["text_bytes"] for funnel in funnels(corpus.project.dry_run()).values())
    assert result.tokens == pytest.approx(kept / 4.2)


def test_a_sample_scales_to_all_inputs(corpus, say):
    """The newest finished run counts, and all inputs are planned for unless tokens are given. A sample's smaller
    mixture is not reported as a change of settings.
    """
    assert say("run", corpus.project.recipe, "--sample", "50%").code == 0
    result = say("plan", corpus.project.recipe, "--cluster", "2x8", "--json")
    assert result.code == 0, result.err
    plan = json.loads(result.out)
    assert plan["measured"]["run"].endswith("-sample-50pct")
    assert plan["growth"] == pytest.approx(2.0)
    assert plan["tokens"] == pytest.approx(2 * plan["measured"]["tokens"], abs=1)
    assert not any("had other settings" in fault for fault in plan["faults"])
    assert plan["cpu_hours"]["low"] <= plan["cpu_hours"]["middle"] <= plan["cpu_hours"]["high"]
    assert {"usd", "requests", "worker_memory_bytes", "stored_bytes", "wall_hours", "steps"} <= set(plan)


def test_the_text_output_has_every_section(ran, say):
    """It shows steps, totals with ranges, the source of the rates, and the warnings; first, whether to rely on it."""
    result = say("plan", ran.recipe, "--cluster", "2000x16", "--tokens", "10B", "--node-memory", "2GB")
    assert result.code == 0, result.err
    for part in (
        "CPU time",
        "wall time",
        "10.0B tokens on 2,000 x 16",
        "WARNING: Memory: a worker in",
        "Slurm: an array",
    ):
        assert part in result.out
    assert "times that. Ranges only cover the sample" in " ".join(result.out.split())
    assert result.out.startswith("WARNING: The measured run had")
    assert result.out.count("The measured run had") == 1


def test_settings_changed_since_the_run_give_a_warning(copied, say, edit):
    """The warning names the step."""
    edit(copied.recipe, "seq_len_tokens: 256", "seq_len_tokens: 128")
    result = say("plan", copied.recipe, "--cluster", "1x2", "--json")
    assert any("all/shards" in fault and "had other settings" in fault for fault in json.loads(result.out)["faults"])


def test_more_machines_are_faster_and_cost_is_machines_times_wall_time(measured, monkeypatch):
    """One long task is a lower bound on any cluster."""
    few, many = (size_up(measured, 1e9, Machines(nodes, 16)) for nodes in (1, 1000))
    assert many.wall_s[1] < few.wall_s[1]
    assert many.wall_s[1] > max(line.longest_s for line in many.lines)
    assert busy_share(many, Machines(1000, 16)) < busy_share(few, Machines(1, 16)) <= 1
    monkeypatch.setenv(PRICES, "0.003,0")
    prices = Prices(core_hour=2.0, tb_month=0.0)
    cost = bill(few, Machines(1, 16), prices)
    assert cost.compute == pytest.approx(few.wall_s[1] / 3600 * 16 * 2.0)
    assert cost.requests == pytest.approx(few.puts / 1e6 * 3.0)
    assert cost.store_month == 0


def test_each_warning_appears_only_where_it_applies(measured):
    """A small cluster has none of them; a large one has all of them."""
    small_estimate = size_up(measured, measured.tokens, Machines(1, 2, 64e9))
    small_warnings = list(faults(small_estimate, Machines(1, 2, 64e9), 10**15, 500))
    assert [fault for fault in small_warnings if not fault.startswith("Workers")] == []
    large_estimate = replace(
        size_up(measured, 1e6 * measured.tokens, Machines(2000, 16, 1e9)), coordinator_bytes=9e9, growth=1e6
    )
    warnings = list(faults(large_estimate, Machines(2000, 16, 1e9), 10**6, 500))
    for start in (
        "Memory: a worker in",
        "Disk: the store",
        "Coordinator: it needs about",
        "Slurm: an array of 2,000 jobs",
    ):
        assert any(fault.startswith(start) for fault in warnings), start
    assert any("Measure a larger sample before you rely on this" in fault for fault in warnings)


def test_nodes_with_little_memory_run_fewer_workers(measured):
    """The wall time grows, and the CPU time does not."""
    plenty, little = (size_up(measured, 1000 * measured.tokens, Machines(2, 16, memory)) for memory in (1e12, 2e9))
    assert little.wall_s[1] > 2 * plenty.wall_s[1]
    assert little.cpu_s == plenty.cpu_s
    tiny = Machines(2, 16, 1e6)
    warnings = list(faults(size_up(measured, measured.tokens, tiny), tiny, None, 500))
    assert "not even one of them can run" in warnings[0]


def test_a_coordinator_bottleneck_gives_a_warning(measured):
    """The warning says that a smaller cluster costs less."""
    many = size_up(measured, 1e6 * measured.tokens, Machines(4000, 64))
    (result,) = (warning for warning in faults(many, Machines(4000, 64), None, 500) if "to schedule" in warning)
    assert "A smaller cluster costs less" in result
    assert "0.0 hours" not in result


def test_a_run_without_task_costs_is_one_message(copied, say):
    """The exit code is 2."""
    store = copied.mill().store
    for name, _ in list(store.list_files("tasks")):
        record = store.read_json(name)
        if "verb" not in record["inputs"] and "input_bytes" in record["cost"]:
            del record["cost"]["input_bytes"]
            store.write_json(name, record)
    result = say("plan", copied.recipe, "--cluster", "2x8")
    assert result.code == 2
    assert "did not record the cost of its tasks" in result.err


def test_requests_use_counts_when_the_run_counted_them(measured):
    """Otherwise they are estimated from what tasks of each kind read and write."""
    assert not size_up(measured, measured.tokens, Machines(1, 1)).requests_counted
    counted = [replace(kind, gets=kind.gets * 0 + 7, puts=kind.gets * 0 + 3) for kind in measured.kinds]
    counted = [
        replace(kind, gets=np.full(len(kind.sizes), 7.0), puts=np.full(len(kind.sizes), 3.0)) for kind in counted
    ]
    estimate = size_up(replace(measured, kinds=counted), measured.tokens, Machines(1, 1))
    assert estimate.requests_counted
    assert estimate.gets == estimate.tasks * (7 + sizing.LOOKED_UP["gets"])
    assert estimate.puts == estimate.tasks * (3 + sizing.LOOKED_UP["puts"])


def test_a_run_that_compiled_kernels_can_be_measured(copied):
    """A task that waits for another to compile spends less CPU time than its compile time."""
    store = copied.mill().store
    plain = last_measured(copied.mill())
    for name, _ in list(store.list_files("tasks")):
        record = store.read_json(name)
        if record["label"].endswith("0") and "input_bytes" in record["cost"]:
            record["cost"].update(compile_s=60.0, wall_s=62.0)
            store.write_json(name, record)
    compiled = last_measured(copied.mill())
    pairs = zip(compiled.kinds, plain.kinds, strict=True)
    assert any(kind.is_first.sum() > other.is_first.sum() for kind, other in pairs)
    for kind, line in zip(compiled.kinds, size_up(compiled, compiled.tokens, Machines(10, 4)).lines, strict=False):
        assert (kind.cpu_s >= 0).all()
        assert line.longest_s < 60, line
