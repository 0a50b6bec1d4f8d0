"""The training sample of a quality model: a number of bytes of each side by a hash, for any cut, and its warnings."""

import hashlib
import random
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from exchanged import run_exchange
from gristmill.stages.doc_order import doc_order
from gristmill.stages.natural_languages import LABEL
from gristmill.stages.quality import sample, texts
from gristmill.stages.tokenizer.tokenizer_sample import TRAIN

SIDES = {"books": "positive", "tales": "positive", "crawl": "negative"}
SOURCES = ("books", "tales", "crawl", "other")
ROWS = 120


def corpus(seed=1, rows=ROWS):
    draw = random.Random(seed)
    found = [" ".join(["word"] * draw.randrange(60)) or None for _ in range(rows)]
    return pa.table(
        {
            "text": pa.array(found, pa.string()),
            "text_bytes": pa.array([None if text is None else len(text) for text in found], pa.int64()),
            "doc_id": pa.array([hashlib.md5(bytes([seed, n])).digest() for n in range(rows)], pa.binary(16)),
            "source": pa.array([draw.choice(SOURCES) for _ in range(rows)]),
            "url": pa.array([draw.choice((None, f"https://www.site{n % 7}.org/{n}")) for n in range(rows)]),
            "language_hint": pa.array([draw.choice((None, "en", "de")) for _ in range(rows)]),
        }
    )


CORPUS = corpus()


def taken(config, cuts=(), table=CORPUS, **ways):
    """The split of every row, and the counts."""
    bounds = [0, *sorted(cuts), len(table)]
    parts = [table.slice(a, b - a).combine_chunks() for a, b in pairwise(bounds)]
    layers, counts = run_exchange(sample, config, parts, **ways)
    return pa.concat_tables(layers)["split"].combine_chunks(), counts


def config_of(sample_bytes=900, seed=3):
    return sample.Config(sample_bytes=sample_bytes, sides=SIDES, seed=seed)


@pytest.mark.parametrize("sample_bytes", [1, 900, 10**6])
def test_each_side_gives_its_first_documents_by_hash_as_far_as_the_budget_goes(sample_bytes):
    """The oracle: all documents of a side in the order of the hash, until the next is too long. Other sources give
    none."""
    split, counts = taken(config_of(sample_bytes))
    hashes, ties = doc_order(CORPUS["doc_id"].combine_chunks(), 3)
    order = np.lexsort((ties, hashes))
    wanted = set()
    for side in ("positive", "negative"):
        through = 0
        rows = [row for row in order.tolist() if SIDES.get(CORPUS["source"][row].as_py()) == side]
        rows = [row for row in rows if CORPUS["text_bytes"][row].as_py()]
        for row in rows:
            through += CORPUS["text_bytes"][row].as_py()
            if through <= sample_bytes:
                wanted.add(row)
        found = [row for row in rows if row in wanted]
        messages = counts["domains"][side][TRAIN]
        assert messages == {"documents": len(found), "bytes": sum(CORPUS["text_bytes"][row].as_py() for row in found)}
    assert {row for row, value in enumerate(split.to_pylist()) if value is not None} == wanted
    assert set(split.drop_null().to_pylist()) <= {TRAIN}


@settings(max_examples=40)
@given(st.lists(st.integers(0, ROWS), max_size=6), st.integers(0, 4))
def test_the_sample_does_not_depend_on_parts_and_reducers(cuts, bits):
    split, counts = taken(config_of(), cuts, bits=bits)
    assert (split, counts) == WHOLE


WHOLE = taken(config_of())


def test_another_seed_takes_others_and_a_larger_budget_takes_more():
    small, large = WHOLE[0], taken(config_of(2000))[0]
    assert all(b is not None for a, b in zip(small.to_pylist(), large.to_pylist(), strict=True) if a is not None)
    assert not taken(config_of(seed=4))[0].equals(small)


def test_a_run_warns_about_a_side_without_text():
    """With the sources of the side."""
    assert sample.warnings(WHOLE[1], config_of()) == []
    table = CORPUS.filter(pa.array([source != "crawl" for source in CORPUS["source"].to_pylist()]))
    counts = taken(config_of(), table=table)[1]
    assert sample.warnings(counts, config_of()) == ["there is no text of crawl to train on (negative)"]
    messages = sample.warnings(taken(config_of(1))[1], config_of(1))
    assert messages == [
        "every document of crawl is larger than 1 byte (negative). Raise sample_bytes",
        "every document of books, tales is larger than 1 byte (positive). Raise sample_bytes",
    ]
    assert sample.explain(config_of()) == ["negative: 900 bytes", "positive: 900 bytes"]


TAKEN = texts.Config(name="edu", sides=SIDES)


def texts_of(table, split, label=None):
    columns = [table[name].combine_chunks() for name in texts.reads(TAKEN)[:-1]]
    names = [*texts.reads(TAKEN)[:-1], "quality_edu_sample.split"]
    more = [] if label is None else [label]
    return texts.apply(
        pa.RecordBatch.from_arrays([*columns, split, *more], names=[*names, *[LABEL] * len(more)]), TAKEN
    )


def test_the_layer_holds_the_sampled_documents_and_nulls():
    """Text, side, target and language of each; nulls for all others."""
    split = WHOLE[0]
    found = texts_of(CORPUS, split)
    assert found.schema == texts.SCHEMA
    rows = zip(CORPUS.to_pylist(), split.to_pylist(), found.to_pylist(), strict=True)
    for document, value, row in rows:
        if value is None:
            assert set(row.values()) == {None}
            continue
        side = SIDES[document["source"]]
        assert (row["sampled"], row["side"]) == (document["text"], side)
        assert row["target"] == {"positive": 1.0, "negative": 0.0}[side]
        assert row["language"] == document["language_hint"]
        assert row["group"] is not None


def test_a_measured_language_takes_precedence_over_the_hint():
    label = pa.array(["fr"] * ROWS)
    found = texts_of(CORPUS, WHOLE[0], label)
    assert set(found["language"].drop_null().to_pylist()) == {"fr"}
    assert found.drop_columns(["language"]).equals(texts_of(CORPUS, WHOLE[0]).drop_columns(["language"]))


def test_a_text_of_a_language_model_has_no_target():
    config = texts.Config(name="edu", sides={"books": "text"})
    table = CORPUS.filter(pa.array([source == "books" for source in CORPUS["source"].to_pylist()]))
    columns = [table[name].combine_chunks() for name in texts.reads(config)[:-1]]
    split = pa.array([TRAIN] * len(table))
    found = texts.apply(pa.RecordBatch.from_arrays([*columns, split], names=list(texts.reads(config))), config)
    assert set(found["side"].to_pylist()) == {"text"}
    assert found["target"].null_count == len(table) > 0


@given(st.lists(st.integers(0, ROWS), max_size=5))
def test_a_slice_gives_the_same_rows(cuts):
    """Groups are hashes of names, not numbers of a batch."""
    bounds = [0, *sorted(cuts), ROWS]
    parts = [texts_of(CORPUS.slice(a, b - a), WHOLE[0].slice(a, b - a)) for a, b in pairwise(bounds)]
    assert (
        pa.Table.from_batches(parts)
        .combine_chunks()
        .equals(pa.Table.from_batches([texts_of(CORPUS, WHOLE[0])]).combine_chunks())
    )


def test_pages_of_one_registered_domain_are_held_out_together():
    """Below a public suffix; without a URL, each text separately."""
    urls = [
        "https://www.mill.co.uk/a",
        "http://shop.mill.co.uk:8080/b",
        "https://other.co.uk/",
        "https://one.github.io/",
        "https://two.github.io/",
        None,
        None,
        "no address at all",
        "https://[::1]/",
    ]
    doc_id = pa.array([bytes([n] * 16) for n in range(len(urls))], pa.binary(16))
    found = texts.groups_of(pa.array(urls), doc_id).to_pylist()
    assert found[0] == found[1]
    assert len(set(found)) == len(urls) - 1
    assert None not in found
    none = texts.groups_of(pa.nulls(3, pa.string()), doc_id[:3])
    assert (none.null_count, len(set(none.to_pylist()))) == (0, 3)
    assert len(texts.groups_of(pa.array([], pa.string()), doc_id[:0])) == 0
