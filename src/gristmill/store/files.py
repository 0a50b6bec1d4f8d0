"""What a store asks of the place where its files lie: a disk (`disk.py`), or an object store or memory (`objects.py`).

A name is a path below the store, with slashes. A file appears under its name whole or not at all. FileNotFoundError
says that there is none, any other OSError that the place cannot do it now.
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
        """Whether files have paths on this machine: they are mapped, linked, sealed, and asking costs nothing."""

    @property
    def is_shared(self) -> bool:
        """Whether another process sees what this one writes."""

    def read(self, name: str) -> bytes: ...
    def read_part(self, name: str, size: int) -> "pa.Buffer": ...
    def read_range(self, name: str, start: int, stop: int) -> bytes: ...
    def each(self, question: Callable[[About], Answer], things: Iterable[About]) -> Iterator[Answer]:
        """What is answered of each, in order; many at once where that is faster."""

    def doubtful(self, parts: Iterable[tuple[str, int]]) -> Iterator[tuple[str, int]]:
        """Of parts by name and size, those of which `is_whole` is not true."""

    def is_whole(self, name: str, size: int) -> bool | None:
        """Whether a part has its size and nobody touched it; None where only its content can tell."""

    def seal(self, name: str) -> None:
        """Its content was right."""

    def write(self, name: str, data: memoryview) -> None: ...
    def take(self, path: Path, name: str) -> None:
        """A file of a `scratch` folder becomes one of the store."""

    def scratch(self) -> AbstractContextManager[Path]: ...
    def location(self, name: str) -> str:
        """Where any reader finds a file: a path, or a URI."""

    def list_files(self, folder: str) -> Iterator[tuple[str, int]]:
        """(name, size) of every file below a folder, sorted by name."""

    def has_other_names(self, name: str) -> bool:
        """Whether a file has another name, so that it takes no room of its own."""

    def remove(self, name: str) -> None: ...
    def remove_any(self, name: str) -> None: ...
    def mark(self, name: str, value: str) -> None:
        """Leave a short text under a name; FileExistsError where it is not free."""

    def marked(self, name: str) -> str: ...
    def unmark(self, name: str) -> None: ...
    def modified(self, name: str) -> float:
        """When a file was written, by the clock that gives files their times."""

    def in_the_way(self, name: str) -> str | None:
        """What stands where a file should be; None where nothing does."""

    def temporary(self, path: str) -> str: ...
    def sweep_temporaries(self, age_seconds: Callable[[str], float | None]) -> list[str]:
        """Take away half-written files of writers that no longer run."""

    def unwritable_by(self, error: OSError, path: str | None = None) -> Unwritable:
        """What to tell of a write that failed."""
