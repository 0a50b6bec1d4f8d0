"""The proxy model: a plain decoder with rotary positions, RMS norm, squared ReLU and tied embeddings.

Matrices that write to the residual stream begin at zero, so that every layer is the identity at first: runs with
different seeds differ less.
"""

from functools import lru_cache
from typing import Any, NamedTuple

from gristmill.loader.tensors import torch
from gristmill.loader.torch import document_mask

F, nn = torch.nn.functional, torch.nn
HEAD = 64
"""Width of an attention head."""


class Size(NamedTuple):
    layers: int
    width: int

    @property
    def inner(self) -> int:
        """Parameters without the embeddings."""
        return 12 * self.layers * self.width**2


SIZES = {
    "3m": Size(4, 192),
    "10m": Size(6, 320),
    "30m": Size(6, 512),
    "60m": Size(10, 640),
    "124m": Size(12, 768),
    "350m": Size(24, 1024),
}


class Attention(nn.Module):  # type: ignore[misc, name-defined]
    def __init__(self, width: int) -> None:
        super().__init__()
        self.heads = width // HEAD
        self.inward = nn.Linear(width, 3 * width, bias=False)
        self.outward = nn.Linear(width, width, bias=False)

    def forward(self, x: Any, turn: Any, mask: Any) -> Any:
        """`mask`: None (causal), a boolean tensor, or a block mask for flex attention."""
        batch, length, width = x.shape
        q, k, v = self.inward(x).view(batch, length, 3, self.heads, HEAD).permute(2, 0, 3, 1, 4).unbind(0)
        q, k = (_rotated(F.rms_norm(each, (HEAD,)), turn) for each in (q, k))
        if mask is None or torch.is_tensor(mask):
            y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=mask is None)
        else:
            y = torch.nn.attention.flex_attention.flex_attention(q, k, v, block_mask=mask)
        return self.outward(y.transpose(1, 2).reshape(batch, length, width))


def _rotated(x: Any, turn: Any) -> Any:
    """Rotary positions: pairs (i, i + HEAD/2) turned by their angles."""
    cos, sin = turn
    a, b = x.chunk(2, -1)
    return torch.cat((a * cos - b * sin, a * sin + b * cos), -1).type_as(x)


class Layer(nn.Module):  # type: ignore[misc, name-defined]
    def __init__(self, width: int) -> None:
        super().__init__()
        self.attention = Attention(width)
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
        self.layers = nn.ModuleList(Layer(size.width) for _ in range(size.layers))
        self.scale = nn.Parameter(torch.ones(size.width))
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
        places = torch.arange(tokens.shape[1], device=tokens.device, dtype=torch.float32)
        steps = torch.arange(0, HEAD, 2, device=tokens.device, dtype=torch.float32) / HEAD
        angles = places[:, None] * (10_000.0**-steps)[None]
        turn = (angles.cos(), angles.sin())
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
        made = _compiled(flex.create_block_mask)  # as it comes, it writes a mask of all pairs first
        return made(document_mask(documents), batch, None, length, length, device=documents.device)
    length = documents.shape[1]
    causal = torch.ones(length, length, dtype=torch.bool).tril()
    return ((documents[:, :, None] == documents[:, None, :]) & causal)[:, None]
