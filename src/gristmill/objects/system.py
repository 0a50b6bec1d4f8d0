"""Object stores as an fsspec file system, for sources, the store and the loader."""

import os
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from fsspec import AbstractFileSystem

from gristmill.objects.bucket import Bucket, Info
from gristmill.objects.reader import ObjectFile


def system_at(location: str) -> tuple["ObjectSystem", str]:
    """The file system of a location, and the path in it: `bucket/key`."""
    scheme, _, path = location.partition("://")
    return ObjectSystem("gs" if scheme.startswith("g") else "s3"), path.rstrip("/")


class ObjectSystem(AbstractFileSystem):  # type: ignore[misc]
    """Buckets of one kind of store. Paths are `bucket/key`."""

    protocol = ("s3", "gs")

    def __init__(self, scheme: str) -> None:
        super().__init__()
        self.scheme = scheme
        self._buckets: dict[str, Bucket] = {}

    @classmethod
    def _strip_protocol(cls, path: str) -> str:
        return path.partition("://")[2].rstrip("/") if "://" in path else path.rstrip("/")

    def unstrip_protocol(self, name: str) -> str:
        return f"{self.scheme}://{self._strip_protocol(name)}"

    def _at(self, path: str) -> tuple[Bucket, str]:
        name, _, key = self._strip_protocol(path).partition("/")
        if name not in self._buckets:
            self._buckets[name] = Bucket(self.scheme, name)
        return self._buckets[name], key

    # Reading

    def cat_file(self, path: str, start: int | None = None, end: int | None = None, **_: object) -> bytes:
        bucket, key = self._at(path)
        if start is None and end is None:
            return bytes(bucket.get(key))
        return bytes(bucket.get_range(key, *self._bounds(path, start or 0, end)))

    def _bounds(self, path: str, start: int, end: int | None) -> tuple[int, int]:
        if start >= 0 and end is not None and end >= 0:
            return start, end
        size = int(self.info(path)["size"])
        stop = size if end is None else end + size if end < 0 else end
        return (max(0, start + size) if start < 0 else start), stop

    def cat_large(self, path: str, size: int) -> bytearray | memoryview:
        """Read an object of this size; a large one in parallel pieces."""
        bucket, key = self._at(path)
        return bucket.get_large(key, size)

    def get_file(self, rpath: str, lpath: str, **_: object) -> None:
        bucket, key = self._at(rpath)
        with open(lpath, "wb") as file:

            def take(start: int, piece: memoryview) -> None:
                os.pwrite(file.fileno(), piece, start)

            bucket.get_pieces(key, bucket.head(key).size, take)

    def _open(self, path: str, mode: str = "rb", block_size: int | None = None, **_: object) -> ObjectFile:
        if mode != "rb":
            raise NotImplementedError(f"mode {mode} is not supported: write objects with pipe_file or put_file")
        bucket, key = self._at(path)
        return ObjectFile(bucket, bucket.head(key), block_size)

    # Writing

    def pipe_file(self, path: str, value: bytes | memoryview, mode: str = "overwrite", **_: object) -> None:
        bucket, key = self._at(path)
        if mode == "create":
            bucket.create(key, bytes(value))
        else:
            bucket.put(key, value)

    def put_file(self, lpath: str, rpath: str, **_: object) -> None:
        bucket, key = self._at(rpath)
        bucket.put_file(key, Path(lpath))

    def rm_file(self, path: str) -> None:
        bucket, key = self._at(path)
        bucket.delete(key)

    # Listing

    def info(self, path: str, **_: object) -> dict[str, Any]:
        path = self._strip_protocol(path)
        bucket, key = self._at(path)
        if key:
            try:
                return self._entry(path, bucket.head(key))
            except FileNotFoundError:
                pass
        if not any(bucket.folder(key)):
            raise FileNotFoundError(self.unstrip_protocol(path))
        return {"name": path, "size": 0, "type": "directory"}

    @staticmethod
    def _entry(path: str, info: Info) -> dict[str, Any]:
        return {"name": path, "size": info.size, "type": "file", "etag": info.etag, "modified": info.modified}

    def ls(self, path: str, detail: bool = True, **_: object) -> list[Any]:
        path = self._strip_protocol(path)
        bucket, key = self._at(path)
        name = path.partition("/")[0]
        folders, objects = bucket.folder(key)
        found = [{"name": f"{name}/{folder.rstrip('/')}", "size": 0, "type": "directory"} for folder in folders]
        found += [self._entry(f"{name}/{one.key}", one) for one in objects]
        if not found and key:
            found = [self._entry(path, bucket.head(key))]
        return found if detail else [one["name"] for one in found]

    def find(
        self, path: str, maxdepth: int | None = None, withdirs: bool = False, detail: bool = False, **_: object
    ) -> Any:
        if maxdepth is not None or withdirs:
            return super().find(path, maxdepth=maxdepth, withdirs=withdirs, detail=detail)
        path = self._strip_protocol(path)
        bucket, key = self._at(path)
        name = path.partition("/")[0]
        found = {
            f"{name}/{one.key}": self._entry(f"{name}/{one.key}", one) for page in bucket.pages(key) for one in page
        }
        return found if detail else sorted(found)

    def pages(self, path: str, after: str | None = None) -> Iterator[list[tuple[str, int]]]:
        """(path, size) of all objects below a folder, sorted, one page per request, starting after a path."""
        bucket, key = self._at(path)
        name = self._strip_protocol(path).partition("/")[0]
        for page in bucket.pages(key, None if after is None else self._at(after)[1]):
            yield [(f"{name}/{one.key}", one.size) for one in page]

    def modified(self, path: str) -> datetime:
        bucket, key = self._at(path)
        return datetime.fromtimestamp(bucket.head(key).modified, UTC)
