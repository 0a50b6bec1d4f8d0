"""Counts the requests of this process to object stores, and their price.

A retry counts as another request. Retries inside obstore (of one part of a multipart upload) are not visible and do not
count.
"""

import os
import threading
from collections.abc import Mapping

from gristmill.errors import UserError

KINDS = ("gets", "puts", "heads", "lists", "deletes", "retries", "bytes_fetched", "bytes_sent")
"""Their names in the cost of a task. A multipart upload counts one put for each part, one for its start and one for its
end; `retries` counts requests that were sent again.
"""

USD_PER_THOUSAND_WRITES = 0.005
"""PUT, COPY, POST and LIST of S3 Standard, us-east-1: https://aws.amazon.com/s3/pricing, November 2026. Google's
Standard (operations of class A) is the same."""
USD_PER_THOUSAND_READS = 0.0004
"""GET, HEAD and all others, from the same page. Deleting is free, and so are bytes between machines of the region."""
PRICES = "GRISTMILL_REQUEST_PRICES"
"""The variable that overrides both prices: USD for 1,000 writes and for 1,000 reads (`0.0055,0.00044`)."""

_lock = threading.Lock()
_counts = dict.fromkeys(KINDS, 0)


def count(**more: int) -> None:
    with _lock:
        for kind, number in more.items():
            _counts[kind] += number


def counted() -> dict[str, int]:
    """All counts so far."""
    with _lock:
        return dict(_counts)


def since(before: Mapping[str, int]) -> dict[str, int]:
    """The counts since `before`, without zeros, so that a run on a disk has none."""
    return {kind: number - before[kind] for kind, number in counted().items() if number > before[kind]}


def requests_of(cost: Mapping[str, float]) -> int:
    """The number of requests in a cost."""
    return int(sum(cost.get(kind, 0) for kind in ("gets", "puts", "heads", "lists", "deletes")))


def usd_of(cost: Mapping[str, float]) -> float:
    """The price of the requests in a cost, in USD."""
    writes, reads = _prices()
    return (
        (cost.get("puts", 0) + cost.get("lists", 0)) * writes + (cost.get("gets", 0) + cost.get("heads", 0)) * reads
    ) / 1000


def _prices() -> tuple[float, float]:
    given = os.environ.get(PRICES)
    if not given:
        return USD_PER_THOUSAND_WRITES, USD_PER_THOUSAND_READS
    try:
        writes, reads = (float(price) for price in given.split(","))
    except ValueError:
        raise UserError(
            f"{PRICES} is {given!r}, but must be two numbers: the price in USD of 1,000 writes and of 1,000 reads, "
            f"such as {USD_PER_THOUSAND_WRITES},{USD_PER_THOUSAND_READS}. Correct it, or unset it."
        ) from None
    return writes, reads
