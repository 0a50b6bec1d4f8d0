"""Payment cards and IBANs: numbers with checksums and known prefixes."""

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

from gristmill.stages.scrub.checksums import luhn, mod_97
from gristmill.stages.scrub.finding import TABLES, PiiSpan, digits_of, is_near, same_length, words

_CARD = re.compile(
    rb"(?<![\d.])(?<!\d[-/])(?:\d{13,19}|\d{4}([ -]{1,3})\d{4}\1\d{4}\1\d{4}(?P<more>\1\d{3})?"
    rb"|\d{4}([ -]{1,3})\d{6}\3\d{4,5})(?!\d|\.\d|-\d)"
)
_ISSUERS = re.compile(
    r"4(?:\d{12}|\d{15}|\d{18})"  # Visa
    r"|(?:5[1-5]|222[1-9]|22[3-9]\d|2[3-6]\d\d|27[01]\d|2720)\d+"  # Mastercard, 16 in all
    r"|3[47]\d{13}"  # American Express
    r"|3(?:0[0-5]|[689]\d)\d{11}"  # Diners Club
    r"|(?:6011|65\d\d|64[4-9]\d|622\d)\d{12}"  # Discover, and UnionPay with it
    r"|62\d{14,17}"  # UnionPay
    r"|35(?:2[89]|[3-8]\d)\d{12}"  # JCB
    r"|(?:5018|5020|5038|5893|6304|6759|676[123])\d{9,15}"  # Maestro
    r"|220[0-4]\d{12}"  # Mir
    r"|(?:508[5-9]|6069|607\d|6521|6522)\d{12}"  # RuPay
    r"|(?:4011|4312|4389|4514|4576|5041|5066|5067|509\d|6277|6362|6363|650\d|6516|6550)\d{12}"  # Elo
)
_GROUP = re.compile(rb"\d+")
_SIXTEEN = re.compile(r"5[1-5]|2[2-7]")
_BEFORE, _AFTER = 64, 32
"""The largest distance in bytes to a word about cards, or to another card."""
ABOUT_CARDS = words(*TABLES["about_cards"])

LENGTHS = {pair[:2]: int(pair[2:]) for pair in TABLES["iban_lengths"].split()}
"""Characters of an IBAN by country."""
_IBAN = re.compile(rb"[A-Z]{2}\d\d(?:[ -]{0,3}[A-Z0-9]){11,30}")


class CardCandidate(NamedTuple):
    """A number that may be a card."""

    card: PiiSpan
    clear: bool
    """Whether its groups show that; otherwise a word or another card must be near it."""


def find_card(text: bytes, start: int, stop: int) -> Iterator[CardCandidate]:
    """Checks Luhn and an issuer's prefix and length, from any group of digits on: cards occur in lists with numbers."""
    run = same_length(text[start:stop])
    at = 0
    while found := _CARD.search(run, at):
        begin, end = found.span()
        digits = digits_of(found[0])
        if found["more"] and not _is_card(digits) and run[end - len(found["more"])] == 32:  # a CVC after it
            digits, end = digits[:-3], end - len(found["more"])
        if _is_card(digits):
            after_digits = run[begin - 1 : begin] == b" " and run[begin - 2 : begin - 1].isdigit()
            clear = end - begin > len(digits) and not after_digits
            yield CardCandidate(PiiSpan(start + begin, start + end, "card", digits), clear)
            at = end
        else:
            at = _GROUP.match(run, begin).end()  # type: ignore[union-attr]


@lru_cache(maxsize=1 << 12)
def _is_card(digits: str) -> bool:
    if not _ISSUERS.fullmatch(digits) or (_SIXTEEN.match(digits) and len(digits) != 16):
        return False
    return luhn(digits) and len(set(digits)) > 1


def of_cards(text: bytes, shown: list[CardCandidate]) -> Iterator[PiiSpan]:
    """Cards that are clear, or near a word or such a card. One number in ten passes Luhn by chance."""
    reach, unclear = -_BEFORE - 1, list[PiiSpan]()
    for card, clear in shown:
        if clear or card.start - reach <= _BEFORE or is_near(text, card.start, card.stop, ABOUT_CARDS, _BEFORE, _AFTER):
            reach, after = card.stop, card.start
            yield card
            while unclear and after - unclear[-1].stop <= _AFTER:
                after = unclear[-1].start
                yield unclear.pop()
            unclear.clear()
        else:
            unclear.append(card)


def find_iban(text: bytes, start: int) -> Iterator[PiiSpan]:
    """The IBAN that begins at `start`, in groups or not."""
    if start and (text[start - 1 : start].isalnum() or text[start - 1 : start] == b"_"):
        return
    length = LENGTHS.get(text[start : start + 2].decode(), 0)
    found = _IBAN.match(same_length(text[start : start + 80])) if length else None
    if found is None:
        return
    characters = 0
    for place, byte in enumerate(found[0]):
        characters += byte not in b" -"
        if characters == length:
            end = start + place + 1
            value = bytes(one for one in found[0][: place + 1] if one not in b" -").decode()
            if not text[end : end + 1].isalnum() and mod_97(value):
                yield PiiSpan(start, end, "iban", value)
            return
