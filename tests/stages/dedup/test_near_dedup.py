"""Near duplicates: links are exact, results do not depend on the order, and the work is bounded."""

import hashlib
import itertools
import random
import re
from collections import Counter

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from exchanged import one_round, run_step
from gristmill.stages.dedup import near_candidates, near_dedup
from gristmill.stages.dedup.near_dedup import Config
from gristmill.stages.shared.keep_order import KeepOrder
from gristmill.stages.shared.s_curve import curve_in_short, curve_lines, halfway, probability

WORDS = [f"{a}{b}" for a in ("mill", "corn", "stone", "sieve", "wheel", "sack", "dust") for b in "abcdefghijklmnop"]


def shingles(text, ngram=5):
    words = re.findall(r"\w+", text.lower())
    if len(words) < ngram:
        return {("short", *words)} if words else {("bytes", text.strip())}
    return {tuple(words[at : at + ngram]) for at in range(len(words) - ngram + 1)}


def jaccard(one, other):
    one, other = shingles(one), shingles(other)
    return len(one & other) / len(one | other)


def families(seed, number=25):
    """Texts in families of copies with some words changed, and unrelated texts."""
    draw = random.Random(seed)
    texts = []
    for _ in range(number):
        words = draw.choices(WORDS, k=draw.randint(30, 200))
        texts.append(" ".join(words))
        for _ in range(draw.randint(0, 4)):
            words = list(words)
            for _ in range(draw.randint(0, 4)):
                words[draw.randrange(len(words))] = draw.choice(WORDS)
            texts.append(" ".join(words))
    return texts


def table(texts, snapshots=None, sources=None):
    ids = [hashlib.md5(f"{number} {text}".encode()).digest() for number, text in enumerate(texts)]
    return pa.table(
        {
            "doc_id": pa.array(ids, pa.binary(16)),
            "text": pa.array(texts, pa.string()),
            "text_bytes": pa.array([len((text or "").encode()) for text in texts], pa.int64()),
            "source": pa.array(sources or ["s"] * len(texts)),
            "snapshot": pa.array(snapshots or ["1"] * len(texts)),
            "timestamp": pa.array([None] * len(texts), pa.timestamp("us", tz="UTC")),
        }
    )


def verdicts(documents, config, cuts=(), order=None, **ways):
    """doc_id -> its row of the layer, for the given parts and order of documents."""
    if order is not None:
        documents = documents.take(pa.array(order))
    bounds = [0, *sorted(cuts), documents.num_rows]
    parts = [documents.slice(start, stop - start).combine_chunks() for start, stop in itertools.pairwise(bounds)]
    layers, counts = run_step(near_dedup, config, parts, **ways)
    found = {}
    for part, layer in zip(parts, layers, strict=True):
        found.update(zip(part["doc_id"].to_pylist(), layer.to_pylist(), strict=True))
    return found, counts


def components(texts, ids, threshold):
    """The cluster of every document that has one, by comparing all pairs."""
    parent = {name: name for name in ids}

    def root(name):
        while parent[name] != name:
            name = parent[name]
        return name

    for (one, text), (other, its) in itertools.combinations(zip(ids, texts, strict=True), 2):
        if jaccard(text, its) >= threshold:
            parent[root(one)] = root(other)
    return {name: frozenset(other for other in ids if root(other) == root(name)) for name in ids}


@pytest.mark.parametrize("sketch", ["fast", "minhash"])
def test_clusters_are_those_of_all_pairs(sketch):
    """If every pair over the threshold is a candidate, clusters are the components of all verified pairs."""
    texts = families(1)
    documents = table(texts)
    ids = documents["doc_id"].to_pylist()
    found, counts = verdicts(documents, Config(bands=40, rows=3, sketch=sketch, verify_jaccard=0.7))
    expected = components(texts, ids, 0.7)
    for name in ids:
        mates = expected[name]
        if len(mates) == 1:
            assert found[name]["cluster"] is None
            assert found[name]["drop"] is None
        else:
            assert found[name]["cluster_size"] == len(mates)
            assert {other for other in ids if found[other]["cluster"] == found[name]["cluster"]} == mates
    assert counts["clusters"] == len({mates for mates in expected.values() if len(mates) > 1})


def test_every_removed_document_is_verified():
    """Every link is a pair that is similar enough, and links connect each removed document to its keeper."""
    texts = families(2, 60)
    documents = table(texts)
    of = dict(zip(documents["doc_id"].to_pylist(), texts, strict=True))
    found, counts = verdicts(documents, Config())
    removed = {name: row for name, row in found.items() if row["drop"]}
    assert removed
    reached = {name: name for name in of}
    for name, row in found.items():
        for other, similarity in zip(row["linked_to"] or (), row["similarity"] or (), strict=True):
            assert jaccard(of[name], of[other]) == pytest.approx(similarity, abs=1e-6)
            assert similarity >= 0.8
            old, new = reached[other], reached[name]
            reached = {key: new if value == old else value for key, value in reached.items()}
    for name, row in removed.items():
        assert reached[name] == reached[row["cluster"]]
        assert found[row["cluster"]]["drop"] is None
        assert row["chain"] >= 1
        assert row["detail"].startswith(f"of {row['cluster'].hex()}, Jaccard {row['similarity'][0]:.3f}")
    assert sum(counts["chains"].values()) == len(removed)


def test_the_keeper_is_the_best_by_the_keep_order():
    """By default the longest document stays; if given, the priority of sources comes first."""
    long = " ".join(WORDS)
    texts = [long, long + " and one more", long + " and yet two more"]
    kept = [row for row in verdicts(table(texts), Config(scope="global"))[0].items() if row[1]["drop"] is None]
    documents = table(texts, sources=["web", "wiki", "web"])
    assert [name for name, _ in kept] == [documents["doc_id"][2].as_py()]
    order = KeepOrder(sources=("wiki", "web"))
    found, _ = verdicts(documents, Config(scope="global", keep=order))
    assert [name for name, row in found.items() if row["drop"] is None] == [documents["doc_id"][1].as_py()]


@settings(max_examples=6, deadline=None)
@given(st.integers(0, 2**32), st.data())
def test_order_and_parts_change_nothing(seed, data):
    """Any order of documents and any split into parts, ranges and blocks gives every document the same verdict."""
    documents = table(families(seed, 6))
    number = documents.num_rows
    first, first_counts = verdicts(documents, Config())
    order = data.draw(st.permutations(range(number)))
    cuts = data.draw(st.sets(st.integers(0, number), max_size=5))
    again, counts = verdicts(documents, Config(), cuts, order)
    assert again == first
    assert counts == first_counts
    assert verdicts(documents, Config(), cuts, order, bits=2) == (first, first_counts)
    assert verdicts(documents, Config(), cuts, order, limit=1000) == (first, first_counts)


def test_scope_keeps_snapshots_and_sources_apart():
    """Copies are found within a snapshot of any source by default; within a source, or everywhere, if set."""
    text = " ".join(WORDS)
    documents = table([text] * 4, snapshots=["1", "1", "2", "1"], sources=["a", "a", "a", "b"])
    dropped = {
        scope: sum(row["drop"] is not None for row in verdicts(documents, Config(scope=scope))[0].values())
        for scope in ("snapshot", "source", "source_and_snapshot", "global")
    }
    assert dropped == {"snapshot": 2, "source": 2, "source_and_snapshot": 1, "global": 3}


def test_short_documents_are_compared_too():
    """Texts of fewer words than a shingle, or of none, are duplicates if they are equal."""
    texts = ["Grind corn", "grind  CORN!", "grind rye", "***", " *** ", "###", "", ""]
    found = list(verdicts(table(texts), Config())[0].values())
    clusters = [row["cluster"] for row in found]
    assert clusters[0] == clusters[1] is not None
    assert clusters[3] == clusters[4] is not None
    assert clusters[6] == clusters[7] is not None
    assert clusters[2] is clusters[5] is None
    assert len({clusters[0], clusters[3], clusters[6]}) == 3


def test_a_large_bucket_is_compared_with_representatives():
    """With many documents in one bucket, comparisons grow linearly, and copies are still found."""
    draw = random.Random(5)
    shared = "this page is brought to you by the mill and its friends"
    counted = []
    for number in (400, 800):
        texts = [f"{shared} {' '.join(draw.choices(WORDS, k=60))}" for _ in range(number)]
        texts += [texts[0] + " again"] * 40
        # One band of one row: about one document in seven shares each bucket, for any text.
        config = Config(bands=1, rows=1, max_bucket=32, max_comparisons=20)
        found, counts = verdicts(table(texts), config)
        assert counts["texts_compared"] <= 4 * len(texts)
        assert counts["comparisons"] <= 20 * counts["texts_compared"]
        counted.append(counts["comparisons"])
        copies = [row for row in list(found.values())[number:] if row["drop"]]
        assert len(copies) >= 39
    assert counted[1] < 3 * counted[0]
    assert near_dedup.warnings({"budgets_used_up": 7, **counts}, config)
    warned = near_candidates.warnings({"buckets_over_cap": {"buckets": 1, "places": 400}}, config)
    assert "1 bucket has more than max_bucket (32) documents" in warned[0]
    assert near_candidates.warnings({}, config) == ()


def test_the_s_curve_is_that_of_the_formula():
    """14 bands of 8 rows find 0.924 of the pairs with a similarity of 0.8, and the plan shows it."""
    assert probability(0.8, 14, 8) == pytest.approx(0.924, abs=5e-4)
    assert probability(halfway(14, 8), 14, 8) == pytest.approx(0.5)
    lines = curve_lines(14, 8, 0.8)
    assert max(map(len, (*lines, *curve_in_short(14, 8, 0.8125)))) <= 60  # columns of a narrow window
    assert [len(curve_in_short(14, 8, 0.8)), "0.68" in curve_in_short(14, 8, 0.8)[0]] == [2, True]
    marked = [line for line in lines if "verify_jaccard" in line]
    assert len(marked) == 1
    assert "0.80" in marked[0]
    assert "92.35%" in marked[0]


def test_a_bucket_in_pieces_is_split_like_a_whole_one():
    """A bucket that is too large for memory is reduced in pieces with the same groups, representatives and counts."""
    draw = np.random.default_rng(5)
    documents = draw.integers(0, 2**64, 3000, np.uint64)
    config = near_candidates.Config(max_bucket=100)
    records = pa.table(
        {
            "key": np.full(3000, 7, np.uint64),
            "part": draw.integers(0, 5, 3000).astype(np.uint64),
            "row": np.arange(3000),
            "document": documents,
        }
    )
    (whole,), counts = one_round(near_candidates, "buckets", config, [records], {})
    assert counts["buckets_over_cap"]["buckets"] == 1
    order = [("row", "ascending"), ("group", "ascending")]
    for limit in (8_000, 50_000):
        pieces, of_pieces = one_round(near_candidates, "buckets", config, [records], {}, limit=limit)
        assert len(pieces) > 1
        assert pa.concat_tables(pieces).sort_by(order).equals(whole.sort_by(order))
        assert of_pieces == counts
    chunks = Counter(whole.filter(pc.invert(whole["leads"]))["group"].to_pylist())
    assert len(chunks) == 32
    assert max(chunks.values()) < 2 * config.max_bucket
    leads = whole.filter(whole["leads"])
    assert sorted(set(leads["key"].to_pylist())) == sorted(documents.tolist())[:16]
    assert leads.num_rows == 16 * 32
