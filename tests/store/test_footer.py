"""One footer for several Parquet files: a reader finds the columns of all of them."""

import io

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gristmill.store.footer import LayerFile, joined

KINDS = {
    "int": (pa.int64(), st.one_of(st.none(), st.integers(-(2**40), 2**40))),
    "text": (pa.string(), st.one_of(st.none(), st.text(max_size=9))),
    "flag": (pa.bool_(), st.booleans()),
    "id": (pa.binary(16), st.binary(min_size=16, max_size=16)),
    "list": (pa.list_(pa.float32()), st.one_of(st.none(), st.lists(st.floats(width=32, allow_nan=False), max_size=3))),
    "deep": (pa.struct([("a", pa.int32()), ("b", pa.list_(pa.string()))]), st.just({"a": 1, "b": ["x", None]})),
}


def written(table, group_rows):
    sink = io.BytesIO()
    pq.write_table(table, sink, row_group_size=group_rows, compression="zstd")
    return sink.getvalue()


@st.composite
def files(draw):
    rows = draw(st.integers(1, 20))
    made = []
    for number in range(draw(st.integers(1, 3))):
        kinds = draw(st.lists(st.sampled_from(sorted(KINDS)), min_size=1, max_size=6))
        columns = {}
        for at, kind in enumerate(kinds):
            values = draw(st.lists(KINDS[kind][1], min_size=rows, max_size=rows))
            columns[f"{kind}{at}"] = pa.array(values, KINDS[kind][0])
        made.append((f"web/step{number}", pa.table(columns)))
    return made, draw(st.integers(1, 12))


@settings(max_examples=25)
@given(files(), st.randoms())
def test_the_joined_file_has_the_columns_of_all_files(made, draw):
    """For any types, row groups and choice of columns, another Parquet reader returns the same values."""
    tables, group_rows = made
    data, layers, expected = b"", [], {}
    for name, table in tables:
        chosen = [one for one in table.column_names if draw.random() < 0.7] or table.column_names[:1]
        own = written(table, group_rows)
        layers.append(LayerFile(name, own, len(data), chosen))
        data += own
        expected.update({f"{name}.{one}": table[one] for one in chosen})
    found = pq.read_table(io.BytesIO(data + joined(layers)))
    assert found.column_names == list(expected)
    for name, column in expected.items():
        assert found[name].to_pylist() == column.to_pylist()


def test_files_with_different_rows_are_refused():
    one, other = (written(pa.table({"a": range(rows)}), 10) for rows in (20, 21))
    with pytest.raises(ValueError, match="different row groups"):
        joined([LayerFile("x", one, 0, ["a"]), LayerFile("y", other, len(one), ["a"])])
