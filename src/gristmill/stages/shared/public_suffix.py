"""The registered domain of a host: the label that somebody registered and the public suffix below which he did.

The public suffix list (publicsuffix.org) comes with the library `publicsuffixlist`, whose version is the list's date;
nothing is fetched. Both sections count, so `one.github.io` and `two.github.io` are two domains, as they are two owners.
"""

from functools import lru_cache
from typing import TYPE_CHECKING

import pyarrow as pa

if TYPE_CHECKING:
    from publicsuffixlist import PublicSuffixList

LIBRARIES = ("publicsuffixlist",)
_MOST_KEPT = 1 << 16  # hosts that the next batch will most likely ask for again; some 10 MB


def registered_domains(hosts: pa.Array) -> pa.Array:
    """The registered domain of each host, lower-case ASCII; the host where it has none (`localhost`, `com`, addresses).

    The library is asked once for each distinct host; a null stays null.
    """
    distinct = hosts.dictionary_encode()
    domains = pa.array([registered_domain(host) for host in distinct.dictionary.to_pylist()], pa.string())
    return domains.take(distinct.indices)


@lru_cache(maxsize=_MOST_KEPT)
def registered_domain(host: str) -> str:
    """The same for one host."""
    last = host.rpartition(".")[2]
    if host.startswith("[") or last.isdigit():
        return host
    whole = host.rpartition("..")[2].removeprefix(".")  # an empty label ends what the list can know: `..mill.org`
    return _suffixes().privatesuffix(whole, keep_case=True) or host


def is_below_suffix(host: str) -> bool:
    """Whether all that lies below a host has the registered domain of the host: it is an address, or has an owner."""
    return host.startswith("[") or host.rpartition(".")[2].isdigit() or _suffixes().privatesuffix(host) is not None


@lru_cache(maxsize=1 << 12)
def has_suffix(domain: str) -> bool:
    """Whether a domain, in lower case, ends in a public suffix of the list, so that somebody may have it."""
    return _suffixes().publicsuffix(domain, accept_unknown=False) is not None


@lru_cache(maxsize=1)
def _suffixes() -> "PublicSuffixList":
    """Reading the list takes a tenth of a second, so only who asks for a domain pays."""
    from publicsuffixlist import PublicSuffixList

    return PublicSuffixList()
