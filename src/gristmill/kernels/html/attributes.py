"""The attributes of a start tag: the hints of its class, id and role, and the few values that extraction needs."""

from typing import Any

import numpy as np

from gristmill.kernels.compile import njit
from gristmill.kernels.html import names
from gristmill.kernels.html.bounds import seek
from gristmill.kernels.html.hashes import mixed
from gristmill.kernels.html.layout import HINT_ENDINGS, HINT_HIDDEN, HINT_INVISIBLE, HINT_MASK, HINT_WORDS
from gristmill.kernels.memory import view
from gristmill.kernels.text import ascii


def _name(text: str) -> int:
    """Returns the name of an attribute as the scan packs it: its letters in lower case, the first one lowest."""
    return int.from_bytes(text.encode(), "little")


_CLASS, _ID, _ROLE, _ITEMPROP, _STYLE, _HIDDEN = map(_name, ("class", "id", "role", "itemprop", "style", "hidden"))
_HREF, _ALT, _TYPE, _ALTTEXT, _DISPLAY = map(_name, ("href", "alt", "type", "alttext", "display"))
_START, _VALUE, _SRC, _REVERSED = map(_name, ("start", "value", "src", "reversed"))

(
    A_HINTS,
    A_CLASS,
    A_HREF,
    A_HREF_END,
    A_ALT,
    A_ALT_END,
    A_TYPE,
    A_DISPLAY,
    A_START,
    A_MATH,
    A_REVERSED,
    ATTRIBUTES,
) = range(12)
"""Fields of a tag: HINTS and a hash of its CLASS; begin and end of the values of href and alt (or alttext), 0 if there
is none; the first letters of TYPE and DISPLAY; 1 + the number of START or VALUE, 0 if there is none (for a script:
whether its formula is a block); MATH: its class marks a picture of a formula, the kind of a term, code, or a tooltip;
REVERSED: a list counts down."""

_REMEMBERED = 512
NOTED = ATTRIBUTES + 2 * _REMEMBERED
"""Numbers that are kept of tags: those of the last tag, and after them the hints of values of the page, by their
hash."""
_SHORTEST_AFFIX = 4
_LONGEST_VALUE = 400
"""Bytes of a class or id that are read."""


@njit(nogil=True, cache=True, forceinline=True)
def _look_up(table: np.ndarray, code: Any) -> Any:
    slot = np.int64((code ^ code >> np.uint64(29)) & np.uint64(HINT_MASK))
    # Open addressing: the word or a free slot ends the search.
    while table[slot, 1]:
        if table[slot, 0] == code:
            return np.int64(table[slot, 1])
        slot = (slot + 1) & HINT_MASK
    return 0


@njit(nogil=True, cache=True)
def _affixes(data: np.ndarray, begin: int, stop: int) -> Any:
    """Returns the hints of the prefixes and suffixes of a long word: leftnav, sidebarbox, storycontent."""
    found: Any = 0
    code = names.HASH_BASIS
    # The hash of each prefix that is long enough.
    for at in range(begin, stop - 1):
        code = (code ^ np.uint64(data[at] | 0x20)) * names.HASH_PRIME
        if at - begin + 1 >= _SHORTEST_AFFIX:
            found |= _look_up(HINT_WORDS, code)
    code = names.HASH_BASIS
    # The same for each suffix, backward.
    for at in range(stop - 1, begin, -1):
        code = (code ^ np.uint64(data[at] | 0x20)) * names.HASH_PRIME
        if stop - at >= _SHORTEST_AFFIX:
            found |= _look_up(HINT_ENDINGS, code)
    return found


@njit(nogil=True, cache=True)
def hints_of(data: np.ndarray, begin: int, stop: int) -> int:
    """Returns the hints of the words of a value, one bit per group of HINTS. Words end at any other sign, and before a
    capital.
    """
    found = 0
    at = begin
    stop = min(stop, begin + _LONGEST_VALUE)
    # Each turn takes one word, or one other sign.
    while at < stop:
        start = at
        code = names.HASH_BASIS
        # Hash the letters up to the next sign or capital.
        while at < stop:
            byte = data[at]
            letter = byte | 0x20
            if (
                letter < 0x61
                or letter > 0x7A
                or (at > start and byte < ascii.LOWER_A and data[at - 1] >= ascii.LOWER_A)
            ):
                break
            code = (code ^ np.uint64(letter)) * names.HASH_PRIME
            at += 1
        if at - start > 1:
            word = _look_up(HINT_WORDS, code)
            if not word and at - start > _SHORTEST_AFFIX + 2 and at - start < 32:
                word = _affixes(data, start, at)
            found |= word
        elif at == start:
            at += 1
    return found


@njit(nogil=True, cache=True)
def _is_invisible(data: np.ndarray, begin: int, stop: int) -> bool:
    """Whether a style says display:none or visibility:hidden."""
    stop = min(stop, begin + _LONGEST_VALUE)
    # Look for a colon after a `y`, and compare what is around it.
    for at in range(begin + 7, stop - 4):
        if data[at] == ascii.COLON and data[at - 1] | 0x20 == 0x79:  # y:
            place = at + 1
            while place < stop and data[place] == ascii.SP:
                place += 1
            if place + 3 >= stop:
                return False
            first, second = data[place] | 0x20, data[place + 1] | 0x20
            if first == 0x6E and second == 0x6F and data[at - 7] | 0x20 == 0x64:
                return True  # display: no(ne)
            if first == 0x68 and second == 0x69 and at - begin >= 10 and data[at - 10] | 0x20 == 0x76:
                return True  # visibility: hi(dden)
    return False


@njit(nogil=True, cache=True)
def _number_of(data: np.ndarray, begin: int, stop: int) -> int:
    """Returns 1 + the number at the start of a value; 0 if there is none, -1 if it is negative or has more than six
    digits.
    """
    number = 0
    if begin < stop and data[begin] == ascii.HYPHEN:
        return -1
    # Digits up to another sign.
    for at in range(begin, stop):
        if data[at] < ascii.ZERO or data[at] > ascii.NINE:
            return number + 1 if at > begin else 0
        if at - begin >= 6:
            return -1
        number = number * 10 + data[at] - 0x30
    return number + 1 if stop > begin else 0


@njit(nogil=True, cache=True, forceinline=True)
def _hints_again(data: np.ndarray, begin: int, stop: int, noted: np.ndarray) -> Any:
    """Caches `hints_of`, since pages use few classes many times. Returns the hash of the value and adds its hints."""
    stop = min(stop, begin + _LONGEST_VALUE)
    code = np.int64(mixed(view(data), begin, stop, np.uint64(stop - begin + 1) * names.HASH_MIX))
    place = ATTRIBUTES + (code & (_REMEMBERED - 1))
    if noted[place] != code:
        noted[place] = code
        noted[place + _REMEMBERED] = hints_of(data, begin, stop)
    noted[A_HINTS] |= noted[place + _REMEMBERED]
    return code


@njit(nogil=True, cache=True, forceinline=True)
def _begins_with(data: np.ndarray, begin: int, name: np.ndarray) -> bool:
    same = 0
    while same < name.size and data[begin + same] == name[same]:
        same += 1
    return bool(same == name.size)


@njit(nogil=True, cache=True)
def _is_api_name(data: np.ndarray, begin: int, stop: int) -> bool:
    """Whether an id is the name of what a manual describes, not of a part of the page: `email.header.Header`,
    `getHeader(int)`, `module-forum`.
    """
    # A dot or parenthesis; Sphinx writes `module-` before the name of a module.
    for at in range(begin, min(stop, begin + _LONGEST_VALUE)):
        if data[at] == ascii.DOT or data[at] == ascii.LEFT_PAREN:
            return True
    return bool(stop - begin > _MODULE.size and _begins_with(data, begin, _MODULE))


@njit(nogil=True, cache=True, forceinline=True)
def _note(data: np.ndarray, name: Any, begin: int, stop: int, noted: np.ndarray) -> None:
    if name in (_CLASS, _ID, _ROLE, _ITEMPROP):
        if name == _ID and _is_api_name(data, begin, stop):
            return
        code = _hints_again(data, begin, stop, noted)
        if name == _CLASS:
            noted[A_CLASS] = code >> 33 & 0x7FFFFFFF
            noted[A_MATH] = max(noted[A_MATH], math_class(data, begin, stop))
    elif name == _STYLE:
        if _is_invisible(data, begin, stop):
            noted[A_HINTS] |= HINT_HIDDEN | HINT_INVISIBLE
    elif name == _HREF:
        noted[A_HREF], noted[A_HREF_END] = begin, stop
    elif name in (_ALT, _ALTTEXT):
        noted[A_ALT], noted[A_ALT_END] = begin, stop
    elif name == _HIDDEN:
        noted[A_HINTS] |= HINT_HIDDEN | HINT_INVISIBLE
    elif name in (_TYPE, _DISPLAY):
        code = np.int64(0)
        for at in range(begin, min(stop, begin + 8)):
            code |= np.int64(data[at] | 0x20) << np.int64(8 * (at - begin))
        code = np.int64(data[begin]) if stop - begin == 1 else code  # the letters of a list, where case counts
        noted[A_TYPE if name == _TYPE else A_DISPLAY] = code
        # A script of type math/tex; mode=display is a formula on a separate line.
        noted[A_START] += name == _TYPE and stop - begin > 12
    elif name in (_START, _VALUE):
        noted[A_START] = _number_of(data, begin, stop)
    elif name == _REVERSED:
        noted[A_REVERSED] = 1
    elif name == _SRC and draws_formulas(data, begin, stop):
        noted[A_MATH] = MATH_IMAGE


MATH_KATEX, MATH_JAX, MATH_IMAGE, MATH_WORD, CLASSIFIER, CODE_LINES, TOOLTIP = range(1, 8)
_CLASSIFIER, _FRAGMENT, _TTC, _FORMULA, _MODULE = (
    np.frombuffer(name, np.uint8) for name in (b"classifier", b"fragment", b"ttc", b"formula", b"module-")
)
_SERVERS = tuple(map(_name, ("latex.co", "latex.ph", "etex.cgi", "htex.cgi")))
"""In addresses of pictures of formulas: latex.codecogs.com, latex.php, mimetex.cgi, mathtex.cgi."""
_SERVER_BYTES = 64


@njit(nogil=True, cache=True)
def draws_formulas(data: np.ndarray, begin: int, stop: int) -> bool:
    """Whether an address is one of a server that draws formulas, whose alternative text is TeX."""
    last = np.int64(0)
    # The last eight letters are in one number, which is compared with each server.
    for at in range(begin, min(stop, begin + _SERVER_BYTES)):
        last = last >> np.int64(8) & np.int64(0xFFFFFFFFFFFFFF) | np.int64(data[at] | 0x20) << np.int64(56)
        if last in _SERVERS:
            return True
    return False


@njit(nogil=True, cache=True)
def math_class(data: np.ndarray, begin: int, stop: int) -> int:
    """Whether a class is katex-html, MathJax (or MathJax_SVG, MathJax_Preview), one of pictures of formulas, or math
    and others, as pandoc and Sphinx write it; classifier, with which Sphinx marks the kind of a term; or one of
    Doxygen: fragment (lines of code), ttc (a tooltip), formulaInl and formulaDsp."""
    size = stop - begin
    if size == _CLASSIFIER.size:
        if _begins_with(data, begin, _CLASSIFIER):
            return CLASSIFIER
        if _begins_with(data, begin, _FORMULA):
            return MATH_WORD
    elif size == _FRAGMENT.size and _begins_with(data, begin, _FRAGMENT):
        return CODE_LINES
    elif size == _TTC.size and _begins_with(data, begin, _TTC):
        return TOOLTIP
    is_math = size >= 4 and data[begin] == 0x6D and data[begin + 1] == ascii.LOWER_A and data[begin + 2] == 0x74
    if is_math and data[begin + 3] == 0x68 and (size == 4 or data[begin + 4] <= ascii.SP):
        return MATH_WORD
    if size >= 10 and data[begin] == 0x6B and data[begin + 4] == 0x78 and data[begin + 6] == 0x68:
        return MATH_KATEX
    if size >= 7 and data[begin] == 0x4D and data[begin + 4] == 0x4A and data[begin + 6] == 0x78:
        # MathJax_Display contains another of these, and no script: MathJax writes that after it.
        return MATH_JAX
    if (
        size >= 8
        and data[begin] == 0x6D
        and data[begin + 1] == 0x77
        and data[begin + 2] == 0x65
        and data[begin + 3] == ascii.HYPHEN
    ):
        return MATH_IMAGE
    if size >= 5 and data[begin] == 0x6C and data[begin + 1] == ascii.LOWER_A:  # latex
        begin += 2
    is_tex = stop - begin >= 3 and data[begin] == 0x74 and data[begin + 1] == 0x65 and data[begin + 2] == 0x78
    return MATH_IMAGE if is_tex and (stop - begin == 3 or data[begin + 3] <= ascii.SP) else 0


@njit(nogil=True, cache=True, forceinline=True)
def read_attributes(data: np.ndarray, words: np.ndarray, at: int, stop: int, noted: np.ndarray, wanted: bool) -> int:
    """Returns the end of the tag (its ">" or `stop`). `wanted`: its attributes are noted; otherwise they are only
    skipped.
    """
    # Each turn reads one attribute.
    while True:
        while at < stop and names.BYTE_CLASS[data[at]] & (names.BYTE_SPACE | names.BYTE_SLASH):
            at += 1
        if at >= stop or data[at] == ascii.GREATER:
            return at
        start = at
        name = np.int64(data[at] | 0x20)
        at += 1
        # The first eight letters of the name are one number; longer names are not wanted.
        while at < stop and not names.BYTE_CLASS[data[at]]:
            if at - start < 8:
                name |= np.int64(data[at] | 0x20) << np.int64(8 * (at - start))
            at += 1
        size = at - start
        while at < stop and names.BYTE_CLASS[data[at]] == names.BYTE_SPACE:
            at += 1
        begin = end = at
        if at < stop and data[at] == ascii.EQUALS:
            at += 1
            while at < stop and names.BYTE_CLASS[data[at]] == names.BYTE_SPACE:
                at += 1
            if at < stop and (data[at] == ascii.QUOTE or data[at] == ascii.APOSTROPHE):
                begin = at + 1
                end = seek(data, words, begin, stop, data[at])
                at = end + 1
            else:
                begin = at
                while at < stop and not names.BYTE_CLASS[data[at]] & (names.BYTE_SPACE | names.BYTE_GREATER):
                    at += 1
                end = at
        if wanted and size <= 8:
            _note(data, name, begin, end, noted)
