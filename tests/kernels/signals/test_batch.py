"""Signals equal their definitions, written again in plain Python (`oracle_signals`)."""

import random
from pydoc_data.topics import topics

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.kernels.signals.oracle import GOPHER_STOP_WORDS, signals
from tests.kernels.text.test_words import TEXTS

from gristmill.kernels.signals.batch import measure
from gristmill.kernels.signals.characters import log2
from gristmill.kernels.signals.columns import COUNTS
from gristmill.kernels.signals.terms import word_sets
from gristmill.kernels.text.unicode_classes import unicode_tables

TERMS = ("drop table", "the", "in the", "In The Name Of", "数据", "ПРИВЕТ мир", "don't", "İ")
PHRASES = (
    "Lorem ipsum dolor sit amet.", "Enable JavaScript, please.", "By our TERMS OF USE you agree.",
    "This site uses cookies.", "Read the privacy  policy.", "if (x) { return; }", "See it [1][23]. [edit]",
    "A fact.[citation needed]", "• one", "- two", "* three", "Read more...", "And then…", "He said “so.”",
    "数据。中文！", "Привет мир", "drop table users", "IN THE NAME OF the law", "word " * 12,
    "x" * 1001 + " is a word.", "", "   ", "\t", "a b", "<?xml version='1.0'?>",
    "Mr. J. Smith left. U.S. law? Yes! (Sure.) \"No.\"", "\r",
)  # fmt: skip


def measured(texts, stop_words=GOPHER_STOP_WORDS, terms=()):
    """One dict a text; None is a row without text."""
    parts = [(text or "").encode() for text in texts]
    offsets = np.cumsum([0] + [len(part) for part in parts]).astype(np.int32)
    data = np.frombuffer(b"".join(parts), np.uint8)
    offsets.setflags(write=False)
    valid = np.array([text is not None for text in texts])
    counts, entropy, xml = measure(offsets, data, valid, unicode_tables(), word_sets(stop_words, terms))
    rows = [dict(zip(COUNTS, column, strict=True)) for column in counts.T.tolist()]
    for row, bits, header in zip(rows, entropy.tolist(), xml.tolist(), strict=True):
        row["byte_entropy_bits"] = bits
        row["xml_header"] = header
    return rows


def expected(text, stop_words=GOPHER_STOP_WORDS, terms=()):
    slow = signals(text, stop_words, terms)
    slow["byte_entropy_bits"] = pytest.approx(slow["byte_entropy_bits"], abs=1e-6)
    return {name: slow.get(name, 0) for name in (*COUNTS, "byte_entropy_bits", "xml_header")}


@given(st.lists(st.one_of(st.sampled_from(PHRASES), TEXTS), max_size=14), st.sampled_from(["\n", "\n\n", " ", "\n \n"]))
def test_every_signal_equals_the_oracle(pieces, between):
    """On text made of the phrases that rules look for, repeated lines and any characters."""
    text = between.join(pieces)
    assert measured([text], terms=TERMS) == [expected(text, terms=TERMS)]


@settings(max_examples=150, deadline=None)
@given(st.lists(st.sampled_from(["a", "bb", "c.", "漢", "the", "\n"]), max_size=80))
def test_repetition_equals_the_oracle(words):
    """On text of so few words that n-grams of all sizes overlap and repeat."""
    text = " ".join(words)
    assert measured([text]) == [expected(text)]


def test_a_batch_of_reference_prose_equals_the_oracle():
    """On Python's documentation topics in one batch, so that scratch is reused from document to document."""
    texts = sorted(topics.values(), key=len)[:60]
    assert measured(texts, terms=TERMS) == [expected(text, terms=TERMS) for text in texts]


def test_a_document_is_measured_by_itself():
    """The row of a text does not depend on its neighbours, on a larger text before it, or on rows without text."""
    texts = [*PHRASES, *sorted(topics.values(), key=len)[-3:], None, *PHRASES]
    together = measured(texts, terms=TERMS)
    assert together == [measured([text], terms=TERMS)[0] for text in texts]


@pytest.mark.slow
def test_tables_that_grow_equal_the_oracle():
    """With more distinct tokens, lines, paragraphs and n-grams than any array starts with."""
    source = random.Random(7)
    words = [str(number) for number in range(30_000)]
    lines = [" ".join(source.sample(words, 8)) for _ in range(6000)]
    text = "\n\n".join(lines + lines[:500] + [" ".join(words)])
    assert measured([text]) == [expected(text)]


ODD = {
    "nothing": "",
    "one character": "x",
    "a NUL": "\0",
    "newlines": "\n" * 500,
    "white space": " \t\u3000\u2028\r\n" * 50,
    "emoji": "😀👩‍👩‍👧🏳️‍🌈" * 200,
    "one symbol": "!" * 3000,
    "dots": "." * 3001,
    "combining marks": "\u0301" * 500,
    "format characters": "\u200d" * 100,
    "one long line": "word " * 4000,
    "one long word": "x" * 20_000,
    "symbols that would attach": "+" * 2000 + "a" + "-/" * 2000 + "b",
    "closing brackets": "a" + "[1]" * 800 + "]" * 800,
    "no words": "-- ** ## ...",
    "highest code point": "\U0010ffff" * 9,
}


@pytest.mark.parametrize("text", ODD.values(), ids=ODD)
def test_odd_texts_equal_the_oracle(text):
    """Texts that break measuring tools have plain values and no NaN."""
    row = measured([text])[0]
    assert row == expected(text)
    assert all(value >= 0 for value in row.values())


@pytest.mark.slow
@pytest.mark.parametrize(
    ("unit", "tokens"),
    [("a ", 1), ("a-", 2), ("[1] ", 3), ("+", 1), ("x\n", 1), ("lorem cookies ", 2), ("漢", 1), ("-+", 2), ("a! ", 2)],
)
def test_a_huge_document_takes_linear_work(unit, tokens):
    """A million bytes of the worst repetitions come to an end, with counts that can be worked out by hand."""
    times = 1_000_000 // len(unit.encode())
    row = measured([unit * times])[0]
    assert row["bytes"] == times * len(unit.encode())
    assert row["chars"] == times * len(unit)
    assert row["tokens"] == times * tokens


def test_blocked_terms_are_found_in_any_case_and_never_overlap():
    """The longest term at a position counts, and the next search continues after it."""
    row = measured(["In the NAME of Привет МИР in the end"], terms=TERMS)[0]
    assert row["blocked_tokens"] == 4 + 2 + 2


def test_words_that_could_never_match_are_refused():
    """A stop word of two tokens, a term without a token: an error that names it."""
    with pytest.raises(ValueError, match="don't"):
        word_sets(["don't"], [])
    with pytest.raises(ValueError, match="blocked term ' '"):
        word_sets([], [" "])


def test_log2_is_good_to_the_last_places():
    """The logarithm made of basic operations agrees with the library's to 1e-14."""
    values = np.concatenate([np.arange(1, 5000), np.geomspace(1, 2**31, 500)])
    ours = np.array([log2(float(value)) for value in values])
    assert np.allclose(ours, np.log2(values), rtol=1e-14, atol=1e-14)
