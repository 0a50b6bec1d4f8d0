"""Normalises text from any file or page. `normalise(normalise(x)) == normalise(x)`.

The steps have this order, because each can create work for the next:

1. every line end (CR LF, CR, VT, FF, NEL, U+2028, U+2029) becomes a line feed;
2. characters that carry no text are removed: C0 and C1 controls, DEL, the soft hyphen, byte order marks, word joiners,
   bidirectional marks, embeddings, overrides and isolates (they control display; overrides hide text from a reader),
   interlinear annotation, the object replacement character, deprecated format characters, noncharacters, lone
   surrogates. ZWJ and ZWNJ stay (emoji, Persian, Indic), and so do the zero-width space (it separates words in
   Khmer and Thai), variation selectors, tag characters (flags) and U+FFFD (a sign of wrong decoding);
3. white space at the end of a line, blank lines at both ends and surplus blank lines are removed. Indentation stays,
   since it carries the meaning of code;
4. NFC. If a text is not NFC, its runs of marks are cut after 30, the bound of Unicode's stream-safe format (UAX 15):
   ordering a long run is quadratic in CPython (two minutes for a megabyte), and no language needs as many.

Steps 1 to 3 are one pass over UTF-8, which also finds whether step 4, the slowest, is necessary. It is not for text of
letters that neither compose nor reorder (English, German, Russian, Chinese).
"""

import re
import unicodedata
from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np

from gristmill.kernels.text.plain_form import (
    COMPOSES,
    COMPOSING_SPACE,
    LINE_END,
    PLAIN,
    REMOVED_CHAR,
    SPACE,
    plain_forms,
)
from gristmill.kernels.text.unicode_data import known, nfc, per_known

Array = np.ndarray[Any, Any]

MAX_MARKS = 30

REMOVED = (
    *((0x00, 0x08), (0x0E, 0x1F), (0x7F, 0x84), (0x86, 0x9F), (0xAD, 0xAD), (0x61C, 0x61C), (0x200E, 0x200F)),
    *((0x202A, 0x202E), (0x2060, 0x2060), (0x2066, 0x206F), (0xD800, 0xDFFF), (0xFDD0, 0xFDEF), (0xFEFF, 0xFEFF)),
    *((0xFFF9, 0xFFFC), (0xE0001, 0xE0001)),
    *((plane | 0xFFFE, plane | 0xFFFF) for plane in range(0, 0x110000, 0x10000)),
)
"""What step 2 removes: inclusive ranges of code points."""

LINE_ENDS = (0x0A, 0x0B, 0x0C, 0x0D, 0x85, 0x2028, 0x2029)
SPACES = (0x09, 0x20, 0xA0, 0x1680, *range(0x2000, 0x200B), 0x202F, 0x205F, 0x3000)
"""White space within a line: the tab and Unicode's space separators."""


@cache
def _kinds() -> np.ndarray:
    """The class of each code point of the Basic Multilingual Plane for the scan."""
    kinds = np.full(0x10000, PLAIN, np.uint8)
    for code in range(0xC0, 0x10000):
        char = chr(code)
        if known(char) != char:
            continue
        if unicodedata.combining(char) or not unicodedata.is_normalized("NFC", char):
            kinds[code] = COMPOSES
        parts = unicodedata.decomposition(char).split()
        if len(parts) == 2 and parts[0][0] != "<":
            kinds[int(parts[1], 16)] = COMPOSES
    kinds[0x1160:0x1200] = COMPOSES  # Hangul vowels and finals compose by arithmetic, not by the table
    for code in SPACES:
        kinds[code] = COMPOSING_SPACE if kinds[code] == COMPOSES else SPACE
    kinds[list(LINE_ENDS)] = LINE_END
    for first, last in REMOVED:
        if last < 0x10000:
            kinds[first : last + 1] = REMOVED_CHAR
    return kinds


@cache
def _long_run() -> re.Pattern[str]:
    # By the first character of the decomposition: three Tibetan vowel signs are starters that decompose to marks.
    chars = (char for char in map(chr, range(0x300, 0x20000)) if known(char) == char)
    marks = "".join(char for char in chars if unicodedata.combining(unicodedata.normalize("NFD", char)[0]))
    return re.compile(f"([{marks}]{{{MAX_MARKS}}})[{marks}]+")


def normalise(text: str, max_blank_lines: int = 1) -> str:
    """Normalises `text`, with at most `max_blank_lines` consecutive blank lines. Accepts lone surrogates."""
    data, starts, stops = normalise_rows([_bytes(text)], max_blank_lines)
    return data[starts[0] : stops[0]].tobytes().decode()


def normalise_rows(rows: Sequence[bytes], max_blank_lines: int = 1) -> tuple[Array, Array, Array]:
    """Normalises many texts at once. Returns bytes of UTF-8, and where each text begins and ends in them.

    Rows are UTF-8, with lone surrogates as `surrogatepass` writes them.
    """
    offsets = np.zeros(len(rows) + 1, np.int64)
    np.cumsum([len(row) for row in rows], out=offsets[1:])
    joined = b"".join(rows)
    data, stops, longest = plain_forms(joined, offsets, _kinds(), min(max_blank_lines, len(joined)) + 1)
    starts = offsets[:-1]
    composed: list[bytes] = []
    after = data.size
    for row in np.flatnonzero(longest).tolist():
        text = data[starts[row] : stops[row]].tobytes().decode()
        if not unicodedata.is_normalized("NFC", text) and per_known(_if_nfc, text) != text:
            text = _long_run().sub(r"\1", text) if longest[row] > MAX_MARKS else text
            composed.append(nfc(text).encode())
            starts[row], stops[row] = after, after + len(composed[-1])
            after += len(composed[-1])
    if composed:
        data = np.concatenate([data, np.frombuffer(b"".join(composed), np.uint8)])
    return data, starts, stops


def _if_nfc(piece: str) -> str:
    # Unlike nfc(), this is linear for marks out of order.
    return piece if unicodedata.is_normalized("NFC", piece) else ""


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")
