"""The index of a corpus: every key of every row is found again, and only there."""

import hashlib
import random

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from gristmill.kernels.dedup.shingles import word_tables
from gristmill.kernels.dedup.sketch import shingle_sets
from gristmill.stages.buffers import bytes_of
from gristmill.stages.select import index
from gristmill.stages.select.index import KINDS, IndexFile, write_file

ENTRY = st.tuples(
    st.integers(0, len(KINDS) - 1),
    st.one_of(st.integers(0, 3), st.integers(2**64 - 3, 2**64 - 1)),
    st.sampled_from([0, 5, 2**64 - 1]),
    st.integers(0, 2**32 - 1),
)


def as_columns(entries):
    kinds = (np.uint8, np.uint64, np.uint64, np.int64)
    return [np.array([entry[place] for entry in entries], kind) for place, kind in enumerate(kinds)]


@given(st.lists(ENTRY), st.randoms())
def test_a_search_finds_the_entries_of_a_full_scan_in_any_order(tmp_path_factory, entries, draw):
    path = tmp_path_factory.mktemp("index") / "one"
    write_file(path, *as_columns(entries))
    content = path.read_bytes()
    draw.shuffle(entries)
    write_file(path, *as_columns(entries))
    assert path.read_bytes() == content
    file = IndexFile(pa.py_buffer(content))
    for kind, name in enumerate(KINDS):
        for first, last in [(0, 2**64 - 1), (1, 2), (2**64 - 2, 2**64 - 1)]:
            found = file.search(name, first, last)
            plain = sorted((key, part, row) for of, key, part, row in entries if of == kind and first <= key <= last)
            assert list(zip(found.part.tolist(), found.row.tolist(), strict=True)) == [entry[1:] for entry in plain]


def texts(count, words):
    draw = random.Random(3)
    return [" ".join(str(draw.randrange(10**6)) for _ in range(words)) for _ in range(count)]


def test_a_sketch_has_all_small_shingles_and_at_least_the_smallest():
    column = pa.array([*texts(3, 4000), *texts(2, 30), "two words"])
    ends, values = shingle_sets(*bytes_of(column), index.NGRAM, word_tables())
    starts, keys = index.sketches(column)
    back = np.uint64(pow(int(index._SPREAD), -1, 2**64))
    for row in range(len(column)):
        every = values[ends[row] : ends[row + 1]].tolist()
        small = [value for value in every if value < 2**64 // 64]
        wanted = sorted({*small, *every[:16]})
        assert (keys[starts[row] : starts[row + 1]] * back).tolist() == wanted
    assert 40 < starts[1] < 100


def batch_of(rows):
    draw = random.Random(7)
    return pa.record_batch(
        {
            "doc_id": pa.array([draw.randbytes(16) for _ in range(rows)], pa.binary(16)),
            "url": pa.array([f"https://www.mill{n % 3}.co.uk/{n}" if n % 4 else None for n in range(rows)]),
            "text": pa.array([text if n % 5 else None for n, text in enumerate(texts(rows, 20))]),
            "corpus.drop": pa.array(["short" if n % 2 else None for n in range(rows)], pa.string()),
        }
    )


def test_dropped_documents_have_all_keys_but_those_of_texts():
    batch = batch_of(40)
    config = index.Config(source="mill")
    records = index.emit(batch, config, [{"set": 0, "of": 1}]).to_pylist()
    rows = {kind: {one["row"] for one in records if one["kind"] == place} for place, kind in enumerate(KINDS)}
    assert rows["doc_id"] == set(range(40))
    assert rows["url"] == rows["domain"] == {n for n in range(40) if n % 4}
    assert rows["content"] == rows["sketch"] == {n for n in range(40) if n % 5 and not n % 2}
    assert len({one["hash"] for one in records if one["kind"] == KINDS.index("domain")}) == 3
    digests = {int(hashlib.sha256(batch["text"][n].as_py().encode()).hexdigest()[:16], 16) for n in rows["content"]}
    assert {one["hash"] for one in records if one["kind"] == KINDS.index("content")} == digests


def test_sets_are_ranges_of_keys_and_together_equal_one_set():
    batch, config = batch_of(60), index.Config(source="mill")
    counts = {"funnel": {"records": 900_000, "kept": {"rows": 900_000, "text_bytes": 1}}}
    entries = index.layout(counts, config)["mill"]
    assert [len(entries), entries[-1]] == [16, {"set": 15, "of": 16}]
    assert index.layout({}, config) == {"mill": [{"set": 0, "of": 1}]}
    many, one = index.emit(batch, config, entries), index.emit(batch, config, entries[:1])
    assert set(one["key"].to_pylist()) == {0}
    assert many.drop_columns(["key"]) == one.drop_columns(["key"])
    assert [key >> 60 for key in many["hash"].to_pylist()] == many["key"].to_pylist()


def test_a_prefix_of_an_id_is_a_range_of_keys():
    ids = batch_of(50)["doc_id"]
    keys = index.id_keys(ids).tolist()
    assert [f"{key:016x}" for key in keys] == [one.hex()[:16] for one in ids.to_pylist()]
