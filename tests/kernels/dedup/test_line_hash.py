"""Hashes of lines and paragraphs, against a plain-Python oracle: hashes are equal where normal forms are."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.kernels.dedup.oracle_lines import counts, normal, units_of

from gristmill.kernels.dedup.line_units import count_units, find_units
from gristmill.kernels.text.cut_spans import take_blank_lines
from lent_arrays import lent

LETTERS = st.sampled_from([*"ab}A1-", "\u00c4", "\u00e4", "\u4e16", "\u3042", "\u2019", "\U0001f600"])
GAPS = st.sampled_from(
    [" ", " ", "\n", "\n", "  ", "\t", "\r\n", "\r", "\n\n", "\u00a0", "\u3000", "\u200b", "\n \n", "\x0b"]
)
PIECES = st.one_of(LETTERS, LETTERS, GAPS, st.sampled_from(["abcdefgh", "the same line ", "0123456789" * 2]))
TEXTS = st.lists(PIECES, max_size=25).map("".join)


def arrays(texts, before=b""):
    data = before + b"".join(text.encode() for text in texts)
    offsets = np.cumsum([len(before), *(len(text.encode()) for text in texts)]).astype(np.int32)
    return lent(np.frombuffer(data or b"\0", np.uint8).copy(), offsets)


@given(st.lists(TEXTS, max_size=5), st.booleans(), st.integers(0, 6), st.sampled_from([b"", b"x\n", b"abc"]))
def test_units_have_one_hash_for_each_normal_form(texts, paragraphs, min_chars, before):
    """Rows, counts and order are the oracle's, and two units share both hashes if and only if their forms are equal."""
    keys, marks, rows, times = count_units(*arrays(texts, before), paragraphs, min_chars)
    expected = []
    for row, text in enumerate(texts):
        forms = [normal(text[a:b]) for a, b in units_of(text, paragraphs) if counts(text[a:b], min_chars)]
        expected += [(row, form, forms.count(form)) for form in dict.fromkeys(forms)]
    assert rows.tolist() == [row for row, _, _ in expected]
    assert times.tolist() == [count for _, _, count in expected]
    forms = {}
    for hashes, (_, form, _) in zip(zip(keys.tolist(), marks.tolist(), strict=True), expected, strict=True):
        assert forms.setdefault(form, hashes) == hashes
    assert len({key for key, _ in forms.values()}) == len({mark for _, mark in forms.values()}) == len(forms)


@pytest.mark.slow
@given(st.lists(TEXTS, max_size=4), st.booleans(), st.randoms())
def test_wanted_units_are_found_where_they_stand(texts, paragraphs, random):
    """Each unit whose hash is wanted in its row is found with its line end, and the first of equal ones is known."""
    keys, _, rows, _ = count_units(*arrays(texts), paragraphs, 1)
    chosen = np.array([random.random() < 0.5 for _ in keys], np.bool_)
    wanted = [sorted(keys[chosen & (rows == row)].tolist()) for row in range(len(texts))]
    firsts = np.cumsum([0, *map(len, wanted)]).astype(np.int64)
    flat = np.array([key for row in wanted for key in row], np.uint64)
    flat.flags.writeable = False
    spans, hashes, first = find_units(*arrays(texts), firsts, flat, paragraphs, 1)
    expected = []
    for row, text in enumerate(texts):
        earlier = []
        of_row = iter(keys[rows == row].tolist())
        key_of = {}
        for start, stop in units_of(text, paragraphs):
            form = normal(text[start:stop])
            if not counts(text[start:stop], 1):
                continue
            if form not in key_of:
                key_of[form] = next(of_row)
            if key_of[form] in wanted[row]:
                span = (row, len(text[:start].encode()), len(text[:stop].encode()))
                expected.append((span, key_of[form], form not in earlier))
                earlier.append(form)
    assert list(zip(map(tuple, spans.tolist()), hashes.tolist(), first.tolist(), strict=True)) == expected


def test_hashes_are_the_same_on_every_machine():
    """Golden values: exchange files and cut lists of one machine must hold on another."""
    keys, marks, _, _ = count_units(*arrays(["The mill stands here.\n\u4e16\u754c\nabc\nabcd\n"]), False, 1)
    assert [hex(key) for key in keys.tolist()] == [
        "0xeba17c48c355b5c8",
        "0xa0d56aa3fd73f071",
        "0x659aed9992b66240",
        "0x53ef9707d472a9e8",
    ]
    assert marks.tolist() == [1975736021, 3964912921, 3669245028, 3756135565]


def test_hashes_are_spread():
    """Lines that differ in a digit differ in half of their bits, in every bit about as often."""
    keys, marks, _, _ = count_units(*arrays(["\n".join(f"line number {place}" for place in range(20000))]), False, 1)
    for values, width in ((keys, 64), (marks.astype(np.uint64), 32)):
        ones = [(values >> np.uint64(bit) & np.uint64(1)).mean() for bit in range(width)]
        changed = [((values[1:] ^ values[:-1]) >> np.uint64(bit) & np.uint64(1)).mean() for bit in range(width)]
        assert min(ones + changed) > 0.47
        assert max(ones + changed) < 0.53


@pytest.mark.parametrize(
    ("text", "cut", "left"),
    [
        ("A\n\nmenu\n\nB\n", ["menu\n"], "A\n\nB\n"),
        ("A\nmenu\n\nB\n", ["menu\n"], "A\n\nB\n"),
        ("A\n\nmenu\nB\n", ["menu\n"], "A\n\nB\n"),
        ("A\nmenu\nB\n", ["menu\n"], "A\nB\n"),
        ("menu\n\n\nB\n", ["menu\n"], "B\n"),
        ("A\n\n \nmenu\n \n", ["menu\n"], "A\n"),
        ("A\nmenu", ["menu"], "A\n"),
        ("A\n\nmenu\n\nnext\n\nB", ["menu\n", "next\n"], "A\n\nB"),
        ("A\nmenu\n\nnext\n\nB", ["menu\n", "next\n"], "A\n\nB"),
        ("\n\nmenu\nnext\n\n", ["menu\n", "next\n"], ""),
        ("A\n\n\nB\nmenu\nC", ["menu\n"], "A\n\n\nB\nC"),
    ],
)
def test_blank_lines_around_a_cut(text, cut, left):
    """What stays keeps its distance: one gap where there were two, none at the start and the end."""
    spans = np.array([[1, text.index(line), text.index(line) + len(line)] for line in cut], np.int64)
    data, offsets = arrays(["menu\n", text, "\n"])
    take_blank_lines(data, offsets, spans)
    for _, start, stop in reversed(spans.tolist()):
        text = text[:start] + text[stop:]
    assert text == left
