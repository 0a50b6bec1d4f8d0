"""Exact deduplication: the best of equal texts, by the keep order, stays."""

import random
from collections import defaultdict
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from exchanged import carry_out
from gristmill.kernels.dedup.keepers import keepers
from gristmill.stages.dedup import exact_dedup
from gristmill.stages.dedup.exact_dedup import Config
from gristmill.stages.shared.keep_order import KeepOrder, ranks
from lent_arrays import lent

documents = st.lists(
    st.fixed_dictionaries(
        {
            "text": st.none() | st.sampled_from(["", "a b", "a  b", "A b.", " a\nb ", "c", "C!", " "]),
            "source": st.sampled_from(["web", "wiki"]),
            "snapshot": st.none() | st.sampled_from(["2024", "2025"]),
            "timestamp": st.none() | st.integers(0, 3),
            "score": st.none() | st.sampled_from([0.5, 1.0]),
        }
    ),
    max_size=14,
)
configs = st.builds(
    Config,
    normalise=st.sampled_from(["none", "whitespace", "words"]),
    scope=st.sampled_from(["global", "snapshot", "source", "source_and_snapshot"]),
    keep=st.sampled_from(
        [KeepOrder(), KeepOrder(sources=("wiki", "web"), score="score"), KeepOrder(by=("date",), date="newest")]
    ),
)


def with_ids(rows):
    draw = random.Random(len(rows))
    return [{**row, "doc_id": draw.randbytes(16), "text_bytes": len((row["text"] or "").encode())} for row in rows]


def batch_of(rows, config):
    types = {
        "doc_id": pa.binary(16),
        "timestamp": pa.timestamp("us", "UTC"),
        "text_bytes": pa.int64(),
        "score": pa.float64(),
    }
    return pa.record_batch(
        {
            name: pa.array([row[name] for row in rows], types.get(name, pa.string()))
            for name in exact_dedup.reads(config)
        }
    )


def verdicts_of(rows, cuts, config, **ways):
    """The result of the stage by doc_id, for rows split into batches at `cuts`."""
    edges = [0, *sorted(cuts), len(rows)]
    cut = [rows[start:stop] for start, stop in pairwise(edges)]
    found = carry_out(exact_dedup, [batch_of(part, config) for part in cut], config, **ways)
    return {
        row["doc_id"]: tuple(answer.values())
        for part, answers in zip(cut, found, strict=True)
        for row, answer in zip(part, answers.to_pylist(), strict=True)
    }


def plain_key(row, config):
    """The key that makes two rows copies, in plain Python."""
    text = row["text"]
    if config.normalise == "whitespace":
        text = " ".join(text.split())
    elif config.normalise == "words":
        text = " ".join("".join(sign.lower() if sign.isalnum() else " " for sign in text).split())
    both = ("source", "snapshot")
    scopes = {"global": (), "snapshot": ("snapshot",), "source": ("source",), "source_and_snapshot": both}
    scope = scopes[config.scope]
    return tuple(row[name] for name in scope), text


def plainly(rows, config):
    """The oracle: groups in a dictionary, the keeper by rank."""
    groups = defaultdict(list)
    found = {}
    for row, rank in zip(rows, ranks(batch_of(rows, config), config.keep).to_pylist(), strict=True):
        found[row["doc_id"]] = (None, None, None)
        if row["text"] is not None:
            groups[plain_key(row, config)].append((rank, row["doc_id"]))
    for group in groups.values():
        keeper = min(group)[1]
        for _, doc_id in group:
            lost = (None, None) if doc_id == keeper else ("duplicate_text", f"of {keeper.hex()}")
            found[doc_id] = (len(group), *lost)
    return found


@given(documents, configs, st.randoms(use_true_random=False), st.data())
def test_verdicts_are_those_of_the_oracle_for_any_order_and_split(rows, config, draw, data):
    """The best of each group stays, for any order, batches, ranges of keys, and blocks that split a key."""
    rows = with_ids(rows)
    expected = plainly(rows, config)
    shuffled = list(rows)
    draw.shuffle(shuffled)
    cuts = data.draw(st.lists(st.integers(0, len(rows)), max_size=4))
    bits, limit = data.draw(st.sampled_from([0, 1, 3])), data.draw(st.sampled_from([None, 1, 500]))
    assert verdicts_of(shuffled, cuts, config, bits=bits, limit=limit) == expected


def test_exactly_one_of_each_group_stays():
    """A thousand copies of few texts, far more than a batch: one document of each text is left."""
    draw = random.Random(3)
    config = Config(scope="global", keep=KeepOrder(by=("length", "date"), length="shortest"))
    bodies = ["word " * size for size in range(50)]
    rows = with_ids(
        [
            {
                "text": draw.choice(bodies) + " " * draw.randrange(4),
                "timestamp": draw.choice([None, 5, 9]),
                "source": "s",
            }
            for _ in range(1200)
        ]
    )
    found = verdicts_of(rows, range(0, 1200, 170), config, bits=2, limit=4000)
    assert found == plainly(rows, config)
    assert sum(drop is None for _, drop, _ in found.values()) == len({row["text"].strip() for row in rows})


def test_equal_first_halves_are_distinguished_by_the_second():
    """Records with one key are one group only if the other 64 bits are also equal."""
    high = np.array([1, 1, 1, 1, 2, 2], np.uint64)
    low = np.array([7, 8, 7, 9, 7, 7], np.uint64)
    order = np.array([[0, 5], [0, 4], [0, 3], [0, 2], [1, 0], [0, 255]], np.uint8)
    best, sizes = keepers(*lent(high, low, order))
    assert best.tolist() == [2, 1, 2, 3, 5, 5]
    assert sizes.tolist() == [2, 1, 2, 1, 2, 2]


def test_rows_without_text_are_left_alone():
    """A null is not a text: it is not a copy of another null, nor of an empty text."""
    config = Config(keep=KeepOrder(by=()), scope="global")
    rows = with_ids([{"text": None}, {"text": None}, {"text": ""}, {"text": " "}])
    counts = [answer[0] for answer in verdicts_of(rows, (), config).values()]
    assert counts == [None, None, 2, 2]


def test_only_columns_that_the_config_needs_are_read():
    """Source and snapshot are read only if the scope separates them; no column is named twice."""
    assert exact_dedup.reads(Config(scope="global", keep=KeepOrder(by=()))) == ("text", "doc_id")
    several = exact_dedup.reads(Config(scope="source_and_snapshot", keep=KeepOrder(sources=("a",))))
    assert several == ("text", "source", "snapshot", "doc_id", "timestamp", "text_bytes")


def test_libraries_name_what_the_form_depends_on():
    """Bytes depend on nothing; white space and letters depend on the Unicode version."""
    assert exact_dedup.libraries(Config(normalise="none")) == ()
    assert exact_dedup.libraries(Config()) == ("unicode",)


@pytest.mark.parametrize(
    ("metrics", "said"),
    [
        ({"rows_sent": 100, "records": 100, "sources": {"web": {"rows_sent": 100, "dropped": {}}}}, ()),
        ({"rows_sent": 100, "records": 0}, ("no document has a text",)),
    ],
)
def test_warnings_are_only_about_odd_results(metrics, said):
    """A corpus without copies is fine; one without texts is not."""
    warned = exact_dedup.warnings(metrics, Config())
    assert len(warned) == len(said)
    assert all(line.startswith(start) for line, start in zip(warned, said, strict=True))
