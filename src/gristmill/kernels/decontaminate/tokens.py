"""The tokens of code, without the parts that a copyist changes: names, literals, comments, layout.

    for item in items:    # all of them         for each in things:
        total += item * 2                           sum_so_far += each * 3.5

have the same tokens. A word is its own token if it is one of `kept` (keywords, names that languages define) or follows
a dot; any other word is the token NAME, and a number or a string is the token LITERAL. Strings in triple quotes, `#` to
the end of a line, `/* */`, `//` where a statement cannot continue, and the line of a Markdown fence are skipped.
Literals with commas or colons between them are one token: tables of numbers are alike. Round brackets are skipped,
since programs that print code from its syntax tree place them differently. Every other sign is a token.

Words and signs are found by masks of 64 bytes, without a look at the bytes between them. Strings, numbers, comments,
words longer than a block, and the last bytes of all data are *odd* and read one by one.
"""

from typing import Any

import numpy as np

from gristmill.kernels.compile import njit
from gristmill.kernels.decontaminate.literals import BLANK, KINDS, LINE, LITERAL, NOTHING, SIGN, WORD, after_odd
from gristmill.kernels.decontaminate.marks import is_in
from gristmill.kernels.dedup.shingles import ROLL
from gristmill.kernels.memory import Bytes, Uint64s, eight_bytes_at, leading_zeros, trailing_zeros, view
from gristmill.kernels.memory_blocks import BLOCK, code_bits
from gristmill.kernels.text.ascii import DOT, HASH

Array = np.ndarray[Any, Any]

NAME = np.uint64(0x243F6A8885A308D3)
_COMMA, _COLON = np.array([ord(","), ord(":")], np.uint64) * SIGN
_SEED = np.uint64(0xCBF29CE484222325)
_PRIME = np.uint64(0x9E3779B97F4A7C15)
_ONE = np.uint64(1)
_ALL = np.uint64(0xFFFFFFFFFFFFFFFF)
_TOP = np.uint64(1 << 63)
_LOW = np.uint64(0x7F7F7F7F7F7F7F7F)
_HIGH = np.uint64(0x8080808080808080)
_CASE = np.uint64(0x2020202020202020)


@njit(nogil=True, cache=True)
def _leading_word(chunk: np.uint64) -> int:
    """Counts how many of eight bytes, from the first on, are letters, digits, `_` or not ASCII."""
    low = chunk & _LOW
    folded = low | _CASE
    letters = (folded + np.uint64(0x1F1F1F1F1F1F1F1F)) & ~(folded + np.uint64(0x0505050505050505))
    digits = (low + np.uint64(0x5050505050505050)) & ~(low + np.uint64(0x4646464646464646))
    scores = ~((low ^ np.uint64(0x5F5F5F5F5F5F5F5F)) + _LOW)
    return int(trailing_zeros(~(letters | digits | scores | chunk) & _HIGH) >> 3)


@njit(nogil=True, cache=True)
def _chunk(text: Bytes, at: int, end: int, size: int) -> np.uint64:
    """Returns eight bytes from `at` on, with zeros after `end`."""
    chunk = np.uint64(0)
    if at + 8 <= size:
        chunk = eight_bytes_at(text, at)
        if end - at < 8:
            chunk &= (_ONE << np.uint64(8 * (end - at))) - _ONE
        return np.uint64(chunk)
    for place in range(at, end):
        chunk |= np.uint64(text[place]) << np.uint64(8 * (place - at))
    return chunk


@njit(nogil=True, cache=True)
def _word(text: Bytes, at: int, end: int, size: int) -> tuple[np.uint64, int]:
    """Returns the hash of the word that begins at `at`, and its end."""
    state = _SEED
    # Eight bytes at a time until one of them ends the word.
    while at < end:
        chunk = _chunk(text, at, end, size)
        length = _leading_word(chunk)
        if length < 8:
            if length:
                state = (state ^ (chunk & ((_ONE << np.uint64(8 * length)) - _ONE))) * _PRIME
                state ^= state >> np.uint64(32)
            return state, at + length
        state = (state ^ chunk) * _PRIME
        state ^= state >> np.uint64(32)
        at += 8
    return state, min(at, end)


@njit(nogil=True, cache=True)
def word_hash(data: Array) -> np.uint64:
    """Returns the hash of a word that is its own token."""
    return _word(view(data), 0, len(data), len(data))[0]


@njit(nogil=True, cache=True)
def fill_kept(hashes: Array, kept: Array) -> None:
    """Puts the hashes of words into a hash table with free slots; 0 is free."""
    mask = len(kept) - 1
    # Open addressing: into the first free slot.
    for state in hashes:
        place = np.int64(state >> np.uint64(40)) & mask
        while kept[place]:
            place = (place + 1) & mask
        kept[place] = state


@njit(nogil=True, cache=True)
def _edge_bits(text: Bytes, at: int, end: int) -> tuple[np.uint64, np.uint64]:
    """For up to 64 bytes from `at` on: masks of the bytes that are not blank, and of the line ends."""
    signs = lines = np.uint64(0)
    # Near the end of the data bytes are read one by one.
    for k in range(min(end - at, BLOCK)):
        kind, bit = KINDS[text[at + k]], _ONE << np.uint64(k)
        if kind == LINE:
            lines |= bit
        elif kind != BLANK:
            signs |= bit
    return signs, lines


@njit(nogil=True, cache=True)
def _numbers(words: np.uint64, digits: np.uint64, dots: np.uint64) -> np.uint64:
    """A mask of the bytes that may begin a number: a digit, a dot before a digit, a dot that is the last byte."""
    return np.uint64((digits & ~(words << _ONE)) | (dots & (digits >> _ONE | _TOP)))


@njit(nogil=True, cache=True)
def _behind_dots(dots: np.uint64, blanks: np.uint64) -> np.uint64:
    """A mask of the first byte after each dot that is not blank; `dots` are the positions right after the dots."""
    return np.uint64((blanks + (dots & blanks) | dots) & ~blanks)


@njit(nogil=True, cache=True)
def _hash(text: Bytes, at: int, length: int) -> np.uint64:
    """Returns the hash of a word that is not in the last eight bytes of all data."""
    state = _SEED
    # Eight bytes at a time; 1 to 8 are left for the end.
    while length > 8:
        state = (state ^ eight_bytes_at(text, at)) * _PRIME
        state ^= state >> np.uint64(32)
        at += 8
        length -= 8
    state = (state ^ eight_bytes_at(text, at) & _ALL >> np.uint64(64 - 8 * length)) * _PRIME
    return np.uint64(state ^ (state >> np.uint64(32)))


@njit(nogil=True, cache=True)
def _unless_name(word: np.uint64, table: Uint64s, mask: int) -> np.uint64:
    """Returns the word if it is kept, otherwise NAME; one lookup without a branch for nearly all words."""
    held = table[np.int64(word >> np.uint64(40)) & mask]
    is_name = held != word
    if is_name & (held != 0):
        is_name = not is_in(table, mask, word)
    return np.uint64(word ^ (word ^ NAME) & np.uint64(0) - np.uint64(is_name))


@njit(nogil=True, cache=True)
def _goes_on(sums: Uint64s, first: int, count: int) -> bool:
    """Whether the last two tokens are a literal, and a comma or colon."""
    if count < first + 2:
        return False
    between = sums[count - 1]
    last = sums[count] - between * ROLL
    if last != _COMMA and last != _COLON:
        return False
    return bool(between - sums[count - 2] * ROLL == LITERAL)


@njit(nogil=True, cache=True)
def sums_of_tokens(data: Array, begin: int, end: int, kept: Array, sums: Array, starts: Array, count: int) -> int:
    """Counts the tokens of data[begin:end], starting from `count`. sums[i] becomes the rolled sum of the first i
    tokens, and starts[i] the begin of token i. There are at most as many tokens as bytes.
    """
    text, size = view(data), len(data)
    table, mask = view(kept), len(kept) - 1
    at_sums, at_starts = view(sums), view(starts)
    total = at_sums[count]
    first = count
    before = 10  # the first byte of the last token, or the end of a line after it
    at = begin
    # A block of 64 bytes becomes masks, with a bit for each byte. Tokens that need more than masks are `odd`.
    while at < end:
        base, stop = at, min(at + BLOCK, end)
        if base + BLOCK + 8 > size:
            odd, lines = _edge_bits(text, base, end)
            words = digits = dots = tokens = np.uint64(0)
            blanks = ~lines
        else:
            words, digits, blanks, lines, dots, odd = code_bits(text, base)
            words &= _ALL >> np.uint64(BLOCK - (stop - base))
            # A word at the end of the block may continue, so it is left for the next block, unless it fills this one.
            used = BLOCK - leading_zeros(~words)
            if used == 0:
                used = BLOCK
                odd |= _ONE
            stop = min(base + used, end)
            inside = _ALL >> np.uint64(BLOCK - (stop - base))
            tokens = ~(blanks | words & words << _ONE) & inside
            odd = (odd | _numbers(words, digits, dots)) & inside
            lines &= inside
            blanks &= ~lines
        passed = np.uint64(0)
        while True:  # Each turn goes up to the next odd token.
            left = _ALL << passed
            dotted = _behind_dots((dots & left) << _ONE | np.uint64(before == DOT) << passed, blanks)
            next_odd = odd & left
            left &= (next_odd - _ONE) & ~next_odd
            run = tokens & left
            marks = run | lines & left
            # Names, words and signs up to the odd token: hash each and add it to the sums.
            while run:
                here = np.uint64(trailing_zeros(run))
                run &= run - _ONE
                start = base + int(np.int64(here))
                word = words >> here
                if word & _ONE:
                    token = _hash(text, start, trailing_zeros(~word))
                    if not dotted >> here & _ONE:
                        token = _unless_name(token, table, mask)
                else:
                    token = np.uint64(text[start]) * SIGN
                total = total * ROLL + token
                at_starts[count] = start
                count += 1
                at_sums[count] = total
            if marks:
                before = text[base + BLOCK - 1 - leading_zeros(marks)]
            if not next_odd:
                at = stop
                break
            here = np.uint64(trailing_zeros(next_odd))
            start = base + int(np.int64(here))
            byte = text[start]
            number = trailing_zeros(~((words | dots) >> here))
            if digits >> here & _ONE and start + number < stop:
                at, token = start + number, LITERAL
            elif byte == HASH and lines >> here:
                at, token = start + trailing_zeros(lines >> here), NOTHING
            elif KINDS[byte] == WORD:
                token, at = _word(text, start, end, size)
                if before != DOT:
                    token = _unless_name(token, table, mask)
            else:
                at, token = after_odd(text, start, begin, end, before)
            if token != NOTHING:
                before = byte
                if token == LITERAL and _goes_on(at_sums, first, count):
                    count -= 1
                    total = at_sums[count]
                else:
                    total = total * ROLL + token
                    at_starts[count] = start
                    count += 1
                    at_sums[count] = total
            if at >= stop:
                break
            passed = np.uint64(at - base)
    return count
