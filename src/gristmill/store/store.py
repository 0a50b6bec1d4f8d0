"""The store: immutable parts named by their content, and small JSON records that name them.

    parts/3f/3f9c…e1.parquet      any file, named by the sha256 of its bytes (`sha256sum` agrees)
    parts/a0/a07b…4c.verdicts     for each part of rows: its verdicts, and the hashes of its column chunks
    tasks/<key>.json              the result of one task, written after its parts
    datasets/<hash>.json          parts in order, written after their tasks
    stages/<key>.json             all tasks of a stage at once, written after its datasets
    runs/<recipe>/run-7-….json    a run: its stages, what was cached, metrics; the highest number is the newest
    versions/<name>.json          a finished run with a name
    dropped/<recipe>/<hash>.json  a version that was deleted
    inputs/<recipe>.json          sizes, times and hashes of input files: saves hashing an unchanged file again
    inputs/<recipe>/last.json     the same for files and folders at the last run: shows that nothing has changed since
    inputs/indexes/<hash>         members and points of input files, and what CDX indexes select (files/indexing.py)
    locks/<id>.json               a process that uses the store now
    claims/<key>                  a task that a run is about to carry out
    progress/<recipe>/<id>.json   how far a run is, for other processes
    <folder>/<name>.json          records of a package, which nothing collects

The files are on a disk (`disk.py`), or in an object store or memory (`objects.py`); `files.py` is the interface. Writes
are atomic. A record contains its name and a checksum; a record that does not match them counts as missing, and its
content is computed again.
"""

import contextlib
import errno
import hashlib
import os
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gristmill.errors import UserError
from gristmill.hints import option
from gristmill.places import local_path, system_of
from gristmill.processes import name_of_self
from gristmill.store.disk import DiskFiles
from gristmill.store.faults import Unwritable
from gristmill.store.fetched import fetched
from gristmill.store.files import About, Answer, StoreFiles
from gristmill.store.records import DAMAGED, DamagedRecord, RecordBody, pack, unpack

if TYPE_CHECKING:  # importing it takes a tenth of a second, and records do not need it
    import pyarrow as pa

VERDICTS = "verdicts"
"""The suffix of the small part that accompanies a part of rows."""


def part_name(part_hash: str, suffix: str) -> str:
    """The name of a part's file, relative to the store."""
    return f"parts/{part_hash[:2]}/{part_hash}.{suffix}"


@dataclass(frozen=True, slots=True)
class Verdicts:
    """The small part that accompanies a part of rows (`verdicts.py`)."""

    hash: str
    file_bytes: int
    drop: str
    """A hash of the verdicts alone: of the rows and their `drop`, independent of all other columns."""

    @property
    def part(self) -> "Part":
        return Part(self.hash, VERDICTS, self.file_bytes)


@dataclass(frozen=True, slots=True)
class Part:
    """One immutable file of the store."""

    hash: str
    suffix: str
    """File type without a dot: parquet, segments, or a model's own."""
    file_bytes: int
    rows: int = 0
    payload_bytes: int = 0
    """Bytes of text (or markup) that the rows hold, before compression."""
    verdicts: Verdicts | None = None
    """Only for parts of rows. A part from an earlier version has none and is read as a whole."""

    @property
    def name(self) -> str:
        """The name of its file, relative to the store."""
        return part_name(self.hash, self.suffix)


def with_verdicts(parts: Iterable[Part]) -> Iterator[Part]:
    """The parts and their verdicts parts."""
    for part in parts:
        yield part
        if part.verdicts is not None:
            yield part.verdicts.part


def part_to_json(part: Part) -> dict[str, Any]:
    beside = part.verdicts
    return {
        "hash": part.hash,
        "suffix": part.suffix,
        "file_bytes": part.file_bytes,
        "rows": part.rows,
        "payload_bytes": part.payload_bytes,
        **({"verdicts": [beside.hash, beside.file_bytes, beside.drop]} if beside else {}),
    }


def part_from_json(entry: Mapping[str, Any]) -> Part:
    """The part in a JSON entry; other keys are ignored."""
    sizes = (entry["file_bytes"], entry["rows"], entry["payload_bytes"])
    beside = Verdicts(*entry["verdicts"]) if "verdicts" in entry else None
    return Part(entry["hash"], entry["suffix"], *sizes, beside)


class CorruptPart(Exception):
    """A part is missing or does not match its hash. The engine makes it again."""

    def __init__(self, part_hash: str, fact: str) -> None:
        super().__init__(part_hash, fact)
        self.part_hash = part_hash
        self.fact = fact


class Store:
    """A folder on a local disk, in memory or in an object store."""

    def __init__(self, uri: str) -> None:
        self.uri = uri
        self.damaged_records: dict[str, str] = {}
        """Damaged records that were met: name -> what is wrong."""
        if (path := local_path(uri)) is not None:
            self.root = os.path.abspath(path).rstrip("/")
            self._files: StoreFiles = DiskFiles(uri, self.root)
            return
        from gristmill.store.objects import ObjectFiles

        self.fs, root = system_of(uri)
        self.root = root.rstrip("/")
        self._files = ObjectFiles(uri, self.fs, self.root)

    @cached_property
    def fs(self) -> Any:
        """The fsspec file system."""
        return system_of(self.uri)[0]

    def __reduce__(self) -> tuple[type["Store"], tuple[str]]:
        return Store, (self.uri,)

    @property
    def is_local(self) -> bool:
        """Whether files have paths on this machine."""
        return self._files.is_local

    @property
    def is_shared(self) -> bool:
        """Whether another process sees what this one writes."""
        return self._files.is_shared

    # Parts

    def part_path(self, part: Part) -> str:
        return f"{self.root}/{part.name}"

    def put_part(self, data: "pa.Buffer | bytes", suffix: str, rows: int = 0, payload_bytes: int = 0) -> Part:
        """Store bytes under the hash of their content; storing the same content again changes nothing."""
        view = memoryview(data)
        part = Part(hashlib.sha256(view).hexdigest(), suffix, view.nbytes, rows, payload_bytes)
        self._files.write(part.name, view)
        return part

    def put_file(self, path: Path, suffix: str) -> Part:
        """Move a file from a `scratch` folder into the store as a part, without loading it into memory."""
        with path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        part = Part(digest, suffix, path.stat().st_size)
        self._files.take(path, part.name)
        return part

    @contextmanager
    def scratch(self) -> Iterator[Path]:
        """A folder for files on their way to `put_file`."""
        with self._files.scratch() as folder:
            try:
                yield folder
            except OSError as error:
                if error.filename is not None and not str(error.filename).startswith(str(folder)):
                    raise  # not a file of the store: the caller has the better message
                raise self.unwritable_by(error) from None

    def get_part(self, part: Part) -> "pa.Buffer":
        """A part's bytes, checked against its name. A local part is mapped, not copied."""

        def check(buffer: "pa.Buffer") -> "pa.Buffer":
            if hashlib.sha256(memoryview(buffer)).hexdigest() != part.hash:
                raise CorruptPart(part.hash, "does not match its hash")
            return buffer

        return self._checked(part, lambda: self._files.read_part(part.name, part.file_bytes), check)

    def local_path(self, part: Part) -> Path:
        """The verified part as a local file, for a library that opens a path; a remote part is fetched once."""
        if self.is_local:
            self.get_part(part)
            return Path(self.part_path(part))
        return fetched(part.hash, part.suffix, lambda: memoryview(self.get_part(part)))

    def location(self, part: Part) -> str:
        """The path or URI of a part."""
        return self._files.location(part.name)

    def get_range(self, part: Part, start: int, stop: int, check: Callable[[bytes], Answer]) -> Answer:
        """The result of `check` for a byte range of a part; `check` raises CorruptPart if the hash differs."""
        return self._checked(part, lambda: self._files.read_range(part.name, start, stop), check)

    def _checked(self, part: Part, read: Callable[[], About], check: Callable[[About], Answer]) -> Answer:
        """Read and check. Wrong bytes from a remote store are fetched again: the network may have changed them."""
        data = self._read(part, read)
        try:
            return check(data)
        except CorruptPart:
            if self.is_local:
                raise
        return check(self._read(part, read))

    def _read(self, part: Part, read: Callable[[], Answer]) -> Answer:
        try:
            return read()
        except FileNotFoundError:
            raise CorruptPart(part.hash, "is missing") from None
        except (OSError, ValueError) as error:
            from pyarrow import ArrowInvalid

            if not isinstance(error, OSError | ArrowInvalid):
                raise
            raise self._unreadable(part, error) from None

    def _unreadable(self, part: Part, error: Exception) -> Exception:
        """The error for an unreadable part, which is not damaged if only memory or file handles ran out."""
        if isinstance(error, OSError) and error.errno in (errno.EMFILE, errno.ENFILE, errno.ENOMEM):
            return UserError(
                f"Part {part.hash[:12]} of {self.uri} cannot be read now: {error}. Finished work is kept. "
                "Allow more open files (ulimit -n) or memory, or use fewer workers, then run again to continue."
            )
        return CorruptPart(part.hash, f"cannot be read ({error})")

    def remove_part(self, part: Part) -> None:
        try:
            self._files.remove_any(part.name)
        except OSError as error:
            raise self.unwritable_by(error) from None

    def remove_damaged(self, corrupt: CorruptPart) -> None:
        """Remove a damaged part, so that an intact seal cannot hide the damage."""
        for name, _ in list(self.list_files(f"parts/{corrupt.part_hash[:2]}")):
            if name.rsplit("/", 1)[1].startswith(corrupt.part_hash):
                self.unmark(name)

    def has_part(self, part: Part) -> bool:
        """Whether the part is intact: by its size and seal, or by its content if the seal is broken."""
        try:
            is_whole = self._files.is_whole(part.name, part.file_bytes)
            if is_whole is None:
                self.get_part(part)
                self._files.seal(part.name)
        except (FileNotFoundError, NotADirectoryError, CorruptPart):
            return False
        return is_whole is not False

    def has_all(self, parts: Iterable[tuple[str, int]]) -> bool:
        """Whether all parts are intact. There may be millions, so they are (name, size) pairs."""
        for name, size in self._files.doubtful(parts):
            part_hash, _, suffix = name.rpartition("/")[2].partition(".")
            if not self.has_part(Part(part_hash, suffix, size)):
                return False
        return True

    def each(self, question: Callable[[About], Answer], things: Iterable[About]) -> Iterator[Answer]:
        """Yield the results of `question` in order, with many calls in parallel if the store is remote."""
        return self._files.each(question, things)

    # Records and other files by name

    def read_record(self, name: str) -> Any | None:
        """The record at a path relative to the store; None if it does not exist. May raise DamagedRecord."""
        for is_last in (self.is_local, True):  # as with parts, the network may have changed the bytes
            data = self.read_file(name)
            try:
                body = None if data is None else unpack(name, data)
                levels = 3 if name.startswith(("runs/", "versions/")) else 0  # identities of nodes; others are large
                return RecordBody(self._named(name), body, levels) if isinstance(body, dict) else body
            except DamagedRecord:
                if is_last:
                    break
        raise self.damaged(name)

    def damaged(self, name: str, fact: str = DAMAGED) -> DamagedRecord:
        """The error for a record that is damaged, or that this version does not understand."""
        self.damaged_records[name] = message = self._files.in_the_way(name) or f"{self._named(name)} {fact}"
        return DamagedRecord(message)

    def _named(self, name: str) -> str:
        return f"{self.uri.rstrip('/')}/{name}"

    def read_file(self, name: str) -> bytes | None:
        """The bytes of a file at a path relative to the store; None if it does not exist."""
        try:
            return self._files.read(name)
        except FileNotFoundError:
            return None
        except IsADirectoryError:
            return b""
        except OSError as error:
            raise UserError(
                f"The store {self.uri} cannot be read: {error}. Nothing was run. "
                f"Set a folder that you can read and write with `store:` in the recipe or {option('store')}."
            ) from None

    def read_json(self, name: str) -> Any | None:
        """The same as `read_record`, but a damaged record counts as missing."""
        try:
            return self.read_record(name)
        except DamagedRecord:
            return None

    def write_json(self, name: str, value: object) -> None:
        self.write_file(name, pack(name, value))

    def write_file(self, name: str, data: bytes) -> None:
        """Write a file that is not a record, at a path relative to the store."""
        self._files.write(name, memoryview(data))

    def list_files(self, folder: str) -> Iterator[tuple[str, int]]:
        """(path relative to the store, size) of every file below a folder, sorted by path."""
        with contextlib.suppress(FileNotFoundError):
            yield from self._files.list_files(folder)

    def has_other_names(self, name: str) -> bool:
        """Whether a file has another hard link, so that removing it frees no disk space."""
        return self._files.has_other_names(name)

    def remove(self, name: str) -> None:
        self._files.remove(name)

    # Marks and times

    def mark(self, name: str, value: str) -> str | None:
        """Store a short text under a free name. Returns None on success, else the text that is already there."""
        while True:
            try:
                self._files.mark(name, value)
                return None
            except FileExistsError:
                with contextlib.suppress(FileNotFoundError):
                    return self._files.marked(name)
            except OSError as error:
                raise self.unwritable_by(error, f"{self.root}/{name}") from None

    def unmark(self, name: str) -> None:
        with contextlib.suppress(FileNotFoundError):
            self._files.unmark(name)

    def age_seconds(self, name: str) -> float | None:
        """The age of a file by the clock of the store; None if the file does not exist."""
        probe = f"tmp/clock.{name_of_self()}.{uuid.uuid4().hex[:8]}"
        try:
            self.write_file(probe, b"")
            try:
                return self._files.modified(probe) - self._files.modified(name)
            finally:
                self.unmark(probe)
        except FileNotFoundError:
            return None
        except UserError:  # a read-only store: use the clock of this machine
            return time.time() - self._files.modified(name)

    def temporary(self, path: str) -> str:
        """A file name on the same disk that includes the id of the writing process."""
        return self._files.temporary(path)

    def sweep_temporaries(self) -> list[str]:
        """Remove temporary files of processes that have ended."""
        return self._files.sweep_temporaries(self.age_seconds)

    def unwritable_by(self, error: OSError, path: str | None = None) -> Unwritable:
        """The error for a failed write."""
        return self._files.unwritable_by(error, path)
