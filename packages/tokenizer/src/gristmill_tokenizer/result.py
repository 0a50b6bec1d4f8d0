"""Results of audit checks."""

from collections.abc import Sequence
from typing import NamedTuple


class Check(NamedTuple):
    """The result of one check."""

    name: str
    passed: bool
    detail: str
    judged: bool = True
    """False if the check does not apply, so that passing means nothing; `detail` has the reason."""


def result(name: str, faults: Sequence[str], otherwise: str, judged: bool = True) -> Check:
    """A failed check with the first fault and the number of others, or a passed check."""
    more = f" (and {len(faults) - 1:,} more)" if len(faults) > 1 else ""
    return Check(name, not faults, f"{faults[0]}{more}" if faults else otherwise, judged or bool(faults))
