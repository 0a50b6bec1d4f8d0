"""The class of each code point, as a two-level table that a compiled loop can index.

`classes[(pages[c >> 8] << 8) | (c & 255)]` is the sum of the bits below; `lowers`, indexed the same way through
`lower_pages`, is the number to add to `c` to get its lower case. Page 0 is stored first, so an ASCII byte indexes
`classes` directly. There are about 60 KB of distinct pages, instead of 2 MB for one entry per code point.

The tables are built on first use from a file of one Unicode version (`unicode_data`), so every Python has the same.
They are passed to kernels as arguments: a global would be frozen into Numba's cache, which does not notice a change of
the file.
"""

from collections.abc import Mapping
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from gristmill.kernels.compile import njit
from gristmill.kernels.text.unicode_data import DATA, UNICODE_VERSION, ranges

__all__ = ["UNICODE_VERSION", "UnicodeTables", "by_category", "unicode_tables"]


LETTER = 1
"""General category L*."""
MARK = 2
"""M* and Cf: combining marks, joiners, soft hyphens; part of the word that contains them."""
NUMBER = 4
"""N*."""
DIGIT = 8
"""Nd: decimal digits of any script."""
UPPER = 16
"""Lu."""
LOWER = 32
"""Ll."""
SPACE = 64
"""White space as in `str.isspace`, so that chunks are those of `str.split`; and the zero-width space."""
PUNCTUATION = 128
"""P*."""
TERMINAL = 256
"""Ends a sentence: Unicode's Sentence_Terminal and the end marks of Khmer, Samaritan, Syriac and others."""
UNIT = 512
"""A letter that is a word alone: Han, Hiragana, Katakana, Bopomofo, Yi, Tangut and related scripts."""
PIECE = 1024
"""A letter of a script without spaces whose letters are not words: Thai, Lao, Khmer, Myanmar and related scripts."""

ALONE = UNIT | PIECE
"""A letter of a script without spaces."""
WORD = LETTER | MARK | NUMBER
ZERO_WIDTH_SPACE = 0x200B
"""Separates words instead of a space: Khmer, Burmese, Lao and Thai are often typed this way. Its category is Cf."""

UNIT_RANGES, PIECE_RANGES = ranges(DATA["unit"]), ranges(DATA["piece"])
"""Whole blocks; only letters (L*) in them get the bit."""

_CATEGORY_BITS = {
    "Lu": LETTER | UPPER,
    "Ll": LETTER | LOWER,
    "Lt": LETTER,
    "Lm": LETTER,
    "Lo": LETTER,
    "Mn": MARK,
    "Mc": MARK,
    "Me": MARK,
    "Cf": MARK,
    "Nd": NUMBER | DIGIT,
    "Nl": NUMBER,
    "No": NUMBER,
    "Pd": PUNCTUATION,
    "Pc": PUNCTUATION,
    "Ps": PUNCTUATION,
    "Pe": PUNCTUATION,
    "Pi": PUNCTUATION,
    "Pf": PUNCTUATION,
    "Po": PUNCTUATION,
}

_NAMES = (*_CATEGORY_BITS, *("Sm", "Sc", "Sk", "So", "Zs", "Zl", "Zp", "Cc", "Cs", "Co", "Cn"))
"""All general categories."""


class UnicodeTables(NamedTuple):
    """The arrays for kernels; innermost functions take a `view` of them."""

    pages: npt.NDArray[np.uint8]
    classes: npt.NDArray[np.uint16]
    lower_pages: npt.NDArray[np.uint8]
    lowers: npt.NDArray[np.int32]


@njit(nogil=True, cache=True)
def class_of(unicode: UnicodeTables, point: int) -> int:
    """Returns the class bits of a code point."""
    bits: int = unicode.classes[unicode.pages[point >> 8] << 8 | point & 255]
    return bits


@njit(nogil=True, cache=True)
def lower_change(unicode: UnicodeTables, point: int) -> int:
    """Returns the number to add to a code point to get its lower case."""
    change: int = unicode.lowers[unicode.lower_pages[point >> 8] << 8 | point & 255]
    return change


def two_level(flat: npt.NDArray[Any]) -> tuple[npt.NDArray[np.uint8], npt.NDArray[Any]]:
    """Returns pages, numbered by first appearance, so that page 0 stays page 0, and their content."""
    found: dict[bytes, int] = {}
    pages = np.empty(len(flat) // 256, np.uint8)
    kept: list[npt.NDArray[Any]] = []
    # Equal pages are stored once.
    for number, page in enumerate(flat.reshape(-1, 256)):
        at = found.setdefault(page.tobytes(), len(found))
        if at == len(kept):
            kept.append(page)
        pages[number] = at
    return pages, np.concatenate(kept)


@lru_cache(maxsize=1)
def _categories() -> npt.NDArray[np.uint8]:
    """Returns the category of every code point, as its index in `_NAMES`."""
    found = np.full(0x110000, _NAMES.index("Cn"), np.uint8)
    # All other code points are not assigned.
    for name, text in DATA["categories"].items():
        for first, last in ranges(text):
            found[first : last + 1] = _NAMES.index(name)
    return found


def by_category(values: Mapping[str, int]) -> npt.NDArray[np.uint16]:
    """Returns for every code point the value of its general category, 0 if the category has none."""
    return np.array([values.get(name, 0) for name in _NAMES], np.uint16)[_categories()]


@lru_cache(maxsize=1)
def unicode_tables() -> UnicodeTables:
    """Returns read-only tables for all 0x110000 code points; takes some milliseconds, once per process."""
    flat = by_category(_CATEGORY_BITS)
    # Only letters of these blocks get the bit.
    for blocks, bit in ((UNIT_RANGES, UNIT), (PIECE_RANGES, PIECE)):
        # The ranges of one kind.
        for first, last in blocks:
            span = flat[first : last + 1]
            span[(span & LETTER) != 0] |= bit
    # Properties that are not categories.
    for name, bit in (("terminal", TERMINAL), ("space", SPACE)):
        for first, last in ranges(DATA[name]):
            flat[first : last + 1] |= bit
    flat[ZERO_WIDTH_SPACE] = SPACE
    lowers = np.zeros(0x110000, np.int32)
    # Each shift is the distance to the lower case.
    for shift, text in DATA["lower"].items():
        for first, last in ranges(text):
            lowers[first : last + 1] = int(shift)
    tables = UnicodeTables(*two_level(flat), *two_level(lowers))
    for table in tables:
        table.setflags(write=False)
    return tables
