"""Cuts a text into tokens: words, numbers, addresses and symbols, each with what the comparison needs to know about it.

A word is letters, digits and marks, with apostrophes inside; its key has no case and no possessive `'s`. A letter of a
script such as Chinese is a word. The key of a number is its value, whatever the marks between its digits: `1,500` and
`1500.0` are equal. The characters are those of Gristmill's Unicode version, whichever Python runs.

    The mill's 1.5k   ->   word the, word mill, number (15, -1), word k
"""

import re
from dataclasses import dataclass
from functools import cache
from itertools import product
from typing import Any, Literal, NamedTuple

import numpy as np

from gristmill.kernels.text.unicode_classes import LETTER, SPACE, TERMINAL, UNIT, UPPER, WORD, unicode_tables
from gristmill_generate.compare.lexicon import UNKNOWN, WordTraits, lexicon

WORD_BYTES = 64
"""Longer words are compared as they are written."""
STEM_CHARACTERS = 5

Number = tuple[str, int]
"""The digits without zeros at either end, and the power of ten; ("", 0) is zero."""
Key = str | Number


class Date(NamedTuple):
    """A date, or the parts of one that a text states; 0 for the others."""

    year: int = 0
    month: int = 0
    day: int = 0
    weekday: int = 0
    is_short: bool = False
    """Whether the weekday is written in its short form."""


@dataclass(slots=True, eq=False)
class TextToken:
    kind: Literal["word", "number", "address", "symbol"]
    key: Key
    traits: WordTraits = UNKNOWN
    size: int = 0
    """Characters of a word; digits of a number without other marks."""
    value: int = -1
    """Of a number of at most four digits."""
    start: int = 0
    """In bytes of the text."""
    stop: int = 0
    date: Date | None = None
    """Of a number that is a whole date: `4.5.2021`."""
    is_spaced: bool = False
    """Whether white space is before it; or a line end; or an empty line."""
    begins_line: bool = False
    begins_paragraph: bool = False
    begins_sentence: bool = False
    """Whether it is the first word or number of a sentence, or after a mark such as a quote or a colon."""
    is_capital: bool = False
    has_digit: bool = False
    may_have_thousands: bool = False
    """Whether its dot may separate thousands: `1.234`."""
    ends_sentence: bool = False

    @property
    def stem(self) -> Any:
        return (
            self.key
            if isinstance(self.key, tuple) or len(self.key.encode()) > WORD_BYTES
            else self.key[:STEM_CHARACTERS]
        )

    @property
    def is_content(self) -> bool:
        """Whether it is a word with content."""
        return self.kind == "word" and self.size >= 3 and not self.traits.is_stop and not self.traits.is_negation

    def is_symbol(self, characters: str) -> bool:
        """Whether it is one of these symbols."""
        return self.kind == "symbol" and self.key in characters  # type: ignore[operator]


class _Patterns(NamedTuple):
    token: re.Pattern[str]
    capital: re.Pattern[str]
    terminal: re.Pattern[str]
    address: re.Pattern[str]
    lower: dict[int, int]
    """The code point of the lower case, by code point."""


@cache
def _patterns() -> _Patterns:
    """Patterns of the character classes, which takes a tenth of a second, once in a process."""
    tables = unicode_tables()
    bits, changes = _flat(tables.pages, tables.classes), _flat(tables.lower_pages, tables.lowers)
    is_alone = bits & UNIT > 0
    word, alone = _class((bits & WORD > 0) & ~is_alone), _class((bits & WORD > 0) & is_alone)
    letter, space = _class((bits & LETTER > 0) & ~is_alone), _class(bits & SPACE > 0)
    possessive = f"['’][sS](?![{word}{alone}])"
    tokens = (
        f"(?P<space>[{space}]+)",
        "(?P<number>[0-9])",
        f"(?P<alone>[{alone}])",
        f"(?P<word>[{word}]+(?:(?!{possessive})['’][{letter}][{word}]*)*)(?:{possessive})?",
        "(?P<symbol>.)",
    )
    changed = np.flatnonzero(changes)
    return _Patterns(
        re.compile("|".join(tokens), re.DOTALL),
        re.compile(f"[{_class(bits & UPPER > 0)}]"),
        re.compile(f"[{_class(bits & TERMINAL > 0)}]"),
        re.compile(rf"[^{space}\x00-\x1f<>\"'`()\[\]{{}}|\\”»]*"),
        {ord("’"): ord("'")} | dict(zip(changed.tolist(), (changed + changes[changed]).tolist(), strict=True)),
    )


def _flat(pages: Any, values: Any) -> Any:
    """The value of each code point, from a table of two levels (unicode_classes.py)."""
    return values[(pages.astype(np.int64)[:, None] << 8) + np.arange(256)].ravel()


def _class(is_in: Any) -> str:
    """These code points, as ranges of a character class."""
    points = np.flatnonzero(is_in)
    starts, stops = points[np.diff(points, prepend=-2) != 1], points[np.diff(points, append=-2) != 1]
    return "".join(f"\\U{start:08x}-\\U{stop:08x}" for start, stop in zip(starts.tolist(), stops.tolist(), strict=True))


def tokens_of(text: str) -> list[TextToken]:
    """The tokens of a text, in order."""
    patterns, tokens = _patterns(), list[TextToken]()
    index = offset = 0
    begins_sentence = is_spaced = begins_line = begins_paragraph = True
    while (match := patterns.token.match(text, index)) is not None:
        kind, start, index = match.lastgroup, index, match.end()
        if kind == "space":
            lines = match[0].count("\n")
            begins_paragraph |= lines > 1
            begins_line |= lines > 0
            begins_sentence |= lines > 0
            is_spaced = True
            offset += len(match[0].encode())
            continue
        if kind == "number":
            token, index = _number(text, start)
        elif kind == "symbol":
            token = _symbol(match[0], patterns)
        elif text.startswith("://", index):
            token, index = _address(text, index + 3, index, patterns, has_scheme=True)
        elif match[0] in _WWW and text.startswith(".", index) and index + 1 < len(text):
            token, index = _address(text, start, index, patterns, has_scheme=False)
        else:
            token = _word(match["alone"] or match["word"], patterns)
        if kind == "symbol":
            begins_sentence = begins_sentence or not token.is_symbol(",-/&'%$")
        else:
            token.begins_sentence, begins_sentence = begins_sentence, False
        token.start, token.stop = offset, offset + len(text[start:index].encode())
        token.is_spaced, token.begins_line, token.begins_paragraph = is_spaced, begins_line, begins_paragraph
        is_spaced = begins_line = begins_paragraph = False
        offset = token.stop
        tokens.append(token)
    return tokens


_WWW = frozenset("".join(letters) for letters in product("wW", repeat=3))


def _symbol(character: str, patterns: _Patterns) -> TextToken:
    traits = lexicon().get(character, UNKNOWN)
    return TextToken("symbol", character, traits, ends_sentence=patterns.terminal.match(character) is not None)


def _word(written: str, patterns: _Patterns) -> TextToken:
    is_capital, has_digit = patterns.capital.match(written) is not None, _DIGIT.search(written) is not None
    size = len(written.encode())
    if size > WORD_BYTES:
        return TextToken("word", written, size=size, is_capital=is_capital, has_digit=has_digit)
    key = written.lower() if size == len(written) else written.translate(patterns.lower)
    traits = lexicon().get(key, UNKNOWN)
    return TextToken("word", key, traits, len(written), is_capital=is_capital, has_digit=has_digit)


def _address(text: str, start: int, least: int, patterns: _Patterns, *, has_scheme: bool) -> tuple[TextToken, int]:
    """The address whose name begins at `start`, and its end: marks at the end belong to the sentence."""
    match = patterns.address.match(text, start)
    assert match is not None
    stop = max(start + len(match[0].rstrip(".,;:!?*_/")), least)
    body = text[start:stop]
    has_www = not has_scheme or (len(body) > 4 and body[:4].lower() == "www.")
    return TextToken("address", body[4:] if has_www else body), max(stop, start)


_DIGIT = re.compile("[0-9]")
_CHAIN = re.compile(r"[0-9]+(?:\.[0-9]+){2,}")
_DATE = re.compile(r"([0-9]{1,2})\.([0-9]{1,2})\.([0-9]{4})")
_DOTTED_THOUSANDS = re.compile(r"[1-9][0-9]{0,2}(?:\.[0-9]{3}){2,}")
_DOTTED = re.compile(r"([0-9]+)\.([0-9]+)")
_THOUSANDS = re.compile(
    r"[1-9][0-9]{0,2}(?:,[0-9]{3}(?![0-9]))+(?:\.([0-9]+))?"
    "|[1-9][0-9]{0,2}(?:['\u00a0\u202f\u2009][0-9]{3}(?![0-9]))+(?:[.,]([0-9]+))?"
)
_DECIMAL_COMMA = re.compile(r"[0-9]+,([0-9]+)(?!,[0-9])(?![0-9])")
_AFTER_COMMA = re.compile(r",([0-9]+)")
_PLAIN = re.compile(r"[0-9]+")


def number_key(digits: str, decimals: int = 0) -> Number:
    """The key of a number with so many digits after its point."""
    stripped = digits.rstrip("0")
    return (stripped.lstrip("0"), len(digits) - len(stripped) - decimals) if stripped else ("", 0)


def _number(text: str, start: int) -> tuple[TextToken, int]:
    """The number at `start`, and its end."""
    if (chain := _CHAIN.match(text, start)) is not None and _DOTTED_THOUSANDS.fullmatch(chain[0]) is None:
        return _literal(chain[0]), chain.end()
    whole, may_have_thousands = chain or _DOTTED.match(text, start), False
    if whole is not None:
        first, _, rest = whole[0].partition(".")
        groups = chain is not None or (len(first) <= 3 and first[0] != "0" and len(rest) == 3)
        tail = _AFTER_COMMA.match(text, whole.end()) if groups else None
        stop = whole.end() if tail is None else tail.end()
        decimals = len(tail[1]) if tail is not None else 0 if chain is not None else len(rest)
        may_have_thousands = groups and tail is None and chain is None
    else:
        match = _THOUSANDS.match(text, start) or _DECIMAL_COMMA.match(text, start) or _PLAIN.match(text, start)
        assert match is not None
        stop, decimals = match.end(), len(next(filter(None, match.groups()), ""))
    written = text[start:stop]
    digits = "".join(_PLAIN.findall(written))
    token = TextToken("number", number_key(digits, decimals), may_have_thousands=may_have_thousands)
    if digits == written:
        token.size, token.value = len(digits), int(digits) if len(digits) <= 4 else -1
    return token, stop


def _literal(written: str) -> TextToken:
    """A number of several parts, such as a version or a date."""
    token = TextToken("number", written)
    if (match := _DATE.fullmatch(written)) is not None:
        day, month, year = map(int, match.groups())
        if 1 <= day <= 31 and 1 <= month <= 12 and 1000 <= year <= 2999:
            token.date = Date(year, month, day)
    return token
