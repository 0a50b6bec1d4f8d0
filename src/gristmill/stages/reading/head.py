"""The beginning of a file for a preview. Readers open it like any other file; it stops the reading at a bound."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import IO, Any

from gristmill.checked import SeekableFile

MOST_BYTES = 1 << 20
"""The most that is unpacked of a stream, since a small file may unpack to a huge one."""
MOST_ROWS_BYTES = 64 << 20
"""The most that is unpacked of a table. Its rows come in batches of up to 16 MB, or of one larger row."""
MOST_RATIO = 64
"""A table may also unpack to this many times the size of its file; text compresses to a tenth at best."""
MOST_READ_BYTES = 4 << 20
"""The most bytes that are read. More than MOST_BYTES: Parquet has its schema at the end and a buffer per column."""


class Spent(BaseException):
    """A preview has used its budget. Not an Exception, so that no reader takes it for damage."""


@dataclass
class Budget:
    """What a preview has read."""

    read_bytes: int = 0
    unpacked_bytes: int = 0
    spent: bool = False

    def spend(self, read_bytes: int = 0, unpacked_bytes: int = 0) -> None:
        self.spent |= self.read_bytes + read_bytes > MOST_READ_BYTES or self.unpacked_bytes >= MOST_BYTES
        if self.spent:
            raise Spent
        self.read_bytes += read_bytes
        self.unpacked_bytes += unpacked_bytes


class Head(SeekableFile):
    """A file that raises Spent when the budget is used up."""

    def __init__(self, file: IO[bytes], budget: Budget) -> None:
        super().__init__(file.seek(0, 2))
        self._file, self._budget = file, budget

    def readinto(self, target: Any) -> int:
        wanted = max(0, min(len(target), self._size - self._at))
        self._budget.spend(read_bytes=wanted)
        self._file.seek(self._at)
        begun = self._at
        while self._at - begun < wanted and (part := self._file.read(wanted - self._at + begun)):
            target[self._at - begun : self._at - begun + len(part)] = part  # an object store may return less
            self._at += len(part)
        return self._at - begun

    def bounded(self, chunks: Iterator[bytes]) -> Iterator[bytes]:
        """The decompressed content of the file."""
        for chunk in chunks:
            self._budget.spend(unpacked_bytes=len(chunk))
            yield chunk

    def check_rows(self, declared: int) -> None:
        """Leaves rows that would unpack to many times the file for the run, since a page is unpacked as a whole."""
        if declared > MOST_ROWS_BYTES + MOST_RATIO * self._size:
            self.unpacked_rows(declared)

    def unpacked_rows(self, size: int) -> None:
        """Counts a batch of rows and stops the reading if the budget does not allow another one."""
        self._budget.spend(unpacked_bytes=size * MOST_BYTES // MOST_ROWS_BYTES)
        self._budget.spend()

    def close(self) -> None:
        self._file.close()
        super().close()
