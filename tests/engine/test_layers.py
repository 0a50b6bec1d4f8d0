"""Layers are aligned with their documents, and others are refused."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from gristmill.engine.work.borders import check_answers
from gristmill.errors import BrokenPromise
from gristmill.store.parquet import Misaligned, PartReader, PartWriter, join
from gristmill.store.store import Store


def documents_part(store, ids, groups=2):
    writer = PartWriter(pa.schema([("doc_id", pa.binary(16)), ("n", pa.int32())]))
    size = max(1, len(ids) // groups)
    for start in range(0, len(ids), size):
        some = ids[start : start + size]
        writer.write(
            pa.RecordBatch.from_arrays(
                [pa.array(some, pa.binary(16)), pa.array(range(len(some)), pa.int32())], names=["doc_id", "n"]
            )
        )
    return writer.close(store)


IDS = [bytes([number] * 16) for number in range(10)]


def test_rows_of_other_documents_are_refused(tmp_path):
    """Equal row counts are not enough: the hashes of the document ids must agree."""
    store = Store(str(tmp_path))
    ours, theirs = documents_part(store, IDS), documents_part(store, IDS[::-1])
    with pytest.raises(Misaligned):
        list(join([PartReader(store, ours), PartReader(store, theirs)], [(0, "n", "a"), (1, "n", "b")]))


def test_other_row_groups_are_refused(tmp_path):
    """The same rows in other groups would be joined at the wrong places."""
    store = Store(str(tmp_path))
    ours, theirs = documents_part(store, IDS), documents_part(store, IDS, groups=5)
    with pytest.raises(Misaligned):
        list(join([PartReader(store, ours), PartReader(store, theirs)], [(0, "n", "a"), (1, "n", "b")]))


def test_a_stage_that_drops_rows_is_refused():
    """Law 3: no stage deletes a document."""
    schema = pa.schema([("n", pa.int32())])
    short = pa.RecordBatch.from_arrays([pa.array([1, 2], pa.int32())], schema=schema)
    with pytest.raises(BrokenPromise, match="remove none"):
        check_answers(short, 3, "some.stage", schema)


def test_a_stage_that_writes_other_columns_than_promised_is_refused():
    """Readers of a layer rely on its schema."""
    schema = pa.schema([("n", pa.int32())])
    other = pa.RecordBatch.from_arrays([pa.array([1], pa.int32())], names=["m"])
    with pytest.raises(BrokenPromise, match="which its schema does not declare: n"):
        check_answers(other, 1, "some.stage", schema)


def test_every_layer_has_the_rows_of_its_documents(project):
    """Each layer of each part has a row for each document, even for dropped ones."""
    run = project.run()
    for (_, order), (document, _) in run.states["notes/ingest"].layers.items():
        for node_id in run.graph.chains["notes"]:
            if run.graph.nodes[node_id].has_layers:
                part, _ = run.states[node_id].layers["notes", order]
                path = project.store / "parts" / part.hash[:2] / f"{part.hash}.parquet"
                assert pq.read_metadata(path).num_rows == document.rows


def test_an_exchange_gives_what_a_plain_loop_gives(project):
    """Duplicates found by partition and returned to their rows equal those of a dictionary over all rows."""
    run = project.run()
    observed: dict[str, list[tuple[bytes, str | None, int | None]]] = {}
    from gristmill.query.documents.documents import rows

    for row in rows(run, "exact", None, None):
        alive_before = row.step in (None, "all/exact")
        if alive_before:
            entry = (row.fields["doc_id"], row.reason, row.columns["copies"])
            observed.setdefault(row.text, []).append(entry)
    assert any(len(copies) > 1 for copies in observed.values())
    for copies in observed.values():
        keeper = min(doc_id for doc_id, _, _ in copies)
        for doc_id, reason, count in copies:
            assert count == len(copies)
            assert reason == (None if doc_id == keeper else "duplicate")


def test_an_exchange_of_two_rounds_gives_what_a_plain_loop_gives(project):
    """Records that are sent twice return to the right rows."""
    run = project.run()
    from gristmill.query.documents.documents import rows

    found = [(len(row.text), row.columns["same_length"]) for row in rows(run, "two_rounds", False, None)]
    lengths = [length for length, _ in found]
    assert found
    assert all(count == lengths.count(length) for length, count in found)


def test_a_map_stage_can_use_a_fitted_model(project):
    """The model of a fit step reaches the step that names it."""
    run = project.run()
    from collections import Counter

    from gristmill.query.documents.documents import rows

    found = [(row.text, row.columns["rarest"]) for row in rows(run, "rarity", False, None)]
    counts = Counter(word for text, _ in found for word in text.split())
    assert found
    assert all(rarest == min(counts[word] for word in text.split()) for text, rarest in found)
