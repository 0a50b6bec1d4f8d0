"""Input files that are read exactly as they were hashed: each block is compared with its digest before it is used.

A file is hashed once as a whole, for keys, and by blocks, for readers, which rarely read a whole file. A reader only
gets bytes that were compared. A concurrent write, even through a mapping, with the same size or with reset times, is
detected or has no effect.
"""

import base64
import hashlib
import io
import os
from dataclasses import dataclass
from typing import IO, Any

from gristmill.errors import UserError
from gristmill.objects.reader import SeekableFile as SeekableFile
from gristmill.places import FileLocation, shown

BLOCK_BYTES = 4 << 20
"""Small compared with the 16 to 64 MB of a file that a task reads; with 16-byte digests, 400 MB for 100 TB."""
KEPT_BLOCKS = 3
"""Blocks that a reader keeps: the current one, and some for reading back."""
_DIGEST_BYTES = 16
MOST_READINGS = 5
"""Readings of a file whose tag does not match its bytes, until two of them agree."""


@dataclass(frozen=True, slots=True)
class Content:
    """The content of a file when it was hashed."""

    sha256: str
    size: int
    blocks: bytes = b""
    """16 bytes for each BLOCK_BYTES of the file."""

    def as_json(self) -> list[Any]:
        return [self.sha256, self.size, base64.b64encode(self.blocks).decode()]

    @classmethod
    def from_json(cls, record: Any) -> "Content | None":
        """The content that `as_json` wrote; None for anything else."""
        try:
            sha256, size, blocks = record
            found = cls(str(sha256), int(size), base64.b64decode(blocks, validate=True))
        except (TypeError, ValueError):
            return None
        return found if len(found.blocks) == _DIGEST_BYTES * -(-found.size // BLOCK_BYTES) else None


class InputChanged(UserError):
    """A file is not what it was when it was hashed."""

    def __init__(self, uri: str) -> None:
        super().__init__(
            f"{shown(uri)} changed since it was hashed, so its content does not belong to this run. "
            "None of it was stored. Wait until it is complete and run again."
        )
        self.uri = uri

    def __reduce__(self) -> tuple[type["InputChanged"], tuple[str]]:
        return InputChanged, (self.uri,)


def content_of(file: IO[bytes], blocks: bool = True) -> Content:
    """Hash a file from its current position to its end."""
    expected, start = getattr(file, "md5", None), file.tell() if file.seekable() else 0
    found, md5 = _hashed(file, blocks, expected is not None)
    if md5 != expected:
        # Wrong bytes came over the network, or the store's tag is not an MD5: read the file again.
        again = found
        for _ in range(MOST_READINGS):
            before, again = again, _again(file, start, blocks)
            if again == before:
                return again
        raise InputChanged(file.uri)  # type: ignore[attr-defined]
    return found


def _again(file: IO[bytes], start: int, blocks: bool) -> Content:
    file.forget()  # type: ignore[attr-defined]
    file.seek(start)
    return _hashed(file, blocks, False)[0]


def _hashed(file: IO[bytes], blocks: bool, with_md5: bool) -> tuple[Content, str | None]:
    whole, md5 = hashlib.sha256(), hashlib.md5(usedforsecurity=False) if with_md5 else None
    digests = []
    size = 0
    while block := _read(file, BLOCK_BYTES):
        whole.update(block)
        if md5 is not None:
            md5.update(block)
        size += len(block)
        if blocks:
            digests.append(_digest(block))
    return Content(whole.hexdigest(), size, b"".join(digests)), None if md5 is None else md5.hexdigest()


def open_checked(place: FileLocation, content: Content, uri: str) -> IO[bytes]:
    """The file as it was hashed. Reading raises InputChanged if it has changed."""
    return io.BufferedReader(_CheckedFile(place, content, uri), 1 << 16)


class _CheckedFile(SeekableFile):
    def __init__(self, place: FileLocation, content: Content, uri: str) -> None:
        super().__init__(content.size)
        self._content = content
        self._uri = uri
        self._blocks: dict[int, memoryview] = {}
        self._is_local = place.system is None
        self._file = place.open()
        if place.system is None and place.ranges is None and os.fstat(self._file.fileno()).st_size != content.size:
            self.close()
            raise InputChanged(uri)
        if not content.size:
            self._expect_end()

    def readinto(self, target: Any) -> int:
        number, start = divmod(self._at, BLOCK_BYTES)
        if self._at >= self._size:
            return 0
        view = memoryview(target).cast("B")
        found = self._block(number)[start : start + len(view)]
        view[: len(found)] = found
        self._at += len(found)
        return len(found)

    def close(self) -> None:
        if not self.closed:
            self._blocks.clear()
            self._file.close()
        super().close()

    def _block(self, number: int) -> memoryview:
        block = self._blocks.pop(number, None)
        if block is None:
            while len(self._blocks) >= KEPT_BLOCKS:
                del self._blocks[next(iter(self._blocks))]
            block = self._load(number)
        self._blocks[number] = block
        return block

    def _load(self, number: int) -> memoryview:
        start = number * BLOCK_BYTES
        length = min(BLOCK_BYTES, self._size - start)
        try:
            self._file.seek(start)
            block = _read(self._file, length)
        except Exception as error:
            if not isinstance(error, OSError) and (self._is_local or isinstance(error, UserError | MemoryError)):
                raise  # file systems of fsspec raise all kinds of errors
            # Not an OSError, which readers treat as a damaged file: a broken connection is not a verdict.
            raise UserError(
                f"{shown(self._uri)} cannot be read: {error}. Finished tasks are kept. Fix the file or exclude it, and "
                "run again."
            ) from None
        if not self._is_right(block, number):
            again = getattr(self._file, "forget", None)
            if again is None:
                raise InputChanged(self._uri)
            again()  # bytes that the network corrupted are fetched again
            self._file.seek(start)
            block = _read(self._file, length)
            if not self._is_right(block, number):
                raise InputChanged(self._uri)
        if start + length == self._size:
            self._expect_end()
        return memoryview(block)

    def _is_right(self, block: bytes, number: int) -> bool:
        return _digest(block) == self._content.blocks[number * _DIGEST_BYTES : (number + 1) * _DIGEST_BYTES]

    def _expect_end(self) -> None:
        if self._file.read(1):
            raise InputChanged(self._uri)


def _read(file: IO[bytes], length: int) -> bytes:
    """`length` bytes, or fewer at the end. A remote stream may return less than requested."""
    parts = []
    while length > 0 and (part := file.read(length)):
        parts.append(part)
        length -= len(part)
    return parts[0] if len(parts) == 1 else b"".join(parts)


def _digest(block: bytes) -> bytes:
    return hashlib.blake2b(block, digest_size=_DIGEST_BYTES).digest()
