"""One thread for each model on a CPU: how many share a sum changes its last bits. Other models use the other cores."""

from collections.abc import Iterator
from contextlib import contextmanager

from gristmill.loader.tensors import torch


@contextmanager
def one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
