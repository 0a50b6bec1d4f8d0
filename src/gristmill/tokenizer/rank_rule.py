"""Checks whether a rank file can represent a tokenizer.

Such a file has tokens and no merges: any two neighbours that form a token are merged, the lowest rank first, and a
pre-token that is a token is kept whole. A list of merges may differ: `aaaa` may be a token while `aa` `aa` is not a
merge. The test applies the merges to the bytes of each token. Neighbours that form a token result from its bytes alone,
by the same merges in the same order, in any context; so if no token ends as two pieces, the two rules always agree.
"""

from itertools import pairwise

import numpy as np

from gristmill.tokenizer.model import Definition

Pairs = dict[tuple[int, int], int]
"""Pairs of neighbours -> what they become, as `rank << 32 | id`."""

_NEVER = 1 << 63


def reason_against_ranks(this: Definition) -> str:
    """Why a rank file would give other ids; empty if it gives the same."""
    if not np.array_equal(this.made, this.ranks) and not np.array_equal(np.sort(this.made), this.made):
        return "its ids are not in the order of its merges"
    for added in this.added:
        if not added.special:
            return f"its added token {added.text!r} is matched in every text, which a rank file cannot express"
    outside = {token.id for token in this.added}
    if shared := outside & model_ids(this):
        return f"its special token {this.tokens[min(shared)]!r} is also made by merges"
    merges = zip(this.left.tolist(), this.right.tolist(), this.ranks.tolist(), this.made.tolist(), strict=True)
    pairs = {(one, other): rank << 32 | made for one, other, rank, made in merges}
    byte_ids, whole = this.byte_ids.tolist(), set(this.whole)
    for number, token in enumerate(this.tokens):
        if not token or number in outside:
            continue
        left = _merged([byte_ids[byte] for byte in token], pairs)
        if left != [number] and not (len(left) > 2 and number in whole):
            return f"its merges do not produce its token {token!r}"
    return ""


def model_ids(this: Definition) -> set[int]:
    """Ids that bytes and merges produce."""
    return {int(one) for ids in (this.byte_ids, this.left, this.right, this.made, this.whole) for one in ids}


def _merged(ids: list[int], pairs: Pairs) -> list[int]:
    """Apply merges, the lowest rank first, then the leftmost."""
    while True:
        values = [pairs.get(pair, _NEVER) for pair in pairwise(ids)]
        best = min(values, default=_NEVER)
        if best == _NEVER:
            return ids
        at = values.index(best)
        ids[at : at + 2] = [best & 0xFFFFFFFF]
