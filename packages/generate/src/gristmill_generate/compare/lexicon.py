"""What is known about words: numbers, months, units, negations, opposites, and the frequent words of languages."""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal, NamedTuple

from gristmill.data_files import read_table
from gristmill.stages.measure.stop_words import STOP_WORDS

_TABLES = read_table(__file__, "lexicon.toml")
LEAKS = [phrase if phrase[0] in "[<#作" else rf"\b(?:{phrase})" for phrase in _TABLES["leaks"]["phrases"]]
"""What a model says about its task, as regular expressions; those that begin with a letter match whole words."""
LANGUAGES = ("en", "de", *sorted(set(STOP_WORDS) - {"en", "de"}))[:64]
"""The languages that can be recognised."""
ENGLISH, GERMAN = 0, 1
_NONE = "-"


class NumberWord(NamedTuple):
    """A word that is a number, or a part of one."""

    kind: Literal["value", "hundred", "power", "letter"]
    """A letter is a power of ten after an amount: `5k`."""
    value: int
    """The value up to 90, or the power of ten."""
    is_ordinal: bool = False


@dataclass(slots=True, eq=False)
class WordTraits:
    """What is known about a word, or about a symbol."""

    is_stop: bool = False
    """A word without content."""
    is_common: bool = False
    """An ordinary English word."""
    is_negation: bool = False
    is_and: bool = False
    is_of: bool = False
    ends_ordinal: bool = False
    """The letters after a number: `3rd`."""
    is_short: bool = False
    """A short form of a month or weekday."""
    is_meridiem: bool = False
    """`am`, `pm`; the two parts of `a.m.` are its head and its tail."""
    is_meridiem_head: bool = False
    is_meridiem_tail: bool = False
    number: NumberWord | None = None
    month: int = 0
    weekday: int = 0
    unit: int = 0
    """The number of the unit; all its spellings have the same."""
    is_currency: bool = False
    """Whether the unit may also be before its number."""
    opposite: int = 0
    """The number of a pair of opposites."""
    side: int = 0
    """Which of the two it is."""
    languages: tuple[int, ...] = ()
    """Those in which it is a frequent word, by their place in LANGUAGES."""


UNKNOWN = WordTraits()
"""The traits of words that are not in the lexicon."""
_FLAGS = {
    "stop": "is_stop",
    "negations": "is_negation",
    "and": "is_and",
    "of": "is_of",
    "ordinal_end": "ends_ordinal",
    "meridiem": "is_meridiem",
    "meridiem_head": "is_meridiem_head",
    "meridiem_tail": "is_meridiem_tail",
}


@cache
def lexicon() -> dict[str, WordTraits]:
    """The traits by word, in lower case. If two entries of a word disagree, the first one wins."""
    traits: dict[str, WordTraits] = defaultdict(WordTraits)
    for word, flag in _flags():
        setattr(traits[word], flag, True)
    for word, number in _numbers():
        traits[word].number = traits[word].number or number
    for word, month, weekday in _dates():
        if not traits[word].month and not traits[word].weekday:
            traits[word].month, traits[word].weekday = month, weekday
    for word, unit, is_currency in _units():
        if not traits[word].unit:
            traits[word].unit, traits[word].is_currency = unit, is_currency
    for word, pair, side in _opposites():
        if not traits[word].opposite:
            traits[word].opposite, traits[word].side = pair, side
    for place, language in enumerate(LANGUAGES):
        for word in _TABLES["english"].split() if language == "en" else STOP_WORDS[language]:
            traits[word].languages += (place,)
    return dict(traits)


def _flags() -> Iterator[tuple[str, str]]:
    for table, flag in _FLAGS.items():
        yield from ((word, flag) for word in _TABLES[table].split())
    lines = Path(__file__).with_name("common_words.txt").read_text("utf-8").splitlines()
    yield from ((word, "is_common") for line in lines[1:] for word in line.split())
    yield from ((word, "is_stop") for words in STOP_WORDS.values() for word in words)
    for table in ("months", "weekdays"):
        for name in ("short", "shorter"):
            yield from ((word, "is_short") for word in _TABLES[table][name].split() if word != _NONE)


def _numbers() -> Iterator[tuple[str, NumberWord]]:
    numbers = _TABLES["numbers"]
    for name, is_ordinal in (("unit_ordinals", True), ("units", False)):
        yield from ((word, NumberWord("value", value, is_ordinal)) for value, word in enumerate(numbers[name].split()))
    for name, is_ordinal in (("ten_ordinals", True), ("tens", False)):
        tens = enumerate(numbers[name].split(), 2)
        yield from ((word, NumberWord("value", 10 * value, is_ordinal)) for value, word in tens)
    yield from ((word, NumberWord("hundred", 2)) for word in numbers["hundred"].split())
    kinds: tuple[tuple[str, Literal["power", "letter"]], ...] = (("scales", "power"), ("letters", "letter"))
    for name, kind in kinds:
        for power, words in numbers[name].items():
            yield from ((word, NumberWord(kind, int(power))) for word in words.split())


def _dates() -> Iterator[tuple[str, int, int]]:
    """Words with the number of their month and of their weekday."""
    for words in _TABLES["months"].values():
        yield from ((word, number, 0) for number, word in enumerate(words.split(), 1) if word != _NONE)
    for words in _TABLES["weekdays"].values():
        yield from ((word, 0, number) for number, word in enumerate(words.split(), 1) if word != _NONE)


def _units() -> Iterator[tuple[str, int, bool]]:
    spellings = [words for units in _TABLES["units"].values() for words in units]
    for number, words in enumerate(spellings, 1):
        yield from ((word, number, words.startswith("!")) for word in words.lstrip("!").split())


def _opposites() -> Iterator[tuple[str, int, int]]:
    for number, pair in enumerate(_TABLES["opposites"], 1):
        for side, words in enumerate(pair.split()):
            yield from ((word, number, side) for word in words.split("/"))
