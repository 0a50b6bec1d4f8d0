"""Large exchanges and sinks: merged files, finer ranges, split keys. None of this changes a byte of the output."""

import asyncio
from typing import ClassVar

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.laws.test_chaos import RECIPE, write_inputs

from gristmill.engine.executors.executor import InlineExecutor
from gristmill.engine.mill import Silent
from gristmill.engine.schedule import shuffle as plan
from gristmill.engine.work import shuffle
from gristmill.engine.work.shuffle import Outgoing, RecordBlock, Spill, cut, perform_merge
from gristmill.engine.work.task import Merge, Reduce
from gristmill.errors import BrokenPromise
from gristmill.store.segments import SegmentFile, SegmentTable, read_segments, read_table, write_segments
from gristmill.store.store import Part, Store
from sharded import Corpus


@pytest.fixture
def large(monkeypatch):
    """As if there were much data: every bound that makes an exchange large is a few kilobytes or files."""
    monkeypatch.setattr(plan, "FEW_FILES", 2)
    monkeypatch.setattr(plan, "FEW_SEGMENTS", 8)
    monkeypatch.setattr(plan, "LEAST_BYTES", 1 << 10)
    monkeypatch.setattr(plan, "MOST_BYTES", 4 << 10)
    monkeypatch.setattr(plan, "MERGED_BYTES", 16 << 10)
    monkeypatch.setattr(plan, "FAN_OUT", 128)
    monkeypatch.setattr(shuffle, "SENT_BYTES", 6 << 10)
    monkeypatch.setattr(shuffle.blocks_of, "__defaults__", (6 << 10,))


def merges(run):
    return [label for made in run.states.values() for label in made.tasks.values() if " merge " in label]


@pytest.fixture
def everything(project):
    write_inputs(project.folder, 3, files=(3, 1))
    project.recipe.write_text(RECIPE)
    return project


def test_a_large_exchange_gives_the_same_bytes_as_a_small_one(everything, request):
    """For every kind of step and the shards: merged, finer cut and spilled records give the same layers and files."""
    small = everything.run()
    assert not merges(small)
    request.getfixturevalue("large")
    run = everything.run(store=str(everything.folder / "other"))
    assert everything.parts(run) == everything.parts(small)
    merged = merges(run)
    assert any("round 1" in label for label in merged)
    assert any("answers" in label for label in merged), "answers to parts are merged too"
    assert any(label.startswith("crawl merge") for label in merged), "and records of a sink"
    again = everything.run(store=str(everything.folder / "other"))
    assert everything.executed(again) == {}


def test_removing_a_document_repeats_only_tasks_that_read_it(project, large):
    """Law 2 through the merge level: most reducers are unchanged."""
    write_inputs(project.folder, 3, files=(9, 4))
    project.recipe.write_text(RECIPE)
    project.run(until="all/exact_dedup")
    path = project.folder / "notes" / "0.jsonl"
    lines = path.read_text().splitlines()
    lone = next(n for n, line in enumerate(lines) if "zz" not in line)
    lines[lone] = " " * len(lines[lone])  # blanked: the others keep their place
    path.write_text("\n".join(lines))
    again = project.run(until="all/exact_dedup")
    for node_id in ("all/exact_dedup", "all/url_dedup"):
        reducers = {key for key, label in again.states[node_id].tasks.items() if "keys" in label}
        assert len(reducers) > 8
        assert len(reducers & again.states[node_id].executed) < len(reducers) / 2, node_id


def test_removing_a_document_rewrites_only_its_own_shard(project, large):
    """Records are merged on their way to 16 shards; the 15 that did not have it are unchanged."""
    corpus = Corpus(project)
    corpus.recipe(more=", part_bytes: 2KB", shards="shard_tokens: 4000")
    run = project.run()
    assert any(label.startswith("notes merge") for label in merges(run))
    corpus.write("notes", 300, 11, gone=("notes7",))
    again = project.run()
    (sink,) = [node_id for node_id in again.states if again.graph.nodes[node_id].name == "shards"]
    built = {
        key: label
        for key, label in again.states[sink].tasks.items()
        if not {"emit", "merge", "catalogue"} & set(label.split())
    }
    assert len(built) >= 8
    assert len(again.states[sink].executed & built.keys()) == 1


def test_a_run_that_is_planned_stops_at_merges(everything, large):
    """A dry run knows what is missing, and writes nothing."""
    everything.run(until="all/url_dedup")
    checked = everything.dry_run()
    assert checked.states["all/exact_dedup"].missing
    assert checked.states["all/exact_dedup"].waiting


# The plan


class FakeRun:
    """The parts of a run that weighing needs."""

    def __init__(self, store):
        self.store = store
        self.tasks = self

    async def call_in_thread(self, question, *about):
        return question(*about)


def sent_file(store, sizes):
    """A file with segments of about this many bytes, by range."""
    return write_segments(
        store, [(to, pa.table({"key": np.zeros(max(1, size // 8), np.uint64)})) for to, size in sorted(sizes.items())]
    )


def weigh(store, files):
    return asyncio.run(plan.weigh(FakeRun(store), files))


def test_the_number_of_reducers_follows_from_the_bytes(tmp_path, monkeypatch):
    """Users do not set it: few bytes, few reducers; many bytes, many, each within the bounds."""
    store = Store(str(tmp_path))
    monkeypatch.setattr(plan, "LEAST_BYTES", 1000)
    monkeypatch.setattr(plan, "MOST_BYTES", 4000)
    for total in (640, 64_000, 640_000, 6_400_000):
        file = sent_file(store, dict.fromkeys(range(64), total // 64))
        spans = weigh(store, [file])
        assert min(max(total // 64, 1000), 4000) <= spans.target <= min(max(total // 32, 1000), 4000)
        reducers = len(plan.packed(SegmentTable([file], [read_table(store, file)]), spans.target)) * spans.finer
        assert total / spans.target <= reducers <= max(1, 2.1 * total / spans.target)


def test_a_crowded_range_is_cut_finer(tmp_path, monkeypatch):
    store = Store(str(tmp_path))
    monkeypatch.setattr(plan, "LEAST_BYTES", 1000)
    monkeypatch.setattr(plan, "MOST_BYTES", 4000)
    even = weigh(store, [sent_file(store, dict.fromkeys(range(64), 4000))])
    assert (even.finer, even.is_large) == (1, False)
    crowded = weigh(store, [sent_file(store, {**dict.fromkeys(range(64), 4000), 5: 30_000})])
    assert (crowded.finer, crowded.is_large) == (8, True)


@settings(max_examples=100, deadline=None)
@given(st.dictionaries(st.integers(0, 200), st.integers(1, 100), min_size=1), st.integers(1, 300), st.data())
def test_a_border_moves_only_where_a_half_was_just_too_large(sizes, limit, data):
    """Every value is in one range, and no range that could be cut is over the limit; if one value gets smaller, the
    other ranges stay the same, except those that now fit together with it.
    """
    places = sorted(sizes)

    def cuts(weights):
        found = plan.halved(np.array(places, np.uint64), np.array([weights[p] for p in places]), limit)
        return [tuple(places[begin:end]) for begin, end in found]

    before = cuts(sizes)
    assert [place for stretch in before for place in stretch] == places
    assert all(len(stretch) == 1 or sum(sizes[place] for place in stretch) <= limit for stretch in before)
    less = data.draw(st.sampled_from(places))
    after = cuts({**sizes, less: 1})
    assert all(less in stretch or stretch in before for stretch in after)


def test_merges_read_bounded_bytes_and_files(monkeypatch):
    files = [SegmentFile(Part(f"{n:064x}", "segments", 10), 1, "") for n in range(10)]
    monkeypatch.setattr(plan, "MERGED_BYTES", 100)
    monkeypatch.setattr(plan, "MERGED_FILES", 3)
    sizes = np.array([50, 50, 1, 0, 0, 1, 1, 1, 300, 1])
    groups = [[files.index(file) for file in group] for group in plan._groups(files, sizes)]
    assert groups == [[0, 1], [2], [5, 6, 7], [8], [9]]


def test_a_trillion_tokens_fit_into_the_plan():
    """4 TB of records in 62,500 files: what a merge and a reducer read, and how many segments there are at a time."""
    parts, total = 62_500, 4 * 10**12
    finer = total // plan.RANGES // plan.MOST_BYTES
    finer = 1 << (finer - 1).bit_length()
    assert finer <= plan.FINEST
    width = plan._width(finer * plan.RANGES)
    merges_of_a_span = total * width // plan.RANGES // plan.MERGED_BYTES
    assert merges_of_a_span * finer * width < 2_000_000
    assert merges_of_a_span < 2_000, "segments that a reducer reads"
    assert all(plan.RANGES % plan._width(count) == 0 for count in range(1, 70_000, 7)), "spans fill the ranges"
    assert plan.Route.to_each("part", plan.RANGES, parts, 64) == plan.Route("part", 58)
    assert plan.Route.to_each("key", parts, 16_384, 14) == plan.Route("key", 8)
    assert plan.Route.to_each("key", parts, 64, 6) == plan.Route("key", 0), "few shards: files are merged all the same"
    assert not plan.Route.to_each("key", 1_000, 64, 6).merges


# Cutting, merging, spilling


def records(keys, **columns):
    return pa.table({"key": pa.array(keys, pa.uint64()), "value": pa.array(range(len(keys)), pa.int64()), **columns})


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(0, 2**64 - 1), max_size=40), st.integers(0, 64))
def test_a_cut_brings_every_record_to_its_destination_in_its_order(keys, shift):
    found = list(cut(records(keys), "key", shift))
    assert [to for to, _ in found] == sorted({key >> shift for key in keys})
    for to, table in found:
        assert table["value"].to_pylist() == [place for place, key in enumerate(keys) if key >> shift == to]


def test_a_merge_is_a_finer_cut_of_all_that_came(tmp_path):
    """Files in order; only the requested span; the column is dropped if it is not needed further."""
    store = Store(str(tmp_path))
    draw = np.random.default_rng(3)
    keys = [draw.integers(0, 2**64, 50, np.uint64) for _ in range(3)]
    files = [write_segments(store, cut(records(one), "key", 58)) for one in keys]
    for keeps in (True, False):
        result = perform_merge(Merge(tuple(files), 16, 31, "key", 56, keeps), store)
        (file,) = result.segment_files
        found = SegmentTable([file], [read_table(store, file)])
        expected = {}
        for one in keys:
            for value, key in enumerate(one.tolist()):
                if 16 <= key >> 58 < 32:
                    expected.setdefault(key >> 56, []).append(value)
        assert found.destinations() == sorted(expected)
        for to, values in expected.items():
            table = next(read_segments(store, [found.to(to)[0]]))
            assert table["value"].to_pylist() == values
            assert ("key" in table.column_names) == keeps


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.sampled_from([0, 1, 2**63, 2**64 - 1, 77, 78, 79]), min_size=1, max_size=60),
    st.sampled_from([1, 40, 100, 10**6]),
    st.booleans(),
)
def test_spilled_records_come_back_in_blocks_of_whole_keys(tmp_path_factory, keys, limit, summarised):
    """Every record once; a key in one block, or in pieces that have a summary of the others."""
    spill = Spill(tmp_path_factory.mktemp("spill"))
    table = records(keys, part=pa.array([1] * len(keys), pa.uint64()), row=pa.array(range(len(keys)), pa.int64()))
    for batch in table.to_batches(max_chunksize=2):
        spill.add(pa.Table.from_batches([batch]))
    spill.end()
    blocks = list(spill.blocks(limit, (lambda piece: piece.select(["value"])) if summarised else None))
    assert sorted(value for block in blocks for value in block.records["value"].to_pylist()) == list(range(len(keys)))
    assert not any(spill._folder.iterdir()), "what was read is gone"
    observed = {}
    for block in blocks:
        own = block.records["key"].to_pylist()
        assert own == sorted(own)
        for key in set(own):
            observed.setdefault(key, []).append(block)
    for key, several in observed.items():
        if len(several) == 1:
            assert several[0].others is None
            continue
        assert summarised
        mine = [set(block.records["value"].to_pylist()) for block in several]
        whole = {place for place, one in enumerate(keys) if one == key}
        for own, block in zip(mine, several, strict=True):
            assert set(block.others["value"].to_pylist()) == whole - own


def test_answers_go_to_files_of_bounded_size(tmp_path, monkeypatch):
    monkeypatch.setattr(shuffle, "SENT_BYTES", 1000)
    store = Store(str(tmp_path))
    out = Outgoing(store, "key", 58)
    for _ in range(10):
        out.add(records([5, 2**63] * 20))
    files = out.close()
    assert len(files) == 5
    assert sum(int(read_table(store, file)["rows"].sum()) for file in files) == 400
    empty = Outgoing(store, "key", 58).close()
    assert [file.segments for file in empty] == [0]


def test_a_round_that_writes_other_columns_for_some_keys_is_reported(tmp_path):
    with pytest.raises(BrokenPromise, match="different columns"):
        shuffle.one_table([records([1]), records([2], more=pa.array([1]))])
    spill = Spill(tmp_path)
    spill.add(records([1]))
    with pytest.raises(BrokenPromise, match="different columns"):
        spill.add(records([2], more=pa.array([1])))


def test_a_block_is_sorted_by_key_part_and_row():
    table = pa.table(
        {
            "key": pa.array([2, 1, 1, 1], pa.uint64()),
            "part": pa.array([1, 2, 1, 1], pa.uint64()),
            "row": pa.array([0, 0, 5, 3], pa.int64()),
        }
    )
    found = [tuple(row.values()) for row in RecordBlock(table).records.to_pylist()]
    assert found == [(1, 1, 3), (1, 1, 5), (1, 2, 0), (2, 1, 0)]


@pytest.mark.usefixtures("large")
def test_spans_are_worked_on_side_by_side_where_one_leaves_workers_idle(project, monkeypatch):
    """On a large cluster no span waits for the reducers of another; on a small machine one comes after the other, so
    that the coordinator holds the tables of one. The output is the same.
    """
    monkeypatch.setattr(plan, "FAN_OUT", 8)
    project.write_inputs(files=6)
    project.write_recipe("  - stagebox.exact")
    found, orders = [], {}
    for slots in (1, 500):

        class Cluster(InlineExecutor):
            slots = 0
            requests: ClassVar = []

            async def run(self, task):
                if isinstance(task.work, Merge | Reduce):
                    self.requests.append((type(task.work), task.label))
                return await super().run(task)

        Cluster.slots = slots
        mill = project.mill(store=str(project.folder / f"store{slots}"))
        mill.executor = lambda *_, mill=mill, kind=Cluster: kind(mill.store)
        found.append(project.parts(mill.run(None, Silent())))
        orders[slots] = Cluster.requests
    assert found[0] == found[1]
    for slots, requests in orders.items():
        spans = {
            label.split()[3].split(".")[0] for kind, label in requests if kind is Merge and label.startswith("round 1")
        }
        assert len(spans) > 2
        first_reduce = next(place for place, (kind, _) in enumerate(requests) if kind is Reduce)
        before = {label.split()[3].split(".")[0] for kind, label in requests[:first_reduce]}
        assert (before == spans) == (slots == 500)
