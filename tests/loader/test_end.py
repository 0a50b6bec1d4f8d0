"""The end of a loop: its position, the samples left out, and that no failure looks like it."""

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
def test_an_iterator_that_is_interrupted_raises(corpus, what, threads):
    """A training loop must not end as if it were complete, nor return batches of an abandoned order."""
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
    """This holds after any later use of the loader."""
    with Loader(corpus, batch_samples=45) as loader:
        run = iter(loader)
        for _ in range(10):
            next(run)
        ENDS[what][0](loader)
        assert next(run, None) is None


def test_a_waiting_consumer_gets_an_error_when_the_loader_is_closed(corpus):
    """Another thread closes it: the consumer must not mistake that for the end of the samples."""
    result = []
    with Loader(corpus, batch_samples=10) as loader:
        reading, go_on = threading.Event(), threading.Event()
        step = loader._reader.batch
        loader._reader.batch = lambda request: (reading.set(), go_on.wait(30), step(request))[-1]
        run = iter(loader)

        def consume():
            try:
                next(run)
            except UserError as error:
                result.append(str(error))

        consumer = threading.Thread(target=consume)
        consumer.start()
        assert reading.wait(30)
        closer = threading.Thread(target=loader.close)
        closer.start()
        consumer.join(30)
        go_on.set()
        closer.join(30)
    assert len(result) == 1
    assert "was closed" in result[0]


def test_a_closed_loader_reads_nothing(corpus):
    """The error says where to continue; attributes that need no reading still work."""
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
def test_len_counts_the_remaining_batches_and_left_out_the_dropped_samples(corpus, drop_last, world, batch, start):
    """This holds before, between and after batches, and is the same for every rank."""
    options = {"world_size": world, "batch_samples": batch, "start": start, "threads": 0, "drop_last": drop_last}
    results = []
    for rank in range(world):
        with Loader(corpus, rank=rank, **options) as loader:
            expected, left_out = len(loader), loader.left_out
            for number, _ in enumerate(loader, 1):
                assert len(loader) == expected - number
                assert loader.left_out == left_out
            assert len(loader) == 0
            assert loader.state_dict()["sample"] + left_out == SAMPLES
            results.append((expected, left_out))
    assert len(set(results)) == 1
    assert drop_last or results[0][1] == 0


def test_one_rank_reports_left_out_samples_at_the_end(corpus, caplog):
    """The message says how to get them; there is none if nothing is left out or the loop did not finish."""
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
    """With drop_last=True it is rejected."""
    with Loader(corpus, batch_samples=1000, drop_last=False) as loader:
        expected = [loader.sample(number).tokens.tobytes() for number in range(loader.samples)]
        (batch,) = loader
    assert [row.tobytes() for row in batch.tokens] == expected
