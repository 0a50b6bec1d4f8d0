"""Exact numbers of a mixture.

Decisions about samples use integers and fractions. 0.62 in a recipe means 62/100, not the nearest binary number.
Shares that sum to 1 on paper therefore sum to 1 here, and the result does not depend on the rounding of a CPU.
"""

from decimal import Context, Decimal
from fractions import Fraction
from typing import Annotated

from pydantic import Field

_DIGITS, _PLACES = 60, 30
"""A root is computed to _DIGITS digits and rounded to _PLACES decimal places. Python's decimals are exact integers."""


def exact(number: float) -> Fraction:
    """The number as the user wrote it: its shortest decimal text."""
    return Fraction(repr(number))


def root(number: Fraction, degree: Fraction) -> Fraction:
    """number^(1/degree), for a number from 0 to 1, to 30 decimal places."""
    if degree == 1 or number == 0:
        return number
    context = Context(prec=_DIGITS)
    base, power = (context.divide(Decimal(n.numerator), Decimal(n.denominator)) for n in (number, 1 / degree))
    return Fraction(round(Fraction(context.power(base, power)) * 10**_PLACES), 10**_PLACES)


Weight = Annotated[float, Field(ge=0, le=1e12, allow_inf_nan=False)]
"""A ratio or a multiplier; 0 means that nothing is drawn."""
Positive = Annotated[float, Field(gt=0, le=1e12, allow_inf_nan=False)]
