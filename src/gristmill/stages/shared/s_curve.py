"""Similarity thresholds, and the S-curve: the probability that two documents of a similarity become candidates."""

from typing import Annotated

from pydantic import AfterValidator, Field

from gristmill.hints import hint
from gristmill.kernels.dedup.sketch import ratio_of

_POINTS = (0.5, 0.6, 0.65, 0.7, 0.75, 0.8, 0.85, 0.9, 0.95)
_WIDTH = 20


def _exact(threshold: float) -> float:
    """Comparisons use an exact fraction of integers, not the nearest double."""
    ratio_of(threshold)
    return threshold


Similarity = Annotated[float, Field(gt=0, le=1), AfterValidator(_exact)]


def probability(similarity: float, bands: int, rows: int) -> float:
    """The probability that two sketches agree in at least one band."""
    return float(1 - (1 - similarity**rows) ** bands)


def halfway(bands: int, rows: int) -> float:
    """The similarity at which half of all pairs are candidates."""
    return float((1 - 0.5 ** (1 / bands)) ** (1 / rows))


def curve_in_short(bands: int, rows: int, threshold: float) -> list[str]:
    """Where the curve rises, and its value at the threshold of verification."""
    return [
        f"half of the pairs with Jaccard {halfway(bands, rows):.2f} are compared,",
        f"{probability(threshold, bands, rows):.2%} with {threshold:g} (verify_jaccard){hint('curve')}",
    ]


def curve_lines(bands: int, rows: int, threshold: float) -> list[str]:
    """The curve as text, with the threshold of verification marked."""
    lines = [
        f"{bands} bands x {rows} rows = {bands * rows} hashes",
        f"Jaccard   compared   (and linked from {threshold:g} on, by exact sets)",
    ]
    for similarity in sorted({*_POINTS, threshold}):
        chance = probability(similarity, bands, rows)
        bar = "#" * round(_WIDTH * chance)
        mark = "  <- verify_jaccard" if similarity == threshold else ""
        lines.append(f"{similarity:7.2f}   {100 * chance:7.2f}%   {bar}{mark}")
    return lines
