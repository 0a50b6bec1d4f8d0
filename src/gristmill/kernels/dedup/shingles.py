"""Word shingles: every n consecutive words of a text as one 64-bit hash.

A *word* is a run of letters, numbers and `_` in the lower-cased text: for ASCII `re.findall(r"\\w+", text.lower())`.
Outside ASCII three rules differ, so that words are meaningful in more scripts:

- Marks and format characters (Devanagari vowel signs, separate accents, joiners, soft hyphens) belong to the word
  before them; Python's `re` splits there. Without a word before them (a byte order mark, the variation selector of an
  emoji) they are not words.
- A letter of a script without spaces (UNIT and PIECE: Han, kana, Thai and related scripts) is a word, with its marks.
- Lower case maps one character to one: `İ` stays, and a final `Σ` becomes `σ`.

A word's hash is that of its lower-cased UTF-8, eight bytes per step. The sum over words of hash times a power of a
constant rolls with one multiplication, and a finaliser mixes each sum: the *shingle*. A text with fewer than n words
has one shingle, of all its words and their number, and a text without words has the hash of its bytes without the white
space around them. So no set is empty, and shingles of different kinds are equal only by chance (2^-64).

The scan reads 64 bytes of ASCII at once: one comparison finds all ends of words, so a word costs a load, a mask and the
hash. Other text is read character by character through small tables.
"""

from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from gristmill.kernels.compile import njit
from gristmill.kernels.hash.splitmix import mix
from gristmill.kernels.memory import Bytes, Uint64s, eight_bytes_at, trailing_zeros, view
from gristmill.kernels.memory_blocks import BLOCK, wide_bits, word_bits
from gristmill.kernels.text import unicode_classes
from gristmill.kernels.text.look_alikes import IGNORED, parts, reading_tables, unpacked
from gristmill.kernels.text.words import hash_bytes, trimmed

Array = np.ndarray[Any, Any]

_NONE, _MARK, _PART, _ALONE, _IGNORED = range(5)
"""The role of a character: outside of words; part of a word that has begun; part of a word; a word alone; ignored."""

_SHORT = 0x800
"""Code points below this have one or two bytes in UTF-8."""

_WORD_SEED = np.uint64(0x452821E638D01377)  # digits of pi, as those below
_WORD_MUL = np.uint64(0x9E3779B97F4A7C15)
_WORD_END = np.uint64(0xD6E8FEB86659FD93)
ROLL = np.uint64(0xBE5466CF34E90C6D)
"""The factor of the sums of `sums_of`: sum(i + 1) = sum(i) * ROLL + hash of word i."""
_LENGTH = np.uint64(0xC0AC29B7C97C50DD)
_WORDLESS = np.uint64(0x3F84D5B5B5470917)
_CASE = np.uint64(0x2020202020202020)
_ALL = np.uint64(0xFFFFFFFFFFFFFFFF)
_ONE = np.uint64(1)
_ZERO = np.uint64(0)


class WordTables(NamedTuple):
    """The classes and lower case of characters; `word_tables()` builds it."""

    unicode: unicode_classes.UnicodeTables
    short: npt.NDArray[np.uint32]
    """For code points below 0x800: the UTF-8 of the lower case, its length << 24, the kind << 28."""


@lru_cache(maxsize=1)
def word_tables() -> WordTables:
    """Returns read-only tables of one Unicode version (`unicode_data.UNICODE_VERSION`)."""
    return _word_tables(unicode_classes.unicode_tables())


@lru_cache(maxsize=1)
def copy_tables() -> WordTables:
    """Returns the tables for the search of copies, with characters as `look_alikes.py` reads them."""
    return _word_tables(reading_tables())


def _word_tables(tables: unicode_classes.UnicodeTables) -> WordTables:
    short = np.zeros(_SHORT, np.uint32)
    # An entry has all that the scan needs to know about a code point: its lower case in UTF-8, the length of that, and
    # its kind.
    for point in range(_SHORT):
        bits = int(tables.classes[int(tables.pages[point >> 8]) << 8 | point & 255])
        lower = point + int(tables.lowers[int(tables.lower_pages[point >> 8]) << 8 | point & 255])
        # `_` is written as 0x7F, so that the lower case of an ASCII word is its bytes with one bit set in each.
        written = b"\x7f" if point == ord("_") else unpacked(lower).encode()
        kind = (
            _PART
            if bits & (unicode_classes.LETTER | unicode_classes.NUMBER) or point == ord("_")
            else _MARK
            if bits & unicode_classes.MARK
            else _NONE
        )
        kind = _IGNORED if bits & IGNORED else kind
        short[point] = int.from_bytes(written, "little") | len(written) << 24 | kind << 28
    short.setflags(write=False)
    return WordTables(tables, short)


@njit(nogil=True, cache=True)
def _fed(state: np.uint64, chunk: np.uint64) -> np.uint64:
    state = (state ^ chunk) * _WORD_MUL
    return state ^ (state >> np.uint64(32))


@njit(nogil=True, cache=True)
def _ended(state: np.uint64) -> np.uint64:
    state *= _WORD_END
    return state ^ (state >> np.uint64(29))


@njit(nogil=True, cache=True)
def _load(data: Bytes, at: int, size: int) -> np.uint64:
    """Returns eight bytes from `at` on, with zeros after the end of the data."""
    if at + 8 <= size:
        loaded: np.uint64 = eight_bytes_at(data, at)
        return loaded
    value = _ZERO
    for place in range(at, size):
        value |= np.uint64(data[place]) << np.uint64(8 * (place - at))
    return value


@njit(nogil=True, cache=True)
def _ascii_word(data: Bytes, begin: int, end: int, size: int) -> np.uint64:
    """Returns the hash of an ASCII word, ignoring case."""
    state = _WORD_SEED
    # Eight bytes at a time; 1 to 8 are left for the end.
    while end - begin > 8:
        state = _fed(state, eight_bytes_at(data, begin) | _CASE)
        begin += 8
    mask = _ALL >> np.uint64(64 - 8 * (end - begin))
    return _ended(_fed(state, (_load(data, begin, size) | _CASE) & mask))


@njit(nogil=True, cache=True)
def _utf8(point: int) -> tuple[int, int]:
    """Returns the UTF-8 of a code point as one number, and its length; or those of `look_alikes.packed` letters."""
    if point >> 24:
        return point & 0xFFFFFF, point >> 24
    if point < 0x80:
        return point, 1
    last = 0x80 | point & 0x3F
    if point < 0x800:
        return 0xC0 | point >> 6 | last << 8, 2
    middle = 0x80 | point >> 6 & 0x3F
    if point < 0x10000:
        return 0xE0 | point >> 12 | middle << 8 | last << 16, 3
    return 0xF0 | point >> 18 | (0x80 | point >> 12 & 0x3F) << 8 | middle << 16 | last << 24, 4


@njit(nogil=True, cache=True)
def _joined(
    state: np.uint64, held: np.uint64, bytes_held: int, written: np.uint64, length: int
) -> tuple[np.uint64, np.uint64, int]:
    """Returns a word's state, the bytes that are not yet hashed, and their number, after `length` more bytes."""
    held |= written << np.uint64(8 * bytes_held)
    bytes_held += length
    if bytes_held >= 8:
        state = _fed(state, held)
        bytes_held -= 8
        held = written >> np.uint64(8 * (length - bytes_held))
    return state, held, bytes_held


@njit(nogil=True, cache=True)
def _scan_wide(
    data: Bytes,
    begin: int,
    at: int,
    stop: int,
    size: int,
    tables: WordTables,
    out: Uint64s,
    count: int,
    sum_: np.uint64,
) -> tuple[int, int, np.uint64]:
    """Reads words from a non-ASCII or control character at `at` to the next word that begins with ASCII.

    A word that is open since `begin` (-1: none) is continued. Returns where the scan continues, the count and the sum.
    """
    unicode, short = tables
    state = _WORD_SEED
    held = _ZERO  # bytes of the word that are not yet hashed
    bytes_held = 0
    inside = begin >= 0
    alone = False
    if inside:
        # Hash the whole groups of eight bytes of the word so far.
        while at - begin >= 8:
            state = _fed(state, eight_bytes_at(data, begin) | _CASE)
            begin += 8
        bytes_held = at - begin
        if bytes_held:
            held = (_load(data, begin, size) | _CASE) & (_ALL >> np.uint64(64 - 8 * bytes_held))
    # Each turn reads one character, in upper or lower case, and adds it to the word, ends a word or begins one.
    while at < stop:
        byte = data[at]
        second = third = 0  # further code points that the character is read as
        if byte < 0xE0:
            if byte < 0x80:
                if not inside or alone:
                    entry = short[byte]
                    if entry >> 28 == _PART:
                        break
                point = byte
                at += 1
            else:
                point = 0
                if at + 2 <= stop:
                    point = (byte & 0x1F) << 6 | data[at + 1] & 0x3F
                at += 2
            entry = short[point]
            kind = entry >> 28
            length = entry >> 24 & 15
            written = np.uint64(entry & 0xFFFFFF)
        else:
            length = 3 if byte < 0xF0 else 4
            if at + length > stop:
                at = stop
                break
            point = (data[at + 1] & 0x3F) << 6 | data[at + 2] & 0x3F
            raw = byte | data[at + 1] << 8 | data[at + 2] << 16
            if length == 3:
                point |= (byte & 0x0F) << 12
            else:
                point = point << 6 | data[at + 3] & 0x3F | (byte & 0x07) << 18
                raw |= data[at + 3] << 24
                point = min(point, 0x10FFFF)
            at += length
            bits = unicode_classes.class_of(unicode, point)
            if bits & (unicode_classes.LETTER | unicode_classes.NUMBER):
                kind = _ALONE if bits & unicode_classes.ALONE else _PART
            else:
                kind = _MARK if bits & unicode_classes.MARK else _IGNORED if bits & IGNORED else _NONE
            if bits & unicode_classes.UPPER or (kind == _PART and not bits & unicode_classes.LOWER):
                change = unicode_classes.lower_change(unicode, point)
                if change:
                    first, second, third = parts(point + change)
                    raw, length = _utf8(first)
            written = np.uint64(raw)

        if kind == _IGNORED:
            continue
        if inside and (kind == _NONE or kind >= (_PART if alone else _ALONE)):
            if bytes_held:
                state = _fed(state, held)
            sum_ = sum_ * ROLL + _ended(state)
            count += 1
            out[count] = sum_
            inside = False
        if not inside:
            if kind <= _MARK:
                continue
            inside = True
            alone = kind == _ALONE
            state, held, bytes_held = _WORD_SEED, _ZERO, 0
        state, held, bytes_held = _joined(state, held, bytes_held, written, length)
        # The lower case of some characters has two or three code points.
        while second:
            raw, length = _utf8(second)
            state, held, bytes_held = _joined(state, held, bytes_held, np.uint64(raw), length)
            second, third = third, 0
    if inside:
        if bytes_held:
            state = _fed(state, held)
        sum_ = sum_ * ROLL + _ended(state)
        count += 1
        out[count] = sum_
    return at, count, sum_


@njit(nogil=True, cache=True)
def scan_words(
    data: Bytes, at: int, stop: int, size: int, tables: WordTables, out: Uint64s, count: int, edge: Array
) -> int:
    """Counts the words, starting from `count`; out[i] becomes the rolled sum of the hashes of the first i words. It is
    `sums_of` with views for arrays.
    """
    sum_ = out[count]
    begin = -1  # the begin of a word that is open at the start of a block
    # Each turn reads up to 64 bytes, or the characters from the first that is not ASCII on.
    while at < stop:
        block, place = data, at
        if at + BLOCK > size:
            for k in range(BLOCK):
                edge[k] = data[at + k] if at + k < size else 0
            block, place = view(edge), 0
        words = word_bits(block, place)
        wide = wide_bits(block, place)
        limit = min(BLOCK, stop - at)
        if wide:
            limit = min(limit, trailing_zeros(wide))
        edges = words ^ (words << _ONE | np.uint64(begin >= 0))
        if limit < BLOCK:
            edges &= (_ONE << np.uint64(limit)) - _ONE
        if begin >= 0 and edges:
            sum_ = sum_ * ROLL + _ascii_word(data, begin, at + trailing_zeros(edges), size)
            count += 1
            out[count] = sum_
            edges &= edges - _ONE
            begin = -1
        # Edges come in pairs: the begin of a word and its end. A word without an end stays open.
        while edges:
            begin = at + trailing_zeros(edges)
            edges &= edges - _ONE
            if not edges:
                break
            end = at + trailing_zeros(edges)
            edges &= edges - _ONE
            sum_ = sum_ * ROLL + _ascii_word(data, begin, end, size)
            count += 1
            out[count] = sum_
            begin = -1
        at += limit
        if limit < BLOCK and at < stop:
            at, count, sum_ = _scan_wide(data, begin, at, stop, size, tables, out, count, sum_)
            begin = -1
    if begin >= 0:
        sum_ = sum_ * ROLL + _ascii_word(data, begin, stop, size)
        count += 1
        out[count] = sum_
    return count


@njit(nogil=True, cache=True)
def _wordless(data: Bytes, begin: int, end: int, unicode: unicode_classes.UnicodeTables) -> np.uint64:
    """Returns the hash of a text's bytes without the white space around them."""
    begin, end = trimmed(data, begin, end, unicode)
    return mix(hash_bytes(data, begin, end) ^ _WORDLESS)


@njit(nogil=True, cache=True)
def sums_of(data: Array, begin: int, end: int, tables: WordTables, buffer: Array, count: int, edge: Array) -> int:
    """Counts the words of data[begin:end], starting from `count`; buffer[i] becomes the rolled sum of the hashes of the
    first i words. The entries up to buffer[count] must be there already; buffer[0] is 0.
    """
    return scan_words(view(data), begin, end, len(data), view(tables), view(buffer), count, edge)


@njit(nogil=True, cache=True)
def roll_power(width: int) -> np.uint64:
    """Returns the factor of a rolled sum after `width` more words."""
    power = _ONE
    for _ in range(width):
        power *= ROLL
    return power


@njit(nogil=True, cache=True)
def word_at(sums: Uint64s, at: int) -> np.uint64:
    """The hash of word `at`, from rolled sums."""
    return sums[at + 1] - sums[at] * ROLL


@njit(nogil=True, cache=True)
def window_sum(sums: Uint64s, at: int, width: int, power: np.uint64) -> np.uint64:
    """The rolled sum of the `width` words from word `at` on; `power` is `roll_power(width)`."""
    return sums[at + width] - sums[at] * power


@njit(nogil=True, cache=True)
def shingle_at(sums: Uint64s, at: int, width: int, power: np.uint64) -> np.uint64:
    """The shingle of `width` words from word `at` on; `sums` is a view of the rolled sums."""
    return mix(window_sum(sums, at, width, power) + np.uint64(width) * _LENGTH)


@njit(nogil=True, cache=True)
def shingles_of(data: Array, begin: int, end: int, ngram: int, tables: WordTables, buffer: Array, edge: Array) -> int:
    """Writes the shingles of the text data[begin:end] to `buffer`, in order, and returns their number, at least one.

    `buffer`: uint64, `room_for(end - begin)` entries. `edge`: uint8, 64 bytes of scratch.
    """
    buffer[0] = 0
    words = sums_of(data, begin, end, tables, buffer, 0, edge)
    if words == 0:
        buffer[0] = _wordless(view(data), begin, end, view(tables.unicode))
        return 1
    out = view(buffer)
    width = min(words, ngram)
    power = roll_power(width)
    for at in range(words - width + 1):
        out[at] = shingle_at(out, at, width, power)
    return words - width + 1


@njit(nogil=True, cache=True)
def room_for(text_bytes: int) -> int:
    """Returns the entries of a buffer for the shingles of a text. A word takes at least two bytes, with the byte after
    it.
    """
    return text_bytes // 2 + 2
