"""The adapters for PyTorch; skipped if it is not installed, except for the message about that."""

import os
import subprocess
import sys

import numpy as np
import pytest

from gristmill.errors import UserError
from gristmill.install_command import install_library
from gristmill.loader import IGNORE, Loader, block_diagonal_mask
from loader.small import all_documents, two_phases, write_receipt

try:
    import torch
    from torch.utils.data import DataLoader

    from gristmill.loader.torch import SampleDataset, StreamDataset, document_mask
except (ImportError, UserError):
    torch = None

needs_torch = pytest.mark.skipif(torch is None, reason="torch is not installed")


@pytest.fixture(scope="module")
def shards(tmp_path_factory):
    return two_phases().write(tmp_path_factory.mktemp("torch"))


def test_without_torch_the_adapter_names_the_package_to_install():
    """The loader itself works."""
    script = (
        "import sys; sys.modules['torch'] = None\n"
        "import gristmill.loader\n"
        "try: import gristmill.loader.torch\n"
        "except Exception as error: print(type(error).__name__, error)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("UserError torch is not installed")
    assert install_library("torch") in done.stdout


@needs_torch
@pytest.mark.parametrize("workers", [0, 1, 2, 3])
def test_a_data_loader_gives_the_global_order_with_any_number_of_workers(shards, workers):
    """Every batch equals that of the loader itself, with the state after each."""
    with Loader(shards, batch_samples=16, rank=1, world_size=2) as loader:
        expected = [(batch.tokens.tolist(), batch.state, batch.first_sample) for batch in loader]
    dataset = StreamDataset(shards, batch_samples=16, rank=1, world_size=2)
    found = [
        (batch.tokens.tolist(), batch.state, batch.first_sample)
        for batch in DataLoader(dataset, batch_size=None, num_workers=workers)
    ]
    assert found == expected
    assert len(dataset) == len(expected)


@needs_torch
def test_a_resume_from_the_state_of_a_batch_continues_with_the_next(shards):
    """The workers have read further by then."""
    run = iter(DataLoader(StreamDataset(shards, batch_samples=10), batch_size=None, num_workers=2))
    state = [next(run) for _ in range(3)][-1].state
    del run
    again = StreamDataset(shards, batch_samples=5, start=state["sample"])
    first = next(iter(DataLoader(again, batch_size=None, num_workers=2)))
    assert first.first_sample == 30
    with Loader(shards) as loader:
        assert first.tokens[0].tolist() == loader.sample(30).tokens.tolist()


@needs_torch
def test_tensors_equal_the_arrays_of_the_batch(shards):
    """Their types are those that embeddings, cross entropy and attention accept."""
    with Loader(shards, batch_samples=8, start=100) as loader:
        batch = next(iter(loader))
    tensors = batch.to_torch()
    assert tensors.tokens.dtype == tensors.labels.dtype == torch.int64
    assert tensors.cu_seqlens.dtype == torch.int32
    for name in ("tokens", "labels", "positions", "documents", "cu_seqlens", "source_ids"):
        assert np.array_equal(getattr(tensors, name).numpy(), getattr(batch, name))
    assert batch.to_torch(fields=("tokens",)).labels is None
    with pytest.raises(UserError, match=r"tokenz.*Fields: tokens"):
        batch.to_torch(fields=("tokenz",))
    logits = torch.zeros(*tensors.tokens.shape, 60000)
    loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), tensors.labels.flatten())
    assert loss.isclose(torch.tensor(60000.0).log())
    assert torch.nn.CrossEntropyLoss().ignore_index == IGNORE
    assert tensors.to("cpu").tokens.equal(tensors.tokens)


@needs_torch
def test_the_map_style_set_gives_samples_by_number(shards):
    """This uses a sampler and workers of torch."""
    dataset = SampleDataset(shards)
    assert len(dataset) == 450
    order = [5, 449, 0, 301, 301, 77]
    batches = list(DataLoader(dataset, sampler=order, batch_size=2, collate_fn=dataset.collate, num_workers=2))
    with Loader(shards) as loader:
        expected = [loader.sample(number).tokens.tolist() for number in order]
    assert [row.tolist() for batch in batches for row in batch.tokens] == expected
    assert [batch.state["sample"] for batch in batches] == [450, 302, 78]


@needs_torch
@pytest.mark.parametrize("workers", [0, 2])
def test_documents_that_were_taken_down_are_masked_through_both_adapters(shards, tmp_path, workers):
    """This also holds in workers; the mask itself is returned on request."""
    options = {"mask": write_receipt(tmp_path, shards, all_documents(shards)[::5]), "mask_tokens": "padding"}
    with Loader(shards, batch_samples=10, **options) as loader:
        expected = list(loader)
    fields = ("tokens", "labels", "is_masked")
    stream = StreamDataset(shards, batch_samples=10, fields=fields, **options)
    for batch, same in zip(DataLoader(stream, batch_size=None, num_workers=workers), expected, strict=True):
        for name in fields:
            assert np.array_equal(getattr(batch, name).numpy(), getattr(same, name))
    assert batch.to("cpu").is_masked.any()
    dataset = SampleDataset(shards, **options)
    loading = {"batch_size": 10, "collate_fn": dataset.collate, "num_workers": workers}
    for batch, same in zip(DataLoader(dataset, **loading), expected, strict=True):
        assert np.array_equal(batch.labels.numpy(), same.labels)
        assert np.array_equal(batch.tokens.numpy(), same.tokens)


@needs_torch
def test_the_mask_for_flex_attention_is_block_diagonal(shards):
    """The function form and the dense form agree."""
    with Loader(shards, batch_samples=3, start=40) as loader:
        batch = next(iter(loader))
    mask = document_mask(batch.to_torch().documents)
    size = batch.tokens.shape[1]
    where = torch.meshgrid(torch.arange(3), torch.arange(size), torch.arange(size), indexing="ij")
    assert np.array_equal(mask(where[0], None, where[1], where[2]).numpy(), block_diagonal_mask(batch))


def with_a_wrong_bit(folder):
    """A corpus with one wrong bit in the last shard of the first group, and unchanged times."""
    path = two_phases().write(folder)
    damaged = folder / "crawl-B/shard_00002.bin"
    before, data = damaged.stat(), damaged.read_bytes()
    damaged.write_bytes(data[:9] + bytes([data[9] ^ 1]) + data[10:])
    os.utime(damaged, ns=(before.st_atime_ns, before.st_mtime_ns))
    return path


@needs_torch
@pytest.mark.parametrize("workers", [0, 2])
def test_a_damaged_shard_is_reported_to_the_trainer_through_workers(tmp_path, workers):
    """Both adapters pass the check level on; no batch contains a sample of the shard."""
    path = with_a_wrong_bit(tmp_path)
    with Loader(path) as loader:
        places = [loader.order.place(number) for number in range(loader.samples)]
    bad = [number for number, place in enumerate(places) if (place.group, place.shard) == (0, 2)]
    returned = []

    def train():
        stream = StreamDataset(path, batch_samples=10, check="hash")
        for batch in DataLoader(stream, batch_size=None, num_workers=workers):
            returned.extend(range(batch.first_sample, batch.first_sample + len(batch.tokens)))

    with pytest.raises(UserError, match=r"crawl-B/shard_00002.bin does not have the hash"):
        train()
    assert returned == list(range(bad[0] // 10 * 10))
    dataset = SampleDataset(path, check="hash")
    loading = {"batch_size": 1, "collate_fn": dataset.collate, "num_workers": workers}
    good = [number for number in range(50) if number not in bad]
    assert len(list(DataLoader(dataset, sampler=good, **loading))) == len(good)
    with pytest.raises(UserError, match="does not have the hash"):
        list(DataLoader(dataset, sampler=bad[:1], **loading))


@needs_torch
def test_a_step_larger_than_the_corpus_is_rejected_before_a_worker_starts(shards):
    """Otherwise there would be no batches."""
    with pytest.raises(UserError, match=r"takes 600 samples.*there is no batch"):
        StreamDataset(shards, batch_samples=300, world_size=2)
