"""The cut of lines against plain Python that works on strings."""

import re
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import example, given, settings
from hypothesis import strategies as st

from gristmill.kernels.signals.batch import measure
from gristmill.kernels.signals.columns import COUNTS
from gristmill.kernels.signals.terms import word_sets
from gristmill.kernels.text.lines import RULES, cut_lines
from gristmill.kernels.text.unicode_classes import TERMINAL, unicode_tables

PHRASES = ("terms of use", "privacy policy", "cookie policy", "uses cookies", "use of cookies", "use cookies")
TABLES = unicode_tables()
CITATION = re.compile(r"(?:\s|\[\d*\]|(?i:\[edit\]|\[citation needed\]))+\Z", re.ASCII)

WHITE = "".join(filter(str.isspace, map(chr, range(0x10000)))) + "\u200b"


def is_terminal(character: str) -> bool:
    point = ord(character)
    page = int(TABLES.pages[point >> 8]) << 8
    return bool(TABLES.classes[page | point & 255] & TERMINAL) or character in "\"'”’»」』"


def ascii_lower(text: str) -> str:
    return "".join(c.lower() if c.isascii() else c for c in text)


def rule_of(line: str, min_words: int, max_word: int, terminal: bool, javascript: bool, policy: bool) -> str | None:
    words = line.replace("\u200b", " ").split()
    if max_word >= 0 and any(len(word) > max_word for word in words):
        return "long_word"
    end = line.strip(WHITE)
    while (shorter := CITATION.sub("", end).rstrip(WHITE)) != end:
        end = shorter
    if terminal and (not end or end.endswith("...") or not is_terminal(end[-1])):
        return "no_end"
    if len(words) < min_words:
        return "few_words"
    lower = ascii_lower(line)
    if javascript and "javascript" in lower:
        return "javascript"
    return "policy" if policy and any(phrase in lower for phrase in PHRASES) else None


def oracle(text: str, *options: Any) -> tuple[str, dict[str, int], int]:
    """The text that is left, the lines that each rule cut, the lines kept."""
    left, cut, kept, cutting = [], dict.fromkeys(RULES, 0), 0, False
    pieces = text.split("\n")
    for at, line in enumerate(pieces):
        whole = line + ("\n" if at + 1 < len(pieces) else "")
        if not line.replace("\u200b", " ").split():
            if not cutting:
                left.append(whole)
            continue
        rule = rule_of(line, *options)
        cutting = rule is not None
        if rule is None:
            kept += 1
            left.append(whole)
        else:
            cut[rule] += 1
    result = "".join(left)
    if cutting:
        while result and ord(result[-1]) <= 32:
            result = result[:-1]
    return result, cut, kept


def run(texts: list[str | None], *options: Any, offset: int = 0) -> list[tuple[str, dict[str, int], int]]:
    array = pa.array(texts, pa.string())
    _, offsets, data = array.buffers()
    ends = np.frombuffer(bytes(offsets), np.int32)[offset : len(texts) + 1]
    valid = array.is_valid().to_numpy(zero_copy_only=False)[offset:]
    text, nothing = np.frombuffer(bytes(data or b""), np.uint8), np.zeros((0, 2), np.int64)
    left, starts, cut, kept = cut_lines(ends, text, valid, TABLES, *options, nothing)
    found = []
    for at in range(len(texts) - offset):
        text = left[starts[at] : starts[at + 1]].tobytes().decode()
        found.append((text, dict(zip(RULES, cut[:, at].tolist(), strict=True)), int(kept[at])))
    return found


VOCABULARY = """mill wheel. über 水車。 Java JavaScript javascript, terms of use Use uses cookies cookie policy privacy
Privacy ... [12] [edit] end? "so" xxxxxxxxxxx term book jav ééééééééé á » ! I"""
WORDS = st.sampled_from([*VOCABULARY.split(), "[Citation needed]", "\u2028", "\x1f", "\u00a0"])
SPACES = st.sampled_from([" ", "  ", "\t", "\u3000", "\u200b", "\n", "\n\n", "\n \n", "\r\n", " \n", ""])
TEXTS = st.lists(st.tuples(WORDS, SPACES), max_size=30).map(lambda parts: "".join(a + b for a, b in parts))
OPTIONS = st.tuples(
    st.sampled_from([-1, 1, 3]), st.sampled_from([-1, 5, 10]), st.booleans(), st.booleans(), st.booleans()
)


@given(st.lists(TEXTS, min_size=1, max_size=4), OPTIONS)
@example(["A line that stays.\n\nnav\n\nAnother line here.\n"], (3, 1000, True, True, True))
@example(["nav\n\nOne line that stays.\n\nnav\n\n"], (3, 1000, True, True, True))
@example(["This site uses\u00a0cookies and more.\nWe use cookies on it."], (3, 1000, False, True, True))
@example([""], (3, 1000, True, True, True))
def test_every_text_equals_the_oracle(texts: list[str], options: tuple[Any, ...]) -> None:
    """Text left, lines cut by rule and lines kept are those of the same rules on Python strings."""
    assert run(texts, *options) == [oracle(text, *options) for text in texts]


@settings(max_examples=60, deadline=None)
@given(st.lists(st.one_of(st.none(), TEXTS), min_size=2, max_size=4))
def test_a_text_does_not_depend_on_its_neighbours(texts: list[str | None]) -> None:
    """A slice of the buffers gives the rows of the whole; a text that is missing stays empty."""
    options = (3, 1000, True, True, True)
    whole = run(texts, *options)
    assert run(texts, *options, offset=1) == whole[1:]
    assert all(row[0] == "" and row[2] == 0 for row, text in zip(whole, texts, strict=True) if text is None)


@settings(max_examples=100, deadline=None)
@given(TEXTS, st.booleans())
def test_lines_kept_are_those_that_the_signals_count(text: str, terminal: bool) -> None:
    """`signals.c4_lines` promises what this kernel leaves, with and without the rule for the end of a line."""
    data = text.encode()
    counts, _, _ = measure(
        np.frombuffer(np.array([0, len(data)], np.int32).tobytes(), np.int32),
        np.frombuffer(data, np.uint8),
        np.ones(1, np.bool_),
        TABLES,
        word_sets((), ()),
    )
    expected = counts[COUNTS.index("c4_lines" if terminal else "c4_any_end_lines"), 0]
    assert run([text], 3, 1000, terminal, True, True)[0][2] == expected
