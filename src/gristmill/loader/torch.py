"""Adapters for PyTorch: an IterableDataset and a map-style one, and batches as tensors.

A DataLoader reads ahead in its workers, so where to resume is known by the batch that was used last: `batch.state`.
"""

import importlib
from collections.abc import Callable, Iterator
from typing import Any

from gristmill.loader.batch import Names, Sample, batch_of
from gristmill.loader.loader import Loader
from gristmill.loader.tensors import FIELDS as FIELDS
from gristmill.loader.tensors import TorchBatch as TorchBatch
from gristmill.loader.tensors import tensors as tensors

data: Any = importlib.import_module("torch.utils.data")


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
