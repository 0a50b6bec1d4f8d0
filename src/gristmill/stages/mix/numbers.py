"""Numbers of a mixture: as a user writes them, and exactly.

Decisions about samples are made in integers and fractions. A recipe's 0.62 means 62/100, not the binary number that is
nearest to it: so shares that sum to 1 on paper sum to 1 here, and no CPU rounds them in another way.
"""

import re
from decimal import Context, Decimal
from fractions import Fraction
from typing import Annotated, Any

from pydantic import BeforeValidator, Field

_SCALES = {"": 1, "K": 10**3, "M": 10**6, "B": 10**9, "G": 10**9, "T": 10**12}
_COUNT = re.compile(r"\s*([0-9][0-9_]*(?:\.[0-9]+)?(?:[eE]\+?[0-9]{1,3})?)\s*([A-Za-z]?)\s*")
_DIGITS, _PLACES = 60, 30
"""Of a root: computed to so many digits, kept to so many places of 1. Python's decimals are integer arithmetic."""


def exact(number: float) -> Fraction:
    """The number as it was written: its shortest decimal text."""
    return Fraction(repr(number))


def parse_count(value: Any) -> Any:
    """`100B`, `1.5T`, `2e9` or a plain number, as a whole number; what is neither text nor number is left alone."""
    if isinstance(value, bool) or not isinstance(value, str | float):
        return value
    text = repr(value) if isinstance(value, float) else value
    found = _COUNT.fullmatch(text)
    scale = _SCALES.get(found[2].upper()) if found else None
    if found is None or scale is None:
        raise ValueError(f"{value!r} is not a count; write a number, such as 2000000, 2e9, 100B or 1.5T (k, M, B, T)")
    number = Fraction(found[1].replace("_", "")) * scale
    if number.denominator != 1:
        raise ValueError(f"{value!r} is {float(number):g}, and a count is a whole number")
    return int(number)


def root(number: Fraction, degree: Fraction) -> Fraction:
    """number^(1/degree) of a number from 0 to 1, to 30 decimal places."""
    if degree == 1 or number == 0:
        return number
    context = Context(prec=_DIGITS)
    base, power = (context.divide(Decimal(n.numerator), Decimal(n.denominator)) for n in (number, 1 / degree))
    return Fraction(round(Fraction(context.power(base, power)) * 10**_PLACES), 10**_PLACES)


Count = Annotated[int, BeforeValidator(parse_count), Field(ge=1, le=10**18)]
"""A number of tokens or samples in a config."""
Weight = Annotated[float, Field(ge=0, le=1e12, allow_inf_nan=False)]
"""A ratio or a multiplier; 0 leaves out."""
Positive = Annotated[float, Field(gt=0, le=1e12, allow_inf_nan=False)]
