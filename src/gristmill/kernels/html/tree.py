"""The tree that a parser would build, as far as it decides nesting: open elements, and active formatting elements."""

from typing import Any

import numpy as np
from numba import njit

from gristmill.kernels.html.names import (
    CHOICE,
    COUNTED,
    DEPTH,
    ELEMENTS,
    ENDS_P,
    ENDS_SELECT,
    FLAGS,
    FOREIGN_ROOT,
    FORMAT,
    HEADING,
    IN_GROUP,
    IN_SELECT,
    IN_TABLE,
    INTEGRATES,
    ITEM,
    KIND_FOREIGN,
    KIND_GHOST,
    KIND_INTEGRATION,
    KIND_OTHER,
    LIST,
    MARKER,
    NOT_SVG,
    QUIET,
    RAW,
    ROOT,
    ROW_GROUP,
    RUBY,
    RUBY_BASE,
    SCOPE,
    SCOPED_END,
    SPECIAL,
    STATE_CODES,
    STATE_FROM,
    STATE_HAS_FORM,
    STATE_KINDS,
    STATE_LISTED,
    STATE_LISTED_KIND,
    STATE_OPEN_LISTS,
    STATE_OPEN_P,
    STATE_OPEN_PRE,
    STATE_OPEN_SELECTS,
    STATE_OPEN_WEIGHED,
    STATE_PLACE,
    STATE_ROWS,
    STATE_TO,
    STATE_TOP,
    TABLE_PART,
    TABLE_ROOT,
    TAG_A,
    TAG_BR,
    TAG_BUTTON,
    TAG_COL,
    TAG_FORM,
    TAG_LI,
    TAG_NOBR,
    TAG_OPTGROUP,
    TAG_OPTION,
    TAG_P,
    TAG_PRE,
    TAG_RTC,
    TAG_RUBY,
    TAG_SELECT,
    TAG_TABLE,
    TAG_TBODY,
    TAG_TEMPLATE,
    TAG_TR,
    TERM,
    THIN,
    VOID,
    WEIGHED,
)


@njit(nogil=True, cache=True, forceinline=True)
def _count(page: np.ndarray, kind: Any, step: int) -> None:
    """Keeps the counts of open elements, which save searches of the stack."""
    flags = FLAGS[kind]
    if kind == TAG_P:
        page[0, STATE_OPEN_P] += step
    elif kind == TAG_SELECT:
        page[0, STATE_OPEN_SELECTS] += step
    elif kind == TAG_PRE:
        page[0, STATE_OPEN_PRE] += step
    elif flags & LIST:
        page[0, STATE_OPEN_LISTS] += step
    if flags & WEIGHED:
        page[0, STATE_OPEN_WEIGHED] += step


@njit(nogil=True, cache=True, forceinline=True)
def _leaf(page: np.ndarray, levels: int) -> None:
    """Elements that are closed as soon as they are open."""
    page[0, ELEMENTS] += levels
    page[0, DEPTH] = max(page[0, DEPTH], page[0, STATE_TOP] + levels)


@njit(nogil=True, cache=True, forceinline=True)
def _push(page: np.ndarray, kind: Any, code: Any) -> None:
    _leaf(page, 1)
    top = page[0, STATE_TOP]
    if top < page.shape[1]:
        page[STATE_KINDS, top], page[STATE_CODES, top] = kind, code
        page[0, STATE_TOP] = top + 1
        if FLAGS[kind] & COUNTED:
            _count(page, kind, 1)


@njit(nogil=True, cache=True, forceinline=True)
def _pop_to(page: np.ndarray, height: int) -> None:
    """Closes all elements at `height` and above; formatting among them waits in the list to be opened again."""
    for place in range(height, page[0, STATE_TOP]):
        if FLAGS[page[STATE_KINDS, place]] & COUNTED:
            _count(page, page[STATE_KINDS, place], -1)
    while page[STATE_KINDS, height - 1] == KIND_GHOST:
        height -= 1
    page[0, STATE_TOP] = height
    entry = page[0, STATE_LISTED] - 1
    while entry >= 0:
        if page[STATE_LISTED_KIND, entry] < 0:
            if page[STATE_PLACE, entry] < height:
                break
            page[0, STATE_LISTED] = entry
        elif page[STATE_PLACE, entry] >= height:
            page[STATE_PLACE, entry] = -1
        entry -= 1


@njit(nogil=True, cache=True, forceinline=True)
def _find(page: np.ndarray, kind: Any, stops: int, stop_kind: Any) -> int:
    """Place of the highest open `kind` that no bound of the search hides, or 0."""
    place = page[0, STATE_TOP] - 1
    while place > 0 and page[STATE_KINDS, place] != kind:
        if FLAGS[page[STATE_KINDS, place]] & stops or page[STATE_KINDS, place] == stop_kind:
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
    for place in range(page[0, STATE_TOP] - 1, 0, -1):
        if page[STATE_KINDS, place] == kind and (kind != KIND_OTHER or page[STATE_CODES, place] == code):
            _pop_to(page, place)
            return
        if FLAGS[page[STATE_KINDS, place]] & SPECIAL:
            return


@njit(nogil=True, cache=True, forceinline=True)
def reopen(page: np.ndarray) -> None:
    """Opens again the formatting that was closed by the end of a block and not by its own end tag."""
    last = page[0, STATE_LISTED]
    first = last
    while first > 0 and page[STATE_LISTED_KIND, first - 1] >= 0 and page[STATE_PLACE, first - 1] < 0:
        first -= 1
    for entry in range(first, last):
        page[STATE_PLACE, entry] = page[0, STATE_TOP]
        _push(page, page[STATE_LISTED_KIND, entry], 0)


@njit(nogil=True, cache=True)
def _forget(page: np.ndarray, entry: int) -> None:
    page[0, STATE_LISTED] -= 1
    for later in range(entry, page[0, STATE_LISTED]):
        for field in range(STATE_LISTED_KIND, STATE_ROWS):
            page[field, later] = page[field, later + 1]


@njit(nogil=True, cache=True)
def _list(page: np.ndarray, kind: Any, start: int, stop: int) -> None:
    """Adds the element just pushed to the list."""
    row = page[0, STATE_LISTED]
    if row == page.shape[1]:
        page[0, DEPTH] = max(page[0, DEPTH], row)  # more than the stack may hold: too deep
        return
    page[STATE_LISTED_KIND, row], page[STATE_PLACE, row] = kind, page[0, STATE_TOP] - 1
    page[STATE_FROM, row], page[STATE_TO, row] = start, stop
    page[0, STATE_LISTED] = row + 1


@njit(nogil=True, cache=True)
def _drop_fourth(page: np.ndarray, data: np.ndarray, kind: Any, start: int, stop: int) -> None:
    """Of equal formatting elements the list holds at most three ("Noah's Ark clause"): makes room for another."""
    equal, oldest = 0, 0
    entry = page[0, STATE_LISTED] - 1
    while entry >= 0 and page[STATE_LISTED_KIND, entry] >= 0:
        if page[STATE_LISTED_KIND, entry] == kind and page[STATE_TO, entry] - page[STATE_FROM, entry] == stop - start:
            back = start - page[STATE_FROM, entry]
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
    entry = page[0, STATE_LISTED] - 1
    if entry >= 0 and page[STATE_LISTED_KIND, entry] == kind and page[STATE_PLACE, entry] == page[0, STATE_TOP] - 1:
        page[0, STATE_LISTED] = entry
        page[0, STATE_TOP] -= 1
        if page[STATE_KINDS, page[0, STATE_TOP] - 1] == KIND_GHOST:
            _pop_to(page, page[0, STATE_TOP])
        return True
    for _ in range(8):
        entry = page[0, STATE_LISTED] - 1
        while entry >= 0 and page[STATE_LISTED_KIND, entry] >= 0 and page[STATE_LISTED_KIND, entry] != kind:
            entry -= 1
        if entry < 0 or page[STATE_LISTED_KIND, entry] < 0:
            return False
        place = page[STATE_PLACE, entry]
        if place < 0:
            _forget(page, entry)
            return True
        block = page[0, STATE_TOP]
        for above in range(page[0, STATE_TOP] - 1, place, -1):
            if FLAGS[page[STATE_KINDS, above]] & SCOPE:
                return True
            if FLAGS[page[STATE_KINDS, above]] & SPECIAL:
                block = above
        if block == page[0, STATE_TOP]:
            _pop_to(page, place)
            _forget(page, entry)
            return True
        # The block moves out of the formatting element, which is copied into it; so is formatting between the two, up
        # to three elements from the block. Anything else between them is no longer open.
        write = place
        for between in range(place + 1, block):
            owner = page[0, STATE_LISTED] - 1
            while owner >= 0 and page[STATE_PLACE, owner] != between:
                owner -= 1
            if owner >= 0 and block - between <= 3:
                page[STATE_KINDS, write] = page[STATE_KINDS, between]
                page[STATE_PLACE, owner] = write
                write += 1
                page[0, ELEMENTS] += 1
            else:
                _count(page, page[STATE_KINDS, between], -1)
                if owner >= 0:
                    _forget(page, owner)
                    if owner < entry:
                        entry -= 1
        dropped = block - 1 - write
        page[STATE_KINDS, write], page[STATE_CODES, write] = page[STATE_KINDS, block], page[STATE_CODES, block]
        page[STATE_KINDS, write + 1] = kind
        for later in range(block + 1, page[0, STATE_TOP]):
            page[STATE_KINDS, later - dropped], page[STATE_CODES, later - dropped] = (
                page[STATE_KINDS, later],
                page[STATE_CODES, later],
            )
        for other in range(page[0, STATE_LISTED]):
            if page[STATE_PLACE, other] > block:
                page[STATE_PLACE, other] -= dropped
        page[STATE_PLACE, entry] = write + 1
        page[0, STATE_TOP] -= dropped
        page[0, ELEMENTS] += 1
    return True


@njit(nogil=True, cache=True)
def _start_table_part(page: np.ndarray, kind: Any) -> None:
    """A row ends the row before it, a cell the cell before it; row group and row are implied. No table: ignored."""
    height = page[0, STATE_TOP]
    while height > 0 and not FLAGS[page[STATE_KINDS, height - 1]] & TABLE_ROOT:
        height -= 1
    if height == 0:
        return
    group = row = False
    if FLAGS[kind] & IN_GROUP:
        group = height < page[0, STATE_TOP] and FLAGS[page[STATE_KINDS, height]] & ROW_GROUP != 0
        row = group and kind != TAG_TR and height + 1 < page[0, STATE_TOP] and page[STATE_KINDS, height + 1] == TAG_TR
    _pop_to(page, height + group + row)
    if FLAGS[kind] & IN_GROUP and not group:
        _push(page, TAG_TBODY, 0)
    if FLAGS[kind] & IN_GROUP and kind != TAG_TR and not row:
        _push(page, TAG_TR, 0)
    if kind == TAG_COL:
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
        if page[STATE_KINDS, page[0, STATE_TOP] - 1] == TAG_OPTION:
            _pop_to(page, page[0, STATE_TOP] - 1)
        if kind == TAG_OPTGROUP and page[STATE_KINDS, page[0, STATE_TOP] - 1] == TAG_OPTGROUP:
            _pop_to(page, page[0, STATE_TOP] - 1)
        _push(page, kind, 0)
        return False
    if flags & ENDS_SELECT or (flags & IN_TABLE and _find(page, TAG_TABLE, 0, -1) > 0):
        _close(page, TAG_SELECT, 0, -1)
        return bool(kind != TAG_SELECT)
    return bool(flags & IN_SELECT)


@njit(nogil=True, cache=True, forceinline=True)
def start_tag(page: np.ndarray, data: np.ndarray, kind: Any, code: Any, start: int, stop: int, quirks: bool) -> bool:
    """A start tag, `data[start:stop]`. True: raw text follows."""
    flags = FLAGS[kind]
    self_closing = data[stop - 2] == 0x2F
    if page[STATE_KINDS, page[0, STATE_TOP] - 1] == KIND_FOREIGN:
        if not flags & NOT_SVG:
            if self_closing:
                _leaf(page, 1)
            else:
                _push(page, KIND_INTEGRATION if flags & INTEGRATES else KIND_FOREIGN, code)
            return False
        height = page[0, STATE_TOP]
        while page[STATE_KINDS, height - 1] == KIND_FOREIGN:
            height -= 1
        _pop_to(page, height)
    if page[0, STATE_OPEN_SELECTS] and not _start_in_select(page, kind):
        return False
    if flags & ROOT or (kind == TAG_FORM and page[0, STATE_HAS_FORM]):
        return False
    if flags & TABLE_PART:
        _start_table_part(page, kind)
        return False
    if kind == TAG_FORM:
        page[0, STATE_HAS_FORM] = 1
    elif kind == TAG_TABLE:
        _close(page, TAG_TABLE, SCOPE, -1)  # a table stands in a cell, or ends the table that it stands in
    if flags & ITEM:
        for place in range(page[0, STATE_TOP] - 1, 0, -1):
            other = page[STATE_KINDS, place]
            if other == kind or flags & FLAGS[other] & TERM:
                _pop_to(page, place)
                break
            if FLAGS[other] & SPECIAL and not FLAGS[other] & THIN:
                break
    if page[0, STATE_OPEN_P] and (flags & ENDS_P or (kind == TAG_TABLE and not quirks)):
        _close(page, TAG_P, SCOPE, TAG_BUTTON)
    top_kind = page[STATE_KINDS, page[0, STATE_TOP] - 1]
    if flags & FLAGS[top_kind] & HEADING or (flags & CHOICE and top_kind == TAG_OPTION):
        _pop_to(page, page[0, STATE_TOP] - 1)
    elif kind == TAG_BUTTON:
        _close(page, TAG_BUTTON, SCOPE, -1)
    elif flags & RUBY and _find(page, TAG_RUBY, SCOPE, -1) > 0:
        while FLAGS[top_kind] & RUBY and (top_kind != TAG_RTC or flags & RUBY_BASE):
            _pop_to(page, page[0, STATE_TOP] - 1)
            top_kind = page[STATE_KINDS, page[0, STATE_TOP] - 1]
    elif kind == TAG_A or (kind == TAG_NOBR and _find(page, TAG_NOBR, SCOPE, -1) > 0):
        _adopt(page, kind)
    if not flags & (ENDS_P | QUIET) and page[0, STATE_LISTED] and page[STATE_PLACE, page[0, STATE_LISTED] - 1] < 0:
        reopen(page)
    if flags & (VOID | RAW) or (flags & FOREIGN_ROOT and self_closing):
        _leaf(page, 1)
        return bool(flags & RAW)
    _push(page, KIND_FOREIGN if flags & FOREIGN_ROOT else kind, code)
    if flags & FORMAT:
        _drop_fourth(page, data, kind, start, stop)
        _list(page, kind, start, stop)
    elif flags & MARKER:
        _list(page, -1, 0, 0)
    return False


@njit(nogil=True, cache=True)
def _end_form(page: np.ndarray) -> None:
    """The end tag of a form ends the form and leaves open what was opened inside it, which stays as deep as it was."""
    place = _find(page, TAG_FORM, SCOPE, -1)
    if place > 0 and page[0, STATE_HAS_FORM]:
        if place == page[0, STATE_TOP] - 1:
            _pop_to(page, place)
        else:
            page[STATE_KINDS, place] = KIND_GHOST
    page[0, STATE_HAS_FORM] = 0


@njit(nogil=True, cache=True)
def _end_in_select(page: np.ndarray, kind: Any) -> bool:
    """An end tag while a list of choices is open. True: it ended the list and something around it."""
    top = page[0, STATE_TOP]
    if kind == TAG_OPTGROUP and page[STATE_KINDS, top - 1] == TAG_OPTION and page[STATE_KINDS, top - 2] == TAG_OPTGROUP:
        _pop_to(page, top - 2)
    elif FLAGS[kind] & CHOICE and page[STATE_KINDS, top - 1] == kind:
        _pop_to(page, top - 1)
    elif kind == TAG_SELECT or (FLAGS[kind] & IN_TABLE and _find(page, kind, 0, -1) > 0):
        _close(page, TAG_SELECT, 0, -1)
        return bool(kind != TAG_SELECT)
    return False


@njit(nogil=True, cache=True, forceinline=True)
def end_tag(page: np.ndarray, kind: Any, code: Any) -> None:
    """An end tag."""
    flags = FLAGS[kind]
    place = page[0, STATE_TOP] - 1
    if page[STATE_KINDS, place] == kind and not flags & (ROOT | FORMAT | MARKER) and kind not in (KIND_OTHER, TAG_FORM):
        page[0, STATE_TOP] = place
        if flags & COUNTED:
            _count(page, kind, -1)
        if page[STATE_KINDS, place - 1] == KIND_GHOST:
            _pop_to(page, place)
        return
    while page[STATE_KINDS, place] >= KIND_FOREIGN:
        if page[STATE_CODES, place] == code:
            _pop_to(page, place)
            return
        place -= 1
    if flags & ROOT or (page[0, STATE_OPEN_SELECTS] and not _end_in_select(page, kind)):
        return
    if kind == TAG_BR:
        reopen(page)
        _leaf(page, 1)
    elif kind == TAG_P:
        if not (page[0, STATE_OPEN_P] and _close(page, TAG_P, SCOPE, TAG_BUTTON)):
            _leaf(page, 1)
    elif kind == TAG_FORM:
        _end_form(page)
    elif flags & FORMAT:
        if not _adopt(page, kind):
            _close_other(page, kind, code)
    elif flags & HEADING:
        place = page[0, STATE_TOP] - 1
        while not FLAGS[page[STATE_KINDS, place]] & (HEADING | SCOPE):
            place -= 1
        if FLAGS[page[STATE_KINDS, place]] & HEADING:
            _pop_to(page, place)
    elif flags & IN_TABLE:
        _close(page, kind, TABLE_ROOT, -1)
    elif kind == TAG_LI:
        _close(page, kind, SCOPE | LIST, -1)
    elif flags & SCOPED_END or kind == TAG_TEMPLATE:
        _close(page, kind, SCOPE if flags & SCOPED_END else 0, -1)
    else:
        _close_other(page, kind, code)
