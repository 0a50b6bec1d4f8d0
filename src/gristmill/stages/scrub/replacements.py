"""Replacements for findings: a placeholder, a mask, or a pseudonym.

Each depends only on the type and the value and, for pseudonyms, on a key: never on the order of documents or on their
other content. The step does not find its own replacements, so a second scrub changes nothing.

A pseudonym has the form of what it replaces, but no owner: an e-mail address below `.invalid`, an IP address of a
private or documentation range, a card without an issuer, a phone number without a country.
"""

import hashlib
import hmac
import ipaddress
import re
from collections.abc import Callable
from typing import Literal, NamedTuple

from gristmill.kernels.text.unicode_data import known
from gristmill.stages.scrub.finding import PiiSpan
from gristmill.stages.scrub.names import MARK as MARK_OF_NAMES
from gristmill.stages.scrub.national_ids import is_id
from gristmill.stages.scrub.secrets import MARK

Action = Literal["placeholder", "mask", "pseudonym"]

_BASE58 = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"
_BECH32 = "qpzry9x8gf2tvdw0s3jn54khce6mua7l"
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
    """An endless sequence of numbers from a key and a value."""

    def __init__(self, key: bytes, found: PiiSpan) -> None:
        self._seed = hmac.new(key, f"{found.type}\n{found.value}".encode(), hashlib.sha256).digest()
        self._number = int.from_bytes(self._seed + hashlib.sha512(self._seed).digest(), "big")
        self._times = 0

    def below(self, bound: int) -> int:
        if self._number < bound << 64:
            self._times += 1
            more = hashlib.sha512(self._seed + self._times.to_bytes(4, "big")).digest()
            self._number = self._number << 512 | int.from_bytes(more, "big")
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


def _in_form(digits: str, written: str) -> str:
    """Replaces the digits in `written`, as long as there are new ones."""
    rest = iter(digits)
    return re.sub(r"\d", lambda one: next(rest, one[0]), written)


def _count(written: str) -> int:
    return sum(char.isdigit() for char in written)


def _phone(draw: _Draw, written: str) -> str:
    """No country has 999, and no number begins with 000."""
    return _in_form(
        ("999" if written.lstrip("(").startswith("+") else "000") + draw.of(_DIGITS, _count(written)), written
    )


def _card(draw: _Draw, written: str) -> str:
    """Begins with 01, which no issuer and no country has, and ends with the Luhn check digit."""
    digits = "01" + draw.of(_DIGITS, _count(written) - 3)
    doubled = sum((0, 2, 4, 6, 8, 1, 3, 5, 7, 9)[int(digit)] for digit in digits[-1::-2])
    return _in_form(digits + str(-(doubled + sum(map(int, digits[-2::-2]))) % 10), written)


def _iban(draw: _Draw, written: str) -> str:
    """An IBAN of the country ZZ, which does not exist. It has no digits that could be a card."""
    body = draw.of(_UPPER, sum(char.isalnum() for char in written) - 4)
    value = f"ZZ{98 - int(''.join(str(int(char, 36)) for char in body + 'ZZ00')) % 97:02}{body}"
    rest = iter(value)
    return "".join(next(rest) if char.isalnum() else char for char in written)


def _national_id(draw: _Draw, written: str) -> str:
    """Letters and digits at the same positions, valid nowhere.

    An id that begins with a digit begins with 000. Letters are I, Q, U and V: a British number does not begin with
    them, an Indian one does not have them as its fourth, nor an Italian one as its month.
    """
    kept = [char for char in written if char.isalnum()]
    while True:
        zeros = 3 if kept[0].isdigit() else 0
        value = "".join(draw.of(_DIGITS if char.isdigit() else "IQUV", 1) for char in kept)
        value = re.sub(r"\d", "0", value[:zeros]) + value[zeros:]
        if not is_id(value):
            rest = iter(value)
            return "".join(next(rest) if char.isalnum() else char for char in written)


def _wallet(draw: _Draw, written: str) -> str:
    if written.startswith("0x"):
        return "0x00000000" + draw.of("0123456789abcdef", 32)
    kept = 4 if written.islower() else 1  # bc1q, or the letter of a coin
    return written[:kept] + draw.of(_BECH32 if written.islower() else _BASE58, len(written) - kept)


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


def _name(draw: _Draw, written: str) -> str:
    return MARK_OF_NAMES + draw.of(_UPPER, 8)


_FORMS: dict[str, Callable[[_Draw, str], str]] = {
    "email": _email,
    "ip": _ip,
    "phone": _phone,
    "card": _card,
    "iban": _iban,
    "national_id": _national_id,
    "wallet": _wallet,
    "secret": _secret,
    "generic_secret": _secret,
    "name": _name,
}
