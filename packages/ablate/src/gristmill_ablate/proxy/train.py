"""Trains a proxy model on a pool: warm-up, a stable rate, and a decay to zero.

A run is a function of its pool, its config and the kind of device. It writes checkpoints beside the store while it
goes on; a killed run continues from the last one, to the same losses bit by bit.
"""

import contextlib
import math
import os
from collections import deque
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

from gristmill.loader.tensors import torch
from gristmill_ablate.proxy.domains import draw
from gristmill_ablate.proxy.model import SIZES, Decoder, mask_of
from gristmill_ablate.proxy.pool import Pool
from gristmill_ablate.proxy.stream import Stream, Training, rate_at

SNAPSHOTS = (0.90, 0.95, 1.0)
"""Where in the training the models are kept whose scores are averaged."""
CHECKPOINT_STEPS = 200
AHEAD = 4
"""Batches that are made before they are used."""

Array = np.ndarray[Any, Any]


def train(pool: Pool, config: Training, checkpoints: str = "") -> tuple[list[dict[str, Array]], list[float]]:
    """The last snapshots of the model, and the loss of every step. `checkpoints`: the folder for them; empty: none."""
    pool = draw(pool, config.shares, config.tokens) if config.shares else pool
    with deterministic():
        return _train(pool, config, Path(checkpoints, "state.pt") if checkpoints else None)


def _train(pool: Pool, config: Training, checkpoint: Path | None) -> tuple[list[dict[str, Array]], list[float]]:
    device = torch.device(config.device)
    model = Decoder(SIZES[config.size], pool.vocab, config.seed).to(device)
    matrices = [weight for weight in model.parameters() if weight.ndim > 1]
    others = [weight for weight in model.parameters() if weight.ndim <= 1]
    optimizer = torch.optim.AdamW(
        [{"params": matrices, "weight_decay": 0.1}, {"params": others, "weight_decay": 0.0}],
        lr=config.rate,
        betas=(0.9, 0.95),
        fused=True,
    )
    stream = Stream(pool, config.seed, config.sequence)
    falling = [stream.phase_ends[number - 1] if number else 0 for number in np.flatnonzero(pool.decay)]
    decay_from = min(falling[0] / stream.tokens, 0.95) if falling else 1 - config.decay
    sequences = max(1, config.batch // config.sequence)
    keep_at = [max(1, math.ceil(share * config.steps)) for share in SNAPSHOTS]
    first, losses, snapshots = _resume(checkpoint, model, optimizer)
    forward = _forward(config.device)
    batches = _ahead(stream, range(first, config.steps), sequences, config.sequence, device)
    for step in range(first, config.steps):
        for group in optimizer.param_groups:
            group["lr"] = rate_at(config, step, decay_from)
        tokens, labels, documents = next(batches)
        loss = forward(model, tokens, labels, mask_of(documents))
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        losses.append(loss.detach())
        if step + 1 in keep_at:
            snapshots += [weights_of(model, config.device)] * keep_at.count(step + 1)
        if checkpoint and (step + 1) % CHECKPOINT_STEPS == 0:
            losses = [float(value) for value in losses]
            _save(checkpoint, step + 1, losses, snapshots, model, optimizer)
    return snapshots, [float(value) for value in losses]


def _forward(device: str) -> Any:
    def loss(model: Any, tokens: Any, labels: Any, mask: Any) -> Any:
        with torch.autocast(device, torch.bfloat16, enabled=device == "cuda"):
            nats = model.nats(model(tokens, mask), labels)
        return nats.sum() / (labels >= 0).sum().clamp(min=1)

    return _compiled(loss) if device == "cuda" else loss


_COMPILED: list[Any] = []


def _compiled(function: object) -> Any:
    """One compiled function for all runs of a process: compiling takes half a minute."""
    if not _COMPILED:
        _COMPILED.append(torch.compile(function))
    return _COMPILED[0]


def _ahead(stream: Stream, steps: range, sequences: int, sequence: int, device: object) -> Iterator[Any]:
    """The batches of these steps on the device, some steps before they are used."""

    def batch(step: int) -> list[Any]:
        return [_moved(array, device) for array in stream.batch(step * sequences * sequence, sequences)]

    with ThreadPoolExecutor(1) as maker:
        made = deque(maker.submit(batch, step) for step in steps[:AHEAD])
        for step in steps:
            if step + AHEAD in steps:
                made.append(maker.submit(batch, step + AHEAD))
            yield made.popleft().result()


def _moved(array: Array, device: Any) -> Any:
    tensor = torch.from_numpy(array)
    return tensor if device.type == "cpu" else tensor.pin_memory().to(device, non_blocking=True)


def weights_of(model: Any, device: str) -> dict[str, Array]:
    """The weights as arrays. On a GPU matrices are used as bfloat16, so that is what is kept of them."""
    arrays = {}
    for name, weight in model.state_dict().items():
        kept = weight.detach().cpu()
        if device == "cuda" and kept.ndim > 1:
            arrays[name] = kept.bfloat16().view(torch.int16).numpy().copy()
        else:
            arrays[name] = kept.numpy().copy()
    return arrays


def load_weights(model: Any, arrays: dict[str, Array]) -> None:
    """The other way of `weights_of`."""
    state = {name: torch.from_numpy(array) for name, array in arrays.items()}
    state = {name: t.view(torch.bfloat16).float() if t.dtype == torch.int16 else t for name, t in state.items()}
    model.load_state_dict(state)


def _save(path: Path, step: int, losses: list[float], snapshots: list[Any], model: Any, optimizer: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f"{path.name}.{os.getpid()}")
    state = {"step": step, "losses": losses, "snapshots": snapshots, "model": model.state_dict()}
    torch.save({**state, "optimizer": optimizer.state_dict()}, temporary)
    os.replace(temporary, path)


def _resume(path: Path | None, model: Any, optimizer: Any) -> tuple[int, list[Any], list[Any]]:
    if path is None or not path.exists():
        return 0, [], []
    state = torch.load(path, weights_only=False)
    model.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])
    return state["step"], state["losses"], state["snapshots"]


@contextlib.contextmanager
def deterministic() -> Iterator[None]:
    """The same sums in the same order, every time on one kind of device."""
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    before = torch.are_deterministic_algorithms_enabled()
    torch.use_deterministic_algorithms(True)
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(before)
