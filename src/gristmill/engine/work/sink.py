"""Sinks: records leave their parts for sets of files, and a catalogue names the files.

    scatter  a part           -> one file with a segment for each entry of the layout, or for ranges of entries
    merge    many files       -> one file with a segment for each entry of a range, if there are many (shuffle.py)
    build    an entry         -> its files
    gather   all the entries  -> the catalogue

A record carries nothing of its part, unless the stage declares `carries_rows`. So when a document is removed, the
segments of the others keep their bytes, and only the set of files that had it is built again.
"""

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import orjson
import pyarrow as pa

from gristmill.engine.work.borders import check_counts, check_facts, check_files, check_sent
from gristmill.engine.work.exchange import part_id, with_origin
from gristmill.engine.work.rows import model_paths, read_whole
from gristmill.engine.work.shuffle import cut, read_all
from gristmill.engine.work.task import Build, Gather, Layout, Result, Scatter, part_to_json, sent
from gristmill.stages.contract import Sink
from gristmill.stages.declarations import stage_of
from gristmill.store.segments import write_segments
from gristmill.store.store import Store


def perform_scatter(work: Scatter, store: Store) -> Result:
    stage = stage_of(work.module, Sink)
    layout = _entries(work.layout)
    tables = []
    rows = 0
    rows_hash, batches = read_whole(work, store)
    for batch in batches:
        if not batch.columns.num_rows:
            continue
        visible = batch.columns.num_rows
        records = stage.emit(batch.columns, work.config, layout)
        rows_of = visible if stage.carries_rows else None
        records = check_sent(records, len(layout), work.module, stage.record_schema, rows_of)
        records = with_origin(records, batch, rows_hash) if stage.carries_rows else records
        tables.append(pa.Table.from_batches([records]))
        rows += visible
    records = pa.concat_tables(tables) if tables else None
    found = [] if records is None else cut(records, "key", work.shift, keeps=work.keeps)
    counts = {"rows_sent": rows, "records": 0 if records is None else records.num_rows}
    return sent([write_segments(store, found)], metrics=counts)


@lru_cache(maxsize=4)
def _entries(layout: Layout) -> tuple[Mapping[str, Any], ...]:
    return layout.entries()


def perform_build(work: Build, store: Store) -> Result:
    stage = stage_of(work.module, Sink)
    records = read_all(work.segments, store)
    with store.scratch() as folder:
        metrics = stage.build(records, work.config, work.entry, folder, **model_paths(work.models, store))
        names = stage.files(work.config)
        check_files(folder, names, work.module, "build")
        parts = [store.put_file(folder / name, name.partition(".")[2]) for name in names]
    return Result(parts, metrics=check_counts(metrics or {}, work.module, "build"))


def perform_gather(work: Gather, store: Store) -> Result:
    stage = stage_of(work.module, Sink)
    names = stage.files(work.config)
    outputs = [
        {
            "entry": entry,
            "files": {name: part_to_json(part) for name, part in zip(names, parts, strict=True)},
            "metrics": metrics,
        }
        for entry, parts, metrics in work.outputs
    ]
    facts = stage.facts(work.config, **model_paths(work.models, store))
    facts = check_facts(facts, work.module)
    catalogue = {"facts": facts, "outputs": outputs}
    if work.documents:
        catalogue["parts"] = [f"{part_id(mark):016x}" for mark in work.documents]
    part = store.put_part(orjson.dumps(catalogue, option=orjson.OPT_INDENT_2 | orjson.OPT_SORT_KEYS), "json")
    return Result([part])
