"""Numbers of a mixture: as a user writes them, and exactly.

Decisions about samples are made in integers and fractions. A recipe's 0.62 means 62/100, not the binary number that is
nearest to it: so shares that sum to 1 on paper sum to 1 here, and no CPU rounds them in another way.
"""

from decimal import Context, Decimal
from fractions import Fraction
from typing import Annotated

from pydantic import Field

_DIGITS, _PLACES = 60, 30
"""Of a root: computed to so many digits, kept to so many places of 1. Python's decimals are integer arithmetic."""


def exact(number: float) -> Fraction:
    """The number as it was written: its shortest decimal text."""
    return Fraction(repr(number))


def root(number: Fraction, degree: Fraction) -> Fraction:
    """number^(1/degree) of a number from 0 to 1, to 30 decimal places."""
    if degree == 1 or number == 0:
        return number
    context = Context(prec=_DIGITS)
    base, power = (context.divide(Decimal(n.numerator), Decimal(n.denominator)) for n in (number, 1 / degree))
    return Fraction(round(Fraction(context.power(base, power)) * 10**_PLACES), 10**_PLACES)


Weight = Annotated[float, Field(ge=0, le=1e12, allow_inf_nan=False)]
"""A ratio or a multiplier; 0 leaves out."""
Positive = Annotated[float, Field(gt=0, le=1e12, allow_inf_nan=False)]
