"""The verdicts part of a part of rows: every byte that is read is verified, and nothing else is fetched."""

import random
from collections import Counter

import pyarrow as pa
import pytest
from fsspec.implementations.memory import MemoryFileSystem
from hypothesis import given, settings
from hypothesis import strategies as st

from gristmill.store import parquet
from gristmill.store.parquet import Misaligned, PartReader, PartWriter, join, open_parts
from gristmill.store.store import CorruptPart, Store
from gristmill.store.verdicts import SparsePart

SCHEMA = pa.schema(
    [
        ("doc_id", pa.binary(16)),
        ("words", pa.int32()),
        ("html", pa.string()),
        ("failed", pa.list_(pa.string())),
        ("drop", pa.string()),
        ("detail", pa.string()),
        ("text_bytes", pa.int64()),
    ]
)
GROUPS, ROWS = 4, 50


def batches(html=1500, drop="short", seed=1):
    """Row groups that consist mostly of incompressible markup."""
    draw = random.Random(seed)
    return [
        pa.RecordBatch.from_pylist(
            [
                {
                    "doc_id": bytes([group, row] * 8),
                    "words": row,
                    "html": draw.randbytes(html).hex(),
                    "failed": [f"{group}"] * (row % 3),
                    "drop": drop if row % 7 == group else None,
                    "detail": draw.randbytes(20).hex(),
                    "text_bytes": 2 * html,
                }
                for row in range(ROWS)
            ],
            schema=SCHEMA,
        )
        for group in range(GROUPS)
    ]


WHOLE = pa.Table.from_batches(batches())


def write(store, groups=None, identity=b""):
    writer = PartWriter(SCHEMA, identity)
    for batch in batches() if groups is None else groups:
        writer.write(batch)
    return writer.close(store)


@pytest.fixture
def fetched(monkeypatch):
    """Bytes read from a memory store, and the number of reads, by file suffix."""
    found = {"bytes": Counter(), "reads": Counter()}
    cat_file = MemoryFileSystem.cat_file

    def counted(self, path, start=None, end=None, **more):
        data = cat_file(self, path, start=start, end=end, **more)
        found["bytes"][path.rsplit(".", 1)[1]] += len(data)
        found["reads"][path.rsplit(".", 1)[1]] += 1
        return data

    monkeypatch.setattr(MemoryFileSystem, "cat_file", counted)
    return found


def stores(tmp_path):
    return Store(str(tmp_path / "local")), Store(f"memory://{tmp_path}")


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """The same part in a local store and in a memory store."""
    return [(store, write(store)) for store in stores(tmp_path_factory.mktemp("ranges"))]


@settings(max_examples=40)
@given(wanted=st.lists(st.sampled_from(SCHEMA.names), min_size=1, unique=True), near=st.sampled_from([0, 1 << 16]))
def test_columns_by_ranges_are_those_of_the_whole(wanted, near, written):
    """Any selection of columns, from a local or a remote store, read together or one by one."""
    expected = WHOLE.select(wanted).to_pylist()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("gristmill.store.verdicts.NEAR_BYTES", near)
        for store, part in written:
            at_once = join(open_parts(store, [part]), [(0, name, name) for name in wanted])
            assert [row for batch in at_once for row in batch.to_pylist()] == expected
            reader = PartReader(store, part)
            groups = [pa.table({name: reader.read_group(group, [name])[name] for name in wanted}) for group in range(4)]
            assert pa.concat_tables(groups).to_pylist() == expected
            assert PartReader(store, part).read(wanted).select(wanted).to_pylist() == expected


def test_no_more_is_fetched_than_is_read(tmp_path, fetched):
    """Reading verdicts and lengths fetches nothing of the part itself; a short column fetches a small share."""
    store = Store(f"memory://{tmp_path}")
    part = write(store)
    reader = PartReader(store, part)
    assert (sum(reader.groups), reader.rows_hash) == (GROUPS * ROWS, PartReader(store, part).rows_hash)
    reader.read(["drop", "text_bytes"])
    assert fetched["reads"] == {"verdicts": 2}
    assert part.verdicts.file_bytes < part.file_bytes / 50
    reader.read(["words"])
    assert fetched["reads"]["parquet"] == GROUPS
    assert fetched["bytes"]["parquet"] < part.file_bytes / 50
    reader.read(["words"])
    assert fetched["reads"]["parquet"] == GROUPS, "bytes that are here are not fetched again"


def test_neighbours_are_fetched_together(tmp_path, fetched):
    """One request per row group, not per column, if the gap between columns is small."""
    store = Store(f"memory://{tmp_path}")
    part = write(store)
    names = ["failed", "detail"]  # drop is between them and already here
    list(join([PartReader(store, part)], [(0, name, name) for name in names]))
    assert fetched["reads"]["parquet"] == GROUPS
    reader = PartReader(store, part)
    fetched["reads"].clear()
    reader.read(SCHEMA.names)
    assert fetched["reads"]["parquet"] == 1


def damaged(store, part, column):
    """Flip a bit in every chunk of a column without changing size or name."""
    opened = SparsePart(store, part)
    data = bytearray(store.fs.cat_file(store.part_path(part)))
    for chunk in opened.chunks:
        if chunk.is_of([column]):
            data[(chunk.start + chunk.stop) // 2] ^= 1
    store.fs.pipe_file(store.part_path(part), bytes(data))


@pytest.mark.parametrize("column", ["words", "failed", "html"])
def test_damage_is_found_where_it_is_read_and_nowhere_else(tmp_path, column):
    """A chunk is compared with its hash when it is used; bytes in the gap between two chunks are not used."""
    store = Store(f"memory://{tmp_path}")
    part = write(store)
    damaged(store, part, column)
    others = [name for name in SCHEMA.names if name != column]
    assert PartReader(store, part).read(others).num_rows == GROUPS * ROWS
    with pytest.raises(CorruptPart, match="does not match the hash of a column chunk") as found:
        PartReader(store, part).read_group(2, [column])
    assert found.value.part_hash == part.hash


def test_a_local_part_is_hashed_as_a_whole_when_much_of_it_is_read(tmp_path):
    """A small column is compared with its own hash, and verdicts need neither check."""
    store = Store(str(tmp_path))
    part = write(store)
    path = tmp_path / "parts" / part.hash[:2] / f"{part.hash}.parquet"
    path.chmod(0o644)
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    assert PartReader(store, part).read(["drop"]).num_rows == GROUPS * ROWS
    assert PartReader(store, part).read(["words"]).num_rows == GROUPS * ROWS
    with pytest.raises(CorruptPart, match="does not match its hash"):
        PartReader(store, part).read(["words", "html"])
    path.write_bytes(bytes(byte ^ 1 for byte in data))
    assert PartReader(store, part).read(["drop"]).num_rows == GROUPS * ROWS
    with pytest.raises(CorruptPart, match="does not match the hash of a column chunk"):
        PartReader(store, part).read(["words"])


@pytest.mark.parametrize("damage", ["flip", "cut", "gone"])
def test_damaged_verdicts_are_not_trusted(tmp_path, damage):
    """The error names the verdicts part, not the part of rows."""
    for store in stores(tmp_path):
        part = write(store)
        path = store.part_path(part.verdicts.part)
        data = bytearray(store.fs.cat_file(path))
        data[len(data) // 2] ^= 1
        if damage == "gone":
            store.fs.rm_file(path)
        else:
            store.unmark(path[len(store.root) + 1 :])
            store.fs.pipe_file(path, bytes(data if damage == "flip" else data[:-9]))
        with pytest.raises(CorruptPart) as found:
            PartReader(store, part)
        assert found.value.part_hash == part.verdicts.hash


def test_verdicts_of_another_part_are_not_trusted(tmp_path):
    """They match their own name, but not the record."""
    store = Store(str(tmp_path))
    ours, theirs = write(store), write(store, batches(drop="long"))
    mixed = parquet.replace(ours, verdicts=parquet.replace(theirs.verdicts, drop=ours.verdicts.drop))
    with pytest.raises(CorruptPart, match="verdicts that differ"):
        PartReader(store, mixed)


def test_a_read_of_what_was_not_fetched_is_an_error(tmp_path):
    """It never returns zeros or the bytes of a neighbour."""
    store = Store(f"memory://{tmp_path}")
    reader = PartReader(store, write(store))
    with pytest.raises(EOFError, match="were not fetched"):
        reader._file.read_row_group(0, columns=["words"])
    reader.read_group(0, ["words"])
    with pytest.raises(EOFError, match="were not fetched"):
        reader._file.read_row_group(1, columns=["words"])


def test_a_part_without_verdicts_is_read_as_a_whole(tmp_path, fetched):
    """Earlier versions wrote such parts."""
    store = Store(f"memory://{tmp_path}")
    part = parquet.replace(write(store), verdicts=None)
    assert PartReader(store, part).read(["words"]).num_rows == GROUPS * ROWS
    assert fetched["bytes"] == {"parquet": part.file_bytes}


def test_the_hash_of_verdicts_is_of_rows_and_drop_alone(tmp_path):
    """A different text keeps the hash; a different reason, document or row group changes it."""
    store = Store(str(tmp_path))
    one = write(store)
    other_text = write(store, batches(html=900, seed=2))
    assert other_text.hash != one.hash
    assert other_text.verdicts.drop == one.verdicts.drop
    parted = [half for batch in batches() for half in (batch.slice(0, 20), batch.slice(20))]
    differ = [write(store, batches(drop="long")), write(store, identity=b"another"), write(store, parted)]
    assert len({one.verdicts.drop, *(part.verdicts.drop for part in differ)}) == 4


def test_misaligned_layers_are_refused_by_their_verdicts_alone(tmp_path):
    """The verdicts parts have the row hashes and the row groups."""
    store = Store(str(tmp_path))
    ours, theirs = write(store), write(store, identity=b"another")
    with pytest.raises(Misaligned):
        list(join(open_parts(store, [ours, theirs]), [(0, "drop", "a"), (1, "drop", "b")]))


def test_a_part_without_rows_has_verdicts_too(tmp_path):
    for store in stores(tmp_path):
        part = write(store, [])
        assert PartReader(store, part).groups == []
        assert list(join(open_parts(store, [part]), [(0, "html", "html")])) == []
