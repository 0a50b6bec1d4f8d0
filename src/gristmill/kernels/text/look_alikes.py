"""How characters read where copies are searched for: look-alikes as what they look like, invisible ones as nothing.

`Тhе mіll`, half of it in Cyrillic, and a soft hyphen or zero-width space inside of a word look like the plain words to
a reader, so they must not hide a copy from decontamination, takedowns and the index. Both sides of a comparison are
read this way, and no text is ever written so. Real Russian or Greek loses nothing: all its words are read alike.
"""

from functools import lru_cache
from pathlib import Path

import numpy as np

from gristmill.kernels.text.unicode_classes import LOWER, UPPER, UnicodeTables, unicode_tables

IGNORED = 2048
"""A bit of `classes`: the character is no part of a word, and ends none."""

# Unicode 15 DerivedCoreProperties.txt, Default_Ignorable_Code_Point (without the unassigned end of plane 14), and the
# annotation marks FFF9..FFFB: soft hyphen, joiners, zero-width space, direction marks, fillers, variation selectors.
_IGNORED_RANGES = (
    (0xAD, 0xAD), (0x34F, 0x34F), (0x61C, 0x61C), (0x115F, 0x1160), (0x17B4, 0x17B5), (0x180B, 0x180F),
    (0x200B, 0x200F), (0x202A, 0x202E), (0x2060, 0x206F), (0x3164, 0x3164), (0xFE00, 0xFE0F), (0xFEFF, 0xFEFF),
    (0xFFA0, 0xFFA0), (0xFFF0, 0xFFFB), (0x1BCA0, 0x1BCA3), (0x1D173, 0x1D17A), (0xE0000, 0xE01EF),
)  # fmt: skip


@lru_cache(maxsize=1)
def readings() -> dict[int, str]:
    """Code point -> how it reads, "" for nothing, as `str.translate` takes them; of all others the lower case is it."""
    found: dict[int, str] = {}
    for line in Path(__file__).with_name("look_alikes.txt").read_text("utf-8").splitlines():
        reading, _, characters = line.partition(" ")
        if reading != "#":
            found |= dict.fromkeys(map(ord, characters), reading)
    return found | {point: "" for first, last in _IGNORED_RANGES for point in range(first, last + 1)}


def packed(reading: str) -> int:
    """A code point; or two or three ASCII letters with their number in the bits from 24 on."""
    if len(reading) == 1:
        return ord(reading)
    return len(reading) << 24 | int.from_bytes(reading.encode("ascii"), "little")


def unpacked(number: int) -> str:
    """What `packed` packed."""
    return (number & 0xFFFFFF).to_bytes(number >> 24, "little").decode() if number >> 24 else chr(number)


@lru_cache(maxsize=1)
def reading_tables() -> UnicodeTables:
    """`unicode_tables()` with these readings for lower case (see `packed`)."""
    tables = unicode_tables()
    points = np.array(sorted(readings()), np.int64)
    read = [readings()[point] for point in points.tolist()]
    firsts = np.array([ord(one[0]) if one else 0 for one in read])
    # UPPER says that there is a change to make, also of letters that have no case.
    own = tables.classes[tables.pages[firsts >> 8].astype(np.int64) << 8 | firsts & 255] & ~np.uint16(LOWER) | UPPER
    classes = np.where([not one for one in read], np.uint16(IGNORED), own)
    changes = np.array([packed(one) if one else 0 for one in read]) - points
    edited = []
    for pages, values, new in (
        (tables.pages, tables.classes, classes),
        (tables.lower_pages, tables.lowers, changes),
    ):
        numbers, at = np.unique(points >> 8, return_inverse=True)
        added = values.reshape(-1, 256)[pages[numbers]]
        added[at, points & 255] = new
        pages = pages.copy()
        pages[numbers] = len(values) // 256 + np.arange(len(numbers))
        edited += [pages, np.concatenate([values, added.ravel()])]
    return UnicodeTables(*edited)
