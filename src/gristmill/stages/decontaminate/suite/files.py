"""Finds the files of an eval suite below its folder, and reads their records.

Nothing outside the folder is read, neither by a path nor by a link. A file is read whole, unpacked in memory to at most
MOST_BYTES and to a size in proportion to its packed size (reading/archive.py).
"""

import csv
import glob
import io
import os
from collections.abc import Callable, Iterator
from typing import IO, Any, Literal

import orjson

from gristmill.errors import UserError
from gristmill.stages.ingest.parquet import rows as parquet_rows
from gristmill.stages.reading.archive import chunks_of
from gristmill.stages.reading.decompress import ReadFault
from gristmill.stages.reading.json_value import BOM, parsed
from gristmill.stages.reading.stream import without_compression_suffix

Format = Literal["jsonl", "json", "csv", "tsv", "parquet"]
SUFFIXES: dict[str, Format] = {".jsonl": "jsonl", ".ndjson": "jsonl", ".json": "json", ".csv": "csv", ".tsv": "tsv"}
SUFFIXES |= {".tab": "tsv", ".parquet": "parquet"}
SUITE = "suite.yaml"
"""The file that describes a suite, beside or above its benchmark files."""
MOST_BYTES = 2 << 30
"""The most bytes of a file, unpacked."""


class Folder:
    """The folder of a suite. Names that begin with a dot are skipped."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._root = os.path.realpath(path)

    def find(self, pattern: str) -> list[str]:
        """The names that match a glob, with `*` and `?` within a name, and all names below folders that match it."""
        if os.path.isabs(pattern) or ".." in pattern.split("/") or "\0" in pattern:
            raise UserError(f"{pattern!r} is outside the folder of the suite, where no file is read")
        matches = glob.glob(pattern, root_dir=self.path)
        names = {name for match in matches for name in self._files(os.path.normpath(match)) if name != SUITE}
        if not names:
            files = list(self._files("."))[:5]
            listed = f"; it contains {', '.join(files)}" if files else "; it is empty"
            raise UserError(f"no file matches {pattern!r} below {self.path}{listed}")
        return sorted(names)

    def _files(self, name: str) -> Iterator[str]:
        """A file, or the files below a folder; links to folders in it are not followed."""
        path = os.path.join(self.path, name)
        if not os.path.isdir(path):
            yield name
        for folder, folders, files in os.walk(path):
            folders[:] = sorted(below for below in folders if below[0] != ".")
            for file in sorted(files):
                if file[0] != ".":
                    yield os.path.relpath(os.path.join(folder, file), self.path)

    def open(self, name: str) -> IO[bytes]:
        path = os.path.realpath(os.path.join(self.path, name))
        if os.path.islink(path):
            raise UserError(f"{name} is a link that points to itself. Remove or correct it.")
        if os.path.commonpath([path, self._root]) != self._root:
            raise UserError(f"{name} is a link to a file outside the folder of the suite, so it is not followed")
        if not os.path.isfile(path):
            raise UserError(f"{name} is not a readable file. Remove it, or name other files.")
        return open(path, "rb")


def format_of(name: str, given: Format | None) -> Format:
    """The format of a file: as described, or else by its name."""
    kind = given or SUFFIXES.get(os.path.splitext(without_compression_suffix(name).lower())[1])
    if kind is None:
        formats = ", ".join(dict.fromkeys(SUFFIXES.values()))
        raise UserError(
            f"the format of {name} is not clear from its name. Set format: ({formats}), or unpack or convert the file."
        )
    return kind


def records(
    name: str, file: IO[bytes], kind: Format, columns: Callable[[list[str]], list[str]] = lambda names: names
) -> Iterator[tuple[int, dict[str, Any] | ReadFault]]:
    """The records of a file, numbered from 1; a fault replaces a record that cannot be read. `columns` chooses the
    columns of Parquet to read. Raises UserError if the file cannot be read to its end.
    """
    try:
        data = _unpacked(file)
        if kind == "parquet":
            rows: Iterator[Any] = (row for _, row in parquet_rows(io.BytesIO(data), columns))
        elif kind in ("csv", "tsv"):
            rows = _table_rows(data.decode("utf-8-sig"), "\t" if kind == "tsv" else ",")
        else:
            rows = _json_rows(data, kind)
        for number, row in enumerate(rows, 1):
            if isinstance(row, ReadFault) and kind == "parquet":
                raise row
            yield number, row
    except (ReadFault, OSError, MemoryError, ValueError, csv.Error) as error:
        cause = f"{error.detail} ({error.reason})" if isinstance(error, ReadFault) else str(error) or "out of memory"
        raise UserError(
            f"{name} cannot be read to its end, so an unknown number of records would be missing: {cause}. Replace the "
            "file with a complete one, or correct its description."
        ) from None


def _unpacked(file: IO[bytes]) -> bytes:
    data = bytearray()
    for chunk in chunks_of(file):
        data += chunk
        if len(data) > MOST_BYTES:
            raise ReadFault("file_too_large", f"it unpacks to more than {MOST_BYTES:,} bytes, the limit")
    return bytes(data)


def _json_rows(data: bytes, kind: Format) -> Iterator[dict[str, Any] | ReadFault]:
    """The objects of JSON Lines, or of a JSON file with an array or with one object."""
    if kind == "json" and data.removeprefix(BOM).lstrip()[:1] == b"[":
        for value in orjson.loads(data.removeprefix(BOM)):
            yield value if isinstance(value, dict) else ReadFault("not_an_object", "a record must be an object")
    elif kind == "json":
        yield parsed(data, first=True)
    else:
        for number, line in enumerate(data.split(b"\n")):
            if line.strip():
                try:
                    yield parsed(line, first=number == 0)
                except ReadFault as fault:
                    yield fault


def _table_rows(text: str, delimiter: str) -> Iterator[dict[str, Any] | ReadFault]:
    """The rows of a table whose first line has the names of the columns."""
    most_field_bytes = csv.field_size_limit(len(text) + 1)
    try:
        lines = list(csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True))
    finally:
        csv.field_size_limit(most_field_bytes)
    names = lines[0] if lines else []
    for row in filter(None, lines[1:]):
        if len(row) == len(names):
            yield dict(zip(names, row, strict=True))
        else:
            yield ReadFault("wrong_field_count", f"{len(row)} fields instead of {len(names)}")
