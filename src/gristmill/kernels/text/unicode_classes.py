"""What kind of character each code point is, as a two-level table that a compiled loop can index.

`classes[(pages[c >> 8] << 8) | (c & 255)]` is the sum of the bits below; `lowers`, indexed the same way through
`lower_pages`, is what to add to `c` to get its lower case. Page 0 is stored first, so an ASCII byte indexes `classes`
directly. About 60 KB of distinct pages instead of 2 MB for one entry a code point.

The tables are made on first use from Python's `unicodedata`, so they change with its Unicode version
(`UNICODE_VERSION`): whoever caches results that depend on them must cache under that version. They are passed to
kernels as arguments: a global would be frozen into Numba's cache, which does not see the version change.
"""

import unicodedata
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

UNICODE_VERSION = unicodedata.unidata_version

LETTER = 1
"""General category L*: what `str.isalpha` says."""
MARK = 2
"""M* and Cf: combining marks, joiners, soft hyphens; part of the word that they stand in."""
NUMBER = 4
"""N*."""
DIGIT = 8
"""Nd: decimal digits of any script."""
UPPER = 16
"""Lu."""
LOWER = 32
"""Ll."""
SPACE = 64
"""What `str.isspace` says, so that chunks are those of `str.split`; and the zero-width space."""
PUNCTUATION = 128
"""P*."""
TERMINAL = 256
"""Ends a sentence: Unicode's Sentence_Terminal and the end marks of Khmer, Samaritan, Syriac and others."""
UNIT = 512
"""A letter that is a word by itself: Han, Hiragana, Katakana, Bopomofo, Yi, Tangut and their kin."""
PIECE = 1024
"""A letter of a script written without spaces whose letters are not words: Thai, Lao, Khmer, Myanmar and their kin."""

WORD = LETTER | MARK | NUMBER
ZERO_WIDTH_SPACE = 0x200B
"""Separates words where spaces do not: Khmer, Burmese, Lao and Thai are often typed so. Its category is Cf."""

# Unicode 15 Scripts.txt, whole blocks: unicodedata has no script property. Only letters (L*) in them get the bit.
UNIT_RANGES = (
    (0x2E80, 0x2FDF),  # radicals
    (0x3005, 0x3007),  # iteration mark, closing mark, zero
    (0x3021, 0x3029),
    (0x3031, 0x303C),
    (0x3041, 0x30FF),  # Hiragana, Katakana with the prolonged sound mark
    (0x3100, 0x312F),  # Bopomofo
    (0x31A0, 0x31BF),
    (0x31F0, 0x31FF),
    (0x3400, 0x4DBF),
    (0x4E00, 0x9FFF),
    (0xA000, 0xA48C),  # Yi
    (0xF900, 0xFAFF),
    (0xFF66, 0xFF9F),  # half-width Katakana
    (0x16FE0, 0x18D08),  # Tangut, Khitan, Nushu marks
    (0x1AFF0, 0x1B2FB),  # Kana extensions, Nushu
    (0x20000, 0x323AF),
)
PIECE_RANGES = (
    (0x0E01, 0x0E4E),  # Thai
    (0x0E81, 0x0EDF),  # Lao
    (0x1000, 0x109F),  # Myanmar
    (0x1780, 0x17DC),  # Khmer
    (0x1950, 0x19DF),  # Tai Le, New Tai Lue
    (0x1A20, 0x1AAD),  # Tai Tham
    (0xA980, 0xA9DF),  # Javanese
    (0xA9E0, 0xA9FF),  # Myanmar Extended-B
    (0xAA60, 0xAADF),  # Myanmar Extended-A, Tai Viet
    (0x11700, 0x1174F),  # Ahom
)
# Unicode 15 PropList.txt, Sentence_Terminal, and 061D..061E, 0700..0702, 0837.., 17D4..17DA, 2E53..2E54, 10F55.. which
# end sentences in their scripts.
_TERMINAL_RANGES = (
    (0x21, 0x21), (0x2E, 0x2E), (0x3F, 0x3F), (0x589, 0x589), (0x61D, 0x61F), (0x6D4, 0x6D4), (0x700, 0x702),
    (0x7F9, 0x7F9), (0x837, 0x837), (0x839, 0x839), (0x83D, 0x83E), (0x964, 0x965), (0x104A, 0x104B),
    (0x1362, 0x1362), (0x1367, 0x1368), (0x166E, 0x166E), (0x1735, 0x1736), (0x17D4, 0x17D6), (0x17D9, 0x17DA),
    (0x1803, 0x1803), (0x1809, 0x1809), (0x1944, 0x1945), (0x1AA8, 0x1AAB), (0x1B5A, 0x1B5B), (0x1B5E, 0x1B5F),
    (0x1B7D, 0x1B7E), (0x1C3B, 0x1C3C), (0x1C7E, 0x1C7F), (0x203C, 0x203D), (0x2047, 0x2049), (0x2E2E, 0x2E2E),
    (0x2E3C, 0x2E3C), (0x2E53, 0x2E54), (0x3002, 0x3002), (0xA4FF, 0xA4FF), (0xA60E, 0xA60F), (0xA6F3, 0xA6F3),
    (0xA6F7, 0xA6F7), (0xA876, 0xA877), (0xA8CE, 0xA8CF), (0xA92F, 0xA92F), (0xA9C8, 0xA9C9), (0xAA5D, 0xAA5F),
    (0xAAF0, 0xAAF1), (0xABEB, 0xABEB), (0xFE52, 0xFE52), (0xFE56, 0xFE57), (0xFF01, 0xFF01), (0xFF0E, 0xFF0E),
    (0xFF1F, 0xFF1F), (0xFF61, 0xFF61), (0x10A56, 0x10A57), (0x10F55, 0x10F59), (0x10F86, 0x10F89),
    (0x11047, 0x11048), (0x110BE, 0x110C1), (0x11141, 0x11143), (0x111C5, 0x111C6), (0x111CD, 0x111CD),
    (0x111DE, 0x111DF), (0x11238, 0x11239), (0x1123B, 0x1123C), (0x112A9, 0x112A9), (0x1144B, 0x1144C),
    (0x115C2, 0x115C3), (0x115C9, 0x115D7), (0x11641, 0x11642), (0x1173C, 0x1173E), (0x11944, 0x11944),
    (0x11946, 0x11946), (0x11A42, 0x11A43), (0x11A9B, 0x11A9C), (0x11C41, 0x11C42), (0x11EF7, 0x11EF8),
    (0x11F43, 0x11F44), (0x16A6E, 0x16A6F), (0x16AF5, 0x16AF5), (0x16B37, 0x16B38), (0x16B44, 0x16B44),
    (0x16E98, 0x16E98), (0x1BC9F, 0x1BC9F), (0x1DA88, 0x1DA88),
)  # fmt: skip

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

_ASSIGNED = ((0x0, 0x40000), (0xE0000, 0xF0000))
"""Planes with characters in any version of Unicode so far: 4 to 13 are empty, 15 and 16 private."""


class UnicodeTables(NamedTuple):
    """The arrays that kernels take."""

    pages: npt.NDArray[np.uint8]
    classes: npt.NDArray[np.uint16]
    lower_pages: npt.NDArray[np.uint8]
    lowers: npt.NDArray[np.int32]


def _two_level(flat: npt.NDArray[Any]) -> tuple[npt.NDArray[np.uint8], npt.NDArray[Any]]:
    """Pages numbered by first appearance, so that page 0 stays page 0."""
    found: dict[bytes, int] = {}
    pages = np.empty(len(flat) // 256, np.uint8)
    kept: list[npt.NDArray[Any]] = []
    for number, page in enumerate(flat.reshape(-1, 256)):
        at = found.setdefault(page.tobytes(), len(found))
        if at == len(kept):
            kept.append(page)
        pages[number] = at
    return pages, np.concatenate(kept)


@lru_cache(maxsize=1)
def _categories() -> npt.NDArray[np.uint8]:
    """The category of every code point, as its place in `_NAMES`; takes a twentieth of a second, once a process."""
    places = {name: place for place, name in enumerate(_NAMES)}
    found = np.full(0x110000, places["Cn"], np.uint8)
    for first, stop in _ASSIGNED:
        names = map(unicodedata.category, map(chr, range(first, stop)))
        found[first:stop] = np.frombuffer(bytes(map(places.__getitem__, names)), np.uint8)
    return found


def by_category(values: Mapping[str, int]) -> npt.NDArray[np.uint16]:
    """For every code point the value of its general category, 0 where the category has none."""
    return np.array([values.get(name, 0) for name in _NAMES], np.uint16)[_categories()]


@lru_cache(maxsize=1)
def unicode_tables() -> UnicodeTables:
    """Read-only tables for all 0x110000 code points; takes about a tenth of a second, once a process."""
    flat = by_category(_CATEGORY_BITS)
    for ranges, bit in ((UNIT_RANGES, UNIT), (PIECE_RANGES, PIECE)):
        for first, last in ranges:
            span = flat[first : last + 1]
            span[(span & LETTER) != 0] |= bit
    for first, last in _TERMINAL_RANGES:
        flat[first : last + 1] |= TERMINAL
    for point in _points("Cc", "Zs", "Zl", "Zp"):
        if chr(point).isspace():
            flat[point] |= SPACE
    flat[ZERO_WIDTH_SPACE] = SPACE
    lowers = np.zeros(0x110000, np.int32)
    for point in _points("Lu", "Lt", "Nl", "So"):
        lower = chr(point).lower()
        if len(lower) == 1:
            lowers[point] = ord(lower) - point
    tables = UnicodeTables(*_two_level(flat), *_two_level(lowers))
    for table in tables:
        table.setflags(write=False)
    return tables


def _points(*categories: str) -> list[int]:
    """The code points of these categories."""
    points: list[int] = np.flatnonzero(by_category(dict.fromkeys(categories, 1))).tolist()
    return points
