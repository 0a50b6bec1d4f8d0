"""The files of a store on a local disk.

Writes are atomic: a file is written in tmp/ and then renamed. There is no fsync, so a part may be truncated after a
power cut; its hash shows that when it is read. Parts are sealed (`seal.py`), so a run can find suspect parts by their
seals without reading them. A mark is a symbolic link.
"""

import contextlib
import os
import re
import shutil
import stat
import uuid
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from gristmill.places import must_be_file
from gristmill.processes import name_of_self, runs
from gristmill.store.faults import Unwritable, in_the_way, unwritable
from gristmill.store.files import About, Answer
from gristmill.store.seal import seal, seal_time

if TYPE_CHECKING:
    import pyarrow as pa

_TEMPORARY = re.compile(r".*\.([0-9a-z]{8}-[0-9]{1,10}-[0-9a-z]{1,20})\.[0-9a-f]{8}", re.DOTALL)
"""The names that `temporary` gives; the group is the writing process."""
FOREIGN_SECONDS = 86400.0
"""The age at which a temporary file is abandoned if its writer runs on another machine."""


class DiskFiles:
    """A folder on a local disk."""

    is_local = is_shared = True

    def __init__(self, uri: str, root: str) -> None:
        self.uri = uri
        self.root = root

    def read(self, name: str) -> bytes:
        path = self._file(name)
        return Path(path).read_bytes()

    def read_part(self, name: str, size: int) -> "pa.Buffer":
        """Mapped, not copied."""
        path = self._file(name)
        import pyarrow as pa  # imported here because records do not need it

        return pa.memory_map(os.fsencode(path)).read_buffer() if size else pa.py_buffer(b"")

    def read_range(self, name: str, start: int, stop: int) -> bytes:
        path = self._file(name)
        with open(path, "rb") as file:
            file.seek(start)
            return file.read(stop - start)

    def _file(self, name: str) -> str:
        path = f"{self.root}/{name}"
        must_be_file(path)
        return path

    def each(self, question: Callable[[About], Answer], things: Iterable[About]) -> Iterator[Answer]:
        yield from map(question, things)

    def doubtful(self, parts: Iterable[tuple[str, int]]) -> Iterator[tuple[str, int]]:
        for name, size in parts:
            try:
                is_whole = self.is_whole(name, size)
            except (FileNotFoundError, NotADirectoryError):
                is_whole = False
            if not is_whole:
                yield name, size

    def is_whole(self, name: str, size: int) -> bool | None:
        """Check the size and the seal; None if the seal is broken."""
        found = os.stat(f"{self.root}/{name}")
        if not stat.S_ISREG(found.st_mode) or found.st_size != size:
            return False
        return True if found.st_mtime_ns == seal_time(name.rpartition("/")[2]) else None

    def seal(self, name: str) -> None:
        path = f"{self.root}/{name}"
        with contextlib.suppress(OSError):  # a read-only disk, or a file of another user: it is hashed again next time
            os.utime(path, ns=(os.stat(path).st_atime_ns, seal_time(os.path.basename(name))))

    def write(self, name: str, data: memoryview) -> None:
        path = f"{self.root}/{name}"
        temporary = self.temporary(path)
        try:
            with open(temporary, "wb") as file:
                file.write(data)
            self._settle(temporary, path)
        except OSError as error:
            with contextlib.suppress(OSError):
                os.unlink(temporary)
            raise self.unwritable_by(error, path) from None

    def take(self, path: Path, name: str) -> None:
        self._settle(str(path), f"{self.root}/{name}")

    def _settle(self, temporary: str, path: str) -> None:
        """Rename a finished file to its final name, after sealing it if it is a part."""
        folder, name = os.path.split(path)
        if os.path.basename(os.path.dirname(folder)) == "parts":
            seal(temporary, name)
        _with_folder(folder, os.replace, temporary, path)

    @contextmanager
    def scratch(self) -> Iterator[Path]:
        """A folder on the store's own disk, so that files can be moved without a copy."""
        folder = self.temporary("scratch")
        os.mkdir(folder)
        try:
            yield Path(folder)
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def location(self, name: str) -> str:
        return f"{self.root}/{name}"

    def list_files(self, folder: str) -> Iterator[tuple[str, int]]:
        """An empty folder with the name of a record is listed too, because it counts as a damaged record."""
        top = f"{self.root}/{folder}"
        found, folders = {top: os.path.getsize(top)} if os.path.isfile(top) else {}, [top]
        while folders:
            with contextlib.suppress(OSError), os.scandir(folders.pop()) as entries:
                for entry in entries:
                    is_folder = entry.is_dir(follow_symlinks=False)
                    folders += [entry.path] if is_folder else []
                    if not is_folder:
                        found[entry.path] = _size(entry)
                    elif entry.path.endswith(".json") and not os.listdir(entry.path):
                        found[entry.path] = 0
        yield from ((path[len(self.root) + 1 :], found[path]) for path in sorted(found))

    def has_other_names(self, name: str) -> bool:
        return os.stat(f"{self.root}/{name}").st_nlink > 1

    def remove(self, name: str) -> None:
        os.remove(f"{self.root}/{name}")

    def remove_any(self, name: str) -> None:
        """Remove a file, or a folder that has the name of a file."""
        path = f"{self.root}/{name}"
        if os.path.isdir(path):
            shutil.rmtree(path)
        elif os.path.exists(path):
            os.remove(path)

    def mark(self, name: str, value: str) -> None:
        # A symbolic link that points to nothing: name and content appear in one atomic call.
        path = f"{self.root}/{name}"
        _with_folder(os.path.dirname(path), os.symlink, value, path)

    def marked(self, name: str) -> str:
        path = f"{self.root}/{name}"
        try:
            if os.path.islink(path):
                return os.readlink(path)
            must_be_file(path)  # a copied store may have files instead of links
            return Path(path).read_text(errors="replace")
        except IsADirectoryError as error:
            raise self.unwritable_by(error, path) from None

    def unmark(self, name: str) -> None:
        os.unlink(f"{self.root}/{name}")

    def modified(self, name: str) -> float:
        return os.stat(f"{self.root}/{name}").st_mtime

    def in_the_way(self, name: str) -> str | None:
        return in_the_way(f"{self.root}/{name}")

    def temporary(self, path: str) -> str:
        """A file name on the same disk that includes the id of the writing process."""
        try:
            if not os.path.isdir(f"{self.root}/tmp"):
                os.makedirs(f"{self.root}/tmp", exist_ok=True)
        except OSError as error:
            raise self.unwritable_by(error, f"{self.root}/tmp/file") from None
        return f"{self.root}/tmp/{os.path.basename(path)}.{name_of_self()}.{uuid.uuid4().hex[:8]}"

    def sweep_temporaries(self, age_seconds: Callable[[str], float | None]) -> list[str]:
        gone = []
        for name in os.listdir(f"{self.root}/tmp") if os.path.isdir(f"{self.root}/tmp") else ():
            path, ours = f"{self.root}/tmp/{name}", _TEMPORARY.fullmatch(name)
            if ours is None:  # not one of ours: the folder had files before it became a store
                continue
            alive = runs(ours[1])
            # Another run may sweep at the same time, and another user's file may be protected: it does no harm.
            with contextlib.suppress(FileNotFoundError, PermissionError):
                if alive is None:
                    alive = (age_seconds(f"tmp/{name}") or 0) < FOREIGN_SECONDS
                if not alive:
                    shutil.rmtree(path) if os.path.isdir(path) else os.unlink(path)
                    gone.append(f"tmp/{name}")
        return gone

    def unwritable_by(self, error: OSError, path: str | None = None) -> Unwritable:
        return unwritable(self.uri, error, path or error.filename2)


def _size(entry: "os.DirEntry[str]") -> int:
    """The size of a file; 0 for a mark, whose link points to nothing."""
    try:
        return entry.stat().st_size
    except OSError:
        return 0


def _with_folder(folder: str, act: Callable[..., None], *about: str) -> None:
    """Call `act`; if the folder is missing, which is rare, create it and call `act` again."""
    try:
        act(*about)
    except FileNotFoundError:
        os.makedirs(folder, exist_ok=True)
        act(*about)
