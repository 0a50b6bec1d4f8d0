"""Exchange: records leave their parts by key, are worked on by partition, and answers come back to their rows.

    emit     a part        -> one file with a segment for each partition
    reduce   a partition   -> one file with a segment for each partition of the next round, or for each part
    collect  a part        -> an aligned layer

A record carries where it came from: `part` (from the rows mark) and `row`. Rows of a reduce come sorted by key, part
and row, so that the order in which tasks finish shows nowhere.
"""

import importlib
from collections.abc import Iterable

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from gristmill.engine.work.borders import check_emitted, check_places, check_round
from gristmill.engine.work.rows import count_reasons, mark_crashed, model_paths, read_batches
from gristmill.engine.work.task import Collect, Emit, Reduce, Result, add_counts, layer_schema
from gristmill.errors import BrokenPromise
from gristmill.kernels.hash.radix import sort_order
from gristmill.stages.stage_interface import schema_of
from gristmill.store.parquet import PartReader, PartWriter
from gristmill.store.segments import Segment, read_segment, write_segments
from gristmill.store.store import Store


def part_number(rows_mark: str) -> int:
    """How records name the part that they came from."""
    return int(rows_mark[:16], 16)


def perform_emit(work: Emit, store: Store, probe: bool) -> Result:
    module = importlib.import_module(work.module)
    models = model_paths(work.models, store)
    rows_mark, batches = read_batches(work, store)
    tables = []
    seen = 0
    metrics = {"rows_sent": 0, "records": 0}
    for batch in batches:
        records = module.emit(batch.columns, work.config, **models)
        records = check_emitted(records, batch.columns.num_rows, work.module, module.RECORD_SCHEMA)
        if probe:
            seen += batch.columns.num_rows
            continue
        visible = np.flatnonzero(batch.seen) + batch.first_row
        origin = visible[records.column("row").to_numpy()]
        place = records.schema.get_field_index("row")
        records = records.set_column(place, "row", pa.array(origin, pa.int64()))
        part = pa.array(np.full(records.num_rows, part_number(rows_mark), np.uint64))
        tables.append(pa.Table.from_batches([records.append_column("part", part)]))
        add_counts(metrics, {"rows_sent": batch.columns.num_rows, "records": records.num_rows})
    if probe:
        return Result(values=[seen])
    by_partition = _by_partition(pa.concat_tables(tables), work.partitions) if tables else []
    file, segments = write_segments(store, by_partition)
    return Result([file], segments, [rows_mark], metrics)


def perform_reduce(work: Reduce, store: Store) -> Result:
    module = importlib.import_module(work.module)
    try:
        records = read_all(work.segments, store)
    except pa.ArrowInvalid as error:
        raise BrokenPromise(
            f"The round before {work.module}.{work.function} wrote other columns for one partition than for another "
            f"({error}). Write the same columns always."
        ) from None
    if records is None:
        return Result()
    names = [name for name in ("key", "part", "row") if name in records.schema.names]
    order = sort_order(*(records.column(name).to_numpy().astype(np.uint64, copy=False) for name in names))
    found = getattr(module, work.function)(records.take(pa.array(order)), work.config)
    promised = schema_of(module, work.config) if work.partitions is None else None
    answers, counts = check_round(found, work.module, work.function, promised)
    metrics = {"answers": answers.num_rows, **counts}
    if work.partitions is None:
        destinations = _by_part(answers)
    else:
        destinations = _by_partition(answers, work.partitions)
    file, segments = write_segments(store, destinations)
    return Result([file], segments, metrics=metrics)


def perform_collect(work: Collect, store: Store) -> Result:
    module = importlib.import_module(work.module)
    schema = layer_schema(schema_of(module, work.config))
    documents = PartReader(store, work.documents)
    rows = sum(documents.groups)
    answers = read_all(work.segments, store)
    index = np.full(rows, -1, np.int64)
    if answers is not None:
        at = answers.column("row").to_numpy()
        check_places(at, rows, work.module)
        index[at] = np.arange(len(at))
    writer = PartWriter(schema)
    metrics: dict[str, object] = {"rows": rows, "dropped": {}}
    first = 0
    for group in documents.groups:
        here = index[first : first + group]
        first += group
        places = pa.array(here, mask=here < 0)
        columns = {}
        for item in schema:
            if answers is not None and item.name in answers.schema.names:
                columns[item.name] = answers.column(item.name).combine_chunks().take(places)
            else:
                columns[item.name] = pa.nulls(group, item.type)
        mark_crashed(columns, work.poisoned, first - group, group)
        writer.write(pa.RecordBatch.from_arrays([columns[name] for name in schema.names], schema=schema))
        add_counts(metrics, {"dropped": count_reasons(columns["drop"])})
    return Result([writer.close(store, documents.rows_mark)], rows_marks=[documents.rows_mark], metrics=metrics)


def read_all(segments: Iterable[Segment], store: Store) -> pa.Table | None:
    """The records of some segments, one behind the other; None without any."""
    tables = [read_segment(store, segment) for segment in segments]
    return pa.concat_tables(tables).combine_chunks() if tables else None


def _by_partition(records: pa.Table, partitions: int) -> list[tuple[str, pa.Table]]:
    """Cut by ranges of the key: partition p holds the p-th of `partitions` equal stretches of 0..2^64."""
    key = records.column("key").combine_chunks().to_numpy()
    width = np.uint64(-(-(2**64) // partitions) if partitions > 1 else 2**64 - 1)
    return cut(records, np.minimum(key // width, np.uint64(partitions - 1)))


def _by_part(records: pa.Table) -> list[tuple[str, pa.Table]]:
    return cut(records, records.column("part").combine_chunks().to_numpy())


def cut(records: pa.Table, destination: npt.NDArray[np.uint64]) -> list[tuple[str, pa.Table]]:
    """Records by destination, each in the order that it had."""
    if not len(destination):
        return []
    records = records.combine_chunks()
    order = np.argsort(destination, kind="stable")
    starts = np.flatnonzero(np.diff(destination[order], prepend=~destination[order[:1]]))
    stops = [*starts[1:], len(order)]
    # Taken, not sliced: a slice keeps bits of its neighbours in its bitmaps, and equal records must be equal bytes.
    return [
        (str(int(destination[order[start]])), records.take(pa.array(order[start:stop])))
        for start, stop in zip(starts, stops, strict=True)
    ]
