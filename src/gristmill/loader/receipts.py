"""What the receipts of takedowns mean for a loader: the tokens that it masks, and the samples that had them before.

Pieces are known by the ids of their documents, which come from source and locator and are the same in every manifest.
Where a receipt says that a document lies only decides which shards are searched.
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
    """None, one or several; one that names no document is told of."""
    if named is None:
        return []
    locations = [named] if isinstance(named, str | os.PathLike) else named
    found = [read_receipt(location) for location in locations]
    for receipt in found:
        if not receipt.documents:
            _LOG.warn(f"{receipt.location} names no document, so nothing is masked by it.")
    return found


def padding_of(manifest: Manifest, mask_tokens: str) -> int | None:
    """The id that stands in for tokens that are masked; None where they are kept."""
    if mask_tokens not in MASK_TOKENS:
        raise UserError(
            f'mask_tokens is {mask_tokens!r}, so what becomes of tokens that are masked is unknown. Give "keep" (they '
            'stay, without labels) or "padding" (the padding id stands in their place).'
        )
    return int(manifest.tokenizer["padding"]) if mask_tokens == "padding" else None


class Mask:
    """The documents of receipts, and where they lie in the shards of a manifest.

    A receipt holds where it was made for these shards. Then a document that it places in a shard is sought there alone,
    and must be found. It also holds where it was made for the manifest that this one continues, or for the shards after
    a takedown whose receipt holds: shards may be others there, so its documents are sought in all.
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
                key = None if of is None else place_of(document, receipt, of)
                here = None if key is None or of is None else _same_tokens(key, of, manifest)
                if here is not None:
                    inside.setdefault(here, set()).add(document.doc_id)
                if here is None or of is not manifest:
                    anywhere.add(document.doc_id)
        self._anywhere = _Ids(anywhere)
        self._inside = {key: _Ids(documents) for key, documents in inside.items()}

    def rows(self, group: int, shard: int, index: Index) -> Mapping[int, Spans]:
        """Where documents that are masked lie in a shard, by row; UserError where one is not in its place."""
        inside = self._inside.get((group, shard))
        if not inside and not self._anywhere:
            return NOTHING_MASKED
        found = self._anywhere.pieces(index)
        if inside:
            placed = inside.pieces(index)
            if missing := inside.ids.difference(placed.values()):
                raise UserError(
                    f"A receipt says that document {min(missing).hex()} lies in shard {shard} of group "
                    f"{self.manifest.groups[group].name}, and it does not, so its tokens could be trained on. The "
                    "receipt is damaged, or was made for other shards: copy it again, or take down the document again."
                )
            found |= placed
        return _spans(index, sorted(found)) if found else NOTHING_MASKED


class _Ids:
    """Ids of documents that are sought in the indexes of shards."""

    def __init__(self, ids: Iterable[bytes]) -> None:
        self.ids = frozenset(ids)

    def __bool__(self) -> bool:
        return bool(self.ids)

    @cached_property
    def _table(self) -> Array:
        """Whether an id is sought whose first bits are these: of 16 that are not, 15 are seen here not to be."""
        table = np.zeros(1 << max(16, (16 * len(self.ids)).bit_length()), bool)
        table[_heads(np.frombuffer(b"".join(self.ids), "V16"), len(table))] = True
        return table

    def pieces(self, index: Index) -> dict[int, bytes]:
        """The pieces that have one of the ids, by number, and which."""
        if not self.ids:
            return {}
        possible = np.flatnonzero(self._table.take(_heads(index.doc_id, len(self._table))))
        found = zip(possible.tolist(), index.doc_id[possible].tolist(), strict=True)
        return {piece: doc_id for piece, doc_id in found if doc_id in self.ids}


def _heads(doc_ids: Array, size: int) -> Array:
    """The first bits of ids as numbers below a power of 2; ids are hashes, so that any bits are as good as others."""
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
    """UserError where a receipt does not hold for the shards of a manifest, which may continue an old one."""
    known = {manifest.hash} if old is None else {manifest.hash, old.hash}
    left = list(receipts)
    while holding := [receipt for receipt in left if receipt.before in known]:
        left = [receipt for receipt in left if receipt.before not in known]
        known.update(receipt.after for receipt in holding if receipt.after)
    for receipt in left:
        if receipt.after == manifest.hash:
            raise UserError(
                f"{manifest.location} holds the shards that {receipt.location} left behind: its documents are in them "
                "no more, so there is nothing to mask. Leave this receipt out, or name the shards before the takedown."
            )
        raise UserError(
            f"{receipt.location} was made for the manifest {receipt.before}, and {manifest.location} is "
            f"{manifest.hash}, so its documents could lie elsewhere and be trained on. Name the receipt of a takedown "
            "from these shards (with those between, if it followed others), or give continues= the manifest of the "
            "receipt, if these shards go on from it."
        )


def place_of(document: TakenDown, receipt: Receipt, manifest: Manifest) -> tuple[int, int] | None:
    """Group and shard by number, in the manifest of a receipt; None where the receipt does not say."""
    if document.group is None or document.shard is None:
        return None
    group = manifest.numbers.get(document.group)
    if group is None or document.shard >= len(manifest.groups[group].shards):
        raise UserError(
            f"{receipt.location}: document {document.doc_id.hex()} lies in shard {document.shard} of group "
            f"{document.group!r:.80}, and {manifest.location} has no such shard, so the document could be missed. The "
            "receipt is damaged: copy it again from where the takedown wrote it."
        )
    return group, document.shard


def _same_tokens(key: tuple[int, int], old: Manifest, new: Manifest) -> tuple[int, int] | None:
    """The shard of the same group and number, where it holds the same tokens; None where it does not."""
    group, shard = new.numbers.get(old.groups[key[0]].name), key[1]
    if group is None or shard >= len(new.groups[group].shards):
        return None
    return (group, shard) if new.groups[group].shards[shard].bin == old.groups[key[0]].shards[shard].bin else None


def seen_before(receipt: Receipt, order: Order, sample: int) -> dict[bytes, list[int] | None]:
    """For each document of a receipt (by doc_id): the global samples below `sample` that had tokens of it, ascending.

    `sample` is what a loader's state holds: steps · world_size · batch_samples. None where the receipt does not say
    where the document lies: then only a search through the shards can tell. No file is opened.
    """
    check_receipts(order.manifest, [receipt])
    check_sample(sample, order.samples)
    found: dict[bytes, set[int] | None] = {}
    for document in receipt.documents:
        place = place_of(document, receipt, order.manifest)
        known = found.setdefault(document.doc_id, set())
        if place is None or not document.rows or known is None:
            found[document.doc_id] = None
            continue
        group, shard = place
        for row in _rows(document, receipt, order.manifest.groups[group].shards[shard].samples):
            known.update(takewhile(lambda number: number < sample, order.seen(group, shard, row)))
    return {doc_id: None if samples is None else sorted(samples) for doc_id, samples in found.items()}


def _rows(document: TakenDown, receipt: Receipt, samples: int) -> tuple[int, ...]:
    if max(document.rows) < samples:
        return document.rows
    raise UserError(
        f"{receipt.location}: document {document.doc_id.hex()} lies in row {max(document.rows)} of shard "
        f"{document.shard} of group {document.group}, which has {samples} rows, so when it was seen is unknown. The "
        "receipt is damaged: copy it again from where the takedown wrote it."
    )
