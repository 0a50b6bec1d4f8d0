"""Receipts of takedowns in a loader: the tokens that it masks, and the samples that contained them.

Pieces are matched by document id, which depends on source and locator and is the same in every manifest. The location
in a receipt only decides which shards are searched.
"""

import os
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from itertools import takewhile
from typing import Any

import numpy as np

from gristmill.errors import UserError
from gristmill.loader.batch import Spans
from gristmill.loader.order import Order
from gristmill.loader.validate import check_sample
from gristmill.log import Log
from gristmill.shardformat.index import Index
from gristmill.shardformat.manifest import Manifest
from gristmill.shardformat.receipt import Receipt, TakenDown, read_receipt

Array = np.ndarray[Any, Any]
Location = str | os.PathLike[str]
Receipts = Location | Sequence[Location] | None

NOTHING_MASKED: Mapping[int, Spans] = {}
_LOG = Log("loader")
MASK_TOKENS = ("keep", "padding")


def read_receipts(named: Receipts) -> list[Receipt]:
    """The receipts: none, one or several. Warns about a receipt that names no document."""
    if named is None:
        return []
    locations = [named] if isinstance(named, str | os.PathLike) else named
    found = [read_receipt(location) for location in locations]
    for receipt in found:
        if not receipt.documents:
            _LOG.warn(f"{receipt.location} names no document, so it masks nothing.")
    return found


def padding_of(manifest: Manifest, mask_tokens: str) -> int | None:
    """The id that replaces masked tokens; None if they are kept."""
    if mask_tokens not in MASK_TOKENS:
        raise UserError(
            f'mask_tokens is {mask_tokens!r}, which is not a way to mask tokens. Give "keep" (they '
            'stay, without labels) or "padding" (the padding id replaces them).'
        )
    return int(manifest.tokenizer["padding"]) if mask_tokens == "padding" else None


class Mask:
    """The documents of receipts, and their locations in the shards of a manifest.

    A receipt for these shards is valid. A document that it locates in a shard is searched for only there, and must be
    found. A receipt for the manifest that this one continues, or for the shards after a takedown with a valid receipt,
    is also valid; shards may differ there, so its documents are searched for in all shards.
    """

    def __init__(self, manifest: Manifest, receipts: Sequence[Receipt], old: Manifest | None = None) -> None:
        check_receipts(manifest, receipts, old)
        self.manifest = manifest
        anywhere: set[bytes] = set()
        inside: dict[tuple[int, int], set[bytes]] = {}
        known = {each.hash: each for each in (old, manifest) if each is not None}
        for receipt in receipts:
            of = known.get(receipt.before)
            for document in receipt.documents:
                key = None if of is None else location_of(document, receipt, of)
                here = None if key is None or of is None else _same_tokens(key, of, manifest)
                if here is not None:
                    inside.setdefault(here, set()).add(document.doc_id)
                if here is None or of is not manifest:
                    anywhere.add(document.doc_id)
        self._anywhere = _Ids(anywhere)
        self._inside = {key: _Ids(documents) for key, documents in inside.items()}

    def rows(self, group: int, shard: int, index: Index) -> Mapping[int, Spans]:
        """Spans of masked documents in a shard, by row. Raises UserError if one is not where its receipt says."""
        inside = self._inside.get((group, shard))
        if not inside and not self._anywhere:
            return NOTHING_MASKED
        found = self._anywhere.pieces(index)
        if inside:
            located = inside.pieces(index)
            if missing := inside.ids.difference(located.values()):
                raise UserError(
                    f"A receipt says that document {min(missing).hex()} is in shard {shard} of group "
                    f"{self.manifest.groups[group].name}, but it is not, so its tokens could be trained on. The "
                    "receipt is damaged, or was made for other shards: copy it again, or take down the document again."
                )
            found |= located
        return _spans(index, sorted(found)) if found else NOTHING_MASKED


class _Ids:
    """Document ids to find in the indexes of shards."""

    def __init__(self, ids: Iterable[bytes]) -> None:
        self.ids = frozenset(ids)

    def __bool__(self) -> bool:
        return bool(self.ids)

    @cached_property
    def _table(self) -> Array:
        """Whether a wanted id has these first bits. It excludes 15 of 16 other ids."""
        table = np.zeros(1 << max(16, (16 * len(self.ids)).bit_length()), bool)
        table[_heads(np.frombuffer(b"".join(self.ids), "V16"), len(table))] = True
        return table

    def pieces(self, index: Index) -> dict[int, bytes]:
        """The pieces with one of the ids, by number, and the id of each."""
        if not self.ids:
            return {}
        possible = np.flatnonzero(self._table.take(_heads(index.doc_id, len(self._table))))
        found = zip(possible.tolist(), index.doc_id[possible].tolist(), strict=True)
        return {piece: doc_id for piece, doc_id in found if doc_id in self.ids}


def _heads(doc_ids: Array, size: int) -> Array:
    """The first bits of ids as numbers below a power of 2. Ids are hashes, so any bits will do."""
    return np.asarray(doc_ids.view("<u4")[::4] & np.uint32(size - 1), np.intp)


def _spans(index: Index, pieces: list[int]) -> Mapping[int, Spans]:
    """By row: begin and end of pieces (their numbers, ascending)."""
    number = np.array(pieces, np.uint64)
    rows = np.searchsorted(index.first_piece, number, "right") - 1
    first = index.first_piece[rows]
    ends = np.cumsum(index.length, dtype=np.int64)
    before = ends[first] - index.length[first]
    begins, stops = ends[number] - index.length[number] - before, ends[number] - before
    found: dict[int, list[tuple[int, int]]] = {}
    for row, begin, end in zip(rows.tolist(), begins.tolist(), stops.tolist(), strict=True):
        found.setdefault(row, []).append((begin, end))
    return found


def check_receipts(manifest: Manifest, receipts: Iterable[Receipt], old: Manifest | None = None) -> None:
    """Raise UserError if a receipt is not valid for the shards of a manifest, which may continue an old one."""
    known = {manifest.hash} if old is None else {manifest.hash, old.hash}
    left = list(receipts)
    while holding := [receipt for receipt in left if receipt.before in known]:
        left = [receipt for receipt in left if receipt.before not in known]
        known.update(receipt.after for receipt in holding if receipt.after)
    for receipt in left:
        if receipt.after == manifest.hash:
            raise UserError(
                f"{manifest.location} has the shards after the takedown of {receipt.location}, which no longer contain "
                "its documents, so there is nothing to mask. Leave it out, or name the shards before the takedown."
            )
        raise UserError(
            f"{receipt.location} was made for the manifest {receipt.before}, but {manifest.location} is "
            f"{manifest.hash}, so its documents could be elsewhere and be trained on. Name the receipt of a takedown "
            "from these shards (with all receipts in between), or give continues= the manifest of the "
            "receipt, if these shards continue it."
        )


def location_of(document: TakenDown, receipt: Receipt, manifest: Manifest) -> tuple[int, int] | None:
    """Group and shard numbers in the manifest of a receipt; None if the receipt has none."""
    if document.group is None or document.shard is None:
        return None
    group = manifest.numbers.get(document.group)
    if group is None or document.shard >= len(manifest.groups[group].shards):
        raise UserError(
            f"{receipt.location}: document {document.doc_id.hex()} is in shard {document.shard} of group "
            f"{document.group!r:.80}, but {manifest.location} has no such shard, so the document could be missed. The "
            "receipt is damaged: copy it again from where the takedown wrote it."
        )
    return group, document.shard


def _same_tokens(key: tuple[int, int], old: Manifest, new: Manifest) -> tuple[int, int] | None:
    """The shard of the same group and number if it has the same tokens, or None."""
    group, shard = new.numbers.get(old.groups[key[0]].name), key[1]
    if group is None or shard >= len(new.groups[group].shards):
        return None
    return (group, shard) if new.groups[group].shards[shard].bin == old.groups[key[0]].shards[shard].bin else None


def seen_before(receipt: Receipt, order: Order, sample: int) -> dict[bytes, list[int] | None]:
    """For each document of a receipt (by doc_id): the global samples below `sample` that contain it, ascending.

    `sample` is the loader's state: steps · world_size · batch_samples. The value is None if the receipt does not locate
    the document; then the shards must be searched. No file is opened.
    """
    check_receipts(order.manifest, [receipt])
    check_sample(sample, order.samples)
    found: dict[bytes, set[int] | None] = {}
    for document in receipt.documents:
        location = location_of(document, receipt, order.manifest)
        known = found.setdefault(document.doc_id, set())
        if location is None or not document.rows or known is None:
            found[document.doc_id] = None
            continue
        group, shard = location
        for row in _rows(document, receipt, order.manifest.groups[group].shards[shard].samples):
            known.update(takewhile(lambda number: number < sample, order.seen(group, shard, row)))
    return {doc_id: None if samples is None else sorted(samples) for doc_id, samples in found.items()}


def _rows(document: TakenDown, receipt: Receipt, samples: int) -> tuple[int, ...]:
    if max(document.rows) < samples:
        return document.rows
    raise UserError(
        f"{receipt.location}: document {document.doc_id.hex()} is in row {max(document.rows)} of shard "
        f"{document.shard} of group {document.group}, which has {samples} rows, so its samples are unknown. The "
        "receipt is damaged: copy it again from where the takedown wrote it."
    )
