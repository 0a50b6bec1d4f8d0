"""Exchange: records leave their parts by key, are reduced by ranges of keys, and answers come back to their rows.

    emit     a part              -> a file with a segment for each coarse range of keys
    merge    many files, a range -> one file with finer ranges, if there are many records (shuffle.py)
    reduce   a range of keys     -> files for the next round, or for parts
    collect  a part              -> an aligned layer

A record carries its origin: `part` (from the rows hash) and `row`. A reducer gets records sorted by key, part and row,
so that results do not depend on the order in which tasks finish.
"""

from typing import Any

import numpy as np
import pyarrow as pa

from gristmill.engine.work.borders import check_emitted, check_places, check_round, check_tally
from gristmill.engine.work.rows import RowBatch, count_reasons, mark_crashed, model_paths, read_batches
from gristmill.engine.work.setup import with_loaded
from gristmill.engine.work.shuffle import HotKey, Outgoing, blocks_of, cut, read_all
from gristmill.engine.work.task import Collect, Emit, Reduce, Result, add_counts, sent
from gristmill.engine.work.values import check_values, document_of
from gristmill.schema import layer_schema
from gristmill.stages.contract import Exchange
from gristmill.stages.declarations import stage_of
from gristmill.store.parquet import PartReader, PartWriter, text_bytes
from gristmill.store.segments import write_segments
from gristmill.store.store import Store

COARSE = 58
"""Bits by which keys and part numbers are shifted when records are sent, which leaves 64 ranges."""


def part_id(rows_hash: str) -> int:
    """The number by which records name the part that they came from."""
    return int(rows_hash[:16], 16)


def with_origin(records: pa.RecordBatch, batch: RowBatch, rows_hash: str) -> pa.RecordBatch:
    """Records of a batch, with the part and the row in it that they came from."""
    visible = np.flatnonzero(batch.visible) + batch.first_row
    origin = visible[records.column("row").to_numpy()]
    column = records.schema.get_field_index("row")
    records = records.set_column(column, "row", pa.array(origin, pa.int64()))
    return records.append_column("part", pa.array(np.full(records.num_rows, part_id(rows_hash), np.uint64)))


def perform_emit(work: Emit, store: Store, probe: bool) -> Result:
    stage = stage_of(work.module, Exchange)
    more = with_loaded(stage, work.config, model_paths(work.models, store))
    rows_hash, batches = read_batches(work, store)
    tables = []
    processed = 0
    metrics = {"rows_sent": 0, "records": 0}
    tally: dict[str, Any] = {}
    for batch in batches:
        records = stage.emit(batch.columns, work.config, **more)
        records = check_emitted(records, batch.columns.num_rows, work.module, stage.record_schema)
        if probe:
            processed += batch.columns.num_rows
            continue
        if stage.tally is not None:
            add_counts(tally, check_tally(stage.tally(batch.columns, records, work.config), work.module))
        tables.append(pa.Table.from_batches([with_origin(records, batch, rows_hash)]))
        add_counts(metrics, {"rows_sent": batch.columns.num_rows, "records": records.num_rows})
    if probe:
        return Result(values=[processed])
    found = cut(pa.concat_tables(tables), "key", COARSE) if tables else []
    return sent([write_segments(store, found)], rows_hashes=[rows_hash], metrics=metrics, tally=tally)


def perform_reduce(work: Reduce, store: Store) -> Result:
    stage = stage_of(work.module, Exchange)
    promised = stage.schema_of(work.config) if work.column == "part" else None
    function, summary = stage.all_rounds[work.function], stage.summaries.get(work.function)
    out = Outgoing(store, work.column, work.shift)
    metrics: dict[str, Any] = {}
    hot = HotKey()
    totals = {} if work.totals is None else {"totals": work.totals}
    in_short = None if summary is None else lambda records: summary(records, work.config, **totals)
    with store.scratch() as folder:
        for block in blocks_of(work.segments, sum(one.memory for one in work.segments), store, folder, in_short):
            hot.add(block.records)
            others = {} if block.others is None else {"others": block.others}
            found = function(block.records, work.config, **totals, **others)
            answers, counts = check_round(found, work.module, work.function, promised)
            add_counts(metrics, counts)
            out.add(answers)
            del block, found, answers  # the next block needs the memory
    return sent(out.close(), metrics={"answers": out.rows, **metrics}, hot_key=hot.result())


def perform_collect(work: Collect, store: Store) -> Result:
    stage = stage_of(work.module, Exchange)
    schema = layer_schema(stage.schema_of(work.config))
    documents = PartReader(store, work.documents)
    rows = sum(documents.groups)
    answers = read_all(work.segments, store)
    index = np.full(rows, -1, np.int64)
    if answers is not None:
        at = answers.column("row").to_numpy()
        check_places(at, rows, work.module)
        named = lambda row: document_of((work.documents,), int(at[row]), store)  # noqa: E731
        check_values(answers, stage, work.config, work.module, None, named)
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
        if "text" in schema.names:
            columns["text_bytes"] = text_bytes(columns["text"])
        mark_crashed(columns, work.poisoned, first - group, group)
        writer.write(pa.RecordBatch.from_arrays([columns[name] for name in schema.names], schema=schema))
        add_counts(metrics, {"dropped": count_reasons(columns["drop"])})
    return Result([writer.close(store, documents.rows_hash)], rows_hashes=[documents.rows_hash], metrics=metrics)
