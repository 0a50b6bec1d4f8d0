"""How much the letters of a text look like words: what the next letter costs, and how long words are.

`letter_pairs.txt` has the cost of each pair of letters in words of a hundred languages in Latin, Greek and Cyrillic
letters. Text in any of these languages has about 3.8 bits per letter, whatever the
language; letters that replace other letters have 5 to 7. Other scripts are not judged by their pairs.
"""

import unicodedata
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

Array = np.ndarray[Any, Any]

ALPHABETS = ("abcdefghijklmnopqrstuvwxyz", "αβγδεζηθικλμνξοπρςστυφχψω", "абвгдежзийклмнопрстуфхцчшщъыьэюя")
OTHER = "*"
"""The symbol of all other letters of a script, after its alphabet: letters with accents, or of other languages."""
SYMBOLS = " " + "".join(alphabet + OTHER for alphabet in ALPHABETS)
"""The symbols of the table; a space is everything that is no letter of these scripts."""
_ACCENTED = 1 + len(ALPHABETS[0])
COST_BITS = 2
"""Bits in one unit of a cost in the file: half bits."""
_SCRIPTS = (
    (range(0x41, 0x250), range(0x1E00, 0x1F00)),
    (range(0x370, 0x400), range(0x1F00, 0x2000)),
    (range(0x400, 0x530),),
)
"""The code points of each alphabet."""
_SPACED = (range(0x700), range(0x1E00, 0x2000))
"""Scripts with spaces between words: Latin, Greek, Cyrillic, Armenian, Hebrew, Arabic. Others are not judged at all."""
_LAST = 0x2000
PRIOR_PAIRS = 40
"""Neighbours that go together and are added to those of a text, so that a few formulas do not count."""
LEAST_JUDGED = 4
"""Shorter words are not judged by their pairs: most are abbreviations and names of variables."""


_SPACE, _JOINT, _SIGN, _DIGIT, _SMALL, _CAPITAL = range(6)
"""The classes of characters; letters without case are small. Joints are signs between the words of paths and code."""
_JOINTS = frozenset("_\\{}()[]/:@.-\u2010\u2011\u2013’'")


class LetterUse(NamedTuple):
    """What the letters of a text are like."""

    visible: int
    """Characters that are neither spaces nor digits."""
    mixed: float
    """The share of neighbours without a space between them, at least one of them a letter, that do not go together:
    a letter and a sign (but not at the ends of a word), a letter and a digit, a small letter and a capital."""
    accented: float
    """The share of letters with accents among the Latin letters of words."""

    judged: int
    """Letters in words that were judged by their pairs."""
    bits: float
    """Their cost, in all."""
    letters: int
    """Letters in all words of scripts with spaces."""
    mean_length: float
    """The length of the word that a letter is in, on average."""


@cache
def char_tables() -> tuple[Array, Array]:
    """For each code point before _LAST: its symbol in the table of pairs, and its class."""
    symbol, kind = np.zeros(_LAST, np.int64), np.zeros(_LAST, np.int64)
    for code in range(_LAST):
        char = chr(code)
        kind[code] = _kind_of(char) if any(code in some for some in _SPACED) else _SIGN
        at = 1
        for alphabet, codes in zip(ALPHABETS, _SCRIPTS, strict=True):
            if char.isalpha() and any(code in some for some in codes):
                small = char.lower()[0]
                plain = unicodedata.normalize("NFD", small)[0] if alphabet[0] == "α" else small  # Greek has few letters
                place = alphabet.find(plain)
                symbol[code] = at + (place if place >= 0 else len(alphabet))
            at += len(alphabet) + 1
    return symbol, kind


def _kind_of(char: str) -> int:
    if char.isupper():
        return _CAPITAL
    if char.isalpha() or unicodedata.combining(char):
        return _SMALL
    if char.isspace() or char < " ":
        return _SPACE
    return _JOINT if char in _JOINTS else _DIGIT if char.isdigit() else _SIGN


@cache
def _costs() -> Array:
    lines = Path(__file__).with_name("letter_pairs.txt").read_text("utf-8").splitlines()
    rows = [line.split("|")[1] for line in lines if "|" in line]
    return np.array([[int(cost, 36) for cost in row] for row in rows], np.int64)


def letter_use(text: str) -> LetterUse:
    """Judges the letters of a text. A capital after a small letter begins a word, since names in programs are so."""
    (symbol, kind), costs = char_tables(), _costs()
    codes = np.frombuffer(f"  {text}  ".encode("utf-32-le", "replace"), "<u4")
    is_known = (codes < _SPACED[0].stop) | (codes >= _SPACED[1].start) & (codes < _SPACED[1].stop)
    codes = np.where(is_known, codes, 32)
    kinds = np.where(is_known, kind[codes], _SIGN)
    is_letter = kinds >= _SMALL
    starts = np.flatnonzero(is_letter[1:] & (kinds[1:] > np.where(is_letter[:-1], kinds[:-1], 0))) + 1
    ends = np.minimum(np.append(starts[1:], len(codes)), _next_gap(is_letter, starts))
    lengths = ends - starts
    symbols = symbol[codes]
    pairs = np.concatenate(([0], np.cumsum(costs[symbols[:-1], symbols[1:]])))
    chosen = (lengths >= LEAST_JUDGED) & (symbols[starts] > 0)
    first, last = starts[chosen], ends[chosen]
    inside = pairs[last - 1] - pairs[first]
    outside = costs[0, symbols[first]] + costs[symbols[last - 1], 0]
    is_word = np.zeros(len(codes) + 1, np.int64)
    is_word[first] += 1
    is_word[last] -= 1
    first_to_last = np.cumsum(is_word[:-1]) > 0
    is_latin, is_accented = (symbols > 0) & (symbols <= _ACCENTED), symbols == _ACCENTED
    letters = int(lengths.sum())
    return LetterUse(
        visible=int(np.count_nonzero((kinds != _SPACE) & (kinds != _DIGIT))),
        mixed=_mixed(kinds, is_known),
        accented=int(is_accented[first_to_last].sum()) / max(int(is_latin[first_to_last].sum()), 1),
        judged=int((last - first + 1).sum()),
        bits=int((inside + outside).sum()) / COST_BITS,
        letters=letters,
        mean_length=int((lengths * lengths).sum()) / max(letters, 1),
    )


def _mixed(kinds: Array, is_known: Array) -> float:
    before, one, other, after = kinds[:-3], kinds[1:-2], kinds[2:-1], kinds[3:]
    is_near = (
        (one > _JOINT) & (other > _JOINT) & ((one >= _SMALL) | (other >= _SMALL)) & is_known[1:-2] & is_known[2:-1]
    )
    is_edge = (one == _SIGN) & (before == _SPACE) | (other == _SIGN) & (after == _SPACE)
    is_change = (one != other) & ~((one == _CAPITAL) & (other == _SMALL)) & ~is_edge
    near = int(np.count_nonzero(is_near))
    return int(np.count_nonzero(is_near & is_change)) / (near + PRIOR_PAIRS)


def _next_gap(is_letter: Array, starts: Array) -> Array:
    """Where the run of letters ends that each start is in."""
    gaps = np.flatnonzero(~is_letter)
    found: Array = gaps[np.searchsorted(gaps, starts)]
    return found
