"""The interface between a store and its files: on a disk (`disk.py`), or in an object store or memory (`objects.py`).

A name is a path relative to the store, with slashes. Writes are atomic. FileNotFoundError means that a file does not
exist; any other OSError means that the operation failed.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TypeVar

from gristmill.store.faults import Unwritable

if TYPE_CHECKING:
    import pyarrow as pa

About = TypeVar("About")
Answer = TypeVar("Answer")


class StoreFiles(Protocol):
    """Files by name."""

    uri: str
    root: str
    """The path of the store in its file system."""

    @property
    def is_local(self) -> bool:
        """Whether files have paths on this machine: they are mapped, linked and sealed, and lookups are cheap."""

    @property
    def is_shared(self) -> bool:
        """Whether another process sees what this one writes."""

    def read(self, name: str) -> bytes: ...
    def read_part(self, name: str, size: int) -> "pa.Buffer": ...
    def read_range(self, name: str, start: int, stop: int) -> bytes: ...
    def each(self, question: Callable[[About], Answer], things: Iterable[About]) -> Iterator[Answer]:
        """Yield the results of `question` in order, computed in parallel if that is faster."""

    def doubtful(self, parts: Iterable[tuple[str, int]]) -> Iterator[tuple[str, int]]:
        """The parts, given by name and size, for which `is_whole` is not true."""

    def is_whole(self, name: str, size: int) -> bool | None:
        """Whether a part has the right size and is unmodified; None if only its content can show that."""

    def seal(self, name: str) -> None:
        """Seal a part whose content has been verified."""

    def write(self, name: str, data: memoryview) -> None: ...
    def take(self, path: Path, name: str) -> None:
        """Move a file from a `scratch` folder into the store."""

    def scratch(self) -> AbstractContextManager[Path]: ...
    def location(self, name: str) -> str:
        """The path or URI of a file."""

    def list_files(self, folder: str) -> Iterator[tuple[str, int]]:
        """(name, size) of every file below a folder, sorted by name."""

    def has_other_names(self, name: str) -> bool:
        """Whether a file has another hard link, so that removing it frees no disk space."""

    def remove(self, name: str) -> None: ...
    def remove_any(self, name: str) -> None: ...
    def mark(self, name: str, value: str) -> None:
        """Store a short text under a name. Raises FileExistsError if the name is taken."""

    def marked(self, name: str) -> str: ...
    def unmark(self, name: str) -> None: ...
    def modified(self, name: str) -> float:
        """The modification time of a file, by the clock of the file system."""

    def in_the_way(self, name: str) -> str | None:
        """Describe what occupies the path of a file; None if nothing is wrong."""

    def temporary(self, path: str) -> str: ...
    def sweep_temporaries(self, age_seconds: Callable[[str], float | None]) -> list[str]:
        """Remove temporary files of processes that have ended."""

    def unwritable_by(self, error: OSError, path: str | None = None) -> Unwritable:
        """The error for a failed write."""
