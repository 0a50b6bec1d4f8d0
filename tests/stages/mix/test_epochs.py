"""A budget far above the available text is refused."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gristmill.errors import UserError
from gristmill.stages.mix.epochs import MOST_EPOCHS
from stages.mix.mixing import catalogue, mixed

HELD = 883


def mix_of(folder, **options):
    return mixed(folder, catalogue({"crawl": (HELD, 1)}), **options)


def test_a_hundred_billion_tokens_of_883_are_refused_with_the_numbers(tmp_path):
    """The message has the budget, the available tokens, the epochs, and what to write."""
    with pytest.raises(UserError) as refused:
        mix_of(tmp_path, tokens="100B")
    message = str(refused.value)
    for words in (
        "its groups have only 883",
        "mix: the mixture needs 100,000,000,000 tokens",
        "max_epochs is 4",
        "at most 3,532 tokens",
        "max_epochs: 1132",
    ):
        assert words in message, message
    assert not (tmp_path / "manifest.json").exists()


def test_the_advice_of_the_message_helps(tmp_path):
    """The max_epochs that it names lets the same budget through, and so does the budget that it names."""
    with pytest.raises(UserError) as refused:
        mix_of(tmp_path, tokens="10M")
    epochs = int(str(refused.value).rpartition("max_epochs: ")[2].rstrip("."))
    assert mix_of(tmp_path, tokens="10M", max_epochs=epochs)[2] == []
    assert mix_of(tmp_path, tokens=3532)[2] == []


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 40), st.sampled_from((0.5, 4, 20, 30)))
def test_the_bound_is_the_larger_of_the_cap_and_the_default(tmp_path_factory, epochs, cap):
    """Up to sixteen epochs, exceeding a cap is only a warning; a cap above that is the bound itself."""
    folder = tmp_path_factory.mktemp("mix")
    options = {"tokens": epochs * 6400, "max_epochs": cap}
    make = lambda: mixed(folder, catalogue({"crawl": (6400, 1)}), **options)  # noqa: E731
    if epochs > max(cap, MOST_EPOCHS):
        with pytest.raises(UserError, match=f"drawn {epochs} times"):
            make()
    else:
        assert bool(make()[2]) == (epochs > cap)


def test_all_phases_count_together(tmp_path):
    """Ten epochs in each of two phases are twenty."""
    phases = [{"name": "one", "tokens": 64_000}, {"name": "other", "tokens": 64_000}]
    with pytest.raises(UserError, match="drawn 20 times"):
        mixed(tmp_path, catalogue({"crawl": (6400, 1)}), phases=phases)
