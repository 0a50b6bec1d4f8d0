"""Shares with 95% intervals for documents that are not independent within a host.

Pages of one site are alike: a thousand removed pages of a site are not a thousand independent observations. So a share
is a ratio of sums over *clusters*: a host is one, and so is a document without a URL. Its variance is that of a ratio
estimator (Cochran, Sampling Techniques, 1977, 6.3), from the distance of each cluster to the overall share:

    p = sum(kept) / sum(all)        v = G / (G - 1) * sum((kept_h - p * all_h)^2) / sum(all)^2

The interval is Wilson's (1927) with the number of independent documents that would have that variance, p (1 - p) / v,
instead of the number of documents (but never more), and Student's t for G - 1 instead of the normal quantile (as in
Korn and Graubard, 1998). If all or none are kept, or there is one cluster, v cannot be estimated: then every host
counts as one document.

The same formulas are used for documents (each counts 1) and bytes (each counts its size).
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]

NORMAL = 1.959963984540054
"""The 97.5% quantile of the normal distribution."""
_STUDENT = (12.706205, 4.302653, 3.182446, 2.776445)
"""The 97.5% quantiles of Student's t for 1 to 4 degrees of freedom; beyond, a series is accurate to 0.0004."""


@dataclass(frozen=True)
class Share:
    """The share of documents, or of their bytes, that is kept."""

    kept: int
    all: int
    low: float
    high: float
    """The ends of the 95% interval."""
    independent: float
    """The equivalent number of independent documents."""

    @property
    def value(self) -> float:
        return self.kept / self.all if self.all else 0.0


def share_of(kept: Ints, whole: Ints, documents: int) -> Share:
    """The share over clusters, from the kept and total count of each; `documents` is the total number."""
    is_there = whole > 0
    kept, whole = kept[is_there], whole[is_there]
    part, total, clusters = int(kept.sum()), int(whole.sum()), len(whole)
    if not total:
        return Share(0, 0, 0.0, 1.0, 0.0)
    value = part / total
    sizes: Any = whole.astype(np.float64)
    far: Any = kept - value * sizes
    squares = float(far @ far)
    if part in (0, total) or clusters == 1 or squares <= 0.0:
        independent, quantile = float(clusters), NORMAL
    else:
        variance = clusters / (clusters - 1) * squares / total**2
        independent, quantile = value * (1 - value) / variance, student(clusters - 1)
    independent = min(independent, float(documents))
    return Share(part, total, *wilson(value, independent, quantile), independent)


def wilson(value: float, count: float, quantile: float = NORMAL) -> tuple[float, float]:
    """The interval of a share from `count` independent trials."""
    squared = quantile**2
    middle = (value + squared / (2 * count)) / (1 + squared / count)
    half = quantile / (1 + squared / count) * math.sqrt(value * (1 - value) / count + squared / (4 * count**2))
    low, high = max(0.0, middle - half), min(1.0, middle + half)
    return (0.0 if value == 0 else low), (1.0 if value == 1 else high)


def student(degrees: int) -> float:
    """The 97.5% quantile of Student's t (Abramowitz and Stegun 26.7.5)."""
    if degrees <= len(_STUDENT):
        return _STUDENT[degrees - 1]
    z = NORMAL
    terms = (
        (z**3 + z) / 4,
        (5 * z**5 + 16 * z**3 + 3 * z) / 96,
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
        (79 * z**9 + 776 * z**7 + 1482 * z**5 - 1920 * z**3 - 945 * z) / 92160,
    )
    return z + sum(term / float(degrees) ** power for power, term in enumerate(terms, 1))
