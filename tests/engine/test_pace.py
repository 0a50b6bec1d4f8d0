"""How long tasks take: predicted before they run, so that long ones go first; reported afterwards if one is skewed."""

from collections import Counter

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from gristmill.engine.executors.executor import InlineExecutor
from gristmill.engine.mill import Silent
from gristmill.engine.schedule.pace import BYTES_PER_S, Pace, expected_s, skewed
from gristmill.engine.work import shuffle
from gristmill.engine.work.shuffle import HotKey
from gristmill.engine.work.task import Result, result_from_json, result_to_json


class Watched(InlineExecutor):
    """Records its tasks."""

    def __init__(self, store):
        super().__init__(store)
        self.requests = []

    async def run(self, task):
        result = await super().run(task)
        self.requests.append((task, result))
        return result


def watched(project, store=None):
    mill = project.mill(store=store)
    executor = Watched(mill.store)
    mill.executor = lambda *_: executor
    return mill.run(None, Silent()), executor.requests


def of_verb(requests, node, work):
    return [task for task, _ in requests if task.node == node and type(task.work).__name__ == work]


def test_among_tasks_of_equal_depth_long_ones_go_first(project):
    """By the bytes that they read if nothing else is known; tasks that are further along go first."""
    for number, records in enumerate((5, 80, 300, 40)):
        project.write_inputs(files=1, records=records, seed=number)
        (project.folder / "in" / "00.jsonl").rename(project.folder / "in" / f"size{number}.jsonl")
    project.write_recipe(pattern="in/size*.jsonl")
    _, requests = watched(project)
    for node, work in (("notes/ingest", "Read"), ("all/length", "MapWork")):
        tasks = of_verb(requests, node, work)
        sizes = {task.key: result.cost["input_bytes"] for task, result in requests}
        by_order = [sizes[task.key] for task in sorted(tasks, key=lambda task: task.order)]
        assert by_order == sorted(by_order, reverse=True)
        assert len(set(by_order)) > 2
        assert [round(task.expected_s * BYTES_PER_S) for task in tasks] == [sizes[task.key] for task in tasks]
    depths = [task.order[0] for task, _ in requests if task.order]
    assert min(depths) < max(depths) <= 0
    assert {task.order[0] for task in of_verb(requests, "notes/ingest", "Read")} == {max(depths)}


def test_the_pace_of_an_earlier_run_predicts_the_next(project):
    """Seconds per byte, for each kind of task; stored in the records of stages and of the run."""
    _, first = watched(project)
    record = project.mill().last_run()
    project.write_inputs(files=6, seed=8)
    _, second = watched(project)
    for node, verb, work in (("all/length", "map", "MapWork"), ("all/exact", "collect", "Collect")):
        pace = record["nodes"][node]["pace"][verb]
        costs = [result.cost for task, result in first if task.node == node and type(task.work).__name__ == work]
        assert pace["tasks"] == len(costs)
        assert pace["bytes"] == sum(cost["input_bytes"] for cost in costs)
        assert abs(pace["wall_s"] - sum(cost["wall_s"] - cost["compile_s"] for cost in costs)) < 0.01
        (task, *_) = of_verb(second, node, work)
        (cost,) = (result.cost for other, result in second if other is task)
        assert abs(task.expected_s - cost["input_bytes"] * pace["wall_s"] / pace["bytes"]) < 1e-6


def test_a_run_that_finds_all_done_knows_the_pace_too(project):
    """From the records of its stages, and from the record of a run."""
    done = {node_id: made.pace for node_id, made in project.run().states.items()}
    again = {node_id: made.pace for node_id, made in project.run().states.items()}
    assert again == done
    assert all(done.values())


def test_the_order_changes_no_byte(project):
    """This holds for any record of an earlier run."""
    first = project.parts(project.run(store=str(project.folder / "one")))
    run = project.run(store=str(project.folder / "two"))
    assert project.parts(run) == first


def paced(*seconds, hot=None):
    pace = Pace()
    for number, one in enumerate(seconds):
        cost = {"wall_s": one + 1.0, "compile_s": 1.0, "input_bytes": 100 * number}
        pace.add(f"part {number}", Result(cost=cost, hot_key=hot if number == len(seconds) - 1 else None))
    return {"reduce": pace.as_record()}


def test_a_step_whose_slowest_task_took_many_times_the_median_is_skewed():
    """With its label, its bytes, and the key with the most records, if the reducer found one."""
    (found,) = skewed(paced(*[3.0] * 20, 40.0, hot=("00ff", 5000)))
    assert found["verb"] == "reduce"
    assert (found["label"], found["bytes"], found["hot_key"]) == ("part 20", 2000, ["00ff", 5000])
    assert found["wall_s"] == 40.0
    assert found["median_s"] == 3.0


def test_a_task_that_delays_nothing_is_not_skewed():
    """Few tasks, short ones, or ones with ordinary differences."""
    for seconds in ([3.0] * 5 + [40.0], [0.01] * 20 + [1.0], [3.0] * 20 + [9.0], [3.0] * 20):
        assert skewed(paced(*seconds)) == []


def test_without_an_earlier_run_bytes_are_seconds():
    assert expected_s({}, "map", 0) == 0
    assert expected_s({}, "map", int(BYTES_PER_S)) == 1
    assert expected_s({"map": {"wall_s": 8.0, "bytes": 2}}, "map", 3) == 12
    assert expected_s({"map": {"wall_s": 8.0, "bytes": 0}}, "map", int(BYTES_PER_S)) == 1


@given(st.lists(st.integers(0, 6), max_size=200), st.integers(1, 5))
def test_the_key_with_the_most_records_is_found(keys, pieces):
    """As counting gives it, also if it is split over several blocks."""
    keys = sorted(keys)
    hot = HotKey()
    for piece in np.array_split(np.array(keys, np.uint64), pieces):
        hot.add(pa.table({"key": pa.array(piece, pa.uint64())}))
    least, shuffle.HOT_RECORDS = shuffle.HOT_RECORDS, 1
    try:
        message = hot.result()
    finally:
        shuffle.HOT_RECORDS = least
    if keys:
        key, records = message
        assert records == max(Counter(keys).values()) == Counter(keys)[int(key, 16)]
    else:
        assert message is None


def test_a_key_like_others_is_not_named():
    hot = HotKey()
    hot.add(pa.table({"key": pa.array(np.repeat(np.arange(50, dtype=np.uint64), 1500))}))
    assert hot.result() is None


def test_a_hot_key_is_stored_in_the_record_of_its_task():
    """The records of tasks without one are unchanged."""
    result = Result(hot_key=("00ff", 5000))
    assert result_from_json(result_to_json(result)).hot_key == ("00ff", 5000)
    assert "hot_key" not in result_to_json(Result())
