"""Removes lines of a text by C4's rules for lines.

A line is the text between newlines. Blank lines are not judged: they are removed together with a removed line before
them, so the remaining paragraphs keep their spacing. White space at the end of a text is removed if the end was cut.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

from gristmill.kernels.compile import njit
from gristmill.kernels.memory import Bytes, eight_bytes_at, view
from gristmill.kernels.signals.lines import PHRASE_BYTES, PHRASE_ENDS, c4_end, contains
from gristmill.kernels.text.ascii import LOWER_K, LOWER_V, SP
from gristmill.kernels.text.unicode_classes import SPACE, UnicodeTables
from gristmill.kernels.text.words import class_at, trimmed

RULES = ("long_word", "no_end", "few_words", "javascript", "policy")
"""The rules in the order in which they are tried; the first one that matches cuts a line."""
LONG_WORD, NO_END, FEW_WORDS, JAVASCRIPT, POLICY = range(len(RULES))


_PLAIN, _SPACE, _NEWLINE, _WIDE, _STEM = range(5)


def _kinds() -> npt.NDArray[np.uint8]:
    """Returns the role of a byte in the scan, so that most bytes cost one lookup: v, k and m are in every phrase that
    counts.
    """
    kinds = np.full(256, _PLAIN, np.uint8)
    # White space of ASCII; the other kinds are set after it.
    for byte in range(128):
        if chr(byte).isspace():
            kinds[byte] = _SPACE
    kinds[10] = _NEWLINE
    kinds[128:] = _WIDE
    kinds[[ord(letter) for letter in "vVkKmM"]] = _STEM
    return kinds


_KINDS = _kinds()

_ONES = np.uint64(0x0101010101010101)
_HIGH = np.uint64(0x8080808080808080)
_LOW = np.uint64(0x7F7F7F7F7F7F7F7F)
_SPACES = np.uint64(0x2020202020202020)
_V = np.uint64(0x7676767676767676)
_K = np.uint64(0x6B6B6B6B6B6B6B6B)
_M = np.uint64(0x6D6D6D6D6D6D6D6D)
_SEVEN, _EIGHT, _REST = np.uint64(7), np.uint64(8), np.uint64(56)


@njit(nogil=True, cache=True)
def _is_stem(data: Bytes, begin: int, at: int) -> bool:
    """Whether the word at `begin` has jav, riv, ook or erm up to `at`: javascript, privacy, cookies, terms."""
    if at - begin < 2:
        return False
    last = data[at] | 32
    two = (data[at - 2] << 8 | data[at - 1]) | 0x2020
    if last == LOWER_V:
        return bool(two == 0x6A61 or two == 0x7269)
    return bool(two == 0x6F6F if last == LOWER_K else two == 0x6572)


@njit(nogil=True, cache=True)
def _phrase(data: Bytes, begin: int, end: int, javascript: bool, policy: bool) -> int:
    """Returns the rule that a phrase of the line breaks, or -1."""
    if javascript and contains(data, begin, end, PHRASE_BYTES, PHRASE_ENDS[1], PHRASE_ENDS[2]):
        return JAVASCRIPT
    if policy:
        # The first two phrases have special rules.
        for k in range(2, len(PHRASE_ENDS) - 1):
            if contains(data, begin, end, PHRASE_BYTES, PHRASE_ENDS[k], PHRASE_ENDS[k + 1]):
                return POLICY
    return -1


@njit(nogil=True, cache=True)
def _has_zero(eight: np.uint64) -> np.uint64:
    """Returns a number that is not 0 if one of eight bytes is 0."""
    return (eight - _ONES) & ~eight & _HIGH


@njit(nogil=True, cache=True)
def _scan_line(data: Bytes, at: int, end: int, kinds: Bytes, unicode: UnicodeTables) -> tuple[int, int, bool, int]:
    """Returns for the line at `at`: its end, its words, whether it may contain a phrase, and an upper bound on the
    bytes of its longest word.

    It reads eight bytes at a time as long as they are printable ASCII without v, k and m, else byte by byte; there is
    no branch at the ends of words, which are unpredictable.
    """
    words: Any = 0
    longest = 0
    suspect = False
    word = at  # at or before the begin of the open word
    space: Any = 1  # whether the byte before is white space
    # Each turn takes eight bytes at once, or one by one if some of them are odd.
    while at < end:
        stop = min(at + 8, end)
        if at + 8 <= end:
            eight = eight_bytes_at(data, at)
            lower = eight | _SPACES
            odd = (eight | (eight - _SPACES)) & _HIGH
            odd |= _has_zero(lower ^ _V) | _has_zero(lower ^ _K) | _has_zero(lower ^ _M)
            if odd == 0:
                blanks = eight ^ _SPACES
                blanks = ~((blanks & _LOW) + _LOW) & _HIGH  # the high bit of each byte that is a space
                begins = ~blanks & (blanks << _EIGHT | np.uint64(space << 7)) & _HIGH
                words += np.int64((begins >> _SEVEN) * _ONES >> _REST)
                space = np.int64(blanks >> np.uint64(63))
                longest = max(longest, stop - word)
                word = at if blanks else word
                at = stop
                continue
        # The kinds of the bytes decide.
        while at < stop:
            kind = kinds[data[at]]
            after = at + 1
            if kind > _SPACE:
                if kind == _NEWLINE:
                    return at, words, suspect, max(longest, at - word)
                if kind == _WIDE:
                    bits, _, after = class_at(data, at, end, unicode)
                    kind = _SPACE if bits & SPACE else _PLAIN
                else:
                    suspect = suspect or _is_stem(data, word, at)
                    kind = _PLAIN
            words += space & (kind ^ _SPACE)
            space = kind
            longest = max(longest, after - word)
            word = after if kind else word
            at = after
    return at, words, suspect, longest


@njit(nogil=True, cache=True)
def _has_long_word(data: Bytes, at: int, end: int, most: int, kinds: Bytes, unicode: UnicodeTables) -> bool:
    """Whether a word of the line has more than `most` characters."""
    chars = 0
    # Count the characters of each word.
    while at < end:
        kind = kinds[data[at]]
        after = at + 1
        if kind == _WIDE:
            bits, _, after = class_at(data, at, end, unicode)
            kind = _SPACE if bits & SPACE else _PLAIN
        chars = 0 if kind == _SPACE else chars + 1
        if chars > most:
            return True
        at = after
    return False


@njit(nogil=True, cache=True)
def cut_lines(
    offsets: npt.NDArray[np.int32],
    text: npt.NDArray[np.uint8],
    valid: npt.NDArray[np.bool_],
    tables: UnicodeTables,
    min_words: int,
    max_word_chars: int,
    terminal: bool,
    javascript: bool,
    policy: bool,
    protected: npt.NDArray[np.int64],
) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int32], npt.NDArray[np.int32], npt.NDArray[np.int32]]:
    """Returns bytes and offsets of the remaining texts; lines cut (a row per rule); lines kept, without blank ones.

    Words are stretches without white space. A limit below 0 is off. Invalid documents stay empty. A line with a part
    of a `protected` span stays: start and stop of each in `text`, in order.
    """
    documents = len(offsets) - 1
    left = np.empty(offsets[documents] - offsets[0], np.uint8)
    ends = np.zeros(documents + 1, np.int32)
    cut = np.zeros((len(RULES), documents), np.int32)
    kept = np.zeros(documents, np.int32)
    data = view(text)
    kinds = view(_KINDS)
    unicode = view(tables)
    size = 0
    after = 0  # the first protected span that does not end before the line
    # Documents are independent of each other.
    for document in range(documents):
        start = size
        at = int(offsets[document])
        end = int(offsets[document + 1]) if valid[document] else at
        span = at  # first byte of the lines that stay and are not copied yet
        cutting = False
        # Each turn takes a line; lines that stay are copied together, when one is cut or the text ends.
        while at < end:
            line = at
            at, words, suspect, longest = _scan_line(data, at, end, kinds, unicode)
            if not words:
                at = min(at + 1, end)
                continue
            first, last = trimmed(data, line, at, unicode)
            at = min(at + 1, end)
            long_word = 0 <= max_word_chars < longest
            if long_word:
                long_word = _has_long_word(data, first, last, max_word_chars, kinds, unicode)

            rule = -1
            if long_word:
                rule = LONG_WORD
            elif terminal and not c4_end(data, first, last, unicode):
                rule = NO_END
            elif words < min_words:
                rule = FEW_WORDS
            elif suspect:
                rule = _phrase(data, first, last, javascript, policy)
            while after < len(protected) and protected[after, 1] <= line:
                after += 1
            if rule < 0 or (after < len(protected) and protected[after, 0] < last):
                kept[document] += 1
                span = line if cutting else span
                cutting = False
                continue
            cut[rule, document] += 1
            if not cutting:
                for place in range(line - span):
                    left[size + place] = text[span + place]
                size += line - span
            cutting = True
        if cutting:
            while size > start and left[size - 1] <= SP:
                size -= 1
        else:
            for place in range(end - span):
                left[size + place] = text[span + place]
            size += end - span
        ends[document + 1] = size
    return left[:size].copy(), ends, cut, kept
