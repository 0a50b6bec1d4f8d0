"""The registered domain of a host: the label that its owner registered, and the public suffix after it.

The public suffix list (publicsuffix.org) is part of the library `publicsuffixlist`, whose version is the list's date;
nothing is downloaded. Both sections count, so `one.github.io` and `two.github.io` are two domains, since they have two
owners.
"""

from functools import lru_cache
from typing import TYPE_CHECKING

import pyarrow as pa

from gristmill.stages.shared.urls import is_address

if TYPE_CHECKING:
    from publicsuffixlist import PublicSuffixList

LIBRARIES = ("publicsuffixlist",)
_MOST_KEPT = 1 << 16  # hosts that the next batch will probably need again; about 10 MB


def registered_domains(hosts: pa.Array) -> pa.Array:
    """The registered domain of each host, lower-case ASCII; the host itself if it has none (`localhost`, `com`,
    addresses).

    Each distinct host is looked up once; a null stays null.
    """
    distinct = hosts.dictionary_encode()
    domains = pa.array([registered_domain(host) for host in distinct.dictionary.to_pylist()], pa.string())
    return domains.take(distinct.indices)


@lru_cache(maxsize=_MOST_KEPT)
def registered_domain(host: str) -> str:
    """The registered domain of one host."""
    if is_address(host):
        return host
    whole = host.rpartition("..")[2].removeprefix(".")  # an empty label ends what the list can know: `..mill.org`
    return _suffixes().privatesuffix(whole, keep_case=True) or host


def is_below_suffix(host: str) -> bool:
    """Whether everything below a host has the host's registered domain: it is an address, or has an owner."""
    return is_address(host) or _suffixes().privatesuffix(host) is not None


@lru_cache(maxsize=1 << 12)
def has_suffix(domain: str) -> bool:
    """Whether a domain, in lower case, ends in a public suffix of the list, so that it can exist."""
    return _suffixes().publicsuffix(domain, accept_unknown=False) is not None


@lru_cache(maxsize=1)
def _suffixes() -> "PublicSuffixList":
    """Loaded on first use, since reading the list takes a tenth of a second."""
    from publicsuffixlist import PublicSuffixList

    return PublicSuffixList()
