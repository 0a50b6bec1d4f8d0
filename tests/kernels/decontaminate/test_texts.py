"""Words of texts: their positions agree with their content, in every script; matching reads texts separately."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.kernels.dedup.test_shingles import READ, TEXTS, hash_word
from tests.kernels.dedup.test_shingles import words_of as oracle

from gristmill.kernels.decontaminate.match import IS_RUN, ROW, TEXT_FROM, TEXT_TO, UNIT
from gristmill.kernels.decontaminate.texts import Support, match_texts, word_spans, words_of
from gristmill.kernels.dedup.shingles import copy_tables, word_tables
from gristmill.kernels.text.look_alikes import readings
from gristmill.stages.decontaminate.matching.index import search_of
from gristmill.stages.decontaminate.matching.words import hash_words
from lent_arrays import lent


def arrays(texts, before=b"", after=b""):
    rows = [text.encode() for text in texts]
    offsets = np.cumsum([len(before), *map(len, rows)]).astype(np.int32)
    return lent(np.frombuffer(before + b"".join(rows) + after, np.uint8).copy(), offsets)


@given(st.lists(TEXTS, max_size=4))
def test_words_are_those_of_the_oracle(texts):
    """As hashes, those of each text together."""
    starts, words = words_of(*arrays(texts), word_tables())
    expected = [[hash_word(word) for word in oracle(text)] for text in texts]
    assert np.diff(starts).tolist() == [len(one) for one in expected]
    assert words.tolist() == [word for one in expected for word in one]


@given(st.text(st.one_of(READ, st.sampled_from("aB _-,.1\n"), st.characters(exclude_categories=["Cs"])), max_size=60))
def test_places_agree_where_copies_are_searched_for(text):
    """There are as many places of words as words, and each reads as its word."""
    data, offsets = arrays([text])
    _, words = words_of(data, offsets, copy_tables())
    spans = word_spans(data, 0, len(text.encode()), copy_tables()).tolist()
    there = [oracle(text.encode()[low:high].decode().translate(readings())) for low, high in spans]
    assert [[hash_word(word) for word in one] for one in there] == [[word] for word in words.tolist()]


@settings(max_examples=200, deadline=None)
@given(TEXTS, st.binary(max_size=9), st.binary(max_size=9))
def test_places_of_words_are_those_of_the_words(text, before, after):
    """As many as there are hashes, in order, and between them nothing that is part of a word."""
    data, offsets = arrays([text], before, after)
    spans = word_spans(data, int(offsets[0]), int(offsets[1]), word_tables())
    there = [text.encode()[low:high].decode() for low, high in spans.tolist()]
    assert [oracle(word) for word in there] == [[word] for word in oracle(text)]
    gaps = np.append(spans[:, 0], len(text.encode())) - np.append(0, spans[:, 1])
    assert (gaps >= 0).all()


def units(texts, ngram=8, edits=-1, seed_words=5):
    hashes = hash_words(texts)
    ngrams, allowed = (np.full(len(texts), value, np.int64) for value in (ngram, edits))
    return search_of(hashes, ngrams, allowed, seed_words, hashes.words)


LONG = units(["one two three four five six seven eight nine ten", "漢 字 か な カ ー 한글 ไ ก"])
SHORT_UNITS = units(["lorem ipsum dolor"], seed_words=1)


FOURTEEN = "one two three four five six seven eight nine ten eleven twelve thirteen fourteen"
EDITED = units([FOURTEEN], 20, 3, 4)
NO_SUPPORT = Support(np.zeros(1, np.int64), np.zeros(1, np.int64), np.zeros(2, np.int64), np.zeros(0, np.uint64))


def found(texts, long=LONG):
    data, offsets = arrays(texts)
    return match_texts(data, offsets, copy_tables(), long, SHORT_UNITS, NO_SUPPORT)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 3000), st.sampled_from([" ", "\n", ", ", "\u00a0", "  \t"]))
def test_a_unit_is_found_anywhere_in_a_text(before, between):
    """It is also found across the ranges that a text is read in, with anything between words."""
    unit = "one two three four five six seven eight nine ten".replace(" ", between)
    filler = ("x" * 7 + " ") * (before // 8) + "y" * (before % 8)
    words = len(filler.split())
    hits, short, *_ = found([f"{filler} {unit} lorem{between}ipsum{between}dolor"])
    assert hits[:, [UNIT, IS_RUN, TEXT_FROM, TEXT_TO]].tolist() == [[0, 1, words, words + 10]]
    assert short[:, [TEXT_FROM, TEXT_TO]].tolist() == [[words + 10, words + 13]]


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 3000), st.integers(5, 10), st.integers(0, 40))
def test_a_unit_with_a_change_is_found_anywhere_in_a_text(before, changed, behind):
    """It is also found if the words that make an alignment worthwhile are in the next range."""
    unit = FOURTEEN.split()
    unit[changed - 1] = "other"
    filler = ("x" * 7 + " ") * (before // 8) + "y" * (before % 8)
    words = len(filler.split())
    hits, *_ = found([f"{filler} {' '.join(unit)} {'z ' * behind}"], long=EDITED)
    assert hits[:, [UNIT, IS_RUN, TEXT_FROM, TEXT_TO]].tolist() == [[0, 0, words, words + 14]]


def test_texts_are_read_apart():
    """The beginning of a unit at the end of one text and its end at the beginning of the next are not a copy."""
    hits, short, *_ = found(["one two three four lorem", "ipsum dolor five six seven eight nine ten"])
    assert len(hits) == len(short) == 0
    hits, *_ = found(["", "漢字かなカー한글ไก", "one two three four five six seven eight nine ten"])
    assert hits[:, [ROW, UNIT]].tolist() == [[1, 1], [2, 0]]
