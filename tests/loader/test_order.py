"""The order of samples over groups, phases and epochs."""

import hashlib
import json
from collections import Counter, defaultdict
from dataclasses import astuple

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from gristmill.loader.order import Order
from gristmill.shardformat.manifest import Group, Manifest, Phase, Shard, read_manifest
from loader.oracle_order import whole_order
from loader.small import Corpus

sizes = st.lists(st.integers(0, 20), min_size=1, max_size=5).filter(any)
groups_of = st.dictionaries(st.sampled_from(["a", "b/A", "b/B", "c@2", "d"]), sizes, min_size=1)


def manifest_of(groups, phases, seed=1):
    """A manifest without files."""
    shards = {name: tuple(Shard("", "", "", size, 0, 0) for size in each) for name, each in groups.items()}
    return Manifest(
        "", "", "", seed, {}, 8, 2,
        tuple(Group(name, name, "", None, sum(groups[name]), each) for name, each in shards.items()),
        tuple(Phase(f"p{n}", samples, weights, None) for n, (samples, weights) in enumerate(phases)),
        {},
    )  # fmt: skip


@st.composite
def manifests(draw):
    groups = draw(groups_of)
    some = st.dictionaries(st.sampled_from(sorted(groups)), st.integers(1, 30), min_size=1)
    phases = draw(st.lists(st.tuples(st.integers(0, 120), some), min_size=1, max_size=4))
    return manifest_of(groups, [(0, phases[0][1]), *phases, (5, phases[0][1])], draw(st.integers(0, 9)))


@given(manifests())
@settings(max_examples=60)
def test_every_epoch_of_every_group_is_complete_before_it_repeats(manifest):
    """Over all phases, the samples of a group come in rounds, each with every sample once."""
    order = Order(manifest)
    drawn = defaultdict(list)
    for sample in range(order.samples):
        found = order.place(sample)
        assert len(drawn[found.group]) // manifest.groups[found.group].samples == found.epoch
        drawn[found.group].append((found.shard, found.row))
    for number, rows in drawn.items():
        group = manifest.groups[number]
        everything = {(shard, row) for shard, facts in enumerate(group.shards) for row in range(facts.samples)}
        for first in range(0, len(rows), group.samples):
            epoch = rows[first : first + group.samples]
            assert len(set(epoch)) == len(epoch)
            assert set(epoch) <= everything
        whole = len(rows) // group.samples
        assert all(Counter(rows[: whole * group.samples])[row] == whole for row in everything)


@given(manifests())
@settings(max_examples=40)
def test_a_shard_is_finished_before_the_next_one_of_its_group_is_opened(manifest):
    """Disks and object stores need this: within an epoch, each shard is one stretch of its group's samples."""
    order = Order(manifest)
    stretches = defaultdict(list)
    for sample in range(order.samples):
        _, group, epoch, shard, _ = order.place(sample)
        if stretches[group, epoch][-1:] != [shard]:
            stretches[group, epoch].append(shard)
    assert all(len(set(each)) == len(each) for each in stretches.values())


@given(manifests(), st.data())
@settings(max_examples=60)
def test_arrays_agree_with_plain_integers(manifest, data):
    """This holds for any ascending choice of samples, across phases and epochs."""
    order = Order(manifest)
    first = data.draw(st.integers(0, order.samples - 1))
    offsets = sorted(data.draw(st.sets(st.integers(0, order.samples - first - 1), max_size=30)))
    found = order.places(first, np.array(offsets, np.int64))
    rows = zip(*(column.tolist() for column in astuple(found)), strict=True)
    assert list(rows) == [tuple(order.place(first + offset)) for offset in offsets]


@given(manifests(), st.data())
@settings(max_examples=30)
def test_counts_match_a_walk_over_the_samples_before(manifest, data):
    """The position of each group at any sample is known without walking there."""
    order = Order(manifest)
    sample = data.draw(st.integers(0, order.samples))
    counts = Counter(order.place(number).group for number in range(sample))
    assert order.counts(sample) == [counts[group] for group in range(len(manifest.groups))]


def test_arrays_agree_with_plain_integers_after_35_trillion_samples():
    """Numbers near 2^45, groups of very different sizes, and thousands of epochs."""
    weights = {"large": 10**13, "middle": 10**12, "small": 12_345}
    manifest = manifest_of({"large": [10**9] * 7, "middle": [12_207] * 1000, "small": [3, 0, 5]}, [(2**46, weights)])
    order = Order(manifest)
    offsets = np.arange(0, 3_000_000, 9_973)
    found = order.places(2**45, offsets)
    rows = zip(*(column.tolist() for column in astuple(found)), strict=True)
    assert list(rows) == [tuple(order.place(2**45 + int(offset))) for offset in offsets]


def test_another_seed_and_another_epoch_give_another_order():
    """The same seed gives the same order."""
    phases = [(600, {"a": 1})]
    orders = [Order(manifest_of({"a": [100, 100]}, phases), seed) for seed in (1, 1, 2)]
    first, again, other = ([order.place(sample)[3:] for sample in range(600)] for order in orders)
    assert first == again != other
    epochs = [tuple(first[start : start + 200]) for start in (0, 200, 400)]
    assert len(set(epochs)) == 3


def test_groups_of_the_same_shape_have_different_orders():
    """The name is part of the key."""
    order = Order(manifest_of({"a": [50, 50], "b": [50, 50]}, [(200, {"a": 1, "b": 1})]))
    rows = defaultdict(list)
    for sample in range(200):
        found = order.place(sample)
        rows[found.group].append(found[3:])
    assert rows[0] != rows[1]


def test_the_whole_order_is_the_one_that_was_fixed_with_format_1(tmp_path):
    """A change here loses and repeats samples of every existing run: it needs a new format_version."""
    corpus = Corpus(
        {"crawl/B": [40, 30, 35], "wiki/A": [12, 9], "code": [20]},
        [(500, {"crawl/B": 300, "wiki/A": 130, "code": 70}), (100, {"wiki/A": 3, "code": 1})],
        seed=1234567,
    )
    order = Order(read_manifest(corpus.write(tmp_path)))
    places = json.dumps([order.place(sample) for sample in range(order.samples)])
    assert (
        hashlib.sha256(places.encode()).hexdigest()
        == "4ec0659c3042abdb1406c041e44bf3bca0464227bc949ada2e03edfefec1d520"
    )


@given(groups_of, st.integers(0, 2**40), st.data())
@settings(max_examples=25, deadline=None)
def test_the_order_is_the_one_that_the_page_describes(tmp_path_factory, groups, seed, data):
    """docs/loader.md is enough to write a reader in another language."""
    some = st.dictionaries(
        st.sampled_from([name for name in groups if any(groups[name])]), st.integers(0, 30), min_size=1
    )
    phases = data.draw(
        st.lists(st.tuples(st.integers(1, 80), some.filter(lambda each: any(each.values()))), min_size=1)
    )
    path = Corpus(groups, phases[:4], seed=seed).write(tmp_path_factory.mktemp("page"))
    order = Order(read_manifest(path))
    names = [group.name for group in order.manifest.groups]
    places = (order.place(sample) for sample in range(order.samples))
    assert list(whole_order(path)) == [(names[place.group], *place[2:]) for place in places]


@settings(deadline=None, max_examples=30)
@given(st.dictionaries(st.sampled_from("abc"), sizes, min_size=1), st.integers(0, 60), st.integers(0, 60))
def test_the_samples_of_a_row_are_the_inverse_of_the_order(groups, first, second):
    """For every row of every shard, exactly the samples at that location are found."""
    weights = {name: number + 1 for number, name in enumerate(groups)}
    all_groups = tuple(
        Group(name, name, name, None, sum(counts), tuple(Shard("", "", "", count, 0, 0) for count in counts))
        for name, counts in groups.items()
    )
    phases = tuple(Phase(f"p{n}", count, weights, None) for n, count in enumerate((first, second)))
    order = Order(Manifest("", "", "", 3, {}, 8, 2, all_groups, phases, {}))
    drawn = defaultdict(list)
    for sample in range(order.samples):
        place = order.place(sample)
        drawn[place.group, place.shard, place.row].append(sample)
    for number, group in enumerate(all_groups):
        for shard, about in enumerate(group.shards):
            for row in range(about.samples):
                assert list(order.seen(number, shard, row)) == drawn[number, shard, row]
