"""An exchange without the engine: emit, rounds and collect over parts that a test cuts as it likes."""

import numpy as np
import pyarrow as pa

from gristmill.engine.work.exchange import _by_partition
from gristmill.engine.work.task import add_counts
from gristmill.stages.stage_interface import before_of, kind_of, part_config, reads_of, schema_of


def run_step(module, config, parts):
    """The layers of a step for each part (a table with the columns that it reads), and its counts."""
    import importlib

    for path in before_of(module):
        before = importlib.import_module(path)
        layers, _ = run_stage(before, part_config(before, config), parts)
        name = path.rpartition(".")[2]
        parts = [
            pa.table({**dict(zip(part.column_names, part.columns, strict=True)), **_named(name, layer)})
            for part, layer in zip(parts, layers, strict=True)
        ]
    return run_stage(module, config, parts)


def run_stage(module, config, parts):
    if kind_of(module) == "map":
        return [pa.Table.from_batches([module.apply(_batch(module, config, part), config)]) for part in parts], {}
    return run_exchange(module, config, parts)


def carry_out(stage, batches, config, partitions=1):
    """The layers of an exchange for each batch, as a part of its own."""
    config = config.model_copy(update={"partitions": partitions})
    return run_exchange(stage, config, [pa.Table.from_batches([batch]) for batch in batches])[0]


def run_exchange(module, config, parts):
    counts = {}
    records = []
    for number, part in enumerate(parts):
        sent = module.emit(_batch(module, config, part), config)
        assert {"key", "row", *module.RECORD_SCHEMA.names} == set(sent.schema.names)
        sent = sent.set_column(sent.schema.get_field_index("row"), "row", sent.column("row").cast(pa.int64()))
        # Parts are named by hashes in the engine: their numbers say nothing about their order.
        name = pa.array(np.full(sent.num_rows, (number * 0x9E3779B97F4A7C15 + 7) % 2**64, np.uint64))
        records.append(pa.Table.from_batches([sent.append_column("part", name)]))
    tables = records
    for function in getattr(module, "ROUNDS", ("reduce",)):
        by_partition = {}
        for table in tables:
            for destination, cut in _by_partition(table.combine_chunks(), config.partitions) if table.num_rows else ():
                by_partition.setdefault(int(destination), []).append(cut)
        tables = []
        for _, found in sorted(by_partition.items()):
            together = pa.concat_tables(found).combine_chunks()
            together = together.sort_by([(name, "ascending") for name in ("key", "part", "row")])
            made = getattr(module, function)(together, config)
            if isinstance(made, tuple):
                made, more = made
                add_counts(counts, more)
            tables.append(made)
    return [_collected(module, config, number, part, tables) for number, part in enumerate(parts)], counts


def _collected(module, config, number, part, tables):
    name = (number * 0x9E3779B97F4A7C15 + 7) % 2**64
    schema = schema_of(module, config)
    columns = {item.name: [None] * part.num_rows for item in schema}
    seen = set()
    for table in tables:
        for record in table.to_pylist():
            if record["part"] == name:
                assert record["row"] not in seen, "a row was answered twice"
                seen.add(record["row"])
                for item in schema:
                    columns[item.name][record["row"]] = record.get(item.name)
    return pa.table([pa.array(columns[item.name], item.type) for item in schema], schema=schema)


def _batch(module, config, part):
    names = reads_of(module, config)
    return pa.RecordBatch.from_arrays([part.column(name).combine_chunks() for name in names], names=list(names))


def _named(name, layer):
    return {f"{name}.{column}": layer.column(column) for column in layer.column_names}
