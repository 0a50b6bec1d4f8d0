"""What is found in a text, and looking around."""

import re
from collections.abc import Callable
from typing import Literal, NamedTuple, get_args

from gristmill.data_files import read_table

TABLES = read_table(__file__, "words.toml")

Type = Literal[
    "email",
    "ip",
    "phone",
    "card",
    "iban",
    "national_id",
    "wallet",
    "secret",
    "mac",
    "imei",
    "generic_secret",
    "name",
]
ALL: tuple[Type, ...] = get_args(Type)
TYPES, OPTIONS = ALL[:8], ALL[8:]
"""Those that are looked for where nothing else is asked for, and those that must be named."""


class Finding(NamedTuple):
    """A stretch of a text, in bytes, that is to be replaced."""

    start: int
    stop: int
    type: str
    value: str
    """Its normal form: the same for one value however it is written."""


class Document(NamedTuple):
    """A document, as finders see it."""

    data: bytes
    regions: Callable[[], tuple[str, ...]] = tuple
    """Gives the countries whose phone numbers may be written without a country code, the likeliest first."""


class Words(NamedTuple):
    """Words that say what a number is."""

    single: frozenset[bytes]
    phrases: dict[bytes, tuple[bytes, ...]]
    """Of several words or signs, by the longest word in each."""
    other: tuple[bytes, ...]
    """With other letters than a to z: looked for anywhere."""

    def __or__(self, more: "Words") -> "Words":
        keys = self.phrases.keys() | more.phrases.keys()
        phrases = {key: self.phrases.get(key, ()) + more.phrases.get(key, ()) for key in keys}
        return Words(self.single | more.single, phrases, self.other + more.other)


_LETTERS = re.compile(rb"[a-z]+")


def words(*listed: str) -> Words:
    """Any of these, in any case; a plain word stands by itself."""
    single: set[bytes] = set()
    other: set[bytes] = set()
    phrases: dict[bytes, tuple[bytes, ...]] = {}
    for word in listed:
        plain = word.lower().encode()
        if not word.isascii():  # bytes keep the case of what is not ASCII
            other |= {form.encode().lower() for form in (word.lower(), word.capitalize(), word.upper())}
        elif word.isalpha():
            single.add(plain)
        else:
            key = max(_LETTERS.findall(plain), key=len)
            phrases[key] = (*phrases.get(key, ()), plain)
    return Words(frozenset(single), phrases, tuple(sorted(other)))


def is_near(text: bytes, start: int, stop: int, wanted: Words, before: int = 48, after: int = 0) -> bool:
    """Whether one of the words stands at most so many bytes before or after a stretch."""
    around = text[max(0, start - before) : start].lower()
    if after:
        around += b"\n" + text[stop : stop + after].lower()
    seen = _LETTERS.findall(around)
    if not wanted.single.isdisjoint(seen):
        return True
    for word in seen:
        if word in wanted.phrases and any(map(around.__contains__, wanted.phrases[word])):
            return True
    return not around.isascii() and any(map(around.__contains__, wanted.other))


def same_length(data: bytes) -> bytes:
    """Numbers with plain spaces and dashes, byte for byte at the same places."""
    if data.isascii():
        return data
    data = data.replace(b"\xc2\xa0", b"  ").replace(b"\xe2\x80\xaf", b"   ")
    return re.sub(rb"\xe2\x80[\x90-\x93]", b"-  ", data)


_NO_DIGITS = bytes(set(range(256)) - set(b"0123456789"))


def digits_of(data: bytes) -> str:
    return data.translate(None, _NO_DIGITS).decode()
