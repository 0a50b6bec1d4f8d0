"""Tiers by condition and weights by level: the group of each document."""

import hashlib

import numpy as np
import pyarrow as pa
import pytest

from gristmill.errors import UserError
from gristmill.stages.shards import shard_groups
from gristmill.stages.shards.shard_groups import MOST_VALUES, Config, column_domain, group_name, parts_of


def batch_of(config, **columns):
    rows = len(next(iter(columns.values())))
    known = {
        "doc_id": pa.array([hashlib.md5(str(n).encode()).digest() for n in range(rows)], pa.binary(16)),
        "tokens.tokens": pa.array([10] * rows, pa.int64()),
        **{name.replace("__", "."): pa.array(values) for name, values in columns.items()},
    }
    names = shard_groups.STAGE.reads_of(config)
    return pa.RecordBatch.from_arrays([known[name] for name in names], names=list(names))


def groups(config, **columns):
    return shard_groups.apply(batch_of(config, **columns), config).column("group").to_pylist()


@pytest.mark.parametrize(
    ("source", "tier", "weight", "name"),
    [
        ("crawl", None, 1.0, "crawl"),
        ("crawl", "B", 1.0, "crawl/B"),
        ("a-b.c", "A", 0.25, "a-b.c/A@0.25"),
        ("x", None, 4.0, "x@4"),
    ],
)
def test_a_group_name_has_source_tier_and_weight(source, tier, weight, name):
    """The name can be parsed again."""
    assert group_name(source, tier, weight) == name
    assert parts_of(name) == (source, tier, weight)


def test_a_source_with_one_tier_is_one_group():
    """Only columns that every document has are read."""
    assert groups(Config(source="wiki", tier="A"), x=[1, 2]) == ["wiki/A", "wiki/A"]
    assert groups(Config(source="wiki"), x=[1]) == ["wiki"]


def test_the_first_condition_that_holds_decides():
    """A missing value satisfies no condition, so `else` applies."""
    config = Config(source="web", tiers=(("A", "q.score > 0.9"), ("B", "q.score > 0.5"), ("C", "else")))
    assert groups(config, q__score=[0.95, 0.6, 0.1, None, 0.9]) == ["web/A", "web/B", "web/C", "web/C", "web/B"]


def test_the_values_of_a_column_are_domains_or_tiers():
    """A missing or empty value is the source's domain and the default tier."""
    config = Config(
        source="web", domain_column="topic", tier_column="q.bucket", tier="C", weight="w", weight_levels=(1, 2)
    )
    columns = {"topic": ["math", "a_b-c.d", None, "", "math"], "q__bucket": [1, 2, 1, None, 2], "w": [1, 2, 1, 1, 1]}
    found = groups(config, **columns)
    assert found == ["web+math/1", "web+a_b-c.d/2@2", "web/1", "web/C", "web+math/2"]
    assert [column_domain(name) for name in found] == ["math", "a_b-c.d", None, None, "math"]
    assert [parts_of(name) for name in found][:2] == [("web", "1", 1.0), ("web", "2", 2.0)]


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ([f"v{number}" for number in range(MOST_VALUES + 1)], "more than 100 different values, such as v0 and v1"),
        ([[1], [2]], "holds list"),
        ([0.5, float("nan"), float("inf")], "holds double"),
        (["C", "C++"], r"has the value 'C\+\+'"),
        ([1, -1], "has the value '-1'"),
        (["a" * 51], "Use up to 50 letters"),
        (["日本"], "values become file names"),
    ],
)
def test_a_column_that_cannot_name_domains_is_refused(values, message):
    """Each value is a group with its own files, so thousands are a slip."""
    with pytest.raises(UserError, match=message):
        groups(Config(source="web", domain_column="url"), url=values)


def test_the_order_of_tiers_is_in_the_key():
    """Two configs that try their conditions in a different order are different configs."""
    one = Config(source="web", tiers=(("A", "q.x > 1"), ("B", "q.x > 0"), ("C", "else")))
    other = Config(source="web", tiers=(("B", "q.x > 0"), ("A", "q.x > 1"), ("C", "else")))
    assert one.model_dump_json() != other.model_dump_json()


def test_weights_are_rounded_to_levels_without_bias():
    """A weight between two levels is rounded to either, and the mean is the requested weight."""
    config = Config(source="web", weight="d.copies", weight_levels=(0.5, 1, 2, 4))
    for weight in (0.5, 0.8, 1.0, 1.7, 3.1, 4.0):
        found = [parts_of(name)[2] for name in groups(config, d__copies=[weight] * 20_000)]
        assert abs(np.mean(found) - weight) < 0.02
        assert len(set(found)) <= 2


def test_the_level_of_a_document_depends_on_it_alone():
    """It does not depend on the batch."""
    config = Config(source="web", weight="d.copies", weight_levels=(1, 2))
    batch = batch_of(config, d__copies=[1.5] * 100)
    whole = shard_groups.apply(batch, config).to_pylist()
    assert [shard_groups.apply(batch.slice(n, 1), config).to_pylist()[0] for n in range(100)] == whole


def test_weights_outside_the_levels_get_the_nearest_with_a_warning():
    """The counts of the groups are exact."""
    config = Config(source="web", tier="B", weight="d.copies", weight_levels=(1, 2))
    batch = batch_of(config, d__copies=[0.0, 9.0, 1.0, None])
    answers = shard_groups.apply(batch, config)
    assert answers.column("group").to_pylist() == ["web/B", "web/B@2", "web/B", "web/B"]
    found = shard_groups.metrics(batch, answers, config)
    assert found["groups"] == {
        "web": {"web/B": {"documents": 3, "tokens": 30}, "web/B@2": {"documents": 1, "tokens": 10}}
    }
    assert "2 documents have a weight outside 1 to 2" in shard_groups.warnings(found, config)[0]


def test_a_tier_without_documents_is_a_warning():
    """Law 7: nothing silently has no effect."""
    config = Config(source="web", tiers=(("A", "q.score > 0.9"), ("B", "else")))
    batch = batch_of(config, q__score=[0.1])
    found = shard_groups.metrics(batch, shard_groups.apply(batch, config), config)
    assert shard_groups.warnings(found, config) == ["no document has the tier A"]
