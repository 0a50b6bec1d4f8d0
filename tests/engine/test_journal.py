"""The journal: other processes see how far a run is, and whether it is still alive."""

import json
import os
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gristmill.engine.executors.executor import InlineExecutor
from gristmill.engine.mill import Silent
from gristmill.engine.publish.garbage import alone, collect, find_garbage
from gristmill.engine.publish.journal import MOST_NOTES, MOST_REASONS, MOST_TASKS, Journal, read_journals
from gristmill.engine.publish.throughput import INTERVALS, Throughput
from gristmill.engine.schedule.node_state import NodeState
from gristmill.engine.work.task import Hash, Result, Task
from gristmill.errors import UserError
from gristmill.log import WARNING
from gristmill.processes import here
from gristmill.query.removal.funnel import funnels
from gristmill.query.versions.verify import verify
from gristmill.recipe.load import load
from gristmill.store import leases
from gristmill.store.leases import Lease, hold, is_alive
from gristmill.store.store import Store


def journals(project):
    return read_journals(Store(str(project.store)), "project")


def reasons_by_step(funnel):
    counted = {step: {reason: one["rows"] for reason, one in found.items()} for step, found in funnel["first"].items()}
    return {"read": funnel["read"]["rows"], "kept": funnel["kept"]["rows"], "first": counted}


def test_at_the_end_a_journal_has_the_counts_of_the_funnel(project):
    """Tasks, rows and drops are those of the run's own record."""
    run = project.run()
    [journal] = journals(project)
    record = journal.record
    assert (journal.state, record["version"]) == ("finished", run.ended["version"])
    assert record["funnel"] == {source: reasons_by_step(funnel) for source, funnel in funnels(run).items()}
    assert sum(map(len, (reasons_by_step(funnels(run)["notes"])["first"]).values())) >= 3
    for name, stage in record["stages"].items():
        state = run.states[name]
        assert (stage["done"], stage["tasks"], stage["cached"]) == (len(state.tasks), len(state.tasks), 0)
        assert (stage["running"], stage["more"], stage["rows"]) == (0, False, state.metrics.get("rows", 0))
    assert sum(tasks for _, _, tasks in record["throughput"]["counts"]) == sum(
        len(state.tasks) for state in run.states.values()
    )


def test_a_run_that_finds_everything_in_the_store_says_so(project):
    """Whole stages are counted as cached, with the rows that they had when they ran."""
    rows = {name: state.metrics.get("rows") for name, state in project.run().states.items()}
    project.run()
    [journal] = journals(project)
    for name, stage in journal.record["stages"].items():
        assert stage["cached"] == stage["done"] == stage["tasks"] > 0
        assert stage["rows"] == (rows[name] or 0)
    assert journal.record["throughput"]["counts"] == []


def test_a_run_that_an_error_stops_says_why(project):
    """The journal has the message; a run that is refused before it begins has no journal."""
    mill = project.mill()
    mill.executor = lambda *_: Failing(mill.store)
    with pytest.raises(UserError):
        mill.run(None, Silent())
    [journal] = journals(project)
    assert (journal.state, journal.record["error"]) == ("stopped", "The sack has a hole.")
    with pytest.raises(UserError):
        mill.run(None, Silent())
    assert len(journals(project)) == 1


class Failing(InlineExecutor):
    async def run(self, task):
        if task.node == "all/exact":
            raise UserError("The sack has a hole.")
        return await super().run(task)


def test_an_observer_that_fails_never_stops_a_run(project, caplog):
    """It is removed, with one warning."""
    received = []

    def observe(record):
        received.append(record["status"])
        raise OSError("no space left")

    mill = project.mill()
    mill.executor = lambda *_: InlineExecutor(mill.store)
    with caplog.at_level("WARNING", "gristmill"):
        assert mill.run(None, Silent(), observers=[observe]).ended["status"] == "finished"
    assert len(received) == 1
    assert [record.getMessage() for record in caplog.records].count(
        "the progress of this run is no longer reported: no space left. The run goes on."
    ) == 1


# A journal alone.


def lease(process=""):
    return Lease("ab" * 16, "run", "host", 7, process, "project")


def opened(project, *, nodes=()):
    """A journal of a run with some stages, which the test drives."""
    mill = project.mill()
    journal = Journal(Silent(), mill.store, mill.recipe)
    journal.open(lease())
    journal.begin([mill.graph.nodes[node] for node in nodes], {})

    class Run:
        slots = 2
        states = {node: NodeState() for node in nodes}  # noqa: RUF012
        ended = {}  # noqa: RUF012

    journal._run = Run
    return journal, {node: mill.graph.nodes[node] for node in nodes}, Run.states


def test_a_journal_shows_what_runs_and_what_waits(project):
    """A task runs from the moment when a worker gets it until its result is there."""
    journal, nodes, _ = opened(project, nodes=["all/length"])
    node = nodes["all/length"]
    first, second = (Task(f"key {n}", node.id, f"part {n}", Hash(())) for n in (1, 2))
    journal.expect(node, 5)
    journal.begun(first, "node7")
    journal.begun(second)
    assert [(one["task"], one["where"]) for one in journal.record()["running"]] == [("part 1", "node7"), ("part 2", "")]
    journal.done(node, first, Result(cost={"wall_s": 3.0}, metrics={"bytes_in": 10, "rows": 2}, where="node7"), False)
    record = journal.record()
    stage = record["stages"][node.id]
    assert (stage["tasks"], stage["done"], stage["running"], stage["more"]) == (5, 1, 1, True)
    assert record["slowest"] == [
        {"stage": node.id, "task": "part 1", "seconds": 3.0, "bytes": 10, "rows": 2, "where": "node7"}
    ]


def test_the_size_of_a_journal_does_not_depend_on_the_number_of_tasks(project):
    """Messages, tasks and reasons are limited, and so are their lengths."""
    journal, nodes, states = opened(project, nodes=["all/length"])
    node = nodes["all/length"]
    states[node.id].metrics["dropped"] = {f"reason_{n}": n for n in range(1000)}
    journal.expect(node, 600)
    for number in range(600):
        journal.note("x" * 100_000, WARNING)
        task = Task(str(number), node.id, "y" * 100_000, Hash(()))
        journal.begun(task)
        if number % 2:
            journal.done(node, task, Result(cost={"wall_s": float(number)}), False)
    record = journal.record()
    assert len(json.dumps(record)) < 300_000
    assert (len(record["notes"]), len(record["running"]), len(record["slowest"])) == (
        MOST_NOTES,
        MOST_TASKS,
        MOST_TASKS,
    )
    assert record["slowest"][0]["seconds"] == 599
    dropped = record["stages"][node.id]["dropped"]
    assert (len(dropped), sum(dropped.values())) == (MOST_REASONS + 1, sum(range(1000)))


def test_tasks_that_took_equally_long_are_both_kept(project):
    """They may belong to different stages."""
    journal, nodes, _ = opened(project, nodes=["all/length", "all/exact"])
    for node in nodes.values():
        journal.done(node, Task("key", node.id, "part", Hash(())), Result(cost={"wall_s": 1.0}), False)
    assert {one["stage"] for one in journal.record()["slowest"]} == set(nodes)


def test_a_journal_has_no_secrets_of_addresses(project):
    """Passwords and signatures stay out of messages, labels and locations."""
    project.write_recipe(pattern="memory://me:hunter2@host/in/*.jsonl?sig=hunter2")
    recipe = load(project.recipe)
    journal = Journal(Silent(), Store(str(project.store)), recipe)
    journal.open(lease())
    journal.note("s3://key:hunter2@bucket/a.gz?X-Amz-Signature=hunter2 cannot be read", WARNING)
    journal.begun(Task("key", "all/length", "https://me:hunter2@host/in/00.jsonl", Hash(())))
    text = json.dumps(journal.record())
    assert "hunter2" not in text
    assert "s3://bucket/a.gz cannot be read" in text


@given(st.lists(st.tuples(st.floats(0, 1e5), st.floats(0, 1e4), st.integers(0, 10**9)), max_size=30))
def test_throughput_counts_every_byte_once(tasks):
    """Whatever the times of tasks are, and however often intervals were joined."""
    found = Throughput(0.0)
    for now, seconds, size in sorted(tasks):
        found.add(now, seconds, size, 1)
    counts = found.as_record()["counts"]
    assert len(counts) <= INTERVALS
    assert sum(size for size, _, _ in counts) == pytest.approx(sum(size for *_, size in tasks), abs=INTERVALS)
    assert sum(ended for *_, ended in counts) == len(tasks)


# Whether a run lives.


def test_a_journal_outlives_its_run_until_the_next_one(project):
    """A run removes the journals of runs that ended or were killed, never that of a run that goes on."""
    project.run()
    [first] = journals(project)
    store = Store(str(project.store))
    with hold(store, "run", "project") as other:
        for name, lease_id in (("killed", "ab" * 16), ("running", other.id)):
            path = f"progress/project/{lease_id}.json"
            store.write_json(path, {**first.record, "status": "running", "run": lease_id, "recipe": name})
        assert [one.state for one in journals(project)].count("killed") == 1
        store.write_file(f"progress/project/{'cd' * 16}.json", b'{"record"')
        project.run()
        left = journals(project)
        assert [one.state for one in left] == ["running", "finished"]
        assert left[0].record["run"] == other.id
        assert left[1].record["run"] != first.record["run"]
        assert len(list(store.list_files("progress"))) == 2


def test_verify_names_a_damaged_journal(project):
    """A journal is a record like others, although nothing depends on it; the next run removes it."""
    project.run()
    [journal] = journals(project)
    path = project.store / journal.path
    path.write_bytes(path.read_bytes()[:-20])
    mill = project.mill()
    assert list(verify(mill.dry_run(), 0.0, InlineExecutor(mill.store), Silent()).damaged) == [journal.path]
    assert journals(project) == []


def test_garbage_collection_removes_journals(project):
    """Nobody uses the store then, so every journal is of a run that has ended."""
    mill = project.mill()
    project.run()
    with alone(mill.store):
        collect(mill.store, find_garbage(mill.store, mill.dry_run()))
    assert journals(project) == []


def test_asking_whether_a_lease_lives_changes_nothing(project):
    """A reader may have no right to write."""
    store = Store(str(project.store))
    leases._write(store, dead := lease(f"{here()}-{1 << 40}-1"))
    assert not is_alive(store, dead.id)
    assert [name for name, _ in store.list_files("locks")] == [f"locks/{dead.id}.json"]
    assert not is_alive(store, "cd" * 16)


@pytest.mark.slow
@pytest.mark.parametrize("ending", ["finished", "killed"])
def test_another_process_sees_a_run_go_on_and_end(project, ending):
    """While a step waits, its task is shown as running, and later steps as waiting."""
    pipe = project.folder / "pipe"
    os.mkfifo(pipe)
    for path in sorted((project.folder / "in").iterdir())[:-1]:
        path.unlink()
    project.write_recipe(f"  - stagebox.waits: {{pipe: '{pipe}'}}\n  - stagebox.exact\n")
    process = project.start("--workers", "1")
    while not (found := journals(project)) or not found[0].record["running"]:
        assert process.poll() is None
        time.sleep(0.05)
    [journal] = found
    assert journal.state == "running"
    assert (journal.record["pid"], journal.record["running"][0]["stage"]) == (process.pid, "all/waits")
    assert journal.record["stages"]["notes/ingest"]["done"] == 1
    assert journal.record["stages"]["all/exact"]["done"] == 0
    if ending == "killed":
        process.kill()
    else:
        pipe.open("w").close()
    process.communicate()
    [journal] = journals(project)
    assert journal.state == ending
