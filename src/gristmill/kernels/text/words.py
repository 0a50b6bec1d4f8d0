"""Splits UTF-8 text into tokens, words and marks, without building a string.

Gopher's and FineWeb's thresholds were set on the tokens of spaCy's rule tokenizer (which datatrove runs), so the splits
here are close to its splits for English, with rules that work in one left-to-right scan for every script:

- A chunk is a stretch without white space. It is split into tokens; a token with a letter or a number is a *word*, any
  other is a *mark*.
- Letters, numbers, combining marks and format characters (soft hyphen, joiners) belong together. Symbols at the start
  or end of a chunk are marks of one character each; `.` `-` `~` `|` `/` repeated are one mark.
- Symbols inside a chunk, with a word character on both sides, belong to the word (`foo.bar`, `a_b`, `AT&T`, `3.14`,
  `f(x`, `http://a.b/c?d`), but these split it: `-` between two letters or two numbers; `"`; `,` unless between numbers;
  `:` `=` `<` `>` `/` before a letter; `.` between a lower and an upper letter; `..`; `--`; `.` `!` `?` with another
  symbol after it; any symbol outside ASCII except `’`, and `–` between numbers. After `://`, or after a `.` before a
  lower-case letter (a host name), only the end of the chunk splits.
- `'s 't 'm 'd 'll 've 're` at the end of a word are words (it|'s); other apostrophes inside a word belong to it
  (O'Brien).
- `.` after a single letter belongs to it (J. / U.S. / e.g.).
- `-` `--` `/` `//` `~` `@` `^` `+` `\\` right before a word, and not right after one, belong to it (--help, /usr,
  @name).
- Each Han, kana, Yi... character is a word; Thai, Lao, Khmer, Myanmar... runs are split every 4 letters, near the mean
  length of a Thai word. Hangul and all other scripts have spaces and are split like Latin.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

from gristmill.kernels.compile import njit
from gristmill.kernels.memory import Bytes, eight_bytes_at, four_bytes_at, trailing_zeros, view
from gristmill.kernels.text import ascii, unicode_classes

PIECE_LETTERS = 4

_MUL = np.uint64(0x9E3779B97F4A7C15)
_MIX = np.uint64(0xD6E8FEB86659FD93)
_SHIFT = np.uint64(32)

_LOW_BITS = np.uint64(0x7F7F7F7F7F7F7F7F)
_HIGH_BITS = np.uint64(0x8080808080808080)
_CASE_BITS = np.uint64(0x2020202020202020)
_TO_A = np.uint64((0x80 - ord("a")) * 0x0101010101010101)
_PAST_Z = np.uint64((0x7F - ord("z")) * 0x0101010101010101)
_TO_0 = np.uint64((0x80 - ord("0")) * 0x0101010101010101)
_PAST_9 = np.uint64((0x7F - ord("9")) * 0x0101010101010101)


@njit(nogil=True, cache=True)
def decode(data: Bytes, at: int, stop: int) -> tuple[int, int]:
    """Returns the code point at a byte >= 0x80 and where the next begins; each byte that is not UTF-8 reads as
    U+FFFD.
    """
    lead = data[at]
    if lead < 0xC0:
        return 0xFFFD, at + 1
    if lead < 0xE0:
        if at + 2 > stop:
            return 0xFFFD, at + 1
        return (lead & 0x1F) << 6 | (data[at + 1] & 0x3F), at + 2
    if lead < 0xF0:
        if at + 3 > stop:
            return 0xFFFD, at + 1
        return (lead & 0x0F) << 12 | (data[at + 1] & 0x3F) << 6 | (data[at + 2] & 0x3F), at + 3
    if at + 4 > stop:
        return 0xFFFD, at + 1
    high = (lead & 0x07) << 18 | (data[at + 1] & 0x3F) << 12
    point = high | (data[at + 2] & 0x3F) << 6 | (data[at + 3] & 0x3F)
    if point > 0x10FFFF:
        return 0xFFFD, at + 1
    return point, at + 4


@njit(nogil=True, cache=True)
def _wide_class_at(data: Bytes, at: int, stop: int, unicode: unicode_classes.UnicodeTables) -> int:
    """Returns code point << 20 | bytes << 16 | class bits: one number, which a call returns in a register."""
    point, after = decode(data, at, stop)
    return point << 20 | (after - at) << 16 | unicode_classes.class_of(unicode, point)


@njit(nogil=True, cache=True)
def class_at(data: Bytes, at: int, stop: int, unicode: unicode_classes.UnicodeTables) -> tuple[int, int, int]:
    """Returns class bits, code point and end of the character at `at`, which is below `stop`; small enough to be
    inlined.
    """
    byte = data[at]
    if byte < 0x80:
        return unicode.classes[byte], byte, at + 1
    packed = _wide_class_at(data, at, stop, unicode)
    return packed & 0xFFFF, packed >> 20, at + (packed >> 16 & 15)


@njit(nogil=True, cache=True)
def last_character(data: Bytes, begin: int, end: int, unicode: unicode_classes.UnicodeTables) -> tuple[int, int, int]:
    """Returns class bits, code point and begin of the character that ends at `end`, which is above `begin`."""
    at = end - 1
    while at > begin and data[at] & 0xC0 == 0x80:
        at -= 1
    bits, point, _ = class_at(data, at, end, unicode)
    return bits, point, at


@njit(nogil=True, cache=True)
def trimmed(data: Bytes, begin: int, end: int, unicode: unicode_classes.UnicodeTables) -> tuple[int, int]:
    """Returns a span of text without the white space around it."""
    # Skip white space at the front.
    while begin < end:
        bits, _, after = class_at(data, begin, end, unicode)
        if not bits & unicode_classes.SPACE:
            break
        begin = after
    # Skip white space at the end.
    while begin < end:
        bits, _, at = last_character(data, begin, end, unicode)
        if not bits & unicode_classes.SPACE:
            break
        end = at
    return begin, end


@njit(nogil=True, cache=True)
def hash_bytes(data: Bytes, begin: int, end: int) -> np.uint64:
    """Returns a 64-bit hash, eight bytes per step; never 0, which sets use for an empty slot.

    The rest at the end is read with overlapping loads: a loop over single bytes would mispredict its end, which costs
    more than the hash of a word.
    """
    size = end - begin
    state = np.uint64(size) * _MUL
    if size >= 8:
        at = begin
        # Eight bytes at a time; the last eight follow below.
        while at < end - 8:
            state = (state ^ eight_bytes_at(data, at)) * _MUL
            state ^= state >> _SHIFT
            at += 8
        rest = eight_bytes_at(data, end - 8)
    elif size >= 4:
        rest = np.uint64(four_bytes_at(data, begin) | four_bytes_at(data, end - 4) << 32)
    elif size > 0:
        middle = data[begin + (size >> 1)]
        rest = np.uint64(data[begin] | middle << 8 | data[end - 1] << 16)
    else:
        rest = np.uint64(0)
    state = (state ^ rest) * _MUL
    state ^= state >> _SHIFT
    state *= _MIX
    state ^= state >> _SHIFT
    return max(state, np.uint64(1))


@njit(nogil=True, cache=True)
def contraction_end(
    data: Bytes,
    at: int,
    stop: int,
    unicode: unicode_classes.UnicodeTables,
) -> int:
    """Returns the end of `s t m d ll ve re` at `at` if it is not part of a longer word; 0 if there is none."""
    first = data[at] | 32
    end = 0
    if first == ascii.LOWER_S or first == ascii.LOWER_T or first == ascii.LOWER_M or first == ascii.LOWER_D:
        end = at + 1
    elif at + 1 < stop:
        second = data[at + 1] | 32
        if (first == ascii.LOWER_L and second == ascii.LOWER_L) or (
            (first == ascii.LOWER_V or first == ascii.LOWER_R) and second == ascii.LOWER_E
        ):
            end = at + 2
    if end == 0 or (end < stop and class_at(data, end, stop, unicode)[0] & unicode_classes.WORD):
        return 0
    return end


@njit(nogil=True, cache=True)
def _cuts(
    symbol: int,
    run: int,
    plain: bool,
    before: int,
    after: int,
) -> bool:
    """Whether `run` symbols in a chunk, the first of them `symbol`, split a word; `plain`: ASCII without `..`, `--`."""
    if run > 1:
        return not plain or symbol == ascii.DOT or symbol == ascii.EXCLAMATION or symbol == ascii.QUESTION
    if symbol >= 0x80:
        return not (
            symbol == 0x2019
            or (symbol == 0x2013 and before & unicode_classes.NUMBER and after & unicode_classes.NUMBER)
        )
    if symbol == ascii.DOT:
        return before & unicode_classes.LOWER != 0 and after & unicode_classes.UPPER != 0
    if symbol == ascii.COMMA:
        return not (before & unicode_classes.NUMBER and after & unicode_classes.NUMBER)
    if (
        symbol == ascii.COLON
        or symbol == ascii.EQUALS
        or symbol == ascii.LESS
        or symbol == ascii.GREATER
        or symbol == ascii.SLASH
    ):
        return after & unicode_classes.LETTER != 0
    if symbol == ascii.HYPHEN:
        return before & after & (unicode_classes.LETTER | unicode_classes.NUMBER) != 0
    return symbol == ascii.QUOTE


@njit(nogil=True, cache=True)
def _ascii_run(block: np.uint64) -> tuple[int, int]:
    """Counts how many of eight bytes, from the lowest on, are ASCII letters or digits, and returns their bits.

    It handles all bytes at once, in their highest bits: a loop would mispredict its end at every word.
    """
    low = block & _LOW_BITS
    folded = low | _CASE_BITS
    letters = (folded + _TO_A) & ~(folded + _PAST_Z) & ~block & _HIGH_BITS
    digits = (low + _TO_0) & ~(low + _PAST_9) & ~block & _HIGH_BITS
    others = ~(letters | digits) & _HIGH_BITS
    before = others ^ (others - np.uint64(1))
    lower = letters & (block << np.uint64(2)) & before
    upper = letters & ~(block << np.uint64(2)) & before
    bits: Any = (unicode_classes.LETTER | unicode_classes.LOWER) * np.int64(lower != 0) | (
        unicode_classes.LETTER | unicode_classes.UPPER
    ) * np.int64(upper != 0)
    return trailing_zeros(others) >> 3, bits | (unicode_classes.NUMBER | unicode_classes.DIGIT) * np.int64(
        digits & before != 0
    )


@njit(nogil=True, cache=True)
def token_end(
    data: Bytes,
    begin: int,
    stop: int,
    after_word: bool,
    unicode: unicode_classes.UnicodeTables,
) -> tuple[int, int, int]:
    """Returns end, characters and class bits of the token at `begin`, which is not white space.

    `after_word`: a word ends right at `begin`. The bits are those of all word characters of a word together (so LETTER
    says whether it has one), or those of the symbol of a mark.
    """
    bits, symbol, at = class_at(data, begin, stop, unicode)
    chars = 1
    if bits & unicode_classes.WORD == 0:
        mark_bits = bits
        repeats = (
            symbol == ascii.DOT
            or symbol == ascii.HYPHEN
            or symbol == ascii.TILDE
            or symbol == ascii.BAR
            or symbol == ascii.SLASH
        )
        # Marks such as `...` and `--` are one token.
        while repeats and at < stop and data[at] == symbol:
            at += 1
            chars += 1
        if at == stop:
            return at, chars, mark_bits
        if after_word:
            if symbol == ascii.APOSTROPHE or symbol == 0x2019:
                end = contraction_end(data, at, stop, unicode)
                if end:
                    return end, chars + end - at, unicode_classes.LETTER | unicode_classes.LOWER | unicode_classes.UPPER
            return at, chars, mark_bits
        attaches = symbol == ascii.HYPHEN or symbol == ascii.SLASH or symbol == ascii.TILDE or symbol == ascii.AT_SIGN
        if not (attaches or symbol == ascii.CARET or symbol == ascii.PLUS or symbol == ascii.BACKSLASH):
            return at, chars, mark_bits
        bits, _, after = class_at(data, at, stop, unicode)
        if bits & unicode_classes.WORD == 0 or bits & unicode_classes.UNIT:
            return at, chars, mark_bits
        at = after
        chars += 1
    if bits & unicode_classes.UNIT:
        # Marks on a character that is a token alone belong to it.
        while at < stop and data[at] >= 0x80:
            more, _, after = class_at(data, at, stop, unicode)
            if more & unicode_classes.WORD == 0 or more & unicode_classes.LETTER or more & unicode_classes.NUMBER:
                break
            at = after
            chars += 1
        return at, chars, bits

    pieces = 1 if bits & unicode_classes.PIECE else 0
    last = bits
    alone = True  # the word so far, since its last `.`, is one letter
    host = False
    # Each turn takes a run of ASCII, a character of the word, or signs inside it that do not end it (`don't`, `a.b.c`).
    while at < stop:
        if at + 8 <= stop:
            run, more = _ascii_run(eight_bytes_at(data, at))
            if run:
                bits |= more
                at += run
                chars += run
                alone = False
                last = unicode.classes[data[at - 1]]
                continue
        more, symbol, after = class_at(data, at, stop, unicode)
        if more & unicode_classes.WORD:
            if more & (unicode_classes.UNIT | unicode_classes.PIECE):
                if more & unicode_classes.UNIT or pieces >= PIECE_LETTERS:
                    break
                pieces += 1
            bits |= more
            last = more
            alone = False
            at = after
            chars += 1
            continue
        if more & unicode_classes.SPACE:
            break
        run = 1
        plain = symbol < 0x80
        previous = symbol
        over = after
        over_bits = 0
        over_symbol = 0
        # Find the end of the run of signs, and what follows it.
        while over < stop:
            over_bits, over_symbol, next_over = class_at(data, over, stop, unicode)
            if over_bits & (unicode_classes.WORD | unicode_classes.SPACE):
                break
            repeated = over_symbol == previous and (over_symbol == ascii.DOT or over_symbol == ascii.HYPHEN)
            plain = plain and over_symbol < 0x80 and not repeated
            previous = over_symbol
            over = next_over
            run += 1
        if over == stop or over_bits & (unicode_classes.SPACE | unicode_classes.UNIT):
            next_dot = after < stop and data[after] == ascii.DOT
            if symbol == ascii.DOT and alone and last & unicode_classes.LETTER and not next_dot:
                return after, chars + 1, bits
            break
        if not host:
            quote = run == 1 and (symbol == ascii.APOSTROPHE or symbol == 0x2019) and last & unicode_classes.LETTER != 0
            if quote and contraction_end(data, after, stop, unicode):
                break
            if _cuts(symbol, run, plain, last, over_bits):
                break
            scheme = run == 3 and symbol == ascii.COLON and data[at + 1] == ascii.SLASH and data[at + 2] == ascii.SLASH
            host = scheme or (run == 1 and symbol == ascii.DOT and over_bits & unicode_classes.LOWER != 0)
        alone = run == 1 and symbol == ascii.DOT
        chars += run
        at = over
        more, symbol, after = class_at(data, at, stop, unicode)
        pieces += 1 if more & unicode_classes.PIECE else 0
        bits |= more
        last = more
        at = after
        chars += 1
    return at, chars, bits


@njit(nogil=True, cache=True)
def scan_tokens(text: npt.NDArray[np.uint8], tables: unicode_classes.UnicodeTables) -> npt.NDArray[np.int64]:
    """Returns begin, end, characters and class bits of every token of one text, a row each."""
    data, stop, unicode = view(text), len(text), view(tables)
    found = np.empty((stop, 4), np.int64)
    count = 0
    at = 0
    word_end = -1
    # Each turn skips white space or takes one token.
    while at < stop:
        bits, _, after = class_at(data, at, stop, unicode)
        if bits & unicode_classes.SPACE:
            at = after
            continue
        end, chars, bits = token_end(data, at, stop, word_end == at, unicode)
        found[count] = at, end, chars, bits
        count += 1
        at = end
        word_end = end if bits & (unicode_classes.LETTER | unicode_classes.NUMBER) else -1
    return found[:count].copy()
