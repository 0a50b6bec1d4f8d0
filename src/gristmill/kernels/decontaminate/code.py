"""The tokens of code, with what a copyist changes left out: names, literals, comments, layout.

    for item in items:    # all of them         for each in things:
        total += item * 2                           sum_so_far += each * 3.5

have the same tokens. A word stands for itself where it is one of the `kept` (keywords, names that languages define) or
follows a dot; any other is the one token NAME, a number or a string LITERAL. Strings in triple quotes, `#` to the end
of a line, `/* */`, `//` where a statement cannot go on, and the line of a Markdown fence are nothing. Literals with
commas or colons between them are one: tables of numbers are like each other. Round brackets are left out: who prints
code from its syntax tree sets them anew. Every other sign is a token.

A stretch may begin anywhere, inside of a string in triple quotes, too. So three quotes begin one only where a program
would write that, and where three more end it; elsewhere they are nothing, and no code is taken for a string.

Prose is not looked at: of a text only stretches that are dense in brackets, `=` and `;` are read.
"""

from typing import Any

import numpy as np
from numba import njit

from gristmill.kernels.decontaminate.match import FIELDS, ROW, TEXT_FROM, TEXT_TO, Units, make_scratch, match
from gristmill.kernels.decontaminate.sift import follow, is_in, sift
from gristmill.kernels.dedup.shingles import ROLL
from gristmill.kernels.memory import address_of, byte_at, eight_bytes_at, trailing_zeros
from gristmill.kernels.memory_blocks import BLOCK, bytes_in, code_signs, wide_bits, word_bits
from gristmill.kernels.memory_writes import put_eight_bytes

Array = np.ndarray[Any, Any]

NAME = np.uint64(0x243F6A8885A308D3)
LITERAL = np.uint64(0x13198A2E03707344)
_SEED = np.uint64(0xCBF29CE484222325)
_PRIME = np.uint64(0x9E3779B97F4A7C15)
_SIGNS = np.arange(256, dtype=np.uint64) * np.uint64(0xA4093822299F31D0)
_COMMA, _COLON = _SIGNS[ord(",")], _SIGNS[ord(":")]
_ONE = np.uint64(1)
_LOW = np.uint64(0x7F7F7F7F7F7F7F7F)
_HIGH = np.uint64(0x8080808080808080)
_CASE = np.uint64(0x2020202020202020)
_ALL = np.uint64(0xFFFFFFFFFFFFFFFF)
_ONES = np.uint64(0x0101010101010101)
_LINES, _BACKSLASHES = _ONES * np.uint64(10), _ONES * np.uint64(92)
_GROUP = 8
"""Blocks that are dense or not together: 512 bytes."""
_DENSE = 3
"""Signs of code in a group, or in two that follow each other: calls, indexes, `=`, `;`, braces, and twice colons that
end a line. Prose has one now and then; a function of two lines has three."""

_BLANK, _LINE, _WORD, _DIGIT, _QUOTE, _HASH, _SLASH, _DOT, _OTHER = range(9)


def _kinds() -> Array:
    kinds = np.full(256, _OTHER, np.uint8)
    kinds[:33] = kinds[ord("(")] = kinds[ord(")")] = _BLANK
    kinds[10] = _LINE
    kinds[128:] = _WORD
    for one in range(128):
        if chr(one).isalpha() or one == ord("_"):
            kinds[one] = _WORD
    kinds[ord("0") : ord("9") + 1] = _DIGIT
    for sign, kind in (('"', _QUOTE), ("'", _QUOTE), ("`", _QUOTE), ("#", _HASH), ("/", _SLASH), (".", _DOT)):
        kinds[ord(sign)] = kind
    return kinds


_KINDS = _kinds()
_GOES_ON = np.isin(np.arange(256), np.frombuffer(b"),.%]};+", np.uint8))
"""What stands in a line behind three quotes that end a string."""
_LEADS_ON = np.isin(np.arange(256), np.frombuffer(b"([{=,:+%", np.uint8))
"""What stands in a line before three quotes that begin one."""


@njit(nogil=True, cache=True)
def _leading_word(chunk: np.uint64) -> int:
    """How many of eight bytes, from the first on, are letters, digits, `_` or no ASCII."""
    low = chunk & _LOW
    folded = low | _CASE
    letters = (folded + np.uint64(0x1F1F1F1F1F1F1F1F)) & ~(folded + np.uint64(0x0505050505050505))
    digits = (low + np.uint64(0x5050505050505050)) & ~(low + np.uint64(0x4646464646464646))
    scores = ~((low ^ np.uint64(0x5F5F5F5F5F5F5F5F)) + _LOW)
    return int(trailing_zeros(~(letters | digits | scores | chunk) & _HIGH) >> 3)


@njit(nogil=True, cache=True)
def _chunk(text: int, at: int, end: int, size: int) -> np.uint64:
    """Eight bytes from `at` on; zeros behind `end`."""
    chunk = np.uint64(0)
    if at + 8 <= size:
        chunk = eight_bytes_at(text, at)
        if end - at < 8:
            chunk &= (_ONE << np.uint64(8 * (end - at))) - _ONE
        return np.uint64(chunk)
    for place in range(at, end):
        chunk |= np.uint64(byte_at(text, place)) << np.uint64(8 * (place - at))
    return chunk


@njit(nogil=True, cache=True)
def _hash(text: int, at: int, end: int, size: int) -> np.uint64:
    """Of a word."""
    state = _SEED
    while end - at > 8:
        state = (state ^ eight_bytes_at(text, at)) * _PRIME
        state ^= state >> np.uint64(32)
        at += 8
    state = (state ^ _chunk(text, at, end, size)) * _PRIME
    return state ^ (state >> np.uint64(32))


@njit(nogil=True, cache=True)
def _word(text: int, at: int, end: int, size: int) -> tuple[np.uint64, int]:
    """The hash of the word that begins at `at`, and where it ends."""
    state = _SEED
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
    """Of a word that stands for itself."""
    return _word(address_of(data), 0, len(data), len(data))[0]


@njit(nogil=True, cache=True)
def fill_kept(hashes: Array, kept: Array) -> None:
    """Puts the hashes of words into a table with room for more; 0 is free."""
    mask = len(kept) - 1
    for state in hashes:
        place = np.int64(state >> np.uint64(40)) & mask
        while kept[place]:
            place = (place + 1) & mask
        kept[place] = state


@njit(nogil=True, cache=True)
def _zeros(chunk: np.uint64) -> np.uint64:
    """The lowest bit that is set is in the first of eight bytes that is 0."""
    return (chunk - _ONES) & ~chunk & _HIGH


@njit(nogil=True, cache=True)
def _find(text: int, at: int, end: int, byte: int) -> int:
    """Where a byte is, from `at` on; `end` for nowhere."""
    same = np.uint64(byte) * _ONES
    while at + 8 <= end:
        zeros = _zeros(eight_bytes_at(text, at) ^ same)
        if zeros:
            return at + int(trailing_zeros(zeros) >> 3)
        at += 8
    while at < end and byte_at(text, at) != byte:
        at += 1
    return at


@njit(nogil=True, cache=True)
def _are_three(text: int, at: int, end: int) -> bool:
    """Whether a quote is the first of three."""
    quote = byte_at(text, at)
    return bool(at + 2 < end and byte_at(text, at + 1) == quote and byte_at(text, at + 2) == quote)


@njit(nogil=True, cache=True)
def _before(text: int, at: int, begin: int, passed: int) -> int:
    """The last place before `at` that is no blank, no tab and not `passed`; begin - 1 for none."""
    at -= 1
    while at >= begin and (byte_at(text, at) == 32 or byte_at(text, at) == 9 or byte_at(text, at) == passed):
        at -= 1
    return at


@njit(nogil=True, cache=True)
def _begins_string(text: int, at: int, begin: int, end: int) -> bool:
    """Whether three quotes at `at` begin a string, rather than end one that began before `begin`."""
    place = _before(text, at, begin, 32)
    if place < begin or byte_at(text, place) == 10:
        behind = at + 3
        while behind < end and (byte_at(text, behind) == 32 or byte_at(text, behind) == 13):
            behind += 1
        if behind < end and byte_at(text, behind) != 10:
            return not _GOES_ON[byte_at(text, behind)]
        place = _before(text, at, begin, 10)
        return bool(place >= begin and byte_at(text, place) == 58)
    if place == at - 1 and _KINDS[byte_at(text, place)] == _WORD:  # r, f, rb
        longest = place - 2 >= begin and _KINDS[byte_at(text, place - 1)] == _WORD
        return not (longest and _KINDS[byte_at(text, place - 2)] == _WORD)
    return bool(_LEADS_ON[byte_at(text, place)])


@njit(nogil=True, cache=True)
def _after_three(text: int, at: int, begin: int, end: int) -> int:
    """Behind three quotes that begin at `at`, with the string where they begin one that ends."""
    if byte_at(text, at) == 96:
        return _find(text, at, end, 10)
    if _begins_string(text, at, begin, end):
        quote = byte_at(text, at)
        place = _find(text, at + 3, end, quote)
        while place < end:
            if _are_three(text, place, end):
                return place + 3
            place = _find(text, place + 1, end, quote)
    return at + 3


@njit(nogil=True, cache=True)
def _after_string(text: int, at: int, end: int) -> int:
    """Behind a string that begins at `at`; it ends with its line."""
    quote = byte_at(text, at)
    same = np.uint64(quote) * _ONES
    at += 1
    while at < end:
        if at + 8 <= end:
            chunk = eight_bytes_at(text, at)
            zeros = _zeros(chunk ^ same) | _zeros(chunk ^ _LINES) | _zeros(chunk ^ _BACKSLASHES)
            if not zeros:
                at += 8
                continue
            at += int(trailing_zeros(zeros) >> 3)
        byte = byte_at(text, at)
        if byte == 10:
            return at
        at += 1
        if byte == quote:
            break
        if byte == 92:
            at += 1
    return min(at, end)


@njit(nogil=True, cache=True)
def _masks(text: int, at: int, end: int) -> tuple[np.uint64, np.uint64, np.uint64]:
    """Of up to 64 bytes from `at` on: which are no blanks, which are ends of lines, which are parts of words."""
    if at + BLOCK <= end:
        blanks = bytes_in(text, at, 0, 0, 33) | bytes_in(text, at, 0, 40, 2)
        return ~blanks, bytes_in(text, at, 0, 10, 1), word_bits(text, at) | wide_bits(text, at)
    signs = lines = words = np.uint64(0)
    for k in range(end - at):
        kind, bit = _KINDS[byte_at(text, at + k)], _ONE << np.uint64(k)
        if kind == _LINE:
            lines |= bit
        elif kind != _BLANK:
            signs |= bit
            if kind in (_WORD, _DIGIT):
                words |= bit
    return signs, lines, words


@njit(nogil=True, cache=True)
def _after_special(text: int, at: int, begin: int, end: int, kind: int, before: int) -> tuple[int, np.uint64]:
    """Behind what begins at `at` with a quote, a digit, `#`, `/` or `.`; and its token, 0 for none."""
    ahead = byte_at(text, at + 1) if at + 1 < end else 0
    if kind == _QUOTE:
        if _are_three(text, at, end):
            return _after_three(text, at, begin, end), np.uint64(0)
        return _after_string(text, at, end), LITERAL
    if kind == _HASH:
        return _find(text, at, end, 10), np.uint64(0)
    if kind == _SLASH:
        if ahead == 47 and (before == 10 or before == 59 or before == 123 or before == 125):
            return _find(text, at, end, 10), np.uint64(0)
        if ahead == 42:
            at = _find(text, at + 3, end, 47)
            while at < end and byte_at(text, at - 1) != 42:
                at = _find(text, at + 1, end, 47)
            return min(at + 1, end), np.uint64(0)
    if kind == _DIGIT or (kind == _DOT and _KINDS[ahead] == _DIGIT):
        at += 1
        while at < end and (
            _KINDS[byte_at(text, at)] == _DIGIT or _KINDS[byte_at(text, at)] == _WORD or byte_at(text, at) == 46
        ):
            at += 1
        return at, LITERAL
    return at + 1, _SIGNS[byte_at(text, at)]


@njit(nogil=True, cache=True)
def sums_of_tokens(data: Array, begin: int, end: int, kept: Array, sums: Array, starts: Array, count: int) -> int:
    """Counts the tokens of data[begin:end], on from `count`; sums[i] becomes the rolled sum of the first i of them,
    starts[i] where token i begins. There are as many tokens as bytes, at most.
    """
    text, size = address_of(data), len(data)
    table, mask = address_of(kept), len(kept) - 1
    at_sums, at_starts = address_of(sums), address_of(starts)
    total = eight_bytes_at(at_sums, 8 * count)
    at = begin
    before = 10  # the last byte that was no white space; the start of a line is one
    last = before_last = np.uint64(0)
    base = stop = begin  # of the bytes that the masks are of
    signs = lines = words = np.uint64(0)
    while at < end:
        if at >= stop:
            base, stop = at, min(at + BLOCK, end)
            signs, lines, words = _masks(text, at, end)
        passed = np.uint64(at - base)
        skipped = trailing_zeros(signs >> passed)
        if lines >> passed & ~(_ALL << np.uint64(skipped) if skipped < 64 else np.uint64(0)):
            before = 10
        at += skipped
        if at >= stop:
            at = stop
            continue
        start = at
        byte = byte_at(text, at)
        kind = _KINDS[byte]
        if kind == _WORD:
            length = trailing_zeros(~(words >> np.uint64(at - base)))
            if at + length < stop:
                token = _hash(text, at, at + length, size)
                at += length
            else:
                token, at = _word(text, at, end, size)
            if before != 46 and not is_in(table, mask, token):
                token = NAME
        elif kind == _OTHER:
            token = _SIGNS[byte]
            at += 1
        else:
            at, token = _after_special(text, at, begin, end, kind, before)
            if token == 0:
                continue
        before = byte
        if token == LITERAL and before_last == LITERAL and last in (_COMMA, _COLON):
            count -= 1  # the sign between two literals
            total = eight_bytes_at(at_sums, 8 * count)
            last, before_last = LITERAL, np.uint64(0)
            continue
        total = total * ROLL + token
        put_eight_bytes(at_starts, 8 * count, np.uint64(start))
        count += 1
        put_eight_bytes(at_sums, 8 * count, total)
        before_last, last = last, token
    return count


@njit(nogil=True, cache=True)
def _sign(before: int, byte: int) -> int:
    """What a byte behind another one counts for, as `code_signs` has it."""
    if byte == 40 or byte == 91:
        return int(before < 128 and (_KINDS[before] == _WORD or _KINDS[before] == _DIGIT))
    if byte == 10:
        return 2 * int(before == 58)
    return int(byte == 59 or byte == 61 or 123 <= byte <= 125)


@njit(nogil=True, cache=True)
def _signs(text: int, at: int, begin: int, end: int) -> int:
    """Signs of code in a group that begins at `at`; of what lies before `begin` nothing is known."""
    stop = min(at + _GROUP * BLOCK, end)
    signs = 0
    if at == begin:
        signs = _sign(10, byte_at(text, at))
        at += 1
    while at + BLOCK <= stop:
        signs += code_signs(text, at)
        at += BLOCK
    while at < stop:
        signs += _sign(byte_at(text, at - 1), byte_at(text, at))
        at += 1
    return signs


@njit(nogil=True, cache=True)
def match_code(data: Array, offsets: Array, ranges: Array, kept: Array, units: Units) -> tuple[Array, Array]:
    """The hits in ranges of bytes of texts (row, begin, end; sorted), with places in bytes of the text; and in which
    rows the bound on work was reached.
    """
    text = address_of(data)
    room = 1 << 16
    starts = np.empty(room, np.int64)
    sums = np.zeros(room + 1, np.uint64)
    maybe = np.empty(room, np.uint64)
    leads = np.empty((room, 2), np.int64)
    seen, rows = make_scratch(units)
    hits = np.empty((64, FIELDS), np.int64)
    found = 0
    bounded = np.zeros(len(offsets) - 1, np.bool_)
    for number in range(len(ranges)):
        row, begin, end = ranges[number, 0], ranges[number, 1], ranges[number, 2]
        if end - begin + 1 > room:
            room = 2 * (end - begin)
            starts = np.empty(room, np.int64)
            sums = np.zeros(room + 1, np.uint64)
            maybe = np.empty(room, np.uint64)
            leads = np.empty((room, 2), np.int64)
        count = 0
        read = begin  # so far
        before = 0
        at = begin
        while at < end:
            signs = _signs(text, at, begin, end)
            stop = min(at + _GROUP * BLOCK, end)
            if before + signs >= _DENSE:
                # With the group before, and the one behind: a listing begins and ends somewhere in them.
                first = max(read, at - _GROUP * BLOCK)
                last = stop
                while last < end:
                    signs = _signs(text, last, begin, end)
                    last = min(last + _GROUP * BLOCK, end)
                    if signs < _DENSE:
                        break
                count = sums_of_tokens(data, first, last, kept, sums, starts, count)
                read = stop = last
                signs = 0
            before = signs
            at = stop
        if count < units.seed_words:
            continue
        known = sift(sums, 0, count - units.seed_words + 1, units.seed_words, units.filter, maybe)
        led = follow(sums, count, maybe, known, units, leads)
        if not led:
            continue
        was = found
        # Of each range by itself: what was seen of a unit in another one of the same text says nothing.
        hits, found, is_bounded = match(
            sums, count, number, units.seed_words, leads[:led], units, seen, rows, hits, found
        )
        for k in range(was, found):
            stop = starts[hits[k, TEXT_TO]] if hits[k, TEXT_TO] < count else end
            hits[k, ROW] = row
            hits[k, TEXT_FROM] = starts[hits[k, TEXT_FROM]] - offsets[row]
            hits[k, TEXT_TO] = stop - offsets[row]
        bounded[row] |= is_bounded
    return hits[:found].copy(), bounded
