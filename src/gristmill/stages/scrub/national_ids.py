"""National identity, tax and social security numbers of 26 countries.

Each has its form and its check, but for most, one number in ten or eleven passes by chance. So a bare run of digits
also needs a word that says what it is, or the punctuation of its country (`123.456.789-09`).
"""

import re
from collections.abc import Callable, Iterator
from typing import NamedTuple

from gristmill.data_files import read_table
from gristmill.stages.scrub.finding import ContextWords, PiiSpan, digits_of, is_near, same_length, words
from gristmill.stages.scrub.national_checks import CHECKS, uk_nino

_TABLES = read_table(__file__, "national_ids.toml")


class IdRule(NamedTuple):
    """How a number is written, when it is valid, and which words go with it."""

    digits: tuple[int, ...]
    """How many digits it may have."""
    form: re.Pattern[bytes]
    """`(?P<own>...)` is the punctuation of its country."""
    is_valid: Callable[[str], bool]
    """Checks its digits and capitals, without separators."""
    about: ContextWords


def _rules(kind: str) -> tuple[IdRule, ...]:
    """The rules of a table, in its order."""
    return tuple(
        IdRule(
            tuple(rule.get("digits", ())),
            re.compile(rule["form"].encode()),
            CHECKS[name],
            words(*_TABLES["about"][name]),
        )
        for name, rule in _TABLES[kind].items()
    )


NUMBERS, _CODED = _rules("numbers"), _rules("coded")
_BY_DIGITS = {count: [rule for rule in NUMBERS if count in rule.digits] for count in range(7, 19)}
_NINO = re.compile(rb"(?<![A-Za-z0-9])([A-CEGHJ-PR-TW-Z]{2} \d\d \d\d \d\d [A-D])(?![A-Za-z0-9])")
_MOST_BYTES = 48
_PIECE = re.compile(rb"[^ ]{7,}")


def find_number(text: bytes, start: int, stop: int) -> Iterator[PiiSpan]:
    """Ids that are groups of digits, with at most one letter at the end."""
    if stop - start > _MOST_BYTES:
        return
    run = same_length(text[start:stop])
    if len(run) == 8 and start >= 3:
        spaced = _NINO.match(text, start - 3)
        if spaced and uk_nino(spaced[1].decode().replace(" ", "")):
            yield PiiSpan(start - 3, spaced.end(), "national_id", spaced[1].decode().replace(" ", ""))
            return
    for place, piece in [(0, run), *((one.start(), one[0]) for one in _PIECE.finditer(run) if len(one[0]) < len(run))]:
        for rule in _BY_DIGITS.get(len(digits_of(piece)), ()):
            yield from _found(rule, text, start + place, piece)


def find_coded(text: bytes, start: int, stop: int) -> Iterator[PiiSpan]:
    """Ids of capitals and digits."""
    for rule in _CODED:
        yield from _found(rule, text, start, text[start:stop])


def is_id(value: str) -> bool:
    """Whether digits and capitals without separators are a valid id of some country."""
    if value.isdigit():
        return any(rule.is_valid(value) for rule in _BY_DIGITS.get(len(value), ()))
    return any(rule.form.fullmatch(value.encode()) and rule.is_valid(value) for rule in _CODED)


def _found(rule: IdRule, text: bytes, start: int, run: bytes) -> Iterator[PiiSpan]:
    if found := rule.form.fullmatch(run):
        value = re.sub(rb"[^0-9A-Z]", b"", found[0]).decode()
        if value.startswith("000") or not rule.is_valid(value):
            return
        begin, stop = start + found.start(), start + found.end()
        own = "own" in rule.form.groupindex and found["own"] is not None
        if own or is_near(text, begin, stop, rule.about, 48, 20):
            yield PiiSpan(begin, stop, "national_id", value)
