"""Student's t distribution: tail probabilities and quantiles."""

import math
from functools import cache

_STEPS = 200


def two_sided(t: float, degrees: float) -> float:
    """The probability that |T| is at least t: the regularised incomplete beta function I(d / (d + t²); d/2, 1/2)."""
    return _incomplete_beta(degrees / (degrees + t * t), degrees / 2, 0.5) if t else 1.0


@cache
def quantile(alpha: float, degrees: float) -> float:
    """The t that |T| exceeds with probability alpha."""
    low, high = 0.0, 1.0
    while two_sided(high, degrees) > alpha:
        low, high = high, 2 * high
    for _ in range(_STEPS):
        middle = (low + high) / 2
        low, high = (middle, high) if two_sided(middle, degrees) > alpha else (low, middle)
    return high


def _incomplete_beta(x: float, a: float, b: float) -> float:
    """The regularised incomplete beta function, by its continued fraction (Lentz) or its mirror image."""
    if x <= 0 or x >= 1:
        return float(x >= 1)
    if x > (a + 1) / (a + b + 2):
        return 1 - _incomplete_beta(1 - x, b, a)
    front = math.exp(math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log1p(-x)) / a
    tiny = 1e-300
    c, d = 1.0, 1 / (1 - (a + b) * x / (a + 1))
    total = d
    for m in range(1, _STEPS):
        for term in (
            m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m)),
            -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1)),
        ):
            d = 1 / (1 + term * d or tiny)
            c = 1 + term / c or tiny
            total *= c * d
        if abs(c * d - 1) < 1e-14:
            break
    return front * total
