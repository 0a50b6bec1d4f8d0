"""Batches as PyTorch tensors."""

import importlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from gristmill.errors import UserError
from gristmill.install_command import install_library

try:
    torch: Any = importlib.import_module("torch")
except ImportError:
    raise UserError(
        "torch is not installed, so gristmill.loader.torch cannot be used (gristmill.loader only needs numpy). "
        f"Install it: {install_library('torch')}"
    ) from None

FIELDS = ("tokens", "labels", "positions", "documents", "cu_seqlens")
ALL_FIELDS = (*FIELDS, "is_masked")


@dataclass(frozen=True)
class TorchBatch:
    """Tensors of a batch; fields that were not requested are None."""

    state: dict[str, int]
    first_sample: int
    source_ids: Any
    max_seqlen: int | None
    """Set together with cu_seqlens."""
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
    """(B, seq_len), bool; already applied to `labels`."""

    def to(self, device: object, non_blocking: bool = False) -> "TorchBatch":
        return self._each(lambda tensor: tensor.to(device, non_blocking=non_blocking))

    def pin_memory(self) -> "TorchBatch":
        return self._each(lambda tensor: tensor.pin_memory())

    def _each(self, change: Callable[[Any], Any]) -> "TorchBatch":
        values = {name: getattr(self, name) for name in ("source_ids", *ALL_FIELDS)}
        return replace(self, **{name: change(value) for name, value in values.items() if value is not None})


def tensors(batch: Any, fields: tuple[str, ...] = FIELDS) -> TorchBatch:
    """The `fields` of a batch as tensors."""
    unknown = set(fields) - set(ALL_FIELDS)
    if unknown:
        raise UserError(f"{sorted(unknown)} are not fields of a batch of tensors. Fields: {', '.join(ALL_FIELDS)}.")
    found = {name: torch.from_numpy(_signed(getattr(batch, name))) for name in fields}
    longest = batch.max_seqlen if "cu_seqlens" in fields else None
    return TorchBatch(batch.state, batch.first_sample, torch.from_numpy(batch.source_ids), longest, **found)


def _signed(values: Any) -> Any:
    """Tokens as int64: embeddings do not accept unsigned integers."""
    return values.astype(np.int64) if values.dtype.kind == "u" else values
