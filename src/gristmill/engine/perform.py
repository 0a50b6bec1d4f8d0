"""What a worker does with a task: the only code that runs stages."""

import importlib
import time
from collections.abc import Iterator

import fsspec
import pyarrow as pa
import pyarrow.compute as pc

from gristmill.engine.content import hash_stream
from gristmill.engine.exchange import perform_collect, perform_emit, perform_reduce
from gristmill.engine.ingest import perform_read
from gristmill.engine.memory import forget_peak, peak_bytes
from gristmill.engine.rows import (
    check_answers,
    count_reasons,
    mark_crashed,
    model_paths,
    read_batches,
    read_many,
)
from gristmill.engine.sink import perform_build, perform_gather, perform_scatter
from gristmill.engine.task import (
    Build,
    Collect,
    Emit,
    Fit,
    Gather,
    Hash,
    Map,
    Read,
    Reduce,
    Result,
    Scatter,
    Task,
    add_counts,
    layer_schema,
)
from gristmill.stages.resolve import schema_of
from gristmill.store.parquet import PartWriter, text_bytes
from gristmill.store.store import Store


def perform(task: Task, store: Store) -> Result:
    """Do the work and say what it cost."""
    started, cpu = time.perf_counter(), time.process_time()
    forget_peak()
    work = task.work
    match work:
        case Hash():
            result = _hash(work)
        case Read():
            result = perform_read(work, store, task.probe)
        case Emit():
            result = perform_emit(work, store, task.probe)
        case Map():
            result = _map(work, store, task.probe)
        case Reduce():
            result = perform_reduce(work, store)
        case Collect():
            result = perform_collect(work, store)
        case Fit():
            result = _fit(work, store)
        case Scatter():
            result = perform_scatter(work, store)
        case Build():
            result = perform_build(work, store)
        case Gather():
            result = perform_gather(work, store)
    result.cost = {
        "cpu_s": round(time.process_time() - cpu, 6),
        "wall_s": round(time.perf_counter() - started, 6),
        "peak_rss_bytes": peak_bytes(),
    }
    return result


def _hash(work: Hash) -> Result:
    values = []
    for uri in work.uris:
        with fsspec.open(uri, "rb") as file:
            values.append(hash_stream(file))
    return Result(values=values)


def _map(work: Map, store: Store, probe: bool) -> Result:
    module = importlib.import_module(work.module)
    promised = schema_of(module, work.config)
    schema = layer_schema(promised)
    models = model_paths(work.models, store)
    rows_mark, batches = read_batches(work, store)
    writer = PartWriter(schema)
    seen = 0
    metrics: dict[str, object] = {"rows": 0, "bytes_in": 0, "bytes_out": 0, "dropped": {}}
    for batch in batches:
        answers = module.apply(batch.columns, work.config, **models)
        answers = check_answers(answers, batch.columns.num_rows, work.module, promised)
        if probe:
            seen += batch.columns.num_rows
            continue
        if hasattr(module, "metrics"):
            add_counts(metrics, module.metrics(batch.columns, answers, work.config))
        columns = dict(zip(promised.names, batch.spread(answers), strict=True))
        for name in schema.names:
            columns.setdefault(name, pa.nulls(batch.rows, schema.field(name).type))
        mark_crashed(columns, work.poisoned, batch.first_row, batch.rows)
        if "text" in promised.names:
            columns["text_bytes"] = text_bytes(columns["text"])
        layer = pa.RecordBatch.from_arrays([columns[name] for name in schema.names], schema=schema)
        bytes_out = _content_bytes(layer)
        writer.write(layer, bytes_out)
        counts = {"rows": batch.rows, "bytes_in": _content_bytes(batch.columns), "bytes_out": bytes_out}
        add_counts(metrics, {**counts, "dropped": count_reasons(columns["drop"])})
    if probe:
        return Result(values=[seen])
    part = writer.close(store, rows_mark)
    return Result([part], rows_marks=[rows_mark], metrics=metrics)


def _fit(work: Fit, store: Store) -> Result:
    module = importlib.import_module(work.module)
    metrics: dict[str, int] = {"rows": 0, "bytes_in": 0}

    def batches() -> Iterator[pa.RecordBatch]:
        for batch in read_many(work.inputs, work.columns, work.gates, store):
            add_counts(metrics, {"rows": batch.num_rows, "bytes_in": _content_bytes(batch)})
            yield batch

    with store.scratch() as folder:
        path = folder / "model"
        found = module.fit(batches(), work.config, path, **model_paths(work.models, store))
        part = store.put_file(path, getattr(module, "SUFFIX", "model"))
    return Result([part], metrics={**metrics, **(found or {})})


def _content_bytes(batch: pa.RecordBatch) -> int:
    """Bytes of markup where there is some, else of text, else of everything."""
    content = [batch.column(name) for name in ("html", "text") if name in batch.schema.names]
    sizes = [pc.sum(pc.binary_length(column)).as_py() or 0 for column in content]
    return max(sizes) if sizes else int(batch.nbytes)
