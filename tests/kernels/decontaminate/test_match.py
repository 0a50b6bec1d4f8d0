"""Runs and alignments equal those of plain Python: none is missed, none is made up, and work is bounded."""

from itertools import product

import numpy as np
import pyarrow as pa
from hypothesis import example, given
from hypothesis import strategies as st

from gristmill.kernels.decontaminate.match import (
    EDITS,
    IS_RUN,
    ROW,
    RUNS,
    TEXT_FROM,
    TEXT_TO,
    UNIT,
    UNIT_FROM,
    UNIT_TO,
)
from gristmill.kernels.decontaminate.texts import Support, match_texts
from gristmill.kernels.decontaminate.units import seeds_of
from gristmill.kernels.dedup.shingles import ROLL, copy_tables
from gristmill.stages.buffers import bytes_of
from gristmill.stages.decontaminate.matching.index import search_of
from gristmill.stages.decontaminate.matching.words import WordHashes, hash_words

NAMES = [f"w{number}" for number in range(100_000)]
"""The words of texts; tests name them by their numbers."""
HASHES = hash_words([" ".join(NAMES)]).words
WORDS = st.lists(st.integers(0, 2), min_size=5, max_size=24)


def units_of(units, ngram=8, allowed=-1, seed_words=5):
    starts = np.cumsum([0, *map(len, units)]).astype(np.int64)
    return table_of(
        starts, HASHES[np.array([word for unit in units for word in unit], np.int64)], ngram, allowed, seed_words
    )


def table_of(starts, words, ngram, allowed, seed_words):
    ngrams, edits = (np.full(len(starts) - 1, value, np.int64) for value in (ngram, allowed))
    return search_of(WordHashes(starts, words), ngrams, edits, seed_words, words)


NO_LONG, NO_SHORT = (units_of([], seed_words=seed_words) for seed_words in (5, 1))


def no_support(units):
    nothing = np.zeros(len(units.ngram), np.int64)
    return Support(nothing, nothing, np.zeros(len(units.ngram) + 1, np.int64), np.zeros(0, np.uint64))


def hits_in(texts, units):
    """The hits of each text, and in which ones a bound was reached."""
    data, offsets = bytes_of(pa.array([" ".join(NAMES[word] for word in text) for text in texts], pa.string()))
    long, short = (NO_LONG, units) if units.seed_words == 1 else (units, NO_SHORT)
    found = match_texts(data, offsets, copy_tables(), long, short, no_support(short))
    hits = np.concatenate([found.hits, found.short_hits])
    return [hits[hits[:, ROW] == row] for row in range(len(texts))], found.bounded.tolist()


def runs_of(hits):
    return {tuple(hit[[UNIT, UNIT_FROM, UNIT_TO, TEXT_FROM, TEXT_TO]].tolist()) for hit in hits if hit[IS_RUN]}


def oracle(text, units, ngram):
    """The longest stretches of equal words, of `ngram` words or the whole unit, at every place of both."""
    found = set()
    for number, unit in enumerate(units):
        for at, place in product(range(len(unit)), range(len(text))):
            if at and place and unit[at - 1] == text[place - 1]:
                continue
            size = 0
            while at + size < len(unit) and place + size < len(text) and unit[at + size] == text[place + size]:
                size += 1
            if size >= min(ngram, len(unit)):
                found.add((number, at, at + size, place, place + size))
    return found


@given(st.lists(WORDS, min_size=1, max_size=3), st.lists(st.integers(0, 2), max_size=40), st.data())
def test_every_run_is_found_at_any_position(units, text, data):
    """Of an n-gram's length or more, or a whole unit; also where words repeat, and several units have the same."""
    ngram = data.draw(st.integers(5, 13))
    for _ in range(data.draw(st.integers(0, 3))):
        unit = data.draw(st.sampled_from(units))
        low = data.draw(st.integers(0, len(unit) - 1))
        at = data.draw(st.integers(0, len(text)))
        text = text[:at] + unit[low : data.draw(st.integers(low, len(unit)))] + text[at:]
    seed_words = data.draw(st.integers(2, 5))
    (hits,), (is_bounded,) = hits_in([text], units_of(units, ngram, seed_words=seed_words))
    assert runs_of(hits) == oracle(text, units, ngram)
    assert not is_bounded


@given(st.lists(st.lists(st.integers(0, 2), min_size=2, max_size=4), min_size=1, max_size=4), st.data())
def test_units_shorter_than_a_seed_are_found_by_one_word(units, data):
    """The whole unit, and no part of one."""
    text = data.draw(st.lists(st.integers(0, 3), max_size=40))
    (hits,), _ = hits_in([text], units_of(units, 13, seed_words=1))
    assert runs_of(hits) == oracle(text, units, 13)


def distance(one, other):
    row = list(range(len(other) + 1))
    for at, word in enumerate(one, 1):
        before, row[0] = row[0], at
        for place, theirs in enumerate(other, 1):
            before, row[place] = row[place], min(row[place] + 1, row[place - 1] + 1, before + (word != theirs))
    return row[-1]


@given(st.lists(st.integers(0, 3), min_size=10, max_size=24), st.lists(st.integers(0, 3), max_size=50), st.data())
def test_an_alignment_has_the_edits_that_it_tells(unit, text, data):
    """The range of the text is as near to the unit as reported, and near enough."""
    allowed = data.draw(st.integers(0, 5))
    edited = [word if data.draw(st.integers(0, 7)) else data.draw(st.integers(0, 3)) for word in unit]
    text = text + edited + text
    (hits,), _ = hits_in([text], units_of([unit], 13, allowed))
    for hit in hits[hits[:, IS_RUN] == 0].tolist():
        there = text[hit[TEXT_FROM] : hit[TEXT_TO]]
        assert distance(unit, there) == hit[EDITS] <= allowed


@given(st.integers(20, 60), st.integers(0, 10**6), st.sampled_from("x-+"), st.integers(0, 30), st.integers(0, 30))
@example(20, 10, "-", 0, 0)
def test_a_unit_with_one_edit_is_found_where_it_is(size, place, kind, before, after):
    """Wherever the edit is but at an end, and wherever in the text the unit begins and ends."""
    unit, place = list(range(size)), 2 + place % (size - 4)
    edited = unit[:place] + {"x": [900], "-": [], "+": [unit[place], 900]}[kind] + unit[place + 1 :]
    text = [*range(500, 500 + before), *edited, *range(600, 600 + after)]
    (hits,), _ = hits_in([text], units_of([unit], size + 1, size // 5))
    aligned = hits[hits[:, IS_RUN] == 0]
    assert len(aligned)
    assert (aligned[:, EDITS] == 1).all()
    assert aligned[0, [TEXT_FROM, TEXT_TO]].tolist() == [before, before + len(edited)]


def test_no_seed_is_lost_in_a_full_table():
    """Thousands of units, each found in its own text and nowhere else."""
    units = [list(range(9 * number, 9 * number + 9)) for number in range(5000)]
    found, _ = hits_in(units, units_of(units, 13))
    assert [runs_of(hits) for hits in found] == [{(number, 0, 9, 0, 9)} for number in range(5000)]


def test_words_with_other_hashes_but_the_same_seed_are_no_hit():
    """A seed leads to a unit; the words decide. These two words in a row have the sum of two others."""
    others = np.append(HASHES[:1] + np.uint64(1), HASHES[1:2] - ROLL)
    start = np.zeros(1, np.int64)
    assert seeds_of(others, start, 2) == seeds_of(HASHES, start, 2)
    (hits,), _ = hits_in([[0, 1]], table_of(np.array([0, 2]), others, 2, -1, 2))
    assert len(hits) == 0
    (hits,), _ = hits_in([[0, 1]], table_of(np.array([0, 2]), HASHES[:2], 2, -1, 2))
    assert len(hits) == 1


def test_one_word_repeated_has_no_more_hits_than_the_bound():
    """A unit of that word has a run at every position of such a text; some are found, and the text is reported."""
    unit = [1] * 40
    (hits, other), bounded = hits_in([[1] * 1_000_000, [2] * 9 + unit], units_of([unit], 13, 8))
    assert RUNS <= len(hits) <= 2 * RUNS
    assert len(runs_of(other)) >= 1  # the bound is one for each text
    assert bounded == [True, False]


def test_alignments_of_one_text_stop_at_the_bound_on_work():
    """Beginnings of a long unit over and over: each could be the start of a copy with edits."""
    unit = list(range(4000))
    text = [word for start in range(0, 3000, 12) for word in [*unit[start : start + 12], 90_000 + start]]
    _, (is_bounded,) = hits_in([text[:60]], units_of([unit], 5000, 800))
    assert not is_bounded
    (hits,), (is_bounded,) = hits_in([text * 20], units_of([unit], 5000, 800))
    assert is_bounded
    assert len(hits) <= len(text)
