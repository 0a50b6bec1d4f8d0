"""Changing the mixture in the middle of a run."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gristmill.errors import UserError
from gristmill.loader import Loader, continues, read_manifest
from gristmill.loader.order import Order
from loader.small import Corpus, change_manifest

GROUPS = {"a": [7, 5], "b": [9], "c/A": [4, 4, 3]}
weights_of = st.dictionaries(st.sampled_from(sorted(GROUPS)), st.integers(1, 20), min_size=1)
phases_of = st.lists(st.tuples(st.integers(1, 60), weights_of), min_size=1, max_size=3)


def sequence(path, count):
    order = Order(read_manifest(path))
    return [(order.manifest.groups[p.group].name, *p[2:]) for p in map(order.place, range(count))]


def refused(old, new, sample):
    try:
        continues(read_manifest(old), read_manifest(new), sample)
    except UserError as error:
        return str(error)
    return None


@given(phases_of, phases_of, st.data())
@settings(max_examples=25, deadline=None)
def test_a_run_may_stop_anywhere_and_continue_with_other_phases_and_more_groups(tmp_path_factory, phases, later, data):
    """The first samples are the same, and over both manifests every epoch is complete before it repeats."""
    folder = tmp_path_factory.mktemp("mix")
    total = sum(samples for samples, _ in phases)
    sample = data.draw(st.integers(0, total))
    kept, left = [], sample
    for samples, weights in phases:
        if left:
            kept.append((min(samples, left), weights))
            left -= min(samples, left)
    more = {**GROUPS, "new": [6, 2]}
    later = [*later, (20, {"new": 3, "a": 1})]
    old = Corpus(GROUPS, phases).write(folder / "old")
    new = Corpus(dict(reversed(more.items())), [*kept, *later]).write(folder / "new")
    assert refused(old, new, sample) is None
    before, after = sequence(old, sample), sequence(new, read_manifest(new).samples)
    assert after[:sample] == before
    for name, sizes in more.items():
        drawn = [row[1:] for row in after if row[0] == name]
        for first in range(0, len(drawn), sum(sizes)):
            epoch = drawn[first : first + sum(sizes)]
            assert len(set(epoch)) == len(epoch)


@given(phases_of, phases_of, st.integers(0, 100))
@settings(max_examples=40, deadline=None)
def test_manifests_that_are_accepted_have_the_same_samples_so_far(tmp_path_factory, phases, others, sample):
    """For two unrelated mixtures, the new one is rejected or the sequences are equal."""
    folder = tmp_path_factory.mktemp("mix")
    old, new = (Corpus(GROUPS, each).write(folder / str(n)) for n, each in enumerate((phases, others)))
    if refused(old, new, sample) is None:
        assert sequence(old, sample) == sequence(new, sample)


def test_a_phase_may_become_longer(tmp_path):
    """The shorter sequence is a prefix of the longer one while the weights are the same."""
    old = Corpus(GROUPS, [(50, {"a": 30, "b": 20})]).write(tmp_path / "old")
    new = Corpus(GROUPS, [(80, {"a": 30, "b": 20})]).write(tmp_path / "new")
    assert refused(old, new, 50) is None
    assert sequence(new, 50) == sequence(old, 50)


PHASES = [(40, {"a": 30, "b": 10}), (40, {"b": 10, "c/A": 30})]
CHANGES = {
    "another seed": ({"seed": 8}, 1, "the seed was 7 and is now 8"),
    "another length": ({"seq_len": 13}, 0, "seq_len was 12 and is now 13"),
    "another width": ({"token_bytes": 4}, 0, "token_bytes was 2 and is now 4"),
    "another weight": ({"phases": [(40, {"a": 31, "b": 10}), PHASES[1]]}, 1, "a in phase phase0 was 30 and is now 31"),
    "a group more": ({"phases": [(40, {**PHASES[0][1], "c/A": 1}), PHASES[1]]}, 40, "group c/A in phase phase0 was 0"),
    "cut before": ({"phases": [(39, PHASES[0][1]), PHASES[1]]}, 40, "ended after sample 40, now after 39"),
    "grown before": ({"phases": [(41, PHASES[0][1]), PHASES[1]]}, 41, "ended after sample 40, now after 41"),
    "shorter than the run": ({"phases": [PHASES[0]]}, 41, "it ends at sample 40"),
    "other tokens": ({"groups": {**GROUPS, "a": [5, 7]}}, 1, "shard 0 of group a has other tokens"),
    "a shard more": ({"groups": {**GROUPS, "a": [7, 5, 1]}}, 1, "group a had 2 shards and now has 3"),
    "beyond the old": ({}, 81, "the old manifest ends at sample 80"),
}  # fmt: skip


@pytest.mark.parametrize("name", CHANGES)
def test_the_error_describes_the_first_difference(tmp_path, name):
    """The message names the field, the group or the phase."""
    changes, sample, message = CHANGES[name]
    old = Corpus(GROUPS, PHASES).write(tmp_path / "old")
    new = Corpus(**{"groups": GROUPS, "phases": PHASES, **changes}).write(tmp_path / "new")
    assert message in refused(old, new, sample)


def test_a_group_that_was_not_drawn_from_yet_may_change(tmp_path):
    """The shards of group c are rebuilt during phase 0."""
    old = Corpus(GROUPS, PHASES).write(tmp_path / "old")
    new = Corpus({**GROUPS, "c/A": [11]}, PHASES).write(tmp_path / "new")
    assert refused(old, new, 40) is None
    assert "group c/A had 3 shards and now has 1" in refused(old, new, 45)


def test_other_tokens_in_a_shard_of_the_same_size_are_rejected(tmp_path):
    """A document was replaced: the number of samples is the same, but their content is not."""
    old, new = (Corpus(GROUPS, PHASES).write(tmp_path / name) for name in ("old", "new"))
    groups = json.loads(new.read_text())["groups"]
    groups[0]["shards"][1]["bin"] = "d" * 64
    change_manifest(new, groups=groups)
    assert "shard 1 of group a has other tokens" in refused(old, new, 1)
    assert refused(old, new, 0) is None


def test_a_missing_group_is_rejected(tmp_path):
    """The run already counted its samples."""
    old = Corpus(GROUPS, PHASES).write(tmp_path / "old")
    new = Corpus(GROUPS, PHASES).write(tmp_path / "new")
    content = json.loads(new.read_text())
    groups = [group | ({"name": "z"} if group["name"] == "a" else {}) for group in content["groups"]]
    phases = [{"name": "p", "samples": 40, "weights": {"z": 30, "b": 10}}]
    change_manifest(new, groups=groups, phases=phases)
    assert "weight of group a" in refused(old, new, 3)


def test_a_loader_does_not_continue_another_run(tmp_path):
    """It checks at its start and whenever a state is loaded."""
    old = Corpus(GROUPS, PHASES).write(tmp_path / "old")
    new = Corpus(GROUPS, [PHASES[0], (60, {"a": 1})]).write(tmp_path / "new")
    with Loader(new, start=40, continues=old) as loader:
        loader.load_state_dict({"sample": 20})
        with pytest.raises(UserError, match="weight of group a in phase phase1 was 0 and is now 1"):
            loader.load_state_dict({"sample": 41})
        assert loader.state_dict() == {"sample": 20}
    with pytest.raises(UserError, match=r"does not continue .* at sample 50"):
        Loader(new, start=50, continues=old)
