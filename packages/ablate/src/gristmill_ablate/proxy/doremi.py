"""Weights of domains by DoReMi (Xie et al. 2023): what a small model learns less well than a reference model did.

The proxy draws all domains equally and weighs their losses by alpha. After every step alpha grows by the exponential of
a domain's excess loss: how far the proxy's loss is above that of the reference, clipped at zero for each token. The
answer is the mean of alpha over all steps.
"""

import os
from pathlib import Path
from typing import Any

import numpy as np

from gristmill.loader.tensors import torch
from gristmill_ablate.proxy.domains import draw
from gristmill_ablate.proxy.model import SIZES, Decoder, mask_of
from gristmill_ablate.proxy.pool import Pool
from gristmill_ablate.proxy.stream import Stream, Training, rate_at
from gristmill_ablate.proxy.train import CHECKPOINT_STEPS, deterministic, load_weights

RATE = 1.0
"""Of the growth of alpha."""
SMOOTH = 1e-3
"""The share of the equal weights that is mixed into alpha after every step."""

Array = np.ndarray[Any, Any]


def reweigh(pool: Pool, config: Training, reference: dict[str, Array], checkpoints: str = "") -> Array:
    """Alpha after every step: (steps, domains)."""
    pool = draw(pool, config.shares, config.tokens)
    with deterministic():
        return _reweigh(pool, config, reference, Path(checkpoints, "state.pt") if checkpoints else None)


def _reweigh(pool: Pool, config: Training, reference: dict[str, Array], checkpoint: Path | None) -> Array:
    count = len(pool.names)
    stream = Stream(pool, config.seed, config.sequence)
    device = torch.device(config.device)
    teacher, model = (Decoder(SIZES[config.size], pool.vocab, config.seed).to(device) for _ in range(2))
    load_weights(teacher, reference)
    teacher.eval()
    optimizer = torch.optim.AdamW(model.parameters(), lr=config.rate, betas=(0.9, 0.95), weight_decay=0.1)
    alphas = np.full((config.steps, count), 1 / count)
    excess = torch.zeros(count, device=device)
    alpha = torch.full((count,), 1 / count, device=device)
    first = 0
    if checkpoint and checkpoint.exists():
        state = torch.load(checkpoint, weights_only=False)
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        first, alphas, alpha, excess = state["step"], state["alphas"], state["alpha"], state["excess"]
    nats = _nats if config.device == "cpu" else torch.compile(_nats)
    sequences = max(1, config.batch // config.sequence)
    for step in range(first, config.steps):
        optimizer.param_groups[0]["lr"] = rate_at(config, step, 1 - config.decay)
        batch = stream.batch(step * sequences * config.sequence, sequences)
        tokens, labels, documents = (torch.from_numpy(array).to(device) for array in batch)
        mask = mask_of(documents)
        own = nats(model, tokens, labels, mask)
        with torch.no_grad():
            teacher_nats = nats(teacher, tokens, labels, mask)
        of = torch.from_numpy(pool.domain[stream.pieces(batch[2])]).to(device)
        # Tokens by domain as products with ones and zeros: the same sums every time, on a GPU as well.
        domain_of_token = torch.nn.functional.one_hot(of.flatten(), count).float() * (labels.flatten() >= 0)[:, None]
        sizes = domain_of_token.sum(0)
        above = (own.detach() - teacher_nats).clamp(min=0).flatten() @ domain_of_token / sizes.clamp(min=1)
        excess = torch.where(sizes > 0, above, excess)
        alpha = alpha * torch.exp(RATE * excess)
        alpha = (1 - SMOOTH) * alpha / alpha.sum() + SMOOTH / count
        loss = (own.flatten() @ domain_of_token / sizes.clamp(min=1) * alpha).sum()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        alphas[step] = alpha.cpu().numpy()
        if checkpoint and (step + 1) % CHECKPOINT_STEPS == 0:
            state = {"step": step + 1, "alphas": alphas, "alpha": alpha, "excess": excess}
            checkpoint.parent.mkdir(parents=True, exist_ok=True)
            temporary = checkpoint.with_name(f"{checkpoint.name}.{os.getpid()}")
            torch.save({**state, "model": model.state_dict(), "optimizer": optimizer.state_dict()}, temporary)
            os.replace(temporary, checkpoint)
    return alphas


def _nats(model: Any, tokens: Any, labels: Any, mask: Any) -> Any:
    with torch.autocast(tokens.device.type, torch.bfloat16, enabled=tokens.device.type == "cuda"):
        return model.nats(model(tokens, mask), labels)
