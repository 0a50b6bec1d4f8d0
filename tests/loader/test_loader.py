"""Iteration, resuming and state."""

import gc
import pickle
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gristmill.errors import UserError
from gristmill.loader import Loader
from loader.small import Corpus

SAMPLES = 450


def world_step(path, world_size, batch_samples, start, threads):
    """The loaders of all ranks, starting at a global sample."""
    return [
        Loader(path, rank=rank, world_size=world_size, batch_samples=batch_samples, start=start, threads=threads)
        for rank in range(world_size)
    ]


def consumed(path, legs):
    """The tokens of every sample in global order, of a run in legs of (world size, batch, threads, steps)."""
    rows, at = [], 0
    for world_size, batch_samples, threads, steps in legs:
        loaders = world_step(path, world_size, batch_samples, at, threads)
        runs = [iter(loader) for loader in loaders]
        for _ in range(steps):
            batches = [next(run, None) for run in runs]
            if batches[0] is None:
                assert batches == [None] * world_size
                break
            states = {loader.state_dict()["sample"] for loader in loaders}
            assert states == {batch.state["sample"] for batch in batches}
            assert [batch.first_sample for batch in batches] == list(
                range(at, at + world_size * batch_samples, batch_samples)
            )
            rows += [row.tobytes() for batch in batches for row in batch.tokens]
            (at,) = states
        for loader in loaders:
            loader.close()
    return rows, at


@pytest.fixture(scope="module")
def sequence(corpus):
    """The tokens of every global sample, one by one."""
    with Loader(corpus) as loader:
        return [loader.sample(number).tokens.tobytes() for number in range(loader.samples)]


def test_a_run_on_8_then_6_then_1_ranks_is_the_same_global_sequence(corpus, sequence):
    """World size, batch size and threads change at each resume; no sample is lost or repeated."""
    rows, at = consumed(corpus, [(8, 3, 1, 5), (6, 4, 2, 7), (1, 10, 0, 3), (2, 1, 1, 4)])
    assert at == len(rows) == 8 * 3 * 5 + 6 * 4 * 7 + 10 * 3 + 2 * 4
    assert rows == sequence[:at]


@given(
    st.lists(
        st.tuples(st.integers(1, 8), st.integers(1, 7), st.integers(0, 3), st.integers(0, 6)), min_size=1, max_size=4
    )
)
@settings(max_examples=25, deadline=None)
@pytest.mark.slow
def test_any_history_of_world_sizes_batches_and_threads_gives_the_global_sequence(corpus, sequence, legs):
    """A run may stop anywhere and continue with any settings."""
    rows, at = consumed(corpus, legs)
    assert rows == sequence[:at]


@given(st.integers(1, 7), st.integers(1, 60), st.integers(0, SAMPLES))
@settings(max_examples=25, deadline=None)
def test_without_drop_last_all_ranks_together_see_everything_to_the_end(corpus, sequence, world_size, batch, start):
    """The last step is shared evenly, in order, and leaves no rank without a batch."""
    ranks = [
        list(
            Loader(corpus, rank=r, world_size=world_size, batch_samples=batch, start=start, drop_last=False, threads=0)
        )
        for r in range(world_size)
    ]
    assert len({len(batches) for batches in ranks}) == 1
    rows = [row.tobytes() for step in zip(*ranks, strict=True) for batch in step for row in batch.tokens]
    assert rows == sequence[start:]
    if ranks[0]:
        sizes = [len(batches[-1]) for batches in ranks]
        assert max(sizes) - min(sizes) <= 1
        assert {batches[-1].state["sample"] for batches in ranks} == {SAMPLES}


def test_the_state_is_what_the_consumer_received_and_not_what_was_read_ahead(corpus, sequence):
    """A resume after three batches continues with the fourth, however many were prefetched."""
    with Loader(corpus, batch_samples=5, threads=2, prefetch_batches=20) as loader:
        run = iter(loader)
        third = [next(run) for _ in range(3)][-1]
        assert loader.state_dict() == third.state == {"sample": 15}
        state = loader.state_dict()
    with Loader(corpus, batch_samples=4) as again:
        again.load_state_dict(state)
        assert [row.tobytes() for row in next(iter(again)).tokens] == sequence[15:19]


def test_a_second_for_loop_continues_where_the_first_one_stopped(corpus):
    """A training loop with an evaluation in between needs this; `seek` starts again."""
    with Loader(corpus, batch_samples=10) as loader:
        assert len(loader) == 45
        for batch in loader:
            if batch.first_sample == 20:
                break
        assert len(loader) == 42
        assert [batch.first_sample for batch in loader] == list(range(30, SAMPLES, 10))
        assert list(loader) == []
        loader.seek(0)
        assert len(loader) == 45


def test_numpy_integers_are_accepted(corpus):
    """A state that went through an array is still a state."""
    with Loader(corpus, batch_samples=np.int64(5), start=np.int32(10), rank=np.uint8(0)) as loader:
        assert loader.state_dict() == {"sample": 10}
        assert type(loader.state_dict()["sample"]) is int
        assert next(iter(loader)).first_sample == 10
        assert loader[np.int64(3)].number == 3
        for wrong in (1.5, "3", None, slice(3)):
            with pytest.raises(TypeError):
                loader[wrong]


def test_tokens_of_a_sample_are_a_read_only_view(corpus):
    """Nothing is copied, and nothing can write to a shard."""
    with Loader(corpus) as loader:
        sample = loader[7]
    assert not sample.tokens.flags.writeable
    assert not sample.tokens.flags.owndata
    assert len(sample.tokens) == 12
    assert sample.doc_spans[-1, 1] == sample.lengths.sum()


def test_samples_and_batches_agree_in_everything(corpus):
    """A batch has the same documents, groups and phases for a row as the sample."""
    with Loader(corpus, batch_samples=9, start=250) as loader:
        for batch in loader:
            ends = np.cumsum(batch.pieces)
            for row, end in enumerate(ends):
                sample, pieces = loader.sample(batch.first_sample + row), slice(end - batch.pieces[row], end)
                assert np.array_equal(sample.tokens, batch.tokens[row])
                assert np.array_equal(sample.lengths, batch.lengths[pieces])
                assert np.array_equal(sample.doc_ids, batch.doc_ids[pieces])
                assert np.array_equal(sample.doc_offsets, batch.doc_offsets[pieces])
                assert np.array_equal(sample.doc_spans, batch.doc_spans[pieces, 1:])
                assert (sample.group, sample.source) == (batch.groups[row], batch.sources[row])
                assert loader.sources[batch.source_ids[row]] == sample.source
                assert batch.names.phases[batch.phase_ids[row]] == sample.phase


def test_the_cooldown_has_only_its_groups_and_its_learning_rate(corpus):
    """Phases begin where the manifest says."""
    with Loader(corpus, batch_samples=50) as loader:
        batches = list(loader)
    assert [batch.phase for batch in batches] == ["phase0"] * 6 + ["phase1"] * 3
    assert {group for batch in batches[6:] for group in batch.groups} == {"wiki/A", "code"}
    assert {group for batch in batches[:6] for group in batch.groups} == {"crawl/B", "wiki/A", "code"}
    assert batches[0].learning_rate is None
    assert batches[-1].learning_rate == {"shape": "linear", "end": 0.0}


def test_four_byte_tokens_are_read(tmp_path):
    """Vocabularies above 65,536 need them."""
    path = Corpus({"a": [20]}, [(20, {"a": 20})], token_bytes=4).write(tmp_path)
    with Loader(path, batch_samples=20) as loader:
        (batch,) = loader
    assert batch.tokens.dtype == np.uint32
    assert sorted(batch.tokens[:, 0].tolist()) == list(range(20))


def test_another_seed_gives_another_order_of_the_same_samples(corpus, sequence):
    """One corpus can serve several runs."""
    with Loader(corpus, seed=99) as loader:
        other = [loader.sample(number).tokens.tobytes() for number in range(loader.samples)]
    assert other[:100] != sequence[:100]
    assert set(other) == set(sequence)


def test_a_failure_in_a_thread_reaches_the_consumer(manifest):
    """It arrives in order, after the batches before it, with the state of the last good one."""
    with Loader(manifest, batch_samples=10, threads=2) as loader:
        whole = [loader.order.place(number) for number in range(SAMPLES)]
        bad = next(
            number for number, place in enumerate(whole) if place.group == 1 and place.epoch == 0 and number > 30
        )
        victim = loader.manifest.groups[1].shards[whole[bad].shard]
        first = next(n for n, place in enumerate(whole) if (place.group, place.shard) == (1, whole[bad].shard))
        Path(loader.manifest.where(victim.bin)).write_bytes(b"")
        got = []
        with pytest.raises(UserError, match="damaged"):
            got.extend(loader)
        assert len(got) == 0 or got[-1].first_sample < first
        assert loader.state_dict()["sample"] == first // 10 * 10


def test_no_thread_outlives_the_loop_that_wanted_it(corpus):
    """A break, a forgotten iterator and a forgotten loader each end their threads."""

    def ours():
        return [thread for thread in threading.enumerate() if thread.name.startswith("gristmill-loader")]

    with Loader(corpus, batch_samples=2, threads=3) as loader:
        for _ in loader:
            break
        assert not ours()
        run = iter(loader)
        next(run)
        assert ours()
        del run
        gc.collect()
        assert not ours()
    forgotten = iter(Loader(corpus, batch_samples=2, threads=3))
    next(forgotten)
    assert ours()
    del forgotten
    gc.collect()
    assert not ours()


@pytest.mark.parametrize(
    "end", ["pass", "raise SystemExit(3)", "import os, signal; os.kill(os.getpid(), signal.SIGINT)"]
)
def test_the_interpreter_exits_in_the_middle_of_a_run(corpus, end):
    """Threads that wait for space do not delay it, whether it finishes, exits or is interrupted."""
    script = f"from gristmill.loader import Loader\nrun = iter(Loader({str(corpus)!r}, threads=3))\nnext(run)\n{end}"
    done = subprocess.run([sys.executable, "-c", script], timeout=60, capture_output=True, text=True)
    assert done.returncode == {"p": 0, "r": 3, "i": -2}[end[0]]
    assert ("KeyboardInterrupt" in done.stderr) == (end[0] == "i")
    assert end[0] == "i" or not done.stderr


def test_all_threads_end_before_the_interpreter_shuts_down(corpus):
    """A thread that is stopped later may hold the lock that closing needs, and the process would hang."""
    script = (
        "import atexit, threading\n"
        "ours = lambda: sum(thread.name.startswith('gristmill-loader') for thread in threading.enumerate())\n"
        "atexit.register(lambda: print(ours()))\n"
        "from gristmill.loader import Loader\n"
        f"run = iter(Loader({str(corpus)!r}, threads=16))\nnext(run)\nprint(ours())"
    )
    done = subprocess.run([sys.executable, "-c", script], timeout=60, capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("16\n0\n", "")


def test_a_loader_can_be_sent_to_another_process(corpus, sequence):
    """It keeps its position. A batch and a sample can be sent too, and carry only their own part of a shard."""
    with Loader(corpus, batch_samples=5) as loader:
        batch = next(iter(loader))
        again = pickle.loads(pickle.dumps(loader))
        copy = pickle.loads(pickle.dumps(batch))
        sample = loader.sample(3)
        sample_copy = pickle.loads(pickle.dumps(sample))
        assert len(pickle.dumps(sample)) < 2000
    assert again.state_dict() == {"sample": 5}
    assert [row.tobytes() for row in next(iter(again)).tokens] == sequence[5:10]
    assert np.array_equal(copy.doc_ids, batch.doc_ids)
    assert np.array_equal(copy.positions, batch.positions)
    for name in ("tokens", "lengths", "doc_ids", "doc_offsets", "doc_spans"):
        assert np.array_equal(getattr(sample_copy, name), getattr(sample, name))


def test_an_iterator_that_started_before_a_fork_raises(corpus):
    """Its threads do not exist in the child; waiting for them would never end."""
    script = (
        "import os\nfrom gristmill.loader import Loader\n"
        f"loader = Loader({str(corpus)!r})\nrun = iter(loader)\nnext(run)\n"
        "child = os.fork()\n"
        "if child == 0:\n"
        "    try: next(run)\n"
        "    except Exception as error: os._exit(17 if 'before a fork' in str(error) else 1)\n"
        "print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60)
    assert done.stdout == "17\n"


def test_stats_count_batches_and_waiting(corpus):
    """Without threads the consumer waits for every batch but the first; a batch that is ready needs no waiting."""
    with Loader(corpus, batch_samples=45, threads=0) as loader:
        list(loader)
        stats = loader.stats()
    assert (stats["batches"], stats["starved_batches"]) == (10, 9)
    assert 0 < stats["starved_seconds"] <= stats["running_seconds"]
    assert stats["first_seconds"] > 0


def test_prefetch_reads_no_further_than_its_limit(corpus):
    """Memory is bounded by prefetch_batches."""
    with Loader(corpus, batch_samples=1, threads=2, prefetch_batches=3) as loader:
        read = []
        step = loader._reader.batch
        loader._reader.batch = lambda request: read.append(request.first_sample) or step(request)
        for number, _ in enumerate(loader):
            assert max(read) <= number + 3
            if number == 50:
                break


def test_the_loader_needs_numpy_only():
    """A trainer's environment need not have pyarrow, numba, pydantic or fsspec."""
    script = (
        "import sys; had = set(sys.modules); import gristmill.loader; "
        "print(*{name.split('.')[0] for name in set(sys.modules) - had})"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    foreign = set(done.stdout.split()) - set(sys.stdlib_module_names) - {"numpy", "gristmill"}
    assert not {name for name in foreign if not name.startswith("_")}
