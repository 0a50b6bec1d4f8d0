"""Builds the lexicon of `faithful` from its word lists: numbers, months, units, negations, opposites, languages."""

from collections.abc import Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from gristmill.data_files import read_table
from gristmill.kernels.faithful.facts import (
    ABBREVIATION,
    AND,
    COMMON,
    HUNDRED,
    MERIDIEM,
    MERIDIEM_HEAD,
    MERIDIEM_TAIL,
    NEGATION,
    OF,
    ORDINAL,
    ORDINAL_END,
    SCALE,
    SHORT_SCALE,
    STOP,
    WEEKDAY,
    Lexicon,
)
from gristmill.kernels.faithful.tokens import word_key
from gristmill.kernels.signals.terms import hash_set
from gristmill.stages.measure.stop_words import STOP_WORDS

_TABLES = read_table(__file__, "faithful.toml")
LEAKS: Sequence[str] = _TABLES["leaks"]["phrases"]
"""What a model says about its task, as regular expressions."""
LANGUAGES = ("en", "de", *sorted(set(STOP_WORDS) - {"en", "de"}))[:64]
"""The languages that can be recognised; the kernel knows the first two by their places."""
_SYMBOLS = 0x2100
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
    columns: list[dict[str, int]] = [{} for _ in range(6)]
    for word, flag in _flags():
        columns[0][word] = columns[0].get(word, 0) | flag
    for column, entries in zip(columns[1:5], (_numbers(), _dates(), _units(), _opposites()), strict=True):
        for word, value in entries:
            column.setdefault(word, value)
    for place, language in enumerate(LANGUAGES):
        for word in _TABLES["english"].split() if language == "en" else STOP_WORDS[language]:
            columns[5][word] = columns[5].get(word, 0) | 1 << place
    key_of = {word: word_key(word) for column in columns for word in column}
    keys = hash_set(set(key_of.values()))
    place_of = {int(key): place for place, key in enumerate(keys) if key}
    kinds = (np.int32,) * 5 + (np.uint64,)
    arrays: list[Any] = [np.zeros(len(keys), kind) for kind in kinds]
    for array, column in zip(arrays, columns, strict=True):
        for word, value in column.items():
            array[place_of[key_of[word]]] = value
    symbols = np.zeros(_SYMBOLS, np.int32)
    for word, unit in columns[3].items():
        if len(word) == 1 and not word.isalnum():
            symbols[ord(word)] = unit
    found = Lexicon._make([keys, *arrays, symbols])
    for array in found:
        array.setflags(write=False)
    return found
