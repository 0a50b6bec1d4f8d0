"""Shards as they are needed: opened, compared with the manifest, mapped, and closed again when others are in use."""

import mmap
import os
import threading
from collections import OrderedDict
from functools import cached_property
from typing import Any

import numpy as np

from gristmill.errors import UserError
from gristmill.loader.cache import Cache
from gristmill.loader.index import Index, index_of
from gristmill.loader.locations import is_remote, local_path
from gristmill.loader.manifest import Group, Manifest, Shard
from gristmill.loader.open_file import OpenFile

Array = np.ndarray[Any, Any]

# Each open shard holds two or three file descriptors, and many systems allow a process 1024.
OPEN_SHARDS = 192


class OpenShard:
    """The tokens of a shard, and its index."""

    def __init__(self, file: OpenFile, index: Index) -> None:
        self.index = index
        self.size = file.size + len(index.doc_id) * 28 + len(index.first_piece) * 8
        self.file = file
        self._sample_bytes = index.header.seq_len * index.header.token_bytes

    def view(self, row: int) -> Array:
        """The tokens of a sample, not copied; the disk is asked for all of them at once."""
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


class Shards:
    """The shards of a manifest; those that were used last stay open."""

    def __init__(self, manifest: Manifest, cache: Cache | None = None, open_shards: int = OPEN_SHARDS) -> None:
        self.manifest = manifest
        self.cache = cache
        self.opened = 0
        self._limit = open_shards
        # Half of the cache at most is held open, so that the other half can be fetched ahead.
        self._limit_bytes = cache.limit_bytes // 2 if cache else None
        self._open: OrderedDict[tuple[int, int], OpenShard] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, group: int, shard: int) -> OpenShard:
        """An open shard; safe from any thread. Views that a caller holds stay good after it is closed here."""
        key = (group, shard)
        with self._lock:
            found = self._open.get(key)
            if found is not None:
                self._open.move_to_end(key)
                return found
        made = self._opened(self.manifest.groups[group], shard)
        with self._lock:
            self.opened += 1
            self._open[key] = made
            while len(self._open) > 1 and self._too_many():
                self._open.popitem(last=False)
        return made

    def close(self) -> None:
        with self._lock:
            self._open.clear()

    def check_files(self) -> None:
        """That every local file of the groups that are drawn from exists: one listing a folder, no file opened."""
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

    def _too_many(self) -> bool:
        if len(self._open) > self._limit:
            return True
        return self._limit_bytes is not None and (sum(shard.size for shard in self._open.values()) > self._limit_bytes)

    def _opened(self, group: Group, number: int) -> OpenShard:
        shard, manifest = group.shards[number], self.manifest
        index = index_of(self._file(shard.index, group).mapped()[0], manifest.where(shard.index))
        self._compare(index, group, shard)
        file = self._file(shard.bin, group, manifest.bin_bytes(shard))
        if file.size != manifest.bin_bytes(shard):
            raise UserError(
                f"{manifest.where(shard.bin)} has {file.size} bytes and should have {manifest.bin_bytes(shard)} "
                f"({shard.samples} samples of {manifest.seq_len} tokens), so it is damaged. Copy the shard again."
            )
        return OpenShard(file, index)

    def _file(self, digest: str, group: Group, size: int | None = None) -> OpenFile:
        location = self.manifest.where(digest)
        if is_remote(location):
            assert self.cache is not None
            return self.cache.opened(digest, location, size)
        try:
            return OpenFile(local_path(location))
        except FileNotFoundError:
            raise _missing(location, group) from None
        except OSError as error:
            raise UserError(
                f"{location} cannot be read ({error}), so samples of group {group.name} are missing."
                " Check the disk and the rights to the file."
            ) from None

    def _compare(self, index: Index, group: Group, shard: Shard) -> None:
        """That the shard is the one that the manifest speaks of."""
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
                    f"{manifest.where(shard.index)} says {name} {found}, and the manifest says {expected}. Its tokens "
                    "would be read wrongly, so nothing is. Take shards and manifest from the same run."
                )


def _missing(location: str, group: Group) -> UserError:
    return UserError(
        f"{location}: there is no such file, so samples of group {group.name} are missing. "
        "Copy the whole folder of the manifest, or make the shards again with `gristmill run`."
    )
