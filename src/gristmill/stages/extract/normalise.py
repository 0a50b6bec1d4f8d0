"""One plain form for text, whatever file or page it came from. `normalise(normalise(x)) == normalise(x)`.

In this order, because each step can make work for the next:

1. every line end (CR LF, CR, VT, FF, NEL, U+2028, U+2029) becomes a line feed;
2. characters that carry no text are removed: C0 and C1 controls, DEL, the soft hyphen, byte order marks, word joiners,
   bidirectional marks, embeddings, overrides and isolates (they steer display; overrides hide text from a reader),
   interlinear annotation, the object replacement character, deprecated format characters, noncharacters, lone
   surrogates. ZWJ and ZWNJ stay (emoji, Persian, Indic), and so do the zero-width space (it parts words in
   Khmer and Thai), variation selectors, tag characters (flags) and U+FFFD (it tells of a wrong decoding);
3. white space at the end of a line goes, runs of blank lines are folded, blank lines at both ends go. Indentation
   stays: it is the meaning of code;
4. NFC. Text that is not NFC has its runs of marks cut after 30, the bound of Unicode's stream-safe format (UAX 15):
   putting a long run in order is quadratic in CPython (two minutes for a megabyte), and no language needs as many.

Steps 1 to 3 are one pass over UTF-8, which also tells whether step 4 has anything to do: it has not for text of letters
that neither compose nor reorder (English, German, Russian, Chinese), and that saves the slowest step.
"""

import re
import unicodedata
from functools import cache

import numpy as np
from numba import njit

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

_PLAIN, _COMPOSES, _SPACE, _COMPOSING_SPACE, _REMOVED, _LINE_END = range(6)


@cache
def _kinds() -> np.ndarray:
    """What each code point of the Basic Multilingual Plane is to the scan."""
    kinds = np.full(0x10000, _PLAIN, np.uint8)
    for code in range(0xC0, 0x10000):
        char = chr(code)
        if unicodedata.combining(char) or not unicodedata.is_normalized("NFC", char):
            kinds[code] = _COMPOSES
        parts = unicodedata.decomposition(char).split()
        if len(parts) == 2 and parts[0][0] != "<":
            kinds[int(parts[1], 16)] = _COMPOSES
    kinds[0x1160:0x1200] = _COMPOSES  # Hangul vowels and finals compose by arithmetic, not by the table
    for code in SPACES:
        kinds[code] = _COMPOSING_SPACE if kinds[code] == _COMPOSES else _SPACE
    kinds[list(LINE_ENDS)] = _LINE_END
    for first, last in REMOVED:
        if last < 0x10000:
            kinds[first : last + 1] = _REMOVED
    return kinds


_SPACES, _ONES, _TOPS = (np.uint64(byte * 0x0101010101010101) for byte in (0x20, 0x01, 0x80))


@njit(nogil=True, cache=True, forceinline=True)
def _skip_ascii(data: np.ndarray, words: np.ndarray, at: int) -> int:
    """Where the stretch of printable ASCII that `at` lies in ends; eight bytes at a time."""
    while at < data.size and data[at] >= 0x20 and data[at] < 0x7F:
        at += 1
        if at & 7 == 0:
            word = at >> 3
            while word < words.size:
                eight = words[word]
                # A byte's top bit is set in the sum for 7F and above, in the difference for all below 20.
                if ((eight + _ONES) | (eight - _SPACES) | eight) & _TOPS:
                    break
                word += 1
            at = word << 3
    return at


@njit(nogil=True, cache=True)
def _scan(
    data: np.ndarray, words: np.ndarray, kinds: np.ndarray, max_line_feeds: int, out: np.ndarray
) -> tuple[int, bool, int]:
    """Writes the plain form of UTF-8 `data` to `out`.

    Gives its length, whether it differs, and its longest run of characters that NFC may change.
    """
    size = data.size
    read = write = end = 0
    line_feeds = 0
    run = longest = 0
    replaced = False
    while read < size:
        byte = data[read]
        if byte >= 0x20 and byte < 0x7F:
            start = read
            run = 0
            read = _skip_ascii(data, words, read)
            for at in range(read - start):
                out[write + at] = data[start + at]
            write += read - start
            last = write
            while last > write - (read - start) and out[last - 1] == 0x20:
                last -= 1
            if last > write - (read - start):
                end = last
                line_feeds = 0
            continue
        start = read
        if byte < 0x80:
            read += 1
            kind = kinds[byte]
            if byte == 0x0A and start > 0 and data[start - 1] == 0x0D:
                continue
        elif byte < 0xE0:
            read += 2
            kind = kinds[(np.int64(byte) & 0x1F) << 6 | data[start + 1] & 0x3F]
        elif byte < 0xF0:
            read += 3
            kind = kinds[
                (np.int64(byte) & 0xF) << 12 | (np.int64(data[start + 1]) & 0x3F) << 6 | data[start + 2] & 0x3F
            ]
        else:
            read += 4
            code = (np.int64(byte) & 7) << 18 | (np.int64(data[start + 1]) & 0x3F) << 12
            code |= (np.int64(data[start + 2]) & 0x3F) << 6 | data[start + 3] & 0x3F
            if code & 0xFFFE == 0xFFFE or code == 0xE0001:
                kind = np.uint8(_REMOVED)
            elif 0x1F000 <= code < 0x1FB00 or 0x20000 <= code < 0x2F800:  # emoji; Chinese
                kind = np.uint8(_PLAIN)
            else:
                kind = np.uint8(_COMPOSES)
        if kind == _LINE_END:
            write = end + line_feeds  # drops the white space since the last word or line feed
            replaced |= byte != 0x0A
            if end > 0 and line_feeds < max_line_feeds:
                out[write] = 0x0A
                write += 1
                line_feeds += 1
        elif kind != _REMOVED:
            for at in range(start, read):
                out[write] = data[at]
                write += 1
            run = run + 1 if kind in (_COMPOSES, _COMPOSING_SPACE) else 0
            longest = max(longest, run)
            if kind in (_PLAIN, _COMPOSES):
                end = write
                line_feeds = 0
    return end, replaced or end != size, longest


@cache
def _long_run() -> re.Pattern[str]:
    # By the first character of the decomposition: three Tibetan vowel signs are starters that decompose to marks.
    chars = map(chr, range(0x300, 0x20000))
    marks = "".join(char for char in chars if unicodedata.combining(unicodedata.normalize("NFD", char)[0]))
    return re.compile(f"([{marks}]{{{MAX_MARKS}}})[{marks}]+")


def normalise(text: str, max_blank_lines: int = 1) -> str:
    """`text` in the plain form; at most `max_blank_lines` blank lines in a row. Accepts lone surrogates."""
    data = np.frombuffer(text.encode("utf-8", "surrogatepass"), np.uint8)
    out = np.empty(data.size, np.uint8)
    words = data[: data.size & -8].view(np.uint64)
    size, changed, longest = _scan(data, words, _kinds(), max_blank_lines + 1, out)
    if changed:
        text = out[:size].tobytes().decode()
    if longest and not unicodedata.is_normalized("NFC", text):
        text = unicodedata.normalize("NFC", _long_run().sub(r"\1", text) if longest > MAX_MARKS else text)
    return text
