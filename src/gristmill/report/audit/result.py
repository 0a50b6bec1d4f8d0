"""The result of one check of an audit."""

from collections.abc import Sequence
from typing import NamedTuple


class Check(NamedTuple):
    """One result."""

    name: str
    passed: bool
    detail: str
    judged: bool = True
    """False: there was nothing to judge by, so that it passes says nothing; the detail says why."""


def result(name: str, faults: Sequence[str], otherwise: str, judged: bool = True) -> Check:
    """Failed with the first fault and how many there are, or passed."""
    more = f" (and {len(faults) - 1:,} more)" if len(faults) > 1 else ""
    return Check(name, not faults, f"{faults[0]}{more}" if faults else otherwise, judged or bool(faults))
