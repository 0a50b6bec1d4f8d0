"""Read-only access to shards and their manifest: files by their hashes, and the documents of a sample."""

import json
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from gristmill.counted import counted
from gristmill.engine.plan.graph import Node
from gristmill.engine.publish.folder import find_manifest
from gristmill.engine.schedule.corpus_view import CorpusView
from gristmill.errors import UserError
from gristmill.hints import option
from gristmill.loader.cache import Cache
from gristmill.loader.checks import Checks
from gristmill.loader.shards import OpenShard, Shards
from gristmill.recipe.sections.shards import SHARDS
from gristmill.shardformat.index import DOC_ID, Index, read_index
from gristmill.shardformat.locations import is_remote, local_path, read_bytes
from gristmill.shardformat.manifest import Group, Manifest, Shard, read_manifest
from gristmill.shardformat.open_file import OpenFile
from gristmill.stages.doc_order import doc_order
from gristmill.stages.shards.shards import Config, shard_number
from gristmill.tokenizer.files import load
from gristmill.tokenizer.library import LibraryTokenizer
from gristmill.tokenizer.model import Tokenizer

AnyTokenizer = Tokenizer | LibraryTokenizer


def load_quietly(uri: str) -> AnyTokenizer:
    """Load a tokenizer file that does not change."""
    return load(uri, probe="once")


@dataclass(frozen=True)
class DocumentSpan:
    """A document, or a piece of one, in a sample."""

    doc_id: str
    locator: str
    offset: int
    """The offset in the sample, in tokens."""
    tokens: int
    doc_offset: int
    """The offset in the document, in tokens."""
    text: str


class Published:
    """A manifest and the files that it names."""

    def __init__(self, of: str | CorpusView, load_tokenizer: Callable[[str], AnyTokenizer] = load_quietly) -> None:
        """Open the manifest at a location, or of a corpus."""
        self.view = of if isinstance(of, CorpusView) else None
        """The corpus of the shards, if known."""
        self._load_tokenizer = load_tokenizer
        self.manifest: Manifest = read_manifest(find_manifest(of) if isinstance(of, CorpusView) else of)

    @cached_property
    def cache(self) -> Cache | None:
        """A temporary cache for remote files; None if all files are local."""
        if not any(is_remote(self.manifest.where(digest)) for digest in self.manifest.files):
            return None
        self._folder = TemporaryDirectory(prefix="gristmill-")  # removed with this object
        return Cache(self._folder.name, sys.maxsize)

    def local(self, digest: str) -> str:
        """The local path of a file, which is fetched if necessary."""
        location = self.manifest.where(digest)
        if not is_remote(location):
            return local_path(location)
        assert self.cache is not None
        return str(self.cache.ensure(digest, location))

    def checked(self, digest: str) -> str:
        """The same for a small file, after its hash was verified: an index, a lineage table, the tokenizer."""
        path = self.local(digest)
        try:
            right = Checks("hash").right(OpenFile(path), digest)
        except OSError as error:
            raise UserError(f"{path} cannot be read ({error.strerror}), so nothing is shown. Copy it again.") from None
        if not right:
            raise UserError(
                f"{path} does not have the hash that the manifest names: it is damaged or was replaced, so nothing is "
                "shown. Copy it again; gristmill shards verify lists all faults."
            )
        return path

    @cached_property
    def shards(self) -> Shards:
        return Shards(self.manifest, self.cache, Checks("hash"))

    def index(self, group: Group, number: int) -> Index:
        """The index of a shard, after it was compared with its hash and the manifest."""
        shard = group.shards[number]
        index = read_index(self.checked(shard.index))
        self.shards.compare(index, group, shard)
        return index

    def open_shard(self, group: Group, number: int) -> OpenShard:
        return self.shards.get(self.manifest.numbers[group.name], number)

    @property
    def content(self) -> dict[str, Any]:
        """The manifest as JSON."""
        return dict(json.loads(read_bytes(self.manifest.location)))

    @cached_property
    def tokenizer(self) -> AnyTokenizer:
        opened = self._load_tokenizer(self.checked(self.manifest.tokenizer["file"]))
        if opened.hash not in self.manifest.tokenizer_hashes:
            raise UserError(
                f"{self.manifest.location} was made with the tokenizer {self.manifest.tokenizer['hash'][:12]}, but "
                f"the tokenizer in its folder is {opened.hash[:12]}, so nothing can be decoded. Copy the whole folder "
                "again."
            )
        return opened

    def group(self, name: str | None) -> Group:
        """A group by name; the first one if `name` is None."""
        if name is None:
            return self.manifest.groups[0]
        if name not in self.manifest.numbers:
            known = ", ".join(self.manifest.numbers)
            raise UserError(f"{option('group', name)}: the manifest has no such group. Groups: {known}.")
        return self.manifest.groups[self.manifest.numbers[name]]

    def shard(self, group: Group, number: int) -> Shard:
        if number >= len(group.shards):
            raise UserError(
                f"{option('shard', number)}: group {group.name} has {counted(len(group.shards), 'shard')}, numbered "
                "from 0. Give a smaller number."
            )
        return group.shards[number]

    def pieces(
        self, shard: Shard, row: int, tokens: Any, lengths: Any, doc_ids: Any, doc_offsets: Any
    ) -> list[DocumentSpan]:
        """The documents of sample `row` of a shard."""
        found, at = [], 0
        locators = self.locators(shard, row)
        for length, doc_id, doc_offset, locator in zip(lengths, doc_ids, doc_offsets, locators, strict=True):
            ids = tokens[at : at + int(length)]
            text = self.tokenizer.decode(ids)
            found.append(DocumentSpan(bytes(doc_id).hex(), locator, at, int(length), int(doc_offset), text))
            at += int(length)
        return found

    def pieces_at(self, shard: Shard, files: OpenShard, row: int) -> list[DocumentSpan]:
        index = files.index
        first, last = int(index.first_piece[row]), int(index.first_piece[row + 1])
        arrays = (array[first:last] for array in (index.length, index.doc_id, index.doc_offset))
        return self.pieces(shard, row, files.view(row), *arrays)

    def rows_of(self, begins: str) -> Iterator[tuple[str, Group, int, int, dict[str, int]]]:
        """Id, group, shard, row and offsets of every piece of the documents whose hexadecimal id starts with `begins`.
        For a complete id and a known seed only one shard per group is searched; otherwise all shards are.
        """
        seed = _shuffle_seed(self.view) if len(begins) == 2 * DOC_ID.itemsize else None
        whole = np.frombuffer(bytes.fromhex(begins[: len(begins) // 2 * 2]), np.uint8)
        for group in self.manifest.groups:
            every = range(len(group.shards))
            for number in every if seed is None else [_shard_of(begins, len(every), seed)]:
                index = self.index(group, number)
                ids = index.doc_id.view(np.uint8).reshape(-1, 16)
                wanted = (ids[:, : len(whole)] == whole).all(axis=1)
                if len(begins) % 2:
                    wanted &= ids[:, len(whole)] >> 4 == int(begins[-1], 16)
                for piece in np.flatnonzero(wanted).tolist():
                    row = int(np.searchsorted(index.first_piece, piece, "right")) - 1
                    before = index.length[int(index.first_piece[row]) : piece]
                    place = {"offset": int(before.sum(dtype=np.int64)), "doc_offset": int(index.doc_offset[piece])}
                    place["tokens"] = int(index.length[piece])
                    yield ids[piece].tobytes().hex(), group, number, row, place

    def locators(self, shard: Shard, row: int) -> list[str]:
        """The locators of the documents of a sample."""
        table = pq.read_table(self.checked(shard.lineage), columns=["locator"], filters=[("sample", "=", row)])
        return list(table["locator"].to_pylist())


def _shuffle_seed(view: CorpusView | None) -> int | None:
    """The seed of the step shards."""
    for node in () if view is None else view.nodes.values():
        if isinstance(node, Node) and isinstance(node.config, Config):
            return node.config.seed
        if node.name == SHARDS and view is not None and view.record is not None:
            return int(view.record["nodes"][node.id]["identity"]["config"]["seed"])
    return None


def _shard_of(doc_id: str, shards: int, seed: int) -> int:
    """The number of the shard that contains a document, in a group of `shards` shards."""
    top, _ = doc_order(pa.array([bytes.fromhex(doc_id)], pa.binary(16)), seed)
    return int(shard_number(top, np.array([shards.bit_length() - 1], np.uint64))[0])
