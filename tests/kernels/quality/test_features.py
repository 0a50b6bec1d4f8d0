"""The rows of texts against the definition of fastText's features, and the words that have a row."""

from collections import Counter

import numpy as np
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.kernels.text.test_fasttext import SPACES, Tiny, features

from gristmill.kernels.quality.features import WordRows, count_words, cut_words, rows_of, vocabulary
from gristmill.kernels.text.fasttext import index_words
from lent_arrays import lent

WORDS = ("</s>", "the", "naïve", "wheel", "мельница", "水車", "a")
TOKENS = st.sampled_from([*WORDS[:2], *WORDS, "__label__en", "mill", "x" * 300, "ß", "-"])
TEXTS = st.lists(st.lists(st.tuples(TOKENS, st.sampled_from(SPACES)), max_size=12), max_size=4)
NGRAMS = st.sampled_from([(1, 0), (2, 300), (3, 300), (5, 300)])
"""Words of the longest n-gram, and rows for n-grams."""


def flat(texts: list[str]):
    """Texts as bytes, and where each starts and ends; some bytes before them belong to none."""
    parts = [text.encode() for text in texts]
    bounds = np.cumsum([3, *map(len, parts)]).astype(np.int64)
    return *lent(np.frombuffer(b"..." + b"".join(parts), np.uint8).copy()), bounds[:-1].copy(), bounds[1:].copy()


def known_words() -> WordRows:
    data, starts, ends = flat(list(WORDS))
    return WordRows(data, starts, ends, np.ones(len(WORDS), np.int64), index_words(data, starts, ends))


@given(TEXTS, NGRAMS)
@settings(max_examples=60, deadline=None)
@example([[("", " ")], [("the", " "), ("</s>", " "), ("wheel", " ")]], (2, 300))
def test_rows_are_those_of_fasttext(parts, ngrams):
    """The same rows for each text, as often as in the definition."""
    texts = ["".join(word + space for word, space in part) for part in parts]
    word_ngrams, buckets = ngrams
    model = Tiny(word_ngrams=word_ngrams, minn=0, maxn=0, buckets=buckets, words=WORDS)
    found = rows_of(known_words(), word_ngrams, buckets, *flat(texts))
    assert len(found.firsts) == len(texts) + 1
    for number, text in enumerate(texts):
        rows = found.rows[found.firsts[number] : found.firsts[number + 1]]
        assert Counter(rows.tolist()) == Counter(features(model, text))


def test_words_are_ordered_by_count_then_bytes():
    """Rare words have no row, nor has one over the bound, nor what looks like a label."""
    data, starts, ends = flat(["b a c b", "a d b __label__x __label__x </s> d"])
    found = vocabulary(data, starts, ends, 1, 3)
    words = [found.data[start:end].tobytes() for start, end in zip(found.starts, found.ends, strict=True)]
    assert words == [b"</s>", b"b", b"a", b"c"]
    assert found.counts.tolist() == [2, 3, 2, 1]
    assert len(vocabulary(data, starts, ends, 3, 9).counts) == 2


def test_texts_are_cut_by_words():
    """Pieces hold all words in order, but for those over the bound and a short rest."""
    data, starts, ends = flat(["a b c d e f g", "", " h ", "i j k l m n o p q r"])
    begins, stops, owners = cut_words(data, starts, ends, 3, 2)
    pieces = [data[begin:stop].tobytes().decode() for begin, stop in zip(begins, stops, strict=True)]
    assert pieces == ["a b c", "d e f", "h", "i j k", "l m n"]
    assert owners.tolist() == [0, 0, 2, 3, 3]
    assert (stops - begins).tolist() == [5, 5, 1, 5, 5]
    assert count_words(data, starts, ends).tolist() == [7, 0, 1, 10]
