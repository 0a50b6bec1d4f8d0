"""Scans source code: characters in comments, visible characters of HTML, runs of encoded data.

The scans know the marks of comments and quotes, but no grammar. An unclosed quote ends with its line (unless it may
span lines), so a stray apostrophe affects one line and not the file.
"""

import numpy as np
import numpy.typing as npt

from gristmill.kernels.compile import njit
from gristmill.kernels.memory import Bytes, tail, view
from gristmill.kernels.text import ascii
from gristmill.kernels.text.ascii import BACKTICK as BACKTICK_SIGN

MARKS = 6
MARK_BYTES = 8
"""A row of marks: two that begin a comment to the end of the line, then pairs that open and close a block; each eight
bytes, zero-padded, empty ones all zero."""
DOUBLE, SINGLE, BACKTICK, TRIPLE = 1, 2, 4, 8
"""Quotes of a language. Text in triple quotes counts as a comment: it is nearly always documentation (BigCode counts
docstrings too)."""


@njit(nogil=True, cache=True)
def _stands(data: Bytes, at: int, end: int, marks: Bytes, mark: int) -> int:
    """Returns the bytes of the mark if it is at `at`, else 0."""
    size = 0
    # A mark ends with a zero byte.
    while size < MARK_BYTES:
        byte = marks[mark * MARK_BYTES + size]
        if byte == 0:
            break
        if at + size >= end or data[at + size] != byte:
            return 0
        size += 1
    return size


@njit(nogil=True, cache=True)
def _chars(data: Bytes, begin: int, end: int) -> int:
    count = 0
    for at in range(begin, end):
        count += 1 if data[at] & 0xC0 != 0x80 else 0
    return count


@njit(nogil=True, cache=True)
def _line_end(data: Bytes, at: int, end: int) -> int:
    while at < end and data[at] != ascii.LF:
        at += 1
    return at


@njit(nogil=True, cache=True)
def _quote_end(data: Bytes, at: int, end: int, quote: int, spans: bool) -> int:
    """Returns the position after the quote that closes the one at `at`; if none does, the end of the line, or the end
    of the text if a quote `spans` lines.
    """
    at += 1
    # A backslash hides the character after it.
    while at < end:
        byte = data[at]
        if byte == ascii.BACKSLASH:
            at += 2
            continue
        if byte == quote:
            return at + 1
        if byte == ascii.LF and not spans:
            return at
        at += 1
    return end


@njit(nogil=True, cache=True)
def _triple_end(data: Bytes, at: int, end: int, quote: int) -> int:
    at += 3
    # A backslash hides the character after it.
    while at < end:
        byte = data[at]
        if byte == ascii.BACKSLASH:
            at += 2
            continue
        if byte == quote and at + 2 < end and data[at + 1] == quote and data[at + 2] == quote:
            return at + 3
        at += 1
    return end


@njit(nogil=True, cache=True)
def _block_end(data: Bytes, at: int, end: int, marks: Bytes, mark: int) -> int:
    # Try each position.
    while at < end:
        size = _stands(data, at, end, marks, mark)
        if size:
            return at + size
        at += 1
    return end


@njit(nogil=True, cache=True)
def comment_chars(
    offsets: npt.NDArray[np.int32],
    text: npt.NDArray[np.uint8],
    families: npt.NDArray[np.int64],
    marks: npt.NDArray[np.uint8],
    quotes: npt.NDArray[np.int64],
) -> npt.NDArray[np.int32]:
    """Counts the characters in comments of each document, marks included; families[i] is its row of `marks`, -1: the
    count stays 0.
    """
    documents = len(offsets) - 1
    found = np.zeros(documents, np.int32)
    data = view(text)
    # Documents are independent of each other.
    for document in range(documents):
        family = families[document]
        if family < 0:
            continue
        rows = tail(view(marks), family * MARKS * MARK_BYTES)
        kinds = quotes[family]
        at = int(offsets[document])
        end = int(offsets[document + 1])
        # Each turn skips a character, or takes a whole comment or string.
        while at < end:
            byte = data[at]
            if (
                byte <= ascii.SP
                or ascii.UPPER_A <= byte <= ascii.UPPER_Z
                or ascii.LOWER_A <= byte <= ascii.LOWER_Z
                or byte >= 128
            ):
                at += 1
                continue
            begin = at
            for mark in (2, 4, 0, 1):  # blocks first: `--[[` begins like `--`
                size = _stands(data, begin, end, rows, mark)
                if size:
                    if mark < 2:
                        at = _line_end(data, begin, end)
                    else:
                        at = _block_end(data, begin + size, end, rows, mark + 1)
                    found[document] += _chars(data, begin, at)
                    break
            if at > begin:
                continue
            triple = begin + 2 < end and data[begin + 1] == byte and data[begin + 2] == byte
            if (byte == ascii.QUOTE or byte == ascii.APOSTROPHE) and kinds & TRIPLE and triple:
                at = min(_triple_end(data, begin, end, byte), end)
                found[document] += _chars(data, begin, at)
            elif (
                (byte == ascii.QUOTE and kinds & DOUBLE)
                or (byte == ascii.APOSTROPHE and kinds & SINGLE)
                or (byte == BACKTICK_SIGN and kinds & BACKTICK)
            ):
                at = min(_quote_end(data, begin, end, byte, byte == BACKTICK_SIGN), end)
            else:
                at += 1
    return found


_TAGS = np.frombuffer(b"</script</style<!--", np.uint8)
_NAMES = np.array([0, 8, 15, 19], np.int64)


@njit(nogil=True, cache=True)
def _is_tag(data: Bytes, at: int, end: int, first: int, last: int) -> bool:
    """Whether _TAGS[first:last] is at `at`, ignoring case."""
    if at + last - first > end:
        return False
    # Compare byte by byte, with capitals in lower case.
    for k in range(first, last):
        byte = data[at + k - first]
        if ascii.UPPER_A <= byte <= ascii.UPPER_Z:
            byte |= 32
        if byte != _TAGS[k]:
            return False
    return True


@njit(nogil=True, cache=True)
def visible_chars(
    offsets: npt.NDArray[np.int32], text: npt.NDArray[np.uint8], html: npt.NDArray[np.bool_]
) -> npt.NDArray[np.int32]:
    """Counts the characters of each HTML document outside of tags, comments, scripts and styles; a run of white space
    is one.
    """
    documents = len(offsets) - 1
    found = np.zeros(documents, np.int32)
    data = view(text)
    # Documents are independent of each other.
    for document in range(documents):
        at = int(offsets[document])
        end = int(offsets[document + 1])
        if not html[document]:
            continue
        shown = 0
        space = True
        # Each turn takes a character of the text, a comment, or a tag; after <script> and <style> all up to the end
        # tag.
        while at < end:
            byte = data[at]
            if byte != ascii.LESS:
                blank = byte <= ascii.SP
                if not (blank and space) and byte & 0xC0 != 0x80:
                    shown += 1
                space = blank
                at += 1
                continue
            if (
                at + 3 < end
                and data[at + 1] == ascii.EXCLAMATION
                and data[at + 2] == ascii.HYPHEN
                and data[at + 3] == ascii.HYPHEN
            ):
                at += 4
                while at < end and not (
                    data[at] == ascii.GREATER and data[at - 1] == ascii.HYPHEN and data[at - 2] == ascii.HYPHEN
                ):
                    at += 1
                at += 1
                continue
            raw = -1
            # Scripts and styles have content that is not shown.
            for k in range(2):
                # `<script` is `</script` without its second byte.
                if at + 1 < end and _is_tag(data, at + 1, end, _NAMES[k] + 2, _NAMES[k + 1]):
                    raw = k
            while at < end and data[at] != ascii.GREATER:
                at += 1
            at += 1
            if raw >= 0:
                while at < end and not (
                    data[at] == ascii.LESS and _is_tag(data, at, end, _NAMES[raw], _NAMES[raw + 1])
                ):
                    at += 1
        found[document] = shown
    return found


@njit(nogil=True, cache=True)
def encoded_runs(
    offsets: npt.NDArray[np.int32], text: npt.NDArray[np.uint8], digits: npt.NDArray[np.bool_], least: int
) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int32]]:
    """Returns the longest run of bytes in `digits`, and the sum of such runs, of each document; runs below `least` do
    not count.

    A run needs a digit and a letter: `====...` and a long word in one case are not data.
    """
    documents = len(offsets) - 1
    longest = np.zeros(documents, np.int32)
    total = np.zeros(documents, np.int32)
    data = view(text)
    # Documents are independent of each other.
    for document in range(documents):
        end = int(offsets[document + 1])
        begin = int(offsets[document])
        at = begin
        # The end of the text ends a run, too.
        while at <= end:
            if at < end and digits[data[at]]:
                at += 1
                continue
            if at - begin >= least:
                numbers = 0
                letters = 0
                # Count digits and letters of the run.
                for k in range(begin, at):
                    byte = data[k]
                    numbers += 1 if ascii.ZERO <= byte <= ascii.NINE else 0
                    letters += 1 if byte >= ascii.UPPER_A else 0
                if numbers and letters:
                    longest[document] = max(longest[document], at - begin)
                    total[document] += at - begin
            at += 1
            begin = at
    return longest, total
