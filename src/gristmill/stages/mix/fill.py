"""Two pieces of exact arithmetic: shares under caps, and whole samples for fractions of them."""

from collections.abc import Mapping
from fractions import Fraction

Rational = int | Fraction

_ONE = 1 << 64
"""Quotas are cut to 2^-64 of a sample: sums of fractions with a thousand denominators are of no use to anyone."""


def fill(weights: Mapping[str, Rational], caps: Mapping[str, Rational], amount: Rational) -> dict[str, Fraction]:
    """x = min(cap, level * weight) for the one level at which the sum is `amount`; the caps must hold that much.

    Water-filling, as UniMax does with equal weights (Chung et al. 2023): what a cap takes from one goes to those that
    have room, by their weights. Weights are above 0.
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
    """Samples of each group for its tokens, by largest remainders, ties by name; at least one in all.

    `density` has (tokens, samples) of each group. A quota that is a whole number is met exactly, and no other is off
    by a sample or more.
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
