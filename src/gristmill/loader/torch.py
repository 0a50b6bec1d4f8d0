"""Adapters for PyTorch: an IterableDataset and a map-style one, and batches as tensors.

A DataLoader reads ahead in its workers, so where to resume is known by the batch that was used last: `batch.state`.
"""

import importlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from gristmill.errors import UserError
from gristmill.loader.batch import Batch, Names, Sample, batch_of
from gristmill.loader.loader import Loader

try:
    torch: Any = importlib.import_module("torch")
    data: Any = importlib.import_module("torch.utils.data")
except ImportError:
    raise UserError(
        "torch is not installed, so gristmill.loader.torch cannot be used; gristmill.loader alone needs numpy only. "
        "Install it: pip install 'gristmill[torch]'."
    ) from None

FIELDS = ("tokens", "labels", "positions", "documents", "cu_seqlens")
ALL_FIELDS = (*FIELDS, "is_masked")


@dataclass(frozen=True)
class TorchBatch:
    """Tensors of a batch; those that were not asked for are None."""

    state: dict[str, int]
    first_sample: int
    source_ids: Any
    max_seqlen: int | None
    """Beside cu_seqlens."""
    tokens: Any = None
    """(B, seq_len), int64."""
    labels: Any = None
    """(B, seq_len), int64, shifted; -100 where there is nothing to predict."""
    positions: Any = None
    """(B, seq_len), int32."""
    documents: Any = None
    """(B, seq_len), int32."""
    cu_seqlens: Any = None
    """int32, of the flattened batch."""
    is_masked: Any = None
    """(B, seq_len), bool; `labels` heed it already."""

    def to(self, device: Any, non_blocking: bool = False) -> "TorchBatch":
        return self._each(lambda tensor: tensor.to(device, non_blocking=non_blocking))

    def pin_memory(self) -> "TorchBatch":
        return self._each(lambda tensor: tensor.pin_memory())

    def _each(self, change: Callable[[Any], Any]) -> "TorchBatch":
        values = {name: getattr(self, name) for name in ("source_ids", *ALL_FIELDS)}
        return replace(self, **{name: change(value) for name, value in values.items() if value is not None})


def tensors(batch: Batch, fields: tuple[str, ...] = FIELDS) -> TorchBatch:
    """A batch as tensors: the `fields` of it."""
    unknown = set(fields) - set(ALL_FIELDS)
    if unknown:
        raise UserError(f"{sorted(unknown)} are not fields of a batch of tensors. Fields: {', '.join(ALL_FIELDS)}.")
    made = {name: torch.from_numpy(_signed(getattr(batch, name))) for name in fields}
    longest = batch.max_seqlen if "cu_seqlens" in fields else None
    return TorchBatch(batch.state, batch.first_sample, torch.from_numpy(batch.source_ids), longest, **made)


def _signed(values: Any) -> Any:
    """Tokens as int64: embeddings take no unsigned integers."""
    return values.astype(np.int64) if values.dtype.kind == "u" else values


class StreamDataset(data.IterableDataset):  # type: ignore[misc]
    """Batches in the global order, under a DataLoader with batch_size=None and any number of workers.

    Of n workers, worker w makes the steps w, w + n, …; a DataLoader takes from them in turn, which restores the order.
    """

    def __init__(self, path: Any, *, fields: tuple[str, ...] = FIELDS, **options: Any) -> None:
        self.fields = fields
        with Loader(path, **options) as loader:
            self._options = loader.pinned  # each worker opens its own loader, perhaps after `latest` has moved on
            self._length = len(loader)

    def __len__(self) -> int:
        return self._length

    def __iter__(self) -> Iterator[TorchBatch]:
        worker = data.get_worker_info()
        # A worker is a process that reads ahead by itself.
        options = {"threads": 0, **self._options} if worker else self._options
        with Loader(**options) as loader:
            for batch in loader.batches(worker.id if worker else 0, worker.num_workers if worker else 1):
                yield tensors(batch, self.fields)


class SampleDataset(data.Dataset):  # type: ignore[misc]
    """Global sample -> Sample, for a DataLoader with a sampler of its own, a batch_size, and `collate`."""

    def __init__(self, path: Any, **options: Any) -> None:
        self._loader = Loader(path, **options)

    def __len__(self) -> int:
        return self._loader.samples

    def __getitem__(self, number: int) -> Sample:
        return self._loader.sample(number)

    def collate(self, samples: list[Sample]) -> TorchBatch:
        """Samples as a batch of tensors; its state is that after the last of them."""
        return tensors(batch_of(samples, Names.of(self._loader.manifest)))


def document_mask(documents: Any) -> Callable[[Any, Any, Any, Any], Any]:
    """The mask_mod of FlexAttention for a batch's `documents`: causal, and each document by itself."""

    def mask(batch: Any, _head: Any, query: Any, key: Any) -> Any:
        return (documents[batch, query] == documents[batch, key]) & (query >= key)

    return mask
