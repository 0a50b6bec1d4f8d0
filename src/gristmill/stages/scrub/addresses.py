"""IP addresses.

Private, loopback, link-local, documentation, multicast and reserved ranges are kept. The nearest hint word before four
numbers on their line decides: after `Version` they are a version, after `host` an address. A version word with its own
number (`version 3.2 runs at`) does not count. Four small numbers (1.2.3.4) are only an address next to an address word.
Other lines do not count.
"""

import ipaddress
import re
from collections.abc import Iterator

from gristmill.stages.scrub.finding import PiiSpan, same_length

_QUAD = re.compile(rb"(?<![\w.])(\d{1,3})\.(\d{1,3})\.(\d{1,3})\.(\d{1,3})(?!\w|\.\w|-[A-Za-z])")
_SMALL = 32
"""Most numbers of versions and sections are smaller."""
_SECTION = 100
_RESOLVERS = ([8, 8, 8, 8], [8, 8, 4, 4], [9, 9, 9, 9])
"""Small numbers that are always an address."""
_ABOUT = (
    "[a-z]*ip|ips|ipv4|[a-z]*ip(?:v4)?addr(?:ess)?|address(?:es)?|addr|hosts?|server|client|ping|dns|port|nameserver"
    "|resolver|gateway|router|proxy|remote|visitor|peer|subnet|connect(?:ed|ion)?|login|logged|dirección|adress[ea]"
    "|adresa|indirizzo|endereço"
)
_VERSIONED = (
    "[a-z]*versions?|ver|v|release[ds]?|rev|revision|build|changelog|sections?|sec|chapter|clause|table|figure|fig|oid"
    "|up(?:grade|date)d?|assembly|versión|versão|versione|wersja|appendix|annex|paragraph|article|rule|(driver|firmware"
    "|sdk|patch|package)"
)
_HINTS = re.compile(rf"(?<![a-z])(?:({_ABOUT})|{_VERSIONED})(?![a-z])".encode())
"""The first group: address words. Otherwise version and section words; the second group: things that have a sender."""
_SENT = re.compile(rb"\b(?:from|by|via)\W{1,3}$")
_USED = re.compile(
    r"\W{0,4}\d[a-z0-9.+-]*+(?:[\W\d_]|(?:and|or|to|through|until|und|bis|et|y|e)\b)*+[^\W\d_]|.*\b(?:at|on)\W{1,3}$"
)
"""After a version word: its own number and more words than a list of numbers has, or a word for a place."""
_PORT = re.compile(rb":\d{2,5}(?![\w.])")
_BEFORE, _AFTER = 40, 16
"""Bytes of the line in which a hint word counts."""
_NEVER = frozenset({0, 10, 127, *range(224, 256)})
"""First numbers of ranges that are not public: the frequent ones, for speed."""
_FOUR = re.compile(rb"\d{1,3}(?:\.\d{1,3}){3}")
_TO = re.compile(rb"-\d{1,3}(?:\.\d{1,3}){3}(?![\w.])")
_FROM = re.compile(rb"(?<![\w.])\d{1,3}(?:\.\d{1,3}){3}-$")
_FILE = re.compile(rb"\.(?:tar|zip|gz|tgz|exe|msi|dll|so|jar|whl|deb|rpm|dmg|apk|nupkg|egg|pkg)\b", re.IGNORECASE)


def find_ipv4(text: bytes, start: int, stop: int) -> Iterator[PiiSpan]:
    for found in _QUAD.finditer(same_length(text[start:stop])):
        begin, end = start + found.start(), start + found.end()
        numbers = [int(one) for one in found.groups()]
        if max(numbers) > 255 or any(len(one) > 1 and one.startswith(b"0") for one in found.groups()):
            continue
        if numbers[0] in _NEVER or numbers[:2] == [192, 168] or _is_other(text, begin, end, numbers):
            continue
        address = ipaddress.IPv4Address(bytes(numbers))
        if is_public(address):
            yield PiiSpan(begin, end, "ip", str(address))


def is_quad(text: bytes, start: int, stop: int) -> bool:
    """Whether a span is four numbers with dots, and nothing else."""
    return _FOUR.fullmatch(text, start, stop) is not None


def _is_other(text: bytes, start: int, stop: int, numbers: list[int]) -> bool:
    """Whether it is rather a version, a section, or a part of a file name."""
    before, after = text[max(0, start - 2) : start], text[stop : stop + 2]
    ranged = _TO.match(text, stop) or _FROM.search(text, max(0, start - 16), start)  # 45.33.32.156-45.33.32.200
    if ranged:
        return max(numbers) < _SMALL
    if before[-1:].isalnum() or before[-1:] in (b"_", b"-", b"=", b"\\", b"^", b"~", b".", b"#", b"+", b"\xa7"):
        is_setting = before[-1:] == b"=" and before[:1] != b"="
        if not is_setting:
            return True
    if before[-1:] == b"/" and before[:1].isalnum():  # Chrome/115.0.0.0
        return True
    if after[:1] in (b"+", b"_", b"%") or (after[:1] in (b".", b"-") and after[1:2].isalnum()):
        return True
    if _FILE.match(text, stop, min(len(text), stop + 8)):
        return True
    headed = text.startswith((b". ", b".\xc2\xa0"), stop) and before[-1:] in (b"", b"\n")  # 43.7.3.1. Heading
    if headed and max(numbers) < _SECTION:
        return True
    about = text[max(0, start - 3) : start] == b"://" or _is_about_addresses(text, start, stop)
    if about is False and not _PORT.match(text, stop):
        return True
    if numbers[2] == numbers[3] == 0 and after[:1] != b"/":
        return not about
    marked = before[-1:] in (b"/", b"@") or (after[:1] in (b":", b"/") and after[1:].isdigit())  # a port, a network
    known = numbers in _RESOLVERS
    small = max(numbers) < _SMALL or (numbers[2] == 0 and numbers[3] < _SMALL)
    small |= max(numbers[:3]) < 10 and numbers[3] < _SECTION  # 8.2.4.45: two addresses in a million
    small |= numbers[:2] == [2, 5]  # 2.5.29.37: an object identifier of X.500
    return small and not about and not marked and not known


def _is_about_addresses(text: bytes, start: int, stop: int) -> bool | None:
    """Whether the nearest hint word of the line is about addresses; None: there is no hint word."""
    before = text[max(0, start - _BEFORE) : start].rpartition(b"\n")[2].lower()
    after = text[stop : stop + _AFTER].partition(b"\n")[0].lower()
    for found in [*_HINTS.finditer(before)][-1:]:
        if found[2] and _SENT.search(before, found.end()) and not after.startswith(b" to "):
            continue  # a package from that address
        if found[1] or not _USED.match(before[found.end() :].decode("utf-8", "ignore")):
            return found[1] is not None
    return any(found[1] for found in _HINTS.finditer(after)) or None


def is_public(address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> bool:
    return address.is_global and not address.is_multicast


def find_ipv6(text: bytes, start: int, stop: int) -> Iterator[PiiSpan]:
    written = text[start:stop]
    while written.endswith(b":") and not written.endswith(b"::"):
        written = written[:-1]
    if len(written) < 6 or text[start + len(written) : start + len(written) + 1].isalnum():
        return
    if written[:1] not in b"23" or len(written.partition(b":")[0]) != 4:  # all public ones are in 2000::/3
        return
    if b"." in text[start + len(written) : start + len(written) + 1] and text[stop + 1 : stop + 2].isdigit():
        return
    if written.endswith(b"::") and text[start + len(written) : start + len(written) + 1] == b"/":  # a network
        return
    try:
        address = ipaddress.IPv6Address(written.decode())
    except ValueError:
        return
    if is_public(address):
        yield PiiSpan(start, start + len(written), "ip", str(address))
