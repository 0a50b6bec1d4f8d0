"""The store: immutable parts named by their content, and small JSON records that name them.

    parts/3f/3f9c…e1.parquet      any file, named by the sha256 of its bytes (`sha256sum` agrees)
    parts/a0/a07b…4c.verdicts     beside a part of rows: its verdicts, and the hashes of its column chunks
    tasks/<key>.json              what one task made, written after its parts
    datasets/<hash>.json          parts in order, written after their tasks
    stages/<key>.json             all tasks of a stage at once, written after its datasets
    runs/<recipe>/<time>.json     a run: its stages, what was cached, metrics
    versions/<name>.json          a finished run that somebody named
    inputs/<recipe>.json          sizes, times and hashes of input files: saves hashing an unchanged file again
    locks/<id>.json               who uses the store now
    claims/<key>                  a task that a run is about to carry out

Everything goes through fsspec. A file appears under its name whole or not at all: on a local disk it is written
in tmp/ and renamed; an object store's upload is atomic by itself. There is no fsync: after a power cut a part may be
short, which its hash shows when it is read. A record carries its name and a checksum; one that does not agree with
them counts as absent, and what it said is found out again.

A part on a local disk is sealed (`seal.py`), so a run that only looks at the seals, without reading a byte, still knows
which parts to doubt.
"""

import contextlib
import errno
import hashlib
import os
import re
import shutil
import stat
import tempfile
import time
import uuid
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import pyarrow as pa
from fsspec.implementations.local import LocalFileSystem
from fsspec.implementations.memory import MemoryFileSystem

from gristmill.errors import UserError
from gristmill.places import system_of
from gristmill.store.faults import Unwritable, in_the_way, must_be_file, unwritable
from gristmill.store.fetched import fetched
from gristmill.store.processes import name_of_self, runs
from gristmill.store.records import DAMAGED, DamagedRecord, pack, unpack
from gristmill.store.seal import seal, seal_time

_TEMPORARY = re.compile(r".*\.([0-9a-z]{8}-[0-9]{1,10}-[0-9a-z]{1,20})\.[0-9a-f]{8}", re.DOTALL)
"""The names that `temporary` gives, and in them who writes the file."""
FOREIGN_SECONDS = 86400.0
"""The age at which a temporary file whose writer cannot be seen from here is taken for forgotten."""

About = TypeVar("About")
Answer = TypeVar("Answer")

REMOTE_AT_ONCE = 32
"""Questions that a store at the other end of a network is asked at the same time."""


@dataclass(frozen=True, slots=True)
class Verdicts:
    """The small part beside a part of rows (`verdicts.py`)."""

    hash: str
    file_bytes: int
    drop: str
    """A hash of the verdicts themselves: of the rows and their `drop`, whatever the other columns hold."""

    @property
    def part(self) -> "Part":
        return Part(self.hash, "verdicts", self.file_bytes)


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
    """Of a part of rows; one that an earlier version wrote has none, and is read as a whole."""


def with_verdicts(parts: Iterable[Part]) -> Iterator[Part]:
    """Parts and the small ones beside them."""
    for part in parts:
        yield part
        if part.verdicts is not None:
            yield part.verdicts.part


class CorruptPart(Exception):
    """A part is missing or is not what its name says. The engine makes it again."""

    def __init__(self, part_hash: str, fact: str) -> None:
        super().__init__(part_hash, fact)
        self.part_hash = part_hash
        self.fact = fact


class Store:
    """A folder on a local disk, in memory or in an object store."""

    def __init__(self, uri: str) -> None:
        self.uri = uri
        self.fs, root = system_of(uri)
        self.root = root.rstrip("/")
        self.is_local = isinstance(self.fs, LocalFileSystem)
        self.is_shared = not isinstance(self.fs, MemoryFileSystem)
        """Whether another process sees what this one writes."""

    def __reduce__(self) -> tuple[type["Store"], tuple[str]]:
        return Store, (self.uri,)

    def part_path(self, part: Part) -> str:
        return f"{self.root}/parts/{part.hash[:2]}/{part.hash}.{part.suffix}"

    def put_part(self, data: pa.Buffer | bytes, suffix: str, rows: int = 0, payload_bytes: int = 0) -> Part:
        """Store bytes under the name of their content; writing the same content again changes nothing."""
        view = memoryview(data)
        part = Part(hashlib.sha256(view).hexdigest(), suffix, view.nbytes, rows, payload_bytes)
        self._write(self.part_path(part), view)
        return part

    def put_file(self, path: Path, suffix: str) -> Part:
        """Store a file of a `scratch` folder as a part without holding it in memory; it is taken away."""
        with path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        part = Part(digest, suffix, path.stat().st_size)
        target = self.part_path(part)
        if self.is_local:
            self._settle(str(path), target)
        else:
            self.fs.put_file(str(path), target)
            path.unlink()
        return part

    @contextmanager
    def scratch(self) -> Iterator[Path]:
        """A folder for files on their way to `put_file`: on the disk of a local store, so that they need no copy."""
        if self.is_local:
            folder = self.temporary("scratch")
            os.mkdir(folder)
        else:
            folder = tempfile.mkdtemp(prefix="gristmill-")
        try:
            yield Path(folder)
        except OSError as error:
            if error.filename is not None and not str(error.filename).startswith(folder):
                raise  # of a file that is none of the store's: whoever opened it knows what to tell
            raise self.unwritable_by(error) from None
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def get_part(self, part: Part) -> pa.Buffer:
        """A part's bytes, checked against its name. A local part is mapped, not copied."""
        path = self.part_path(part)
        try:
            if self.is_local:
                must_be_file(path)
                buffer = pa.memory_map(os.fsencode(path)).read_buffer() if part.file_bytes else pa.py_buffer(b"")
            else:
                buffer = pa.py_buffer(self.fs.cat_file(path))
        except FileNotFoundError:
            raise CorruptPart(part.hash, "is missing") from None
        except (OSError, pa.ArrowInvalid) as error:
            raise self._unreadable(part, error) from None
        if hashlib.sha256(memoryview(buffer)).hexdigest() != part.hash:
            raise CorruptPart(part.hash, "does not match its hash")
        return buffer

    def local_path(self, part: Part) -> Path:
        """A part as a file that a library can open by path; checked, and fetched once when it is far away."""
        if self.is_local:
            self.get_part(part)
            return Path(self.part_path(part))
        return fetched(part.hash, part.suffix, lambda: memoryview(self.get_part(part)))

    def location(self, part: Part) -> str:
        """Where any reader finds a part: a path, or a URI."""
        path = self.part_path(part)
        return path if self.is_local else str(self.fs.unstrip_protocol(path))

    def get_range(self, part: Part, start: int, stop: int) -> bytes:
        """Some bytes of a part, unchecked: the caller holds a hash of the stretch."""
        path = self.part_path(part)
        try:
            if self.is_local:
                must_be_file(path)
            return bytes(self.fs.cat_file(path, start=start, end=stop))
        except FileNotFoundError:
            raise CorruptPart(part.hash, "is missing") from None
        except OSError as error:
            raise self._unreadable(part, error) from None

    def _unreadable(self, part: Part, error: Exception) -> Exception:
        """What to make of a part that cannot be read: the machine's want of something is no fault of the part."""
        if isinstance(error, OSError) and error.errno in (errno.EMFILE, errno.ENFILE, errno.ENOMEM):
            return UserError(
                f"Part {part.hash[:12]} of {self.uri} cannot be read now: {error}. What is finished is kept. "
                "Allow more open files (ulimit -n) or memory, or use fewer --workers, and run again to go on."
            )
        return CorruptPart(part.hash, f"cannot be read ({error})")

    def remove_part(self, part: Part) -> None:
        try:
            if self.fs.exists(self.part_path(part)):
                self.fs.rm(self.part_path(part), recursive=True)  # in its place may be a folder
        except OSError as error:
            raise self.unwritable_by(error) from None

    def remove_damaged(self, corrupt: CorruptPart) -> None:
        """Take a damaged part away, so that nobody takes it for whole by its seal."""
        for name, _ in list(self.list_files(f"parts/{corrupt.part_hash[:2]}")):
            if name.rsplit("/", 1)[1].startswith(corrupt.part_hash):
                self.unmark(name)

    def has_part(self, part: Part) -> bool:
        """Whether the part is there whole: by its size and seal, and by its content where the seal is broken."""
        path = self.part_path(part)
        try:
            if not self.is_local:
                return bool(self.fs.info(path)["size"] == part.file_bytes)
            found = os.stat(path)
            if not stat.S_ISREG(found.st_mode) or found.st_size != part.file_bytes:
                return False
            if found.st_mtime_ns != seal_time(part.hash):
                self.get_part(part)
                with contextlib.suppress(OSError):  # a read-only disk, or another's file: it is hashed again next time
                    os.utime(path, ns=(found.st_atime_ns, seal_time(part.hash)))
        except (FileNotFoundError, NotADirectoryError, CorruptPart):
            return False
        return True

    def has_all(self, parts: Iterable[Part]) -> bool:
        """Whether all of them are there whole, with the small ones beside them."""
        return all(self.each(self.has_part, with_verdicts(parts)))

    def each(self, question: Callable[[About], Answer], things: Iterable[About]) -> Iterator[Answer]:
        """What the store answers of each, in order; many at once where it is at the other end of a network."""
        if self.is_local:
            yield from map(question, things)
        else:
            with ThreadPoolExecutor(REMOTE_AT_ONCE) as pool:
                yield from pool.map(question, things)

    def read_record(self, name: str) -> Any | None:
        """A record by its path below the store, or None when there is none; DamagedRecord where it is not whole."""
        data = self.read_file(name)
        try:
            return None if data is None else unpack(name, data)
        except DamagedRecord:
            raise self.damaged(name) from None

    def damaged(self, name: str) -> DamagedRecord:
        """What to tell of a record that cannot be read, or that says what this version does not understand."""
        found = in_the_way(f"{self.root}/{name}") if self.is_local else None
        return DamagedRecord(found or f"{self.uri.rstrip('/')}/{name} {DAMAGED}")

    def read_file(self, name: str) -> bytes | None:
        """The bytes of a file by its path below the store, or None when there is none."""
        path = f"{self.root}/{name}"
        try:
            if self.is_local:
                must_be_file(path)
                return Path(path).read_bytes()
            return bytes(self.fs.cat_file(path))
        except FileNotFoundError:
            return None
        except IsADirectoryError:
            return b""
        except OSError as error:
            raise UserError(
                f"The store {self.uri} cannot be read: {error}. Nothing was run. "
                "Give a folder that you may read and write with `store:` in the recipe or --store."
            ) from None

    def read_json(self, name: str) -> Any | None:
        """The same, where a damaged record is as good as none."""
        try:
            return self.read_record(name)
        except DamagedRecord:
            return None

    def write_json(self, name: str, value: Any) -> None:
        self.write_file(name, pack(name, value))

    def write_file(self, name: str, data: bytes) -> None:
        """A file that is no record, by its path below the store."""
        self._write(f"{self.root}/{name}", memoryview(data))

    def list_files(self, folder: str) -> Iterator[tuple[str, int]]:
        """(path below the store, size) of every file below a folder, sorted by path. An empty folder in the place of a
        record is listed too: what is damaged is not gone.
        """
        try:
            found = self.fs.find(f"{self.root}/{folder}", detail=True, withdirs=self.is_local)
        except FileNotFoundError:
            return
        for path in sorted(found):
            is_folder = found[path]["type"] == "directory"
            if not is_folder or (path.endswith(".json") and not os.listdir(path)):
                yield path[len(self.root) + 1 :], 0 if is_folder else int(found[path]["size"])

    def has_names(self, name: str) -> bool:
        """Whether a file has another name, so that it takes no room of its own."""
        return self.is_local and os.stat(f"{self.root}/{name}").st_nlink > 1

    def remove(self, name: str) -> None:
        self.fs.rm_file(f"{self.root}/{name}")

    def mark(self, name: str, value: str) -> str | None:
        """Leave a short text under a name that is free. None: done; otherwise what stands there."""
        path = f"{self.root}/{name}"
        while True:
            try:
                if self.is_local:
                    # A symbolic link that points to nothing: it appears with its content, or not at all.
                    _with_folder(os.path.dirname(path), os.symlink, value, path)
                else:
                    self.fs.pipe_file(path, value.encode(), mode="create")
                return None
            except FileExistsError:
                with contextlib.suppress(FileNotFoundError):
                    return self._marked(path)
            except OSError as error:
                raise self.unwritable_by(error, path) from None

    def _marked(self, path: str) -> str:
        if not self.is_local:
            return str(self.fs.cat_file(path).decode("ascii", "replace"))
        try:
            if os.path.islink(path):
                return os.readlink(path)
            must_be_file(path)  # a copy of a store may have no links
            return Path(path).read_text(errors="replace")
        except IsADirectoryError as error:
            raise self.unwritable_by(error, path) from None

    def unmark(self, name: str) -> None:
        with contextlib.suppress(FileNotFoundError):
            path = f"{self.root}/{name}"
            os.unlink(path) if self.is_local else self.fs.rm_file(path)

    def age_seconds(self, name: str) -> float | None:
        """How long ago a file was written, by the clock that gives the store's files their times; None without it."""
        probe = f"tmp/clock.{name_of_self()}.{uuid.uuid4().hex[:8]}"
        try:
            self.write_file(probe, b"")
            try:
                return self._modified(probe) - self._modified(name)
            finally:
                self.unmark(probe)
        except FileNotFoundError:
            return None
        except UserError:  # a store that is only read: this machine's clock has to do
            return time.time() - self._modified(name)

    def _modified(self, name: str) -> float:
        path = f"{self.root}/{name}"
        return os.stat(path).st_mtime if self.is_local else self.fs.modified(path).timestamp()

    def sweep_temporaries(self) -> list[str]:
        """Take away half-written files of writers that no longer run."""
        gone = []
        for name in os.listdir(f"{self.root}/tmp") if self.is_local and os.path.isdir(f"{self.root}/tmp") else ():
            path, ours = f"{self.root}/tmp/{name}", _TEMPORARY.fullmatch(name)
            if ours is None:  # somebody else's, whose folder this was before it was a store
                continue
            alive = runs(ours[1])
            with contextlib.suppress(FileNotFoundError):  # another run sweeps at the same time
                if alive is None:
                    alive = (self.age_seconds(f"tmp/{name}") or 0) < FOREIGN_SECONDS
                if not alive:
                    shutil.rmtree(path) if os.path.isdir(path) else os.unlink(path)
                    gone.append(f"tmp/{name}")
        return gone

    def _write(self, path: str, data: memoryview) -> None:
        if not self.is_local:
            self.fs.pipe_file(path, bytes(data))
            return
        temporary = self.temporary(path)
        try:
            with open(temporary, "wb") as file:
                file.write(data)
            self._settle(temporary, path)
        except OSError as error:
            with contextlib.suppress(OSError):
                os.unlink(temporary)
            raise self.unwritable_by(error, path) from None

    def unwritable_by(self, error: OSError, path: str | None = None) -> Unwritable:
        """What to tell of a write that failed."""
        return unwritable(self.uri, error, path or error.filename2)

    def temporary(self, path: str) -> str:
        """A name on the same disk that tells which process writes it."""
        try:
            if not os.path.isdir(f"{self.root}/tmp"):
                os.makedirs(f"{self.root}/tmp", exist_ok=True)
        except OSError as error:
            raise self.unwritable_by(error, f"{self.root}/tmp/file") from None
        return f"{self.root}/tmp/{os.path.basename(path)}.{name_of_self()}.{uuid.uuid4().hex[:8]}"

    def _settle(self, temporary: str, path: str) -> None:
        """Give a finished file its name; a part is sealed first."""
        folder, name = os.path.split(path)
        if os.path.basename(os.path.dirname(folder)) == "parts":
            seal(temporary, name)
        _with_folder(folder, os.replace, temporary, path)


def _with_folder(folder: str, act: Callable[..., None], *about: str) -> None:
    """Do something in a folder, which is made only where it is not there: it nearly always is."""
    try:
        act(*about)
    except FileNotFoundError:
        os.makedirs(folder, exist_ok=True)
        act(*about)
