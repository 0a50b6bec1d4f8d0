"""Scores of a trained model on evaluation items: bits of every continuation, and whether it is the greedy one.

The greedy continuation is the gold one exactly if the model, generating as many tokens, would write it: so a short
generation is judged without generating.
"""

from typing import Any

import numpy as np

from gristmill.loader.tensors import torch
from gristmill.proxy.items import Items
from gristmill.proxy.model import SIZES, Decoder
from gristmill.proxy.train import load_weights

Array = np.ndarray[Any, Any]
Weights = dict[str, Array]

BATCH = 8192
"""Tokens that are scored at once."""


def score(snapshots: list[Weights], size: str, vocab: int, items: Items, device: str) -> tuple[Array, Array]:
    """Of every unit: bits, the mean over the snapshots; and the share of the snapshots whose greedy answer it is."""
    bits = np.zeros(len(items.unit_item))
    greedy = np.zeros(len(items.unit_item))
    model = Decoder(SIZES[size], vocab, 0)
    for held in snapshots:
        load_weights(model, held)
        found, is_greedy = _score(model.to(device).eval(), items, device)
        bits += np.bincount(items.unit, found, len(bits)) / len(snapshots)
        wrong = np.bincount(items.unit, ~is_greedy, len(bits)) > 0
        greedy += ~wrong / len(snapshots)
    return bits, greedy


def _score(model: Any, items: Items, device: str) -> tuple[Array, Array]:
    lengths = np.diff(items.starts)
    bits, is_greedy = np.zeros(len(lengths)), np.zeros(len(lengths), bool)
    order = np.argsort(lengths, kind="stable")
    at = 0
    while at < len(order):
        # As many sequences as fit: they are padded to the longest, and sorted by length.
        count = 1
        while at + count < len(order) and (count + 1) * lengths[order[at + count]] <= BATCH:
            count += 1
        chosen = order[at : at + count]
        at += count
        width = int(lengths[chosen[-1]])
        tokens = np.zeros((count, width), np.int64)
        labels = np.full((count, width), -100, np.int64)
        for row, number in enumerate(chosen):
            held = items.tokens[items.starts[number] : items.starts[number + 1]]
            tokens[row, : len(held)] = held
            given = items.context[number]
            labels[row, given - 1 : len(held) - 1] = held[given:]
        nats, right = _forward(model, torch.from_numpy(tokens).to(device), torch.from_numpy(labels).to(device), device)
        bits[chosen] = nats / np.log(2)
        is_greedy[chosen] = right
    return bits, is_greedy


def _forward(model: Any, tokens: Any, labels: Any, device: str) -> tuple[Array, Array]:
    with torch.no_grad(), torch.autocast(device, torch.bfloat16, enabled=device == "cuda"):
        hidden = model(tokens)
        logits = torch.nn.functional.linear(hidden, model.embedding.weight.type_as(hidden)).float()
    nats = torch.nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten(), reduction="none")
    right = (logits.argmax(-1) == labels) | (labels < 0)
    return nats.view(labels.shape).double().sum(1).cpu().numpy(), right.all(1).cpu().numpy()
