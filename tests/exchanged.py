"""An exchange without the engine: emit, rounds and collect over parts that a test cuts as it likes."""

import importlib
import tempfile
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa

from gristmill.engine.work.shuffle import RecordBlock, Spill, cut
from gristmill.engine.work.task import add_counts


def run_step(module, config, parts, models=None, **ways):
    """The layers of a step for each part (a table with the columns that it reads), and its counts.

    `models` are those of its assets (`make_assets`), if it has any.
    """
    for stage, part, name in stages_of(module, config):
        if stage.STAGE.kind == "asset":
            continue
        layers, counts = run_stage(stage, part, parts, models, **ways)
        parts = [
            pa.table({**dict(zip(part.column_names, part.columns, strict=True)), **_named(name, layer)})
            for part, layer in zip(parts, layers, strict=True)
        ]
    return layers, counts


def stages_of(module, config):
    """The stages of a step: modules with their configs and names, with the step itself last."""
    for name, path, part in module.STAGE.before(config):
        stage = importlib.import_module(path)
        yield stage, part or stage.STAGE.config_within(config), name
    yield module, config, module.__name__.rpartition(".")[2]


def make_assets(module, config, folder):
    """The models that a step builds from files, and the metrics of each."""
    models, metrics = {}, {}
    for stage, part, name in stages_of(module, config):
        if stage.STAGE.kind == "asset":
            models[name] = folder / name
            metrics[name] = stage.make(part, models[name])
    return models, metrics


def run_stage(module, config, parts, models=None, **ways):
    if module.STAGE.kind == "map":
        arguments = _models(module, config, models)
        return [
            pa.Table.from_batches([module.apply(_batch(module, config, part), config, **arguments)]) for part in parts
        ], {}
    return run_exchange(module, config, parts, models=models, **ways)


def _models(module, config, models):
    uses = module.STAGE.uses_of(config)
    return {"models": {name: models[name] for name in uses}} if uses else {}


def carry_out(stage, batches, config, **ways):
    """The layers of an exchange for each batch, where each batch is one part."""
    return run_exchange(stage, config, [pa.Table.from_batches([batch]) for batch in batches], **ways)[0]


def run_exchange(module, config, parts, bits=0, limit=None, models=None):
    """Reducers see 2^bits key ranges; with a limit, in blocks of that many bytes, so a large key comes in pieces."""
    counts, tally, tables = {}, {}, []
    for number, part in enumerate(parts):
        batch = _batch(module, config, part)
        sent = module.emit(batch, config, **_models(module, config, models))
        assert {"key", "row", *module.STAGE.record_schema.names} == set(sent.schema.names)
        if module.STAGE.tally:
            add_counts(tally, module.tally(batch, sent, config))
        sent = sent.set_column(sent.schema.get_field_index("row"), "row", sent.column("row").cast(pa.int64()))
        # The engine names parts by hashes: their numbers say nothing about their order.
        name = pa.array(np.full(sent.num_rows, (number * 0x9E3779B97F4A7C15 + 7) % 2**64, np.uint64))
        tables.append(pa.Table.from_batches([sent.append_column("part", name)]))
    totals = {"totals": module.totals(tally, config)} if module.STAGE.totals else {}
    for function in module.STAGE.all_rounds:
        tables, more = one_round(module, function, config, tables, totals, bits, limit)
        add_counts(counts, more)
    return [_collected(module, config, number, part, tables) for number, part in enumerate(parts)], counts


def one_round(module, function, config, tables, totals, bits=0, limit=None):
    """The answers of the reducers of a round, and their counts."""
    ranges, answers, counts = {}, [], {}
    for table in tables:
        for destination, found in cut(table, "key", 64 - bits):
            ranges.setdefault(destination, []).append(found)
    summary = module.STAGE.summaries.get(function)
    in_short = None if summary is None else partial(summary, config=config, **totals)
    for _, found in sorted(ranges.items()):
        for block in _blocks(found, in_short, limit):
            others = {} if block.others is None else {"others": block.others}
            answer = module.STAGE.all_rounds[function](block.records, config, **totals, **others)
            answer, more = answer if isinstance(answer, tuple) else (answer, {})
            add_counts(counts, more)
            answers.append(answer)
    return answers, counts


def _blocks(tables, in_short, limit):
    if limit is None:
        yield RecordBlock(pa.concat_tables(tables).combine_chunks())
        return
    with tempfile.TemporaryDirectory() as folder:
        spill = Spill(Path(folder))
        for table in tables:
            for batch in table.to_batches(max_chunksize=3):
                spill.add(pa.Table.from_batches([batch]))
        spill.end()
        yield from spill.blocks(limit, in_short)


def _collected(module, config, number, part, tables):
    name = (number * 0x9E3779B97F4A7C15 + 7) % 2**64
    schema = module.STAGE.schema_of(config)
    columns = {item.name: [None] * part.num_rows for item in schema}
    answered = set()
    for table in tables:
        for record in table.to_pylist():
            if record["part"] == name:
                assert record["row"] not in answered, "a row was answered twice"
                answered.add(record["row"])
                for item in schema:
                    columns[item.name][record["row"]] = record.get(item.name)
    return pa.table([pa.array(columns[item.name], item.type) for item in schema], schema=schema)


def _batch(module, config, part):
    names = module.STAGE.reads_of(config)
    return pa.RecordBatch.from_arrays([part.column(name).combine_chunks() for name in names], names=list(names))


def _named(name, layer):
    return {f"{name}.{column}": layer.column(column) for column in layer.column_names}
