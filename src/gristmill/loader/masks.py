"""The attention mask of packed samples: a token sees only earlier tokens of the same document.

Training on packed documents needs no dense mask where attention takes lengths (`cu_seqlens`: FlashAttention) or a
function (FlexAttention: `gristmill.loader.torch.document_mask`). This dense mask is for other kinds, and for tests.
"""

from typing import Any

import numpy as np

from gristmill.loader.batch import Batch

Array = np.ndarray[Any, Any]


def block_diagonal_mask(packed: Batch | Array, causal: bool = True) -> Array:
    """(B, L, L) of bool: whether token q (second axis) sees token k (third).

    `packed`: a batch, or the document numbers of its tokens as (B, L) or (L,). A mask has B·L² bytes: 67 MB per sample
    at 8192 tokens.
    """
    documents = packed.documents if isinstance(packed, Batch) else np.atleast_2d(packed)
    mask = documents[:, :, None] == documents[:, None, :]
    if causal:
        mask &= np.tri(documents.shape[1], dtype=bool)
    return np.asarray(mask)
