"""An exchange in one process, as the engine carries it out: for tests of stages that compare documents."""

import numpy as np
import pyarrow as pa


def carry_out(stage, batches, config, partitions=1):
    """The answers of a stage for each batch, a row for each of its rows; batch i is part i."""
    sent = []
    for part, batch in enumerate(batches):
        records = stage.emit(batch, config)
        assert {"key", "row", *stage.KEYED.names} == set(records.schema.names)
        at = records.schema.get_field_index("row")
        records = records.set_column(at, "row", records.column("row").cast(pa.int64()))
        mark = pa.array(np.full(records.num_rows, part, np.uint64))
        sent.append(pa.Table.from_batches([records.append_column("part", mark)]))
    together = pa.concat_tables(sent)
    width = 2**64 // partitions + 1
    place = np.array([key // width for key in together["key"].to_pylist()], np.int64)
    answers = []
    for partition in range(partitions):
        here = together.filter(pa.array(place == partition, pa.bool_()))
        if here.num_rows:
            answers.append(stage.reduce(here.sort_by([(name, "ascending") for name in ("key", "part", "row")]), config))
    back = []
    for part, batch in enumerate(batches):
        rows = [dict.fromkeys(stage.SCHEMA.names) for _ in range(batch.num_rows)]
        for table in answers:
            assert set(table.schema.names) == {"part", "row", *stage.SCHEMA.names}
            for answer in table.filter(pa.array(table["part"].to_numpy() == part)).to_pylist():
                assert all(value is None for value in rows[answer["row"]].values()), "answered twice"
                rows[answer["row"]] = {name: answer[name] for name in stage.SCHEMA.names}
        back.append(pa.Table.from_pylist(rows, schema=stage.SCHEMA))
    return back
