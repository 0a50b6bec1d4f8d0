"""The edges of an article, against the rules as regular expressions, line by line."""

import re

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from gristmill.kernels.text.edges import MIN_HEADING_CHARS, take_spans, trim
from lent_arrays import lent

PROSE = "This is a sentence of the article, and it is long enough to be told from an entry of a menu by anyone."
MARK = re.compile("[.,;:!?…。，、；：！？]")
SENTENCE_END = re.compile("[.!?…。！？][\"'”’»)」』]*$")
CODE = re.compile(r"[{}]|;$| = |\(\)|->|::|^(?:    |\t)\s*[^\s•]")


def reads_on(line):
    size = len(line.encode())
    return (
        CODE.search(line) is not None
        or (size >= 100 and MARK.search(line) is not None)
        or (size >= 60 and SENTENCE_END.search(line) is not None and not line.lstrip().startswith("•"))
    )


def plainly(text, title=""):
    """The slow way to the same."""
    lines = text.split("\n")
    reading = [number for number, line in enumerate(lines) if reads_on(line)]
    if not reading:
        return text
    heading, titled = 0, False
    for number, line in enumerate(lines[: reading[0]]):
        in_title = len(line) >= MIN_HEADING_CHARS and line.strip() in title
        if line and (in_title or not titled):
            heading, titled = number, in_title
    return "\n".join(lines[heading : reading[-1] + 1])


def trimmed(*rows, wanted=True):
    """The trimmed texts; each comes with a title."""
    texts, titles = ([row[part].encode() for row in rows] for part in (0, 1))
    text, title = (np.frombuffer(b"".join(parts), np.uint8).copy() for parts in (texts, titles))
    lent(title)
    offsets, title_offsets = (np.cumsum([0, *map(len, parts)]).astype(np.int64) for parts in (texts, titles))
    starts, stops = offsets[:-1].copy(), offsets[1:].copy()
    trim(text, starts, stops, title, title_offsets, np.full(len(rows), wanted))
    kept, ends = take_spans(text, starts, stops)
    return [kept[ends[row] : ends[row + 1]].tobytes().decode() for row in range(len(rows))]


SIGNS = (
    "{};=(>:)-.,!?…。，、；：！？\"'”’»」』•\t \xa0\u1680\u2000\u200a\u200b\u2028\u202f\u205f\u3000\x85\x1c\r\x0baé中🙂"
)
LINES = st.one_of(
    st.text(SIGNS, max_size=9),
    st.builds("".join, st.lists(st.sampled_from([*SIGNS, "wort " * 4, "語" * 19, "x" * 58, "x" * 98]), max_size=4)),
    st.sampled_from(["", "Home", "A heading", "• Menu", PROSE, "    x = f(1)", "  A heading \xa0", "aabaabaac", "}"]),
)
TITLES = st.one_of(
    st.sampled_from(["", "A heading | Site", "aabaabaabaac", "aabaabaabaab"]), st.text(SIGNS, max_size=30)
)
ROWS = st.lists(st.tuples(st.lists(LINES, max_size=9).map("\n".join), TITLES), max_size=4)


@given(ROWS)
@example([("A heading\nMore of it here\n" + PROSE, "A heading | Site"), ("•" + "x" * 99 + ".", "")])
@example([(" " * 9 + "\nHome page here\n" + PROSE, ""), ("x" * 59 + "。", "")])
def test_edges_are_those_of_the_rules(rows):
    assert trimmed(*rows) == [plainly(*row) for row in rows]


@given(st.lists(LINES, max_size=12).map("\n".join))
def test_trimming_a_second_time_changes_nothing(text):
    once = trimmed((text, ""))
    assert once[0] in text
    assert trimmed((once[0], "")) == once


@given(ROWS)
def test_unselected_rows_stay_unchanged(rows):
    assert trimmed(*rows, wanted=False) == [text for text, _ in rows]


@pytest.mark.parametrize("size", [59, 60, 99, 100])
def test_long_lines_are_prose(size):
    """From 60 bytes on where they end a sentence, from 100 on with any punctuation in them."""
    ended, marked = "x" * (size - 1) + ".", "," + "x" * (size - 1)
    menu = "Home\nContact\n"
    assert trimmed((menu + ended, "")) == ["Contact\n" + ended if size >= 60 else menu + ended]
    assert trimmed((menu + marked, "")) == ["Contact\n" + marked if size >= 100 else menu + marked]
