"""The file form of what stages build for other stages: named arrays and a JSON header, as one Arrow IPC file.

The file has one row, in which each array is a list, so arrays of any length share a file. A reader maps the file into
memory and reads only the arrays that it needs. The same content gives the same bytes.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pyarrow as pa

from gristmill.errors import UserError

Array = np.ndarray[Any, Any]

_FAULTS = (pa.ArrowException, AttributeError, LookupError, OSError, OverflowError, TypeError, ValueError)
"""What bytes that are not of this form may raise, while they are opened or while their arrays are used."""


def write_arrays(
    path: Path | pa.BufferOutputStream, header: Mapping[str, Any], arrays: Mapping[str, Array | Sequence[str]]
) -> None:
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
    with (
        pa.OSFile(str(path), "wb") if isinstance(path, Path) else path as sink,
        pa.ipc.new_file(sink, schema) as writer,
    ):
        writer.write_batch(pa.RecordBatch.from_arrays(list(columns.values()), schema=schema))


def arrays_to_bytes(header: Mapping[str, Any], arrays: Mapping[str, Array | Sequence[str]]) -> bytes:
    """The content of a file that `write_arrays` writes."""
    sink = pa.BufferOutputStream()
    write_arrays(sink, header, arrays)
    content: bytes = sink.getvalue().to_pybytes()
    return content


class ArrowFile:
    """A file of `write_arrays`, mapped into memory, or its content. Use it within `intact`."""

    def __init__(self, source: Path | pa.Buffer) -> None:
        data = pa.memory_map(str(source)) if isinstance(source, Path) else pa.BufferReader(source)
        self._batch = pa.ipc.open_file(data).get_batch(0)
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


@contextmanager
def intact(path: str, noun: str, consequence: str, fix: str) -> Iterator[None]:
    """Whatever a file of another form, or a damaged one, raises inside becomes one message: `path` is not `noun`."""
    try:
        yield
    except _FAULTS as error:
        raise UserError(f"{path} is not {noun}, or is damaged ({error}), so {consequence}. {fix}") from None
