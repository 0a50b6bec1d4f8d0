"""Exact arithmetic for mixtures: shares under caps, and rounding to whole samples."""

from collections.abc import Mapping
from fractions import Fraction

Rational = int | Fraction

_ONE = 1 << 64
"""Quotas are rounded to 2^-64 of a sample, since sums of fractions with many denominators get very slow."""


def fill(weights: Mapping[str, Rational], caps: Mapping[str, Rational], amount: Rational) -> dict[str, Fraction]:
    """x = min(cap, level * weight) for the one level at which the sum is `amount`, which the caps must allow.

    This is water-filling, which UniMax does with equal weights (Chung et al. 2023): what a cap takes from one goes to
    the others, by their weights, up to their caps. Weights are above 0.
    """
    filled: dict[str, Fraction] = {}
    left, weight_left = Fraction(amount), sum(weights.values(), Fraction(0))
    for name in sorted(weights, key=lambda name: (Fraction(caps[name]) / weights[name], name)):
        level = left / weight_left
        filled[name] = min(Fraction(caps[name]), level * weights[name])
        left -= filled[name]
        weight_left -= weights[name]
    return filled


def apportion(tokens: Mapping[str, Rational], density: Mapping[str, tuple[int, int]]) -> dict[str, int]:
    """Round the tokens of each group to samples, by largest remainders, ties by name; at least one sample in all.

    `density` has (tokens, samples) of each group. A quota that is a whole number is met exactly, and any other is off
    by less than a sample.
    """
    quotas = {}
    for name, wanted in tokens.items():
        held, samples = density[name]
        wanted = Fraction(wanted)
        quotas[name] = wanted.numerator * samples * _ONE // (wanted.denominator * held)
    counts = {name: quota // _ONE for name, quota in quotas.items()}
    total = max(1, (sum(quotas.values()) + _ONE // 2) // _ONE)
    rising = sorted(quotas, key=lambda name: (-(quotas[name] % _ONE), name))
    for name in rising[: total - sum(counts.values())]:
        counts[name] += 1
    return counts
