"""Builds the lexicon of `faithful` from its word lists: numbers, months, units, negations, opposites, languages."""

from collections.abc import Iterator, Sequence
from functools import lru_cache
from pathlib import Path

import numpy as np

from gristmill.data_files import read_table
from gristmill.kernels.faithful.lexicon import (
    ABBREVIATION,
    AND,
    COMMON,
    CURRENCY,
    DATES_AT,
    FILTER_BITS,
    HUNDRED,
    MERIDIEM,
    MERIDIEM_HEAD,
    MERIDIEM_TAIL,
    NEGATION,
    NUMBERS_AT,
    OF,
    OPPOSITES_AT,
    ORDINAL,
    ORDINAL_END,
    SCALE,
    SHORT_SCALE,
    STOP,
    SYMBOLS,
    UNITS_AT,
    VOTES,
    WEEKDAY,
    Lexicon,
)
from gristmill.kernels.faithful.word_keys import word_key
from gristmill.kernels.signals.terms import hash_set
from gristmill.stages.measure.stop_words import STOP_WORDS

_TABLES = read_table(__file__, "faithful.toml")
LEAKS: Sequence[str] = [one if one[0] in "[<#作" else rf"\b(?:{one})" for one in _TABLES["leaks"]["phrases"]]
"""What a model says about its task, as regular expressions; those that begin with a letter match whole words."""
LANGUAGES = ("en", "de", *sorted(set(STOP_WORDS) - {"en", "de"}))[:64]
"""The languages that can be recognised; the kernel knows the first two by their places."""
_NONE = "-"


def _flags() -> Iterator[tuple[str, int]]:
    lists = {
        "stop": STOP,
        "negations": NEGATION,
        "and": AND,
        "of": OF,
        "ordinal_end": ORDINAL_END,
        "meridiem": MERIDIEM,
        "meridiem_head": MERIDIEM_HEAD,
        "meridiem_tail": MERIDIEM_TAIL,
    }
    for name, flag in lists.items():
        yield from ((word, flag) for word in _TABLES[name].split())
    lines = Path(__file__).with_name("common_words.txt").read_text("utf-8").splitlines()
    yield from ((word, COMMON) for line in lines[1:] for word in line.split())
    yield from ((word, STOP) for words in STOP_WORDS.values() for word in words)
    for table in ("months", "weekdays"):
        for name in ("short", "shorter"):
            yield from ((word, ABBREVIATION) for word in _TABLES[table][name].split() if word != _NONE)


def _numbers() -> Iterator[tuple[str, int]]:
    numbers = _TABLES["numbers"]
    for name, ordinal in (("unit_ordinals", ORDINAL), ("units", 0)):
        yield from ((word, value + 1 + ordinal) for value, word in enumerate(numbers[name].split()))
    for name, ordinal in (("ten_ordinals", ORDINAL), ("tens", 0)):
        yield from ((word, 10 * value + 1 + ordinal) for value, word in enumerate(numbers[name].split(), 2))
    yield from ((word, HUNDRED) for word in numbers["hundred"].split())
    for name, code in (("scales", SCALE), ("letters", SHORT_SCALE)):
        yield from ((word, code + int(power)) for power, words in numbers[name].items() for word in words.split())


def _dates() -> Iterator[tuple[str, int]]:
    for table, offset in (("months", 0), ("weekdays", WEEKDAY)):
        for words in _TABLES[table].values():
            yield from ((word, offset + place) for place, word in enumerate(words.split(), 1) if word != _NONE)


def _units() -> Iterator[tuple[str, int]]:
    spellings = [words for units in _TABLES["units"].values() for words in units]
    for number, words in enumerate(spellings, 1):
        sign = -1 if words.startswith("!") else 1
        yield from ((word, sign * number) for word in words.lstrip("!").split())


def _opposites() -> Iterator[tuple[str, int]]:
    for number, pair in enumerate(_TABLES["opposites"], 1):
        for side, words in enumerate(pair.split()):
            yield from ((word, 2 * number + side) for word in words.split("/"))


@lru_cache(maxsize=1)
def lexicon() -> Lexicon:
    """The lexicon, as read-only arrays. If two entries of a word disagree, the first one wins."""
    traits: dict[str, int] = {}
    for word, flag in _flags():
        traits[word] = traits.get(word, 0) | flag
    units: dict[str, int] = {}
    for word, unit in _units():
        units.setdefault(word, unit)
    signed = ((word, abs(unit) | (CURRENCY >> UNITS_AT if unit < 0 else 0)) for word, unit in units.items())
    tables = ((_numbers(), NUMBERS_AT), (_dates(), DATES_AT), (signed, UNITS_AT), (_opposites(), OPPOSITES_AT))
    for entries, place in tables:
        seen: set[str] = set()
        for word, value in entries:
            if word not in seen:
                traits[word] = traits.get(word, 0) | value << place
                seen.add(word)
    languages: dict[str, int] = {}
    for place, language in enumerate(LANGUAGES):
        for word in _TABLES["english"].split() if language == "en" else STOP_WORDS[language]:
            languages[word] = languages.get(word, 0) | 1 << place
            traits[word] = traits.get(word, 0) | VOTES
    by_key = {word_key(word): word for word in traits}
    keys = hash_set(set(by_key))
    pairs, masks = np.zeros((len(keys) + 1, 2), np.uint64), np.zeros(len(keys), np.uint64)
    bits = np.zeros(1 << FILTER_BITS, np.bool_)
    bits[[key >> 64 - FILTER_BITS for key in by_key]] = True
    for place, key in enumerate(keys.tolist()):
        if key:
            pairs[place], masks[place] = (key, traits[by_key[key]]), languages.get(by_key[key], 0)
    symbols = np.zeros(SYMBOLS, np.int32)
    for word, unit in units.items():
        if len(word) == 1 and not word.isalnum():
            symbols[ord(word)] = unit
    arrays = (pairs.reshape(-1), np.packbits(bits, bitorder="little"), masks, symbols)
    for array in arrays:
        array.setflags(write=False)
    return Lexicon(*arrays, np.uint64(len(keys) - 1))
