"""The file form of what stages build for other stages: named arrays and a JSON header, as one Arrow IPC file.

The file has one row, in which each array is a list, so arrays of any length share a file. A reader maps the file into
memory and reads only the arrays that it needs. The same content gives the same bytes.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pyarrow as pa

Array = np.ndarray[Any, Any]


def write_arrays(path: Path, header: Mapping[str, Any], arrays: Mapping[str, Array | Sequence[str]]) -> None:
    """Write arrays, also of several dimensions, and lists of texts. The header is JSON."""
    columns, shapes = {}, {}
    for name, values in arrays.items():
        if isinstance(values, np.ndarray):
            shapes[name] = values.shape
            column = pa.array(values.reshape(-1))
        else:
            column = pa.array(values, pa.large_string())
        columns[name] = pa.LargeListArray.from_arrays(pa.array([0, len(column)], pa.int64()), column)
    metadata = {b"header": orjson.dumps(header), b"shapes": orjson.dumps(shapes)}
    schema = pa.schema([(name, column.type) for name, column in columns.items()], metadata)
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, schema) as writer:
        writer.write_batch(pa.RecordBatch.from_arrays(list(columns.values()), schema=schema))


class ArrowFile:
    """A file of `write_arrays`, mapped into memory. Another file raises an ArrowException, or what its header gives."""

    def __init__(self, path: Path) -> None:
        self._batch = pa.ipc.open_file(pa.memory_map(str(path))).get_batch(0)
        self._batch.validate()
        metadata = self._batch.schema.metadata
        self.header: dict[str, Any] = orjson.loads(metadata[b"header"])
        self._shapes: dict[str, list[int]] = orjson.loads(metadata[b"shapes"])

    def array(self, name: str) -> Array:
        """A read-only array; numbers are not copied from the file."""
        values = self._batch.column(name).values
        return np.asarray(values.to_numpy(zero_copy_only=False)).reshape(self._shapes[name])

    def texts(self, name: str) -> list[str]:
        texts: list[str] = self._batch.column(name).values.to_pylist()
        return texts
