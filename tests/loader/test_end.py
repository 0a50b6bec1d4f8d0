"""The end of a loop: where it is, what is left out, and that nothing else looks like it."""

import threading

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gristmill.errors import UserError
from gristmill.loader import Loader

SAMPLES = 450

ENDS = {
    "another iterator": (lambda loader: iter(loader), "another loop.*Open a loader for each"),
    "a seek": (lambda loader: loader.seek(100), "moved to sample 100. Start a new loop"),
    "another state": (lambda loader: loader.load_state_dict({"sample": 100}), "moved to sample 100"),
    "a close": (lambda loader: loader.close(), "was closed"),
}


@pytest.mark.parametrize("threads", [0, 2])
@pytest.mark.parametrize("what", ENDS)
def test_an_iterator_that_is_ended_early_raises(corpus, what, threads):
    """A training loop must not end as if it were complete, nor return batches of an order that was abandoned."""
    end, message = ENDS[what]
    with Loader(corpus, batch_samples=10, threads=threads) as loader:
        run = iter(loader)
        next(run)
        other = end(loader)
        with pytest.raises(UserError, match=f"ended before the last batch.*{message}"):
            next(run)
        assert list(run) == []
        if what == "another iterator":
            assert [batch.first_sample for batch in other] == list(range(10, SAMPLES, 10))
        elif what != "a close":
            assert loader.state_dict() == {"sample": 100}


@pytest.mark.parametrize("what", ENDS)
def test_an_iterator_at_its_end_stays_there(corpus, what):
    """Whatever is done with the loader after the last batch."""
    with Loader(corpus, batch_samples=45) as loader:
        run = iter(loader)
        for _ in range(10):
            next(run)
        ENDS[what][0](loader)
        assert next(run, None) is None


def test_a_consumer_that_waits_is_told_that_the_loader_was_closed(corpus):
    """From another thread: it must not take the end of waiting for the end of the samples."""
    result = []
    with Loader(corpus, batch_samples=10) as loader:
        asked, go_on = threading.Event(), threading.Event()
        step = loader._reader.batch
        loader._reader.batch = lambda asked_for: (asked.set(), go_on.wait(30), step(asked_for))[-1]
        run = iter(loader)

        def consume():
            try:
                next(run)
            except UserError as error:
                result.append(str(error))

        consumer = threading.Thread(target=consume)
        consumer.start()
        assert asked.wait(30)
        closer = threading.Thread(target=loader.close)
        closer.start()
        consumer.join(30)
        go_on.set()
        closer.join(30)
    assert len(result) == 1
    assert "was closed" in result[0]


def test_a_closed_loader_reads_nothing(corpus):
    """And says where to go on; what it knows without reading stays."""
    with Loader(corpus, batch_samples=10) as loader:
        next(iter(loader))
    for use in (lambda: iter(loader), lambda: loader[0]):
        with pytest.raises(UserError, match=r"is closed.*start=10"):
            use()
    assert loader.state_dict() == {"sample": 10}
    assert len(loader) == 44


@pytest.mark.parametrize("drop_last", [True, False])
@given(st.integers(1, 5), st.integers(1, 90), st.integers(0, SAMPLES))
@settings(max_examples=20, deadline=None)
def test_len_is_what_is_left_at_any_time_and_left_out_what_no_batch_holds(corpus, drop_last, world, batch, start):
    """Before, between and after batches, for every rank alike."""
    options = {"world_size": world, "batch_samples": batch, "start": start, "threads": 0, "drop_last": drop_last}
    seen = []
    for rank in range(world):
        with Loader(corpus, rank=rank, **options) as loader:
            expected, left_out = len(loader), loader.left_out
            for number, _ in enumerate(loader, 1):
                assert len(loader) == expected - number
                assert loader.left_out == left_out
            assert len(loader) == 0
            assert loader.state_dict()["sample"] + left_out == SAMPLES
            seen.append((expected, left_out))
    assert len(set(seen)) == 1
    assert drop_last or seen[0][1] == 0


def test_samples_that_are_left_out_are_told_of_at_the_end_by_one_rank(corpus, caplog):
    """With how to get them; nothing is said where nothing is left out, or the loop did not come to its end."""
    for rank in (1, 0):
        with Loader(corpus, batch_samples=20, rank=rank, world_size=4) as loader:
            for _ in loader:
                break
            assert not caplog.records
            list(loader)
    (record,) = caplog.records
    assert "last 50 of 450 samples do not fill a step of 80" in record.getMessage()
    assert "drop_last=False" in record.getMessage()
    for options in ({"batch_samples": 45}, {"batch_samples": 80, "drop_last": False}):
        with Loader(corpus, **options) as loader:
            list(loader)
    assert len(caplog.records) == 1


def test_a_step_larger_than_the_corpus_is_one_batch_if_nothing_is_dropped(corpus):
    """What is refused otherwise."""
    with Loader(corpus, batch_samples=1000, drop_last=False) as loader:
        expected = [loader.sample(number).tokens.tobytes() for number in range(loader.samples)]
        (batch,) = loader
    assert [row.tobytes() for row in batch.tokens] == expected
