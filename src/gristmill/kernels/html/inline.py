"""Inline elements: links, emphasis, code, ruby, scripts, and formulas."""

import numpy as np

from gristmill.kernels.compile import njit
from gristmill.kernels.html import block_text, boxes, layout
from gristmill.kernels.html.attributes import (
    A_HREF,
    A_HREF_END,
)
from gristmill.kernels.html.bounds import (
    seek,
)
from gristmill.kernels.memory import Bytes
from gristmill.kernels.text import ascii

MATH_TEX, MATH_MML = (int.from_bytes(name, "little") for name in (b"math/tex", b"math/mml"))
DISPLAY_BLOCK, DISPLAY_TRUE = (int.from_bytes(name, "little") for name in (b"block", b"true"))
_DISPLAYSTYLE = np.frombuffer(b"\\displaystyle", np.uint8)
_DATA_LATEX = np.frombuffer(b'data-latex="', np.uint8)
MARK = 0x7F
"""Comes before a sign of formulas and scripts in the text of a block: `(` and `[` begin a formula in a line and one on
its own line, `^` and `_` a script, `)` ends any of them, and `]` ends one that is linked. Pages have no such character
in their text (`take_text`). stages/extract/formulas.py turns the marks into text."""
MARK_BYTES = 2
MAX_NESTED_SCRIPTS = 3


@njit(nogil=True, cache=True)
def _wrap(text: Bytes, begin: int, end: int, mark: int, size: int) -> int:
    """Puts a mark of `size` equal bytes before and after `text[begin:end]`; returns the new end."""
    while begin < end and text[begin] <= ascii.SP:
        begin += 1
    if begin >= end:
        return end
    for at in range(end - 1, begin - 1, -1):
        text[at + size] = text[at]
    # The text has moved; write both marks.
    for at in range(size):
        text[begin + at] = mark
        text[end + size + at] = mark
    return end + 2 * size


@njit(nogil=True, cache=True)
def _put_mark(text: Bytes, end: int, sign: int) -> int:
    text[end] = MARK
    text[end + 1] = sign
    return end + MARK_BYTES


@njit(nogil=True, cache=True)
def put_math(data: Bytes, begin: int, stop: int, text: Bytes, end: int, tally: np.ndarray, display: bool) -> int:
    """Writes TeX between marks, without its comments."""
    while begin < stop and data[begin] <= ascii.SP:
        begin += 1
    while begin < stop and data[stop - 1] <= ascii.SP:
        stop -= 1
    if begin >= stop:
        return end
    end = _put_mark(text, block_text.put_gap(text, end, tally), ascii.LEFT_BRACKET if display else ascii.LEFT_PAREN)
    at = begin
    # Each turn writes up to a percent sign, and skips the comment after it.
    while at < stop:
        percent = at
        while percent < stop and (
            data[percent] != ascii.PERCENT or (percent > begin and data[percent - 1] == ascii.BACKSLASH)
        ):
            percent += 1
        end = block_text.take_text(data, at, percent, text, end, tally, False)
        at = percent
        while at < stop and data[at] != ascii.LF:
            at += 1
        if at >= stop:  # no line ends here, so this is a percent sign that lacks its backslash
            end = block_text.take_text(data, percent, stop, text, end, tally, False)
    tally[block_text.T_GAP] = 0
    tally[block_text.T_CHARS] += 2
    return _put_mark(text, end, ascii.RIGHT_PAREN)


@njit(nogil=True, cache=True)
def script(state: np.ndarray, tally: np.ndarray, kind: int, closing: bool, text: Bytes) -> None:
    """Marks the begin or the end of a <sub> or <sup>; those nested deeper have no marks."""
    if closing:
        if not state[boxes.S_SCRIPTS]:
            return
        state[boxes.S_SCRIPTS] -= 1
        end = state[boxes.S_END]
        if state[boxes.S_SCRIPTS] >= MAX_NESTED_SCRIPTS:
            return
        if text[end - 2] == MARK and text[end - 1] in (ascii.CARET, ascii.UNDERSCORE):
            state[boxes.S_END] = end - MARK_BYTES  # it is empty
            return
        is_linked = state[boxes.S_SCRIPTS] == 0 and state[boxes.S_SCRIPT_LINKS] != state[boxes.S_LINKS]
        state[boxes.S_END] = _put_mark(text, end, ascii.RIGHT_BRACKET if is_linked else ascii.RIGHT_PAREN)
        return
    if state[boxes.S_SCRIPTS] == 0:
        is_link = state[boxes.S_LINK] and state[boxes.S_LINK_AT] == state[boxes.S_END]
        state[boxes.S_SCRIPT_LINKS] = -1 if is_link else state[boxes.S_LINKS]
    if state[boxes.S_SCRIPTS] < MAX_NESTED_SCRIPTS:
        end = block_text.put_gap(text, state[boxes.S_END], tally)
        state[boxes.S_END] = _put_mark(text, end, ascii.UNDERSCORE if kind == layout.BOX_SUB else ascii.CARET)
    state[boxes.S_SCRIPTS] += 1


@njit(nogil=True, cache=True)
def data_latex(data: Bytes, at: int, stop: int) -> tuple[int, int]:
    """Returns begin and end of the first value of `data-latex`, where MathJax 4 writes its input, or 0 twice."""
    size = _DATA_LATEX.size
    # Compare at each place.
    while at + size < stop:
        same = 0
        while same < size and data[at + same] == _DATA_LATEX[same]:
            same += 1
        if same == size:
            begin = at + size
            end = begin
            while end < stop and data[end] != ascii.QUOTE:
                end += 1
            return begin, end
        at += max(1, same)
    return 0, 0


@njit(nogil=True, cache=True)
def put_colon(state: np.ndarray, tally: np.ndarray, text: Bytes) -> None:
    """Writes the colon between a term and its kind, which the style sheets of Sphinx draw."""
    end = state[boxes.S_END]
    if end > tally[block_text.T_BEGIN] and text[end - 1] > ascii.SP and text[end - 1] != ascii.COLON:
        block_text.end_word(tally)
        text[end], text[end + 1] = ascii.SP, ascii.COLON
        state[boxes.S_END] = end + 2
        tally[block_text.T_GAP] = 1


@njit(nogil=True, cache=True)
def is_delimited(data: Bytes, begin: int, stop: int) -> bool:
    """Whether an alternative text is a formula between dollar signs or their like."""
    if stop - begin < 3:
        return False
    first, last = data[begin], data[stop - 1]
    if first == ascii.DOLLAR:
        return bool(last == ascii.DOLLAR)
    is_open = first == ascii.BACKSLASH and data[begin + 1] in (ascii.LEFT_PAREN, ascii.LEFT_BRACKET)
    return bool(is_open and data[stop - 2] == ascii.BACKSLASH and last in (ascii.RIGHT_PAREN, ascii.RIGHT_BRACKET))


@njit(nogil=True, cache=True)
def has_displaystyle(data: Bytes, begin: int, stop: int) -> bool:
    """Whether TeX begins with `\\displaystyle`."""
    same = 0
    while same < _DISPLAYSTYLE.size and begin + same < stop and data[begin + same] == _DISPLAYSTYLE[same]:
        same += 1
    return same == _DISPLAYSTYLE.size


@njit(nogil=True, cache=True)
def begins_formula(data: Bytes, at: int, stop: int) -> bool:
    """Whether a text begins with the delimiter of a formula."""
    while at < stop and data[at] <= ascii.SP:
        at += 1
    is_open = at + 1 < stop and data[at] == ascii.BACKSLASH and data[at + 1] in (ascii.LEFT_PAREN, ascii.LEFT_BRACKET)
    return bool(is_open or (at < stop and data[at] == ascii.DOLLAR))


@njit(nogil=True, cache=True)
def annotation(data: np.ndarray, words: np.ndarray, at: int, stop: int) -> tuple[int, int]:
    """Returns begin and end of the TeX of a formula, or 0 twice."""
    # Each turn takes one tag.
    while True:
        at = seek(data, words, at, stop, 0x3C)
        if at + 12 >= stop:
            return 0, 0
        if data[at + 1] | 0x20 == ascii.LOWER_A and data[at + 4] | 0x20 == 0x6F and data[at + 10] | 0x20 == 0x6E:
            begin = seek(data, words, at, stop, 0x3E) + 1
            # Search its attributes for `tex`.
            for place in range(at + 11, begin - 2):
                if data[place] | 0x20 == 0x74 and data[place + 1] | 0x20 == 0x65 and data[place + 2] | 0x20 == 0x78:
                    return begin, seek(data, words, begin, stop, 0x3C)
            at = begin - 1
        at += 1


@njit(nogil=True, cache=True)
def _has(text: Bytes, begin: int, end: int, one: int, other: int) -> bool:
    """Whether a text contains one of two bytes."""
    at = begin
    while at < end and text[at] != one and text[at] != other:
        at += 1
    return at < end


@njit(nogil=True, cache=True)
def _is_plain_address(data: Bytes, begin: int, end: int) -> bool:
    """Whether an address can be written in parentheses and leads somewhere: javascript: and data: do not."""
    # The first of these signs decides.
    for at in range(begin, end):
        byte = data[at]
        if byte in (ascii.LEFT_PAREN, ascii.RIGHT_PAREN, ascii.LESS, ascii.GREATER):
            return False
        if byte == ascii.COLON:
            letter = data[begin] | 0x20
            return letter in (0x68, 0x66, 0x6D)  # http, ftp, mailto
        if byte in (ascii.SLASH, ascii.QUESTION, ascii.HASH):
            return not _has(data, at, end, 0x28, 0x29) and not _has(data, at, end, 0x3C, 0x3E)
    return True


@njit(nogil=True, cache=True)
def _end_inline(state: np.ndarray, text: Bytes, place: int, mark: int, size: int) -> None:
    if state[place] >= 0:
        # Code stays as it is: no marks inside it, and none around code that has a backtick.
        in_code = place != boxes.S_MONO_AT and state[boxes.S_MONO_AT] >= 0
        if not in_code and not (mark == ascii.BACKTICK and _has(text, state[place], state[boxes.S_END], 0x60, 0x60)):
            state[boxes.S_END] = _wrap(text, state[place], state[boxes.S_END], mark, size)
        state[place] = -1


@njit(nogil=True, cache=True)
def _end_link(state: np.ndarray, data: Bytes, text: Bytes) -> None:
    """Writes `[words](address)` for a link that ends."""
    begin, end = state[boxes.S_LINK_AT], state[boxes.S_END]
    state[boxes.S_LINK_AT] = -1
    if begin < 0 or state[boxes.S_HREF] >= state[boxes.S_HREF_END] or state[boxes.S_MONO_AT] >= 0:
        return
    if _has(text, begin, end, 0x5B, 0x5D) or not _is_plain_address(data, state[boxes.S_HREF], state[boxes.S_HREF_END]):
        return
    while begin < end and text[begin] <= ascii.SP:
        begin += 1
    if begin >= end:
        return
    for at in range(end - 1, begin - 1, -1):
        text[at + 1] = text[at]
    text[begin] = ascii.LEFT_BRACKET
    text[end + 1] = ascii.RIGHT_BRACKET
    text[end + 2] = ascii.LEFT_PAREN
    end += 3
    # White space in an address would end it.
    for at in range(state[boxes.S_HREF], state[boxes.S_HREF_END]):
        if data[at] > ascii.SP:
            text[end] = data[at]
            end += 1
    text[end] = ascii.RIGHT_PAREN
    state[boxes.S_END] = end + 1


@njit(nogil=True, cache=True, forceinline=True)
def inline(
    state: np.ndarray,
    tally: np.ndarray,
    noted: np.ndarray,
    kind: int,
    closing: bool,
    data: Bytes,
    text: Bytes,
) -> None:
    """Handles the start or end tag of an element that is not a box."""
    flags = layout.BOX_FLAGS[kind]
    markdown = state[boxes.S_MARKDOWN] and not state[boxes.S_VERBATIM]
    if kind == layout.BOX_A:
        if state[boxes.S_LINK]:
            state[boxes.S_LINK_CHARS] += tally[block_text.T_CHARS] - state[boxes.S_LINK_FROM]
            state[boxes.S_LINK] = 0
            _drop_pilcrow(state, tally, data, text)
            if markdown:
                _end_link(state, data, text)
        if not closing and noted[A_HREF_END]:
            state[boxes.S_LINK], state[boxes.S_LINK_FROM] = state[boxes.S_TOP], tally[block_text.T_CHARS]
            state[boxes.S_LINKS] += 1
            state[boxes.S_LINK_AT] = state[boxes.S_END]
            state[boxes.S_HREF], state[boxes.S_HREF_END] = noted[A_HREF], noted[A_HREF_END]
    elif flags & layout.EMPHASIS:
        if state[boxes.S_STRONG]:
            state[boxes.S_STRONG_CHARS] += tally[block_text.T_CHARS] - state[boxes.S_STRONG_FROM]
            state[boxes.S_STRONG] = 0
            if markdown:
                _end_inline(state, text, boxes.S_STRONG_AT, 0x2A, 2)
        if not closing:
            state[boxes.S_STRONG], state[boxes.S_STRONG_FROM], state[boxes.S_STRONG_AT] = (
                state[boxes.S_TOP],
                tally[block_text.T_CHARS],
                state[boxes.S_END],
            )
    elif markdown and flags & (layout.SLANTED | layout.MONOSPACE):
        place = boxes.S_SLANT_AT if flags & layout.SLANTED else boxes.S_MONO_AT
        if not closing:
            state[place] = state[boxes.S_END]
        else:
            _end_inline(state, text, place, 0x2A if flags & layout.SLANTED else 0x60, 1)
    elif kind == layout.BOX_Q:
        if state[boxes.S_QUOTED] if closing else not _behind_mark(text, tally[block_text.T_BEGIN], state[boxes.S_END]):
            state[boxes.S_QUOTED] += -1 if closing else 1
            end = state[boxes.S_END] if closing else block_text.put_gap(text, state[boxes.S_END], tally)
            text[end] = ascii.QUOTE
            state[boxes.S_END] = end + 1
    elif kind in (layout.BOX_RT, layout.BOX_RUBY):
        _reading(state, tally, kind, closing, text)


@njit(nogil=True, cache=True)
def _drop_pilcrow(state: np.ndarray, tally: np.ndarray, data: Bytes, text: Bytes) -> None:
    """Drops a link that leads to the heading before it, or from a note to its mark: only a paragraph sign, or, with an
    address in the page, `#` or an arrow."""
    begin, end = state[boxes.S_LINK_AT], state[boxes.S_END]
    if begin < 0 or begin >= end:
        return
    size = 2 if text[end - 1] == 0xB6 and text[end - 2] == 0xC2 else 1
    begin += text[begin] == ascii.SP and end - begin > size
    if (
        data[state[boxes.S_HREF]] == ascii.HASH
        and end - begin in (3, 6)
        and text[begin] == 0xE2
        and text[begin + 1] in (0x86, 0x87)
    ):
        # An arrow (U+2180 to U+21FF), perhaps with a sign that it is not a picture.
        size = 6 if end - begin == 6 and text[begin + 3] == 0xEF and text[begin + 4] == 0xB8 else 3
    elif size == 1 and (
        text[end - 1] != ascii.HASH or begin <= tally[block_text.T_BEGIN] or data[state[boxes.S_HREF]] != ascii.HASH
    ):
        return
    if end - begin == size:
        state[boxes.S_END], state[boxes.S_LINK_AT] = state[boxes.S_LINK_AT], -1
        chars = tally[block_text.T_CHARS] - state[boxes.S_LINK_FROM]
        state[boxes.S_LINK_CHARS] -= chars
        state[boxes.S_LINKS] -= 1
        tally[block_text.T_CHARS] -= chars
        tally[block_text.T_WORDS] -= tally[block_text.T_LENGTH] == chars
        tally[block_text.T_LENGTH] = 0


@njit(nogil=True, cache=True)
def _behind_mark(text: Bytes, begin: int, end: int) -> bool:
    """Whether a quotation mark was just written: " or one of those between U+2018 and U+201F."""
    if end > begin and text[end - 1] == ascii.QUOTE:
        return True
    wide = end - begin >= 3 and text[end - 3] == 0xE2 and text[end - 2] == 0x80
    return bool(wide and text[end - 1] >= 0x98 and text[end - 1] <= 0x9F)


@njit(nogil=True, cache=True)
def _reading(state: np.ndarray, tally: np.ndarray, kind: int, closing: bool, text: Bytes) -> None:
    """Handles ruby: the reading of a word is in parentheses after it. The end tag of <rt> may be missing."""
    if state[boxes.S_RUBY]:
        state[boxes.S_RUBY] = tally[block_text.T_GAP] = 0
        if text[state[boxes.S_END] - 1] == ascii.LEFT_PAREN:
            state[boxes.S_END] -= 1
        else:
            text[state[boxes.S_END]] = ascii.RIGHT_PAREN
            state[boxes.S_END] += 1
    if kind == layout.BOX_RT and not closing and tally[block_text.T_CHARS]:
        state[boxes.S_RUBY], tally[block_text.T_GAP] = 1, 0
        text[state[boxes.S_END]] = ascii.LEFT_PAREN
        state[boxes.S_END] += 1
