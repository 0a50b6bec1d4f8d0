"""plan --cluster: what a corpus takes on a cluster, from the rates of a finished run, and what would break."""

import json
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from conftest import Project
from gristmill.query.removal.funnel import funnels
from gristmill.query.sizing import sizing
from gristmill.query.sizing.limits import Prices, bill, busy_share, faults
from gristmill.query.sizing.measured import last_measured
from gristmill.query.sizing.sizing import Machines, size_up
from sharded import Corpus


def small(project):
    """Two sources in some parts, a step of each kind."""
    made = Corpus(project)
    made.recipe("", more=", part_bytes: 8KB")
    recipe = made.project.recipe
    recipe.write_text(recipe.read_text().replace("steps: []", "steps: [exact_dedup]"))
    return made


@pytest.fixture
def corpus(project):
    return small(project)


@pytest.fixture(scope="module")
def ran(tmp_path_factory):
    """The same after a run, for tests that only read it."""
    made = small(Project(tmp_path_factory.mktemp("ran")))
    made.project.run()
    return made.project


@pytest.fixture
def copied(ran, copy_of):
    """A copy of it, which a test may change."""
    return copy_of(SimpleNamespace(project=ran))


@pytest.fixture(scope="module")
def measured(ran):
    """A run, with times and memory that are the same on every machine: 10 ms a task and 1 MB/s."""
    found = last_measured(ran.mill())
    return replace(found, kinds=[with_fixed_cost(kind) for kind in found.kinds])


def with_fixed_cost(kind):
    cpu_s = 0.01 + kind.sizes / 1e6
    is_first = np.zeros(len(cpu_s), bool)
    peak_bytes = np.full(len(cpu_s), 3e8)
    return replace(
        kind, cpu_s=cpu_s, wall_s=1.1 * cpu_s, write_cpu_s=cpu_s / 10, is_first=is_first, peak_bytes=peak_bytes
    )


def totals(found):
    return {(line.step, line.verb): line for line in found.lines}


def test_without_a_finished_run_it_says_how_to_make_one(corpus, say):
    """One message."""
    result = say("plan", corpus.project.recipe, "--cluster", "10x4", "--tokens", "1B")
    assert result.code == 2
    assert "has no finished run of" in result.err
    assert f"gristmill run {corpus.project.recipe} --sample 1%" in result.err


@pytest.mark.parametrize(
    ("given", "wanted"),
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
def test_what_cannot_be_meant_is_one_message(ran, say, given, wanted):
    result = say("plan", ran.recipe, *given)
    assert result.code == 2
    assert wanted in result.err
    assert result.out == ""


def test_the_same_corpus_again_takes_what_it_took(measured):
    """Of every kind of task as many tasks, and together the seconds that were measured."""
    found = size_up(measured, measured.tokens, Machines(1, 1))
    assert found.growth == 1
    kinds = {(kind.node.id, kind.verb): kind for kind in measured.kinds}
    assert set(totals(found)) == set(kinds)
    for at, line in totals(found).items():
        assert line.tasks == kinds[at].tasks, at
    seconds = sum(kind.cpu_s.sum() for kind in measured.kinds)
    assert found.cpu_s[1] == pytest.approx(seconds, rel=0.5)  # one worker loads once what several may have loaded
    low, middle, high = found.cpu_s
    assert low <= middle <= high


def test_what_there_is_for_each_part_grows_with_the_corpus_and_a_tokenizer_does_not(measured):
    """Ten times the tokens are ten times the parts; files that are taken in once are taken in once."""
    one, ten = (totals(size_up(measured, factor * measured.tokens, Machines(4, 4))) for factor in (1, 10))
    for (step, verb), line in ten.items():
        if verb in ("read", "map", "emit", "collect"):
            assert line.tasks == 10 * one[step, verb].tasks, (step, verb)
        if verb == "asset":
            assert line.tasks == one[step, verb].tasks
    assert size_up(measured, 10 * measured.tokens, Machines(4, 4)).stored_bytes > 3 * sum(
        measured.stored_bytes.values()
    )


def test_a_part_that_had_little_to_read_is_filled_before_there_are_more(measured):
    """A sample in one small part does not make millions of them."""
    few = replace(measured, part_bytes=dict.fromkeys(measured.parts, 1 << 26))
    same = totals(size_up(few, measured.tokens, Machines(1, 1)))
    more = totals(size_up(few, 1e6 * measured.tokens, Machines(1, 1)))
    readers = [line for line in more.values() if line.verb == "read"]
    content = sum(measured.content_bytes.values())
    assert sum(line.tasks for line in readers) == pytest.approx(1e6 * content / (sizing.FILLED * (1 << 26)), rel=0.01)
    assert {at: line.tasks for at, line in same.items()} == {
        at: line.tasks for at, line in totals(size_up(measured, measured.tokens, Machines(1, 1))).items()
    }


def test_rates_are_found_again_where_tasks_differ_in_size(measured):
    """Against a truth that is made up: so much for a task, so much for a byte, so much for what a worker loads."""
    (kind,) = (one for one in measured.kinds if one.verb == "map" and one.node.name == "tokens" and len(one.sizes) > 1)
    sizes = np.linspace(1e6, 9e6, 40)
    first = np.arange(40) < 2
    cpu = 0.2 + sizes * 3e-7 + first * 5.0
    flat = np.zeros(40)
    made_up = replace(
        kind,
        tasks=40,
        bytes=float(sizes.sum()),
        labels=tuple(f"part {n}" for n in range(40)),
        sizes=sizes,
        pieces=flat,
        cpu_s=cpu,
        wall_s=cpu,
        write_cpu_s=flat,
        is_first=first,
        peak_bytes=flat + 3e8,
        gets=flat + np.nan,
        puts=flat + np.nan,
    )
    readers = [one for one in measured.kinds if one.verb == "read"]
    found = size_up(replace(measured, kinds=[*readers, made_up]), 50 * measured.tokens, Machines(3, 1))
    line = totals(found)[kind.node.id, "map"]
    assert line.cpu_s == pytest.approx(0.2 * line.tasks + 3e-7 * 50 * sizes.sum() + 5.0 * 3, rel=0.01)


def test_the_tokens_are_counted_or_estimated_and_it_says_which(corpus, measured):
    assert measured.tokens_by == "tokens counted by the recipe's tokenizer"
    recipe = corpus.project.recipe
    text = recipe.read_text()
    recipe.write_text(text[: text.index("tokenizer:")])
    corpus.project.run()
    result = last_measured(corpus.project.mill())
    assert result.tokens_by.startswith("estimated: 4.2 bytes of kept text per token")
    kept = sum(funnel["kept"]["text_bytes"] for funnel in funnels(corpus.project.dry_run()).values())
    assert result.tokens == pytest.approx(kept / 4.2)


def test_a_sample_is_a_share_of_the_whole(corpus, say):
    """The newest finished run counts, and all inputs are planned for unless tokens are given. That the mixture of a
    sample draws fewer tokens is no change of settings.
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


def test_people_see_the_same(ran, say):
    """Steps, totals with their ranges, where the rates are from, and the warnings."""
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


def test_settings_that_changed_since_are_told(copied, say, edit):
    edit(copied.recipe, "seq_len_tokens: 256", "seq_len_tokens: 128")
    result = say("plan", copied.recipe, "--cluster", "1x2", "--json")
    assert any("all/shards" in fault and "had other settings" in fault for fault in json.loads(result.out)["faults"])


def test_a_longer_wall_is_never_from_more_machines_and_money_is_theirs(measured):
    """And one long task holds up the largest cluster."""
    few, many = (size_up(measured, 1e9, Machines(nodes, 16)) for nodes in (1, 1000))
    assert many.wall_s[1] < few.wall_s[1]
    assert many.wall_s[1] > max(line.longest_s for line in many.lines)
    assert busy_share(many, Machines(1000, 16)) < busy_share(few, Machines(1, 16)) <= 1
    prices = Prices(core_hour=2.0, million_gets=0.0, million_puts=3.0, tb_month=0.0)
    cost = bill(few, Machines(1, 16), prices)
    assert cost.compute == pytest.approx(few.wall_s[1] / 3600 * 16 * 2.0)
    assert cost.requests == pytest.approx(few.puts / 1e6 * 3.0)
    assert cost.store_month == 0


def test_each_fault_is_told_where_it_is_one_and_not_elsewhere(measured):
    small = size_up(measured, measured.tokens, Machines(1, 2, 64e9))
    plain = list(faults(small, Machines(1, 2, 64e9), 10**15, 500))
    assert [fault for fault in plain if not fault.startswith("Workers")] == []
    large = replace(
        size_up(measured, 1e6 * measured.tokens, Machines(2000, 16, 1e9)), coordinator_bytes=9e9, growth=1e6
    )
    result = list(faults(large, Machines(2000, 16, 1e9), 10**6, 500))
    for start in (
        "Memory: a worker in",
        "Disk: the store",
        "Coordinator: it needs about",
        "Slurm: an array of 2,000 jobs",
    ):
        assert any(fault.startswith(start) for fault in result), start
    assert any("Measure a larger sample before you rely on this" in fault for fault in result)


def test_nodes_with_little_memory_take_longer_with_fewer_at_work(measured):
    plenty, little = (size_up(measured, 1000 * measured.tokens, Machines(2, 16, memory)) for memory in (1e12, 2e9))
    assert little.wall_s[1] > 2 * plenty.wall_s[1]
    assert little.cpu_s == plenty.cpu_s
    none = Machines(2, 16, 1e6)
    result = list(faults(size_up(measured, measured.tokens, none), none, None, 500))
    assert "not even one of them can run" in result[0]


def test_a_coordinator_that_holds_workers_up_is_told_with_how_much_they_do(measured):
    many = size_up(measured, 1e6 * measured.tokens, Machines(4000, 64))
    (result,) = (one for one in faults(many, Machines(4000, 64), None, 500) if "to schedule" in one)
    assert "A smaller cluster costs less" in result
    assert "0.0 hours" not in result


def test_a_source_without_records_is_one_message(copied, say):
    """As where records of two stages were exchanged."""
    store = copied.mill().store
    for name, _ in list(store.list_files("tasks")):
        record = store.read_json(name)
        if "verb" not in record["inputs"] and "input_bytes" in record["cost"]:
            del record["cost"]["input_bytes"]
            store.write_json(name, record)
    result = say("plan", copied.recipe, "--cluster", "2x8")
    assert result.code == 2
    assert "did not record the cost of its tasks" in result.err


def test_requests_are_those_that_were_counted_where_they_were(measured):
    """Otherwise they are found by what tasks of each kind read and write."""
    assert not size_up(measured, measured.tokens, Machines(1, 1)).requests_counted
    counted = [replace(kind, gets=kind.gets * 0 + 7, puts=kind.gets * 0 + 3) for kind in measured.kinds]
    counted = [
        replace(kind, gets=np.full(len(kind.sizes), 7.0), puts=np.full(len(kind.sizes), 3.0)) for kind in counted
    ]
    found = size_up(replace(measured, kinds=counted), measured.tokens, Machines(1, 1))
    assert found.requests_counted
    assert found.gets == found.tasks * (7 + sizing.LOOKED_UP["gets"])
    assert found.puts == found.tasks * (3 + sizing.LOOKED_UP["puts"])


def test_a_run_that_compiled_is_a_measure_too(copied):
    """Who waits for another that compiles has spent less on the CPU than the clock says of compiling."""
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
