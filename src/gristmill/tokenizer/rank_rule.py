"""Whether a rank file can say what a tokenizer does.

Such a file has tokens and no merges: any two neighbours that make up a token become it, the lowest rank first, and a
pre-token that is a token is taken whole. A list of merges may say otherwise: that `aaaa` is a token and `aa` `aa` is no
merge. What decides is what the merges make of each token's own bytes. Neighbours that make up a token have come about
from its bytes alone, by the same merges in the same order, wherever they stand; so where no token is left as two pieces
the two rules never part.
"""

from itertools import pairwise

import numpy as np

from gristmill.tokenizer.model import Definition

Pairs = dict[tuple[int, int], int]
"""What two neighbours become, as `rank << 32 | id`."""

_NEVER = 1 << 63


def reason_against_ranks(this: Definition) -> str:
    """Why a rank file would give other ids; nothing where it gives the same."""
    if not np.array_equal(this.made, this.ranks) and not np.array_equal(np.sort(this.made), this.made):
        return "its ids are not in the order of its merges"
    for added in this.added:
        if not added.special:
            return f"its added token {added.text!r} is cut out of every text, and those of a rank file are not"
    outside = {token.id for token in this.added}
    if shared := outside & model_ids(this):
        return f"its special token {this.tokens[min(shared)]!r} is also one that merges make"
    merges = zip(this.left.tolist(), this.right.tolist(), this.ranks.tolist(), this.made.tolist(), strict=True)
    pairs = {(one, other): rank << 32 | made for one, other, rank, made in merges}
    byte_ids, whole = this.byte_ids.tolist(), set(this.whole)
    for number, token in enumerate(this.tokens):
        if not token or number in outside:
            continue
        left = _merged([byte_ids[byte] for byte in token], pairs)
        if left != [number] and not (len(left) > 2 and number in whole):
            return f"its merges do not make its token {token!r}"
    return ""


def model_ids(this: Definition) -> set[int]:
    """Ids that bytes and merges lead to."""
    return {int(one) for ids in (this.byte_ids, this.left, this.right, this.made, this.whole) for one in ids}


def _merged(ids: list[int], pairs: Pairs) -> list[int]:
    """The lowest rank first, the leftmost of equals."""
    while True:
        values = [pairs.get(pair, _NEVER) for pair in pairwise(ids)]
        best = min(values, default=_NEVER)
        if best == _NEVER:
            return ids
        at = values.index(best)
        ids[at : at + 2] = [best & 0xFFFFFFFF]
