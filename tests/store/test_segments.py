"""Exchange files: a reader fetches the table and its own segments, and verifies all bytes that it reads."""

import pickle

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gristmill.store.segments import (
    SegmentTable,
    read_segments,
    read_span,
    read_table,
    write_segments,
)
from gristmill.store.store import CorruptPart, Store


@pytest.fixture
def store(tmp_path):
    return Store(str(tmp_path / "store"))


def numbers(*values):
    return pa.table({"a": list(values)})


def damage(store, file, offset):
    content = bytearray(bytes(store.get_part(file.part)))
    content[offset] ^= 1
    store.remove_part(file.part)
    store.fs.pipe_file(store.part_path(file.part), bytes(content))


def test_segments_are_read_and_checked_one_by_one(store):
    """A reader fetches its own segment; it detects damage there and does not notice damage elsewhere."""
    file = write_segments(store, [(n, numbers(*range(n * 10))) for n in range(4)])
    table = read_table(store, file)
    assert table["to"].tolist() == [1, 2, 3], "an empty segment is not written"
    assert table["rows"].tolist() == [10, 20, 30]
    found = SegmentTable([file], [table])
    assert next(read_segments(store, [found.to(2)[0]])).column("a").to_pylist() == list(range(20))
    damage(store, file, found.to(3)[0].offset + 20)
    assert next(read_segments(store, [found.to(2)[0]])).num_rows == 20
    assert [one.num_rows for one in read_span(store, file, 0, 2)] == [10, 20]
    with pytest.raises(CorruptPart):
        next(read_segments(store, [found.to(3)[0]]))
    with pytest.raises(CorruptPart):
        list(read_span(store, file, 2, 3))


def test_a_damaged_table_is_found(store):
    """The hash of the table is in the task record, not in the file."""
    file = write_segments(store, [(1, numbers(1)), (2, numbers(2))])
    damage(store, file, file.part.file_bytes - 5)
    with pytest.raises(CorruptPart, match="table of segments"):
        read_table(store, file)
    with pytest.raises(CorruptPart, match="table of segments"):
        list(read_span(store, file, 1, 2))


def test_a_file_without_segments_is_a_file(store):
    file = write_segments(store, [])
    assert file.segments == 0
    assert len(read_table(store, file)) == 0
    assert list(read_span(store, file, 0, 63)) == []
    assert list(SegmentTable([file], [read_table(store, file)]).to(0, 63)) == []


def test_a_span_is_read_at_once(store, monkeypatch):
    """Segments of neighbouring destinations are adjacent: one request for the table, one for all of them."""
    file = write_segments(store, [(n, numbers(n)) for n in range(64)])
    requests = []
    whole = store.get_range
    monkeypatch.setattr(store, "get_range", lambda *about: requests.append(about) or whole(*about))
    assert [table["a"][0].as_py() for table in read_span(store, file, 10, 41)] == list(range(10, 42))
    assert len(requests) == 2


@settings(max_examples=50, deadline=None)
@given(st.lists(st.dictionaries(st.integers(0, 2**64 - 1), st.integers(1, 5), max_size=5), max_size=5))
def test_segments_are_found_by_destination_in_the_order_of_their_files(tmp_path_factory, sent):
    store = Store(str(tmp_path_factory.mktemp("store")))
    files, expected = [], {}
    for number, rows in enumerate(sent):
        files.append(write_segments(store, [(to, numbers(*[number] * rows[to])) for to in sorted(rows)]))
        for to in sorted(rows):
            expected.setdefault(to, []).append([number] * rows[to])
    table = SegmentTable(files, [read_table(store, file) for file in files])
    assert table.destinations() == sorted(expected)
    known, sizes = table.sizes()
    assert known.tolist() == sorted(expected)
    assert sizes.tolist() == [8 * sum(map(len, expected[to])) for to in sorted(expected)]
    for to in expected:
        segments = pickle.loads(pickle.dumps(table.to(to)))
        assert [next(read_segments(store, [one]))["a"].to_pylist() for one in segments] == expected[to]
        assert segments.hashes == [one.hash for one in segments]
        assert segments.memory == sum(one.memory for one in segments)
    if expected:
        first, last = min(expected), max(expected)
        assert len(table.to(first, last)) == sum(map(len, expected.values()))
    assert len(table.to(12345)) == len(expected.get(12345, []))
