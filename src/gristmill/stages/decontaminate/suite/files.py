"""Finds the files of an eval suite below its folder, unpacks them in memory, and splits them into records.

Nothing outside the folder is read, neither by a path nor by a link, and nothing is written. The unpacked size of an
archive is limited in proportion to its packed size (reading/archive.py).
"""

import fnmatch
import io
import os
import re
from collections.abc import Callable, Iterator, Sequence
from typing import IO, Any, NamedTuple

from gristmill.counted import counted
from gristmill.errors import UserError
from gristmill.stages.decontaminate.suite.form import Broken, Format, Reading, value_at
from gristmill.stages.ingest.json_values import elements
from gristmill.stages.ingest.jsonl import lines
from gristmill.stages.ingest.parquet import rows as parquet_rows
from gristmill.stages.reading.archive import chunks_of, is_archive, unpacked
from gristmill.stages.reading.csv_cut import cut
from gristmill.stages.reading.decompress import ReadFault
from gristmill.stages.reading.json_value import BOM, parsed
from gristmill.stages.reading.stream import MAGIC_BYTES, compression, without_compression_suffix

MOST_FILES = 500_000
MOST_RECORD_BYTES = 64 << 20
MOST_JSON_BYTES = 1 << 30
"""The largest JSON file that is one object with all records in it."""
SUFFIXES: dict[str, Format] = {".jsonl": "jsonl", ".ndjson": "jsonl", ".json": "json", ".csv": "csv", ".tsv": "tsv"}
SUFFIXES |= {".tab": "tsv", ".parquet": "parquet", ".txt": "lines", ".lst": "lines"}
_NO_DATA = (".yaml", ".yml", ".lock")
"""Suffixes of files that are not benchmark files: the description and the lock."""


class BenchmarkFile(NamedTuple):
    """A file of a benchmark, in the folder or in an archive."""

    name: str
    """The path below the folder; for a file in an archive, `archive:path`."""
    open: Callable[[], IO[bytes]]


_OF_RECORDS = {"record_too_large", "invalid_utf8", "wrong_field_count", "not_an_object", "wrong_line_count"}
"""Faults of one record, after which reading continues. After any other fault, an unknown number of records is lost."""
Row = tuple[int, dict[str, Any] | ReadFault]
"""The number of a record, from 1, and the record or its fault."""


class Folder:
    """The files below the folder of a suite."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._root = os.path.realpath(path)
        self._names = sorted(name for name in _walk(path) if "/" in name or not name.endswith(_NO_DATA))
        self._folders = {name[:at] for name in self._names for at in range(len(name)) if name[at] == "/"}

    def find(self, pattern: str, inside: str | None) -> list[BenchmarkFile]:
        """The files that match a glob or are in the folder it names; with `inside`, the matching files in archives."""
        if os.path.isabs(pattern) or ".." in pattern.split("/") or "\0" in pattern:
            raise UserError(f"{pattern!r} is outside the folder of the suite, where no file is read")
        pattern = pattern.removeprefix("./").rstrip("/")
        pattern = f"{pattern}/**" if pattern in self._folders else pattern
        matches = matcher(pattern)
        found = [name for name in self._names if matches(name)]
        if not found:
            raise UserError(f"no file matches {pattern!r} below {self.path}{self._near(pattern)}")
        if inside is None:
            return [BenchmarkFile(name, self._opener(name)) for name in found]
        members = matcher(inside)
        matching = [member for name in found for member in self._members(name, members, inside)]
        return sorted(matching, key=lambda member: member.name)

    def _near(self, pattern: str) -> str:
        last = pattern.rpartition("/")[2].lower()
        near = [name for name in self._names if name.rpartition("/")[2].lower().startswith(last.strip("*")[:4])]
        return f"; it contains {', '.join((near or self._names)[:5])}" if self._names else "; it is empty"

    def _opener(self, name: str) -> Callable[[], IO[bytes]]:
        path = os.path.join(self.path, name)
        real = os.path.realpath(path)
        if os.path.islink(real):
            raise UserError(f"{name} is a link that points to itself. Remove or correct it.")
        if os.path.commonpath([real, self._root]) != self._root:
            raise UserError(f"{name} is a link to a file outside the folder of the suite, so it is not followed")
        if not os.path.isfile(real):
            raise UserError(f"{name} is not a readable file. Remove it, or name other files.")
        return lambda: open(real, "rb")

    def _members(self, name: str, wanted: Callable[[str], bool], inside: str) -> list[BenchmarkFile]:
        names: list[str] = []
        matching: list[BenchmarkFile] = []
        try:
            with self._opener(name)() as file:
                for member, data in unpacked(name, file, wanted):
                    names.append(member)
                    if data is not None:
                        matching.append(BenchmarkFile(f"{name}:{member}", lambda data=data: io.BytesIO(data)))  # type: ignore[misc]
        except ReadFault as fault:
            raise UserError(f"the archive {name} cannot be read: {fault.detail} ({fault.reason})") from None
        if not matching:
            listed = ", ".join(sorted(names)[:5])
            raise UserError(f"no file in {name} matches {inside!r}; it contains {listed or 'no files'}")
        return matching


def _walk(folder: str) -> Iterator[str]:
    """The names below a folder, without those that begin with a dot. Links to folders are not followed."""
    count = 0
    for at, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        below = os.path.relpath(at, folder)
        for name in names:
            if not name.startswith("."):
                yield name if below == "." else f"{below}/{name}"
                count += 1
        if count > MOST_FILES:
            raise UserError(f"{folder} has more than {MOST_FILES:,} files, the limit for a suite. Name another folder.")


def matcher(pattern: str) -> Callable[[str], bool]:
    """A function that matches paths with a glob: `*`, `?` and `[...]` within a name, `**` for any folders."""
    steps = [None if step == "**" else re.compile(fnmatch.translate(step)) for step in pattern.split("/")]

    def matches(name: str) -> bool:
        # Track all steps that may come next: trying them one by one would be exponential for `**` after `**`.
        states = {0}
        for part in name.split("/"):
            following: set[int] = set()
            for state in states:
                while state < len(steps) and steps[state] is None:
                    following.add(state)
                    state += 1
                if state < len(steps) and steps[state].match(part):  # type: ignore[union-attr]
                    following.add(state + 1)
            states = following
        return any(all(step is None for step in steps[state:]) for state in states)

    return matches


def format_of(found: BenchmarkFile, given: Format | None) -> Format:
    """The format of a file: as described, or else by its name."""
    name = without_compression_suffix(found.name).lower()
    kind = given or SUFFIXES.get(os.path.splitext(name)[1])
    if kind is None and is_archive(found.name):
        raise UserError(f'{found.name} is an archive. Name the files in it, such as inside: "data/test/*.csv"')
    if kind is None:
        formats = ", ".join(dict.fromkeys(SUFFIXES.values()))
        raise UserError(f"the format of {found.name} is not clear from its name. Set format: ({formats})")
    return kind


def records(found: BenchmarkFile, kind: Format, reading: Reading) -> Iterator[Row]:
    """The records of a file, in order; a fault replaces a record that cannot be read. Raises UserError if the file
    cannot be read to its end."""
    with found.open() as file:
        try:
            for number, (_, row) in enumerate(_rows(file, kind, reading), 1):
                if isinstance(row, ReadFault) and row.reason not in _OF_RECORDS:
                    raise row
                if isinstance(row, bytes):
                    try:
                        row = parsed(row, first=number == 1)
                    except ReadFault as fault:
                        if kind == "json" and fault.reason not in _OF_RECORDS:
                            raise  # the end of this value is a guess, and it may have swallowed other records
                        row = fault
                yield number, row
        except (ReadFault, OSError, MemoryError) as error:
            cause = (
                f"{error.detail} ({error.reason})" if isinstance(error, ReadFault) else str(error) or "out of memory"
            )
            raise UserError(
                f"{found.name} cannot be read to its end, so an unknown number of items would be unprotected: {cause}. "
                "Replace the file with a complete one, or correct its description."
            ) from None


def _rows(file: IO[bytes], kind: Format, reading: Reading) -> Iterator[tuple[int, Any]]:
    if kind == "parquet":
        magic = file.read(MAGIC_BYTES)
        file.seek(0)
        plain = io.BytesIO(b"".join(chunks_of(file))) if compression(magic) else file
        yield from parquet_rows(plain, reading.columns)
    elif kind == "jsonl":
        yield from lines(chunks_of(file), 0, MOST_RECORD_BYTES)
    elif kind == "json":
        yield from _json(chunks_of(file), reading)
    elif kind == "lines":
        yield from _lines(chunks_of(file), reading.lines_per_item)
    else:
        yield from _csv(chunks_of(file), "\t" if kind == "tsv" else ",", reading.header)


def _json(chunks: Iterator[bytes], reading: Reading) -> Iterator[tuple[int, Any]]:
    if reading.records is None:
        yield from elements(_closed(chunks), MOST_RECORD_BYTES)
        return
    for position, element in elements(chunks, MOST_JSON_BYTES):
        if isinstance(element, ReadFault):
            raise element
        try:
            held = value_at(parsed(element, first=False), reading.records)
        except Broken as broken:
            raise ReadFault("no_records", str(broken)) from None
        if not isinstance(held, list):
            raise ReadFault("no_records", f"{reading.records} is not a list of records")
        for row in held:
            yield position, row if isinstance(row, dict) else ReadFault("not_an_object", "a record must be an object")


def _closed(chunks: Iterator[bytes]) -> Iterator[bytes]:
    """Pass on the chunks; raise ReadFault if they open an array and do not close it."""
    begin = end = b""
    for chunk in chunks:
        bare = chunk.removeprefix(b"" if begin else BOM).strip()
        begin, end = begin or bare[:1], bare[-1:] or end
        yield chunk
    if begin == b"[" and end != b"]":
        raise ReadFault("unclosed_json", "the array of records is not closed")


def _lines(chunks: Iterator[bytes], per_item: int) -> Iterator[tuple[int, Any]]:
    held: list[str] = []
    fault: ReadFault | None = None
    begin = 0
    for position, line in lines(chunks, 0, MOST_RECORD_BYTES):
        begin = begin if held else position
        try:
            if isinstance(line, ReadFault):
                raise line
            held.append(line.removeprefix(BOM if position == 0 else b"").decode().rstrip("\r"))
        except UnicodeDecodeError as error:
            held.append("")
            fault = ReadFault("invalid_utf8", f"byte {error.start} of a line: {error.reason}")
        except ReadFault as error:
            held.append("")
            fault = error
        if len(held) == per_item:
            yield begin, fault or {str(at): text for at, text in enumerate(held)}
            held, fault = [], None
    if held:
        detail = f"the last item has {counted(len(held), 'line')} instead of {per_item:,}"
        yield begin, fault or ReadFault("wrong_line_count", detail)


def _csv(chunks: Iterator[bytes], delimiter: str, header: bool) -> Iterator[tuple[int, Any]]:
    names: Sequence[str] | None = None
    for position, row in cut(chunks, delimiter, True, None, MOST_RECORD_BYTES):
        if isinstance(row, ReadFault):
            yield position, row
            continue
        row = [row[0].removeprefix(BOM.decode()), *row[1:]] if position == 0 else row
        if names is None:
            names = row if header else [str(at) for at in range(len(row))]
            if header:
                continue
        yield position, dict(zip(names, row, strict=True))
