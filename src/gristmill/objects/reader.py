"""An object as a file to read: fetched in blocks, and while it is read in order, the next block ahead of its use."""

import io
import os
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from gristmill.objects.bucket import Bucket, Info

BLOCK_BYTES = 4 << 20
"""What one request fetches; two of them are held."""


class SeekableFile(io.RawIOBase):
    """A file that is read at any place of it, and knows its size."""

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
            raise OSError(22, "a place before the start of the file")
        self._at = at
        return at


class ObjectFile(SeekableFile):
    """Reads an object as it was when it was opened, by size; whether the bytes are right is for others to say."""

    def __init__(self, bucket: Bucket, info: Info, block_bytes: int | None = None) -> None:
        """With `block_bytes`, a request fetches so much, and no block is fetched ahead of its use."""
        super().__init__(info.size)
        self._fetches_ahead = block_bytes is None
        self._block_bytes = block_bytes or BLOCK_BYTES
        self._bucket = bucket
        self._info = info
        self._block = (0, memoryview(b""))
        """Where it begins, and its bytes."""
        self._ahead: tuple[int, Future[memoryview]] | None = None
        self._pool: ThreadPoolExecutor | None = None

    @property
    def uri(self) -> str:
        return f"{self._bucket.uri}/{self._info.key}"

    @property
    def md5(self) -> str | None:
        """Of the whole object, where the store says it: the ETag of one that was uploaded at once and not encrypted
        with a key of the user's is that, and any other may look the same.
        """
        return self._info.etag if len(self._info.etag) == 32 else None

    def forget(self) -> None:
        """What was fetched was wrong: fetch it again."""
        self._block, self._ahead = (0, memoryview(b"")), None

    def readinto(self, target: Any) -> int:
        view = memoryview(target).cast("B")
        if self._at >= self._size or not len(view):
            return 0
        start, block = self._block
        if not start <= self._at < start + len(block):
            start, block = self._block = (self._at, self._fetched(self._at, start + len(block)))
        found = block[self._at - start : self._at - start + len(view)]
        view[: len(found)] = found
        self._at += len(found)
        return len(found)

    def _fetched(self, at: int, end: int) -> memoryview:
        """The block from a place on; `end` is where the one before it ended."""
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
