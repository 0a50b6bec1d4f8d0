"""API keys, tokens and private keys, by the formats that their issuers publish.

A key has a prefix, an alphabet and a length, and looks random: `ghp_xxxx...`, `AKIAIOSFODNN7EXAMPLE` and names of
variables that begin like a key are kept. Tokens of GitHub and npm carry a CRC-32 of themselves: a correct one decides
alone, and without it a token must look more random.
"""

import base64
import json
import math
import re
import zlib
from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

from gristmill.data_files import read_table
from gristmill.stages.scrub.finding import PiiSpan, is_near, words

_DIGITS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"


class Issuer(NamedTuple):
    """How the keys of an issuer are written: a prefix, and a pattern for the rest."""

    prefix: str
    rest: str


FORMS = tuple(
    Issuer(prefix, form["rest"])
    for form in read_table(__file__, "secrets.toml")["forms"]
    for prefix in form["prefixes"]
)
JWT = "eyJ"
MARK = "EXAMPLE"
"""In every pseudonym of a secret; nothing that contains it counts as a secret."""
PREFIXES = (*(form.prefix.encode() for form in FORMS), JWT.encode())

_ENDS = r"(?![A-Za-z0-9_])"
_FORMS = re.compile("|".join(f"{re.escape(form.prefix)}(?:{form.rest}){_ENDS}" for form in FORMS).encode())
_JWT = re.compile(rb"(eyJ[A-Za-z0-9_-]{8,2000})\.(eyJ[A-Za-z0-9_-]{4,6000})\.([A-Za-z0-9_-]{0,1000})(?![A-Za-z0-9_-])")
_CHECKED = re.compile(r"(?:gh[pousr]|npm)_([A-Za-z0-9]{30})([A-Za-z0-9]{6})")
_UNCHECKED_BITS = 4.2
"""The same for a token with a wrong checksum: 36 random characters have 4.6 on average, those of words fewer."""
_MIN_BITS = 3.0
"""The fewest bits of entropy per character of a key."""
_PLACEHOLDER = re.compile(
    r"EXAMPLE|example|xxxx|XXXX|\*\*\*|0{8}|12345678|abcdef(?:gh|12)|ABCDEFGH|(?i:your|dummy|fake|insert|placeholder"
    r"|passw[o0]rd|change.?me|replace.?me|redacted)"
)

_ABOUT_AWS = words(
    "aws", "secret_access_key", "secretaccesskey", "aws_secret_access_key", "aws_secret_key", "secret access key"
)
_AWS_SECRET = re.compile(rb"(?<![A-Za-z0-9/+=])[A-Za-z0-9/+]{40}(?![A-Za-z0-9/+=])")
_AWS_ID = re.compile(rb"(?:AKIA|ASIA)[A-Z2-7]{16}")
_BESIDE = (b"aws", b"secret", b"accesskey", b"accountkey", b"hooks.slack", b"akia", b"asia", b":aa")
_JOINED = f"{_DIGITS}+/=_:-".encode()
_MIN_BESIDE = 40
"""Bytes of such a key, including what is joined to it."""
_ACCOUNT_KEY = re.compile(rb"(?i)(?:AccountKey|SharedAccessKey)\s{0,2}=\s{0,2}([A-Za-z0-9+/]{43,86}==?)")
_TELEGRAM = re.compile(rb"(?<![\w])\d{8,10}:AA[A-Za-z0-9_-]{33}(?![\w-])")
_HOOK = re.compile(rb"hooks\.slack\.com/services/(T[A-Z0-9]{8,12}/B[A-Z0-9]{8,12}/[A-Za-z0-9]{24})(?!\w)")
_BEGIN = re.compile(rb"-----BEGIN (?:[A-Z0-9]+ ){0,4}PRIVATE KEY(?: BLOCK)?-----")
_END = re.compile(rb"-----END (?:[A-Z0-9]+ ){0,4}PRIVATE KEY(?: BLOCK)?-----")
_BODY = re.compile(rb"(?:[A-Za-z0-9+/=\s\"',]++|\\[nr])*+")
_MOST_KEY = 1 << 14
"""Bytes of a private key that may hold anything: one of 16,384 bits has 12,700. Later bytes must look like a key."""


def entropy(text: str) -> float:
    """Bits per character, by the characters' own frequencies."""
    return -sum(count / len(text) * math.log2(count / len(text)) for count in Counter(text).values())


def find_token(text: bytes, start: int) -> Iterator[PiiSpan]:
    """The key that begins at `start`."""
    if start and (text[start - 1 : start].isalnum() or text[start - 1 : start] == b"_"):
        return
    found = _FORMS.match(text, start, start + 1300)
    if found is not None:
        value = found[0].decode()
        if _is_real(value):
            yield PiiSpan(start, found.end(), "secret", value)
        return
    if text.startswith(JWT.encode(), start) and (token := _JWT.match(text, start)) and _has_header(token[1]):
        yield PiiSpan(start, token.end(), "secret", token[0].decode())


def _is_real(value: str) -> bool:
    checked = _CHECKED.fullmatch(value)
    if checked is not None and _base62(zlib.crc32(checked[1].encode())) == checked[2]:
        return MARK not in value
    if checked is not None and entropy(value[4:]) < _UNCHECKED_BITS:
        return False
    prefix = max((form.prefix for form in FORMS if value.startswith(form.prefix)), key=len)
    rest = value[len(prefix) :]
    return _looks_random(rest)


def _looks_random(rest: str) -> bool:
    floor = _MIN_BITS if len(rest) > 20 else 2.5
    return not _PLACEHOLDER.search(rest) and entropy(rest) >= min(floor, math.log2(len(rest)) - 1)


def _base62(number: int) -> str:
    digits = ""
    for _ in range(6):
        number, digit = divmod(number, 62)
        digits = _DIGITS[digit] + digits
    return digits


def _has_header(part: bytes) -> bool:
    """Whether it is the header of a JSON Web Token: an object that names an algorithm."""
    try:
        header = json.loads(base64.urlsafe_b64decode(part + b"=" * (-len(part) % 4)))
    except ValueError:
        return False
    return isinstance(header, dict) and ("alg" in header or "enc" in header)


def find_beside(text: bytes, start: int, stop: int) -> Iterator[PiiSpan]:
    """Keys without a prefix, recognised by the text around the word at [start, stop)."""
    low, high = max(0, start - 100), min(len(text), stop + 100)
    before, after = text[low:start], text[stop:high]
    joined = high - low - len(before.rstrip(_JOINED)) - len(after.lstrip(_JOINED))
    if joined < _MIN_BESIDE or not any(map(text[low:high].lower().__contains__, _BESIDE)):
        return
    for found in _AWS_SECRET.finditer(text, low, high):
        if found.start() <= start < found.end():
            about = is_near(text, found.start(), found.end(), _ABOUT_AWS, 64) or _AWS_ID.search(
                text, max(0, found.start() - 120), found.end() + 120
            )
            value = found[0].decode()
            if about and entropy(value) >= 4 and not _PLACEHOLDER.search(value):
                yield PiiSpan(found.start(), found.end(), "secret", value)
    for pattern in (_ACCOUNT_KEY, _HOOK):
        for found in pattern.finditer(text, low, high):
            if found.start() <= start < found.end() and _looks_random(found[1].decode()):
                yield PiiSpan(found.start(1), found.end(1), "secret", found[1].decode())
    for found in _TELEGRAM.finditer(text, low, high):
        if found.start() <= start < found.end():
            yield PiiSpan(found.start(), found.end(), "secret", found[0].decode())


def find_private_key(text: bytes, start: int) -> Iterator[PiiSpan]:
    """The whole block; without an end, the part that looks like a key."""
    begun = _BEGIN.match(text, start)
    if begun is None:
        return
    after, most = text.find(b"-----", begun.end()), start + _MOST_KEY
    if after > most and not _BODY.fullmatch(text, most, after):
        after = -1
    ended = _END.match(text, after) if after >= 0 else None
    body = text[begun.end() : after if after >= 0 else most]
    key_body = _BODY.match(body)
    stop = ended.end() if ended else begun.end() + (len(key_body[0].rstrip()) if key_body else 0)
    content = re.sub(rb"[^A-Za-z0-9+/]", b"", body).decode()
    if len(content) < 40 or (entropy(content) < 4 and len(set(content)) < 20) or b"EXAMPLE" in body:
        return
    yield PiiSpan(start, stop, "secret", content)
