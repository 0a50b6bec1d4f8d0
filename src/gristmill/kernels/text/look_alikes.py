"""How the search for copies reads characters: look-alikes as the character that they resemble, invisible characters as
nothing.

`Тhе mіll`, half of it in Cyrillic, a zero-width space or control character inside a word, and accents (`mĩll`) leave a
text readable, so they must not hide a copy from decontamination, takedowns and the index. Both sides of a comparison
are read this way, and no text is changed. Canonically equal texts are equal (NFC and NFD), and real Russian or Greek
loses nothing: all its words are read by the same rules.
"""

from functools import lru_cache
from pathlib import Path

import numpy as np

from gristmill.kernels.compile import njit
from gristmill.kernels.text.unicode_classes import LOWER, UPPER, UnicodeTables, two_level, unicode_tables
from gristmill.kernels.text.unicode_data import DATA, ranges

IGNORED = 2048
"""A bit of `classes`: the character is not part of a word, and does not end one."""

_PAIR, _SYLLABLE = 1 << 30, 1 << 29
"""Bits of `packed` numbers: a code point with the distance of a second one; a Hangul syllable."""
_LEADS, _VOWELS, _TAILS = 0x1100, 0x1161, 0x11A7  # the first Korean letters of each kind (the last: none)
_FIRST_SYLLABLE, _SYLLABLES, _VOWEL_COUNT, _TAIL_COUNT = 0xAC00, 11172, 21, 28


@lru_cache(maxsize=1)
def readings() -> dict[int, str]:
    """Returns code point -> reading, "" for nothing, for `str.translate`; the reading of all others is their lower
    case.
    """
    found = {point: "" for first, last in ranges(DATA["ignored"]) for point in range(first, last + 1)}
    # Each line has a reading and the characters that are read so.
    for line in Path(__file__).with_name("look_alikes.txt").read_text("utf-8").splitlines():
        reading, _, characters = line.partition(" ")
        if reading != "#":
            found |= dict.fromkeys(map(ord, characters), reading)
    # A syllable of Hangul is read as its letters.
    for number in range(_SYLLABLES):
        lead, (vowel, tail) = number // _TAIL_COUNT // _VOWEL_COUNT, divmod(number, _TAIL_COUNT)
        letters = chr(_LEADS + lead) + chr(_VOWELS + vowel % _VOWEL_COUNT)
        found[_FIRST_SYLLABLE + number] = letters + chr(_TAILS + tail) if tail else letters
    return found


def packed(reading: str) -> int:
    """Returns a code point; two or three ASCII letters with their number in the bits from 24 on; or a number for
    `parts`.
    """
    points = [ord(one) for one in reading]
    if len(points) == 1:
        return points[0]
    if reading.isascii():
        return len(reading) << 24 | int.from_bytes(reading.encode(), "little")
    if points[0] >> 8 == _LEADS >> 8 and points[1] >= _VOWELS:
        syllable = (points[0] - _LEADS) * _VOWEL_COUNT + points[1] - _VOWELS
        return _SYLLABLE | syllable * _TAIL_COUNT + (points[2] - _TAILS if points[2:] else 0)
    return _PAIR | points[1] - points[0] + 2048 << 18 | points[0]


@njit(nogil=True, cache=True)
def parts(number: int) -> tuple[int, int, int]:
    """Returns the code points of a `packed` number: one to three, zero for missing ones."""
    if number & _PAIR:
        first = number & 0x3FFFF
        return first, first + (number >> 18 & 0xFFF) - 2048, 0
    if number & _SYLLABLE:
        number &= _SYLLABLE - 1
        lead, vowel, tail = number // (_VOWEL_COUNT * _TAIL_COUNT), number // _TAIL_COUNT, number % _TAIL_COUNT
        return _LEADS + lead, _VOWELS + vowel % _VOWEL_COUNT, _TAILS + tail if tail else 0
    return number, 0, 0


def unpacked(number: int) -> str:
    """Returns the letters of a `packed` number that is a code point or ASCII letters."""
    return (number & 0xFFFFFF).to_bytes(number >> 24, "little").decode() if number >> 24 else chr(number)


@lru_cache(maxsize=1)
def reading_tables() -> UnicodeTables:
    """Returns `unicode_tables()` with these readings as lower case (see `packed`); also read-only, since kernels would
    be compiled again for tables that can be written.
    """
    tables = unicode_tables()
    classes = tables.classes.reshape(-1, 256)[tables.pages].ravel()
    lowers = tables.lowers.reshape(-1, 256)[tables.lower_pages].ravel()
    points = np.array(list(readings()), np.int64)
    read = list(readings().values())
    firsts = np.array([ord(one[0]) if one else 0 for one in read])
    # UPPER marks every character that has another reading, including letters without case and marks.
    classes[points] = np.where([not one for one in read], IGNORED, classes[firsts] & ~np.uint16(LOWER) | UPPER)
    lowers[points] = np.array([packed(one) if one else 0 for one in read]) - points
    found = UnicodeTables(*two_level(classes), *two_level(lowers))
    for table in found:
        table.setflags(write=False)
    return found
