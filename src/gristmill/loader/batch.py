"""Samples and batches, which a trainer receives.

A sample is `seq_len` tokens: concatenated pieces of documents, then padding. Everything about the pieces is
computed at first use, so a trainer that uses only tokens pays for nothing else.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from gristmill.loader.order import SampleLocation
from gristmill.shardformat.index import Index
from gristmill.shardformat.manifest import Manifest

Array = np.ndarray[Any, Any]

IGNORE = -100
"""The label of a token with nothing to predict after it. PyTorch's cross entropy ignores it by default."""


@dataclass(frozen=True)
class Sample:
    """One sample and its origin. The arrays are read-only views of the mapped shard.

    Tokens are a copy only if some of them are replaced by padding.
    """

    number: int
    """The global sample."""
    tokens: Array
    pieces: "Pieces"
    place: SampleLocation
    phase: str
    group: str
    source: str
    masked: "Spans" = ()
    """Spans of documents that were taken down."""

    @property
    def is_masked(self) -> Array:
        """(seq_len,): the tokens of documents that were taken down."""
        return np.asarray(_covered((1, len(self.tokens)), [(0, self.masked)])[0])

    @property
    def lengths(self) -> Array:
        """Tokens of each piece, end-of-document token included."""
        return self._of("length")

    @property
    def doc_ids(self) -> Array:
        """16 bytes each."""
        return self._of("doc_id")

    @property
    def doc_offsets(self) -> Array:
        """The offset of each piece in its document, in tokens."""
        return self._of("doc_offset")

    def __getstate__(self) -> dict[str, Any]:
        """The state with only this sample's part of the index."""
        header, count = self.pieces[0].header, len(self.lengths)
        first = np.array([0, count], np.uint64)
        own = Index(header, first, self.lengths.copy(), self.doc_offsets.copy(), self.doc_ids.copy())
        return {**self.__dict__, "tokens": self.tokens.copy(), "pieces": (own, 0, count)}

    def _of(self, column: str) -> Array:
        index, first, last = self.pieces
        return np.asarray(getattr(index, column)[first:last])

    @property
    def doc_spans(self) -> Array:
        """(pieces, 2): where each piece begins and ends in the sample."""
        return _spans(self.lengths)


@dataclass(frozen=True)
class BatchNames:
    """The names behind the numbers in a batch; the same object in every batch."""

    groups: tuple[str, ...]
    sources: tuple[str, ...]
    source_of_group: Array
    phases: tuple[str, ...]
    learning_rates: tuple[dict[str, Any] | None, ...]

    @classmethod
    def of(cls, manifest: Manifest) -> "BatchNames":
        order = {source: number for number, source in enumerate(manifest.sources)}
        return cls(
            tuple(group.name for group in manifest.groups),
            manifest.sources,
            np.array([order[group.source] for group in manifest.groups], np.int64),
            tuple(phase.name for phase in manifest.phases),
            tuple(phase.learning_rate for phase in manifest.phases),
        )


Pieces = tuple[Index, int, int]
"""The pieces of a sample: a shard's index, the first piece and the end."""

Spans = Sequence[tuple[int, int]]
"""Begin and end of pieces in a sample, in tokens."""


class Batch:
    """B consecutive samples of the global order. `len(batch)` is B."""

    def __init__(
        self,
        tokens: Array,
        first_sample: int,
        state: dict[str, int],
        pieces: Sequence[Pieces],
        group_ids: Array,
        phase_ids: Array,
        names: BatchNames,
        masked: Sequence[tuple[int, Spans]] = (),
    ) -> None:
        """masked: rows of the batch with documents that were taken down, and their spans."""
        self.tokens = tokens
        """(B, seq_len), uint16 or uint32."""
        self.first_sample = first_sample
        """The global sample of row 0."""
        self.state = state
        """The value of `state_dict()` after this batch; resuming from it continues with the next batch."""
        self.group_ids = group_ids
        """(B,): indices into `names.groups`."""
        self.phase_ids = phase_ids
        """(B,): indices into `names.phases`."""
        self.names = names
        self._masked = masked
        self._pieces = pieces
        self.pieces = np.array([last - first for _, first, last in pieces], np.int64)
        """(B,): the number of pieces of each sample."""
        self.lengths = _joined([index.length[first:last] for index, first, last in pieces], np.int64)
        """Tokens of every piece, end-of-document token included."""

    @cached_property
    def doc_ids(self) -> Array:
        """Ids of all pieces, 16 bytes each."""
        return _joined([index.doc_id[first:last] for index, first, last in self._pieces], "V16")

    @cached_property
    def doc_offsets(self) -> Array:
        """The offset of each piece in its document, in tokens."""
        return _joined([index.doc_offset[first:last] for index, first, last in self._pieces], np.int64)

    def __getstate__(self) -> dict[str, Any]:
        """The state without mapped shards, which cannot be sent to other processes."""
        own = {"doc_ids": self.doc_ids, "doc_offsets": self.doc_offsets}
        return {**self.__dict__, **own, "_pieces": ()}

    def __len__(self) -> int:
        return len(self.tokens)

    @property
    def source_ids(self) -> Array:
        """(B,): indices into `names.sources`, which is also `loader.sources`."""
        return np.asarray(self.names.source_of_group[self.group_ids])

    @property
    def sources(self) -> list[str]:
        """The source of each sample by name."""
        return [self.names.sources[number] for number in self.source_ids]

    @property
    def groups(self) -> list[str]:
        """The group of each sample by name."""
        return [self.names.groups[number] for number in self.group_ids]

    @property
    def phase(self) -> str:
        """The phase of the first sample; a batch at a boundary has two, see `phase_ids`."""
        return self.names.phases[int(self.phase_ids[0])]

    @property
    def learning_rate(self) -> dict[str, Any] | None:
        """The learning rate that the recipe recommends for the phase, if any."""
        return self.names.learning_rates[int(self.phase_ids[0])]

    @cached_property
    def doc_spans(self) -> Array:
        """(pieces, 3), int64: row in the batch, begin and end in that row."""
        rows = np.repeat(np.arange(len(self)), self.pieces)
        ends = np.cumsum(self.lengths)
        before = np.concatenate(([0], ends))[np.cumsum(self.pieces) - self.pieces]
        ends = ends - before[rows]
        return np.stack((rows, ends - self.lengths, ends), axis=1)

    @cached_property
    def stretches(self) -> Array:
        """Lengths of all pieces and of the padding after them, row by row: they fill the batch."""
        ends = np.cumsum(self.pieces)
        filled = np.empty(len(self.lengths) + len(self), np.int64)
        paddings = ends + np.arange(len(self))
        is_piece = np.ones(len(filled), bool)
        is_piece[paddings] = False
        filled[is_piece] = self.lengths
        filled[paddings] = self.tokens.shape[1] - self._used
        return np.asarray(filled[filled > 0])

    @cached_property
    def cu_seqlens(self) -> Array:
        """int32: the start of each stretch of the flattened batch, and the end; for variable-length attention."""
        return np.concatenate(([0], np.cumsum(self.stretches))).astype(np.int32)

    @property
    def max_seqlen(self) -> int:
        return int(self.stretches.max(initial=0))

    @cached_property
    def positions(self) -> Array:
        """(B, seq_len), int32: 0 at the first token of every piece."""
        size = self.tokens.shape[1]
        begins = np.repeat(self.cu_seqlens[:-1] % size, self.stretches).reshape(self.tokens.shape)
        # One row of numbers stays in the CPU cache: a tenth of the time of counting over the batch.
        return np.asarray(np.subtract(np.arange(size, dtype=np.int32), begins, out=begins))

    @cached_property
    def documents(self) -> Array:
        """(B, seq_len), int32: the number of each token's stretch. Tokens with equal numbers see each other.

        Numbers are unique in the batch. Padding has its own, so that no row of a mask is empty.
        """
        count = len(self.stretches)
        return np.repeat(np.arange(count, dtype=np.int32), self.stretches).reshape(self.tokens.shape)

    @cached_property
    def is_padding(self) -> Array:
        """(B, seq_len)."""
        return np.asarray(np.arange(self.tokens.shape[1]) >= self._used[:, None])

    @cached_property
    def labels(self) -> Array:
        """(B, seq_len), int64: the next token of the same piece, already shifted.

        IGNORE at the end of a piece, in padding, and in documents that were taken down.
        """
        labels = np.empty(self.tokens.size, np.int64)
        labels[:-1] = self.tokens.reshape(-1)[1:]
        labels[self.cu_seqlens[1:] - 1] = IGNORE
        shaped = labels.reshape(self.tokens.shape)
        shaped[self.is_padding] = IGNORE
        for row, spans in self._masked:
            for begin, end in spans:
                shaped[row, begin:end] = IGNORE
        return shaped

    @cached_property
    def is_masked(self) -> Array:
        """(B, seq_len): the tokens of documents that were taken down, according to the loader's receipts."""
        return _covered(self.tokens.shape, self._masked)

    @property
    def loss_mask(self) -> Array:
        """(B, seq_len): where there is a label."""
        return np.asarray(self.labels != IGNORE)

    def to_torch(self, **options: Any) -> Any:
        """The batch as tensors: `gristmill.loader.torch.tensors`."""
        from gristmill.loader.tensors import tensors

        return tensors(self, **options)

    @cached_property
    def _used(self) -> Array:
        """(B,): tokens of each sample that are not padding."""
        ends = np.cumsum(self.pieces)
        before = np.concatenate(([0], np.cumsum(self.lengths)))
        return np.asarray(before[ends] - before[ends - self.pieces])


def batch_of(samples: Sequence[Sample], names: BatchNames) -> Batch:
    """A batch of any samples. Its state is the one after the last of them."""
    return Batch(
        np.stack([sample.tokens for sample in samples]),
        samples[0].number,
        {"sample": samples[-1].number + 1},
        [sample.pieces for sample in samples],
        np.array([sample.place.group for sample in samples], np.int64),
        np.array([sample.place.phase for sample in samples], np.int64),
        names,
        [(row, sample.masked) for row, sample in enumerate(samples) if sample.masked],
    )


def _joined(parts: list[Array], kind: Any) -> Array:
    return np.concatenate(parts).astype(kind, copy=False) if parts else np.empty(0, kind)


def _spans(lengths: Array) -> Array:
    ends = np.cumsum(lengths, dtype=np.int64)
    return np.stack((ends - lengths, ends), axis=1)


def _covered(shape: tuple[int, ...], masked: Sequence[tuple[int, Spans]]) -> Array:
    """True inside the spans of each row."""
    covered = np.zeros(shape, bool)
    for row, spans in masked:
        for begin, end in spans:
            covered[row, begin:end] = True
    return covered
