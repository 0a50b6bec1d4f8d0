"""Code of eval items as tokens, without its names, literals and layout (`kernels/decontaminate/tokens.py`).

A hit means that the tokens are equal when all names are treated as the same. `is_renamed` then checks that each name is
consistently renamed to one other name.
"""

import keyword
import re
from collections.abc import Mapping, Sequence, Set
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa

from gristmill.kernels.decontaminate.tokens import NAME, fill_kept, sums_of_tokens, word_hash
from gristmill.kernels.dedup.shingles import ROLL
from gristmill.kernels.text.unicode_data import known
from gristmill.stages.buffers import bytes_of
from gristmill.stages.decontaminate.matching.units import CODE, PROTECTED, Counted, Unit
from gristmill.stages.decontaminate.suite.suite import Item, Protection

Array = np.ndarray[Any, Any]

MIN_TOKENS = 8
"""Code with fewer tokens than a seed (`CODE_SEED`) is not searched for."""
MIN_SPECIFIC = 15
"""The least sum of tokens and of letters that a renamed copy keeps: `x += y; return x` is in any program."""
MIN_EDITED = 24
"""The least tokens of code that is found with edits; shorter code must agree in all tokens and literals."""
STEADY = 0.9
"""The least share of the names of a hit that are consistently renamed."""
ALIKE = 0.75
"""The least share of the tokens of a hit that are equal after renaming."""
_IMPORT = re.compile(r"(?m)^[ \t]*+(?:import|from)\b[^\n]*+\n?")
_NAMED = re.compile(r"(\.?)\b([A-Za-z]\w*+)")
_WORD = re.compile(r"\w*+")
_ASIDE = re.compile(
    r'"""[^"]*+(?:"(?!"")[^"]*+)*+"""|'
    r"'''[^']*+(?:'(?!'')[^']*+)*+'''"
    r'|"(?:[^"\\\n]|\\.)*+"|'
    r"'(?:[^'\\\n]|\\.)*+'|#[^\n]*+"
)
"""Strings and comments, which may differ in a copy."""
_NUMBER = re.compile(r"(?<![\w.])\d[\w.]*+")
_FILLED_IN = re.compile(r"\{[^{}]*+\}|[\\'\"]")
"""Parts of a string to ignore: f-string fields, quotes and backslashes, which can be written in several ways."""
_ELSEWHERE = 50
"""Assumed extra occurrences in prose of a word that also appears between words in code."""
_BUILT_IN = """
abs all any ascii bin bool bytearray bytes callable chr classmethod complex dict dir divmod enumerate eval exec filter
float format frozenset getattr hasattr hash hex id input int isinstance issubclass iter len list map max min next object
oct open ord pow print property range repr reversed round set setattr slice sorted staticmethod str sum super tuple type
vars zip self cls List Dict Tuple Set Optional Union Any Exception ValueError TypeError KeyError IndexError math
"""
_OTHER_LANGUAGES = """
abstract boolean catch const constexpr constructor elif endif enum explicit export extends extern finally foreach friend
function goto impl implements inline instanceof interface mut namespace null override private protected public return
sealed sizeof static struct switch synchronized template this throw throws transient typedef typename typeof undefined
unless unsigned using virtual void volatile yield console std cout endl System Math
"""
"""Only words that are never variable names: a variable that is kept as a word would not match in a renamed copy."""


def _kept_names() -> list[str]:
    return sorted({*keyword.kwlist, *_BUILT_IN.split(), *_OTHER_LANGUAGES.split()})


@lru_cache(maxsize=1)
def kept_words() -> Array:
    """The hash table of words that are kept as they are: keywords and built-in names."""
    hashes = np.array([word_hash(np.frombuffer(word.encode(), np.uint8)) for word in _kept_names()], np.uint64)
    table = np.zeros(2048, np.uint64)
    fill_kept(hashes, table)
    return table


def read_tokens(text: str) -> tuple[Array, Array]:
    """The tokens of a program, and the byte offset of each."""
    data, offsets = bytes_of(pa.array([text], pa.string()))
    begin, end = int(offsets[0]), int(offsets[1])
    sums, starts = np.zeros(end - begin + 2, np.uint64), np.empty(end - begin + 1, np.int64)
    count = sums_of_tokens(data, begin, end, kept_words(), sums, starts, 0)
    return sums[1 : count + 1] - sums[:count] * ROLL, starts[:count] - begin


def count_tokens(texts: Sequence[str]) -> Counted:
    found = [read_tokens(text)[0] for text in texts]
    starts = np.zeros(len(texts) + 1, np.int64)
    np.cumsum([len(one) for one in found], out=starts[1:])
    return Counted(starts, np.concatenate([*found, np.zeros(0, np.uint64)]))


def code_units(items: Sequence[Item], protections: Mapping[str, Protection]) -> list[Unit]:
    """The code of items, without imports, that has enough tokens."""
    units = [
        Unit(number, CODE, _IMPORT.sub("", text))
        for number, item in enumerate(items)
        if "code" in (protections[item.benchmark].protect or PROTECTED)
        for text in item.code
    ]
    sizes = count_tokens([unit.text for unit in units]).sizes()
    return [
        unit
        for unit, size in zip(units, sizes.tolist(), strict=True)
        if size >= MIN_TOKENS and size + _kept_letters(unit.text) >= MIN_SPECIFIC
    ]


def _kept_letters(text: str) -> int:
    """The number of letters and digits that a renamed copy keeps: those of attributes, built-in names and literals."""
    words = {found[2] for found in _lasting(_ASIDE.sub(" ", text), set(_kept_names()))}
    return sum(map(len, words.difference(keyword.kwlist, ("self", "cls")).union(literals_of(text))))


def literals_of(text: str) -> list[str]:
    """The numbers and strings of a program, in order; docstrings do not count."""
    strings = [found[0] for found in _ASIDE.finditer(text) if not found[0].startswith(("#", '"""', "'''"))]
    return [*_NUMBER.findall(_ASIDE.sub(" ", text)), *(_FILLED_IN.sub("", one) for one in strings)]


def marks_of(units: Sequence[Unit], times: Mapping[str, int]) -> tuple[list[str], list[str]]:
    """A small set of words such that every unit, and every renamed copy of it, contains one. Words that cover the most
    units per occurrence in prose (`times`) come first. Also returns those that appear between other words in code, as
    in prose (`x for x in y if z`); the others are next to a sign or begin a line.
    """
    kept, beside_signs = set(_kept_names()), {*_BUILT_IN.split(), "return", "elif", "lambda"}
    left: dict[str, set[int]] = {}
    between: set[str] = set()
    for number, unit in enumerate(units):
        text = _IMPORT.sub("", known(unit.text))
        for one in _lasting(_ASIDE.sub(" ", text), kept) or _lasting(text, kept):
            left.setdefault(one[2].lower(), set()).add(number)
            if not one[1] and one[2] not in beside_signs:
                between.add(one[2].lower())

    def cost(word: str) -> tuple[float, str]:
        return (1 + times.get(word, 0) + _ELSEWHERE * (word in between)) / len(left[word]), word

    marks = []
    while left:
        best = min(left, key=cost)
        marks.append(best)
        covered = left.pop(best)
        left = {word: rest for word, held in left.items() if (rest := held - covered)}
    return sorted(marks), sorted(between.intersection(marks))


def _lasting(text: str, kept: Set[str]) -> list[re.Match[str]]:
    """The words that a renamed copy keeps."""
    return [found for found in _NAMED.finditer(text) if found[1] or found[2] in kept]


def is_renamed(one: str, other: str) -> bool:
    """Whether two pieces of code are equal, or nearly, except for layout, literals and consistently renamed names."""
    first, second = _signs(one), _signs(other)
    pairs: dict[str, dict[str, int]] = {}
    plain = 0
    for (mine, sign), (theirs, other_sign) in zip(first, second, strict=False):
        if sign == other_sign == int(NAME):
            renamed = pairs.setdefault(mine, {})
            renamed[theirs] = renamed.get(theirs, 0) + 1
        else:
            plain += sign == other_sign
    named = sum(sum(renamed.values()) for renamed in pairs.values())
    steady = sum(max(renamed.values()) for renamed in pairs.values())
    return steady >= STEADY * named and plain + steady >= ALIKE * max(len(first), len(second), 1)


@lru_cache(maxsize=4096)
def _signs(text: str) -> list[tuple[str, int]]:
    """The tokens of a program: the name or word, if it is one, and the kernel's token."""
    tokens, starts = read_tokens(text)
    data = text.encode()
    stops = [*starts.tolist()[1:], len(data)]
    return [
        (_WORD.match(known(data[start:stop].decode("utf-8", "replace")))[0], token)  # type: ignore[index]  # it may be empty
        for token, start, stop in zip(tokens.tolist(), starts.tolist(), stops, strict=False)
    ]
