"""Splits UTF-8 text into pre-tokens like the regular expressions of byte-level BPE tokenizers, without regular
expressions.

`next_end` returns the end of the pre-token that begins at a byte; the next pre-token begins there. The alternatives of
the expressions exclude each other by the first two characters, except for contractions and the white space at the end,
so one character of lookahead replaces backtracking:

- A word is letters, with at most one character before them that is not a letter, number or newline (GPT-2: only a
  space).
- A word of o200k is upper-case letters, then lower-case ones; letters without case and marks are both. Backtracking
  gives: if no lower-case letter follows the upper-case ones, the word ends after the last character that is both, or
  else is upper-case throughout; and a mark before upper-case letters that is not followed by a lower-case letter is a
  pre-token alone.
- `'s 't 're 've 'm 'll 'd` are pre-tokens (o200k: part of the word before them); in any case except for GPT-2, U+017F
  (long s) included, as in Oniguruma, fancy-regex and `regex`.
- Numbers are cut every 1 or 3 digits (GPT-2: never, and a space may come first).
- Symbols form a run, with a space before and newlines after it (o200k: and slashes; GPT-2: neither).
- White space ends with its last newline (not GPT-2); without a newline, its last character belongs to the next
  pre-token. TAIL: at the end of the text it is one pre-token, with or without newlines.

Reference: Hugging Face `tokenizers`, `Split(Regex(...), "isolated")`; every cut equals its cut.
"""

import numpy as np
import numpy.typing as npt

from gristmill.kernels.bpe import pretoken_classes
from gristmill.kernels.bpe.pretokenize_ahead import CASED, NUMBER_CHARS, SPACED, TAIL, contraction_end, starts_ahead
from gristmill.kernels.compile import njit
from gristmill.kernels.memory import Bytes, trailing_zeros, view
from gristmill.kernels.text.ascii import CR, LF

GPT2 = SPACED
CL100K = 3
CL100K_TAIL = 3 | TAIL
QWEN2 = 1
O200K = 3 | CASED

_SPACE_BYTE, _APOSTROPHE, _SLASH = 0x20, 0x27, 0x2F

_ONE = np.uint64(1)


@njit(nogil=True, cache=True)
def _wide_class(data: Bytes, at: int, stop: int, table: Bytes) -> int:
    """Returns class << 3 | bytes of the character at a byte >= 0x80: one number, which a call returns in a register.

    Invalid UTF-8 is cut in some way, with no class where the text ends too early or the bytes are not a code point.
    """
    lead = data[at]
    size = 2 if lead < 0xE0 else 3 if lead < 0xF0 else 4
    if at + size > stop:
        return stop - at
    second = data[at + 1] & 0x3F
    if size == 2:
        point = (lead & 0x1F) << 6 | second
    elif size == 3:
        point = (lead & 0x0F) << 12 | second << 6 | (data[at + 2] & 0x3F)
    else:
        third = data[at + 2] & 0x3F
        point = (lead & 0x07) << 18 | second << 12 | third << 6 | (data[at + 3] & 0x3F)
        if point > 0x10FFFF:
            return size
    page: int = table[pretoken_classes.PAGES_AT + (point >> 8)]
    kind: int = table[pretoken_classes.CLASSES_AT + (page << 8 | point & 255)]
    return kind << 3 | size


@njit(nogil=True, cache=True)
def _class_at(data: Bytes, at: int, stop: int, table: Bytes) -> int:
    """Returns class << 3 | bytes of the character at `at`, which is below `stop`."""
    kind: int = table[data[at]]
    if kind & pretoken_classes.WIDE:
        return _wide_class(data, at, stop, table)
    return kind << 3 | 1


@njit(nogil=True, cache=True)
def _run_end(data: Bytes, at: int, stop: int, table: Bytes, mask: int, wanted: int) -> int:
    """Returns the end of the run of characters from `at` on that have a bit of `mask` (`wanted` 1) or none (`wanted`
    0).
    """
    # Go on character by character, while the bits match.
    while at < stop:
        packed = _class_at(data, at, stop, table)
        if ((packed >> 3 & mask) != 0) != (wanted != 0):
            break
        at += packed & 7
    return at


@njit(nogil=True, cache=True)
def _cased_word_end(data: Bytes, at: int, stop: int, table: Bytes) -> int:
    """Returns the end of the o200k word that begins at `at`, or `at` if there is none."""
    packed = _class_at(data, at, stop, table)
    before = packed >> 3
    if before & (pretoken_classes.NUMBER | pretoken_classes.NEWLINE):
        return at
    begin = at if before & pretoken_classes.LETTER else at + (packed & 7)
    here = begin
    both = at
    kind = 0
    # Read what may be upper case. `both` is the end of the last such character that may also be lower case.
    while here < stop:
        packed = _class_at(data, here, stop, table)
        kind = packed >> 3
        if not kind & pretoken_classes.UPPER:
            break
        here += packed & 7
        if kind & pretoken_classes.LOWER:
            both = here
    if here < stop and kind & pretoken_classes.LOWER:
        end = _run_end(data, here, stop, table, pretoken_classes.LOWER, 1)
    elif both > at:
        end = both
    elif begin > at and before & pretoken_classes.LOWER:
        end = begin  # a mark that no lower-case letter follows
    elif here > begin:
        end = here
    else:
        return at
    if end < stop and data[end] == _APOSTROPHE:
        return contraction_end(data, end, stop, 1)
    return end


@njit(nogil=True, cache=True)
def _number_end(data: Bytes, at: int, stop: int, most: int, table: Bytes) -> int:
    """Returns the end of the number that begins at `at`, after at most `most` characters; 0: no limit."""
    if most == 0:
        return _run_end(data, at, stop, table, pretoken_classes.NUMBER, 1)
    # Go on character by character, while there are digits and room.
    for _ in range(most):
        if at >= stop:
            break
        packed = _class_at(data, at, stop, table)
        if not packed >> 3 & pretoken_classes.NUMBER:
            break
        at += packed & 7
    return at


@njit(nogil=True, cache=True)
def _space_end(data: Bytes, at: int, stop: int, pattern: int, table: Bytes) -> int:
    """Returns the end of the pre-token of white space that begins at `at`."""
    here = at
    last = at
    newline = at
    # Read the whole run; remember its last character and the end of its last newline.
    while here < stop:
        packed = _class_at(data, here, stop, table)
        kind = packed >> 3
        if not kind & pretoken_classes.SPACE:
            break
        last = here
        here += packed & 7
        if kind & pretoken_classes.NEWLINE:
            newline = here
    if here == stop and (pattern & TAIL or newline == at or pattern & SPACED):
        return here
    if newline > at and not pattern & SPACED:
        return newline
    return last if last > at else here


@njit(nogil=True, cache=True)
def next_end(data: Bytes, at: int, stop: int, pattern: int, table: Bytes) -> int:
    """Returns the end of the pre-token that begins at byte `at`, which is below `stop`, the end of the text.

    `data` is a view of valid UTF-8, `table` a view of `pretoken_classes.class_table()`, and `pattern` one of the
    constants above. No byte at or after `stop` is read.
    """
    byte = data[at]
    packed = _class_at(data, at, stop, table)
    kind = packed >> 3
    after = at + (packed & 7)
    if pattern & CASED:
        end = _cased_word_end(data, at, stop, table)
        if end > at:
            return end
    else:
        if byte == _APOSTROPHE:
            end = contraction_end(data, at, stop, not pattern & SPACED)
            if end > at:
                return end
        if kind & pretoken_classes.LETTER:
            return _run_end(data, after, stop, table, pretoken_classes.LETTER, 1)
    if kind & pretoken_classes.NUMBER:
        return _number_end(data, at, stop, pattern & NUMBER_CHARS, table)
    following = 0
    if after < stop:
        following = _class_at(data, after, stop, table) >> 3
        if pattern & SPACED:
            if byte == _SPACE_BYTE and following & pretoken_classes.LETTER:
                return _run_end(data, after, stop, table, pretoken_classes.LETTER, 1)
            if byte == _SPACE_BYTE and following & pretoken_classes.NUMBER:
                return _run_end(data, after, stop, table, pretoken_classes.NUMBER, 1)
        elif following & pretoken_classes.LETTER and not kind & pretoken_classes.NEWLINE and not pattern & CASED:
            return _run_end(data, after, stop, table, pretoken_classes.LETTER, 1)
    if kind & pretoken_classes.SPACE and (
        byte != _SPACE_BYTE
        or after >= stop
        or following & (pretoken_classes.LETTER | pretoken_classes.NUMBER | pretoken_classes.SPACE)
    ):
        return _space_end(data, at, stop, pattern, table)

    end = _run_end(
        data, after, stop, table, pretoken_classes.LETTER | pretoken_classes.NUMBER | pretoken_classes.SPACE, 0
    )
    if pattern & SPACED:
        return end
    # Line ends after symbols belong to them; in the pattern CASED slashes do, too.
    while end < stop:
        byte = data[end]
        if byte != LF and byte != CR and (byte != _SLASH or not pattern & CASED):
            break
        end += 1
    return end


@njit(nogil=True, cache=True)
def next_ends(data: Bytes, at: int, stop: int, pattern: int, table: Bytes, ends: npt.NDArray[np.int64]) -> int:
    """Writes the ends of the pre-tokens from `at` on, as `next_end` gives them, to `ends`; returns their number.

    It stops at `stop`, or when fewer than 64 places of `ends` are left; `ends` must have at least 64. The caller
    continues from the last end. It is five times as fast as `next_end` on ASCII text.
    """
    most = len(ends) - 64
    count = 0
    # Each turn takes up to 64 bytes of ASCII at once, or one pre-token where that is not certain.
    while at < stop and count <= most:
        if at + 64 <= stop and data[at + 1] < 0x80:
            starts = starts_ahead(data, at, pattern)
            starts &= starts - _ONE
            if starts:
                first = at
                # Each set bit is the beginning of the next pre-token.
                while starts:
                    at = first + trailing_zeros(starts)
                    ends[count] = at
                    count += 1
                    starts &= starts - _ONE
                continue
        at = next_end(data, at, stop, pattern, table)
        ends[count] = at
        count += 1
    return count


@njit(nogil=True, cache=True)
def split(
    data: npt.NDArray[np.uint8],
    offsets: npt.NDArray[np.int32],
    pattern: int,
    table: npt.NDArray[np.uint8],
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Returns the ends of the pre-tokens of all texts, in bytes of `data`, and their number up to the end of each text.

    Text i is `data[offsets[i]:offsets[i + 1]]`; its pre-tokens are `counts[i]` to `counts[i + 1]`.
    """
    texts = len(offsets) - 1
    ends = np.empty(max(1024, (offsets[texts] - offsets[0]) // 3), np.int64)
    counts = np.zeros(texts + 1, np.int64)
    address = view(data)
    classes = view(table)
    size = 0
    # Each text is cut alone.
    for text in range(texts):
        at = int(offsets[text])
        stop = int(offsets[text + 1])
        # The list doubles before there could be too little room.
        while at < stop:
            if len(ends) - size < 512:
                ends = np.concatenate((ends, np.empty(len(ends), np.int64)))
            size += next_ends(address, at, stop, pattern, classes, ends[size:])
            at = ends[size - 1]
        counts[text + 1] = size
    return ends[:size].copy(), counts
