"""Opens shards when they are needed, checks them against the manifest, maps them, and closes unused ones."""

import mmap
import os
import threading
from collections import OrderedDict
from collections.abc import Mapping
from functools import cached_property
from typing import Any

import numpy as np

from gristmill.counted import counted
from gristmill.errors import UserError
from gristmill.loader.batch import Spans
from gristmill.loader.cache import Cache
from gristmill.loader.checks import Checks
from gristmill.loader.receipts import NOTHING_MASKED, Mask
from gristmill.shardformat.index import Index, index_of
from gristmill.shardformat.locations import is_remote, local_path
from gristmill.shardformat.manifest import Group, Manifest, Shard
from gristmill.shardformat.open_file import OpenFile

Array = np.ndarray[Any, Any]

# Each open shard has two to four file descriptors, and many systems allow 1024 per process.
OPEN_SHARDS = 192


class OpenShard:
    """The tokens of a shard, and its index."""

    def __init__(
        self,
        file: OpenFile,
        index: Index,
        watched: tuple[OpenFile, ...] = (),
        masked: Mapping[int, Spans] = NOTHING_MASKED,
    ) -> None:
        self.index = index
        self.size = file.size + len(index.doc_id) * 28 + len(index.first_piece) * 8
        self.file = file
        self.watched = watched
        """Files that must be unchanged since they were hashed, at every use."""
        self.masked = masked
        """Spans of documents that were taken down, by row."""
        self._sample_bytes = index.header.seq_len * index.header.token_bytes

    def view(self, row: int) -> Array:
        """The tokens of a sample, not copied. All of them are read from the disk at once."""
        data, map_ = self._map
        if map_ is not None:
            begin = row * self._sample_bytes
            page = begin - begin % mmap.PAGESIZE
            map_.madvise(mmap.MADV_WILLNEED, page, begin + self._sample_bytes - page)
        return np.asarray(data[row])

    @cached_property
    def _map(self) -> tuple[Array, mmap.mmap | None]:
        data, map_ = self.file.mapped(scattered=True)
        header = self.index.header
        return data.view(f"<u{header.token_bytes}").reshape(header.samples, header.seq_len), map_


Key = tuple[int, int]
"""The numbers of a group and of a shard in it."""


class Shards:
    """The shards of a manifest. The most recently used ones stay open."""

    def __init__(
        self,
        manifest: Manifest,
        cache: Cache | None = None,
        checks: Checks | None = None,
        open_shards: int = OPEN_SHARDS,
        mask: Mask | None = None,
    ) -> None:
        self.manifest = manifest
        self._mask = mask
        self.cache = cache
        self.checks = checks or Checks()
        self.opened = 0
        self._limit = open_shards
        # At most half of the cache is held open, so that the other half can be fetched ahead.
        self._limit_bytes = cache.limit_bytes // 2 if cache else None
        self._open: OrderedDict[Key, OpenShard] = OrderedDict()
        self.forget_lock()

    def forget_lock(self) -> None:
        """Replace the lock after a fork: the thread that held it may not exist in the child."""
        self._lock = threading.Lock()

    @property
    def is_slow(self) -> bool:
        """Whether opening a shard takes time, so that it should be done ahead."""
        return self.cache is not None or self.checks.how == "hash" or self.checks.seal_broken

    def get(self, group: int, shard: int) -> OpenShard:
        """An open shard; thread-safe. Views of it stay valid after it is closed here."""
        key = (group, shard)
        with self._lock:
            found = self._open.get(key)
            if found is not None:
                self._open.move_to_end(key)
                return found
        new = self._opened(group, shard)
        with self._lock:
            self.opened += 1
            self._open[key] = new
            while len(self._open) > 1 and self._too_many():
                self._open.popitem(last=False)
        return new

    def unchanged(self, used: Mapping[Key, OpenShard]) -> bool:
        """Whether shards are unchanged since they were hashed. Changed ones will be opened again."""
        for key, shard in used.items():
            if any(file.identity() != file.hashed_as for file in shard.watched):
                with self._lock:
                    self._open.pop(key, None)
                return False
        return True

    def close(self) -> None:
        self.checks.closed.set()
        with self._lock:
            self._open.clear()

    def check_files(self) -> None:
        """Check that every local file of groups in use exists: one listing per folder, no file is opened."""
        folders: dict[str, set[str]] = {}
        for group in self.manifest.drawn:
            for shard in group.shards:
                for digest in (shard.bin, shard.index) if shard.samples else ():
                    location = self.manifest.where(digest)
                    if is_remote(location):
                        continue
                    folder, name = os.path.split(location)
                    if folder not in folders:
                        folders[folder] = set(os.listdir(folder)) if os.path.isdir(folder) else set()
                    if name not in folders[folder]:
                        raise _missing(location, group)

    def file(self, digest: str, group: int, shard: int, size: int | None = None) -> OpenFile:
        """A file of a shard, open and checked: tokens (`size` is known) by seal or hash, an index always by its hash.

        An index locates the documents of every sample and is a hundredth of the size of the tokens: a wrong bit must
        not be found in the middle of a batch.
        """
        location = self.manifest.where(digest)
        if is_remote(location):
            assert self.cache is not None
            return self.cache.opened(digest, location, size)
        file = self._local(location, self.manifest.groups[group])
        if size is not None and file.size != size:
            raise UserError(
                f"{location} has {file.size} bytes and should have {size} (samples of "
                f"{counted(self.manifest.seq_len, 'token')}), so it is damaged. Copy the shard again."
            )
        is_trusted = self.checks.sealed(file, digest, location) and size is not None
        if not is_trusted and not self.checks.right(file, digest):
            raise UserError(
                f"{location} does not have the hash in the manifest for shard {shard} of group "
                f"{self.manifest.groups[group].name}: it is damaged, or another file. None of its samples is "
                "returned. Copy the shard again; gristmill shards verify lists all faults."
            )
        return file

    def compare(self, index: Index, group: Group, shard: Shard) -> None:
        """Raise unless the shard is the one in the manifest."""
        manifest, header = self.manifest, index.header
        pairs = (
            ("tokenizer", header.tokenizer, manifest.tokenizer["hash"]),
            ("seq_len", header.seq_len, manifest.seq_len),
            ("token_bytes", header.token_bytes, manifest.token_bytes),
            ("recipe", header.recipe, manifest.recipe),
            ("group", header.group, group.name),
            ("bin", header.bin, shard.bin),
            ("samples", header.samples, shard.samples),
        )
        for name, found, expected in pairs:
            if found != expected:
                raise UserError(
                    f"{manifest.where(shard.index)} has {name} {found}, but the manifest has {expected}. Its tokens "
                    "would be misread, so nothing is read. Use shards and manifest of the same run."
                )

    def _too_many(self) -> bool:
        if len(self._open) > self._limit:
            return True
        return self._limit_bytes is not None and (sum(shard.size for shard in self._open.values()) > self._limit_bytes)

    def _opened(self, group: int, number: int) -> OpenShard:
        manifest = self.manifest
        shard = manifest.groups[group].shards[number]
        index_file = self.file(shard.index, group, number)
        index = index_of(index_file.mapped()[0], manifest.where(shard.index))
        self.compare(index, manifest.groups[group], shard)
        file = self.file(shard.bin, group, number, manifest.bin_bytes(shard))
        masked = self._mask.rows(group, number, index) if self._mask else NOTHING_MASKED
        return OpenShard(file, index, (file, index_file) if self.checks.how == "hash" else (), masked)

    @staticmethod
    def _local(location: str, group: Group) -> OpenFile:
        try:
            return OpenFile(local_path(location))
        except FileNotFoundError:
            raise _missing(location, group) from None
        except OSError as error:
            raise UserError(
                f"{location} cannot be read ({error.strerror}), so samples of group {group.name} are missing."
                " Check the disk and the permissions of the file."
            ) from None


def _missing(location: str, group: Group) -> UserError:
    return UserError(
        f"{location} does not exist, so samples of group {group.name} are missing. "
        "Copy the whole folder of the manifest, or run the recipe again to make the shards."
    )
