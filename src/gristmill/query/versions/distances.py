"""How far two samples of documents differ, and how far two samples of the same documents may differ by chance.

An alarm needs both: the difference is large enough to matter, and larger than chance. The limits hold with a
probability of at least 1 - CHANCE for each comparison, for any distribution.
"""

import math
from collections.abc import Mapping

import numpy as np

from gristmill.query.documents.histograms import Values

CHANCE = 1e-6
"""The probability that one comparison of two samples of the same documents is beyond its limit."""
ERRORS = 5.0
"""Standard errors of a share or a mean: beyond them with a probability of about CHANCE."""


def distance(old: Values, new: Values) -> float:
    """The Kolmogorov-Smirnov distance of two sorted arrays: the largest difference between the shares of values below
    any value.
    """
    values = np.concatenate([old, new])
    shares = [np.searchsorted(one, values, "right") / len(one) for one in (old, new)]
    return float(np.abs(shares[0] - shares[1]).max())


def ks_limit(before: float, after: float) -> float:
    """The Kolmogorov-Smirnov distance that two samples of these sizes may have by chance (Smirnov 1939)."""
    return math.sqrt(math.log(2 / CHANCE) / 2 * (1 / before + 1 / after))


def rate_limit(before: tuple[float, float], after: tuple[float, float]) -> float:
    """The difference that two shares may have by chance; each is given as (some, all)."""
    share = (before[0] + after[0]) / (before[1] + after[1])
    return ERRORS * math.sqrt(share * (1 - share) * (1 / before[1] + 1 / after[1]))


def count_limit(before: float, after: float, every: tuple[int, int] = (1, 1)) -> float:
    """The relative change of a number of documents that may be chance. `every`: one document of so many was counted.

    As in all limits, two versions are two random halves of the same documents: the variance of a number of documents
    is half that number. An estimate from one document of k adds k - 1 times the number.
    """
    variance = sum(number * (k - 0.5) for number, k in zip((before, after), every, strict=True))
    return ERRORS * math.sqrt(variance) / before


def changes_of_shares(before: Mapping[str, float], after: Mapping[str, float]) -> dict[str, float]:
    """The change of each share of the whole. Half the sum of their sizes is the part of the whole that moved."""
    totals = sum(before.values()), sum(after.values())
    names = {**before, **after}
    return {name: after.get(name, 0) / totals[1] - before.get(name, 0) / totals[0] for name in names}


def moved_limit(before: Mapping[str, float], after: Mapping[str, float], sizes: tuple[float, float]) -> float:
    """The total variation distance that two samples of these sizes may have by chance: its mean (at most half the sum
    of the standard errors of the shares), and what it may exceed its mean by (McDiarmid's inequality).
    """
    noise = 1 / sizes[0] + 1 / sizes[1]
    whole = sum(before.values()) + sum(after.values())
    shares = [(before.get(name, 0) + after.get(name, 0)) / whole for name in {**before, **after}]
    mean = 0.5 * sum(math.sqrt(share * (1 - share) * noise) for share in shares)
    return mean + math.sqrt(math.log(1 / CHANCE) / 2 * noise)
