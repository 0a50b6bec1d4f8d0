"""Spans that are found in a text, and the search for words near them."""

import re
from collections.abc import Callable
from typing import Literal, NamedTuple, get_args

from gristmill.data_files import read_table

TABLES = read_table(__file__, "words.toml")

Type = Literal["email", "ip", "phone", "card", "iban", "national_id", "wallet", "secret"]
ALL: tuple[Type, ...] = get_args(Type)


class PiiSpan(NamedTuple):
    """A span of a text, in bytes, that is to be replaced."""

    start: int
    stop: int
    type: str
    value: str
    """Its normal form: the same for all spellings of a value."""


class ScannedText(NamedTuple):
    """A document, as finders see it."""

    data: bytes
    regions: Callable[[], tuple[str, ...]] = tuple
    """Returns the countries whose phone numbers may be written without a country code, the most likely first."""


class ContextWords(NamedTuple):
    """Words that show what a number is."""

    single: frozenset[bytes]
    phrases: dict[bytes, tuple[bytes, ...]]
    """Phrases of several words or signs, by the longest word of each."""
    other: tuple[bytes, ...]
    """Words with letters other than a to z: searched anywhere."""

    def __or__(self, more: "ContextWords") -> "ContextWords":
        keys = self.phrases.keys() | more.phrases.keys()
        phrases = {key: self.phrases.get(key, ()) + more.phrases.get(key, ()) for key in keys}
        return ContextWords(self.single | more.single, phrases, self.other + more.other)


_LETTERS = re.compile(rb"[a-z]+")


def words(*listed: str) -> ContextWords:
    """Matches any of these, in any case; a plain word must be a whole word."""
    single: set[bytes] = set()
    other: set[bytes] = set()
    phrases: dict[bytes, tuple[bytes, ...]] = {}
    for word in listed:
        plain = word.lower().encode()
        if not word.isascii():  # lower() on bytes only changes ASCII
            other |= {form.encode().lower() for form in (word.lower(), word.capitalize(), word.upper())}
        elif word.isalpha():
            single.add(plain)
        else:
            key = max(_LETTERS.findall(plain), key=len)
            phrases[key] = (*phrases.get(key, ()), plain)
    return ContextWords(frozenset(single), phrases, tuple(sorted(other)))


def is_near(text: bytes, start: int, stop: int, wanted: ContextWords, before: int = 48, after: int = 0) -> bool:
    """Whether one of the words is at most this many bytes before or after a span."""
    around = text[max(0, start - before) : start].lower()
    if after:
        around += b"\n" + text[stop : stop + after].lower()
    found_words = _LETTERS.findall(around)
    if not wanted.single.isdisjoint(found_words):
        return True
    for word in found_words:
        if word in wanted.phrases and any(map(around.__contains__, wanted.phrases[word])):
            return True
    return not around.isascii() and any(map(around.__contains__, wanted.other))


def same_length(data: bytes) -> bytes:
    """Numbers with plain spaces and dashes, with all bytes at the same offsets."""
    if data.isascii():
        return data
    data = data.replace(b"\xc2\xa0", b"  ").replace(b"\xe2\x80\xaf", b"   ")
    return re.sub(rb"\xe2\x80[\x90-\x93]", b"-  ", data)


_NO_DIGITS = bytes(set(range(256)) - set(b"0123456789"))


def digits_of(data: bytes) -> str:
    return data.translate(None, _NO_DIGITS).decode()
