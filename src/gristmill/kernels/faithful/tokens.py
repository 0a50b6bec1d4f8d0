"""Splits a text into words, numbers, addresses and symbols, for the comparison of a text with its parent.

- A *word* is a run of letters, marks and numbers that begins with a letter; `'` and `’` inside it belong to it. A final
  `'s` does not count. Every Han or kana character is a word.
- A *number* begins with an ASCII digit. `1,234`, `1.234.567`, `1 234` (with a no-break space) and `1'234` have groups
  of thousands; `1.5` and `1,5` have decimals; `1.234` may be either. Other dotted digits (`1.2.3`) are compared as they
  are written, unless they are a date: `4.5.2021`. A number is a mantissa without trailing zeros, modulo 2^64, and a
  power of ten.
- An *address* begins with a scheme and `://`, or with `www.`, and ends before white space, a quote or a bracket.
- Any other character but white space is a *symbol*.
"""

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from gristmill.kernels.compile import njit
from gristmill.kernels.memory import Bytes, Ints, Uint64s, eight_bytes_at, four_bytes_at, trailing_zeros, view
from gristmill.kernels.text.ascii import APOSTROPHE, COLON, COMMA, DOT, LF, NINE, SLASH, ZERO
from gristmill.kernels.text.unicode_classes import (
    LETTER,
    SPACE,
    TERMINAL,
    UNIT,
    UPPER,
    WORD,
    UnicodeTables,
    UnicodeViews,
    lower_change,
    unicode_tables,
    unicode_views,
)
from gristmill.kernels.text.utf8 import put_utf8
from gristmill.kernels.text.words import class_at, decode, hash_bytes

NAME_WORD, PLAIN_NUMBER, ADDRESS, SYMBOL = range(4)
"""Kinds of tokens."""

SPACED, LINE, BLANK, FIRST, CAPITAL, HAS_DIGIT, THOUSANDS, DATED = (1 << bit for bit in range(8))
"""Flags: white space, a line end or an empty line before it; first word of a sentence; first letter is a capital; a
word with a digit; a number that may also have groups of thousands; a number that is a date."""

LITERAL = 9999
"""The power of ten of a number that is compared as it is written."""
MAX_WORD_BYTES = 64
"""Longer words are compared as they are written."""
STEM_CHARACTERS = 5
RIGHT_QUOTE = 0x2019
_MUL = np.uint64(0x9E3779B97F4A7C15)
_MIX = np.uint64(0xD6E8FEB86659FD93)
_HALF = np.uint64(32)
_LOW_BITS = np.uint64(0x7F7F7F7F7F7F7F7F)
_HIGH_BITS = np.uint64(0x8080808080808080)
_CASE_BITS = np.uint64(0x2020202020202020)
_TO_A = np.uint64((0x80 - ord("a")) * 0x0101010101010101)
_PAST_Z = np.uint64((0x7F - ord("z")) * 0x0101010101010101)
_TO_0 = np.uint64((0x80 - ord("0")) * 0x0101010101010101)
_PAST_9 = np.uint64((0x7F - ord("9")) * 0x0101010101010101)
NO_BREAK_SPACE = 0xA0
_ADDRESS_ENDS = np.zeros(128, np.bool_)
_ADDRESS_ENDS[list(b"<>\"'`()[]{}|\\")] = True
_ADDRESS_TAIL = np.zeros(128, np.bool_)
_ADDRESS_TAIL[list(b".,;:!?*_/")] = True
_KEEPS_SENTENCE = np.zeros(128, np.bool_)
_KEEPS_SENTENCE[list(b",-/&'%$")] = True
"""Symbols after which a sentence goes on."""


class Tokens(NamedTuple):
    """The tokens of one text, as arrays."""

    kinds: npt.NDArray[np.uint8]
    flags: npt.NDArray[np.uint8]
    begins: npt.NDArray[np.int64]
    ends: npt.NDArray[np.int64]
    keys: npt.NDArray[np.uint64]
    """The hash of a word in lower case or of an address, the mantissa of a number, the code point of a symbol."""
    stems: npt.NDArray[np.uint64]
    """The hash of the first letters of a word."""
    entries: npt.NDArray[np.int32]
    """The slot of a word in the lexicon, or -1; the power of ten of a number."""
    values: npt.NDArray[np.int32]
    """A number of at most four digits, or -1; a date as year, month and day: 20210504. Characters of a word."""
    digits: npt.NDArray[np.int32]
    """The number of digits of a plain number; 0 for one with separators."""


class TokenViews(NamedTuple):
    """Views of the arrays of `Tokens`."""

    kinds: Bytes
    flags: Bytes
    begins: Ints
    ends: Ints
    keys: Uint64s
    stems: Uint64s
    entries: Ints
    values: Ints
    digits: Ints


@njit(nogil=True, cache=True)
def token_views(tokens: Any) -> TokenViews:
    """Views of `Tokens`, which the caller's caller keeps alive."""
    return TokenViews(
        view(tokens.kinds),
        view(tokens.flags),
        view(tokens.begins),
        view(tokens.ends),
        view(tokens.keys),
        view(tokens.stems),
        view(tokens.entries),
        view(tokens.values),
        view(tokens.digits),
    )


@njit(nogil=True, cache=True)
def new_tokens(size: int) -> Tokens:
    """Room for the tokens of a text of `size` bytes."""
    room = size + 1
    return Tokens(
        np.empty(room, np.uint8),
        np.empty(room, np.uint8),
        np.empty(room, np.int64),
        np.empty(room, np.int64),
        np.empty(room, np.uint64),
        np.empty(room, np.uint64),
        np.empty(room, np.int32),
        np.empty(room, np.int32),
        np.empty(room, np.int32),
    )


@njit(nogil=True, cache=True, forceinline=True)
def _is_digit(data: Bytes, at: int, stop: int) -> bool:
    return at < stop and ZERO <= data[at] <= NINE


@njit(nogil=True, cache=True)
def _digits_end(data: Bytes, at: int, stop: int) -> int:
    while at < stop and ZERO <= data[at] <= NINE:
        at += 1
    return at


@njit(nogil=True, cache=True)
def _space_group(data: Bytes, at: int, stop: int) -> int:
    """Returns the bytes of a separator of thousands at `at` that is no ASCII mark; 0 if there is none."""
    if at < stop and data[at] == APOSTROPHE:
        return 1
    if at + 1 < stop and data[at] == 0xC2 and data[at + 1] == NO_BREAK_SPACE:
        return 2
    if at + 2 < stop and data[at] == 0xE2 and data[at + 1] == 0x80 and (data[at + 2] == 0xAF or data[at + 2] == 0x89):
        return 3
    return 0


@njit(nogil=True, cache=True)
def _groups_end(data: Bytes, at: int, stop: int, separator: int) -> int:
    """Returns the end of groups of exactly three digits from `at` on, each after the separator; 0: any space."""
    while at < stop:
        step = (1 if data[at] == separator else 0) if separator else _space_group(data, at, stop)
        if step == 0 or _digits_end(data, at + step, stop) != at + step + 3:
            break
        at += step + 3
    return at


@njit(nogil=True, cache=True)
def _dotted_date(data: Bytes, begin: int, end: int) -> Any:
    """Returns d.m.yyyy as yyyymmdd; -1 for anything else."""
    first = _digits_end(data, begin, end)
    second = _digits_end(data, first + 1, end)
    if first - begin > 2 or second - first - 1 > 2 or end - second != 5 or _digits_end(data, second + 1, end) != end:
        return -1
    parts = np.zeros(3, np.int64)
    part = 0
    for at in range(begin, end):
        if data[at] == DOT:
            part += 1
        else:
            parts[part] = parts[part] * 10 + data[at] - ZERO
    if 1 <= parts[0] <= 31 and 1 <= parts[1] <= 12 and 1000 <= parts[2] <= 2999:
        return parts[2] * 10000 + parts[1] * 100 + parts[0]
    return -1


@njit(nogil=True, cache=True)
def _number(data: Bytes, begin: int, stop: int) -> tuple[int, int, bool, bool]:
    """Returns the end of a number, where its decimals begin (its end if it has none), whether it may have groups of
    thousands after all, and whether it is compared as it is written.
    """
    whole = _digits_end(data, begin, stop)
    size = whole - begin
    groups = size <= 3 and data[begin] != ZERO
    if whole >= stop:
        return whole, whole, False, False
    mark = data[whole]
    if mark == DOT and _is_digit(data, whole + 1, stop):
        end = _digits_end(data, whole + 1, stop)
        if end < stop and data[end] == DOT and _is_digit(data, end + 1, stop):
            chain = end
            while chain < stop and data[chain] == DOT and _is_digit(data, chain + 1, stop):
                chain = _digits_end(data, chain + 1, stop)
            if groups and _groups_end(data, whole, stop, DOT) == chain:
                if chain < stop and data[chain] == COMMA and _is_digit(data, chain + 1, stop):
                    return _digits_end(data, chain + 1, stop), chain + 1, False, False
                return chain, chain, False, False
            return chain, chain, False, True
        three = groups and end - whole == 4
        if three and end < stop and data[end] == COMMA and _is_digit(data, end + 1, stop):
            return _digits_end(data, end + 1, stop), end + 1, False, False
        return end, whole + 1, three, False
    after = whole
    if groups:
        after = _groups_end(data, whole, stop, COMMA) if mark == COMMA else _groups_end(data, whole, stop, 0)
    if after > whole:
        is_mark = after < stop and (data[after] == DOT or (data[after] == COMMA and mark != COMMA))
        if is_mark and _is_digit(data, after + 1, stop):
            return _digits_end(data, after + 1, stop), after + 1, False, False
        return after, after, False, False
    if mark == COMMA and _is_digit(data, whole + 1, stop):
        end = _digits_end(data, whole + 1, stop)
        if not (end < stop and data[end] == COMMA and _is_digit(data, end + 1, stop)):
            return end, whole + 1, False, False
    return whole, whole, False, False


@njit(nogil=True, cache=True)
def _decimal(data: Bytes, begin: int, end: int, decimals: int) -> tuple[np.uint64, int]:
    """Returns mantissa and power of ten of the digits from `begin` to `end`; decimals begin at `decimals`."""
    mantissa = np.uint64(0)
    zeros = 0
    places = 0
    for at in range(begin, end):
        digit = data[at]
        if not ZERO <= digit <= NINE:
            continue
        places += at >= decimals
        if digit == ZERO:
            zeros += mantissa != 0
            continue
        for _ in range(zeros + 1):
            mantissa *= np.uint64(10)
        mantissa += np.uint64(digit - ZERO)
        zeros = 0
    return mantissa, (zeros - places if mantissa != 0 else 0)


@njit(nogil=True, cache=True)
def _address_end(data: Bytes, at: int, stop: int, unicode: UnicodeViews) -> int:
    begin = at
    while at < stop:
        bits, point, after = class_at(data, at, stop, unicode)
        if (
            bits & SPACE
            or (point < 0x80 and (point < 0x20 or _ADDRESS_ENDS[point]))
            or point == 0x201D
            or point == 0xBB
        ):
            break
        at = after
    while at > begin and data[at - 1] < 0x80 and _ADDRESS_TAIL[data[at - 1]]:
        at -= 1
    return at


@njit(nogil=True, cache=True)
def _lower_hash(data: Bytes, begin: int, end: int) -> np.uint64:
    """hash_bytes of ASCII letters, digits and apostrophes in lower case, which all have the bit for it."""
    size = end - begin
    state = np.uint64(size) * _MUL
    if size >= 8:
        at = begin
        while at < end - 8:
            state = (state ^ (eight_bytes_at(data, at) | _CASE_BITS)) * _MUL
            state ^= state >> _HALF
            at += 8
        rest = eight_bytes_at(data, end - 8) | _CASE_BITS
    elif size >= 4:
        rest = np.uint64(four_bytes_at(data, begin) | four_bytes_at(data, end - 4) << 32) | _CASE_BITS
    else:
        middle = data[begin + (size >> 1)]
        rest = np.uint64(data[begin] | middle << 8 | data[end - 1] << 16 | 0x202020)
    state = (state ^ rest) * _MUL
    state ^= state >> _HALF
    state *= _MIX
    state ^= state >> _HALF
    return max(state, np.uint64(1))


@njit(nogil=True, cache=True)
def _word_keys(
    data: Bytes, begin: int, end: int, is_ascii: bool, unicode: UnicodeViews, out: Bytes
) -> tuple[np.uint64, np.uint64, int]:
    """Returns the hash of a word in lower case, the hash of its first characters, and its number of characters."""
    if end - begin > MAX_WORD_BYTES:
        key = hash_bytes(data, begin, end)
        return key, key, end - begin
    if is_ascii:
        key = _lower_hash(data, begin, end)
        stem = _lower_hash(data, begin, begin + STEM_CHARACTERS) if end - begin > STEM_CHARACTERS else key
        return key, stem, end - begin
    size, at, characters, end_of_stem = 0, begin, 0, 0
    while at < end:
        byte = data[at]
        if byte < 0x80:
            out[size] = byte + 32 if 65 <= byte <= 90 else byte
            size += 1
            at += 1
        else:
            point, at = decode(data, at, end)
            size = put_utf8(out, size, APOSTROPHE if point == RIGHT_QUOTE else point + lower_change(unicode, point))
        characters += 1
        if characters == STEM_CHARACTERS:
            end_of_stem = size
    key = hash_bytes(out, 0, size)
    return key, hash_bytes(out, 0, end_of_stem) if end_of_stem else key, characters


@njit(nogil=True, cache=True, forceinline=True)
def _ascii_run(block: np.uint64) -> tuple[int, bool]:
    """Counts how many of eight bytes, from the lowest on, are ASCII letters or digits; whether one is a digit."""
    low = block & _LOW_BITS
    folded = low | _CASE_BITS
    letters = (folded + _TO_A) & ~(folded + _PAST_Z) & ~block & _HIGH_BITS
    digits = (low + _TO_0) & ~(low + _PAST_9) & ~block & _HIGH_BITS
    others = ~(letters | digits) & _HIGH_BITS
    return trailing_zeros(others) >> 3, digits & (others ^ (others - np.uint64(1))) != np.uint64(0)


@njit(nogil=True, cache=True)
def _word_end(data: Bytes, at: int, stop: int, unicode: UnicodeViews) -> tuple[int, int, bool, bool]:
    """Returns the end of a word, its end without a final `'s`, whether it has a digit, and whether it is ASCII."""
    has_digit, is_ascii = False, True
    while at < stop:
        if at + 8 <= stop:
            run, has_more = _ascii_run(eight_bytes_at(data, at))
            has_digit |= has_more
            at += run
            if run == 8:
                continue
        byte = data[at]
        if byte < 0x80:
            bits = unicode.classes[byte]
            if bits & WORD:
                has_digit |= byte <= NINE
                at += 1
                continue
            if byte != APOSTROPHE:
                break
            after = at + 1
        else:
            bits, point, after = class_at(data, at, stop, unicode)
            if bits & WORD:
                if bits & UNIT:
                    break
                is_ascii = False
                at = after
                continue
            if point != RIGHT_QUOTE:
                break
        # An apostrophe: the word goes on if a letter follows, and ends before a final s.
        if after >= stop:
            break
        bits, _, over = class_at(data, after, stop, unicode)
        if not bits & LETTER or bits & UNIT:
            break
        if data[after] | 32 == 115 and (over >= stop or not class_at(data, over, stop, unicode)[0] & WORD):
            return over, at, has_digit, is_ascii
        is_ascii &= byte == APOSTROPHE and data[after] < 0x80
        at = over
    return at, at, has_digit, is_ascii


@njit(nogil=True, cache=True)
def _find(keys: Uint64s, size: int, key: np.uint64) -> Any:
    """Returns the slot of a key, or -1."""
    mask = np.uint64(size - 1)
    slot = key & mask
    while keys[slot]:
        if keys[slot] == key:
            return np.int64(slot)
        slot = (slot + np.uint64(1)) & mask
    return -1


@njit(nogil=True, cache=True)
def scan(
    data: Bytes,
    begin: int,
    stop: int,
    unicode: UnicodeViews,
    lexicon: Uint64s,
    lexicon_size: int,
    tokens: TokenViews,
    out: Bytes,
) -> int:
    """Writes the tokens of data[begin:stop]; returns their number. `lexicon` is a set of word keys with open addressing
    whose size is a power of two; `out` has room for the lower case of a word.
    """
    count = 0
    at = begin
    flags = SPACED | LINE | BLANK
    fresh = True
    while at < stop:
        bits, point, after = class_at(data, at, stop, unicode)
        if bits & SPACE:
            if point == LF:
                flags |= BLANK if flags & LINE else LINE
                fresh = True
            flags |= SPACED
            at = after
            continue
        tokens.begins[count] = at
        tokens.stems[count] = 0
        tokens.digits[count] = 0
        if ZERO <= point <= NINE:
            end, decimals, thousands, literal = _number(data, at, stop)
            tokens.kinds[count] = PLAIN_NUMBER
            value = -1
            plain = _digits_end(data, at, stop) == end
            if plain:
                tokens.digits[count] = end - at
                if end - at <= 4:
                    value = 0
                    for digit in range(at, end):
                        value = value * 10 + data[digit] - ZERO
            mantissa, power = _decimal(data, at, end, decimals)
            if literal:
                mantissa, power = hash_bytes(data, at, end), LITERAL
                value = _dotted_date(data, at, end)
                flags |= DATED if value >= 0 else 0
            tokens.keys[count] = mantissa
            tokens.entries[count] = power
            tokens.values[count] = value
            flags |= THOUSANDS if thousands else 0
        elif bits & WORD:
            if bits & UNIT:
                end, last, has_digit, is_ascii = after, after, False, False
            else:
                end, last, has_digit, is_ascii = _word_end(data, after, stop, unicode)
                is_ascii &= point < 0x80
            scheme = end + 2 < stop and data[end] == COLON and data[end + 1] == SLASH and data[end + 2] == SLASH
            bare = end - at == 3 and end + 1 < stop and data[end] == DOT
            for place in range(at, at + 3 if bare else at):
                bare &= data[place] | 32 == 119  # www
            flags |= CAPITAL if bits & UPPER else 0
            if scheme or bare:
                start = end + 3 if scheme else at
                end = max(_address_end(data, start, stop, unicode), end)
                if scheme and start + 4 < end and data[start] | 32 == 119 and data[start + 1] | 32 == 119:
                    start += 4 if data[start + 2] | 32 == 119 and data[start + 3] == DOT else 0
                elif bare:
                    start += 4
                tokens.kinds[count] = ADDRESS
                tokens.keys[count] = hash_bytes(data, min(start, end), end)
                tokens.entries[count] = -1
                tokens.values[count] = 0
            else:
                key, stem, characters = _word_keys(data, at, last, is_ascii, unicode, out)
                tokens.kinds[count] = NAME_WORD
                tokens.keys[count] = key
                tokens.stems[count] = stem
                tokens.entries[count] = _find(lexicon, lexicon_size, key)
                tokens.values[count] = characters
                flags |= HAS_DIGIT if has_digit else 0
        else:
            end = after
            tokens.kinds[count] = SYMBOL
            tokens.keys[count] = point
            tokens.entries[count] = 1 if bits & TERMINAL else 0
            tokens.values[count] = 0
        if tokens.kinds[count] == SYMBOL:
            fresh |= not (point < 0x80 and _KEEPS_SENTENCE[point])
        else:
            flags |= FIRST if fresh else 0
            fresh = False
        tokens.flags[count] = flags
        tokens.ends[count] = end
        count += 1
        flags = 0
        at = end
    return count


@njit(nogil=True, cache=True)
def _keys_of(text: npt.NDArray[np.uint8], tables: UnicodeTables, buffer: npt.NDArray[np.uint8]) -> np.uint64:
    return _word_keys(view(text), 0, len(text), False, unicode_views(tables), view(buffer))[0]


def word_key(word: str) -> int:
    """Returns the key of a word, for a lexicon."""
    return int(
        _keys_of(np.frombuffer(word.encode(), np.uint8), unicode_tables(), np.zeros(4 * MAX_WORD_BYTES, np.uint8))
    )
