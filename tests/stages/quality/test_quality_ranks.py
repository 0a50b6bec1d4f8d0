"""Ranks equal those of a plain sort of all documents, for any parts, reducers and memory."""

import hashlib
import itertools
import math
import random

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from exchanged import run_exchange
from gristmill.stages.doc_order import doc_order
from gristmill.stages.quality import quality_ranks
from gristmill.stages.quality.quality_ranks import Config, _ranges

ROUND = [0.0, 1.0, 0.5, -0.0, 3.0, -2.0, None, float("nan")]
SCORES = st.one_of(
    st.sampled_from([*ROUND, 0.3, np.nextafter(1, 0), np.nextafter(0.5, 0), 1e-30, -1e-30, float("inf"), 0.018112]),
    st.floats(0, 1, width=32),
    st.floats(allow_nan=False),
)
DOCUMENTS = st.lists(
    st.tuples(
        SCORES, st.sampled_from(["en", "de", "sw", None]), st.sampled_from(["crawl", "books"]), st.integers(0, 9)
    ),
    max_size=60,
)


def table_of(documents):
    scores, languages, sources, sizes = zip(*documents, strict=True) if documents else ((), (), (), ())
    return pa.table(
        {
            "quality.edu": pa.array(scores, pa.float64()),
            "language.label": pa.array(languages, pa.string()),
            "source": pa.array(sources, pa.string()),
            "text_bytes": pa.array(sizes, pa.int64()),
            "doc_id": pa.array([hashlib.md5(b"%d" % n).digest() for n in range(len(scores))], pa.binary(16)),
        }
    )


def cut_at(table, places):
    bounds = [0, *sorted(places), table.num_rows]
    return [table.slice(a, b - a).combine_chunks() for a, b in itertools.pairwise(bounds)]


def oracle(table, config, group):
    """How much is below each row, and in its group, by sorting everything."""
    hashes, ties = doc_order(table.column("doc_id").combine_chunks(), config.seed)
    rows = table.to_pylist()
    found = [(None, None)] * len(rows)
    for name in {group(row) for row in rows}:
        ranked = [n for n, row in enumerate(rows) if group(row) == name and row["quality.edu"] is not None]
        ranked = [n for n in ranked if math.isfinite(rows[n]["quality.edu"])]
        ranked.sort(key=lambda n: (rows[n]["quality.edu"], hashes[n], ties[n]))
        weight = {n: 1 if config.by == "documents" else rows[n]["text_bytes"] for n in ranked}
        below = 0
        for n in ranked:
            found[n] = (below, sum(weight.values()))
            below += weight[n]
    return found


def ranked(table, config, places=(), **ways):
    layers, _ = run_exchange(quality_ranks, config, cut_at(table, places), **ways)
    return [(row["below"], row["total"]) for layer in layers for row in layer.to_pylist()]


GROUPS = {
    (): lambda row: 0,
    ("language",): lambda row: row["language.label"],
    ("language", "source"): lambda row: (row["language.label"], row["source"]),
}


@given(
    DOCUMENTS,
    st.sampled_from(list(GROUPS)),
    st.sampled_from(["documents", "bytes"]),
    st.lists(st.integers(0, 60), max_size=4),
    st.integers(0, 3),
    st.sampled_from([None, 200, 1000]),
    st.integers(0, 5),
)
def test_ranks_are_those_of_a_sort(documents, per, by, places, bits, limit, seed):
    """Ties, nulls, NaN, groups of one document, keys in pieces: below and total equal the oracle's."""
    table = table_of(documents)
    config = Config(score="quality.edu", per=per, by=by, seed=seed)
    places = [place for place in places if place <= len(documents)]
    assert ranked(table, config, places, bits=bits, limit=limit) == oracle(table, config, GROUPS[per])


@given(st.lists(st.tuples(st.floats(allow_nan=False), st.integers(0, 2**64 - 1)), min_size=2, max_size=30))
def test_ranges_rise_with_score_and_hash(pairs):
    """A document of a lower range always comes before one of a higher range."""
    pairs = sorted((score + 0.0, hashed) for score, hashed in pairs)
    scores, hashes = np.array([one for one, _ in pairs]), np.array([one for _, one in pairs], np.uint64)
    assert (np.diff(_ranges(scores, hashes).astype(np.int64)) >= 0).all()


def test_scores_near_0_and_1_are_spread_over_many_ranges():
    """As classifiers give them: nearly all within 1e-3 of 0 or 1, and many exactly 0 or 1."""
    draw = np.random.default_rng(1)
    low = draw.exponential(1e-4, 30_000)
    scores = np.concatenate((low, 1 - low, np.zeros(30_000), np.ones(30_000))).astype(np.float32).astype(np.float64)
    hashes = draw.integers(0, 2**64 - 1, len(scores), np.uint64, endpoint=True)
    fullest = np.unique(_ranges(scores, hashes), return_counts=True)[1].max()
    assert fullest < len(scores) / 200


@pytest.mark.parametrize("share", [0.9, 0.5, 0.05, 0.999])
def test_the_requested_share_of_every_group_is_kept_to_one_document(share):
    draw = random.Random(share)
    languages = ["en"] * 700 + ["de"] * 33 + ["sw"] * 7 + ["is"]
    documents = [(draw.choice([draw.random(), 0.25, 1.0]), language, "crawl", 1) for language in languages]
    found = ranked(table_of(documents), Config(score="quality.edu", per=("language",)), (100, 350), bits=2)
    for language in set(languages):
        kept = sum(b / t >= share for (b, t), one in zip(found, languages, strict=True) if one == language)
        assert abs(kept - (1 - share) * languages.count(language)) <= 1


def test_another_seed_changes_the_order_of_equal_scores():
    table = table_of([(0.5, "en", "crawl", 1)] * 40)
    assert ranked(table, Config(score="quality.edu")) != ranked(table, Config(score="quality.edu", seed=1))
    assert sorted(ranked(table, Config(score="quality.edu"))) == [(n, 40) for n in range(40)]
