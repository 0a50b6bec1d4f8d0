"""Splits a text into words, numbers, addresses and symbols, for the comparison of a text with its parent.

- A *word* is a run of letters, marks and numbers that begins with a letter; `'` and `’` inside it belong to it. A final
  `'s` does not count. Every Han or kana character is a word.
- A *number* begins with an ASCII digit (`numbers.py`).
- An *address* begins with a scheme and `://`, or with `www.`, and ends before white space, a quote or a bracket.
- Any other character but white space is a *symbol*.
"""

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from gristmill.kernels.compile import njit
from gristmill.kernels.faithful.lexicon import (
    HAS_DATE,
    HAS_NUMBER,
    HAS_OPPOSITE,
    NEGATION,
    STOP,
    VOTES,
    Lexicon,
    traits_of,
)
from gristmill.kernels.faithful.numbers import decimal_of, digits_end, dotted_date, read_digits, value_of
from gristmill.kernels.faithful.word_keys import (
    BLOCK,
    WideWord,
    ascii_keys,
    ascii_run,
    character_key,
    hash_word,
    read_word,
)
from gristmill.kernels.memory import Bytes, eight_bytes_at
from gristmill.kernels.text.ascii import COLON, DOT, LF, LOWER_A, NINE, SLASH, SP, ZERO
from gristmill.kernels.text.unicode_classes import SPACE, TERMINAL, UNIT, UPPER, WORD, UnicodeTables
from gristmill.kernels.text.words import class_at

IS_WORD, IS_NUMBER, IS_ADDRESS, IS_SYMBOL = (1 << bit for bit in range(4))
"""Kinds of tokens, in the lowest bits of their traits."""
SPACED, LINE, BLANK, FIRST = (1 << bit for bit in range(4, 8))
"""White space, a line end or an empty line before it; first word of a sentence."""
CAPITAL, HAS_DIGIT, CONTENT = (1 << bit for bit in range(8, 11))
"""A word whose first letter is a capital; with a digit; of at least three letters and with content."""
THOUSANDS, DATED = (1 << bit for bit in range(11, 13))
"""A number that may also have groups of thousands; a number that is a date."""
BREAKS = 1 << 13
"""A symbol that ends a sentence or a statement."""
LETTERS_AT, MOST_LETTERS = 14, 4
"""Two bits with the number of a word's characters - 1, at most 3."""
QUOTES, MARKS_CODE, OPENS = (1 << bit for bit in range(16, 19))
"""A symbol that may open a quotation, or code and formulas; a parenthesis or bracket that opens. Words have traits of
the lexicon there."""
ENDS_SENTENCE = 1 << 19
_PAIRED = CONTENT | NEGATION | HAS_OPPOSITE | BREAKS | BLANK
"""Tokens that matter for pairs of words."""
_FACTUAL = IS_NUMBER | IS_ADDRESS | HAS_DIGIT | HAS_NUMBER | HAS_DATE
"""Tokens that may begin a fact."""

VOTING_WORDS = 500
"""Words that decide which language a text is in."""
LEAST_LETTERS = 3
"""Letters of a content word."""
LITERAL = 9999
"""The power of ten of a number that is compared as it is written."""
_VALUE_DIGITS = 4
_LETTER_W = ord("w")
_WWW = 3

LEFT_DOUBLE_QUOTE, RIGHT_DOUBLE_QUOTE, LOW_DOUBLE_QUOTE = 0x201C, 0x201D, 0x201E
LEFT_GUILLEMET, RIGHT_GUILLEMET = 0xAB, 0xBB
LEFT_CORNER, LEFT_WHITE_CORNER = 0x300C, 0x300E


def _table(symbols: bytes, value: int = 1) -> npt.NDArray[np.int64]:
    """A value for some ASCII characters; 0 for the others."""
    found = np.zeros(256, np.int64)
    found[list(symbols)] = value
    return found


_LETTERS = bytes(byte for byte in range(128) if chr(byte).isalpha())
_SYMBOLS = bytes(byte for byte in range(0x21, 0x7F) if not chr(byte).isalnum())
_LETTER, _SYMBOL, _SPACE = 1, 2, 3
_KINDS = _table(_LETTERS, _LETTER) + _table(_SYMBOLS, _SYMBOL) + _table(b" ", _SPACE)
"""Kinds of bytes; 0: all others."""
_SPACES = np.uint64(0x2020202020202020)
_ADDRESS_ENDS = _table(b"<>\"'`()[]{}|\\" + bytes(range(32)))
_ADDRESS_TAIL = _table(b".,;:!?*_/")
_FRESH = _table(_SYMBOLS, FIRST) - _table(b",-/&'%$", FIRST)
"""FIRST for symbols after which a word is the first of a sentence."""
_WORD_ENDS = _table(bytes(byte for byte in range(128) if not chr(byte).isalnum() and byte not in b"':"))
"""Characters that end a word whatever follows them; a dot also continues `www`."""
_SYMBOL_TRAITS = (
    _table(_SYMBOLS, IS_SYMBOL)
    + _table(b'"', QUOTES)
    + _table(b"`$\\", MARKS_CODE)
    + _table(b"([", OPENS)
    + _table(b":;.!?", BREAKS)
    + _table(b".!?", ENDS_SENTENCE)
)


class Tokens(NamedTuple):
    """The tokens of one text, as arrays."""

    traits: npt.NDArray[np.int64]
    """The kind, flags, and what the lexicon knows."""
    begins: npt.NDArray[np.int32]
    ends: npt.NDArray[np.int32]
    keys: npt.NDArray[np.uint64]
    """The hash of a word in lower case or of an address, the mantissa of a number, the code point of a symbol."""
    stems: npt.NDArray[np.uint64]
    """The first letters of a word."""
    powers: npt.NDArray[np.int32]
    """The power of ten of a number."""
    values: npt.NDArray[np.int32]
    """A number of at most four digits, or -1; a date as year, month and day: 20210504."""
    digits: npt.NDArray[np.int32]
    """The number of digits of a plain number; 0 for one with separators."""
    paired: npt.NDArray[np.int32]
    """The tokens that matter for pairs of words."""
    factual: npt.NDArray[np.int32]
    """The tokens that may begin a fact."""
    voting: npt.NDArray[np.int32]
    """The words that are frequent in a language, among the first VOTING_WORDS."""


class TokenCounts(NamedTuple):
    """How many tokens there are."""

    tokens: int
    paired: int
    factual: int
    voting: int
    symbols: int
    """The traits of all symbols together: what need not be searched for."""


@njit(nogil=True, cache=True)
def new_tokens(size: int) -> Tokens:
    """Room for the tokens of a text of `size` bytes."""
    room = size + 1
    return Tokens(
        np.empty(room, np.int64),
        np.empty(room, np.int32),
        np.empty(room, np.int32),
        np.empty(room, np.uint64),
        np.empty(room, np.uint64),
        np.empty(room, np.int32),
        np.empty(room, np.int32),
        np.empty(room, np.int32),
        np.empty(room, np.int32),
        np.empty(room, np.int32),
        np.empty(VOTING_WORDS + 1, np.int32),
    )


@njit(nogil=True, cache=True)
def _address_end(data: Bytes, at: int, stop: int, unicode: UnicodeTables) -> int:
    begin = at
    # An address goes on to white space or a sign that ends it.
    while at < stop:
        bits, point, after = class_at(data, at, stop, unicode)
        if bits & SPACE or (point < 0x80 and _ADDRESS_ENDS[point]):
            break
        if point == RIGHT_DOUBLE_QUOTE or point == RIGHT_GUILLEMET:
            break
        at = after
    while at > begin and data[at - 1] < 0x80 and _ADDRESS_TAIL[data[at - 1]]:
        at -= 1
    return at


@njit(nogil=True, cache=True)
def _is_www(data: Bytes, at: int) -> bool:
    w = True
    for place in range(at, at + _WWW):
        w &= data[place] | 32 == _LETTER_W
    return w


@njit(nogil=True, cache=True)
def _address(data: Bytes, at: int, end: int, stop: int, unicode: UnicodeTables) -> tuple[int, int]:
    """Returns where the address that begins with the word from `at` to `end` ends, and where its host begins, without
    `www.`; (0, 0) if it is no address.
    """
    if end + 2 < stop and data[end] == COLON and data[end + 1] == SLASH and data[end + 2] == SLASH:
        start = end + 3
        end = max(_address_end(data, start, stop, unicode), end)
        if start + _WWW + 1 < end and _is_www(data, start) and data[start + _WWW] == DOT:
            start += _WWW + 1
        return end, min(start, end)
    if end - at == _WWW and end + 1 < stop and data[end] == DOT and _is_www(data, at):
        end = max(_address_end(data, at, stop, unicode), end)
        return end, min(at + _WWW + 1, end)
    return 0, 0


@njit(nogil=True, cache=True)
def _put_number(data: Bytes, at: int, stop: int, tokens: Tokens, count: int) -> tuple[int, int]:
    """Writes the number at `at`; returns its end and traits."""
    number = read_digits(data, at, stop)
    traits, value, digits = IS_NUMBER, -1, 0
    if digits_end(data, at, stop) == number.end:
        digits = number.end - at
        value = value_of(data, at, number.end) if digits <= _VALUE_DIGITS else -1
    mantissa, power = decimal_of(data, at, number)
    if number.is_literal:
        mantissa, power = hash_word(data, at, number.end), LITERAL
        value = dotted_date(data, at, number.end)
        traits |= DATED if value >= 0 else 0
    tokens.keys[count], tokens.powers[count] = mantissa, power
    tokens.values[count], tokens.digits[count] = value, digits
    return number.end, traits | (THOUSANDS if number.may_have_thousands else 0)


@njit(nogil=True, cache=True)
def _put_word(
    data: Bytes,
    at: int,
    stop: int,
    unicode: UnicodeTables,
    lexicon: Lexicon,
    tokens: Tokens,
    count: int,
    out: Bytes,
) -> tuple[int, int]:
    """Writes the word or address at `at`, whatever its characters; returns its end and traits."""
    bits, _, after = class_at(data, at, stop, unicode)
    if bits & UNIT:
        key = character_key(data, at, after - at) if at + BLOCK <= stop else hash_word(data, at, after)
        word = WideWord(after, False, key, key, 1)
    else:
        word = read_word(data, at, stop, unicode, out)
    traits = CAPITAL if bits & UPPER else 0
    over, host = _address(data, at, word.end, stop, unicode)
    if over:
        tokens.keys[count] = hash_word(data, host, over)
        return over, traits | IS_ADDRESS
    tokens.keys[count], tokens.stems[count] = word.key, word.stem
    traits |= IS_WORD | (HAS_DIGIT if word.has_digit else 0) | traits_of(lexicon, word.key)
    return word.end, _with_size(traits, word.characters)


@njit(nogil=True, cache=True, forceinline=True)
def _with_size(traits: int, characters: int) -> int:
    """Returns the traits of a word with its number of characters, and whether it has content."""
    has_content = (characters >= LEAST_LETTERS) & (traits & (STOP | NEGATION) == 0)
    return traits | (min(characters, MOST_LETTERS) - 1) << LETTERS_AT | has_content * CONTENT


@njit(nogil=True, cache=True, forceinline=True)
def letters_of(traits: int) -> int:
    """Returns the number of a word's characters, at most MOST_LETTERS."""
    return (traits >> LETTERS_AT & MOST_LETTERS - 1) + 1


@njit(nogil=True, cache=True)
def _symbol_traits(point: int, bits: int) -> Any:
    """Returns the traits of a symbol that is not a printable ASCII character."""
    quotes = point == LEFT_DOUBLE_QUOTE or point == LOW_DOUBLE_QUOTE or point == LEFT_GUILLEMET
    quotes |= point == LEFT_CORNER or point == LEFT_WHITE_CORNER
    return IS_SYMBOL | (QUOTES if quotes else 0) | ((BREAKS | ENDS_SENTENCE) if bits & TERMINAL else 0)


@njit(nogil=True, cache=True)
def scan(
    data: Bytes,
    begin: int,
    stop: int,
    unicode: UnicodeTables,
    lexicon: Lexicon,
    tokens: Tokens,
    out: Bytes,
) -> TokenCounts:
    """Writes the tokens of data[begin:stop]. `out` has room for the lower case of a word."""
    count = paired = factual = voting = words = symbols = 0
    at = begin
    flags = SPACED | LINE | BLANK
    fresh = FIRST
    # Each turn reads one token: first the common kinds (words in ASCII, symbols), then the others.
    while at < stop:
        byte = data[at]
        kind = _KINDS[byte]
        if kind == _SPACE:
            flags |= SPACED
            at += 1
            while at + BLOCK <= stop and eight_bytes_at(data, at) == _SPACES:
                at += BLOCK
            continue
        # Most tokens are words of fewer than 16 ASCII letters, and ASCII symbols.
        run = after = 0
        if kind == _LETTER and at + 2 * BLOCK < stop:
            block, more = eight_bytes_at(data, at), eight_bytes_at(data, at + BLOCK)
            run, has_digit = ascii_run(block)
            if run == BLOCK:
                rest, has_more = ascii_run(more)
                run, has_digit = run + rest, has_digit | has_more
            after = data[at + run]
        if 0 < run < 2 * BLOCK and _WORD_ENDS[after] and (after != DOT or run != _WWW):
            key, stem = ascii_keys(run, block, more)
            tokens.keys[count], tokens.stems[count] = key, stem
            traits = traits_of(lexicon, key) | IS_WORD | has_digit * HAS_DIGIT | (byte < LOWER_A) * CAPITAL
            traits = _with_size(traits, run) | fresh
            end, fresh = at + run, 0
        elif kind == _SYMBOL:
            traits, end = _SYMBOL_TRAITS[byte], at + 1
            tokens.keys[count] = byte
            symbols |= traits
            fresh |= _FRESH[byte]
            after = data[end] if end < stop else 0
        else:
            bits, point, end = class_at(data, at, stop, unicode)
            if bits & SPACE:
                if point == LF:
                    flags |= BLANK if flags & LINE else LINE
                    fresh = FIRST
                flags |= SPACED
                at = end
                continue
            if bits & WORD:
                if ZERO <= point <= NINE:
                    end, traits = _put_number(data, at, stop, tokens, count)
                else:
                    end, traits = _put_word(data, at, stop, unicode, lexicon, tokens, count, out)
                traits |= fresh
                fresh = 0
            else:
                traits = _symbol_traits(point, bits)
                symbols |= traits
                tokens.keys[count] = point
                fresh = FIRST
            after = data[end] if end < stop else 0
        traits |= flags
        tokens.traits[count] = traits
        tokens.begins[count], tokens.ends[count] = at, end
        tokens.paired[paired] = count
        paired += traits & _PAIRED != 0
        tokens.factual[factual] = count
        factual += traits & _FACTUAL != 0
        tokens.voting[voting] = count
        words += traits & IS_WORD
        voting += (traits & (VOTES | IS_WORD) == VOTES | IS_WORD) & (words <= VOTING_WORDS)
        count += 1
        space = after == SP
        flags = space * SPACED
        at = end + space
    return TokenCounts(count, paired, factual, voting, symbols)
