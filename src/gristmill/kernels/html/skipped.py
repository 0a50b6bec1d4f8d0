"""Finds the ends of elements whose content is not text of the page."""

import numpy as np

from gristmill.kernels.compile import njit
from gristmill.kernels.html.bounds import seek
from gristmill.kernels.html.names import BYTE_CLASS, BYTE_GREATER, BYTE_SLASH, BYTE_SPACE
from gristmill.kernels.text.ascii import EXCLAMATION, HYPHEN, SLASH

_NAME_ENDS = BYTE_SPACE | BYTE_SLASH | BYTE_GREATER
_SCRIPT = np.frombuffer(b"script", np.uint8)


@njit(nogil=True, cache=True)
def end_of_nested(data: np.ndarray, words: np.ndarray, at: int, stop: int, name: int, size: int) -> int:
    """Returns where the end tag of an element starts that may contain others of its name, or `stop` if it has none.

    Its name is the `size` letters at `name`.
    """
    depth = 1
    # Each turn takes one tag with the name.
    while True:
        at = seek(data, words, at, stop, 0x3C)
        if at + 2 + size >= stop:
            return stop
        closing = data[at + 1] == SLASH
        begin, same = at + 1 + closing, 0
        while same < size and data[begin + same] | 0x20 == data[name + same] | 0x20:
            same += 1
        if same == size and BYTE_CLASS[data[begin + size]] & _NAME_ENDS:
            depth += -1 if closing else 1
            if depth == 0:
                return at
        at += 1


@njit(nogil=True, cache=True)
def end_of_script(data: np.ndarray, words: np.ndarray, at: int, stop: int) -> int:
    """Returns where the end tag of a script starts, or `stop`; an end tag inside a comment that reopens a script does
    not count.
    """
    comment = inner = False
    # Each turn takes one `<`; inside a comment, its end is looked for first.
    while True:
        if comment:
            behind = at
            at = seek(data, words, at, stop, 0x3C)
            # The comment ends with `-->` before this tag.
            while behind < at and comment:
                behind = seek(data, words, behind, at, 0x3E)
                comment = behind >= at or data[behind - 1] != HYPHEN or data[behind - 2] != HYPHEN
                behind += 1
            inner &= comment
        else:
            at = seek(data, words, at, stop, 0x3C)
        if at + 8 >= stop:
            return stop
        closing = data[at + 1] == SLASH
        begin, same = at + 1 + closing, 0
        while same < 6 and data[begin + same] | 0x20 == _SCRIPT[same]:
            same += 1
        if same == 6 and BYTE_CLASS[data[begin + 6]] & _NAME_ENDS:
            if closing and not inner:
                return at
            inner = comment and not closing
        elif data[at + 1] == EXCLAMATION and data[at + 2] == HYPHEN and data[at + 3] == HYPHEN:
            comment = True
        at += 1
