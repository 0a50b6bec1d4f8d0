"""National identity, tax and social security numbers of 26 countries.

Each has its form and its check, but for most, one number in ten or eleven passes by chance. So a bare run of digits
also needs a word that says what it is, or the punctuation of its country (`123.456.789-09`).
"""

import re
from collections.abc import Iterator
from typing import NamedTuple

from gristmill.data_files import read_table
from gristmill.stages.scrub.checksums import Check, check_of
from gristmill.stages.scrub.finding import ContextWords, PiiSpan, digits_of, is_near, same_length, words

_TABLES = read_table(__file__, "national_ids.toml")


class IdRule(NamedTuple):
    """How a number is written, when it is valid, and which words go with it."""

    digits: tuple[int, ...]
    """How many digits it may have."""
    form: re.Pattern[bytes]
    """`(?P<own>...)` is the punctuation of its country."""
    checks: tuple[Check, ...]
    about: ContextWords

    def is_valid(self, value: str) -> bool:
        """Checks digits and capitals without separators."""
        return not value.startswith("000") and len(set(value)) > 1 and all(check(value) for check in self.checks)


def _rules(kind: str) -> tuple[IdRule, ...]:
    """The rules of a table, in its order."""
    return tuple(
        IdRule(
            tuple(rule.get("digits", ())),
            re.compile(rule["form"].encode()),
            tuple(map(check_of, rule.get("check", ()))),
            words(*rule["about"]),
        )
        for rule in _TABLES[kind].values()
    )


NUMBERS, _CODED = _rules("numbers"), _rules("coded")
_BY_DIGITS = {count: [rule for rule in NUMBERS if count in rule.digits] for count in range(7, 19)}
_NINO = re.compile(rb"(?<![A-Za-z0-9])[A-Z]{2} \d\d \d\d \d\d [A-D](?![A-Za-z0-9])")
_MOST_BYTES = 48
_PIECE = re.compile(rb"[^ ]{7,}")


def find_number(text: bytes, start: int, stop: int) -> Iterator[PiiSpan]:
    """Ids that are groups of digits, with at most one letter at the end."""
    if stop - start > _MOST_BYTES:
        return
    run = same_length(text[start:stop])
    if len(run) == 8 and start >= 3:
        spaced = _NINO.match(text, start - 3)
        value = spaced[0].replace(b" ", b"") if spaced else b""
        if spaced and _CODED[0].form.fullmatch(value):
            yield PiiSpan(start - 3, spaced.end(), "national_id", value.decode())
            return
    for place, piece in [(0, run), *((one.start(), one[0]) for one in _PIECE.finditer(run) if len(one[0]) < len(run))]:
        for rule in _BY_DIGITS.get(len(digits_of(piece)), ()):
            yield from _found(rule, text, start + place, piece)


def find_coded(text: bytes, start: int, stop: int) -> Iterator[PiiSpan]:
    """Ids of capitals and digits."""
    for rule in _CODED:
        yield from _found(rule, text, start, text[start:stop])


def _found(rule: IdRule, text: bytes, start: int, run: bytes) -> Iterator[PiiSpan]:
    if found := rule.form.fullmatch(run):
        value = re.sub(rb"[^0-9A-Z]", b"", found[0]).decode()
        if not rule.is_valid(value):
            return
        begin, stop = start + found.start(), start + found.end()
        own = "own" in rule.form.groupindex and found["own"] is not None
        if own or is_near(text, begin, stop, rule.about, 48, 20):
            yield PiiSpan(begin, stop, "national_id", value)
