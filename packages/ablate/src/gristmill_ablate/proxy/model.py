"""The proxy model: a plain decoder with rotary positions, RMS norm, squared ReLU and tied embeddings.

Matrices that write to the residual stream begin at zero, so that every layer is the identity at first: runs with
different seeds differ less.
"""

from functools import lru_cache
from typing import Any, NamedTuple

from gristmill.loader.tensors import torch
from gristmill.loader.torch import document_mask

F, nn = torch.nn.functional, torch.nn
ROTARY_BASE = 10_000.0
LONGEST = 8192
"""The longest sequence, in tokens."""


class Size(NamedTuple):
    layers: int
    width: int

    @property
    def inner(self) -> int:
        """Parameters without the embeddings."""
        return 12 * self.layers * self.width**2

    @property
    def head(self) -> int:
        """The width of an attention head. 128 is a fifth faster than 64 on an H200."""
        return 64 if self.width % 128 else 128


SIZES = {
    "3m": Size(4, 192),
    "10m": Size(6, 320),
    "30m": Size(6, 512),
    "60m": Size(10, 640),
    "124m": Size(12, 768),
    "350m": Size(24, 1024),
}


class Attention(nn.Module):  # type: ignore[misc, name-defined]
    def __init__(self, width: int, head: int) -> None:
        super().__init__()
        self.head = head
        self.inward = nn.Linear(width, 3 * width, bias=False)
        self.outward = nn.Linear(width, width, bias=False)

    def forward(self, x: Any, turn: Any, mask: Any) -> Any:
        """`mask`: None (causal), a boolean tensor, or a block mask for flex attention."""
        batch, length, width = x.shape
        parts = self.inward(x).split(width, -1)
        q, k, v = (part.view(batch, length, -1, self.head).transpose(1, 2) for part in parts)
        q, k = (_rotated(F.rms_norm(part, (self.head,)), turn) for part in (q, k))
        if mask is None or torch.is_tensor(mask):
            y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=mask is None)
        else:
            y = torch.nn.attention.flex_attention.flex_attention(q, k, v, block_mask=mask)
        return self.outward(y.transpose(1, 2).reshape(batch, length, width))


def _rotated(x: Any, turn: Any) -> Any:
    """Rotary positions: pairs (i, i + head/2) are turned by their angles."""
    cos, sin = turn
    a, b = x.chunk(2, -1)
    return torch.cat((a * cos - b * sin, a * sin + b * cos), -1).type_as(x)


def _angles(length: int, head: int) -> tuple[Any, Any]:
    steps = torch.arange(0, head, 2, dtype=torch.float32) / head
    angles = torch.arange(length, dtype=torch.float32)[:, None] * ROTARY_BASE**-steps
    return angles.cos(), angles.sin()


class Layer(nn.Module):  # type: ignore[misc, name-defined]
    def __init__(self, width: int, head: int) -> None:
        super().__init__()
        self.attention = Attention(width, head)
        self.up = nn.Linear(width, 4 * width, bias=False)
        self.down = nn.Linear(4 * width, width, bias=False)

    def forward(self, x: Any, turn: Any, mask: Any) -> Any:
        x = x + self.attention(F.rms_norm(x, (x.shape[-1],)), turn, mask)
        return x + self.down(F.relu(self.up(F.rms_norm(x, (x.shape[-1],)))).square())


class Decoder(nn.Module):  # type: ignore[misc, name-defined]
    """Tokens to hidden states; `nats` gives the loss of each label."""

    def __init__(self, size: Size, vocab: int, seed: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocab, size.width)
        self.layers = nn.ModuleList(Layer(size.width, size.head) for _ in range(size.layers))
        self.scale = nn.Parameter(torch.ones(size.width))
        # Tables, since a compiled model would compute these sines in every layer: a sixth of a training on an H200.
        for name, table in zip(("cos", "sin"), _angles(LONGEST, size.head), strict=True):
            self.register_buffer(name, table, persistent=False)
        draw = torch.Generator().manual_seed(seed)
        with torch.no_grad():
            self.embedding.weight.normal_(0, 0.02, generator=draw)
            for layer in self.layers:
                for inward in (layer.attention.inward, layer.up):
                    inward.weight.normal_(0, size.width**-0.5, generator=draw)
                for outward in (layer.attention.outward, layer.down):
                    outward.weight.zero_()

    def forward(self, tokens: Any, mask: Any = None) -> Any:
        x = F.rms_norm(self.embedding(tokens), (self.embedding.embedding_dim,))
        turn = (self.cos[: tokens.shape[1]], self.sin[: tokens.shape[1]])
        for layer in self.layers:
            x = layer(x, turn, mask)
        return F.rms_norm(x, (x.shape[-1],), self.scale.type_as(x))

    def nats(self, hidden: Any, labels: Any) -> Any:
        """The loss of each label, 0 where it is -100."""
        logits = F.linear(hidden, self.embedding.weight.type_as(hidden)).float()
        return F.cross_entropy(logits.flatten(0, -2), labels.flatten(), reduction="none").view(labels.shape)


_compiled = lru_cache(torch.compile)
"""Compiled once in a process: that takes half a minute."""


def mask_of(documents: Any) -> Any:
    """A token sees what is before it in its own document: a block mask on a GPU, a boolean one elsewhere."""
    if documents.device.type == "cuda":
        batch, length = documents.shape
        flex = torch.nn.attention.flex_attention
        made = _compiled(flex.create_block_mask)  # uncompiled, it writes a mask of all pairs first
        return made(document_mask(documents), batch, None, length, length, device=documents.device)
    length = documents.shape[1]
    causal = torch.ones(length, length, dtype=torch.bool).tril()
    return ((documents[:, :, None] == documents[:, None, :]) & causal)[:, None]
