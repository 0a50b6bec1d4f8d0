"""Character classes of the pre-tokenizers' regular expressions, as one table that a compiled loop can index.

The table is that of Unicode 16.0 (`UNICODE_VERSION`), which Hugging Face `tokenizers` 0.23 uses (its Oniguruma 6.9.10):
the table of Unicode 14 (`unicode_data`), except for the code points in `_HELD`.

`unicode_classes` does not fit here: its SPACE is `str.isspace`, which includes U+001C..U+001F, and the `\\s` of regular
expressions is White_Space, which does not.
"""

from functools import lru_cache

import numpy as np
import numpy.typing as npt

from gristmill.kernels.text.unicode_classes import by_category
from gristmill.kernels.text.unicode_data import DATA, ranges

UNICODE_VERSION = "16.0.0"

LETTER = 1
"""`\\p{L}`."""
NUMBER = 2
"""`\\p{N}`."""
SPACE = 4
"""`\\s`: White_Space."""
NEWLINE = 8
"""`[\\r\\n]`; these are also SPACE."""
UPPER = 16
"""`[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]`, the first half of a word in o200k."""
LOWER = 32
"""`[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]`, the second half. Letters without case and marks are in both."""
WIDE = 64
"""Only in classes by byte: the byte is not ASCII, and the class of its character is in the pages."""

PAGES_AT = 256
"""The index in the table where the page numbers begin; the classes by byte are before them."""
CLASSES_AT = PAGES_AT + 0x110000 // 256
"""The index of page 0: the class of c is `table[CLASSES_AT + (table[PAGES_AT + (c >> 8)] << 8) + (c & 255)]`."""

_CATEGORY_BITS = {
    "Lu": LETTER | UPPER,
    "Lt": LETTER | UPPER,
    "Lm": LETTER | UPPER | LOWER,
    "Lo": LETTER | UPPER | LOWER,
    "Ll": LETTER | LOWER,
    "Mn": UPPER | LOWER,
    "Mc": UPPER | LOWER,
    "Me": UPPER | LOWER,
    "Nd": NUMBER,
    "Nl": NUMBER,
    "No": NUMBER,
}
_HELD: dict[str, str] = DATA["unicode_16"]
"""Code points that Unicode 14, 15, 15.1, 16, 17 and 18 class differently, by a category of their class in 16.0."""


def moved_points() -> list[int]:
    """Returns the code points whose class depends on the Unicode version, where another engine may split
    differently.
    """
    return [point for text in _HELD.values() for first, last in ranges(text) for point in range(first, last + 1)]


@lru_cache(maxsize=1)
def class_table() -> npt.NDArray[np.uint8]:
    """Returns the read-only table for all 0x110000 code points; takes about a tenth of a second, once per process."""
    flat = by_category(_CATEGORY_BITS).astype(np.uint8)
    # The ranges of a category that the table overrides get the class of that category.
    for category, text in _HELD.items():
        for first, last in ranges(text):
            flat[first : last + 1] = _CATEGORY_BITS.get(category, 0)
    for first, last in ranges(DATA["white_space"]):
        flat[first : last + 1] |= SPACE
    flat[[0x0A, 0x0D]] |= NEWLINE
    by_byte = flat[:256].copy()
    by_byte[128:] = WIDE
    pages = [page.tobytes() for page in flat.reshape(-1, 256)]
    numbers = {page: number for number, page in enumerate(sorted({*pages}))}
    found = [by_byte.tobytes(), bytes(map(numbers.__getitem__, pages)), *numbers]
    return np.frombuffer(b"".join(found), np.uint8)
