"""Performs a task in a worker."""

import os
import socket
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gristmill.checked import content_of
from gristmill.engine.files.config_files import in_users_words, local_copies, with_copies
from gristmill.engine.files.indexing import index_of
from gristmill.engine.work.borders import check_answers, check_counts, check_files
from gristmill.engine.work.exchange import perform_collect, perform_emit, perform_reduce
from gristmill.engine.work.memory import cpu_seconds, forget_peak, peak_bytes
from gristmill.engine.work.needs import bytes_read, pieces_read
from gristmill.engine.work.preview import perform_preview
from gristmill.engine.work.read import perform_read
from gristmill.engine.work.rows import (
    RowBatch,
    count_reasons,
    mark_crashed,
    model_paths,
    read_batches,
    read_many,
)
from gristmill.engine.work.setup import with_loaded
from gristmill.engine.work.shuffle import perform_merge
from gristmill.engine.work.sink import perform_build, perform_gather, perform_scatter
from gristmill.engine.work.task import (
    Build,
    Collect,
    Emit,
    FitWork,
    Gather,
    Hash,
    IndexInput,
    Make,
    MapWork,
    Merge,
    Preview,
    Read,
    Reduce,
    Result,
    Scatter,
    Task,
    Work,
    add_counts,
)
from gristmill.engine.work.values import check_values, document_of
from gristmill.errors import BrokenPromise, UserError, cause_of
from gristmill.kernels import compiling
from gristmill.objects import requests
from gristmill.places import shown
from gristmill.schema import layer_schema
from gristmill.stages import contract, own_code
from gristmill.stages.calls import Counts
from gristmill.stages.declarations import stage_of
from gristmill.stopping import TaskStopped
from gristmill.store.answers import AnswerLog
from gristmill.store.parquet import PartWriter, text_bytes
from gristmill.store.store import CorruptPart, Part, Store

_done: set[tuple[str, type, str]] = set()
"""Kinds of tasks that this process has run."""

STOPPED = "The run stopped; no document is at fault. No output of this task was stored, and finished work is kept."


def perform(task: Task, store: Store) -> Result:
    """Perform a task and measure its cost."""
    started, cpu, compiled = time.perf_counter(), cpu_seconds(), compiling.seconds
    requests_before = requests.counted()
    forget_peak()
    work, copies = task.work, local_copies(task.files, store)
    if copies and not isinstance(work, Hash | IndexInput | Merge):
        work = replace(work, config=with_copies(work.config, copies))
    try:
        result = _result(work, store, task.probe)
    except UserError as error:
        raise _placed(in_users_words(error, copies), task) from None
    except (CorruptPart, MemoryError, TaskStopped):
        raise
    except BaseException as error:
        message = own_code.trace_in_own_code(error)
        if message is None:
            raise
        is_unread = isinstance(error, KeyError) and "does not exist in schema" in str(error)
        fix = "Add the column to the `reads` of the step" if is_unread else "Correct the code"
        raise UserError(f"{task.node}, {task.label}: {message}\n{STOPPED} {fix} and run again.") from None
    kind = task.kind
    result.cost |= {
        "cpu_s": round(cpu_seconds() - cpu, 6),
        "wall_s": round(time.perf_counter() - started, 6),
        "compile_s": round(compiling.seconds - compiled, 6),
        "peak_rss_bytes": peak_bytes(),
        "input_bytes": bytes_read(task.work),
        "input_pieces": pieces_read(task.work),
        "first": kind not in _done,
        **requests.since(requests_before),
    }
    _done.add(kind)
    result.where = f"{socket.gethostname()} process {os.getpid()}"
    return result


def _placed(error: UserError, task: Task) -> UserError:
    """Add the step of the recipe to the message of a broken promise, which is the stage's fault."""
    if not isinstance(error, BrokenPromise):
        return error
    whose = "" if own_code.is_own(task.module) else " This is a bug in Gristmill: please report it."
    return UserError(f"{task.node}, {task.label}: {error}{whose} {STOPPED}")


def _result(work: Work, store: Store, probe: bool) -> Result:
    match work:
        case Hash():
            return _hash(work)
        case IndexInput():
            with work.piece.open() as file:
                return Result(values=[index_of(file).to_bytes()])
        case Preview():
            return perform_preview(work)
        case Read():
            return perform_read(work, store, probe)
        case Emit():
            return perform_emit(work, store, probe)
        case MapWork():
            return _map(work, store, probe)
        case Merge():
            return perform_merge(work, store)
        case Reduce():
            return perform_reduce(work, store)
        case Collect():
            return perform_collect(work, store)
        case FitWork():
            return _fit(work, store)
        case Make():
            return _make(work, store)
        case Scatter():
            return perform_scatter(work, store)
        case Build():
            return perform_build(work, store)
        case Gather():
            return perform_gather(work, store)


def _hash(work: Hash) -> Result:
    values = []
    for place in work.places:
        try:
            with place.open() as file:
                values.append(content_of(file, work.blocks))
        except Exception as error:
            if not isinstance(error, OSError) and (place.system is None or isinstance(error, UserError | MemoryError)):
                raise  # file systems of fsspec raise all kinds of errors
            raise UserError(
                f"{shown(place.path)} cannot be read: {cause_of(error)}. Finished work is kept. Repair it, or exclude "
                "it, and run again."
            ) from None
    return Result(values=values)


def _map(work: MapWork, store: Store, probe: bool) -> Result:
    stage = stage_of(work.module, contract.Map)
    more = with_loaded(stage, work.config, model_paths(work.models, store))
    scope = stage.scope_of(work.config)
    if scope is None and stage.kept is not None:
        scope = stage.kept(work.config)
    if scope is None:
        return _map_rows(work, store, probe, stage, more)
    answers = AnswerLog(store, scope)
    try:
        return _map_rows(work, store, probe, stage, {**more, "answers": answers})
    finally:
        answers.close()


def _map_rows(work: MapWork, store: Store, probe: bool, stage: contract.Map[Any], more: dict[str, Any]) -> Result:
    promised = stage.schema_of(work.config)
    schema = layer_schema(promised)
    rows_hash, batches = read_batches(work, store)
    writer = PartWriter(schema)
    processed = 0
    metrics: dict[str, object] = {"rows": 0, "bytes_in": 0, "bytes_out": 0, "dropped": {}}
    for batch in batches:
        answers = stage.apply(batch.columns, work.config, **more)
        answers = check_answers(answers, batch.columns.num_rows, work.module, promised)
        if probe:
            processed += batch.columns.num_rows
            continue
        text = batch.columns.column("text") if "text" in batch.columns.schema.names else None
        check_values(answers, stage, work.config, work.module, text, partial(_named_row, batch, work, store))
        if stage.metrics is not None:
            counts = stage.metrics(batch.columns, answers, work.config)
            add_counts(metrics, check_counts(counts, work.module, "metrics"))
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
        return Result(values=[processed])
    part = writer.close(store, rows_hash)
    return Result([part], rows_hashes=[rows_hash], metrics=metrics)


def _named_row(batch: RowBatch, work: MapWork, store: Store, row: int) -> str:
    """The document of a row that a stage sees."""
    return document_of(work.layers, int(np.flatnonzero(batch.visible)[row]) + batch.first_row, store)


def _fit(work: FitWork, store: Store) -> Result:
    stage = stage_of(work.module, contract.Fit)
    metrics: dict[str, int] = {"rows": 0, "bytes_in": 0}

    def batches() -> Iterator[pa.RecordBatch]:
        for batch in read_many(work.inputs, work.columns, work.gates, store):
            add_counts(metrics, {"rows": batch.num_rows, "bytes_in": _content_bytes(batch)})
            yield batch

    models = model_paths(work.models, store)
    part, found = _written(work.module, stage, lambda path: stage.fit(batches(), work.config, path, **models), store)
    return Result([part], metrics={**metrics, **found})


def _make(work: Make, store: Store) -> Result:
    stage, models = stage_of(work.module), model_paths(work.models, store)
    if isinstance(stage, contract.Fit):  # it trains on files alone

        def write(path: Path) -> Counts:
            return stage.fit(iter(()), work.config, path, **models)
    else:
        assert isinstance(stage, contract.Asset)
        write = partial(stage.make, work.config, **models)
    part, found = _written(work.module, stage, write, store)
    return Result([part], metrics=found)


def _written(
    module: str, stage: contract.Fit[Any] | contract.Asset[Any], write: Callable[[Path], Counts], store: Store
) -> tuple[Part, dict[str, Any]]:
    """The file that a stage writes, and its metrics."""
    with store.scratch() as folder:
        path = folder / "model"
        found = write(path)
        check_files(folder, ("model",), module, stage.verb)
        part = store.put_file(path, stage.suffix)
    return part, dict(check_counts(found or {}, module, stage.verb))


def _content_bytes(batch: pa.RecordBatch) -> int:
    """Bytes of the markup if there is any, else of the text, else of all columns."""
    content = [batch.column(name) for name in ("html", "text") if name in batch.schema.names]
    sizes = [pc.sum(pc.binary_length(column)).as_py() or 0 for column in content]
    return max(sizes) if sizes else int(batch.nbytes)
