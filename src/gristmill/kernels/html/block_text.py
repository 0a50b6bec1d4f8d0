"""Copies text between tags to a buffer: decodes references, folds white space, and counts characters."""

from typing import Any

import numpy as np

from gristmill.kernels.compile import njit
from gristmill.kernels.html.entities import reference
from gristmill.kernels.memory import Bytes
from gristmill.kernels.memory_writes import put_four_bytes
from gristmill.kernels.text.ascii import AMPERSAND, CR, LF, SP
from gristmill.kernels.text.words import PIECE_LETTERS

SPACE, DIGIT, UPPER, COMMA, SIGN, END, CLOSER, SPECIAL = (1 << bit for bit in range(8))
KINDS = np.zeros(256, np.uint8)
"""The class of an ASCII byte. END: it may end a sentence; CLOSER: it may follow such an end; SPECIAL: needs care."""
KINDS[[0x09, 0x0A, 0x0C, 0x0D, 0x20]] = SPACE
KINDS[0x30:0x3A] = DIGIT
KINDS[0x41:0x5B] = UPPER
KINDS[list(b",;:")] = COMMA
KINDS[list(b"|/>\\")] = SIGN
KINDS[list(b".!?")] = END
KINDS[list(b"\"')]")] = CLOSER
KINDS[[*range(0x09), 0x0B, *range(0x0E, 0x20), 0x7F, 0x26, *range(0x80, 0x100)]] = SPECIAL

(
    T_CHARS,
    T_WORDS,
    T_UNITS,
    T_ENDS,
    T_COMMAS,
    T_DIGITS,
    T_UPPER,
    T_SHORT,
    T_SIGNS,
    T_CAPITALS,
    T_LENGTH,
    T_GAP,
    T_FIRST,
    T_LAST,
    T_BEGIN,
    T_PIECES,
    T_RUN,
    TALLIES,
) = range(18)
"""Counters of a block: see the columns of the same names. LENGTH: characters of the word so far; GAP: white space that
is not yet written; BEGIN: where the block's text begins; PIECES: letters of scripts like Thai, PIECE_LETTERS per word;
RUN: those since the last white space or sentence mark."""

UNIT, PIECE, SILENT = 1, 2, 3
"""How a character of a script without spaces counts: as half a word, as a part of one, or not at all."""
_FIRST, _LAST = 0x0E00, 0x17FF
_SCRIPTS = np.zeros(_LAST + 1 - _FIRST, np.uint8)
"""For Thai, Lao, Tibetan, Burmese and Khmer: letters are pieces, and signs around them do not count. In Tibetan
only the mark between two syllables counts, as a word has two syllables on average."""
for _begin, _end in ((0x0E00, 0x0E4E), (0x0E80, 0x0ECE), (0x0F00, 0x0FBC), (0x1000, 0x104F), (0x1780, 0x17DD)):
    _SCRIPTS[_begin - _FIRST : _end + 1 - _FIRST] = SILENT
for _begin, _end in (
    *((0x0E01, 0x0E30), (0x0E32, 0x0E33), (0x0E40, 0x0E46), (0x0E81, 0x0EB0), (0x0EB2, 0x0EB3), (0x0EBD, 0x0EC6)),
    *((0x0EDC, 0x0EDF), (0x1000, 0x102A), (0x103F, 0x103F), (0x1050, 0x1055), (0x1780, 0x17B3)),
):
    _SCRIPTS[_begin - _FIRST : _end + 1 - _FIRST] = PIECE
_SCRIPTS[[mark - _FIRST for mark in (0x0F0B, 0x0F0C, 0x0F0D)]] = UNIT
_SENTENCE_LETTERS = 8 * PIECE_LETTERS
"""Letters before a space that ends a sentence: Thai and Lao have no mark for it, and few spaces elsewhere."""


@njit(nogil=True, cache=True, forceinline=True)
def _wide_kind(code: int) -> int:
    """Returns the class of a non-ASCII character; 0: a letter, or anything else."""
    if code < 0x2000:
        if code == 0xA0 or code == 0x1680:
            return SPACE
        if 0xC0 <= code <= 0xDE or 0x391 <= code <= 0x3A9 or 0x410 <= code <= 0x42F:
            return UPPER
        if code == 0xB7 or code == 0xBB or code == 0xAB or code == 0xA9 or code == 0xAE:
            return SIGN
        if code == 0x60C or code == 0x61B:
            return COMMA
        if code == 0x61F or code == 0x6D4 or code == 0x964:
            return END
        if code == 0x0F0D or code == 0x0F0E or code == 0x104B or code == 0x17D4 or code == 0x17D5:
            return END
        if code == 0x104A or code == 0x17D6:
            return COMMA
        return 0
    if code <= 0x206F:
        if code <= 0x200A or code == 0x202F or code == 0x205F or code == 0x2028 or code == 0x2029:
            return SPACE
        if code == 0x2026:
            return END
        if code == 0x201D or code == 0x2019:
            return CLOSER
        if code == 0x2022 or code == 0x203A or code == 0x2039:
            return SIGN
        return 0
    if code == 0x3000:
        return SPACE
    if code == 0x3002 or code == 0xFF01 or code == 0xFF1F or code == 0xFF0E:
        return END
    if code == 0x3001 or code == 0xFF0C or code == 0xFF1A or code == 0xFF1B:
        return COMMA
    if code == 0x300D or code == 0x300F:
        return CLOSER
    if 0x2190 <= code <= 0x27BF:
        return SIGN
    return 0


@njit(nogil=True, cache=True, forceinline=True)
def _script(code: int) -> int:
    """Returns how a character counts in a script without spaces; 0: the script has spaces."""
    if code <= _LAST:
        return int(_SCRIPTS[code - _FIRST]) if code >= _FIRST else 0
    if code == 0x200B:  # the zero-width space: a word begins after it
        return SILENT
    is_unit = 0x3040 <= code <= 0x30FF or 0x3400 <= code <= 0x9FFF or 0xF900 <= code <= 0xFAFF
    return UNIT if is_unit or 0x20000 <= code < 0x40000 else 0  # Chinese and Japanese


@njit(nogil=True, cache=True, forceinline=True)
def end_word(tally: np.ndarray) -> None:
    """Ends a word, at white space or at the end of a block."""
    if tally[T_LENGTH]:
        tally[T_SHORT] += tally[T_LENGTH] <= 3
        tally[T_ENDS] += tally[T_LAST] & END != 0
        tally[T_LENGTH] = 0
    if tally[T_RUN]:
        if tally[T_RUN] >= _SENTENCE_LETTERS:
            tally[T_ENDS] += 1
            tally[T_LAST] = END
        tally[T_RUN] = 0


@njit(nogil=True, cache=True, forceinline=True)
def end_line(text: Bytes, end: int, tally: np.ndarray) -> int:
    """Ends a line of code that is a separate box; returns the end of the text."""
    if end > tally[T_BEGIN] and text[end - 1] != LF:
        text[end] = LF
        end_word(tally)
        return end + 1
    return end


@njit(nogil=True, cache=True, forceinline=True)
def _count(tally: np.ndarray, kind: int, script: int) -> None:
    tally[T_CHARS] += 1
    if tally[T_CHARS] == 1:
        tally[T_FIRST] = kind
    if script:
        tally[T_UNITS] += script == UNIT
        tally[T_PIECES] += script == PIECE
        tally[T_RUN] += script == PIECE
        tally[T_LENGTH] = 0
    else:
        if tally[T_LENGTH] == 0:
            tally[T_WORDS] += 1
            tally[T_CAPITALS] += kind == UPPER
        tally[T_LENGTH] += 1
    if kind:
        tally[T_DIGITS] += kind == DIGIT
        tally[T_UPPER] += kind == UPPER
        tally[T_COMMAS] += kind == COMMA
        tally[T_SIGNS] += kind == SIGN
    # A quotation mark after the end of a sentence does not undo it.
    if kind != CLOSER or not tally[T_LAST] & END:
        tally[T_LAST] = kind


@njit(nogil=True, cache=True, forceinline=True)
def _decoded(data: Bytes, at: int, stop: int) -> tuple[int, int]:
    """Returns the code point at `at` and its bytes; a byte that is not UTF-8 counts as one character."""
    lead = data[at]
    if lead < 0xE0:
        if at + 1 < stop:
            return (lead & 31) << 6 | data[at + 1] & 63, 2
    elif lead < 0xF0:
        if at + 2 < stop:
            return (lead & 15) << 12 | (data[at + 1] & 63) << 6 | data[at + 2] & 63, 3
    elif at + 3 < stop:
        high = (lead & 7) << 18 | (data[at + 1] & 63) << 12
        return high | (data[at + 2] & 63) << 6 | data[at + 3] & 63, 4
    return 0xFFFD, 1


@njit(nogil=True, cache=True, forceinline=True)
def put_gap(text: Bytes, end: int, tally: np.ndarray) -> int:
    """Writes the pending white space if it follows a word."""
    if tally[T_GAP]:
        tally[T_GAP] = 0
        if end > tally[T_BEGIN] and text[end - 1] > SP:
            text[end] = SP
            return end + 1
    return end


@njit(nogil=True, cache=True)
def _special(
    data: Bytes, at: int, stop: int, text: Bytes, end: int, tally: np.ndarray, verbatim: bool
) -> tuple[int, int]:
    """Handles a reference, a control character, or a non-ASCII character."""
    if data[at] == AMPERSAND:
        value, size, after = reference(data, at, stop)
        if size == 0:
            end = put_gap(text, end, tally)
            _count(tally, 0, 0)
            text[end] = AMPERSAND
            return at + 1, end + 1
        first: Any = np.int64(value & np.uint64(0xFF))
        code: Any = first
        if first >= 0xF0:
            code = 0x10000
        elif first >= 0xE0:
            code = (first & 15) << 12 | np.int64(value >> np.uint64(8) & np.uint64(63)) << 6
            code |= np.int64(value >> np.uint64(16) & np.uint64(63))
        elif first >= 0x80:
            code = (first & 31) << 6 | np.int64(value >> np.uint64(8) & np.uint64(63))
    else:
        value, after = np.uint64(0), at
        code = data[at]
        size = 1
        if code >= 0x80:
            code, size = _decoded(data, at, stop)
        for place in range(size):
            value |= np.uint64(data[at + place]) << np.uint64(8 * place)
        after = at + size
    if code < 0x80:
        kind: Any = np.int64(KINDS[code])
        if kind == SPECIAL and code != 0x26:
            return after, end  # a control character
        kind &= 0x7F
    else:
        kind = _wide_kind(code)
    if kind == SPACE:
        end_word(tally)
        if not verbatim:
            tally[T_GAP] = 1
            return after, end
        text[end] = 0x20 if code >= 0x80 else 0x0A if code > 0x09 and code < 0x20 else code
        return after, end + 1
    end = put_gap(text, end, tally)
    script = _script(code)
    _count(tally, kind, script)
    if kind == END and (script or code >= 0x3000):
        tally[T_ENDS] += 1
        tally[T_LENGTH] = tally[T_RUN] = 0
    put_four_bytes(text, end, np.int64(value & np.uint64(0xFFFFFFFF)))
    if size > 4:
        put_four_bytes(text, end + 4, np.int64(value >> np.uint64(32)))
    return after, end + size


@njit(nogil=True, cache=True)
def take_text(data: Bytes, at: int, stop: int, text: Bytes, end: int, tally: Any, verbatim: bool) -> int:
    """Appends the text `data[at:stop]`, which has no tags in it, after `end`; returns the new end.

    The buffer needs room for 6 bytes for every 5 of these, and 8 more.
    """
    # Each turn writes a special character, white space, or a run of plain characters.
    while at < stop:
        byte = data[at]
        kind: Any = np.int64(KINDS[byte])
        if kind == SPECIAL:
            at, end = _special(data, at, stop, text, end, tally, verbatim)
            continue
        at += 1
        if kind == SPACE:
            end_word(tally)
            if not verbatim:
                tally[T_GAP] = 1
            elif byte != CR:
                text[end] = 0x0A if byte == 0x0C else byte
                end += 1
            elif at >= stop or data[at] != LF:
                text[end] = LF
                end += 1
            continue
        end = put_gap(text, end, tally)
        _count(tally, kind, 0)
        text[end] = byte
        end += 1
        run = at
        # Plain characters are only copied, and counted after the run.
        while at < stop and not KINDS[data[at]]:
            text[end] = data[at]
            end += 1
            at += 1
        if at > run:
            tally[T_CHARS] += at - run
            tally[T_LENGTH] += at - run
            tally[T_LAST] = 0
    return end
