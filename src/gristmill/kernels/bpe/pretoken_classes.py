"""Character classes of the pre-tokenizers' regular expressions, as one table that a compiled loop can index.

The table is made from Python's `unicodedata` and held at Unicode 16.0 (`UNICODE_VERSION`), which is what Hugging Face
`tokenizers` 0.23 matches with (its Oniguruma 6.9.10): every code point that Unicode 14 (Python 3.11) to 18 class
differently stands in `_HELD` with its class in 16.0. So the same text is cut the same way under every Python.

`unicode_classes` cannot serve here: its SPACE is `str.isspace`, which holds U+001C..U+001F, and the `\\s` of regular
expressions is White_Space, which does not; and its classes move with the Python that runs.
"""

from functools import lru_cache

import numpy as np
import numpy.typing as npt

from gristmill.kernels.text.unicode_classes import by_category

UNICODE_VERSION = "16.0.0"

LETTER = 1
"""`\\p{L}`."""
NUMBER = 2
"""`\\p{N}`."""
SPACE = 4
"""`\\s`: White_Space."""
NEWLINE = 8
"""`[\\r\\n]`; SPACE too."""
UPPER = 16
"""`[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]`, the first half of a word in o200k."""
LOWER = 32
"""`[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]`, the second half. Letters without case and marks are in both."""
WIDE = 64
"""Only by byte: the byte is not ASCII, the class of its character stands in the pages."""

PAGES_AT = 256
"""Where in the table the page numbers begin; before them, classes by byte."""
CLASSES_AT = PAGES_AT + 0x110000 // 256
"""Where page 0 begins: the class of c is `table[CLASSES_AT + (table[PAGES_AT + (c >> 8)] << 8) + (c & 255)]`."""

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
# PropList.txt, White_Space; Unicode promises nothing, but it has not changed since 6.3.
_WHITE_SPACE = "9-D 20 85 A0 1680 2000-200A 2028 2029 202F 205F 3000"
_HELD = {
    "Lu": "1C89 A7CB-A7CC A7DA A7DC 10D50-10D65",
    "Ll": "295 1C8A A7CD A7DB 10D70-10D85 1DF25-1DF2A",
    "Lo": (
        "105C0-105F3 10D4A-10D4F 10D6F 10EC2-10EC4 1123F-11240 11380-11389 1138B 1138E 11390-113B5 113B7 113D1 113D3 "
        "11BC0-11BE0 11F02 11F04-11F10 11F12-11F33 1342F 13441-13446 13460-143FA 16100-1611D 16D40-16D6C 18CFF 1B132 "
        "1B155 1E030-1E06D 1E4D0-1E4EB 1E5D0-1E5ED 1E5F0 2B739 2EBF0-2EE5D 31350-323AF"
    ),
    "Mn": (
        "897 CF3 ECE 10D69-10D6D 10EFC-10EFF 11241 113B8-113C0 113C2 113C5 113C7-113CA 113CC-113D0 113D2 113E1-113E2 "
        "11F00-11F01 11F03 11F34-11F3A 11F3E-11F42 11F5A 13440 13447-13455 1611E-1612F 1E08F 1E4EC-1E4EF 1E5EE-1E5EF"
    ),
    "Nd": (
        "10D40-10D49 116D0-116E3 11BF0-11BF9 11F50-11F59 16130-16139 16D70-16D79 1CCF0-1CCF9 1D2C0-1D2D3 1E4F0-1E4F9 "
        "1E5F1-1E5FA"
    ),
    # Given a class by Unicode 17 or 18: none yet.
    "Cn": (
        "558 58B-58C 5C8-5C9 88F B53-B54 C5C CDC 1ACF-1AF0 208F 209D-209F A7CE-A7CF A7D2 A7D4 A7DD A7E2 A7F1 AB6C-AB6D "
        "107BB-107BF 10940-10959 10EC5-10EC7 10ECB-10ECF 10ED9-10EEE 10EF0-10EFB 11B0A 11B60-11B67 11DB0-11DDB "
        "11DE0-11DE9 11DF0-11DF1 1246F 12475-1247F 12550-12686 16EA0-16EB8 16EBB-16ED3 16FF2-16FF6 187F8-187FF "
        "18CD6-18CDA 18D09-18D20 18D80-18DF2 18E00-19191 191A0-191D2 1B123-1B128 1B168 1D127-1D128 1D250-1D252 "
        "1D25B-1D25C 1D25F 1D280-1D281 1D6A6 1DF1F-1DF24 1DF2B-1DF81 1DF90-1DF96 1DFCD-1DFFF 1E6C0-1E6DE 1E6E0-1E6F5 "
        "1E6FE-1E6FF 2B73A-2B73F 2B81E 2CEA2-2CEAD 323B0-33479 3D000-3FC3F"
    ),
}
"""Code points that Unicode 14, 15, 15.1, 16, 17 and 18 class differently, under a category of their class in 16.0."""


def _ranges(text: str) -> list[tuple[int, int]]:
    pairs = [part.split("-") for part in text.split()]
    return [(int(pair[0], 16), int(pair[-1], 16)) for pair in pairs]


def moved_points() -> list[int]:
    """Code points whose class depends on the Unicode version: where another engine may cut differently."""
    return [point for text in _HELD.values() for first, last in _ranges(text) for point in range(first, last + 1)]


@lru_cache(maxsize=1)
def class_table() -> npt.NDArray[np.uint8]:
    """The read-only table for all 0x110000 code points; takes about a tenth of a second, once a process."""
    flat = by_category(_CATEGORY_BITS).astype(np.uint8)
    for category, text in _HELD.items():
        for first, last in _ranges(text):
            flat[first : last + 1] = _CATEGORY_BITS.get(category, 0)
    for first, last in _ranges(_WHITE_SPACE):
        flat[first : last + 1] |= SPACE
    flat[[0x0A, 0x0D]] |= NEWLINE
    by_byte = flat[:256].copy()
    by_byte[128:] = WIDE
    pages = [page.tobytes() for page in flat.reshape(-1, 256)]
    numbers = {page: number for number, page in enumerate(sorted({*pages}))}
    found = [by_byte.tobytes(), bytes(map(numbers.__getitem__, pages)), *numbers]
    return np.frombuffer(b"".join(found), np.uint8)
