"""Adapters for PyTorch: an IterableDataset and a map-style one, and batches as tensors.

A DataLoader reads ahead in its workers, so resume from the state of the last used batch: `batch.state`.
"""

import importlib
from collections.abc import Callable, Iterator
from typing import Any

from gristmill.loader.batch import BatchNames, Sample, batch_of
from gristmill.loader.loader import Loader
from gristmill.loader.tensors import FIELDS as FIELDS
from gristmill.loader.tensors import TorchBatch as TorchBatch
from gristmill.loader.tensors import tensors as tensors

data: Any = importlib.import_module("torch.utils.data")


class StreamDataset(data.IterableDataset):  # type: ignore[misc]
    """Batches in the global order, under a DataLoader with batch_size=None and any number of workers.

    Of n workers, worker w prepares steps w, w + n, …; a DataLoader reads from them in turn, which restores the order.
    """

    def __init__(self, path: Any, *, fields: tuple[str, ...] = FIELDS, **options: Any) -> None:
        self.fields = fields
        with Loader(path, **options) as loader:
            self._options = loader.pinned  # each worker opens its own loader, perhaps after `latest` has changed
            self._length = len(loader)

    def __len__(self) -> int:
        return self._length

    def __iter__(self) -> Iterator[TorchBatch]:
        worker = data.get_worker_info()
        # A worker process reads ahead on its own.
        options = {"threads": 0, **self._options} if worker else self._options
        with Loader(**options) as loader:
            for batch in loader.batches(worker.id if worker else 0, worker.num_workers if worker else 1):
                yield tensors(batch, self.fields)


class SampleDataset(data.Dataset):  # type: ignore[misc]
    """Maps a global sample to a Sample, for a DataLoader with its own sampler, a batch_size, and `collate`."""

    def __init__(self, path: Any, **options: Any) -> None:
        self._loader = Loader(path, **options)

    def __len__(self) -> int:
        return self._loader.samples

    def __getitem__(self, number: int) -> Sample:
        return self._loader.sample(number)

    def collate(self, samples: list[Sample]) -> TorchBatch:
        """Samples as a batch of tensors. Its state is the one after the last sample."""
        return tensors(batch_of(samples, BatchNames.of(self._loader.manifest)))


def document_mask(documents: Any) -> Callable[[Any, Any, Any, Any], Any]:
    """The mask_mod of FlexAttention for a batch's `documents`: causal, and within each document."""

    def mask(batch: Any, _head: Any, query: Any, key: Any) -> Any:
        return (documents[batch, query] == documents[batch, key]) & (query >= key)

    return mask
