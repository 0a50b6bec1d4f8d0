"""Scores of a trained model on evaluation items: bits of every continuation, and whether the model generates it.

A model generates an answer greedily exactly if each token of the answer is the likeliest one after those before it. So
a short generation is judged by one pass over the answer. The token after it must begin another word:
`fourteen` is not `four`.
"""

from typing import Any

import numpy as np

from gristmill.loader.tensors import torch
from gristmill_ablate.proxy.items import Items
from gristmill_ablate.proxy.model import SIZES, Decoder
from gristmill_ablate.proxy.train import load_weights

Array = np.ndarray[Any, Any]
Weights = dict[str, Array]

BATCH = 1024
"""Tokens that a CPU scores at once: the scores of more would not stay in its cache."""
GPU_BATCH, GPU_SCORES = 65_536, 2**30
"""The most tokens that a GPU scores at once, and the most scores: one for each token and word of the vocabulary."""


def score(snapshots: list[Weights], size: str, vocab: int, items: Items, device: str) -> tuple[Array, Array]:
    """Of every unit: bits, the mean over the snapshots; and the share of the snapshots that generate it."""
    bits = np.zeros(len(items.unit_item))
    greedy = np.zeros(len(items.unit_item))
    model = Decoder(SIZES[size], vocab, 0)
    for weights in snapshots:
        load_weights(model, weights)
        sequence_bits, is_greedy = _score(model.to(device).eval(), items, device)
        bits += np.bincount(items.unit, sequence_bits, len(bits)) / len(snapshots)
        wrong = np.bincount(items.unit, ~is_greedy, len(bits)) > 0
        greedy += ~wrong / len(snapshots)
    return bits, greedy


def _score(model: Any, items: Items, device: str) -> tuple[Array, Array]:
    lengths = np.diff(items.starts)
    bits, is_greedy = np.zeros(len(lengths)), np.zeros(len(lengths), bool)
    order = np.argsort(lengths, kind="stable")
    batch = min(GPU_BATCH, GPU_SCORES // model.embedding.num_embeddings) if device == "cuda" else BATCH
    start = 0
    while start < len(order):
        # As many sequences as fit: they are padded to the longest, and sorted by length.
        count = 1
        while start + count < len(order) and (count + 1) * lengths[order[start + count]] <= batch:
            count += 1
        chosen = order[start : start + count]
        start += count
        width = int(lengths[chosen[-1]])
        tokens = np.zeros((count, width), np.int64)
        labels = np.full((count, width), -100, np.int64)
        for row, number in enumerate(chosen):
            ids = items.tokens[items.starts[number] : items.starts[number + 1]]
            tokens[row, : len(ids)] = ids
            first = items.context[number]
            labels[row, first - 1 : len(ids) - 1] = ids[first:]
        given, targets = (torch.from_numpy(array).to(device) for array in (tokens, labels))
        nats, likeliest = _forward(model, given, targets, device)
        bits[chosen] = nats / np.log(2)
        goes_on = likeliest[np.arange(count), lengths[chosen] - 1]  # the token after the answer
        ends = ~items.continues[goes_on] if len(items.continues) else np.ones(count, bool)
        is_greedy[chosen] = ((likeliest == labels) | (labels < 0)).all(1) & ends
    return bits, is_greedy


def _forward(model: Any, tokens: Any, labels: Any, device: str) -> tuple[Array, Array]:
    with torch.no_grad(), torch.autocast(device, torch.bfloat16, enabled=device == "cuda"):
        hidden = model(tokens)
        logits = torch.nn.functional.linear(hidden, model.embedding.weight.type_as(hidden)).float()
    nats = torch.nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten(), reduction="none")
    return nats.view(labels.shape).double().sum(1).cpu().numpy(), logits.argmax(-1).cpu().numpy()
