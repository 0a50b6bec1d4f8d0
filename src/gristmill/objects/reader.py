"""An object as a readable file: fetched in blocks, with read-ahead of one block for sequential reads."""

import io
import os
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from gristmill.errors import UserError
from gristmill.objects.bucket import Bucket, Info

BLOCK_BYTES = 4 << 20
"""The bytes that one request fetches; two blocks are in memory."""


class SeekableFile(io.RawIOBase):
    """A read-only file of known size that supports seeking."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._at = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        at = offset + {os.SEEK_SET: 0, os.SEEK_CUR: self._at, os.SEEK_END: self._size}[whence]
        if at < 0:
            raise OSError(22, "seek to a negative position")
        self._at = at
        return at


class ObjectFile(SeekableFile):
    """Reads an object up to the size that it had when it was opened. The caller verifies the bytes."""

    def __init__(self, bucket: Bucket, info: Info, block_bytes: int | None = None) -> None:
        """`block_bytes` sets the size of a request and turns read-ahead off."""
        super().__init__(info.size)
        self._fetches_ahead = block_bytes is None
        self._block_bytes = block_bytes or BLOCK_BYTES
        self._bucket = bucket
        self._info = info
        self._block = (0, memoryview(b""))
        """The offset of the current block, and its bytes."""
        self._ahead: tuple[int, Future[memoryview]] | None = None
        self._pool: ThreadPoolExecutor | None = None

    @property
    def uri(self) -> str:
        return f"{self._bucket.uri}/{self._info.key}"

    @property
    def md5(self) -> str | None:
        """The MD5 of the whole object if the ETag looks like one: it is for single uploads without a customer's
        encryption key, but other ETags may look the same.
        """
        return self._info.etag if len(self._info.etag) == 32 else None

    def forget(self) -> None:
        """Drop the fetched blocks, because their bytes were wrong."""
        self._block, self._ahead = (0, memoryview(b"")), None

    def readinto(self, target: Any) -> int:
        view = memoryview(target).cast("B")
        if self._at >= self._size or not len(view):
            return 0
        start, block = self._block
        if not start <= self._at < start + len(block):
            start, block = self._block = (self._at, self._fetched(self._at, start + len(block)))
            if not block:
                raise UserError(
                    f"{self.uri} ended after {self._at:,} of the {self._size:,} bytes that its store states, so "
                    "nothing of it was used. Wait until it is complete, and run again to continue."
                )
        found = block[self._at - start : self._at - start + len(view)]
        view[: len(found)] = found
        self._at += len(found)
        return len(found)

    def _fetched(self, at: int, end: int) -> memoryview:
        """The block at an offset; `end` is the end of the block before it."""
        ahead, self._ahead = self._ahead, None
        block = ahead[1].result() if ahead is not None and ahead[0] == at else self._get(at)
        after = at + len(block)
        if self._fetches_ahead and at == end and block and after < self._size:
            self._pool = self._pool or ThreadPoolExecutor(1)
            self._ahead = (after, self._pool.submit(self._get, after))
        return block

    def _get(self, at: int) -> memoryview:
        return self._bucket.get_range(self._info.key, at, min(self._size, at + self._block_bytes))

    def close(self) -> None:
        if self._pool is not None:
            self._pool.shutdown(wait=False, cancel_futures=True)
            self._pool = None
        super().close()
