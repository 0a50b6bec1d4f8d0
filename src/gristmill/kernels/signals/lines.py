"""Signals of one line: its start and end, its phrases, and whether C4 would keep it."""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from gristmill.kernels.compile import njit
from gristmill.kernels.memory import Bytes
from gristmill.kernels.signals import columns
from gristmill.kernels.text import ascii
from gristmill.kernels.text.unicode_classes import SPACE, TERMINAL, UnicodeTables
from gristmill.kernels.text.words import class_at, last_character

SHORT_LINE_CHARS = 30  # FineWeb
LONG_WORD_CHARS = 1000  # C4
MIN_LINE_WORDS = 3  # C4

PHRASES = (
    "lorem ipsum",
    "javascript",
    "terms of use",
    "privacy policy",
    "cookie policy",
    "uses cookies",
    "use of cookies",
    "use cookies",
)
STEMS = ("javascript", "lorem", "terms", "policy", "cookies")
"""Each phrase contains one of these, and a run of ASCII letters is never in two tokens: lines without a token that
contains a stem need no search for phrases."""


def _packed(texts: tuple[str, ...]) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64]]:
    ends = np.cumsum([0] + [len(text) for text in texts])
    return np.frombuffer("".join(texts).encode(), np.uint8), ends.astype(np.int64)


PHRASE_BYTES, PHRASE_ENDS = _packed(PHRASES)
_STEM_BYTES, _STEM_ENDS = _packed(STEMS)
_STEM_PAIRS = np.array([ord(stem[0]) << 8 | ord(stem[1]) for stem in STEMS], np.int64)
_CITATION_BYTES, _CITATION_ENDS = _packed(("[edit]", "[citation needed]"))


@njit(nogil=True, cache=True)
def _matches(data: Bytes, at: int, needle: npt.NDArray[np.uint8], begin: int, end: int) -> bool:
    """Whether needle[begin:end], in lower case, is at `at`, ignoring ASCII case; the caller checks the bounds."""
    # Compare byte by byte, with capitals in lower case.
    for k in range(begin, end):
        byte = data[at + k - begin]
        if ascii.UPPER_A <= byte <= ascii.UPPER_Z:
            byte |= 32
        if byte != needle[k]:
            return False
    return True


@njit(nogil=True, cache=True)
def contains(data: Bytes, begin: int, end: int, needle: npt.NDArray[np.uint8], first: int, last: int) -> bool:
    # Compare only where the first byte is right.
    for at in range(begin, end - (last - first) + 1):
        if data[at] | 32 == needle[first] and _matches(data, at, needle, first, last):
            return True
    return False


@njit(nogil=True, cache=True)
def has_stem(data: Bytes, begin: int, end: int) -> bool:
    """Whether a token contains one of STEMS."""
    if end - begin < 5:
        return False
    # At each position, compare two bytes with the begins of all stems, and the rest only where they are equal.
    for at in range(begin, end - 4):
        pair = (data[at] << 8 | data[at + 1]) | 0x2020
        # There are few stems.
        for k in range(len(_STEM_PAIRS)):
            if pair == _STEM_PAIRS[k]:
                size = _STEM_ENDS[k + 1] - _STEM_ENDS[k]
                if at + size <= end and _matches(data, at, _STEM_BYTES, _STEM_ENDS[k], _STEM_ENDS[k + 1]):
                    return True
    return False


@njit(nogil=True, cache=True)
def _without_citations(data: Bytes, begin: int, end: int, unicode: UnicodeTables) -> int:
    """Returns the end of the line without `[12]`, `[]`, `[edit]`, `[citation needed]` and white space at its end."""
    # Each turn takes white space or one citation from the end.
    while end > begin:
        bits, point, at = last_character(data, begin, end, unicode)
        if bits & SPACE:
            end = at
            continue
        if point != ascii.RIGHT_BRACKET:
            return end
        first = at
        while first > begin and ascii.ZERO <= data[first - 1] <= ascii.NINE:
            first -= 1
        if first > begin and data[first - 1] == ascii.LEFT_BRACKET:
            end = first - 1
            continue
        found = False
        # Compare the end of the line with each form.
        for k in range(len(_CITATION_ENDS) - 1):
            size = _CITATION_ENDS[k + 1] - _CITATION_ENDS[k]
            if end - size >= begin and _matches(
                data, end - size, _CITATION_BYTES, _CITATION_ENDS[k], _CITATION_ENDS[k + 1]
            ):
                end -= size
                found = True
                break
        if not found:
            return end
    return end


@njit(nogil=True, cache=True)
def _ends_in_dots(data: Bytes, begin: int, end: int) -> bool:
    return end - begin >= 3 and data[end - 1] == ascii.DOT and data[end - 2] == ascii.DOT and data[end - 3] == ascii.DOT


@njit(nogil=True, cache=True)
def c4_end(data: Bytes, begin: int, end: int, unicode: UnicodeTables) -> bool:
    """C4's terminal punctuation: the end of a sentence in any script, or a closing quote; not an ellipsis."""
    end = _without_citations(data, begin, end, unicode)
    if end == begin or _ends_in_dots(data, begin, end):
        return False
    bits, point, _ = last_character(data, begin, end, unicode)
    if bits & TERMINAL or point == ascii.QUOTE or point == ascii.APOSTROPHE or point == 0x201D or point == 0x2019:
        return True
    return point == 0xBB or point == 0x300D or point == 0x300F


@njit(nogil=True, cache=True)
def _is_bullet(point: int) -> bool:
    if point < 0x80:
        return point == ascii.HYPHEN or point == ascii.ASTERISK
    if point == 0xB7 or point == 0x2022 or point == 0x2023 or point == 0x2043 or point == 0x2219:
        return True
    return point == 0x25AA or point == 0x25CF or point == 0x25E6 or point == 0x25BA


class LineFacts(NamedTuple):
    """What the scan knows of a line that is not blank."""

    begin: int
    end: int
    """The line without white space around it."""
    chars: int
    chunks: int
    """Words between white space."""
    longest_chunk: int
    sentences: int
    suspect: bool
    """Whether a token of the line has a stem."""
    braces: bool
    """Whether the document has a `{`."""


@njit(nogil=True, cache=True)
def measure_line(data: Bytes, line: LineFacts, unicode: UnicodeTables, row: npt.NDArray[np.int64]) -> None:
    """Adds a line that is not blank to `row`."""
    begin, end, chars, chunks, longest_chunk, sentences, suspect, braces = line
    row[columns.LINES] += 1
    row[columns.LINE_CHARS] += chars
    row[columns.SENTENCES] += sentences
    if chars <= SHORT_LINE_CHARS:
        row[columns.SHORT_LINES] += 1
    if chunks < MIN_LINE_WORDS:
        row[columns.FEW_WORD_LINES] += 1
    if longest_chunk > LONG_WORD_CHARS:
        row[columns.LONG_WORD_LINES] += 1
    bits, point, _ = last_character(data, begin, end, unicode)
    if bits & TERMINAL:
        row[columns.TERMINAL_LINES] += 1
    if point == 0x2026 or _ends_in_dots(data, begin, end):
        row[columns.ELLIPSIS_LINES] += 1
    if _is_bullet(class_at(data, begin, end, unicode)[1]):
        row[columns.BULLET_LINES] += 1

    lorem = False
    javascript = False
    policy = False
    if suspect:
        # Search each phrase; the first two have special rules.
        for k in range(len(PHRASE_ENDS) - 1):
            if contains(data, begin, end, PHRASE_BYTES, PHRASE_ENDS[k], PHRASE_ENDS[k + 1]):
                lorem = lorem or k == 0
                javascript = javascript or k == 1
                policy = policy or k > 1
        row[columns.LOREM_IPSUM_LINES] += lorem
        row[columns.JAVASCRIPT_LINES] += javascript
        row[columns.POLICY_LINES] += policy

    if chunks < MIN_LINE_WORDS or longest_chunk > LONG_WORD_CHARS:
        return
    brace = False
    if braces:
        # A line with a brace is counted apart.
        for at in range(begin, end):
            if data[at] == ascii.LEFT_BRACE:
                brace = True
                break
    ends = c4_end(data, begin, end, unicode)
    row[columns.C4_ANY_END_LOREM_IPSUM_LINES] += lorem
    row[columns.C4_LOREM_IPSUM_LINES] += lorem and ends
    if javascript:
        return
    row[columns.C4_ANY_END_BRACE_LINES] += brace
    row[columns.C4_BRACE_LINES] += brace and ends
    if policy:
        return
    row[columns.C4_ANY_END_LINES] += 1
    row[columns.C4_ANY_END_SENTENCES] += sentences
    if ends:
        row[columns.C4_LINES] += 1
        row[columns.C4_SENTENCES] += sentences
