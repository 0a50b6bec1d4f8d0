"""Replacements for findings: a placeholder, a mask, or a pseudonym.

Each depends only on the type and the value and, for pseudonyms, on a key: never on the order of documents or on their
other content. The step does not find its own replacements, so a second scrub changes nothing.

A pseudonym has the form of what it replaces, but no owner: an e-mail address below `.invalid`, an IP address of a
private or documentation range, a phone number without a country, a key with EXAMPLE in it.
"""

import hashlib
import hmac
import ipaddress
import re
from collections.abc import Callable
from typing import Literal, NamedTuple

from gristmill.kernels.text.unicode_data import known
from gristmill.stages.scrub.finding import PiiSpan
from gristmill.stages.scrub.secrets import MARK

Action = Literal["placeholder", "mask", "pseudonym"]

_LOWER, _UPPER, _DIGITS = "abcdefghijklmnopqrstuvwxyz", "ABCDEFGHIJKLMNOPQRSTUVWXYZ", "0123456789"


class Replacer(NamedTuple):
    actions: dict[str, Action]
    placeholders: dict[str, str]
    key: bytes | None

    def replace(self, found: PiiSpan, written: bytes) -> bytes:
        action = self.actions[found.type]
        if action == "placeholder":
            return self.placeholders[found.type].encode()
        if action == "mask":
            return masked(written)
        return pseudonym(found, written.decode("utf-8", "replace"), self.key or b"").encode()


def masked(written: bytes) -> bytes:
    """Replaces every letter and digit by `*`, and every character that is newer than our tables; separators stay."""
    text = written.decode("utf-8", "replace")
    return "".join("*" if char.isalnum() or known(char) != char else char for char in text).encode()


class _Draw:
    """A sequence of numbers from a key and a value: 768 bits, more than any form needs."""

    def __init__(self, key: bytes, found: PiiSpan) -> None:
        seed = hmac.new(key, f"{found.type}\n{found.value}".encode(), hashlib.sha256).digest()
        self._number = int.from_bytes(seed + hashlib.sha512(seed).digest(), "big")

    def below(self, bound: int) -> int:
        self._number, drawn = divmod(self._number, bound)
        return drawn

    def of(self, alphabet: str, count: int) -> str:
        return "".join(alphabet[self.below(len(alphabet))] for _ in range(count))


def pseudonym(found: PiiSpan, written: str, key: bytes) -> str:
    return _FORMS[found.type](_Draw(key, found), written)


def _email(draw: _Draw, written: str) -> str:
    return f"{draw.of(_LOWER, 1)}{draw.of(_LOWER + _DIGITS, 9)}@{draw.of(_LOWER, 6)}.invalid"


def _ip(draw: _Draw, written: str) -> str:
    if ":" in written:
        return str(ipaddress.IPv6Address(0x20010DB8 << 96 | draw.below(1 << 96)))
    return str(ipaddress.IPv4Address(10 << 24 | draw.below(1 << 24)))


def _phone(draw: _Draw, written: str) -> str:
    """No country has 999, and no number begins with 000."""
    count = sum(char.isdigit() for char in written)
    digits = iter(("999" if written.lstrip("(").startswith("+") else "000") + draw.of(_DIGITS, count))
    return re.sub(r"\d", lambda _: next(digits), written)


def _secret(draw: _Draw, written: str) -> str:
    """The prefix up to the first separator, which most issuers have, and its length up to 64."""
    begun = re.match(r"-----BEGIN [A-Z0-9 ]*-----", written)
    if begun:
        ended = begun[0].replace("BEGIN", "END")
        return f"{begun[0]}\n{MARK}{draw.of(_UPPER + _LOWER + _DIGITS, 57)}\n{ended}"
    prefix = re.match(r"[A-Za-z0-9]{2,8}[_-]|AKIA|ASIA|AIza|SG\.", written)
    start = prefix[0] if prefix and len(written) >= 20 else ""
    size = min(max(len(written) - len(start) - len(MARK), 6), 64)
    return start + MARK + draw.of(_UPPER + _DIGITS, size)


_FORMS: dict[str, Callable[[_Draw, str], str]] = {"email": _email, "ip": _ip, "phone": _phone, "secret": _secret}
WITH_PSEUDONYM = frozenset(_FORMS)
"""Types that have a form without an owner."""
