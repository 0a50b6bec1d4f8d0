"""Bounds on a page before anybody parses it: how large and how deep its tree would be, and what extraction would cost.

A scan of the UTF-8 bytes that follows the HTML standard's tokenizer, and as much of its tree construction as decides
nesting: void elements, optional end tags (`<p>`, `<li>`, `<td>`, `<option>`), implied table rows, misnested formatting
(an unclosed `<b>` is opened anew in every later paragraph, so a small page can make a huge tree), raw text (script,
style, textarea, title), foreign content (svg, math). It keeps no tree: one stack of open elements, one list of
active formatting elements. Where it differs from a parser its stack is the higher one, but for one random tag soup in
five hundred, where it is up to three elements lower.
"""

from typing import Any

import numpy as np
from numba import carray, njit, types  # type: ignore[attr-defined]
from numba.core import cgutils
from numba.cpython.unsafe import numbers
from numba.extending import intrinsic

ELEMENTS, DEPTH, ATTRIBUTES, NAMES, TEXT, BLOCKS, NESTED, COLUMNS = range(8)
"""Columns of what `scan` returns:
ELEMENTS    elements of the tree
DEPTH       the most elements open at once; `<html>` is 1
ATTRIBUTES  the most attributes on one element
NAMES       distinct names of attributes and unknown elements, by a hash of 16 bits; attributes after the first 10,000
TEXT        bytes of text, with the indentation that an extractor gives to list items
BLOCKS      elements that start a line of their own
NESTED      bytes of text and 8 for each element, times the open elements whose whole content an extractor weighs"""

FREE_NAMES = 10_000
SHORTEST_CUT = 64
"""Bytes; it costs as much to cut as to parse them."""

_H = "h1 h2 h3 h4 h5 h6"
_SETS = {
    "VOID": "area base basefont bgsound br col embed frame hr image img input keygen link meta param source track wbr",
    "RAW": "iframe noembed noframes script style textarea title xmp",
    "ENDS_P": "address article aside blockquote center dd details dialog dir div dl dt fieldset figcaption figure "
    f"footer form {_H} header hgroup hr li listing main menu nav ol p plaintext pre section summary ul xmp",
    "FORMAT": "a b big code em font i nobr s small strike strong tt u",
    "SPECIAL": "address applet area article aside base basefont bgsound blockquote body br button caption center col "
    f"colgroup dd details dir div dl dt embed fieldset figcaption figure footer form frame frameset {_H} head header "
    "hgroup hr html iframe img input keygen li link listing main marquee menu meta nav noembed noframes noscript "
    "object ol p param plaintext pre script section select source style summary table tbody td template textarea tfoot "
    "th thead title tr track ul wbr xmp",
    "SCOPE": "applet caption html table td th marquee object template",
    "SCOPED_END": "address applet article aside blockquote button center dd details dialog dir div dl dt fieldset "
    "figcaption figure footer header hgroup listing main marquee menu nav object ol pre section summary ul",
    "MARKER": "applet caption marquee object td template th",
    "QUIET": "base basefont bgsound frame frameset iframe link meta noembed noframes param rb rp rt rtc script source "
    "style table template textarea title track",
    "NOT_SVG": f"b big blockquote body br center code dd div dl dt em embed {_H} head hr i img li listing menu meta "
    "nobr ol p pre ruby s small span strong strike sub sup table tt u ul var",
    "INTEGRATES": "annotation-xml desc foreignobject mi mn mo ms mtext title",
    "TABLE_PART": "caption col colgroup tbody td tfoot th thead tr",
    "IN_TABLE": "caption col colgroup table tbody td tfoot th thead tr",
    "NO_TEXT": "table tbody tfoot thead tr",
    "ROW_GROUP": "tbody tfoot thead",
    "IN_GROUP": "td th tr",
    "TABLE_ROOT": "table template",
    "ROOT": "body head html",
    "HEADING": _H,
    "ITEM": "dd dt li",
    "TERM": "dd dt",
    "THIN": "address div p",
    "LIST": "ol ul",
    "RUBY": "rb rp rt rtc",
    "RUBY_BASE": "rb rtc",
    "CHOICE": "optgroup option",
    "ENDS_SELECT": "input keygen select textarea",
    "IN_SELECT": "script template",
    "FOREIGN_ROOT": "math svg",
    "WEIGHED": "article div footer ul",
    "COUNTED": "article div footer ol p pre select ul",
    "BLOCK": "address article aside blockquote br center dd details dialog div dl dt fieldset figcaption figure footer "
    f"form {_H} header hgroup hr li listing main menu nav ol p pre section summary table tbody tfoot thead tr ul",
}
_NAMES = ["", *sorted({name for names in _SETS.values() for name in names.split()})]
_OTHER, _GHOST, _FOREIGN, _INTEGRATION = 0, len(_NAMES), len(_NAMES) + 1, len(_NAMES) + 2
_BIT = {name: 1 << bit for bit, name in enumerate(_SETS)}
(VOID, RAW, ENDS_P, FORMAT, SPECIAL, SCOPE, SCOPED_END, MARKER, QUIET, NOT_SVG, INTEGRATES, TABLE_PART) = list(
    _BIT.values()
)[:12]
(IN_TABLE, NO_TEXT, ROW_GROUP, IN_GROUP, TABLE_ROOT, ROOT, HEADING, ITEM, TERM, THIN, LIST) = list(_BIT.values())[12:23]
(RUBY, RUBY_BASE, CHOICE, ENDS_SELECT, IN_SELECT, FOREIGN_ROOT, WEIGHED, COUNTED, BLOCK) = list(_BIT.values())[23:]
FLAGS = np.zeros(len(_NAMES) + 3, np.int64)
for _set, _members in _SETS.items():
    FLAGS[[_NAMES.index(name) for name in _members.split()]] |= _BIT[_set]
FLAGS[_INTEGRATION] = SPECIAL | SCOPE
_A, _BODY, _BR, _BUTTON, _COL, _FORM, _HTML, _LI, _NOBR = map(
    _NAMES.index, ["a", "body", "br", "button", "col", "form", "html", "li", "nobr"]
)
_OPTGROUP, _OPTION, _P, _PLAINTEXT, _PRE = map(_NAMES.index, ["optgroup", "option", "p", "plaintext", "pre"])
_RTC, _RUBY, _SCRIPT, _SELECT, _STYLE, _TABLE = map(_NAMES.index, ["rtc", "ruby", "script", "select", "style", "table"])
_TBODY, _TEMPLATE, _TR = map(_NAMES.index, ["tbody", "template", "tr"])

_BASIS, _PRIME = np.uint64(0xCBF29CE484222325), np.uint64(0x100000001B3)
_MIX = np.uint64(0x9E3779B97F4A7C15)  # FNV alone puts names that end in digits into few slots
_ONES, _SEVENS, _ALL = np.uint64(0x0101010101010101), np.uint64(0x7F7F7F7F7F7F7F7F), np.uint64(2**64 - 1)


def _hash(name: str) -> int:
    """FNV-1a, as the scan computes it byte by byte."""
    code = int(_BASIS)
    for byte in name.encode():
        code = (code ^ byte) * int(_PRIME) % 2**64
    return code


_HASHES = np.array([_hash(name) for name in _NAMES], np.uint64)
# Twelve bits of the hash that differ for all known names: a table without collisions.
_SHIFT = np.uint64(next(s for s in range(52) if len({_hash(k) >> s & 4095 for k in _NAMES}) == len(_NAMES)))
_SLOTS = np.zeros(4096, np.uint8)
_SLOTS[(_HASHES >> _SHIFT & np.uint64(4095)).astype(np.int64)] = np.arange(len(_NAMES))

_SPACE, _SLASH, _GREATER, _EQUALS = 1, 2, 4, 8
_CLASS = np.zeros(256, np.uint8)
_CLASS[[0x09, 0x0A, 0x0C, 0x0D, 0x20]] = _SPACE
_CLASS[[0x2F, 0x3E, 0x3D]] = _SLASH, _GREATER, _EQUALS
_LOWER = np.arange(256).astype(np.uint64)
_LOWER[0x41:0x5B] += np.uint64(0x20)


def _build_pointer(typing: Any, address: Any) -> Any:
    def build(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        return builder.inttoptr(values[0], cgutils.voidptr_t)

    return types.voidptr(address), build


_pointer: Any = intrinsic(_build_pointer)
_trailing_zeros: Any = numbers.trailing_zeros

# The state of a scan is one array, because every further array that a compiled function takes costs at each call.
# Row 0 holds the columns of `scan` and further numbers; rows 1 and 2 the stack of open elements, by number in _NAMES
# and hash of the name; rows 3 to 6 the list of active formatting elements: kind (-1: a marker), place in the stack
# (-1: closed), where its tag starts and stops.
_KINDS, _CODES, _LISTED_KIND, _PLACE, _FROM, _TO, _ROWS = range(1, 8)
_TOP, _LISTED, _OPEN_P, _OPEN_WEIGHED, _OPEN_LISTS, _OPEN_PRE = range(COLUMNS, COLUMNS + 6)
_OPEN_SELECTS, _HAS_FORM, _ATTRIBUTES, _NUMBERS = range(COLUMNS + 6, COLUMNS + 10)


@njit(nogil=True, cache=True, forceinline=True)
def _count(page: np.ndarray, kind: Any, step: int) -> None:
    """Keeps the counts of open elements, which save searches of the stack."""
    flags = FLAGS[kind]
    if kind == _P:
        page[0, _OPEN_P] += step
    elif kind == _SELECT:
        page[0, _OPEN_SELECTS] += step
    elif kind == _PRE:
        page[0, _OPEN_PRE] += step
    elif flags & LIST:
        page[0, _OPEN_LISTS] += step
    if flags & WEIGHED:
        page[0, _OPEN_WEIGHED] += step


@njit(nogil=True, cache=True, forceinline=True)
def _leaf(page: np.ndarray, levels: int) -> None:
    """Elements that are closed as soon as they are open."""
    page[0, ELEMENTS] += levels
    page[0, DEPTH] = max(page[0, DEPTH], page[0, _TOP] + levels)


@njit(nogil=True, cache=True, forceinline=True)
def _push(page: np.ndarray, kind: Any, code: Any) -> None:
    _leaf(page, 1)
    top = page[0, _TOP]
    if top < page.shape[1]:
        page[_KINDS, top], page[_CODES, top] = kind, code
        page[0, _TOP] = top + 1
        if FLAGS[kind] & COUNTED:
            _count(page, kind, 1)


@njit(nogil=True, cache=True, forceinline=True)
def _pop_to(page: np.ndarray, height: int) -> None:
    """Closes all elements at `height` and above; formatting among them waits in the list to be opened again."""
    for place in range(height, page[0, _TOP]):
        if FLAGS[page[_KINDS, place]] & COUNTED:
            _count(page, page[_KINDS, place], -1)
    while page[_KINDS, height - 1] == _GHOST:
        height -= 1
    page[0, _TOP] = height
    entry = page[0, _LISTED] - 1
    while entry >= 0:
        if page[_LISTED_KIND, entry] < 0:
            if page[_PLACE, entry] < height:
                break
            page[0, _LISTED] = entry
        elif page[_PLACE, entry] >= height:
            page[_PLACE, entry] = -1
        entry -= 1


@njit(nogil=True, cache=True, forceinline=True)
def _find(page: np.ndarray, kind: Any, stops: int, stop_kind: Any) -> int:
    """Place of the highest open `kind` that no bound of the search hides, or 0."""
    place = page[0, _TOP] - 1
    while place > 0 and page[_KINDS, place] != kind:
        if FLAGS[page[_KINDS, place]] & stops or page[_KINDS, place] == stop_kind:
            return 0
        place -= 1
    return int(place)


@njit(nogil=True, cache=True, forceinline=True)
def _close(page: np.ndarray, kind: Any, stops: int, stop_kind: Any) -> bool:
    place = _find(page, kind, stops, stop_kind)
    if place > 0:
        _pop_to(page, place)
    return place > 0


@njit(nogil=True, cache=True, forceinline=True)
def _close_other(page: np.ndarray, kind: Any, code: Any) -> None:
    """The standard's "any other end tag": closes the nearest of that name above the nearest special element."""
    for place in range(page[0, _TOP] - 1, 0, -1):
        if page[_KINDS, place] == kind and (kind != _OTHER or page[_CODES, place] == code):
            _pop_to(page, place)
            return
        if FLAGS[page[_KINDS, place]] & SPECIAL:
            return


@njit(nogil=True, cache=True, forceinline=True)
def _reopen(page: np.ndarray) -> None:
    """Opens again the formatting that was closed by the end of a block and not by its own end tag."""
    last = page[0, _LISTED]
    first = last
    while first > 0 and page[_LISTED_KIND, first - 1] >= 0 and page[_PLACE, first - 1] < 0:
        first -= 1
    for entry in range(first, last):
        page[_PLACE, entry] = page[0, _TOP]
        _push(page, page[_LISTED_KIND, entry], 0)


@njit(nogil=True, cache=True)
def _forget(page: np.ndarray, entry: int) -> None:
    page[0, _LISTED] -= 1
    for later in range(entry, page[0, _LISTED]):
        for field in range(_LISTED_KIND, _ROWS):
            page[field, later] = page[field, later + 1]


@njit(nogil=True, cache=True)
def _list(page: np.ndarray, kind: Any, start: int, stop: int) -> None:
    """Adds the element just pushed to the list."""
    row = page[0, _LISTED]
    if row == page.shape[1]:
        page[0, DEPTH] = max(page[0, DEPTH], row)  # more than the stack may hold: too deep
        return
    page[_LISTED_KIND, row], page[_PLACE, row] = kind, page[0, _TOP] - 1
    page[_FROM, row], page[_TO, row] = start, stop
    page[0, _LISTED] = row + 1


@njit(nogil=True, cache=True)
def _drop_fourth(page: np.ndarray, data: np.ndarray, kind: Any, start: int, stop: int) -> None:
    """Of equal formatting elements the list holds at most three ("Noah's Ark clause"): makes room for another."""
    equal, oldest = 0, 0
    entry = page[0, _LISTED] - 1
    while entry >= 0 and page[_LISTED_KIND, entry] >= 0:
        if page[_LISTED_KIND, entry] == kind and page[_TO, entry] - page[_FROM, entry] == stop - start:
            back = start - page[_FROM, entry]
            at = start
            while at < stop and data[at] == data[at - back]:
                at += 1
            if at == stop:
                equal += 1
                oldest = entry
        entry -= 1
    if equal >= 3:
        _forget(page, oldest)


@njit(nogil=True, cache=True, forceinline=True)
def _adopt(page: np.ndarray, kind: Any) -> bool:
    """The end tag of a formatting element, by the standard's adoption agency algorithm. False: none is in the list."""
    entry = page[0, _LISTED] - 1
    if entry >= 0 and page[_LISTED_KIND, entry] == kind and page[_PLACE, entry] == page[0, _TOP] - 1:
        page[0, _LISTED] = entry
        page[0, _TOP] -= 1
        if page[_KINDS, page[0, _TOP] - 1] == _GHOST:
            _pop_to(page, page[0, _TOP])
        return True
    for _ in range(8):
        entry = page[0, _LISTED] - 1
        while entry >= 0 and page[_LISTED_KIND, entry] >= 0 and page[_LISTED_KIND, entry] != kind:
            entry -= 1
        if entry < 0 or page[_LISTED_KIND, entry] < 0:
            return False
        place = page[_PLACE, entry]
        if place < 0:
            _forget(page, entry)
            return True
        block = page[0, _TOP]
        for above in range(page[0, _TOP] - 1, place, -1):
            if FLAGS[page[_KINDS, above]] & SCOPE:
                return True
            if FLAGS[page[_KINDS, above]] & SPECIAL:
                block = above
        if block == page[0, _TOP]:
            _pop_to(page, place)
            _forget(page, entry)
            return True
        # The block moves out of the formatting element, which is copied into it; so is formatting between the two, up
        # to three elements from the block. Anything else between them is no longer open.
        write = place
        for between in range(place + 1, block):
            owner = page[0, _LISTED] - 1
            while owner >= 0 and page[_PLACE, owner] != between:
                owner -= 1
            if owner >= 0 and block - between <= 3:
                page[_KINDS, write] = page[_KINDS, between]
                page[_PLACE, owner] = write
                write += 1
                page[0, ELEMENTS] += 1
            else:
                _count(page, page[_KINDS, between], -1)
                if owner >= 0:
                    _forget(page, owner)
                    if owner < entry:
                        entry -= 1
        dropped = block - 1 - write
        page[_KINDS, write], page[_CODES, write] = page[_KINDS, block], page[_CODES, block]
        page[_KINDS, write + 1] = kind
        for later in range(block + 1, page[0, _TOP]):
            page[_KINDS, later - dropped], page[_CODES, later - dropped] = page[_KINDS, later], page[_CODES, later]
        for other in range(page[0, _LISTED]):
            if page[_PLACE, other] > block:
                page[_PLACE, other] -= dropped
        page[_PLACE, entry] = write + 1
        page[0, _TOP] -= dropped
        page[0, ELEMENTS] += 1
    return True


@njit(nogil=True, cache=True)
def _start_table_part(page: np.ndarray, kind: Any) -> None:
    """A row ends the row before it, a cell the cell before it; row group and row are implied. No table: ignored."""
    height = page[0, _TOP]
    while height > 0 and not FLAGS[page[_KINDS, height - 1]] & TABLE_ROOT:
        height -= 1
    if height == 0:
        return
    group = row = False
    if FLAGS[kind] & IN_GROUP:
        group = height < page[0, _TOP] and FLAGS[page[_KINDS, height]] & ROW_GROUP != 0
        row = group and kind != _TR and height + 1 < page[0, _TOP] and page[_KINDS, height + 1] == _TR
    _pop_to(page, height + group + row)
    if FLAGS[kind] & IN_GROUP and not group:
        _push(page, _TBODY, 0)
    if FLAGS[kind] & IN_GROUP and kind != _TR and not row:
        _push(page, _TR, 0)
    if kind == _COL:
        _leaf(page, 2)
        return
    _push(page, kind, 0)
    if FLAGS[kind] & MARKER:
        _list(page, -1, 0, 0)


@njit(nogil=True, cache=True)
def _start_in_select(page: np.ndarray, kind: Any) -> bool:
    """A start tag while a list of choices is open. True: it ended the list, or goes its own way."""
    flags = FLAGS[kind]
    if flags & CHOICE:
        if page[_KINDS, page[0, _TOP] - 1] == _OPTION:
            _pop_to(page, page[0, _TOP] - 1)
        if kind == _OPTGROUP and page[_KINDS, page[0, _TOP] - 1] == _OPTGROUP:
            _pop_to(page, page[0, _TOP] - 1)
        _push(page, kind, 0)
        return False
    if flags & ENDS_SELECT or (flags & IN_TABLE and _find(page, _TABLE, 0, -1) > 0):
        _close(page, _SELECT, 0, -1)
        return bool(kind != _SELECT)
    return bool(flags & IN_SELECT)


@njit(nogil=True, cache=True, forceinline=True)
def _start(page: np.ndarray, data: np.ndarray, kind: Any, code: Any, start: int, stop: int, quirks: bool) -> bool:
    """A start tag, `data[start:stop]`. True: raw text follows."""
    flags = FLAGS[kind]
    self_closing = data[stop - 2] == 0x2F
    if page[_KINDS, page[0, _TOP] - 1] == _FOREIGN:
        if not flags & NOT_SVG:
            if self_closing:
                _leaf(page, 1)
            else:
                _push(page, _INTEGRATION if flags & INTEGRATES else _FOREIGN, code)
            return False
        height = page[0, _TOP]
        while page[_KINDS, height - 1] == _FOREIGN:
            height -= 1
        _pop_to(page, height)
    if page[0, _OPEN_SELECTS] and not _start_in_select(page, kind):
        return False
    if flags & ROOT or (kind == _FORM and page[0, _HAS_FORM]):
        return False
    if flags & TABLE_PART:
        _start_table_part(page, kind)
        return False
    if kind == _FORM:
        page[0, _HAS_FORM] = 1
    elif kind == _TABLE:
        _close(page, _TABLE, SCOPE, -1)  # a table stands in a cell, or ends the table that it stands in
    if flags & ITEM:
        for place in range(page[0, _TOP] - 1, 0, -1):
            other = page[_KINDS, place]
            if other == kind or flags & FLAGS[other] & TERM:
                _pop_to(page, place)
                break
            if FLAGS[other] & SPECIAL and not FLAGS[other] & THIN:
                break
    if page[0, _OPEN_P] and (flags & ENDS_P or (kind == _TABLE and not quirks)):
        _close(page, _P, SCOPE, _BUTTON)
    top_kind = page[_KINDS, page[0, _TOP] - 1]
    if flags & FLAGS[top_kind] & HEADING or (flags & CHOICE and top_kind == _OPTION):
        _pop_to(page, page[0, _TOP] - 1)
    elif kind == _BUTTON:
        _close(page, _BUTTON, SCOPE, -1)
    elif flags & RUBY and _find(page, _RUBY, SCOPE, -1) > 0:
        while FLAGS[top_kind] & RUBY and (top_kind != _RTC or flags & RUBY_BASE):
            _pop_to(page, page[0, _TOP] - 1)
            top_kind = page[_KINDS, page[0, _TOP] - 1]
    elif kind == _A or (kind == _NOBR and _find(page, _NOBR, SCOPE, -1) > 0):
        _adopt(page, kind)
    if not flags & (ENDS_P | QUIET) and page[0, _LISTED] and page[_PLACE, page[0, _LISTED] - 1] < 0:
        _reopen(page)
    if flags & (VOID | RAW) or (flags & FOREIGN_ROOT and self_closing):
        _leaf(page, 1)
        return bool(flags & RAW)
    _push(page, _FOREIGN if flags & FOREIGN_ROOT else kind, code)
    if flags & FORMAT:
        _drop_fourth(page, data, kind, start, stop)
        _list(page, kind, start, stop)
    elif flags & MARKER:
        _list(page, -1, 0, 0)
    return False


@njit(nogil=True, cache=True)
def _end_form(page: np.ndarray) -> None:
    """The end tag of a form ends the form and leaves open what was opened inside it, which stays as deep as it was."""
    place = _find(page, _FORM, SCOPE, -1)
    if place > 0 and page[0, _HAS_FORM]:
        if place == page[0, _TOP] - 1:
            _pop_to(page, place)
        else:
            page[_KINDS, place] = _GHOST
    page[0, _HAS_FORM] = 0


@njit(nogil=True, cache=True)
def _end_in_select(page: np.ndarray, kind: Any) -> bool:
    """An end tag while a list of choices is open. True: it ended the list and something around it."""
    top = page[0, _TOP]
    if kind == _OPTGROUP and page[_KINDS, top - 1] == _OPTION and page[_KINDS, top - 2] == _OPTGROUP:
        _pop_to(page, top - 2)
    elif FLAGS[kind] & CHOICE and page[_KINDS, top - 1] == kind:
        _pop_to(page, top - 1)
    elif kind == _SELECT or (FLAGS[kind] & IN_TABLE and _find(page, kind, 0, -1) > 0):
        _close(page, _SELECT, 0, -1)
        return bool(kind != _SELECT)
    return False


@njit(nogil=True, cache=True, forceinline=True)
def _end(page: np.ndarray, kind: Any, code: Any) -> None:
    """An end tag."""
    flags = FLAGS[kind]
    place = page[0, _TOP] - 1
    if page[_KINDS, place] == kind and not flags & (ROOT | FORMAT | MARKER) and kind not in (_OTHER, _FORM):
        page[0, _TOP] = place
        if flags & COUNTED:
            _count(page, kind, -1)
        if page[_KINDS, place - 1] == _GHOST:
            _pop_to(page, place)
        return
    while page[_KINDS, place] >= _FOREIGN:
        if page[_CODES, place] == code:
            _pop_to(page, place)
            return
        place -= 1
    if flags & ROOT or (page[0, _OPEN_SELECTS] and not _end_in_select(page, kind)):
        return
    if kind == _BR:
        _reopen(page)
        _leaf(page, 1)
    elif kind == _P:
        if not (page[0, _OPEN_P] and _close(page, _P, SCOPE, _BUTTON)):
            _leaf(page, 1)
    elif kind == _FORM:
        _end_form(page)
    elif flags & FORMAT:
        if not _adopt(page, kind):
            _close_other(page, kind, code)
    elif flags & HEADING:
        place = page[0, _TOP] - 1
        while not FLAGS[page[_KINDS, place]] & (HEADING | SCOPE):
            place -= 1
        if FLAGS[page[_KINDS, place]] & HEADING:
            _pop_to(page, place)
    elif flags & IN_TABLE:
        _close(page, kind, TABLE_ROOT, -1)
    elif kind == _LI:
        _close(page, kind, SCOPE | LIST, -1)
    elif flags & SCOPED_END or kind == _TEMPLATE:
        _close(page, kind, SCOPE if flags & SCOPED_END else 0, -1)
    else:
        _close_other(page, kind, code)


@njit(nogil=True, cache=True, forceinline=True)
def _seek(data: np.ndarray, words: np.ndarray, at: int, stop: int, byte: int) -> int:
    """Where `byte` stands next, or `stop`; eight bytes at a time, in the (little-endian) order of all our machines."""
    word = at >> 3
    pattern = np.uint64(byte) * _ONES
    passed = _ALL << np.uint64((at & 7) << 3)
    while word < words.size:
        differs = words[word] ^ pattern
        equal = ~(((differs & _SEVENS) + _SEVENS) | differs | _SEVENS) & passed
        if equal:
            return int(min(stop, (word << 3) + (_trailing_zeros(equal) >> 3)))
        if (word << 3) + 8 >= stop:
            return stop
        passed = _ALL
        word += 1
    at = max(at, word << 3)
    while at < stop and data[at] != byte:
        at += 1
    return at


@njit(nogil=True, cache=True, forceinline=True)
def _skip_raw(data: np.ndarray, words: np.ndarray, at: int, stop: int, code: Any) -> tuple[int, bool]:
    """Where the end tag of the raw text element with the hash `code` starts, or `stop`; and whether that is sure.

    A script with `<!--` and then `<script` may go on behind its first end tag.
    """
    comment = doubt = False
    while True:
        at = _seek(data, words, at, stop, 0x3C)
        if at + 2 >= stop:
            return stop, not doubt
        if data[at + 1] == 0x2F:
            end = at + 2
            found = _BASIS
            while end < stop and end - at < 16 and not _CLASS[data[end]] & (_SPACE | _SLASH | _GREATER):
                found = (found ^ _LOWER[data[end]]) * _PRIME
                end += 1
            if end < stop and np.int64(found) == code:
                return at, not doubt
        comment |= data[at + 1] == 0x21
        doubt |= comment and data[at + 1] | 0x20 == 0x73
        at += 1


@njit(nogil=True, cache=True)
def _skip_declaration(data: np.ndarray, words: np.ndarray, at: int, stop: int, foreign: bool) -> int:
    """Where the comment, doctype, CDATA section or processing instruction that starts at `at` ends."""
    comment = at + 3 < stop and data[at + 1] == 0x21 and data[at + 2] == 0x2D and data[at + 3] == 0x2D
    cdata = foreign and at + 8 < stop and data[at + 2] == 0x5B and data[at + 3] == 0x43 and data[at + 8] == 0x5B
    first = at + 4  # where the text of a comment begins
    at += 4 if comment else 1
    while True:
        at = _seek(data, words, at, stop, 0x3E)
        if at >= stop:
            return stop
        if comment:
            dashes = at - first < 2 and (at == first or data[at - 1] == 0x2D)  # <!--> and <!--->
            dashes |= at - first >= 2 and data[at - 1] == 0x2D and data[at - 2] == 0x2D
            dashes |= at - first >= 3 and data[at - 1] == 0x21 and data[at - 2] == 0x2D and data[at - 3] == 0x2D
        if (not comment or dashes) and (not cdata or (data[at - 1] == 0x5D and data[at - 2] == 0x5D)):
            return at + 1
        at += 1


@njit(nogil=True, cache=True)
def _is_quirky(data: np.ndarray, at: int, stop: int) -> bool:
    """Whether a doctype keeps tables inside paragraphs: an identifier older than HTML 4.01, or without an address."""
    quotes = 0
    modern = False
    for here in range(at, stop - 3):
        quotes += data[here] == 0x22 or data[here] == 0x27
        modern |= data[here] == 0x34 and data[here + 2] == 0x30 and data[here + 3] == 0x31
        modern |= data[here] | 0x20 == 0x78 and data[here + 1] | 0x20 == 0x68
    return quotes > 0 and (quotes < 3 or not modern)


@njit(nogil=True, cache=True, forceinline=True)
def _add_text(page: np.ndarray, data: np.ndarray, begin: int, stop: int) -> None:
    page[0, TEXT] += stop - begin
    page[0, NESTED] += (stop - begin) * page[0, _OPEN_WEIGHED]
    if page[0, _OPEN_LISTS] and page[0, _OPEN_PRE]:
        page[0, TEXT] += (stop - begin) * (2 * page[0, _OPEN_LISTS] + 2)
    if page[0, _LISTED] and page[_PLACE, page[0, _LISTED] - 1] < 0:
        blank = FLAGS[page[_KINDS, page[0, _TOP] - 1]] & NO_TEXT != 0
        while blank and begin < stop:
            blank = data[begin] <= 0x20
            begin += 1
        if not blank:
            _reopen(page)


@njit(nogil=True, cache=True, forceinline=True)
def _see(page: np.ndarray, data: np.ndarray, start: int, stop: int, seen: np.ndarray, number: int) -> None:
    """Counts a name, if the page has not had it before."""
    code = _BASIS
    for at in range(start, stop):
        code = (code ^ np.uint64(data[at])) * _PRIME
    slot = np.int64((code ^ code >> np.uint64(32)) * _MIX >> np.uint64(48))
    page[0, NAMES] += seen[slot] != number
    seen[slot] = number


@njit(nogil=True, cache=True, forceinline=True)
def _skip_attributes(
    page: np.ndarray, data: np.ndarray, words: np.ndarray, at: int, stop: int, seen: np.ndarray, number: int
) -> tuple[int, int]:
    """Where the tag ends (its ">" or `stop`), and how many attributes it has."""
    attributes = 0
    while True:
        while at < stop and _CLASS[data[at]] & (_SPACE | _SLASH):
            at += 1
        if at >= stop or data[at] == 0x3E:
            return at, attributes
        attributes += 1
        start = at
        at += 1
        while at < stop and not _CLASS[data[at]]:
            at += 1
        if page[0, _ATTRIBUTES] + attributes > FREE_NAMES:
            _see(page, data, start, at, seen, number)
        while at < stop and _CLASS[data[at]] == _SPACE:
            at += 1
        if at >= stop or data[at] != 0x3D:
            continue
        at += 1
        while at < stop and _CLASS[data[at]] == _SPACE:
            at += 1
        if at < stop and (data[at] == 0x22 or data[at] == 0x27):
            at = _seek(data, words, at + 1, stop, data[at]) + 1
        else:
            while at < stop and not _CLASS[data[at]] & (_SPACE | _GREATER):
                at += 1


@njit(nogil=True, cache=True, forceinline=True)
def _cut(start: int, stop: int, cuts: np.ndarray, written: int) -> int:
    if stop - start < SHORTEST_CUT:
        return written
    cuts[written, 0], cuts[written, 1] = start, stop
    return written + 1


@njit(nogil=True, cache=True)
def _measure_page(
    owned_page: np.ndarray,
    owned_data: np.ndarray,
    owned_words: np.ndarray,
    at: int,
    stop: int,
    max_depth: int,
    owned_seen: np.ndarray,
    number: int,
    owned_cuts: np.ndarray,
    written: int,
) -> int:
    # Views that own nothing: an array that owns memory is counted, atomically, at each call that it is passed to. Two
    # thirds of the time went there.
    page = carray(_pointer(owned_page.ctypes.data), owned_page.shape, np.int64)
    data = carray(_pointer(owned_data.ctypes.data), owned_data.shape, np.uint8)
    words = carray(_pointer(owned_words.ctypes.data), owned_words.shape, np.uint64)
    seen = carray(_pointer(owned_seen.ctypes.data), owned_seen.shape, np.int64)
    cuts = carray(_pointer(owned_cuts.ctypes.data), owned_cuts.shape, np.int64)
    for column in range(_NUMBERS):
        page[0, column] = 0
    page[_KINDS, 0], page[_KINDS, 1] = _HTML, _BODY
    page[0, _TOP], page[0, ELEMENTS], page[0, DEPTH] = 2, 3, 2
    root_attributes = 0
    quirks = at <= stop
    while at < stop and page[0, DEPTH] <= max_depth:
        begin = at
        at = _seek(data, words, at, stop, 0x3C)
        sign = data[at + 1] if at + 1 < stop else 0
        closing = sign == 0x2F
        letter = sign
        if closing:
            letter = data[at + 2] if at + 2 < stop else 0
        is_tag = (letter | 0x20) >= 0x61 and (letter | 0x20) <= 0x7A
        is_markup = is_tag or sign == 0x21 or sign == 0x3F or (closing and letter != 0)
        if at < stop and not is_markup:
            at += 1
        if at > begin:
            _add_text(page, data, begin, at)
        if at >= stop or not is_markup:
            continue
        start = at
        if not is_tag:
            at = _skip_declaration(data, words, at, stop, page[_KINDS, page[0, _TOP] - 1] == _FOREIGN)
            if sign == 0x21 and start + 3 < stop and data[start + 2] == 0x2D and data[start + 3] == 0x2D:
                # Its ends stay: without them the "<" before a comment and the letter behind it would be a tag.
                closed = data[at - 1] == 0x3E and (data[at - 2] == 0x2D or data[at - 2] == 0x21)
                end = at - (3 if data[at - 2] == 0x2D else 4) if closed else at
                written = _cut(start + 4, end, cuts, written)
            elif sign == 0x21 and start + 2 < stop and data[start + 2] | 0x20 == 0x64:
                quirks = _is_quirky(data, start, at)
            continue
        at += 2 if closing else 1
        name = at
        code = _BASIS
        while at < stop and not _CLASS[data[at]] & (_SPACE | _SLASH | _GREATER):
            code = (code ^ _LOWER[data[at]]) * _PRIME
            at += 1
        slot = _SLOTS[np.int64(code >> _SHIFT & np.uint64(4095))]
        known = _HASHES[slot] == code
        kind: Any = np.int64(slot) if known else _OTHER
        if not known:
            _see(page, data, name, at, seen, number)
        at, attributes = _skip_attributes(page, data, words, at, stop, seen, number)
        if at >= stop:
            break  # a tag without an end is no tag
        at += 1
        if closing:
            _end(page, kind, np.int64(code))
            continue
        page[0, _ATTRIBUTES] += attributes
        if FLAGS[kind] & ROOT:
            root_attributes += attributes  # a second <html> or <body> adds its attributes to the first
            attributes = root_attributes
        page[0, ATTRIBUTES] = max(page[0, ATTRIBUTES], attributes)
        raw = _start(page, data, kind, np.int64(code), start, at, quirks)
        page[0, NESTED] += 8 * page[0, _OPEN_WEIGHED]
        if FLAGS[kind] & BLOCK:
            page[0, BLOCKS] += 1
            page[0, TEXT] += 2 * page[0, _OPEN_LISTS]
        if raw:
            end, sure = _skip_raw(data, words, at, stop, np.int64(code))
            if sure and kind in (_SCRIPT, _STYLE):
                written = _cut(at, end, cuts, written)
            at = end
        elif kind == _PLAINTEXT:
            page[0, TEXT] += stop - at
            at = stop
    return written


@njit(nogil=True, cache=True)
def _scan(
    data: np.ndarray, words: np.ndarray, offsets: np.ndarray, max_depth: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rows = np.zeros((offsets.size - 1, COLUMNS), np.int64)
    page = np.zeros((_ROWS, 2 * max_depth + 64), np.int64)
    seen = np.zeros(1 << 16, np.int64)
    cuts = np.empty(((offsets[-1] - offsets[0]) // SHORTEST_CUT + 1, 2), np.int64)
    ends = np.zeros(offsets.size, np.int64)
    for number in range(offsets.size - 1):
        start, stop = offsets[number], offsets[number + 1]
        ends[number + 1] = _measure_page(
            page, data, words, start, stop, max_depth, seen, number + 1, cuts, ends[number]
        )
        rows[number] = page[0, :COLUMNS]
    return rows, cuts[: ends[-1]], ends


def scan(data: np.ndarray, offsets: np.ndarray, max_depth: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """For each page, `data[offsets[i]:offsets[i + 1]]`: a row of COLUMNS; and what of it no reader sees.

    `cuts[ends[i]:ends[i + 1]]` of the second and third array are the stretches of page i that are the insides of
    comments, scripts and styles. A page deeper than `max_depth` is scanned only to where it gets too deep.
    """
    data = np.require(data, np.uint8, ["C", "A"])
    if data.ctypes.data % 8:
        data = data.copy()
    data = data.view()
    data.flags.writeable = False
    words = data[: data.size // 8 * 8].view(np.uint64)
    found: tuple[np.ndarray, np.ndarray, np.ndarray] = _scan(data, words, offsets.astype(np.int64), max_depth)
    return found
